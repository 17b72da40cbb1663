//! Binds comparisons of computed numbers and of two attributes, and times.

use crate::error::{Error, Kind};
use crate::language::ast::{Item, Sums};
use crate::language::check::{find, Checker, Taker};
use crate::language::lexer::{quote, Token, TokenKind};
use crate::model::arithmetic::{depth, Comparison, Term, MAX_COMPUTATION_DEPTH, MAX_COMPUTATION_STEPS};
use crate::model::predicate::{Borrowed, Predicate, Relation, Test};
use crate::model::schema::{AttributeId, Type};
use crate::model::time::{self, Unit};

impl<'a> Checker<'a, '_> {
    /// Returns the predicate of a comparison of computed numbers, or of two strings.
    pub(super) fn sums(&self, sums: &Sums) -> Result<Predicate<Borrowed<'a>>, Error> {
        self.check_quotes(sums)?;
        if let Some(predicate) = self.strings(sums)? {
            return Ok(predicate);
        }
        if let Some((name, relation, constant)) = with_constant(sums) {
            return self.compare(name, relation, sums.operator, constant);
        }
        let left = self.terms(&sums.left)?;
        let right = self.terms(&sums.right)?;
        for (terms, items) in [(&left, &sums.left), (&right, &sums.right)] {
            if terms.len() > MAX_COMPUTATION_STEPS || depth(terms) > MAX_COMPUTATION_DEPTH {
                let at = first_token(items).unwrap_or(sums.operator);
                let message = format!(
                    "the computation has more than {MAX_COMPUTATION_STEPS} numbers and operators, or needs more than {MAX_COMPUTATION_DEPTH} numbers \
                     at a time; shorten it, or take parentheses out"
                );
                return Err(self.error(Kind::OutOfBounds, at, message));
            }
        }
        let comparison =
            Comparison { relation: sums.relation, left: left.into_boxed_slice(), right: right.into_boxed_slice() };
        let Some(attribute) = comparison.terms().find_map(attribute_of) else {
            let at = first_token(&sums.left).unwrap_or(sums.operator);
            let message = "neither side names an attribute; write `true` or `false` for a comparison of constants";
            return Err(self.error(Kind::Type, at, message));
        };
        Ok(Predicate { attribute, test: Test::Compared(Box::new(comparison)) })
    }

    /// Checks that the right side is not an unquoted string.
    fn check_quotes(&self, sums: &Sums) -> Result<(), Error> {
        let ([Item::Plain(left)], [Item::Plain(right)]) = (&sums.left[..], &sums.right[..]) else { return Ok(()) };
        let attribute_of_token = |token: &Token| find(token.bytes(self.text), self.schema);
        let is_string = attribute_of_token(left).is_some_and(|id| self.schema.attribute(id).ty == Type::String);
        if is_string && right.kind == TokenKind::Name && attribute_of_token(right).is_none() {
            let message = format!(
                "expected a constant or an attribute, found {}; strings are in quotes: `'{}'`",
                right.describe(self.text),
                right.of(self.text)
            );
            return Err(self.error(Kind::Syntax, *right, message));
        }
        Ok(())
    }

    /// Returns the predicate of a comparison of two string attributes, if both sides are such.
    fn strings(&self, sums: &Sums) -> Result<Option<Predicate<Borrowed<'a>>>, Error> {
        let ([Item::Plain(left), rest @ ..], [Item::Plain(right), others @ ..]) = (&sums.left[..], &sums.right[..])
        else {
            return Ok(None);
        };
        let is_string = |token: &Token| {
            let id = Some(token).filter(|token| token.kind == TokenKind::Name);
            let id = id.and_then(|token| find(token.bytes(self.text), self.schema));
            id.filter(|&id| self.schema.attribute(id).ty == Type::String)
        };
        let (Some(attribute), Some(other)) = (is_string(left), is_string(right)) else { return Ok(None) };
        let is_alone = rest.is_empty() && others.is_empty();
        match sums.relation {
            relation @ (Relation::Equal | Relation::NotEqual) if is_alone => {
                let is_equal = relation == Relation::Equal;
                Ok(Some(Predicate { attribute, test: Test::SameString { other, is_equal } }))
            }
            _ => Err(self.misuse(&self.attribute(*left)?, sums.operator)),
        }
    }

    fn terms(&self, items: &[Item]) -> Result<Vec<Term>, Error> {
        items.iter().map(|item| self.term(item)).collect()
    }

    fn term(&self, item: &Item) -> Result<Term, Error> {
        Ok(match item {
            Item::Operator(operator) => Term::Operator(*operator),
            Item::Size(name) => {
                let takes =
                    &[Type::IntegerList, Type::StringList, Type::Segments, Type::FrequencyCaps, Type::ObjectList];
                Term::Size(self.counted("size", *name, takes, "a list")?)
            }
            Item::Length(name) => Term::Length(self.counted("length", *name, &[Type::String], "a string")?),
            Item::Plain(token) => match token.kind {
                TokenKind::Integer => Term::Integer(self.integer(&self.number_taker(), *token)?),
                TokenKind::Float => Term::Float(self.float(&self.number_taker(), *token)?),
                _ => {
                    let named = self.attribute(*token)?;
                    match named.attribute.ty {
                        Type::Integer | Type::Float | Type::DateTime => Term::Attribute(named.id),
                        ty => {
                            let message = format!(
                                "attribute {} is of type {}, and one computes with numbers and times, `size(list)` \
                                 and `length(string)`",
                                quote(&named.attribute.name),
                                ty.name()
                            );
                            return Err(self.error(Kind::Type, *token, message).about(&named.attribute.name));
                        }
                    }
                }
            },
        })
    }

    fn number_taker(&self) -> Taker<'a> {
        Taker::Computation
    }

    /// Returns the attribute measured by `size` or `length`.
    fn counted(&self, function: &str, name: Token, types: &[Type], kind: &str) -> Result<AttributeId, Error> {
        let named = self.attribute(name)?;
        if types.contains(&named.attribute.ty) {
            return Ok(named.id);
        }
        let message = format!(
            "`{function}` takes {kind}, and attribute {} is of type {}",
            quote(&named.attribute.name),
            named.attribute.ty.name()
        );
        Err(self.error(Kind::Type, name, message).about(&named.attribute.name))
    }

    /// Returns a constant as a time: an ISO 8601 string, or an integer of `unit`.
    pub(super) fn time(&self, taker: &Taker, unit: Unit, token: Token) -> Result<i64, Error> {
        match token.kind {
            TokenKind::Integer => unit.of_integer(self.integer(taker, token)?).ok_or_else(|| {
                let message = format!("the time {} does not fit 64 bits of microseconds", quote(token.of(self.text)));
                taker.named(self.error(Kind::OutOfBounds, token, message))
            }),
            TokenKind::String { .. } => {
                let text = self.string(taker, token)?;
                time::parse(&text).ok_or_else(|| {
                    let remedy = if time::is_misplaced_leap_second(&text) {
                        "only a leap second is the second 60: at 23:59:60 in UTC, on 30 June or 31 December"
                    } else {
                        "write one like '2026-01-31T12:30:00Z' or '2026-01-31'"
                    };
                    let message = format!("{} is no time; {remedy}", quote(token.of(self.text)));
                    taker.named(self.error(Kind::Type, token, message))
                })
            }
            _ => Err(self.mismatch(taker, &format!("a time as a string, or an integer of {}s", unit.name()), token)),
        }
    }
}

/// Returns the attribute read by a term.
fn attribute_of(term: Term) -> Option<AttributeId> {
    match term {
        Term::Attribute(id) | Term::Size(id) | Term::Length(id) => Some(id),
        Term::Integer(_) | Term::Float(_) | Term::Operator(_) => None,
    }
}

/// Returns a comparison with redundant parentheses as attribute, relation and constant: `5 < (i)` means `i > 5`.
fn with_constant(sums: &Sums) -> Option<(Token, Relation, Token)> {
    let ([Item::Plain(left)], [Item::Plain(right)]) = (&sums.left[..], &sums.right[..]) else { return None };
    match (left.kind, right.kind) {
        (TokenKind::Name, TokenKind::Integer | TokenKind::Float) => Some((*left, sums.relation, *right)),
        (TokenKind::Integer | TokenKind::Float, TokenKind::Name) => Some((*right, sums.relation.flipped(), *left)),
        _ => None,
    }
}

fn first_token(items: &[Item]) -> Option<Token> {
    items.iter().find_map(|item| match item {
        Item::Plain(token) | Item::Size(token) | Item::Length(token) => Some(*token),
        Item::Operator(_) => None,
    })
}
