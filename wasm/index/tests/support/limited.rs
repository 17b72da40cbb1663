//! A heap whose memory a test limits: the allocator of the sandbox. It is that of each test program that has this module.

// Each test is a crate of its own and uses a part of this.
#![allow(dead_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, UnsafeCell};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlmalloc::{Allocator, Dlmalloc};

pub const PAGE: usize = 64 * 1024;
/// All memory that there is for the indexes under test.
const ALL: usize = 1 << 30;

/// Where the memory of the heap begins, how much of it is taken, and how much may be.
static BASE: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicUsize = AtomicUsize::new(0);
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// How many requests for pages are granted before one is refused, and whether all after it are.
static GRANTED: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether what is allocated is of an index under test.
static TESTED: AtomicBool = AtomicBool::new(false);

struct Pages;

// SAFETY: what it gives is fresh memory of one large block that only it has, and never takes back.
unsafe impl Allocator for Pages {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        if BASE.load(Relaxed) == 0 {
            // SAFETY: the size is not 0 and the alignment a power of two.
            let base = unsafe { System.alloc_zeroed(Layout::from_size_align(ALL, PAGE).unwrap()) };
            BASE.store(base as usize, Relaxed);
        }
        let (taken, size) = (TAKEN.load(Relaxed), size.next_multiple_of(PAGE));
        let granted = GRANTED.load(Relaxed);
        if taken + size > LIMIT.load(Relaxed).min(ALL) || granted == 0 {
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
    /// Whether this thread runs a test that uses the heap.
    static IS_TESTING: Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Heap {
    fn has(pointer: *mut u8) -> bool {
        let base = BASE.load(Relaxed);
        base != 0 && (base..base + ALL).contains(&(pointer as usize))
    }
}

// SAFETY: each block is of the heap or of the system, and its address tells of which.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if TESTED.load(Relaxed) && IS_TESTING.get() {
            // SAFETY: the caller's promise; one thread comes here.
            unsafe { (*self.0.get()).malloc(layout.size(), layout.align()) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { System.alloc(layout) }
        }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
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
            // SAFETY: the caller's promise; one thread comes here.
            return unsafe { (*self.0.get()).realloc(pointer, layout.size(), 1, size) };
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

/// Runs `operation` with what it allocates on the heap under test, up to `limit` bytes of it and `granted` requests for
/// pages from now on.
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

/// Bytes of pages that the heap has.
pub fn taken() -> usize {
    TAKEN.load(Relaxed)
}

/// Has the heap for this thread.
pub struct Alone {
    _guard: MutexGuard<'static, ()>,
}

/// Waits until no other test uses the heap, which is then this thread's for as long as the result is kept.
pub fn alone() -> Alone {
    static ALONE: Mutex<()> = Mutex::new(());
    let guard = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    IS_TESTING.set(true);
    Alone { _guard: guard }
}

impl Drop for Alone {
    fn drop(&mut self) {
        // A test that failed may have been in the middle of it.
        TESTED.store(false, Relaxed);
        IS_TESTING.set(false);
    }
}

/// Begins with a heap that has no memory. Nothing of the former one may be left.
pub fn begin_anew() {
    TAKEN.store(0, Relaxed);
    // SAFETY: no block of the former heap is used any more, and one thread comes here.
    unsafe { *HEAP.0.get() = Dlmalloc::new_with_allocator(Pages) };
}

/// The memory that the first operation takes, which makes what is tested, and so many bytes more for all others.
pub struct Little {
    more: usize,
    limit: Cell<usize>,
}

impl Little {
    pub fn new(more: usize) -> Self {
        Little { more, limit: Cell::new(FREELY) }
    }

    pub fn run<T>(&self, operation: impl FnOnce() -> T) -> T {
        let result = limited(self.limit.get(), FREELY, operation);
        if self.limit.get() == FREELY {
            self.limit.set(taken() + self.more);
        }
        result
    }
}
