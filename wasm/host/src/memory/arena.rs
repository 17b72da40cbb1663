//! An arena: addresses in slots of one size, side by side.
//!
//! A slot begins as addresses without memory. The open part of a slot is one mapping and the rest another. Slots without
//! memory are one mapping together with their neighbors. An arena reserves many slots at a time and keeps them: reserved
//! addresses take no memory.

use std::io;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[cfg(target_os = "linux")]
use rustix::mm::{madvise, Advice};
use rustix::mm::{mmap_anonymous, mprotect, MapFlags, MprotectFlags, ProtFlags};

/// The alignment of slots: a large page.
const ALIGNMENT: usize = 2 << 20;

/// The flags of addresses without memory. Systems other than Linux do not count such mappings as memory anyway.
#[cfg(target_os = "linux")]
const ADDRESSES: MapFlags = MapFlags::PRIVATE.union(MapFlags::NORESERVE);
#[cfg(not(target_os = "linux"))]
const ADDRESSES: MapFlags = MapFlags::PRIVATE;

pub struct Arena {
    /// The bytes of a slot, a multiple of `ALIGNMENT`.
    size: usize,
    /// The number of slots that are reserved at a time, if the process has enough addresses.
    many: usize,
    /// The addresses of the free slots. The last one is used next.
    free: Mutex<Vec<usize>>,
}

/// A slot that only its owner uses. Dropping it frees its memory.
pub struct Slot {
    arena: &'static Arena,
    start: usize,
}

impl Arena {
    pub const fn new(size: usize, many: usize) -> Self {
        assert!(size.is_multiple_of(ALIGNMENT));
        Self { size, many, free: Mutex::new(Vec::new()) }
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

    /// Reserves as many slots as possible at once. At least `ALIGNMENT` bytes before the first slot are not memory, as if a
    /// slot with a closed end preceded it.
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
        // No code that panics runs under this lock.
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Slot {
    pub fn start(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start)
    }

    /// Makes the bytes `from..to` readable and writable. New memory is zeros. Both ends are at whole pages.
    pub fn open(&mut self, from: usize, to: usize) -> io::Result<()> {
        assert!(from <= to && to <= self.arena.size);
        // SAFETY: these bytes lie in this slot, which is ours alone, and bytes that could be read or written still can.
        unsafe { mprotect(self.start().add(from).cast(), to - from, MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Frees the memory of the bytes `from..to`, which stay open, on systems that can. Both ends are at whole pages. An error
    /// leaves the memory to `close`.
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

    /// Frees the slot's memory: its addresses are as they were at first. After an error nothing has changed.
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
