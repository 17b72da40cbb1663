//! The predicates of a text as token trees, before the schema types them.
//!
//! The parser produces them and the checker consumes them, so neither depends on the other's internals.

use crate::language::lexer::Token;
use crate::model::arithmetic::Operator;
use crate::model::relation::Relation;

/// A parsed predicate, without the constants of its list or its arguments, which are passed separately.
pub(super) enum Atom {
    /// `b`
    Bare(Token),
    /// `i > 3`; `operator` is the token of the relation.
    Compare { name: Token, relation: Relation, operator: Token, constant: Token },
    /// `i in (1, 2)`
    Among { name: Token, negated: bool },
    /// `3 in il`
    Has { name: Token, negated: bool, constant: Token },
    /// `il one of (1, 2)`
    Members { name: Token, membership: Membership },
    /// `x is null`
    Null(Token),
    /// `x is not null`
    NotNull(Token),
    /// `il is empty`
    Empty(Token),
    /// `contains(s, "a")`
    Call { function: Token },
    /// `i between 1 and 3`; `operator` is the token of `between`.
    Between { name: Token, negated: bool, operator: Token, low: Token, high: Token },
    /// `a + 1 > b`
    Sums(Box<Sums>),
    /// `s matches '[0-9]+'`
    Matches { name: Token, negated: bool, pattern: Token },
    /// `s like 'a*'`
    Like { name: Token, negated: bool, pattern: Token },
}

/// The quantifier of a list: how many of the constants it must contain.
#[derive(Clone, Copy)]
pub(super) enum Membership {
    One,
    None,
    All,
}

/// A step of a computation in postfix order, in tokens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Item {
    /// A constant, or the name of an attribute.
    Plain(Token),
    /// The name in `size(name)`.
    Size(Token),
    /// The name in `length(name)`.
    Length(Token),
    Operator(Operator),
}

/// A comparison of computed numbers, in tokens.
pub(super) struct Sums {
    pub left: Vec<Item>,
    pub relation: Relation,
    pub operator: Token,
    pub right: Vec<Item>,
}
