//! Planning chooses the access to an expression: it compares the costs of the demands of its literals for events.

pub(crate) mod access_predicate;
pub(crate) mod analysis;
pub(crate) mod demands;
pub(crate) mod estimates;
pub(crate) mod filter;
