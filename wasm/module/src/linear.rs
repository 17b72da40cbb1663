//! Linear memory: its pages, and their addresses. Tests of the allocator run on a block of the host's memory instead.

use crate::sizes;

/// A page of wasm.
pub(crate) const PAGE: usize = sizes::PAGE as usize;

#[cfg(target_arch = "wasm32")]
pub(crate) use wasm::*;

#[cfg(target_arch = "wasm32")]
mod wasm {
    use core::arch::wasm32::{memory_grow, memory_size, unreachable};

    use super::PAGE;
    use crate::sizes::end_of;

    /// Returns the number of pages.
    pub(crate) fn pages() -> usize {
        memory_size(0)
    }

    /// Adds pages. Returns the number of pages before, or `None` if the system refuses them.
    pub(crate) fn grow(pages: usize) -> Option<usize> {
        match memory_grow(0, pages) {
            usize::MAX => None,
            before => Some(before),
        }
    }

    /// Returns the address of a page.
    pub(crate) fn address(page: usize) -> usize {
        page * PAGE
    }

    /// Returns the address just past the last page.
    pub(crate) fn end() -> usize {
        end_of(memory_size(0) as u32) as usize
    }

    /// Ends the call.
    pub(crate) fn trap() -> ! {
        unreachable()
    }
}

#[cfg(not(target_arch = "wasm32"))]
pub(crate) use host::*;

#[cfg(not(target_arch = "wasm32"))]
mod host {
    use std::alloc::{alloc_zeroed, Layout};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    use std::sync::OnceLock;

    use super::PAGE;

    /// The most pages that a test may have.
    const MAX_TEST_PAGES: usize = 4096;
    /// The number of pages at the start of a test, like those of a module for its data.
    pub(crate) const FIRST: usize = 17;

    static PAGES: AtomicUsize = AtomicUsize::new(FIRST);
    static LIMIT: AtomicUsize = AtomicUsize::new(MAX_TEST_PAGES);

    pub(crate) fn pages() -> usize {
        PAGES.load(Relaxed)
    }

    pub(crate) fn grow(pages: usize) -> Option<usize> {
        let before = PAGES.load(Relaxed);
        if pages > LIMIT.load(Relaxed).saturating_sub(before) {
            return None;
        }
        PAGES.store(before + pages, Relaxed);
        Some(before)
    }

    pub(crate) fn address(page: usize) -> usize {
        static BASE: OnceLock<usize> = OnceLock::new();
        let layout = Layout::from_size_align(MAX_TEST_PAGES * PAGE, PAGE).expect("the alignment is a power of two");
        // SAFETY: the size is not 0.
        let base = BASE.get_or_init(|| unsafe { alloc_zeroed(layout) } as usize);
        assert!(*base != 0, "the host has memory for the test");
        base + page * PAGE
    }

    pub(crate) fn end() -> usize {
        address(pages())
    }

    pub(crate) fn trap() -> ! {
        panic!("the call traps")
    }

    /// Limits memory to `pages` pages.
    pub(crate) fn limit(pages: usize) {
        LIMIT.store(pages.min(MAX_TEST_PAGES), Relaxed);
    }

    /// Resets all memory to zeros. Nothing in it may be in use.
    pub(crate) fn renew() {
        let (start, size) = (address(0), pages() * PAGE);
        // SAFETY: the block has this size, and nothing else uses it.
        unsafe { (start as *mut u8).write_bytes(0, size) };
        PAGES.store(FIRST, Relaxed);
        limit(MAX_TEST_PAGES);
    }
}
