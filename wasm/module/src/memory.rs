//! The memory of searches, apart from the heap, and the clearing of freed memory.
//!
//! A search may be cut off at any instruction, also inside the allocator, which would leave the heap half changed. So a
//! search does not use the heap: it allocates in chunks of memory of their own, one after another. Nothing is freed there,
//! and the next search begins at the first chunk again. A search never enlarges a table that outlives it.
//!
//! Memory is cleared before the heap frees it. So neither free memory nor the spare room of a later table contains parts of
//! an event or of a deleted expression. An image of the index (`State::forget`) therefore contains the index alone.

#[cfg(any(target_arch = "wasm32", test))]
mod chunks;
#[cfg(test)]
mod tests;

use std::hint::black_box;

/// Orders all stores before it before all stores after it, in the compiled code. A call that continues after a trap relies
/// on that order. A `compiler_fence` does not suffice: LLVM drops it for wasm without threads, and makes atomic stores plain ones,
/// before it schedules instructions.
#[inline(always)]
pub fn in_order() {
    black_box(());
}

/// Makes the following operations allocate in the memory of searches, from its start for the next search, and otherwise where the
/// last one stopped.
pub fn use_search_memory(is_next: bool) {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.enter(is_next);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = is_next;
}

/// A position in the memory of searches, between two allocations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(usize, usize);

/// Returns the current position in the memory of searches.
pub fn mark() -> Mark {
    #[cfg(target_arch = "wasm32")]
    {
        let (chunk, free) = chunks::MEMORY.mark();
        Mark(chunk, free)
    }
    #[cfg(not(target_arch = "wasm32"))]
    Mark::default()
}

/// Returns whether at least some bytes were allocated since the mark.
pub fn has_taken(mark: Mark, bytes: usize) -> bool {
    let Mark(chunk, free) = self::mark();
    chunk != mark.0 || free >= mark.1 + bytes
}

/// Frees everything that was allocated in the memory of searches since the mark. Nothing may use it any more.
pub fn back_to(mark: Mark) {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.back_to((mark.0, mark.1));
    #[cfg(not(target_arch = "wasm32"))]
    let _ = mark;
}

/// Returns whether the memory of searches contains anything.
pub fn has_searches() -> bool {
    #[cfg(target_arch = "wasm32")]
    return chunks::MEMORY.is_used();
    #[cfg(not(target_arch = "wasm32"))]
    true
}

/// Clears all memory of searches. No search may be left.
pub fn wipe_searches() {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.wipe();
}

/// Lets the heap take memory of searches, if the system refuses it any other. No search may be under way.
pub fn lend(lends: bool) {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.lend(lends);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = lends;
}

/// Returns memory of searches for the heap, all zeros: its start and its number of bytes, at least `size`.
#[cfg(any(target_arch = "wasm32", test))]
pub(crate) fn lent(size: usize) -> Option<(usize, usize)> {
    chunks::MEMORY.lent(size)
}

/// Returns the bytes of linear memory, or 0 in a native build.
pub fn bytes() -> u64 {
    #[cfg(target_arch = "wasm32")]
    // As `u64`, because 4 GiB exceed the range of `usize` there.
    return crate::linear::pages() as u64 * crate::linear::PAGE as u64;
    #[cfg(not(target_arch = "wasm32"))]
    0
}

/// Makes the following operations allocate on the heap.
pub fn use_heap() {
    #[cfg(target_arch = "wasm32")]
    chunks::MEMORY.leave();
}
