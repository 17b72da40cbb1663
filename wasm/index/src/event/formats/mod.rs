//! The formats in which an event comes.

pub(crate) mod json;
pub(crate) mod prepared;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod term;
