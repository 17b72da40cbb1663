//! The memory of instances: linear memories, the stacks of calls, and snapshots.
//!
//! `arena` reserves addresses in slots; `linear` and `stacks` give those slots to wasmtime. `limits` bounds the memory of an
//! instance, and `pages` chooses its page sizes. A `snapshot` keeps the state of an instance, and its memory is
//! `shared_bytes`, which replicas map copy-on-write.

pub mod arena;
pub mod limits;
pub mod linear;
pub mod pages;
pub mod shared_bytes;
pub mod snapshot;
pub mod stacks;
