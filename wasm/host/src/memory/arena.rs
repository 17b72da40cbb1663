//! An arena: reserved addresses, divided into adjacent slots of one size.
//!
//! A slot begins without memory. Its open part is one mapping and its closed part another; adjacent closed slots share
//! one mapping. An arena reserves many slots at a time and never unmaps them, because reserved addresses take no
//! memory.

use std::io;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(target_os = "linux")]
use rustix::mm::{madvise, Advice};
use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};

/// The alignment of slots: a large page.
const ALIGNMENT: usize = 2 << 20;

/// The flags of addresses without memory. Only Linux counts such mappings as memory, unless NORESERVE is set.
#[cfg(target_os = "linux")]
const ADDRESSES: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
#[cfg(not(target_os = "linux"))]
const ADDRESSES: MapFlags = MapFlags::PRIVATE;

pub struct Arena {
    /// The bytes of a slot, a multiple of `ALIGNMENT`.
    size: usize,
    /// The most slots that are reserved at a time. With too few addresses it is fewer.
    batch: usize,
    /// The free list: addresses of unused slots. The last one is used next.
    free: Mutex<Vec<usize>>,
}

/// A slot of an arena, owned exclusively. Dropping it frees its memory.
pub struct Slot {
    arena: &'static Arena,
    start: usize,
}

impl Arena {
    pub const fn new(size: usize, batch: usize) -> Self {
        assert!(size.is_multiple_of(ALIGNMENT));
        Self { size, batch, free: Mutex::new(Vec::new()) }
    }

    /// Returns a slot without memory.
    pub fn slot(&'static self) -> io::Result<Slot> {
        let mut free = self.free();
        if free.is_empty() {
            self.reserve(&mut free)?;
        }
        let start = free.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Slot { arena: self, start })
    }

    /// Reserves a batch of slots, or a quarter as many after each refusal. The `ALIGNMENT` bytes before the first slot
    /// are never memory: they guard it as the closed end of a slot would.
    fn reserve(&self, free: &mut Vec<usize>) -> io::Result<()> {
        let mut batch = self.batch;
        loop {
            // SAFETY: the system chooses a place that is free.
            let mapped =
                unsafe { mmap_anonymous(null_mut(), batch * self.size + 2 * ALIGNMENT, ProtFlags::empty(), ADDRESSES) };
            match mapped {
                Ok(start) => {
                    let first = (start.addr() + ALIGNMENT).next_multiple_of(ALIGNMENT);
                    free.extend((0..batch).rev().map(|index| first + index * self.size));
                    return Ok(());
                }
                Err(_) if batch > 1 => batch /= 4,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        // No code that panics runs under this lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// Makes the bytes `from..to`, whole pages, readable and writable. New memory is zeros.
    pub fn open(&mut self, from: usize, to: usize) -> io::Result<()> {
        assert!(from <= to && to <= self.arena.size);
        // SAFETY: these bytes lie in this slot, which is ours alone, and bytes that could be read or written still can.
        unsafe { mprotect(self.start().add(from).cast(), to - from, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Frees the memory of the bytes `from..to`, whole pages, which stay open. Only Linux can; otherwise `close` frees
    /// the memory.
    ///
    /// # Safety
    ///
    /// Nothing may read these bytes any more.
    pub unsafe fn drain(&mut self, from: usize, to: usize) {
        assert!(from <= to && to <= self.arena.size);
        #[cfg(target_os = "linux")]
        // SAFETY: these bytes lie in this slot, which is ours alone, and nothing reads them, as the caller promises.
        let _ = unsafe { madvise(self.start().add(from).cast(), to - from, Advice::LinuxDontNeed) };
    }

    /// Frees the slot's memory, and makes its addresses closed as at first. After an error nothing has changed.
    ///
    /// # Safety
    ///
    /// Nothing may refer to the memory any more.
    pub unsafe fn close(&mut self) -> io::Result<()> {
        let flags = ADDRESSES | MapFlags::FIXED;
        // SAFETY: this replaces the slot's mappings, of any kind; the slot is ours alone, and nothing refers to its memory,
        // as the caller promises.
        unsafe { mmap_anonymous(self.start().cast(), self.arena.size, ProtFlags::empty(), flags) }?;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: a value that refers to the memory has this slot, and drops it last. A slot that cannot be closed has no
        // other owner: that only costs addresses.
        if unsafe { self.close() }.is_ok() {
            self.arena.free().push(self.start);
        }
    }
}
