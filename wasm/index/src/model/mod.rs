//! The attributes of a schema, the predicates over them, and their strings.

pub(crate) mod fields;
pub mod path;
pub mod predicate;
pub mod schema;
pub mod strings;
