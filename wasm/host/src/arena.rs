//! Addresses in slots of one size, side by side.
//!
//! A slot begins as addresses without memory. What is opened of it is one mapping and what is not another, and slots
//! without memory are one mapping together with their neighbours. The slots of an arena are reserved many at a time and
//! kept: reserved addresses take no memory.

use std::io;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};

/// What slots are aligned to: a large page.
const ALIGNMENT: usize = 2 << 20;

/// A mapping of addresses without memory. Elsewhere than on Linux, such mappings are not counted as memory anyway.
#[cfg(target_os = "linux")]
const ADDRESSES: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
#[cfg(not(target_os = "linux"))]
const ADDRESSES: MapFlags = MapFlags::PRIVATE;

pub struct Arena {
    /// The bytes of a slot, a multiple of `ALIGNMENT`.
    size: usize,
    /// How many slots are reserved at a time, where the process may have so many addresses.
    many: usize,
    /// The addresses of the slots that nobody has. The last is the next.
    free: Mutex<Vec<usize>>,
}

/// A slot that the owner alone uses. Dropped, its memory is freed.
pub struct Slot {
    arena: &'static Arena,
    start: usize,
}

impl Arena {
    pub const fn new(size: usize, many: usize) -> Self {
        assert!(size.is_multiple_of(ALIGNMENT));
        Self { size, many, free: Mutex::new(Vec::new()) }
    }

    /// A slot without memory.
    pub fn slot(&'static self) -> io::Result<Slot> {
        let mut free = self.free();
        if free.is_empty() {
            self.reserve(&mut free)?;
        }
        let start = free.pop().ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Slot { arena: self, start })
    }

    /// Reserves as many slots as can be had at once. In front of the first there are `ALIGNMENT` bytes at least that are
    /// no memory, as behind each slot that ends so.
    fn reserve(&self, free: &mut Vec<usize>) -> io::Result<()> {
        let mut many = self.many;
        loop {
            // SAFETY: the system chooses a place that is free.
            let mapped =
                unsafe { mmap_anonymous(null_mut(), many * self.size + 2 * ALIGNMENT, ProtFlags::empty(), ADDRESSES) };
            match mapped {
                Ok(start) => {
                    let first = (start.addr() + ALIGNMENT).next_multiple_of(ALIGNMENT);
                    free.extend((0..many).rev().map(|index| first + index * self.size));
                    return Ok(());
                }
                Err(_) if many > 1 => many /= 4,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn free(&self) -> MutexGuard<'_, Vec<usize>> {
        // Nothing that panics runs under this lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// Makes the bytes `from..to` readable and writable: zeros, where they were no memory. Both are of whole pages.
    pub fn open(&mut self, from: usize, to: usize) -> io::Result<()> {
        assert!(from <= to && to <= self.arena.size);
        // SAFETY: these bytes lie in this slot, which is ours alone, and bytes that could be read or written still can.
        unsafe { mprotect(self.start().add(from).cast(), to - from, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Frees the slot's memory: its addresses are as they were at first. After an error it is as before.
    ///
    /// # Safety
    ///
    /// Nothing refers to the memory any more.
    pub unsafe fn close(&mut self) -> io::Result<()> {
        let flags = ADDRESSES | MapFlags::FIXED;
        // SAFETY: this replaces the slot's mappings, whatever they are; the slot is ours alone, and nothing refers to its
        // memory, as the caller promises.
        unsafe { mmap_anonymous(self.start().cast(), self.arena.size, ProtFlags::empty(), flags) }?;
        Ok(())
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: who refers to the memory has this slot, and drops it last. A slot that cannot be closed has no other
        // owner: that only costs addresses.
        if unsafe { self.close() }.is_ok() {
            self.arena.free().push(self.start);
        }
    }
}
