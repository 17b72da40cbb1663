//! Comparisons of computed numbers: attributes and constants with `+`, `-`, `*` and `/`, list sizes and string lengths.
//!
//! Integers are exact. A sum, difference or product of integers that overflows 64 bits is undefined. Every division, and
//! every operation with a float, is computed in floats. A result that is not finite, or a division by zero, is undefined. An
//! undefined number makes the comparison false, like an undefined attribute.

use crate::model::attribute::AttributeId;
use crate::model::relation::{Float, Relation};
use crate::support::footprint::of_slice;

/// A step of a computation in postfix order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A constant.
    Integer(i64),
    /// A constant.
    Float(Float),
    /// The value of an integer, a float or a time.
    Attribute(AttributeId),
    /// The number of elements of a list.
    Size(AttributeId),
    /// The number of characters of a string.
    Length(AttributeId),
    /// Applies an operator to the two numbers before it.
    Operator(Operator),
}

/// An operation of two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
}

impl Operator {
    /// Returns the symbol of the operator.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Add => "+",
            Operator::Subtract => "-",
            Operator::Multiply => "*",
            Operator::Divide => "/",
        }
    }

    /// Returns whether the operator binds tighter than `+` and `-`.
    pub fn is_tight(self) -> bool {
        matches!(self, Operator::Multiply | Operator::Divide)
    }
}

/// A comparison of two computed numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Comparison {
    /// The relation of the left number to the right one.
    pub relation: Relation,
    /// The steps of the left number.
    pub left: Box<[Term]>,
    /// The steps of the right number.
    pub right: Box<[Term]>,
}

impl Comparison {
    /// Returns the heap bytes of the comparison.
    pub(crate) fn heap_bytes(&self) -> usize {
        of_slice(&self.left) + of_slice(&self.right)
    }
}

/// The maximum depth of a computation's stack of numbers.
pub const MAX_COMPUTATION_DEPTH: usize = 16;

/// The maximum number of steps of a computation.
pub const MAX_COMPUTATION_STEPS: usize = 256;

/// A number of a computation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Integer(i64),
    /// A finite float.
    Float(f64),
}

impl Number {
    fn as_float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }
}

/// The source of the numbers that a computation reads.
pub trait Numbers {
    /// Returns the number of a term that is not an operator, or `None` if it is undefined.
    fn number(&self, term: Term) -> Option<Number>;
}

impl Comparison {
    /// Returns whether both numbers are defined and stand in the relation. Floats are equal as in
    /// [`Relation::holds_of_floats`].
    pub fn holds(&self, numbers: &impl Numbers) -> bool {
        match (result(&self.left, numbers), result(&self.right, numbers)) {
            (Some(Number::Integer(left)), Some(Number::Integer(right))) => self.relation.holds(left, right),
            (Some(left), Some(right)) => self.relation.holds_of_floats(left.as_float(), right.as_float()),
            _ => false,
        }
    }

    /// Returns all steps of both numbers.
    pub fn terms(&self) -> impl Iterator<Item = Term> + '_ {
        self.left.iter().chain(&self.right).copied()
    }
}

/// Returns the result of a computation. Its depth is at most [`MAX_COMPUTATION_DEPTH`].
fn result(terms: &[Term], numbers: &impl Numbers) -> Option<Number> {
    let mut stack = [Number::Integer(0); MAX_COMPUTATION_DEPTH];
    let mut depth = 0;
    for &term in terms {
        let number = match term {
            Term::Operator(operator) => {
                depth -= 2;
                apply(operator, stack[depth], stack[depth + 1])?
            }
            constant_or_value => numbers.number(constant_or_value)?,
        };
        stack[depth] = number;
        depth += 1;
    }
    Some(stack[0])
}

fn apply(operator: Operator, left: Number, right: Number) -> Option<Number> {
    if let (Number::Integer(left), Number::Integer(right)) = (left, right) {
        let exact = match operator {
            Operator::Add => left.checked_add(right),
            Operator::Subtract => left.checked_sub(right),
            Operator::Multiply => left.checked_mul(right),
            Operator::Divide => return finite(left as f64 / right as f64),
        };
        return exact.map(Number::Integer);
    }
    let (left, right) = (left.as_float(), right.as_float());
    finite(match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
    })
}

fn finite(float: f64) -> Option<Number> {
    float.is_finite().then_some(Number::Float(float))
}

/// Returns the maximum depth of a computation's stack of numbers.
pub(crate) fn depth(terms: &[Term]) -> usize {
    let mut depth = 0_usize;
    let mut deepest = 0;
    for term in terms {
        match term {
            Term::Operator(_) => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
        deepest = deepest.max(depth);
    }
    deepest
}

/// Returns the number of characters of a string: its bytes except the continuation bytes of UTF-8.
pub(crate) fn length(bytes: &[u8]) -> i64 {
    bytes.iter().filter(|&&byte| byte & 0xc0 != 0x80).count() as i64
}
