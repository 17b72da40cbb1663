//! The formats of events.

pub(crate) mod json;
pub(crate) mod prepared;
#[cfg(feature = "terms")]
pub(crate) mod records;
pub(crate) mod source;
#[cfg(feature = "terms")]
pub(crate) mod term;
