//! Limits of the memories and tables of an instance.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use wasmtime::{ResourceLimiter, Result};

/// The most memories of an instance. Each reserves 4 GiB of addresses, whatever its size.
pub const MAX_MEMORIES: usize = 16;
const MAX_TABLES: usize = 64;
/// The most elements of a table. An instruction on all of them then takes two slices at most.
pub const MAX_TABLE_ELEMENTS: usize = 100_000;

/// One budget for all memories and tables of a machine.
pub struct Limits {
    bytes: usize,
    taken: usize,
    /// The part of `taken` that is included in `charged`.
    counted: usize,
    /// The bytes of all machines of an instance, which `info` reads while calls run.
    charged: Arc<AtomicUsize>,
    refused: bool,
}

impl Limits {
    pub fn new(bytes: usize, charged: Arc<AtomicUsize>) -> Self {
        Self { bytes, taken: 0, counted: 0, charged, refused: false }
    }

    /// Stops counting the bytes taken so far: the pool counts the snapshot once for all replicas.
    pub fn share(&mut self) {
        self.charged.fetch_sub(std::mem::take(&mut self.counted), Ordering::Relaxed);
    }

    /// Counts the bytes in `charged` from now on.
    pub fn count_in(&mut self, charged: Arc<AtomicUsize>) {
        let counted = self.counted;
        self.share();
        charged.fetch_add(counted, Ordering::Relaxed);
        self.counted = counted;
        self.charged = charged;
    }

    /// Returns whether a growth was refused since `forget_refusal`.
    pub fn refused(&self) -> bool {
        self.refused
    }

    pub fn forget_refusal(&mut self) {
        self.refused = false;
    }

    /// Charges `more` bytes if the budget allows. They stay charged if the operating system then refuses them, because
    /// wasmtime does not report which of its failures came after a charge.
    fn charge(&mut self, more: usize, fits_type: bool) -> bool {
        let total = self.taken.saturating_add(more);
        let granted = fits_type && total <= self.bytes;
        if granted {
            self.taken = total;
            self.counted += more;
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
        Ok(self.charge(bytes, desired <= MAX_TABLE_ELEMENTS && maximum.is_none_or(|maximum| desired <= maximum)))
    }

    fn memories(&self) -> usize {
        MAX_MEMORIES
    }

    fn tables(&self) -> usize {
        MAX_TABLES
    }

    fn instances(&self) -> usize {
        1
    }
}
