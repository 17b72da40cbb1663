//! The attributes of a schema, the predicates over them, and their strings.

pub mod address;
pub mod arithmetic;
pub mod attribute;
mod categories;
pub(crate) mod fields;
pub mod lower;
pub mod path;
pub mod predicate;
pub mod regex;
pub mod relation;
pub mod schema;
pub mod strings;
pub mod time;
pub mod wildcard;

pub use predicate::objects;
