//! Parses rules by recursive descent. The nesting of parentheses is bounded, which bounds the stack.

use crate::error::{Error, Kind};
use crate::language::lexer::{tokens, Token};
use crate::language::{
    nearest, Action, Arithmetic, Binary, Clause, Condition, Constant, Domain, Expr, FactType, Field, Function, Name,
    Node, Offset, Pattern, PatternKind, Relation, Rule, Text, TimeRelation,
};

/// The most nested parentheses.
const MAX_DEPTH: usize = 64;

/// The most nested operators and functions.
const MAX_OPERATOR_DEPTH: u32 = 9 * MAX_DEPTH as u32;

/// The most subexpressions of an operand that is compiled twice.
const MAX_OPERAND_PARTS: u32 = 256;

/// Words that cannot be names.
const RESERVED: [&str; 28] = [
    "fact", "rule", "priority", "when", "then", "none", "either", "or", "and", "not", "in", "is", "null", "true",
    "false", "after", "before", "within", "assert", "modify", "retract", "notify", "let", "if", "else", "div", "mod",
    "optional",
];

/// Reads the text of rules.
pub(crate) fn parse(text: &str) -> Result<Text, Error> {
    let mut parser = Parser { text, tokens: tokens(text)?, next: 0, depth: 0 };
    let mut rules = Text::default();
    loop {
        if parser.take_word("fact") {
            rules.facts.push(parser.fact_type()?);
        } else if parser.take_word("rule") {
            rules.rules.push(parser.rule()?);
        } else if *parser.peek() == Token::End {
            return Ok(rules);
        } else {
            return Err(parser.unexpected("`fact` or `rule`, or a comma before another action", &["fact", "rule"]));
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, Offset)>,
    next: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.next].0
    }

    /// Returns the token after the next one.
    fn peek_second(&self) -> &Token {
        &self.tokens[(self.next + 1).min(self.tokens.len() - 1)].0
    }

    fn at(&self) -> Offset {
        self.tokens[self.next].1
    }

    fn advance(&mut self) {
        if self.next + 1 < self.tokens.len() {
            self.next += 1;
        }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(text) if text == word)
    }

    fn take_word(&mut self, word: &str) -> bool {
        let is = self.is_word(word);
        if is {
            self.advance();
        }
        is
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(text) if *text == symbol)
    }

    fn take(&mut self, symbol: &str) -> bool {
        let is = self.is_symbol(symbol);
        if is {
            self.advance();
        }
        is
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.take(symbol) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{symbol}`"), &[]))
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Error> {
        if self.take_word(word) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{word}`"), &[word]))
    }

    /// Returns the error that the next token is not the expected one.
    fn unexpected(&self, expected: &str, words: &[&str]) -> Error {
        let found = match self.peek() {
            Token::Word(word) => format!("`{word}`"),
            Token::Constant(_) => "a constant".to_owned(),
            Token::Symbol(symbol) => format!("`{symbol}`"),
            Token::End => "the end of the text".to_owned(),
        };
        let mut message = format!("here is {found}, but {expected} is expected");
        if let Token::Word(word) = self.peek() {
            if let Some(near) = nearest(word, words.iter().copied()).filter(|near| near != word) {
                message = format!("{message}; did you mean `{near}`?");
            }
        }
        Error::new(Kind::Syntax, message).at(self.text, self.at())
    }

    fn name(&mut self, of: &str) -> Result<Name, Error> {
        match self.peek() {
            Token::Word(word) if !RESERVED.contains(&word.as_str()) => {
                let name = Name { text: word.clone(), at: self.at() };
                self.advance();
                Ok(name)
            }
            Token::Word(word) => {
                let message = format!("`{word}` is a word of the language and cannot be {of}; choose another name");
                Err(Error::new(Kind::Syntax, message).at(self.text, self.at()))
            }
            _ => Err(self.unexpected(of, &[])),
        }
    }

    fn fact_type(&mut self) -> Result<FactType, Error> {
        let name = self.name("the name of a fact type")?;
        self.expect("(")?;
        let mut fields = Vec::new();
        if !self.take(")") {
            loop {
                fields.push(self.field()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        let strict = self.take_word("strict");
        Ok(FactType { name, fields, strict })
    }

    fn field(&mut self) -> Result<Field, Error> {
        let name = self.name("the name of a field")?;
        self.expect(":")?;
        let ty = self.name("a type")?;
        let optional = self.take_word("optional");
        let at = self.at();
        let domain = if self.is_word("in") {
            self.advance();
            Domain::Among(self.constants()?, at)
        } else if matches!(self.peek(), Token::Constant(_)) || self.is_symbol("-") {
            let least = self.constant()?;
            self.expect("..")?;
            Domain::Range(least, self.constant()?, at)
        } else {
            Domain::Any
        };
        let optional = optional || self.take_word("optional");
        let at = self.at();
        let forgiving = self.take_word("on_mismatch");
        if forgiving && !self.take_word("undefined") {
            return Err(self.unexpected("`undefined`", &["undefined"]));
        }
        if forgiving && !optional {
            let message = format!(
                "`{0}` is required, so a value that does not fit cannot count as undefined; write `{0}: {1} optional`",
                name.text, ty.text
            );
            return Err(Error::new(Kind::Type, message).about(&name.text).at(self.text, at));
        }
        Ok(Field { name, ty, optional, forgiving, domain })
    }

    fn constants(&mut self) -> Result<Vec<Constant>, Error> {
        self.expect("(")?;
        let mut constants = Vec::new();
        if self.take(")") {
            return Ok(constants);
        }
        loop {
            constants.push(self.constant()?);
            if !self.take(",") {
                break;
            }
        }
        self.expect(")")?;
        Ok(constants)
    }

    fn constant(&mut self) -> Result<Constant, Error> {
        let is_negative = self.take("-");
        let constant = match self.peek() {
            Token::Constant(constant) => constant.clone(),
            Token::Word(word) if word == "true" => Constant::Boolean(true),
            Token::Word(word) if word == "false" => Constant::Boolean(false),
            _ => return Err(self.unexpected("a constant", &["true", "false"])),
        };
        let constant = match constant {
            Constant::Integer(integer) if is_negative => Constant::Integer(-integer),
            Constant::Float(float) if is_negative => Constant::Float(-float),
            constant if !is_negative => constant,
            _ => return Err(self.unexpected("a number", &[])),
        };
        self.advance();
        Ok(constant)
    }

    fn rule(&mut self) -> Result<Rule, Error> {
        let name = self.name("the name of a rule")?;
        let mut priority = 0;
        if self.take_word("priority") {
            let at = self.at();
            match self.constant()? {
                Constant::Integer(integer) if i32::try_from(integer).is_ok() => priority = integer as i32,
                _ => {
                    let message = "a priority is an integer of 32 bits; write for example `priority 10`";
                    return Err(Error::new(Kind::OutOfBounds, message).at(self.text, at));
                }
            }
        }
        self.expect_word("when")?;
        let conditions = self.conditions()?;
        self.expect_word("then")?;
        let mut actions = vec![self.action()?];
        while self.take(",") {
            actions.push(self.action()?);
        }
        Ok(Rule { name, priority, conditions, actions })
    }

    fn conditions(&mut self) -> Result<Vec<Condition>, Error> {
        let mut conditions = vec![self.condition()?];
        while !self.is_word("then") && !self.is_symbol(")") {
            conditions.push(self.condition()?);
        }
        Ok(conditions)
    }

    fn condition(&mut self) -> Result<Condition, Error> {
        if self.take_word("either") {
            let mut alternatives = vec![self.alternative()?];
            while self.take_word("or") {
                alternatives.push(self.alternative()?);
            }
            return Ok(Condition::Either(alternatives));
        }
        if self.take_word("none") {
            let ty = self.name("a fact type")?;
            return Ok(Condition::One(Pattern { kind: PatternKind::None, name: None, ty, clauses: self.clauses()? }));
        }
        if !matches!(self.peek(), Token::Word(_)) {
            return Err(self.unexpected("a condition or `then`", &[]));
        }
        let mut name = None;
        let mut kind = PatternKind::Fact;
        if matches!(self.peek_second(), Token::Symbol(":")) {
            name = Some(self.name("the name of a condition")?);
            self.expect(":")?;
            let aggregate = match self.peek() {
                Token::Word(word) if matches!(self.peek_second(), Token::Word(_)) => word.clone(),
                _ => String::new(),
            };
            if aggregate == "count" {
                self.advance();
                kind = PatternKind::Count;
            } else if ["sum", "min", "max"].contains(&aggregate.as_str()) {
                self.advance();
                let ty = self.name("a fact type")?;
                self.expect(".")?;
                let field = self.name("a field")?;
                kind = match aggregate.as_str() {
                    "sum" => PatternKind::Sum(field),
                    "min" => PatternKind::Min(field),
                    _ => PatternKind::Max(field),
                };
                return Ok(Condition::One(Pattern { kind, name, ty, clauses: self.clauses()? }));
            }
        }
        let ty = match self.peek() {
            Token::Word(word) if !RESERVED.contains(&word.as_str()) => self.name("a fact type")?,
            _ => return Err(self.unexpected("a condition or `then`", &["then", "none", "either"])),
        };
        Ok(Condition::One(Pattern { kind, name, ty, clauses: self.clauses()? }))
    }

    fn alternative(&mut self) -> Result<Vec<Condition>, Error> {
        self.deeper()?;
        self.expect("(")?;
        let conditions = self.conditions()?;
        self.expect(")")?;
        self.depth -= 1;
        Ok(conditions)
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        let message = format!("this is nested more than {MAX_DEPTH} deep; name a part by `let` or split the rule");
        Err(Error::new(Kind::OutOfBounds, message).at(self.text, self.at()))
    }

    fn clauses(&mut self) -> Result<Vec<Clause>, Error> {
        let mut clauses = Vec::new();
        if self.take("(") && !self.take(")") {
            loop {
                clauses.push(self.clause()?);
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        while self.take(",") || self.is_time() {
            clauses.push(self.clause()?);
        }
        Ok(clauses)
    }

    fn is_time(&self) -> bool {
        ["after", "before", "within"].iter().any(|word| self.is_word(word))
    }

    fn clause(&mut self) -> Result<Clause, Error> {
        if !self.is_time() {
            return Ok(Clause::Test(self.expression()?));
        }
        if self.take_word("within") {
            let within = Some(self.duration()?);
            let relation = match self.peek() {
                Token::Word(word) if word == "after" => TimeRelation::After,
                Token::Word(word) if word == "before" => TimeRelation::Before,
                Token::Word(word) if word == "of" => TimeRelation::Of,
                _ => {
                    return Err(
                        self.unexpected("`after`, `before` or `of` and the name of a condition", &["after", "before"])
                    )
                }
            };
            self.advance();
            return Ok(Clause::Time { relation, anchor: self.name("the name of a condition")?, within });
        }
        let relation = if self.take_word("after") { TimeRelation::After } else { TimeRelation::Before };
        if relation == TimeRelation::Before {
            self.expect_word("before")?;
        }
        let anchor = self.name("the name of a condition")?;
        let within = if self.take_word("within") { Some(self.duration()?) } else { None };
        Ok(Clause::Time { relation, anchor, within })
    }

    /// Reads a duration, in milliseconds.
    fn duration(&mut self) -> Result<i64, Error> {
        const UNITS: [(&str, i64); 5] =
            [("millisecond", 1), ("second", 1_000), ("minute", 60_000), ("hour", 3_600_000), ("day", 86_400_000)];
        /// A hundred thousand days: sums of times do not overflow.
        const MAX_DURATION: i64 = 100_000 * 86_400_000;
        let at = self.at();
        let Token::Constant(Constant::Integer(number)) = *self.peek() else {
            return Err(self.unexpected("a duration such as `5 minutes`", &[]));
        };
        self.advance();
        let unit = match self.peek() {
            Token::Word(word) => {
                UNITS.iter().find(|(unit, _)| word == unit || word.strip_suffix('s') == Some(unit)).copied()
            }
            _ => None,
        };
        let Some((_, milliseconds)) = unit else {
            let expected = "`milliseconds`, `seconds`, `minutes`, `hours` or `days`";
            return Err(self.unexpected(expected, &["milliseconds", "seconds", "minutes", "hours", "days"]));
        };
        self.advance();
        match number.checked_mul(milliseconds) {
            Some(duration) if (1..=MAX_DURATION).contains(&duration) => Ok(duration),
            _ => {
                let message = "a duration is at least a millisecond and at most 100000 days; write another one";
                Err(Error::new(Kind::OutOfBounds, message).at(self.text, at))
            }
        }
    }

    fn action(&mut self) -> Result<Action, Error> {
        if self.take_word("assert") {
            let ty = self.name("a fact type")?;
            return Ok(Action::Assert(ty, self.values()?));
        }
        if self.take_word("modify") {
            let name = self.name("the name of a condition")?;
            return Ok(Action::Modify(name, self.values()?));
        }
        if self.take_word("retract") {
            return Ok(Action::Retract(self.name("the name of a condition")?));
        }
        if self.take_word("notify") {
            let name = self.name("the name of a notice")?;
            return Ok(Action::Notify(name, self.values()?));
        }
        if self.take_word("let") {
            let name = self.name("a name")?;
            self.expect("=")?;
            return Ok(Action::Let(name, self.expression()?));
        }
        let words = ["assert", "modify", "retract", "notify", "let"];
        Err(self.unexpected("`assert`, `modify`, `retract`, `notify` or `let`", &words))
    }

    fn values(&mut self) -> Result<Vec<(Name, Expr)>, Error> {
        let mut values = Vec::new();
        if self.take("(") && !self.take(")") {
            loop {
                let name = self.name("the name of a field")?;
                self.expect(":")?;
                values.push((name, self.expression()?));
                if !self.take(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        Ok(values)
    }

    fn expression(&mut self) -> Result<Expr, Error> {
        self.deeper()?;
        let expression = self.joined(0)?;
        self.depth -= 1;
        Ok(expression)
    }

    /// Parses operators of `level` and tighter ones.
    fn joined(&mut self, level: usize) -> Result<Expr, Error> {
        const LEVELS: [&[(&str, Binary)]; 4] = [
            &[("or", Binary::Or)],
            &[("and", Binary::And)],
            &[("+", Binary::Compute(Arithmetic::Add)), ("-", Binary::Compute(Arithmetic::Subtract))],
            &[
                ("*", Binary::Compute(Arithmetic::Multiply)),
                ("/", Binary::Compute(Arithmetic::Divide)),
                ("div", Binary::Compute(Arithmetic::Div)),
                ("mod", Binary::Compute(Arithmetic::Mod)),
            ],
        ];
        let Some(operators) = LEVELS.get(level) else { return self.factor() };
        let mut left = if level == 1 { self.negated()? } else { self.joined(level + 1)? };
        loop {
            let at = self.at();
            let operator = operators.iter().find(|(text, _)| match self.peek() {
                Token::Word(word) => word == text,
                Token::Symbol(symbol) => symbol == text,
                _ => false,
            });
            let Some(&(_, operator)) = operator else { return Ok(left) };
            self.advance();
            let right = if level == 1 { self.negated()? } else { self.joined(level + 1)? };
            left = Expr::new(at, Node::Binary(operator, Box::new(left), Box::new(right)));
            // A chain nests to the left, and later passes recurse on its depth.
            if left.depth > MAX_OPERATOR_DEPTH {
                let message =
                    format!("this chain of operators nests more than {MAX_OPERATOR_DEPTH} deep; use `in` or `let`");
                return Err(Error::new(Kind::OutOfBounds, message).at(self.text, at));
            }
        }
    }

    fn negated(&mut self) -> Result<Expr, Error> {
        let at = self.at();
        if self.take_word("not") {
            self.deeper()?;
            let operand = self.negated()?;
            self.depth -= 1;
            return Ok(Expr::new(at, Node::Not(Box::new(operand))));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr, Error> {
        const RELATIONS: [(&str, Relation); 7] = [
            ("=", Relation::Equal),
            ("<>", Relation::Unequal),
            ("!=", Relation::Unequal),
            ("<", Relation::Less),
            ("<=", Relation::AtMost),
            (">", Relation::Greater),
            (">=", Relation::AtLeast),
        ];
        let left = self.joined(2)?;
        let at = self.at();
        if let Token::Symbol(symbol) = *self.peek() {
            if let Some((_, relation)) = RELATIONS.iter().find(|(text, _)| *text == symbol) {
                self.advance();
                let right = self.joined(2)?;
                return Ok(Expr::new(at, Node::Binary(Binary::Compare(*relation), Box::new(left), Box::new(right))));
            }
        }
        let negated = self.is_word("not") && matches!(self.peek_second(), Token::Word(word) if word == "in");
        if negated {
            self.advance();
        }
        if self.take_word("in") {
            let constants = self.constants()?;
            // The operand is compiled twice, so nesting would double the code at each level.
            if negated && left.size > MAX_OPERAND_PARTS {
                let message =
                    format!("the operand of `not in` has more than {MAX_OPERAND_PARTS} parts; name it by `let`");
                return Err(Error::new(Kind::OutOfBounds, message).at(self.text, at));
            }
            // An undefined value is neither in a list nor outside it.
            let inside = Expr::new(at, Node::In(Box::new(left.clone()), constants));
            if !negated {
                return Ok(inside);
            }
            let outside = Expr::new(at, Node::Not(Box::new(inside)));
            let null = Expr::new(at, Node::IsNull(Box::new(left)));
            let defined = Expr::new(at, Node::Not(Box::new(null)));
            return Ok(Expr::new(at, Node::Binary(Binary::And, Box::new(defined), Box::new(outside))));
        }
        if self.take_word("is") {
            let negated = self.take_word("not");
            self.expect_word("null")?;
            let null = Expr::new(at, Node::IsNull(Box::new(left)));
            return Ok(if negated { Expr::new(at, Node::Not(Box::new(null))) } else { null });
        }
        Ok(left)
    }

    fn factor(&mut self) -> Result<Expr, Error> {
        let at = self.at();
        if self.take("-") {
            self.deeper()?;
            let operand = self.factor()?;
            self.depth -= 1;
            let node = match operand.node {
                Node::Constant(Constant::Integer(integer)) => Node::Constant(Constant::Integer(-integer)),
                Node::Constant(Constant::Float(float)) => Node::Constant(Constant::Float(-float)),
                _ => Node::Negative(Box::new(operand)),
            };
            return Ok(Expr::new(at, node));
        }
        if self.take("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.take_word("if") {
            let condition = self.expression()?;
            self.expect_word("then")?;
            let yes = self.expression()?;
            self.expect_word("else")?;
            let no = self.expression()?;
            return Ok(Expr::new(at, Node::If(Box::new([condition, yes, no]))));
        }
        match self.peek() {
            Token::Constant(_) => Ok(Expr::new(at, Node::Constant(self.constant()?))),
            Token::Word(word) if word == "true" || word == "false" => {
                Ok(Expr::new(at, Node::Constant(self.constant()?)))
            }
            Token::Word(word) => {
                let function = Function::ALL.iter().find(|(name, _, _)| name == word);
                if let (Some(&(name, function, arity)), Token::Symbol("(")) = (function, self.peek_second()) {
                    self.advance();
                    return self.call(name, function, arity, at);
                }
                let name = self.name("a field, a name or a constant")?;
                if !self.take(".") {
                    return Ok(Expr::new(at, Node::Name(name.text)));
                }
                Ok(Expr::new(at, Node::Field(name, self.name("a field")?)))
            }
            _ => Err(self.unexpected("a field, a name or a constant", &[])),
        }
    }

    fn call(&mut self, name: &str, function: Function, arity: usize, at: Offset) -> Result<Expr, Error> {
        self.expect("(")?;
        let mut arguments = vec![self.expression()?];
        while self.take(",") {
            arguments.push(self.expression()?);
        }
        self.expect(")")?;
        if arguments.len() != arity {
            let message = format!("`{name}` takes {arity} arguments and has {}", arguments.len());
            return Err(Error::new(Kind::Type, message).at(self.text, at));
        }
        Ok(Expr::new(at, Node::Call(function, arguments)))
    }
}
