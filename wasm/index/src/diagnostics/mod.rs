//! What is told of an index to people.

pub mod draw;
pub mod explain;
