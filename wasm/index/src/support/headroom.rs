//! Memory that a change asks for before it begins.
//!
//! A change that runs out of memory half way cannot go back, so each first asks for a block as large as all that it is going
//! to request, and gives that back at once. From then on no request is refused, as long as all of them together, with what
//! the allocator puts around each, come to no more than that block: the allocator takes a request from a free block that is
//! large enough, and of the one that was given back there is always as much left as is still to be requested. It joins free
//! blocks that lie side by side, and none of its memory goes back to the system.

use hashbrown::HashTable;

use crate::error::Error;
use crate::support::hash::out_of_memory;

/// The alignment of a block that is asked for only to see whether there is room for it. None of it is ever written, so an
/// allocator that wipes what is freed need not wipe that.
pub const PROBE: usize = 128;

/// A block that is larger than this is asked for in pieces at first.
const LONG: usize = 128 * 1024;
/// So much memory is likely to be refused, and is not to be enlarged before that.
const MOST_IN_PIECES: usize = 512 * 1024;
/// A piece is, with what the allocator puts around it, a page of wasm.
const PIECE: usize = 60 * 1024;

/// What the allocator may put around a block, and lose before and behind it.
pub(crate) const AROUND: usize = 4 * size_of::<usize>();

#[derive(Clone, Copy, Debug)]
#[repr(align(128))]
struct Probe {
    _room: [u8; PROBE],
}

/// Memory that is held so that a later change can have it.
#[derive(Debug, Default)]
pub(crate) struct Reserve(Vec<Probe>);

impl Clone for Reserve {
    /// A copy holds as much; a clone is made where memory is not limited.
    fn clone(&self) -> Self {
        Reserve(Vec::with_capacity(self.0.capacity()))
    }
}

impl Reserve {
    /// How many bytes are held.
    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<Probe>()
    }

    /// Holds at least so many bytes. Errors: [`crate::error::Kind::OutOfMemory`], and what was held is held still.
    pub fn hold(&mut self, bytes: usize) -> Result<(), Error> {
        if self.bytes() < bytes {
            self.0 = block(bytes)?;
        }
        Ok(())
    }

    /// Holds at least so many bytes, and not many more than twice as many. Errors: those of [`Reserve::hold`].
    pub fn hold_about(&mut self, bytes: usize) -> Result<(), Error> {
        if self.bytes() > 2 * bytes + PIECE / 8 {
            // Of the block that is freed there is always one of so many bytes.
            self.release();
        }
        self.hold(bytes)
    }

    /// Lets go of all of it.
    pub fn release(&mut self) {
        self.0 = Vec::new();
    }
}

/// Refuses where so many bytes are not to be had in one block.
///
/// Of a large block a part may be free at the end of memory. The allocator would enlarge memory by the whole of it all the
/// same, but for pieces that it is asked for before, by a piece. That takes time, so it is done for large blocks only.
///
/// Errors: [`crate::error::Kind::OutOfMemory`].
pub(crate) fn ensure(bytes: usize) -> Result<(), Error> {
    if (LONG..MOST_IN_PIECES).contains(&bytes) {
        // In a fixed place: a list of pieces would be a request of its own.
        let mut pieces: [Vec<Probe>; MOST_IN_PIECES / PIECE + 1] = Default::default();
        for piece in pieces.iter_mut().take(bytes.div_ceil(PIECE)) {
            *piece = block(PIECE)?;
        }
    }
    block(bytes).map(drop)
}

/// A block of so many bytes.
fn block(bytes: usize) -> Result<Vec<Probe>, Error> {
    let mut probe: Vec<Probe> = Vec::new();
    probe.try_reserve_exact(bytes.div_ceil(size_of::<Probe>())).map_err(out_of_memory)?;
    Ok(probe)
}

/// Gives back the room of a table from which elements were taken, beyond what it may soon need again. The allocator shortens
/// a block where it is, so that this takes no memory.
pub(crate) fn trim<T>(table: &mut Vec<T>) {
    let kept = table.len() + table.len() / 4;
    if table.capacity() > kept + table.len() / 4 + 4 {
        table.shrink_to(kept);
    }
}

/// Appends to a table, if memory allows it. Errors: [`crate::error::Kind::OutOfMemory`].
pub(crate) fn push<T>(table: &mut Vec<T>, element: T) -> Result<(), Error> {
    table.try_reserve(1).map_err(out_of_memory)?;
    table.push(element);
    Ok(())
}

/// Lengthens `table` to `len` at the least, filled with what is nothing. Where it is to grow little by little, an eighth of
/// it is spare.
pub(crate) fn grow<T: Clone + Default>(table: &mut Vec<T>, len: usize) -> Result<(), Error> {
    if len > table.capacity() {
        let room = len.max(table.capacity() + table.capacity() / 8);
        table.try_reserve_exact(room - table.len()).map_err(out_of_memory)?;
    }
    table.resize(len.max(table.len()), T::default());
    Ok(())
}

/// Bytes that pushing `more` elements onto `table` may allocate.
pub(crate) fn growth<T>(table: &Vec<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    (table.len() + more).max(2 * table.capacity()) * size_of::<T>()
}

/// Bytes that inserting `more` elements into `table` may allocate.
pub(crate) fn table_growth<T>(table: &HashTable<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    // It has a power of two of buckets, of which it fills seven eighths, each with a byte of control.
    let buckets = ((table.len() + more).max(table.capacity() + 1) * 8).div_ceil(7).next_power_of_two();
    buckets.max(4) * (size_of::<T>() + 1) + CONTROLS
}

/// Bytes of control that a table has besides, and what it is aligned to.
const CONTROLS: usize = 32;
