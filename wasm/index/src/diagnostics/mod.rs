//! Descriptions of an index for people.

pub mod draw;
pub mod explain;
mod label;
pub mod trace;
