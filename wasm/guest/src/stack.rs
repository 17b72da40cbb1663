//! Zeros in place of what earlier requests left on the stack.

use std::hint::black_box;

/// More than any operation has on the shadow stack, and less than there is of it (`compile.be_tree_guest.ex`).
const STACK: usize = 96 * 1024;

/// Fills the unused part of the shadow stack with zeros.
#[inline(never)]
pub(crate) fn wipe() {
    black_box(&mut [0_u8; STACK]);
}
