//! The attributes of a schema, the predicates over them, and their strings.

pub mod predicate;
pub mod schema;
pub mod strings;
