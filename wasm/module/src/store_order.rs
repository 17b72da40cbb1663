//! The order of stores in compiled code.

use std::hint::black_box;

/// Orders all earlier stores before all later ones in the compiled code. A call that continues after a trap relies on that order. A
/// `compiler_fence` does not suffice: for wasm without threads LLVM drops it, and makes atomic stores plain ones, before
/// instruction scheduling.
#[inline(always)]
pub fn in_order() {
    black_box(());
}
