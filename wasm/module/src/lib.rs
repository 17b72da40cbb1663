//! The shared parts of the sandboxed modules: the buffers of the ABI, its progress word, and memory that survives an interruption.
//!
//! A module is one instance with one state, and the host calls one export at a time. Every export goes through [`Cell::with`].
//!
//! | module | holds |
//! | --- | --- |
//! | [`instance`] | changes, reads, and requests that a trap may interrupt |
//! | [`port`] | the inbox, the outbox, and the record of an interrupted change |
//! | [`refusal`] | errors as terms |
//! | [`memory`] | the search arena, and the heap |
//! | [`cell`] | the state of the instance |
//! | [`exports!`] | the exports that all modules share |
//! | [`stack`] | the clearing of the shadow stack |

#[cfg(any(target_arch = "wasm32", test))]
mod arena;
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
mod store_order;
