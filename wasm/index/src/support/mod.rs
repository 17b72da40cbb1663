//! What knows nothing of expressions: bytes, tables, vectors, and the accounting of memory.

pub(crate) mod bytes;
pub(crate) mod chunks;
pub(crate) mod hash;
pub mod headroom;
pub(crate) mod id_table;
pub(crate) mod simd;
