//! The machine with which an instance goes on when it is next free.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::Machine;
use crate::system::background::Reaped;

/// A new machine, and the export of the old one that decides whether it takes over.
pub struct Renewal {
    pub machine: Reaped<Box<Machine>>,
    /// The bytes of the instance that had the new machine.
    pub charged: Arc<AtomicUsize>,
    pub question: String,
}

/// The renewal that waits until the machine is free, if there is one.
#[derive(Default)]
pub struct Pending {
    /// Whether `renewal` is set, for all calls that find none.
    is_set: AtomicBool,
    renewal: Mutex<Option<Renewal>>,
}

impl Pending {
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Replaces a renewal that waits: it was made for an earlier state.
    pub fn set(&self, renewal: Renewal) {
        let former = self.renewal().replace(renewal);
        self.is_set.store(true, Ordering::SeqCst);
        drop(former);
    }

    pub fn take(&self) -> Option<Renewal> {
        let mut renewal = self.renewal();
        self.is_set.store(false, Ordering::SeqCst);
        renewal.take()
    }

    /// No code that can panic runs under this lock.
    fn renewal(&self) -> MutexGuard<'_, Option<Renewal>> {
        self.renewal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
