//! The memory of searches, apart from the heap, and the clearing of freed memory.
//!
//! A search may be cut off at any instruction, also inside the allocator, which would leave the heap half changed. So a
//! search does not use the heap: it allocates in chunks of memory of their own, one after another. Nothing is freed there,
//! and the next search begins at the first chunk again. A search never enlarges a table that outlives it.
//!
//! Memory is cleared before the heap frees it. So neither free memory nor the spare room of a later table contains parts of
//! an event or of a deleted expression. An image of the index (`State::forget`) therefore contains the index alone.

use std::sync::atomic::{compiler_fence, Ordering};

/// Orders all stores before it before all stores after it, in the compiled code. A call that continues after a trap relies
/// on that order. The stores that commit are atomic, because a fence orders no others.
pub(crate) fn in_order() {
    compiler_fence(Ordering::SeqCst);
}

/// Makes the following operations allocate in the memory of searches: for the next search, or to continue the last one.
pub(crate) fn of_search(is_next: bool) {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.enter(is_next);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = is_next;
}

/// Returns whether the memory of searches contains anything.
pub(crate) fn has_searches() -> bool {
    #[cfg(target_arch = "wasm32")]
    return chunks::MEMORY.is_used();
    #[cfg(not(target_arch = "wasm32"))]
    true
}

/// Clears all memory of searches. No search may be left.
pub(crate) fn wipe_searches() {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.wipe();
}

/// Lets the heap take memory of searches, if the system refuses it any other. No search may be under way.
pub(crate) fn lend(lends: bool) {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.lend(lends);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = lends;
}

/// Returns memory of searches for the heap, all zeros: its start and its number of bytes, at least `size`.
#[cfg(target_arch = "wasm32")]
pub(crate) fn lent(size: usize) -> Option<(usize, usize)> {
    chunks::MEMORY.lent(size)
}

/// Returns the bytes of linear memory, or 0 in a native build.
pub(crate) fn bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    // As `u64`, because 4 GiB exceed the range of `usize` there.
    return core::arch::wasm32::memory_size::<0>() as u64 * u64::from(crate::sizes::PAGE);
    #[cfg(not(target_arch = "wasm32"))]
    0
}

/// Makes the following operations allocate on the heap.
pub(crate) fn of_all_else() {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.leave();
}

#[cfg(target_arch = "wasm32")]
mod chunks {
    use core::arch::wasm32::{memory_grow, memory_size, unreachable};
    use std::alloc::{GlobalAlloc, Layout};
    use std::cell::Cell;
    use std::mem::size_of;
    use std::ptr::null_mut;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

    use be_tree_index::support::headroom::PROBE;

    use super::in_order;
    use crate::heap::{HEAP, PAGE};
    use crate::sizes::end_of;

    /// The size of the first chunk: enough for any error, and for the strings of events that have escapes.
    const FIRST: usize = 32 * 1024;

    /// The head of a chunk. Each chunk lies at a higher address than those before it.
    #[repr(C, align(16))]
    struct Chunk {
        end: AtomicUsize,
        /// The address of the next chunk, or 0.
        next: AtomicUsize,
    }

    #[repr(C)]
    struct First {
        head: Chunk,
        rest: Cell<[u8; FIRST]>,
    }

    /// The allocator of the module. Each store commits progress alone, in an order without gaps.
    pub(super) struct Memory {
        is_searching: AtomicBool,
        /// Whether chunks may be given to the heap.
        lends: AtomicBool,
        /// The current chunk, and the first free address in it.
        chunk: AtomicUsize,
        free: AtomicUsize,
        /// The pages of memory before it grew by a chunk that may not be in the list yet, or 0 if all chunks are.
        grown_from: AtomicUsize,
        first: First,
    }

    // SAFETY: the module is compiled for wasm32 without threads.
    unsafe impl Sync for Memory {}

    #[global_allocator]
    pub(super) static MEMORY: Memory = Memory {
        is_searching: AtomicBool::new(false),
        lends: AtomicBool::new(false),
        chunk: AtomicUsize::new(0),
        free: AtomicUsize::new(0),
        grown_from: AtomicUsize::new(0),
        first: First {
            head: Chunk { end: AtomicUsize::new(0), next: AtomicUsize::new(0) },
            rest: Cell::new([0; FIRST]),
        },
    };

    impl Memory {
        pub fn enter(&self, is_next: bool) {
            self.note_growth();
            if is_next {
                let first = &self.first.head;
                first.end.store(self.first() + size_of::<First>(), Relaxed);
                self.move_to(self.first());
            }
            self.is_searching.store(true, Relaxed);
        }

        pub fn leave(&self) {
            self.note_growth();
            self.is_searching.store(false, Relaxed);
            // A trap may have cut off the change that memory was lent to.
            self.lends.store(false, Relaxed);
        }

        pub fn lend(&self, lends: bool) {
            self.lends.store(lends, Relaxed);
        }

        /// Takes the first chunk of at least `size` bytes out of the list, except for the static one.
        pub fn lent(&self, size: usize) -> Option<(usize, usize)> {
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
                    // SAFETY: the chunk is memory of searches, of which none is under way and nothing is used any more.
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

        /// Starts to fill the chunk at `address`. Between the two stores the free address lies beyond the end of the current
        /// chunk, so nothing is taken from that.
        fn move_to(&self, address: usize) {
            self.free.store(address + size_of::<Chunk>(), Relaxed);
            in_order();
            self.chunk.store(address, Relaxed);
        }

        fn take(&self, layout: Layout) -> *mut u8 {
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

        /// Appends a chunk with room for `layout`, at least twice as large as the last one. Returns whether memory allowed
        /// it.
        fn grow(&self, layout: Layout) -> bool {
            let last = self.last();
            let twice = (chunk(last).end.load(Relaxed) - last).saturating_mul(2);
            let bytes = (size_of::<Chunk>() + layout.align()).saturating_add(layout.size());
            self.grown_from.store(memory_size(0), Relaxed);
            in_order();
            let has_grown = memory_grow(0, bytes.max(twice).div_ceil(PAGE)) != usize::MAX
                || memory_grow(0, bytes.div_ceil(PAGE)) != usize::MAX;
            self.note_growth();
            has_grown
        }

        /// Appends the chunk by which memory has grown, unless it is in the list already.
        fn note_growth(&self) {
            let grown_from = self.grown_from.load(Relaxed);
            if grown_from == 0 {
                return;
            }
            let end = end_of(memory_size(0) as u32) as usize;
            let start = grown_from * PAGE;
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

        fn has(&self, pointer: *mut u8) -> bool {
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
        // SAFETY: every address comes from `MEMORY`: that of its first chunk, or of pages that only it has, which are never
        // freed. Any bytes are a valid head.
        unsafe { &*(address as *const Chunk) }
    }

    // SAFETY: on the heap it forwards to the allocator there. In a search every block is fresh memory of a chunk, aligned,
    // and after all blocks before it; nothing else writes to a chunk, and no chunk is used again until the next search
    // begins, which forgets all blocks of the last one (`Search::abandon`, `Spill::choose`, `State::transient`).
    unsafe impl GlobalAlloc for Memory {
        #[inline]
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            if self.is_searching.load(Relaxed) {
                return self.take(layout);
            }
            // SAFETY: the caller's promise.
            unsafe { HEAP.alloc(layout) }
        }

        #[inline]
        unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
            if self.is_searching.load(Relaxed) {
                let block = self.take(layout);
                if !block.is_null() {
                    // SAFETY: a block of this size.
                    unsafe { block.write_bytes(0, layout.size()) };
                }
                return block;
            }
            // SAFETY: the caller's promise.
            unsafe { HEAP.alloc_zeroed(layout) }
        }

        #[inline]
        unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
            // A search may drop a value that an earlier search, which was cut off, left half written.
            if !self.is_searching.load(Relaxed) && !self.has(pointer) {
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
            let is_searching = self.is_searching.load(Relaxed);
            let has = self.has(pointer);
            match (is_searching, has) {
                // SAFETY: the caller's promise, and the block is not in the memory of searches; it is as long as the cleared
                // bytes. A shorter block stays where it is.
                (false, false) if size <= layout.size() => unsafe {
                    pointer.add(size).write_bytes(0, layout.size() - size);
                    return HEAP.realloc(pointer, layout, size);
                },
                // Copied below: the heap's own reallocation would leave the old block uncleared.
                (false, false) => {}
                // A search must not enlarge a table that outlives it: a trap could leave it half changed.
                (true, false) => unreachable(),
                _ => {}
            }
            if is_searching && pointer as usize + layout.size() == self.free.load(Relaxed) {
                let room = chunk(self.chunk.load(Relaxed)).end.load(Relaxed) - pointer as usize;
                if size <= room {
                    self.free.store(pointer as usize + size, Relaxed);
                    return pointer;
                }
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
}
