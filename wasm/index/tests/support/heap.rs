//! The allocator of test programs. A test may limit its memory, or count the bytes that it requests and holds.
//!
//! Inside [`limited`] a test allocates from a heap like that of the sandbox, of limited memory. A pass over an expression requests
//! tables as long as the expression, so the requested bytes tell how often long expressions are read. They are the same in every run.

// Each program of tests uses a part of this.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use be_tree_index::support::headroom::PROBE;
use dlmalloc::{Allocator, Dlmalloc};

use super::support::sequence::Memory;

pub const PAGE: usize = 64 * 1024;
/// The size of the limited heap.
const MAX_BYTES: usize = 1 << 30;
/// The bytes for which each request counts, in addition to its own.
const REQUEST: usize = 32;

/// The start of the heap, its size, and the limit of its size, in bytes.
static BASE: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The number of requests for pages that are still granted.
static GRANTED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether an operation inside [`limited`] runs.
static TESTED: AtomicBool = AtomicBool::new(false);

struct Pages;

// SAFETY: what it gives is fresh memory of one large block that only it has, and never takes back.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if BASE.load(Relaxed) == 0 {
            // SAFETY: the size is not 0 and the alignment a power of two.
            let base = unsafe { System.alloc_zeroed(Layout::from_size_align(MAX_BYTES, PAGE).unwrap()) };
            BASE.store(base as usize, Relaxed);
        }
        let (taken, size) = (TAKEN.load(Relaxed), size.next_multiple_of(PAGE));
        let granted = GRANTED.load(Relaxed);
        if taken + size > LIMIT.load(Relaxed).min(MAX_BYTES) || granted == 0 {
            return (null_mut(), 0, 0);
        }
        if granted != usize::MAX {
            GRANTED.store(granted - 1, Relaxed);
        }
        TAKEN.store(taken + size, Relaxed);
        ((BASE.load(Relaxed) + taken) as *mut u8, size, 0)
    }
    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        null_mut()
    }
    fn free_part(&self, _: *mut u8, _: usize, _: usize) -> bool {
        false
    }
    fn free(&self, _: *mut u8, _: usize) -> bool {
        false
    }
    fn can_release_part(&self, _: u32) -> bool {
        false
    }
    fn allocates_zeros(&self) -> bool {
        false
    }
    fn page_size(&self) -> usize {
        PAGE
    }
}

struct Heap(UnsafeCell<Dlmalloc<Pages>>);

// SAFETY: one test at a time uses the heap (`alone`), and allocates from it on its own thread (`TESTED`).
unsafe impl Sync for Heap {}

#[global_allocator]
static HEAP: Heap = Heap(UnsafeCell::new(Dlmalloc::new_with_allocator(Pages)));

thread_local! {
    /// Whether this thread runs a test that uses the limited heap.
    static IS_TESTING: Cell<bool> = const { Cell::new(false) };
    /// Bytes that this thread has requested and written.
    static REQUESTED: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread holds, and the most that it held since [`counted`] began.
    static HELD: Cell<isize> = const { Cell::new(0) };
    static MAX_HELD: Cell<isize> = const { Cell::new(0) };
}

/// Counts a request of a block, which is null if it was refused. Returns the block.
fn request(block: *mut u8, size: usize, align: usize) -> *mut u8 {
    // Nothing writes to a block that is requested as a test.
    if align != PROBE {
        REQUESTED.set(REQUESTED.get() + (size + REQUEST) as u64);
    }
    if !block.is_null() {
        hold(size as isize);
    }
    block
}

/// Adds to the bytes that this thread holds.
fn hold(bytes: isize) {
    let held = HELD.get() + bytes;
    HELD.set(held);
    MAX_HELD.set(MAX_HELD.get().max(held));
}

impl Heap {
    /// Returns whether this thread allocates from the heap.
    fn is_used() -> bool {
        TESTED.load(Relaxed) && IS_TESTING.get()
    }

    fn has(pointer: *mut u8) -> bool {
        let base = BASE.load(Relaxed);
        base != 0 && (base..base + MAX_BYTES).contains(&(pointer as usize))
    }
}

// SAFETY: each block is of the heap or of the system, and its address tells of which.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let block = if Self::is_used() {
            // SAFETY: the caller's promise; one thread comes here.
            unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        };
        request(block, layout.size(), layout.align())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        hold(-(layout.size() as isize));
        if Self::has(pointer) {
            // SAFETY: the caller's promise; one thread comes here.
            unsafe { (*self.0.get()).free(pointer, layout.size(), layout.align()) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.dealloc(pointer, layout) }
        }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // As the sandbox does it: a shorter block stays where it is, whatever its alignment, and a longer one is a copy.
        if Self::has(pointer) && size <= layout.size() {
            hold(size as isize - layout.size() as isize);
            // SAFETY: the caller's promise; one thread comes here.
            return unsafe { (*self.0.get()).realloc(pointer, layout.size(), 1, size) };
        }
        if !Self::has(pointer) && !Self::is_used() {
            // SAFETY: the caller's promise.
            let block = request(unsafe { System.realloc(pointer, layout, size) }, size, layout.align());
            if !block.is_null() {
                hold(-(layout.size() as isize));
            }
            return block;
        }
        // SAFETY: the caller's promise; the blocks are distinct, and as large as what is copied.
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

/// Runs `operation` on the limited heap, with at most `limit` bytes of pages and `granted` further requests for pages.
pub fn limited<T>(limit: usize, granted: usize, operation: impl FnOnce() -> T) -> T {
    LIMIT.store(limit, Relaxed);
    GRANTED.store(granted, Relaxed);
    TESTED.store(true, Relaxed);
    let result = operation();
    TESTED.store(false, Relaxed);
    result
}

/// No limit.
pub const FREELY: usize = usize::MAX;

/// Returns the bytes of the pages of the heap.
pub fn taken() -> usize {
    TAKEN.load(Relaxed)
}

/// A lease of the heap for this thread.
pub struct Alone {
    _guard: MutexGuard<'static, ()>,
}

/// Waits until no other test uses the heap, and leases it.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    IS_TESTING.set(true);
    Alone { _guard: guard }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A failed test may have ended inside `limited`.
        TESTED.store(false, Relaxed);
        IS_TESTING.set(false);
    }
}

/// Makes the heap empty. Nothing in it may be in use.
pub fn begin_anew() {
    TAKEN.store(0, Relaxed);
    // SAFETY: no block of the former heap is used any more, and one thread comes here.
    unsafe { *HEAP.0.get() = Dlmalloc::new_with_allocator(Pages) };
}

/// As much memory as the first operation takes, and `more` bytes for all later ones.
pub struct Little {
    more: usize,
    limit: Cell<usize>,
}

impl Little {
    pub fn new(more: usize) -> Self {
        Little { more, limit: Cell::new(FREELY) }
    }
}

/// The cost of an operation: the bytes that it requested, and the most that it held beyond those held before.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    requested: usize,
    max_held: usize,
}

impl Cost {
    pub fn requested(&self) -> usize {
        self.requested
    }

    pub fn max_held(&self) -> usize {
        self.max_held
    }
}

/// Returns the result of `operation` and its cost.
pub fn counted<T>(operation: impl FnOnce() -> T) -> (T, Cost) {
    let (requested, held) = (REQUESTED.get(), HELD.get());
    MAX_HELD.set(held);
    let result = operation();
    let cost = Cost { requested: (REQUESTED.get() - requested) as usize, max_held: (MAX_HELD.get() - held) as usize };
    (result, cost)
}

/// Returns the result of `operation`, and by how many bytes more this thread holds after it.
pub fn held<T>(operation: impl FnOnce() -> T) -> (T, isize) {
    let before = HELD.get();
    let result = operation();
    (result, HELD.get() - before)
}

/// Returns the result of `operation`, whose allocations do not count as held.
pub fn uncounted<T>(operation: impl FnOnce() -> T) -> T {
    let before = HELD.get();
    let result = operation();
    HELD.set(before);
    result
}

impl Memory for Little {
    fn run<T>(&self, change: impl FnOnce() -> T) -> T {
        let result = limited(self.limit.get(), FREELY, change);
        if self.limit.get() == FREELY {
            self.limit.set(taken() + self.more);
        }
        result
    }
}
