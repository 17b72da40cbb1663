//! The renewal of an instance: a new machine that replaces the present one when no call has it.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::machine::Machine;
use crate::system::background::DropLater;

/// A new machine, and the export of the old machine that decides whether to replace it.
pub struct Renewal {
    pub machine: DropLater<Box<Machine>>,
    /// The counter of the instance that the new machine comes from.
    pub charged: Arc<AtomicUsize>,
    pub question: String,
}

/// The pending renewal of an instance, if any.
#[derive(Default)]
pub struct Pending {
    /// Whether `renewal` is set. Calls read it without the lock.
    is_set: AtomicBool,
    renewal: Mutex<Option<Renewal>>,
}

impl Pending {
    pub fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }

    /// Sets the pending renewal. It replaces an older one, which was made for an earlier state.
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
