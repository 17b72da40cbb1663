//! The heap: the global allocator outside of searches. Once memory is large, it grows by large pages.
//!
//! Most reads of a search of a large index are cache misses, and cost more if they are TLB misses too. A host may back memory with
//! pages of 2 MiB, but only if all of such a page existed when its first byte was written.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::null_mut;

use dlmalloc::{Allocator, Dlmalloc};

use crate::arena::ARENA;
use crate::linear::{self, PAGE};
use crate::sizes::end_of;

/// A large page of the host, in wasm pages.
const LARGE_PAGE: usize = 2 * 1024 * 1024 / PAGE;
/// The number of pages from which on memory is large. The unused part at its end is then at most a sixteenth of it.
const MIN_LARGE_PAGES: usize = 16 * LARGE_PAGE;

/// The alignment of blocks on the heap.
const ALIGNMENT: usize = 16;

/// The heap.
pub(crate) static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Growth)));

pub(crate) struct Heap(UnsafeCell<Dlmalloc<Growth>>);

// SAFETY: the module is compiled for wasm32 without threads, and one test at a time uses it.
unsafe impl Sync for Heap {}

// SAFETY: it forwards to the inner allocator, which is borrowed for one call at a time, as it calls nothing but `Growth`. An
// operation that may be interrupted, a search, does not allocate here (`memory`).
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: see above.
        unsafe { (*self.0.get()).calloc(layout.size(), layout.align()) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: see above; the pointer is the caller's promise.
        unsafe { (*self.0.get()).free(pointer, layout.size(), layout.align()) }
    }

    #[inline]
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: see above; the pointer is the caller's promise.
        unsafe { (*self.0.get()).realloc(pointer, layout.size(), layout.align(), size) }
    }
}

impl Heap {
    /// Shrinks a block of `before` bytes to `after` bytes. The block stays where it is, so this takes no memory.
    ///
    /// # Safety
    ///
    /// The block is of this heap, and has at least as many bytes.
    #[inline]
    pub unsafe fn shrink(&self, pointer: *mut u8, before: usize, after: usize) -> *mut u8 {
        // Alignment 1, because the allocator moves a block whose alignment is greater than its own.
        // SAFETY: see above; a block that stays is as aligned as before.
        unsafe { (*self.0.get()).realloc(pointer, before, 1, after) }
    }

    /// Forgets all memory.
    ///
    /// # Safety
    ///
    /// No block of the heap is used any more, and no other thread uses the heap.
    #[cfg(test)]
    pub unsafe fn renew(&self) {
        // SAFETY: the caller's promise.
        unsafe { *self.0.get() = Dlmalloc::new_with_allocator(Growth) };
    }
}

/// The memory of the heap.
struct Growth;

// SAFETY: it returns exclusive zeroed memory, at least as much as requested, and never takes it back.
unsafe impl Allocator for Growth {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let (before, needed) = (linear::pages(), size.div_ceil(PAGE));
        let up_to =
            if before < MIN_LARGE_PAGES { before + needed } else { (before + needed).next_multiple_of(LARGE_PAGE) };
        let grown = grow(up_to - before).or_else(|| grow(needed)).or_else(|| ARENA.take_chunk(size));
        grown.map_or((null_mut(), 0, 0), |(start, size)| (start as *mut u8, size, 0))
    }

    fn remap(&self, _pointer: *mut u8, _before: usize, _after: usize, _can_move: bool) -> *mut u8 {
        null_mut()
    }

    fn free_part(&self, _pointer: *mut u8, _before: usize, _after: usize) -> bool {
        false
    }

    fn free(&self, _pointer: *mut u8, _size: usize) -> bool {
        false
    }

    fn can_release_part(&self, _flags: u32) -> bool {
        false
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        PAGE
    }
}

/// Grows memory. Returns the start of the new part and its number of bytes.
fn grow(pages: usize) -> Option<(usize, usize)> {
    let start = linear::address(linear::grow(pages)?);
    // The last block of the address space is left out, because its end address would wrap to 0.
    let size = end_of(pages as u32) as usize;
    Some((start, size.min(usize::MAX - start) & !(ALIGNMENT - 1)))
}
