//! The parts that the sandboxed modules share: the buffers of the ABI, its progress word, and memory that survives a cut.
//!
//! A module is one instance with one state, and the host calls one export at a time. Every export goes through [`Cell::with`].
//!
//! | module | holds |
//! | --- | --- |
//! | [`instance`] | changes, reads, and requests that a trap may cut off |
//! | [`port`] | the inbox, the outbox, and the record of a change that was cut off |
//! | [`refusal`] | errors as terms |
//! | [`memory`] | the memory of searches, and the heap |
//! | [`cell`] | the state of the instance |
//! | [`exports!`] | the exports that do not depend on what a module is for |
//! | [`stack`] | the clearing of the shadow stack |

pub mod cell;
mod exports;
#[cfg(any(target_arch = "wasm32", test))]
mod heap;
pub mod instance;
#[cfg(any(target_arch = "wasm32", test))]
mod linear;
pub mod memory;
pub mod outbox;
pub mod port;
#[cfg(test)]
#[allow(dead_code)] // The index's tests share it, and use more of it.
#[path = "../../index/tests/support/random.rs"]
mod random;
pub mod refusal;
mod sizes;
pub mod stack;
