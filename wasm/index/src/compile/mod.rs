//! The compiled form of an expression inside the index: how it is kept, normalised and ordered.

pub(crate) mod booleans;
pub(crate) mod constants;
pub(crate) mod layout;
pub(crate) mod normal;
pub(crate) mod order;
pub(crate) mod predicates;
pub(crate) mod program;
pub(crate) mod steps;
pub(crate) mod store;
pub(crate) mod words;

use crate::model::predicate::{self, Borrowed, Predicate};
use crate::model::strings::StringId;

/// The position of a predicate in the list of its expression.
pub(crate) type PredicateIndex = u32;

/// A predicate of an expression or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Literal {
    pub predicate: PredicateIndex,
    pub negated: bool,
}

/// One step of an expression in postfix order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Constant(bool),
    Predicate(PredicateIndex),
    Not,
    And,
    Or,
}

/// An expression as steps and the predicates that they name.
#[derive(Clone, Debug)]
pub(crate) struct Expression {
    pub steps: Vec<Step>,
    /// The predicates by index. A predicate that the text repeats is repeated here.
    pub predicates: Vec<Predicate<StringId>>,
}

impl Expression {
    /// Separates `postfix` into steps and predicates. `intern` replaces strings by their numbers.
    pub fn new<'a>(
        postfix: Vec<predicate::Step<Borrowed<'a>>>,
        mut intern: impl FnMut(Predicate<Borrowed<'a>>) -> Predicate<StringId>,
    ) -> Self {
        let mut predicates = Vec::with_capacity(postfix.len().div_ceil(2));
        let step = |step| match step {
            predicate::Step::Constant(value) => Step::Constant(value),
            predicate::Step::Predicate(predicate) => {
                predicates.push(intern(predicate));
                Step::Predicate(predicates.len() as PredicateIndex - 1)
            }
            predicate::Step::Not => Step::Not,
            predicate::Step::And => Step::And,
            predicate::Step::Or => Step::Or,
        };
        Expression { steps: postfix.into_iter().map(step).collect(), predicates }
    }
}
