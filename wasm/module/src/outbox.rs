//! The outbox: three words with the last result and the progress of an operation.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::memory::in_order;

/// The three words that the host reads.
#[derive(Default)]
#[repr(C)]
pub struct Outbox {
    address: u32,
    length: u32,
    /// [`NOTHING`] if no search is in progress, [`NOTED`] once the request is stored, and a new number after each step.
    progress: AtomicU32,
}

/// The progress while no operation is under way.
pub const NOTHING: u32 = 0;
/// The progress once the request is stored.
pub const NOTED: u32 = 1;

impl Outbox {
    /// Points to no result.
    pub fn clear(&mut self) {
        self.address = 0;
        self.length = 0;
    }

    /// Reports progress to the host.
    pub fn step(&self) {
        self.advance_to(self.progress().wrapping_add(1).max(NOTED + 1));
    }

    /// Returns the progress.
    pub fn progress(&self) -> u32 {
        self.progress.load(Relaxed)
    }

    /// Commits the progress, after all earlier stores.
    pub fn advance_to(&self, progress: u32) {
        in_order();
        self.progress.store(progress, Relaxed);
        in_order();
    }

    /// Points to a result.
    pub fn send<T>(&mut self, result: &[T]) {
        self.address = result.as_ptr() as usize as u32;
        self.length = size_of_val(result) as u32;
    }
}
