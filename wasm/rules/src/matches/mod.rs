//! Matches: the search for them, their guards, and the agenda.

pub(crate) mod agenda;
pub(crate) mod deadlines;
pub(crate) mod flips;
pub(crate) mod guards;
pub(crate) mod search;
