//! The grammar: operator precedence parsing with an explicit stack, and the forms of predicates.

mod sums;

use crate::error::{Error, Kind};
use crate::language::ast::{Atom, Item, Membership, Sums};
use crate::language::check::Checker;
use crate::language::lexer::{lower_case_keyword, Lexer, Token, TokenKind};
use crate::language::push;
use crate::model::objects::{Quantified, Quantifier, MAX_CONDITION_STEPS};
use crate::model::predicate::{Borrowed, Predicate, Relation, Step, Test};
use crate::model::schema::{AttributeId, Schema};
use crate::support::hash::out_of_memory;

/// An operator that waits for its right operand, or an open parenthesis.
#[derive(Clone, Copy)]
enum Pending {
    /// An open parenthesis and its position.
    Open(usize),
    /// The open parenthesis of a condition for the objects of a list, and its position.
    Objects(usize),
    Operator(Operator),
}

/// An operator of expressions. A later variant binds tighter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operator {
    Or,
    And,
    Not,
}

/// An unfinished condition for the objects of a list. Conditions do not nest.
#[derive(Clone, Copy)]
struct Condition {
    /// The number of steps before it.
    start: usize,
    list: AttributeId,
    quantifier: Quantifier,
}

/// The initial capacity for items, enough for most lists.
const INITIAL_ITEMS: usize = 32;

/// The bytes of text per step, at least, in most expressions.
const TEXT_OF_STEP: usize = 10;

/// The function that may take the place of an attribute.
const LOWER: &str = "lower";

struct Parser<'a, 's> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The current token, not taken yet.
    current: Token,
    checker: Checker<'a, 's>,
    /// The attributes of events.
    schema: &'s Schema,
    /// The constants of the last list, or the last arguments.
    items: Vec<Token>,
    pending: Vec<Pending>,
    /// The condition of the [`Pending::Objects`], if there is one.
    condition: Option<Condition>,
    steps: Vec<Step<Borrowed<'a>>>,
}

/// Parses the whole `text`.
pub(super) fn parse<'a>(
    text: &'a str,
    schema: &Schema,
    constants: &[(&[u8], i64)],
) -> Result<Vec<Step<Borrowed<'a>>>, Error> {
    let mut lexer = Lexer::new(text);
    let current = lexer.next();
    if let TokenKind::Fault(fault) = current.kind {
        return Err(lexer.error(fault, current));
    }
    let checker = Checker::new(text, schema, constants);
    let mut steps = Vec::new();
    steps.try_reserve(text.len() / TEXT_OF_STEP + 1).map_err(out_of_memory)?;
    let mut parser = Parser {
        text,
        lexer,
        current,
        checker,
        schema,
        items: Vec::new(),
        pending: Vec::new(),
        condition: None,
        steps,
    };
    parser.expression()?;
    Ok(parser.steps)
}

impl<'a, 's> Parser<'a, 's> {
    fn expression(&mut self) -> Result<(), Error> {
        loop {
            self.operand()?;
            while self.current.kind == TokenKind::Close {
                self.close()?;
            }
            match self.current.kind {
                TokenKind::And => self.infix(Operator::And)?,
                TokenKind::Or => self.infix(Operator::Or)?,
                TokenKind::End => return self.finish(),
                _ => return Err(self.expected("`and`, `or` or the end of the expression")),
            }
        }
    }

    /// Takes a `not` or an opening parenthesis before an operand.
    #[inline(always)]
    fn prefix(&mut self, prefix: Pending) -> Result<(), Error> {
        push(&mut self.pending, prefix)?;
        self.go_on()
    }

    /// Returns the quantifier `word` if an opening parenthesis follows the current token, a name.
    fn quantifier(&self, word: Token) -> Option<Quantifier> {
        let (_, quantifier) =
            Quantifier::NAMES.into_iter().find(|(name, _)| name.as_bytes() == word.bytes(self.text))?;
        self.lexer.is_at_open().then_some(quantifier)
    }

    /// Takes the name of a list after the quantifier `word`, and the parenthesis of the condition.
    fn condition(&mut self, quantifier: Quantifier, word: Token) -> Result<(), Error> {
        if self.checker.is_among_objects() {
            let message = "a condition for objects cannot have another one inside; write them side by side";
            return Err(Error::new(Kind::Syntax, message).at(self.text.as_bytes(), word.start));
        }
        let list = self.checker.enter(self.current)?;
        self.advance()?;
        self.condition = Some(Condition { start: self.steps.len(), list, quantifier });
        self.prefix(Pending::Objects(self.current.start))
    }

    /// Replaces the steps of the condition that opened at `open` by one predicate that contains them.
    fn quantified(&mut self, open: usize) -> Result<(), Error> {
        let Some(Condition { start, list, quantifier }) = self.condition.take() else {
            unreachable!("a condition has a parenthesis")
        };
        let count = self.steps.len() - start;
        if count > MAX_CONDITION_STEPS {
            let message = format!(
                "the condition has {count} predicates and operators, and at most {MAX_CONDITION_STEPS} fit; shorten it, or divide it"
            );
            return Err(Error::new(Kind::OutOfBounds, message).at(self.text.as_bytes(), open));
        }
        let mut steps = Vec::new();
        steps.try_reserve_exact(count).map_err(out_of_memory)?;
        steps.extend(self.steps.drain(start..));
        self.checker.leave(self.schema);
        let test = Test::Objects(Box::new(Quantified::new(quantifier, steps.into_boxed_slice())));
        push(&mut self.steps, Step::Predicate(Predicate { attribute: list, test }))
    }

    /// Takes `and` or `or`, after emitting the operators that bind at least as tightly.
    #[inline(always)]
    fn infix(&mut self, operator: Operator) -> Result<(), Error> {
        self.complete(operator)?;
        self.prefix(Pending::Operator(operator))
    }

    /// Takes a closing parenthesis.
    #[inline(always)]
    fn close(&mut self) -> Result<(), Error> {
        self.complete(Operator::Or)?;
        match self.pending.pop() {
            None => return Err(self.syntax("no `(` is open for this `)`; take it out or add the `(`")),
            Some(Pending::Objects(open)) => self.quantified(open)?,
            Some(_) => {}
        }
        self.go_on()
    }

    /// Emits all operators that wait.
    fn finish(&mut self) -> Result<(), Error> {
        self.complete(Operator::Or)?;
        match self.pending.pop() {
            Some(Pending::Open(start) | Pending::Objects(start)) => {
                let opened = self.text[..start].chars().count() + 1;
                Err(self.expected(&format!("`)` for the `(` at column {opened}")))
            }
            _ => Ok(()),
        }
    }

    /// Emits the operators that bind at least as tightly as `least`, back to the last `(`.
    #[inline(always)]
    fn complete(&mut self, least: Operator) -> Result<(), Error> {
        while let Some(&Pending::Operator(operator)) = self.pending.last() {
            if operator < least {
                break;
            }
            self.pending.pop();
            let step = match operator {
                Operator::Not => Step::Not,
                Operator::And => Step::And,
                Operator::Or => Step::Or,
            };
            push(&mut self.steps, step)?;
        }
        Ok(())
    }

    /// Takes an operand, after the `not`s and opening parentheses before it.
    fn operand(&mut self) -> Result<(), Error> {
        loop {
            match self.current.kind {
                TokenKind::Not => self.prefix(Pending::Operator(Operator::Not))?,
                TokenKind::Open => self.prefix(Pending::Open(self.current.start))?,
                TokenKind::Name => {
                    let name = self.advance()?;
                    let quantifier = match self.current.kind {
                        TokenKind::Name => self.quantifier(name),
                        _ => None,
                    };
                    match quantifier {
                        Some(quantifier) => self.condition(quantifier, name)?,
                        None => {
                            let atom = self.after_name(name)?;
                            return self.checker.check(atom, &self.items, &mut self.steps);
                        }
                    }
                }
                _ => return self.constant_operand(),
            }
        }
    }

    /// Takes an operand that begins with a constant.
    fn constant_operand(&mut self) -> Result<(), Error> {
        let token = self.current;
        let atom = match token.kind {
            TokenKind::Boolean(value) => {
                self.advance()?;
                return match self.current.kind {
                    TokenKind::Relation(_) => Err(self.checker.boolean_comparison(self.current)),
                    _ => push(&mut self.steps, Step::Constant(value)),
                };
            }
            TokenKind::Integer | TokenKind::Float | TokenKind::String { .. } => {
                self.advance()?;
                self.after_constant(token)?
            }
            _ => return Err(self.expected("an attribute, a constant, a function, `not` or `(`")),
        };
        self.checker.check(atom, &self.items, &mut self.steps)
    }

    /// Parses a comparison of computed numbers whose left side begins with `first`.
    fn computed(&mut self, first: Item) -> Result<Atom, Error> {
        self.sums(first).map(Box::new).map(Atom::Sums)
    }

    /// Parses a comparison of `name` whose right side is more than a constant.
    fn compared(
        &mut self,
        name: Token,
        relation: Relation,
        operator: Token,
        first: Option<Item>,
    ) -> Result<Atom, Error> {
        let right = self.sum(first, false)?;
        Ok(Atom::Sums(Box::new(Sums { left: vec![Item::Plain(name)], relation, operator, right })))
    }

    fn after_name(&mut self, name: Token) -> Result<Atom, Error> {
        match self.current.kind {
            TokenKind::Open if name.bytes(self.text) == LOWER.as_bytes() => {
                let lowered = self.lowered()?;
                match self.current.kind {
                    TokenKind::Relation(_) | TokenKind::In | TokenKind::Not => self.after_name(lowered),
                    TokenKind::Name if self.word() == "like" => self.after_name(lowered),
                    _ => Err(self.expected("`=`, `<>`, `in` or `like` after `lower(...)`")),
                }
            }
            TokenKind::Open => {
                if let Some(item) = sums::counted(name.of(self.text)) {
                    let first = self.counted(item)?;
                    return self.computed(first);
                }
                self.parenthesized()?;
                Ok(Atom::Call { function: name })
            }
            TokenKind::Relation(relation) => {
                let operator = self.advance()?;
                if name.kind == TokenKind::Name && matches!(self.current.kind, TokenKind::Name | TokenKind::Open) {
                    return self.compared(name, relation, operator, None);
                }
                let constant = self.constant()?;
                match self.is_at_operator() {
                    false => Ok(Atom::Compare { name, relation, operator, constant }),
                    true => self.compared(name, relation, operator, Some(Item::Plain(constant))),
                }
            }
            TokenKind::In => {
                self.advance()?;
                self.list()?;
                Ok(Atom::Among { name, negated: false })
            }
            TokenKind::Not => {
                self.advance()?;
                match self.word() {
                    "like" => return self.like(name, true),
                    "matches" => return self.matches(name, true),
                    "between" => return self.between(name, true),
                    _ => {}
                }
                self.expect(TokenKind::In, "`in`, `like`, `matches` or `between` after `not`")?;
                self.list()?;
                Ok(Atom::Among { name, negated: true })
            }
            TokenKind::Name => match self.current.of(self.text) {
                "like" => self.like(name, false),
                "matches" => self.matches(name, false),
                "between" => self.between(name, false),
                "one" => self.members(name, Membership::One),
                "none" => self.members(name, Membership::None),
                "all" => self.members(name, Membership::All),
                "is" => self.after_is(name),
                // The message names the keyword; otherwise it would blame an attribute that is not boolean.
                word if lower_case_keyword(word).is_some_and(|keyword| !matches!(keyword, "and" | "or")) => {
                    Err(self.expected("an operator"))
                }
                _ => Ok(Atom::Bare(name)),
            },
            _ if self.is_at_operator() => self.computed(Item::Plain(name)),
            _ => Ok(Atom::Bare(name)),
        }
    }

    fn like(&mut self, name: Token, negated: bool) -> Result<Atom, Error> {
        self.advance()?;
        let pattern = self.constant()?;
        Ok(Atom::Like { name, negated, pattern })
    }

    fn matches(&mut self, name: Token, negated: bool) -> Result<Atom, Error> {
        self.advance()?;
        let pattern = self.constant()?;
        Ok(Atom::Matches { name, negated, pattern })
    }

    fn between(&mut self, name: Token, negated: bool) -> Result<Atom, Error> {
        let operator = self.advance()?;
        let low = self.constant()?;
        self.expect(TokenKind::And, "`and` and the upper bound of `between`")?;
        let high = self.constant()?;
        Ok(Atom::Between { name, negated, operator, low, high })
    }

    /// Takes `(name)` after `lower`. Returns the name as a token of its own kind.
    fn lowered(&mut self) -> Result<Token, Error> {
        if self.checker.is_among_objects() {
            return Err(self.syntax("`lower` reads no attribute of an object in a list; compare the string as it is"));
        }
        self.advance()?;
        let name = self.expect(TokenKind::Name, "the string attribute that `lower` reads")?;
        self.expect(TokenKind::Close, "`)`")?;
        Ok(Token { kind: TokenKind::Lowered, ..name })
    }

    fn members(&mut self, name: Token, membership: Membership) -> Result<Atom, Error> {
        self.advance()?;
        if self.word() != "of" {
            return Err(self.expected("`of`"));
        }
        self.advance()?;
        self.list()?;
        Ok(Atom::Members { name, membership })
    }

    fn after_is(&mut self, name: Token) -> Result<Atom, Error> {
        self.advance()?;
        let negated = self.current.kind == TokenKind::Not;
        if negated {
            self.advance()?;
        }
        let atom = match (negated, self.word()) {
            (false, "null") => Atom::Null(name),
            (true, "null") => Atom::NotNull(name),
            (false, "empty") => Atom::Empty(name),
            (false, _) => return Err(self.expected("`null`, `not null` or `empty` after `is`")),
            (true, _) => return Err(self.expected("`null` after `is not`")),
        };
        self.advance()?;
        Ok(atom)
    }

    fn after_constant(&mut self, constant: Token) -> Result<Atom, Error> {
        match self.current.kind {
            TokenKind::Relation(relation) => {
                let operator = self.advance()?;
                let is_string = matches!(constant.kind, TokenKind::String { .. });
                if !is_string && matches!(self.current.kind, TokenKind::Open | TokenKind::Integer | TokenKind::Float) {
                    return self.compared(constant, relation, operator, None);
                }
                let name = self.expect(TokenKind::Name, "an attribute to compare the constant with")?;
                match (self.current.kind, sums::counted(name.of(self.text))) {
                    (TokenKind::Open, Some(item)) if !is_string => {
                        let first = self.counted(item)?;
                        self.compared(constant, relation, operator, Some(first))
                    }
                    _ if !is_string && self.is_at_operator() => {
                        self.compared(constant, relation, operator, Some(Item::Plain(name)))
                    }
                    _ => Ok(Atom::Compare { name, relation: relation.flipped(), operator, constant }),
                }
            }
            _ if self.is_at_operator() && !matches!(constant.kind, TokenKind::String { .. }) => {
                self.computed(Item::Plain(constant))
            }
            TokenKind::In => {
                self.advance()?;
                let name = self.expect(TokenKind::Name, "a list attribute after `in`")?;
                Ok(Atom::Has { name, negated: false, constant })
            }
            TokenKind::Not => {
                self.advance()?;
                self.expect(TokenKind::In, "`in` after `not`")?;
                let name = self.expect(TokenKind::Name, "a list attribute after `not in`")?;
                Ok(Atom::Has { name, negated: true, constant })
            }
            _ => Err(self.expected("a comparison or `in` after the constant")),
        }
    }

    fn constant(&mut self) -> Result<Token, Error> {
        match self.current.kind {
            TokenKind::Integer | TokenKind::Float | TokenKind::String { .. } | TokenKind::Boolean(_) => self.advance(),
            TokenKind::Name => {
                let found = self.current.describe(self.text);
                let mend = "strings are in quotes";
                Err(self.syntax(format!("expected a constant, found {found}; {mend}")))
            }
            _ => Err(self.expected("a constant")),
        }
    }

    fn list(&mut self) -> Result<(), Error> {
        match self.current.kind {
            TokenKind::Open => self.parenthesized(),
            _ => Err(self.expected("a list of constants in parentheses")),
        }
    }

    /// Takes a parenthesized list of constants and names, which become the items.
    fn parenthesized(&mut self) -> Result<(), Error> {
        self.items.clear();
        self.items.try_reserve(INITIAL_ITEMS).map_err(out_of_memory)?;
        self.advance()?;
        if self.current.kind == TokenKind::Close {
            return self.advance().map(drop);
        }
        loop {
            match self.current.kind {
                TokenKind::Name if self.current.bytes(self.text) == LOWER.as_bytes() && self.lexer.is_at_open() => {
                    self.advance()?;
                    let lowered = self.lowered()?;
                    push(&mut self.items, lowered)?;
                    if self.current.kind != TokenKind::Comma {
                        return self.expect(TokenKind::Close, "`,` or `)`").map(drop);
                    }
                    self.advance()?;
                    continue;
                }
                TokenKind::Name
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::String { .. }
                | TokenKind::Boolean(_) => push(&mut self.items, self.current)?,
                _ => return Err(self.expected("a constant")),
            }
            let goes_on = self.lexer.skip_comma();
            self.go_on()?;
            if !goes_on {
                return self.expect(TokenKind::Close, "`,` or `)`").map(drop);
            }
        }
    }

    /// Returns the current token if it is a name, otherwise an empty text.
    fn word(&self) -> &str {
        match self.current.kind {
            TokenKind::Name => self.current.of(self.text),
            _ => "",
        }
    }

    /// Takes the current token.
    #[inline(always)]
    fn advance(&mut self) -> Result<Token, Error> {
        let taken = self.current;
        self.go_on()?;
        Ok(taken)
    }

    /// Reads the token after the current one.
    #[inline(always)]
    fn go_on(&mut self) -> Result<(), Error> {
        self.read_token();
        match self.current.kind {
            TokenKind::Fault(fault) => Err(self.lexer.error(fault, self.current)),
            _ => Ok(()),
        }
    }

    /// Makes the next token the current one, in one call for each token.
    #[inline(never)]
    fn read_token(&mut self) {
        self.current = self.lexer.next();
    }

    /// Takes a token of `kind`. The message calls it `what`.
    fn expect(&mut self, kind: TokenKind, what: &str) -> Result<Token, Error> {
        match self.current.kind == kind {
            true => self.advance(),
            false => Err(self.expected(what)),
        }
    }

    fn expected(&self, what: &str) -> Error {
        self.syntax(format!("expected {what}, found {}", self.current.describe(self.text)))
    }

    /// Returns a syntax error at the current token.
    fn syntax(&self, message: impl Into<String>) -> Error {
        Error::new(Kind::Syntax, message).at(self.text.as_bytes(), self.current.start)
    }
}

impl Relation {
    /// Returns the relation with its sides swapped.
    pub(in crate::language) fn flipped(self) -> Relation {
        match self {
            Relation::Less => Relation::Greater,
            Relation::LessOrEqual => Relation::GreaterOrEqual,
            Relation::Greater => Relation::Less,
            Relation::GreaterOrEqual => Relation::LessOrEqual,
            Relation::Equal | Relation::NotEqual => self,
        }
    }
}
