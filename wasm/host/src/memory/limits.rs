//! Limits of the host's memory that an instance may take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use wasmtime::{ResourceLimiter, Result};

/// The most memories of an instance. Each reserves 4 GiB of addresses, whatever its size.
pub const MEMORIES: usize = 16;
const TABLES: usize = 64;
/// The most elements of a table, so that an instruction on all of them takes at most a slice or two.
pub const TABLE_ELEMENTS: usize = 100_000;

/// One budget for all memories and tables of a machine.
pub struct Limits {
    bytes: usize,
    taken: usize,
    /// The part of `taken` that is in `charged`.
    own: usize,
    /// The bytes of all machines of an instance, which `info` reads while calls have the machines.
    charged: Arc<AtomicUsize>,
    refused: bool,
}

impl Limits {
    pub fn new(bytes: usize, charged: Arc<AtomicUsize>) -> Self {
        Self { bytes, taken: 0, own: 0, charged, refused: false }
    }

    /// Shares the bytes taken so far with other machines. They are then counted once for all of them.
    pub fn share(&mut self) {
        self.charged.fetch_sub(std::mem::take(&mut self.own), Ordering::Relaxed);
    }

    /// Counts the bytes taken so far in `charged` from now on.
    pub fn count_in(&mut self, charged: Arc<AtomicUsize>) {
        let own = self.own;
        self.share();
        charged.fetch_add(own, Ordering::Relaxed);
        self.own = own;
        self.charged = charged;
    }

    /// Returns whether a growth was refused since `forget_refusal`.
    pub fn refused(&self) -> bool {
        self.refused
    }

    pub fn forget_refusal(&mut self) {
        self.refused = false;
    }

    /// Charges `more` bytes if the budget has them. If the operating system then refuses them, they stay charged, because
    /// wasmtime does not report which of its failures came after a charge.
    fn charge(&mut self, more: usize, fits_type: bool) -> bool {
        let total = self.taken.saturating_add(more);
        let granted = fits_type && total <= self.bytes;
        if granted {
            self.taken = total;
            self.own += more;
            self.charged.fetch_add(more, Ordering::Relaxed);
        } else {
            self.refused = true;
        }
        granted
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        self.share();
    }
}

impl ResourceLimiter for Limits {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        Ok(self.charge(desired - current, maximum.is_none_or(|maximum| desired <= maximum)))
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> Result<()> {
        self.refused = true;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> Result<bool> {
        let bytes = (desired - current).saturating_mul(size_of::<usize>());
        Ok(self.charge(bytes, desired <= TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum)))
    }

    fn memories(&self) -> usize {
        MEMORIES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn instances(&self) -> usize {
        1
    }
}
