//! An allocator that counts what this thread requests. A pass over an expression requests tables as long as the expression, so
//! the requested bytes tell how often long expressions are read. They are the same in every run. It is the allocator of each
//! program that has this module.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use be_tree_index::support::headroom::PROBE;

thread_local! {
    /// Bytes that were requested and written, bytes that are held, and the most that were held.
    static REQUESTED: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

/// The bytes for which each request counts, in addition to its own.
const REQUEST: usize = 32;

struct Counting;

// SAFETY: all blocks are the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Nothing writes to a block that is requested as a test.
        if layout.align() != PROBE {
            REQUESTED.set(REQUESTED.get() + layout.size() + REQUEST);
        }
        HELD.set(HELD.get() + layout.size() as isize);
        MOST.set(MOST.get().max(HELD.get()));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size() as isize);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The cost of an operation: the bytes that it requested, and the most that it held beyond those held before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    requested: usize,
    most_held: usize,
}

impl Cost {
    pub fn requested(&self) -> usize {
        self.requested
    }

    pub fn most_held(&self) -> usize {
        self.most_held
    }
}

/// Returns the result of `operation` and its cost.
pub fn counted<T>(operation: impl FnOnce() -> T) -> (T, Cost) {
    let (requested, held) = (REQUESTED.get(), HELD.get());
    MOST.set(held);
    let result = operation();
    let cost = Cost { requested: REQUESTED.get() - requested, most_held: (MOST.get() - held) as usize };
    (result, cost)
}
