//! Aggregates: their values, and one tree per key that orders facts by time.

pub(crate) mod series;
pub(crate) mod totals;
pub(crate) mod tree;
