//! The barrier that orders stores.

use std::hint::black_box;

/// Orders all earlier stores before all later ones in the compiled code. A step that a trap interrupts relies on this order. A
/// `compiler_fence` does not suffice: for wasm without threads LLVM drops it before instruction scheduling, and then counted log
/// entries before it had stored their addresses.
#[inline(always)]
pub(super) fn in_order() {
    black_box(());
}
