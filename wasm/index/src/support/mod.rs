//! Support that is independent of expressions: bytes, tables, vectors, checkpoints, and the accounting of memory.

pub(crate) mod bits;
pub(crate) mod bytes;
pub(crate) mod checkpoint;
pub(crate) mod chunks;
pub(crate) mod footprint;
pub(crate) mod free_numbers;
pub(crate) mod hash;
pub mod headroom;
pub(crate) mod heap_sort;
pub(crate) mod id_table;
pub(crate) mod number;
pub(crate) mod simd;
pub(crate) mod sphere;
