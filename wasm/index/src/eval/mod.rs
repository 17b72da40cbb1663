//! Evaluation decides predicates and programs for an event.

pub(crate) mod columns;
pub(crate) mod memo;
pub(crate) mod patterns;
pub(crate) mod predicate;
pub(crate) mod run;
pub(crate) mod trace;
