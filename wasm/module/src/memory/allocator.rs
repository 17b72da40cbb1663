//! The allocator of the module: the search arena while a search runs, and the heap otherwise.

use std::alloc::{GlobalAlloc, Layout};

use be_tree_index::support::headroom::PROBE;

use crate::arena::ARENA;
use crate::heap::HEAP;
use crate::linear;

pub(crate) struct Allocator;

#[cfg_attr(target_arch = "wasm32", global_allocator)]
pub(crate) static ALLOCATOR: Allocator = Allocator;

// SAFETY: on the heap it forwards to the allocator there. In a search every block is fresh memory of a chunk, aligned,
// and after all blocks before it; nothing else writes to a chunk, and no chunk is used again until the next search
// begins, which forgets all blocks of the last one (`Search::abandon`, `Spill::choose`, `State::transient`).
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if ARENA.is_searching() {
            return ARENA.alloc(layout);
        }
        // SAFETY: the caller's promise.
        unsafe { HEAP.alloc(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if ARENA.is_searching() {
            let block = ARENA.alloc(layout);
            if !block.is_null() {
                // SAFETY: the block has this size.
                unsafe { block.write_bytes(0, layout.size()) };
            }
            return block;
        }
        // SAFETY: the caller's promise.
        unsafe { HEAP.alloc_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // A search may drop a value that an earlier, interrupted search left half written.
        if !ARENA.is_searching() && !ARENA.has(pointer) {
            // SAFETY: the caller's promise, and the block is not in the memory of searches.
            unsafe {
                if layout.align() < PROBE {
                    pointer.write_bytes(0, layout.size());
                }
                HEAP.dealloc(pointer, layout)
            }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_searching = ARENA.is_searching();
        let has = ARENA.has(pointer);
        match (is_searching, has) {
            // SAFETY: the caller's promise, and the block is not in the memory of searches; it is as long as the cleared
            // bytes. A shorter block stays where it is.
            (false, false) if size <= layout.size() => unsafe {
                pointer.add(size).write_bytes(0, layout.size() - size);
                return HEAP.shrink(pointer, layout.size(), size);
            },
            // Copied below: the heap's own reallocation would leave the old block uncleared.
            (false, false) => {}
            // A search must not enlarge a table that outlives it: a trap could leave it inconsistent.
            (true, false) => linear::trap(),
            _ => {}
        }
        if is_searching && ARENA.resize(pointer, layout.size(), size) {
            return pointer;
        }
        // SAFETY: the size is the caller's promise; the blocks are distinct, and as large as the copied bytes.
        unsafe {
            let block = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !block.is_null() {
                block.copy_from_nonoverlapping(pointer, size.min(layout.size()));
                self.dealloc(pointer, layout);
            }
            block
        }
    }
}
