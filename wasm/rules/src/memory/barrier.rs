//! The order of stores.

use std::hint::black_box;

/// Orders all stores before it before all stores after it, in the compiled code. A step that a trap cuts off relies on that. A
/// `compiler_fence` does not suffice: LLVM drops it for wasm without threads before it schedules instructions, and then counted
/// entries of the log before it had stored their addresses.
#[inline(always)]
pub(super) fn in_order() {
    black_box(());
}
