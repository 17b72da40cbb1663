//! An expression inside the index: how it is kept, normalised, ordered and run.

pub(crate) mod list;
pub(crate) mod normal;
pub(crate) mod order;
pub(crate) mod program;
pub(crate) mod source;
pub(crate) mod store;

use crate::predicates::PredicateId;

/// A predicate or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub predicate: PredicateId,
    pub negated: bool,
}
