//! The log of a pool: calls that each replica makes, in order, before its next call.
//!
//! An entry is one or more calls that belong together. A replica knows how many entries it has applied (`Machine::applied`).
//! A call that borrows a replica first applies the entries that it lacks (`machine::repeat`), so it sees all entries that were
//! appended before it began, and each of them whole.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Default)]
pub struct Log {
    entries: Mutex<Vec<Arc<Entry>>>,
    /// The number of entries. It is read without the lock.
    length: AtomicU64,
}

pub struct Entry {
    pub steps: Vec<Step>,
}

/// A call whose arguments are integers, and which has succeeded elsewhere on the same state.
pub struct Step {
    pub export: Box<[u8]>,
    pub arguments: Vec<i64>,
    pub input: Option<Box<[u8]>>,
}

impl Log {
    pub fn length(&self) -> u64 {
        self.length.load(Ordering::Acquire)
    }

    /// Appends an entry, and returns the number of entries.
    pub fn append(&self, entry: Entry) -> u64 {
        let mut entries = self.entries();
        entries.push(Arc::new(entry));
        let length = entries.len() as u64;
        self.length.store(length, Ordering::Release);
        length
    }

    /// Returns at most `most` entries after the first `applied` ones.
    pub fn after(&self, applied: u64, most: usize) -> Vec<Arc<Entry>> {
        if applied >= self.length() {
            return Vec::new();
        }
        self.entries().iter().skip(applied as usize).take(most).cloned().collect()
    }

    /// No code that can panic runs under this lock, except an allocation that aborts.
    fn entries(&self) -> MutexGuard<'_, Vec<Arc<Entry>>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
