//! Aggregates: their values, and the trees that hold the facts of a key by time.

pub(crate) mod series;
pub(crate) mod totals;
pub(crate) mod tree;
