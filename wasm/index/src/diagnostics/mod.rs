//! Descriptions of an index for people.

pub mod draw;
pub mod explain;
