//! Clears data of earlier requests from the shadow stack.

use std::hint::black_box;

/// More bytes of the shadow stack than any operation uses, and fewer than it has (`compile.be_tree_guest.ex`).
const STACK: usize = 96 * 1024;

/// Fills the unused part of the shadow stack with zeros.
#[inline(never)]
pub fn wipe() {
    black_box(&mut [0_u8; STACK]);
}
