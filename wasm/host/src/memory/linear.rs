//! Linear memories: each lies at the start of a slot of addresses, and grows in place.
//!
//! A slot covers all addresses that compiled code can reach without a bounds check: 4 GiB, and a guard after them for
//! the offsets of instructions. Accesses beyond the memory hit closed addresses and trap. A memory takes two mappings,
//! and the end of its slot guards the next slot.

use std::io;
use std::thread;

use wasmtime::{LinearMemory, MemoryCreator, MemoryType, Result};

use crate::memory::arena::{Arena, Slot};
use crate::memory::pages;

/// The most bytes of a memory: the range of 32-bit addresses, also for a memory of 64-bit addresses.
pub const MAX_MEMORY_BYTES: usize = 4 << 30;
/// The bytes after the largest memory, which are never memory.
pub const GUARD_BYTES: usize = 32 << 20;

/// The bytes that are freed at a time, in a tenth of a millisecond. Freeing holds the process's lock on mappings, so
/// other threads need a turn between two chunks.
const FREE_CHUNK: usize = 2 << 20;

/// The bytes of a large page.
const LARGE_PAGE: usize = 2 << 20;

static ARENA: Arena = Arena::new(MAX_MEMORY_BYTES + GUARD_BYTES, 256);

/// Allocates memories for wasmtime.
pub struct Memories;

// SAFETY: a memory that it makes is zeros, at the beginning of a slot of its own, aligned to pages. The slot is as long as
// the reservation and the guard together (`new_memory` refuses others), and no more of it than the memory's bytes is
// readable or writable, so an access beyond them traps.
unsafe impl MemoryCreator for Memories {
    fn new_memory(
        &self,
        _ty: MemoryType,
        minimum: usize,
        _maximum: Option<usize>,
        reserved: Option<usize>,
        guard: usize,
    ) -> Result<Box<dyn LinearMemory>, String> {
        if reserved != Some(MAX_MEMORY_BYTES) || guard != GUARD_BYTES {
            return Err(format!(
                "wasmtime asks for a memory of {reserved:?} reserved bytes and a guard of {guard} bytes"
            ));
        }
        let slot = ARENA.slot().map_err(|error| format!("the host has no addresses for a memory: {error}"))?;
        let mut memory = Linear { slot, length: 0 };
        memory.open(minimum).map_err(|error| format!("the host has no memory of {minimum} bytes: {error}"))?;
        Ok(Box::new(memory))
    }
}

struct Linear {
    slot: Slot,
    length: usize,
}

impl Linear {
    fn open(&mut self, length: usize) -> io::Result<()> {
        if length > MAX_MEMORY_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                format!("a memory ends at {MAX_MEMORY_BYTES} bytes"),
            ));
        }
        // A page of a module is a multiple of the system's pages.
        self.slot.open(self.length, length)?;
        // The large pages that are now complete. The first one stays as it is, so that small memories are made quickly.
        let large = [self.length, length].map(|bytes| bytes / LARGE_PAGE * LARGE_PAGE);
        self.length = length;
        if large[0] > 0 && large[1] > large[0] {
            pages::merge(self.slot.start().wrapping_add(large[0]), large[1] - large[0]);
        }
        Ok(())
    }
}

impl Drop for Linear {
    fn drop(&mut self) {
        let mut freed = 0;
        while freed < self.length {
            let end = self.length.min(freed + FREE_CHUNK);
            // SAFETY: wasmtime's memory, which alone used these bytes, drops this.
            unsafe { self.slot.drain(freed, end) };
            freed = end;
            thread::yield_now();
        }
    }
}

// SAFETY: the bytes stay where they are, and only their owner, wasmtime's memory, uses them until it drops this.
unsafe impl LinearMemory for Linear {
    fn byte_size(&self) -> usize {
        self.length
    }

    fn byte_capacity(&self) -> usize {
        MAX_MEMORY_BYTES
    }

    fn grow_to(&mut self, length: usize) -> Result<()> {
        Ok(self.open(length)?)
    }

    fn as_ptr(&self) -> *mut u8 {
        self.slot.start()
    }
}
