//! Memory that a change requests before it begins.
//!
//! A change that runs out of memory cannot be undone. So it first requests one block as large as all its requests together,
//! and frees that block at once. No later request fails if all of them together, with the allocator's overhead for each, are
//! at most as large as the block. The allocator serves a request from a free block that is large enough, and the rest of the
//! freed block is always as large as the requests still to come. The allocator joins adjacent free blocks, and returns no
//! memory to the system.

use hashbrown::HashTable;

use crate::error::Error;
use crate::support::footprint::of_table;
use crate::support::hash::out_of_memory;

/// The alignment of a block that is requested only as a test. Nothing writes to it, so an allocator that clears freed memory
/// need not clear it.
pub const PROBE: usize = 128;

/// A block of fewer bytes is requested in one piece.
const MIN_WHOLE_BYTES: usize = 128 * 1024;
/// A block of more bytes is not grown piecewise, because the request will probably be refused.
const MAX_PIECEWISE_BYTES: usize = 512 * 1024;
/// The size of a piece. With the allocator's overhead it fills one page of wasm.
const PIECE: usize = 60 * 1024;

/// The allocator's overhead for a block, with the bytes lost before and after it.
pub(crate) const AROUND: usize = 4 * size_of::<usize>();

#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Probe {
    _room: [u8; PROBE],
}

/// Memory that is held for a later change.
#[derive(Debug, Default)]
pub(crate) struct Reserve(Vec<Probe>);

impl Clone for Reserve {
    /// Allocates a reserve of the same size. Aborts if memory runs out, so clone only where memory is unlimited.
    fn clone(&self) -> Self {
        Reserve(Vec::with_capacity(self.0.capacity()))
    }
}

impl Reserve {
    /// Returns the number of bytes held.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Probe>()
    }

    /// Returns the heap bytes of the reserve.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.0)
    }

    /// Holds at least `bytes` bytes. Errors: [`crate::error::Kind::OutOfMemory`]; the reserve then stays as it was.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        if self.bytes() < bytes {
            self.0 = block(bytes)?;
        }
        Ok(())
    }

    /// Holds at least `bytes` bytes, and not much more than twice that. Errors: those of [`Reserve::hold`].
    pub fn hold_about(&mut self, bytes: usize) -> Result<(), Error> {
        if self.bytes() > 2 * bytes + PIECE / 8 {
            // The block that is freed here is larger than `bytes`, so the next request succeeds.
            self.release();
        }
        self.hold(bytes)
    }

    /// Frees all memory held.
    pub fn release(&mut self) {
        self.0 = Vec::new();
    }
}

/// Checks that one block of `bytes` bytes is available.
///
/// Free memory at the end of the heap may hold a part of a large block, yet the allocator would grow the heap by the whole
/// block. So pieces are requested first, and the heap grows by pieces. That takes time, so small blocks are requested whole.
///
/// Errors: [`crate::error::Kind::OutOfMemory`].
pub(crate) fn ensure(bytes: usize) -> Result<(), Error> {
    if (MIN_WHOLE_BYTES..MAX_PIECEWISE_BYTES).contains(&bytes) {
        // An array, because a `Vec` of pieces would be one more request.
        let mut pieces: [Vec<Probe>; MAX_PIECEWISE_BYTES / PIECE + 1] = Default::default();
        for piece in pieces.iter_mut().take(bytes.div_ceil(PIECE)) {
            *piece = block(PIECE)?;
        }
    }
    block(bytes).map(drop)
}

/// Returns a block of at least `bytes` bytes.
fn block(bytes: usize) -> Result<Vec<Probe>, Error> {
    let mut probe: Vec<Probe> = Vec::new();
    probe.try_reserve_exact(bytes.div_ceil(size_of::<Probe>())).map_err(out_of_memory)?;
    Ok(probe)
}

/// Shrinks a table after removals, except for room that it may soon need again. The allocator shrinks a block in place, so
/// this takes no memory.
pub(crate) fn trim<T>(table: &mut Vec<T>) {
    let kept = table.len() + table.len() / 4;
    if table.capacity() > kept + table.len() / 4 + 4 {
        table.shrink_to(kept);
    }
}

/// Appends to a table. Errors: [`crate::error::Kind::OutOfMemory`].
pub fn push<T>(table: &mut Vec<T>, element: T) -> Result<(), Error> {
    table.try_reserve(1).map_err(out_of_memory)?;
    table.push(element);
    Ok(())
}

/// Extends `table` to at least `len` elements with default values. If it must grow, its capacity grows by at least an
/// eighth.
pub(crate) fn grow<T: Clone + Default>(table: &mut Vec<T>, len: usize) -> Result<(), Error> {
    if len > table.capacity() {
        let room = len.max(table.capacity() + table.capacity() / 8);
        table.try_reserve_exact(room - table.len()).map_err(out_of_memory)?;
    }
    table.resize(len.max(table.len()), T::default());
    Ok(())
}

/// Returns the bytes that pushing `more` elements onto `table` may allocate.
pub(crate) fn growth<T>(table: &Vec<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    (table.len() + more).max(2 * table.capacity()) * size_of::<T>()
}

/// Returns the bytes that inserting `more` elements into `table` may allocate.
pub(crate) fn table_growth<T>(table: &HashTable<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    // The number of buckets is a power of two. At most seven eighths are full, and each has a control byte.
    let buckets = ((table.len() + more).max(table.capacity() + 1) * 8).div_ceil(7).next_power_of_two();
    buckets.max(4) * (size_of::<T>() + 1) + CONTROLS
}

/// Additional control bytes of a table, with its alignment.
const CONTROLS: usize = 32;
