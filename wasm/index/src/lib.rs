//! Finds, among very many boolean expressions, those that an event makes true.

mod bytes;
mod chunks;
mod dense;
pub mod draw;
pub mod error;
mod evaluate;
pub mod event;
pub mod explain;
mod expression;
mod hash;
mod ids;
pub mod index;
pub mod interner;
pub mod language;
mod library;
mod numbers;
pub mod predicate;
pub(crate) mod predicates;
mod reasons;
pub mod schema;
pub mod search;
mod sliced;
mod statistics;
mod subscriptions;
pub mod term;
mod tree;
mod vocabulary;
