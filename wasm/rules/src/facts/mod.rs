//! Changes of facts, with all their indices.

pub(crate) mod change;
pub(crate) mod conditions;
pub(crate) mod expiry;
pub(crate) mod indices;
pub(crate) mod tickets;
