//! Planning chooses how an expression is found. It compares the costs that the demands of its literals have for events.

pub(crate) mod access_predicate;
pub(crate) mod analysis;
pub(crate) mod demands;
pub(crate) mod filter;
