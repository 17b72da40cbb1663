//! Counts of the live modules, instances and suspended calls, for tests of leaks.

use std::sync::atomic::{AtomicUsize, Ordering};

pub static MODULES: AtomicUsize = AtomicUsize::new(0);
pub static INSTANCES: AtomicUsize = AtomicUsize::new(0);
pub static SUSPENDED: AtomicUsize = AtomicUsize::new(0);

/// A field that counts its owner while the owner lives.
pub struct Counted(&'static AtomicUsize);

impl Counted {
    pub fn new(counter: &'static AtomicUsize) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(counter)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
