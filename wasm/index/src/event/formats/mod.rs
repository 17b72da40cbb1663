//! The formats of events.

pub(crate) mod json;
pub(crate) mod prepared;
pub(crate) mod records;
pub(crate) mod source;
pub(crate) mod term;
