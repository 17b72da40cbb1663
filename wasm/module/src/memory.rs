//! The search arena, separate from the heap, and the clearing of freed memory.
//!
//! A search may be interrupted at any instruction, even inside the allocator, which would leave the heap inconsistent. So a search
//! allocates in an arena instead: chunks of memory that are filled one after another. Nothing is freed there, and the next search
//! begins at the first chunk again. A search never enlarges a table that outlives it.
//!
//! Memory is cleared before the heap frees it. So neither free memory nor the spare capacity of a later table contains parts of an
//! event or of a deleted expression, and a snapshot of the index (`State::forget`) contains the index alone.

#[cfg(any(target_arch = "wasm32", test))]
mod allocator;
#[cfg(test)]
mod tests;

#[cfg(target_arch = "wasm32")]
use crate::arena::ARENA;
pub use crate::store_order::in_order;

/// Makes the following operations allocate in the search arena: from its start for the next search, otherwise where the last one
/// stopped.
pub fn use_search_memory(is_next: bool) {
    #[cfg(target_arch = "wasm32")]
    ARENA.enter(is_next);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = is_next;
}

/// A position in the search arena, between two allocations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark(usize, usize);

/// Returns the current position in the search arena.
pub fn mark() -> Mark {
    #[cfg(target_arch = "wasm32")]
    {
        let (chunk, free) = ARENA.mark();
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

/// Frees all allocations in the search arena since the mark. Nothing may use them any more.
pub fn back_to(mark: Mark) {
    #[cfg(target_arch = "wasm32")]
    ARENA.back_to((mark.0, mark.1));
    #[cfg(not(target_arch = "wasm32"))]
    let _ = mark;
}

/// Returns whether the search arena contains anything.
pub fn has_searches() -> bool {
    #[cfg(target_arch = "wasm32")]
    return ARENA.is_used();
    #[cfg(not(target_arch = "wasm32"))]
    true
}

/// Clears the whole search arena. No search may be left.
pub fn wipe_searches() {
    #[cfg(target_arch = "wasm32")]
    ARENA.wipe();
}

/// Lets the heap take chunks of the search arena if the system refuses memory. No search may be in progress.
pub fn lend(lends: bool) {
    #[cfg(target_arch = "wasm32")]
    ARENA.lend(lends);
    #[cfg(not(target_arch = "wasm32"))]
    let _ = lends;
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
    ARENA.leave();
}
