//! Facts in all indices.

pub(crate) mod change;
