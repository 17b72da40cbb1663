//! What an expression waits for: the demands of its literals, what each costs events, and the choice among them.

pub(crate) mod access_predicate;
pub(crate) mod analysis;
pub(crate) mod demands;
pub(crate) mod filter;
