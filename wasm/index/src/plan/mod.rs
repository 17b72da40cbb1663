//! Planning chooses how an expression is found: the demands of its literals, their costs to events, and the best of them.

pub(crate) mod access_predicate;
pub(crate) mod analysis;
pub(crate) mod demands;
pub(crate) mod filter;
