//! Reads computed numbers: constants, attributes, `size(...)` and `length(...)` with `+`, `-`, `*`, `/` and parentheses.

use super::{Parser, Pending};
use crate::error::Error;
use crate::language::ast::{Item, Sums};
use crate::language::lexer::{Token, TokenKind};
use crate::language::push;
use crate::model::arithmetic::Operator;

/// An operator waiting for its right operand, or an open parenthesis and its position.
#[derive(Clone, Copy)]
enum Open {
    Operator(Operator),
    Parenthesis(usize),
}

/// Returns the list or string function called `name`.
pub(super) fn counted(name: &str) -> Option<fn(Token) -> Item> {
    match name {
        "size" => Some(Item::Size),
        "length" => Some(Item::Length),
        _ => None,
    }
}

impl Parser<'_, '_> {
    /// Returns whether the current token continues a computation after an operand.
    pub(super) fn is_at_operator(&self) -> bool {
        operator(self.current, self.text).is_some()
    }

    /// Parses the rest of a comparison whose left side begins with `first`.
    pub(super) fn sums(&mut self, first: Item) -> Result<Sums, Error> {
        let left = self.sum(Some(first), true)?;
        let TokenKind::Relation(relation) = self.current.kind else {
            return Err(self.expected("a comparison after the computed number"));
        };
        let operator = self.advance()?;
        let right = self.sum(None, false)?;
        Ok(Sums { left, relation, operator, right })
    }

    /// Reads `(name)` after `size` or `length`, the function of `item`.
    pub(super) fn counted(&mut self, item: fn(Token) -> Item) -> Result<Item, Error> {
        self.advance()?;
        let name = self.expect(TokenKind::Name, "the name of an attribute")?;
        self.expect(TokenKind::Close, "`)`")?;
        Ok(item(name))
    }

    /// Parses a computed number, whose first operand may be taken already. If it `is_left`, parentheses that were
    /// parsed as those of an expression may turn out to enclose the number.
    pub(super) fn sum(&mut self, mut first: Option<Item>, is_left: bool) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        let mut open = Vec::new();
        loop {
            let operand = match first.take() {
                Some(first) => first,
                None => self.number(&mut open)?,
            };
            push(&mut items, operand)?;
            while self.current.kind == TokenKind::Close {
                complete(&mut items, &mut open, false)?;
                match (open.pop(), self.pending.last()) {
                    (Some(_), _) => {}
                    (None, Some(Pending::Open(_))) if is_left => drop(self.pending.pop()),
                    (None, _) => return Ok(items),
                }
                self.advance()?;
            }
            let Some((operator, is_sign)) = operator(self.current, self.text) else { break };
            complete(&mut items, &mut open, operator.is_tight())?;
            push(&mut open, Open::Operator(operator))?;
            if is_sign {
                // The number after its sign is the next operand.
                self.current.start += 1;
            } else {
                self.advance()?;
            }
        }
        complete(&mut items, &mut open, false)?;
        match open.pop() {
            Some(Open::Parenthesis(start)) => {
                let opened = self.text[..start].chars().count() + 1;
                Err(self.expected(&format!("`)` for the `(` at column {opened}")))
            }
            _ => Ok(items),
        }
    }

    /// Reads an operand with the opening parentheses before it.
    fn number(&mut self, open: &mut Vec<Open>) -> Result<Item, Error> {
        while self.current.kind == TokenKind::Open {
            push(open, Open::Parenthesis(self.current.start))?;
            self.advance()?;
        }
        match self.current.kind {
            TokenKind::Integer | TokenKind::Float => self.advance().map(Item::Plain),
            TokenKind::Name => {
                let name = self.advance()?;
                match counted(name.of(self.text)) {
                    Some(item) if self.current.kind == TokenKind::Open => self.counted(item),
                    _ => Ok(Item::Plain(name)),
                }
            }
            _ => Err(self.expected("a number, an attribute or `(`")),
        }
    }
}

/// Returns the operator of `token`, and whether it is the sign of a number.
fn operator(token: Token, text: &str) -> Option<(Operator, bool)> {
    match token.kind {
        TokenKind::Operator(operator) => Some((operator, false)),
        TokenKind::Integer | TokenKind::Float if token.of(text).starts_with('-') => Some((Operator::Subtract, true)),
        _ => None,
    }
}

/// Emits operators after their operands, back to the last parenthesis: all, or the tight ones.
fn complete(items: &mut Vec<Item>, open: &mut Vec<Open>, only_tight: bool) -> Result<(), Error> {
    while let Some(&Open::Operator(operator)) = open.last() {
        if only_tight && !operator.is_tight() {
            break;
        }
        open.pop();
        push(items, Item::Operator(operator))?;
    }
    Ok(())
}
