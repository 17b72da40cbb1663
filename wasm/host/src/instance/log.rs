//! The log of a pool: the changes that each replica applies, in order, before its next call.
//!
//! An entry is one or more calls that are applied together. A replica counts the entries that it has applied
//! (`Machine::applied`). A call that borrows a replica first applies the missing entries (`machine::replay`), so it
//! sees every entry that was appended before it began. `trim` drops the entries that every replica contains.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::LogEntry;

#[derive(Default)]
pub struct Log {
    entries: Mutex<Entries>,
    /// The number of entries ever appended. Callers read it without the lock.
    length: AtomicU64,
}

#[derive(Default)]
struct Entries {
    /// The number of entries that `trim` dropped.
    first: u64,
    list: VecDeque<Arc<LogEntry>>,
}

impl Log {
    /// Returns the number of entries ever appended.
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Appends an entry. Returns the new length.
    pub fn append(&self, entry: LogEntry) -> u64 {
        let mut entries = self.entries();
        entries.list.push_back(Arc::new(entry));
        let length = entries.first + entries.list.len() as u64;
        self.length.store(length, Ordering::Release);
        length
    }

    /// Returns at most `max` entries after the first `applied` ones, or `None` if `trim` dropped some of them.
    pub fn after(&self, applied: u64, max: usize) -> Option<Vec<Arc<LogEntry>>> {
        if applied >= self.length() {
            return Some(Vec::new());
        }
        let entries = self.entries();
        let from = usize::try_from(applied.checked_sub(entries.first)?).ok()?;
        let to = entries.list.len().min(from.saturating_add(max));
        Some(entries.list.range(from.min(to)..to).cloned().collect())
    }

    /// Drops the first `applied` entries.
    pub fn trim(&self, applied: u64) {
        let mut entries = self.entries();
        let count = applied.saturating_sub(entries.first).min(entries.list.len() as u64);
        let dropped: Vec<_> = entries.list.drain(..count as usize).collect();
        entries.first += count;
        drop(entries);
        // Free many entries outside of the lock, because it takes long.
        drop(dropped);
    }

    /// No code that can panic runs under this lock, except an allocation that aborts.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
