//! The search arena: chunks of linear memory that a search fills one after another, and never frees.
//!
//! A trap may end a search between any two instructions. So every single store leaves a consistent state, and stores are ordered.

use std::alloc::Layout;
use std::cell::Cell;
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::linear::{self, PAGE};
use crate::store_order::in_order;

/// The size of the first chunk: enough for any error, and for the unescaped strings of events.
const FIRST_CHUNK: usize = 32 * 1024;

/// The head of a chunk. Chunks are listed by ascending address.
#[repr(C, align(16))]
struct Chunk {
    end: AtomicUsize,
    /// The address of the next chunk, or 0.
    next: AtomicUsize,
}

#[repr(C)]
struct First {
    head: Chunk,
    rest: Cell<[u8; FIRST_CHUNK]>,
}

pub(crate) struct Arena {
    /// Whether allocations come from the arena rather than from the heap.
    is_searching: AtomicBool,
    /// Whether chunks may be lent to the heap.
    lends: AtomicBool,
    /// The current chunk, and the first free address in it.
    chunk: AtomicUsize,
    free: AtomicUsize,
    /// The number of pages before memory grew by a chunk that may not be listed yet, or 0 if all chunks are listed.
    grown_from: AtomicUsize,
    first: First,
}

// SAFETY: the module is compiled for wasm32 without threads, and one test at a time uses it.
unsafe impl Sync for Arena {}

/// The arena of the module.
pub(crate) static ARENA: Arena = Arena {
    is_searching: AtomicBool::new(false),
    lends: AtomicBool::new(false),
    chunk: AtomicUsize::new(0),
    free: AtomicUsize::new(0),
    grown_from: AtomicUsize::new(0),
    first: First {
        head: Chunk { end: AtomicUsize::new(0), next: AtomicUsize::new(0) },
        rest: Cell::new([0; FIRST_CHUNK]),
    },
};

impl Arena {
    /// Returns whether allocations are made in the arena.
    #[inline]
    pub fn is_searching(&self) -> bool {
        self.is_searching.load(Relaxed)
    }

    pub fn enter(&self, is_next: bool) {
        self.note_growth();
        if is_next {
            let first = &self.first.head;
            first.end.store(self.first() + size_of::<First>(), Relaxed);
            self.move_to(self.first());
        }
        self.is_searching.store(true, Relaxed);
    }

    /// Returns the current chunk, and the first free address in it.
    pub fn mark(&self) -> (usize, usize) {
        (self.chunk.load(Relaxed), self.free.load(Relaxed))
    }

    /// Frees all allocations since the mark. Between the two stores the free address lies behind the marked one, and mostly beyond
    /// the end of the chunk, so no block from before the mark is reused.
    pub fn back_to(&self, (chunk, free): (usize, usize)) {
        self.chunk.store(chunk, Relaxed);
        in_order();
        self.free.store(free, Relaxed);
    }

    pub fn leave(&self) {
        self.note_growth();
        self.is_searching.store(false, Relaxed);
        // A trap may have interrupted the change that memory was lent to.
        self.lends.store(false, Relaxed);
    }

    pub fn lend(&self, lends: bool) {
        self.lends.store(lends, Relaxed);
    }

    /// Unlinks the first chunk of at least `size` bytes, except for the static one, if chunks may be lent. Returns its zeroed memory:
    /// the start and the number of bytes.
    pub fn take_chunk(&self, size: usize) -> Option<(usize, usize)> {
        if !self.lends.load(Relaxed) {
            return None;
        }
        let mut before = self.first();
        loop {
            let at = chunk(before).next.load(Relaxed);
            if at == 0 {
                return None;
            }
            let (end, next) = (chunk(at).end.load(Relaxed), chunk(at).next.load(Relaxed));
            if end - at >= size {
                chunk(before).next.store(next, Relaxed);
                // The next search begins at the first chunk.
                if self.is_used() {
                    self.move_to(self.first());
                }
                // SAFETY: the chunk belongs to the search arena; no search is in progress, and nothing uses this memory.
                unsafe { (at as *mut u8).write_bytes(0, end - at) };
                return Some((at, end - at));
            }
            before = at;
        }
    }

    pub fn is_used(&self) -> bool {
        self.chunk.load(Relaxed) != 0
    }

    pub fn wipe(&self) {
        let mut at = if self.is_used() { self.first() } else { 0 };
        while at != 0 {
            let start = at + size_of::<Chunk>();
            // SAFETY: after its head a chunk holds only what a search wrote, and no search is left (`State::forget`).
            unsafe { (start as *mut u8).write_bytes(0, chunk(at).end.load(Relaxed) - start) };
            at = chunk(at).next.load(Relaxed);
        }
        self.first.head.end.store(0, Relaxed);
        self.chunk.store(0, Relaxed);
        self.free.store(0, Relaxed);
    }

    fn first(&self) -> usize {
        &raw const self.first as usize
    }

    /// Makes the chunk at `address` the current one. Between the two stores the free address lies beyond the end of the old chunk,
    /// so nothing is allocated from it.
    fn move_to(&self, address: usize) {
        self.free.store(address + size_of::<Chunk>(), Relaxed);
        in_order();
        self.chunk.store(address, Relaxed);
    }

    /// Returns a new block, or null if memory is refused.
    pub fn alloc(&self, layout: Layout) -> *mut u8 {
        debug_assert!(self.is_used(), "a search has begun");
        loop {
            let chunk = chunk(self.chunk.load(Relaxed));
            let start = self.free.load(Relaxed).checked_next_multiple_of(layout.align());
            // Both are addresses of one memory of at most 4 GiB, but a layout may be as large as half of it.
            match start.and_then(|start| start.checked_add(layout.size())) {
                Some(end) if end <= chunk.end.load(Relaxed) => {
                    self.free.store(end, Relaxed);
                    return (end - layout.size()) as *mut u8;
                }
                None => return null_mut(),
                Some(_) => {}
            }
            if chunk.next.load(Relaxed) == 0 && !self.grow(layout) {
                return null_mut();
            }
            self.move_to(chunk.next.load(Relaxed));
        }
    }

    /// Appends a chunk with room for `layout`, at least twice as large as the last one. Returns false if memory is refused.
    fn grow(&self, layout: Layout) -> bool {
        let last = self.last();
        let twice = (chunk(last).end.load(Relaxed) - last).saturating_mul(2);
        let bytes = (size_of::<Chunk>() + layout.align()).saturating_add(layout.size());
        self.grown_from.store(linear::pages(), Relaxed);
        in_order();
        let has_grown =
            linear::grow(bytes.max(twice).div_ceil(PAGE)).is_some() || linear::grow(bytes.div_ceil(PAGE)).is_some();
        self.note_growth();
        has_grown
    }

    /// Appends the chunk by which memory has grown, unless it is listed already.
    fn note_growth(&self) {
        let grown_from = self.grown_from.load(Relaxed);
        if grown_from == 0 {
            return;
        }
        let end = linear::end();
        let start = linear::address(grown_from);
        let last = self.last();
        if start < end && start != last {
            let new = chunk(start);
            new.end.store(end, Relaxed);
            new.next.store(0, Relaxed);
            in_order();
            chunk(last).next.store(start, Relaxed);
        }
        in_order();
        self.grown_from.store(0, Relaxed);
    }

    fn last(&self) -> usize {
        let mut last = self.first();
        while chunk(last).next.load(Relaxed) != 0 {
            last = chunk(last).next.load(Relaxed);
        }
        last
    }

    /// Extends or shrinks the last block of `before` bytes in place. Returns false if another block is the last one, or if the
    /// chunk has no room.
    pub fn resize(&self, pointer: *mut u8, before: usize, after: usize) -> bool {
        let is_last = pointer as usize + before == self.free.load(Relaxed);
        let fits = is_last && after <= chunk(self.chunk.load(Relaxed)).end.load(Relaxed) - pointer as usize;
        if fits {
            self.free.store(pointer as usize + after, Relaxed);
        }
        fits
    }

    /// Returns whether a block is in the arena.
    pub fn has(&self, pointer: *mut u8) -> bool {
        let mut at = self.first();
        while at != 0 {
            if (at..chunk(at).end.load(Relaxed)).contains(&(pointer as usize)) {
                return true;
            }
            at = chunk(at).next.load(Relaxed);
        }
        false
    }
}

/// Returns the head of the chunk at `address`.
fn chunk(address: usize) -> &'static Chunk {
    // SAFETY: every address comes from `ARENA`: that of its first chunk, or of pages that only it has, which are never
    // freed. Any bytes are a valid head.
    unsafe { &*(address as *const Chunk) }
}

/// Access for tests to the state of the arena.
#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Forgets all memory. No block is used any more.
    pub(crate) fn renew_arena() {
        let Arena { chunk, free, grown_from, first: First { head, .. }, .. } = &ARENA;
        [chunk, free, grown_from, &head.end, &head.next].into_iter().for_each(|word| word.store(0, Relaxed));
        ARENA.leave();
        ARENA.first.rest.set([0; FIRST_CHUNK]);
    }

    /// Returns the addresses of all chunks.
    pub(crate) fn chunks() -> Vec<usize> {
        let next = |at: &usize| Some(chunk(*at).next.load(Relaxed)).filter(|next| *next != 0);
        std::iter::successors(Some(ARENA.first()), next).take(100).collect()
    }

    /// Returns whether all bytes of a block are in the first chunk, behind its head.
    pub(crate) fn is_in_first(start: usize, end: usize) -> bool {
        ARENA.first() + size_of::<Chunk>() <= start && end <= ARENA.first() + size_of::<First>()
    }

    /// Returns whether a byte of the first chunk satisfies `is`.
    pub(crate) fn first_has(is: impl Fn(u8) -> bool) -> bool {
        ARENA.first.rest.get().into_iter().any(is)
    }

    /// Records that memory has grown from this number of pages, as before a trap.
    pub(crate) fn set_grown_from(pages: usize) {
        ARENA.grown_from.store(pages, Relaxed);
    }

    /// Sets the state between the two stores that move from one chunk to the next.
    pub(crate) fn set_between(chunk: usize, next: usize) {
        ARENA.chunk.store(chunk, Relaxed);
        ARENA.free.store(next + size_of::<Chunk>(), Relaxed);
    }
}
