//! Human-readable descriptions of an index.

pub mod draw;
pub mod explain;
mod label;
pub mod trace;
