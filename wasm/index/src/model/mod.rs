//! What expressions and events are about: the attributes of a schema, and the predicates over them.

pub mod predicate;
pub mod schema;
pub mod strings;
