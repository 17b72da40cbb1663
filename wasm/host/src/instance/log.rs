//! The log of a pool: calls that each replica makes, in order, before its next call.
//!
//! An entry is one or more calls that belong together. A replica knows how many entries it has applied (`Machine::applied`).
//! A call that borrows a replica first applies the entries that it lacks (`machine::replay`), so it sees all entries that were
//! appended before it began, and each of them whole. Entries that every replica of the pool contains are dropped (`trim`).

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::Entry;

#[derive(Default)]
pub struct Log {
    entries: Mutex<Entries>,
    /// The number of entries so far, dropped ones included. It is read without the lock.
    length: AtomicU64,
}

#[derive(Default)]
struct Entries {
    /// The number of entries that were dropped.
    first: u64,
    list: VecDeque<Arc<Entry>>,
}

impl Log {
    /// Returns the number of entries so far.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Appends an entry, and returns the number of entries so far.
    pub fn append(&self, entry: Entry) -> u64 {
        let mut entries = self.entries();
        entries.list.push_back(Arc::new(entry));
        let length = entries.first + entries.list.len() as u64;
        self.length.store(length, Ordering::Release);
        length
    }

    /// Returns at most `most` entries after the first `applied` ones, or `None` if some of them were dropped.
    pub fn after(&self, applied: u64, most: usize) -> Option<Vec<Arc<Entry>>> {
        if applied >= self.length() {
            return Some(Vec::new());
        }
        let entries = self.entries();
        let from = usize::try_from(applied.checked_sub(entries.first)?).ok()?;
        let to = entries.list.len().min(from.saturating_add(most));
        Some(entries.list.range(from.min(to)..to).cloned().collect())
    }

    /// Drops all but the entries after the first `applied` ones.
    pub fn trim(&self, applied: u64) {
        let mut entries = self.entries();
        let count = applied.saturating_sub(entries.first).min(entries.list.len() as u64);
        let dropped: Vec<_> = entries.list.drain(..count as usize).collect();
        entries.first += count;
        drop(entries);
        // Outside of the lock, because freeing many entries takes long.
        drop(dropped);
    }

    /// No code that can panic runs under this lock, except an allocation that aborts.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
