//! Reads the language of expressions to steps in postfix order: operands before their operator.

use crate::error::{push, reserve, Error, Kind};
use crate::schema::{find, Attribute, Bounds, Schema, Type};

pub enum Step {
    Constant(bool),
    Predicate(Predicate),
    Not,
    And,
    Or,
}

pub struct Predicate {
    /// The attribute, or for a place the latitude.
    pub attribute: usize,
    pub test: Test,
}

pub enum Test {
    True,
    Integer(Relation, i64),
    Float(Relation, f64),
    Text(Relation, Vec<u8>),
    Among(Quantifier, Constants),
    Null,
    NotNull,
    Empty,
    Part(Part, Vec<u8>),
    Geo { longitude_attribute: usize, latitude: f64, longitude: f64, radius: f64 },
    Segment { within: bool, now: usize, id: i64, seconds: i64 },
    Cap { now: usize, kind: Vec<u8>, id: i64, namespace: Vec<u8>, value: i64, seconds: i64 },
}

/// A comparison: the orders of value and constant that make it true.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Relation {
    pub symbol: &'static str,
    pub less: bool,
    pub equal: bool,
    pub greater: bool,
}

const RELATIONS: [Relation; 6] = [
    Relation { symbol: "<", less: true, equal: false, greater: false },
    Relation { symbol: "<=", less: true, equal: true, greater: false },
    Relation { symbol: ">", less: false, equal: false, greater: true },
    Relation { symbol: ">=", less: false, equal: true, greater: true },
    Relation { symbol: "=", less: false, equal: true, greater: false },
    Relation { symbol: "<>", less: true, equal: false, greater: true },
];

impl Relation {
    /// Returns whether the relation also applies to unordered values: `=` and `<>`.
    pub fn is_equality(self) -> bool {
        self.less == self.greater
    }

    /// Returns the same relation with its sides exchanged.
    fn mirrored(self) -> Relation {
        let mirror =
            |other: &&Relation| (other.less, other.equal, other.greater) == (self.greater, self.equal, self.less);
        *RELATIONS.iter().find(mirror).expect("each has a mirror image")
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Quantifier {
    One,
    None,
    All,
}

#[derive(Clone, Copy)]
pub enum Part {
    Any,
    Start,
    End,
}

/// The constants of a list: sorted, each once.
pub enum Constants {
    Integers(Vec<i64>),
    Texts(Vec<Vec<u8>>),
}

/// Returns the name of the constant with the id of this cap type.
pub fn cap_constant(kind: &[u8]) -> Option<&'static str> {
    Some(match kind.strip_suffix(b":ip").unwrap_or(kind) {
        b"flight" => "flight_id",
        b"advertiser" => "advertiser_id",
        b"campaign" => "campaign_id",
        b"campaign_group" => "campaign_group_id",
        b"product" => "product_id",
        _ => return None,
    })
}

/// Returns the steps of the expression in `text`. `constants` belong to it.
pub fn read<'a>(text: &'a [u8], constants: &[(&[u8], i64)], schema: &'a Schema) -> Result<Vec<Step>, Error<'a>> {
    let text = std::str::from_utf8(text)
        .map_err(|error| Error::new(Kind::Syntax, "an expression is UTF-8").at(text, error.valid_up_to()))?;
    let mut parser = Parser { text, constants, schema, token: Token { is: Is::End, text: "", start: 0 } };
    parser.take()?;
    parser.expression()
}

#[derive(Clone, Copy)]
struct Token<'a> {
    is: Is,
    text: &'a str,
    start: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Is {
    Name,
    Integer,
    Float,
    Text,
    /// A reserved word, an operator, a bracket or a comma.
    Symbol,
    End,
}

impl Token<'_> {
    /// Returns whether the token is one of `symbols`.
    fn any(&self, symbols: &[&str]) -> bool {
        self.is == Is::Symbol && symbols.contains(&self.text)
    }

    fn relation(&self) -> Option<Relation> {
        RELATIONS.into_iter().find(|relation| self.any(&[relation.symbol]))
    }
}

struct Parser<'a, 'c> {
    text: &'a str,
    constants: &'c [(&'c [u8], i64)],
    schema: &'a Schema,
    /// The next token.
    token: Token<'a>,
}

/// An operator that waits for its right operand, or an open bracket. Weakest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    Open,
    Or,
    And,
    Not,
}

impl<'a> Parser<'a, '_> {
    fn expression(mut self) -> Result<Vec<Step>, Error<'a>> {
        let mut steps = Vec::new();
        let mut pending = Vec::new();
        loop {
            while self.token.any(&["not", "("]) {
                push(&mut pending, if self.take()?.text == "(" { Pending::Open } else { Pending::Not })?;
            }
            let operand = self.operand()?;
            push(&mut steps, operand)?;
            while self.token.any(&[")"]) {
                complete(&mut steps, &mut pending, Pending::Or)?;
                if pending.pop().is_none() {
                    return Err(self.syntax("no `(` is open for this `)`"));
                }
                self.take()?;
            }
            let operator = match self.token {
                token if token.any(&["and", "&&"]) => Pending::And,
                token if token.any(&["or", "||"]) => Pending::Or,
                Token { is: Is::End, .. } => break,
                _ => return Err(self.syntax("`and`, `or` or the end is expected")),
            };
            complete(&mut steps, &mut pending, operator)?;
            push(&mut pending, operator)?;
            self.take()?;
        }
        complete(&mut steps, &mut pending, Pending::Or)?;
        match pending.is_empty() {
            true => Ok(steps),
            false => Err(self.syntax("a `)` is missing")),
        }
    }

    fn operand(&mut self) -> Result<Step, Error<'a>> {
        if self.token.any(&["true", "false"]) {
            return Ok(Step::Constant(self.take()?.text == "true"));
        }
        match self.token.is {
            Is::Name => self.after_name(),
            Is::Integer | Is::Float | Is::Text => self.after_constant(),
            _ => Err(self.syntax("an attribute, a constant, a function, `not` or `(` is expected")),
        }
        .map(Step::Predicate)
    }

    fn after_name(&mut self) -> Result<Predicate, Error<'a>> {
        let name = self.take()?;
        let next = self.token;
        if next.any(&["("]) {
            return self.function(name);
        }
        if let Some(relation) = next.relation() {
            self.take()?;
            let constant = self.constant()?;
            return self.compare(name, relation, next, constant);
        }
        if next.any(&["in", "not"]) {
            let how = if self.take()?.text == "not" { Quantifier::None } else { Quantifier::One };
            if how == Quantifier::None {
                self.expect("in")?;
            }
            return self.among(name, how, false);
        }
        match (next.is, next.text) {
            (Is::Name, "one") => self.quantified(name, Quantifier::One),
            (Is::Name, "none") => self.quantified(name, Quantifier::None),
            (Is::Name, "all") => self.quantified(name, Quantifier::All),
            (Is::Name, "is") => self.after_is(name),
            _ => {
                let (attribute, declared) = self.attribute(name)?;
                self.of_type(declared.ty == Type::Boolean, name, declared)?;
                Ok(Predicate { attribute, test: Test::True })
            }
        }
    }

    fn quantified(&mut self, name: Token<'a>, how: Quantifier) -> Result<Predicate, Error<'a>> {
        self.take()?;
        match self.token {
            Token { is: Is::Name, text: "of", .. } => self.take()?,
            _ => return Err(self.syntax("`of` is expected")),
        };
        self.among(name, how, true)
    }

    /// Reads a list of constants, for the elements of a list attribute or for a single value.
    fn among(&mut self, name: Token<'a>, how: Quantifier, list: bool) -> Result<Predicate, Error<'a>> {
        if !self.token.any(&["("]) {
            return Err(self.syntax("a list of constants in parentheses is expected"));
        }
        let tokens = self.arguments()?;
        self.membership(name, how, list, &tokens)
    }

    fn membership(
        &self,
        name: Token<'a>,
        how: Quantifier,
        list: bool,
        tokens: &[Token<'a>],
    ) -> Result<Predicate, Error<'a>> {
        let (attribute, declared) = self.attribute(name)?;
        let texts = match declared.ty {
            Type::Integer | Type::IntegerEnum if !list => false,
            Type::IntegerList if list => false,
            Type::Text if !list => true,
            Type::TextList if list => true,
            _ => return Err(misuse(name, declared, self.text)),
        };
        let constants = match texts {
            true => Constants::Texts(sorted(tokens, |token| self.string(token, Some(declared)))?),
            false => Constants::Integers(sorted(tokens, |token| self.integer(token, Some(declared)))?),
        };
        Ok(Predicate { attribute, test: Test::Among(how, constants) })
    }

    fn after_is(&mut self, name: Token<'a>) -> Result<Predicate, Error<'a>> {
        self.take()?;
        let negated = self.token.any(&["not"]);
        if negated {
            self.take()?;
        }
        let word = if self.token.is == Is::Name { self.token.text } else { "" };
        let test = match (negated, word) {
            (false, "null") => Test::Null,
            (true, "null") => Test::NotNull,
            (false, "empty") => Test::Empty,
            _ => return Err(self.syntax("after `is` comes `null`, `not null` or `empty`")),
        };
        self.take()?;
        let (attribute, declared) = self.attribute(name)?;
        let list = matches!(declared.ty, Type::IntegerList | Type::TextList | Type::Segments | Type::FrequencyCaps);
        self.of_type(word == "null" || list, name, declared)?;
        Ok(Predicate { attribute, test })
    }

    fn after_constant(&mut self) -> Result<Predicate, Error<'a>> {
        let constant = self.take()?;
        let next = self.take()?;
        if let Some(relation) = next.relation() {
            let name = self.name()?;
            return self.compare(name, relation.mirrored(), next, constant);
        }
        let how = match next {
            next if next.any(&["in"]) => Quantifier::One,
            next if next.any(&["not"]) => {
                self.expect("in")?;
                Quantifier::None
            }
            _ => return Err(at(next, Kind::Syntax, "a comparison or `in` is expected", self.text)),
        };
        let name = self.name()?;
        self.membership(name, how, true, &[constant])
    }

    fn compare(
        &self,
        name: Token<'a>,
        relation: Relation,
        operator: Token<'a>,
        constant: Token<'a>,
    ) -> Result<Predicate, Error<'a>> {
        let (attribute, declared) = self.attribute(name)?;
        let test = match declared.ty {
            Type::Integer => Test::Integer(relation, self.integer(constant, Some(declared))?),
            Type::IntegerEnum if relation.is_equality() => {
                Test::Integer(relation, self.integer(constant, Some(declared))?)
            }
            Type::Float => Test::Float(relation, self.float(constant, Some(declared))?),
            Type::Text if relation.is_equality() => Test::Text(relation, self.string(constant, Some(declared))?),
            _ => return Err(misuse(operator, declared, self.text)),
        };
        Ok(Predicate { attribute, test })
    }

    fn function(&mut self, function: Token<'a>) -> Result<Predicate, Error<'a>> {
        let arguments = self.arguments()?;
        let fault = |message| at(function, Kind::Syntax, message, self.text);
        match function.text {
            "contains" => self.part(&arguments, Part::Any, fault),
            "starts_with" => self.part(&arguments, Part::Start, fault),
            "ends_with" => self.part(&arguments, Part::End, fault),
            "geo_within_radius" => {
                let [latitude, longitude, radius] = arguments[..] else {
                    return Err(fault("it takes a latitude, a longitude and kilometres"));
                };
                let (latitude, longitude) = (self.float(latitude, None)?, self.float(longitude, None)?);
                let radius = self.float(radius, None)?;
                let attribute = self.implied("latitude", Type::Float, function)?;
                let longitude_attribute = self.implied("longitude", Type::Float, function)?;
                Ok(Predicate { attribute, test: Test::Geo { longitude_attribute, latitude, longitude, radius } })
            }
            "segment_within" | "segment_before" => {
                let (attribute, id, seconds) = match arguments[..] {
                    [name, id, seconds] => {
                        let (attribute, declared) = self.attribute(name)?;
                        self.of_type(declared.ty == Type::Segments, name, declared)?;
                        (attribute, id, seconds)
                    }
                    [id, seconds] => (self.implied("segments_with_timestamp", Type::Segments, function)?, id, seconds),
                    _ => return Err(fault("it takes a list or none, a segment's id and seconds")),
                };
                let (id, seconds) = (self.integer(id, None)?, self.integer(seconds, None)?);
                let now = self.implied("now", Type::Integer, function)?;
                let within = function.text == "segment_within";
                Ok(Predicate { attribute, test: Test::Segment { within, now, id, seconds } })
            }
            "within_frequency_cap" => {
                let [kind, namespace, value, seconds] = arguments[..] else {
                    return Err(fault("it takes a type, a namespace, a value and seconds"));
                };
                let (kind_token, kind) = (kind, self.string(kind, None)?);
                let Some(constant) = cap_constant(&kind) else {
                    return Err(at(kind_token, Kind::Type, "it is no type of a frequency cap", self.text));
                };
                let namespace = self.string(namespace, None)?;
                let (value, seconds) = (self.integer(value, None)?, self.integer(seconds, None)?);
                let attribute = self.implied("frequency_caps", Type::FrequencyCaps, function)?;
                let now = self.implied("now", Type::Integer, function)?;
                let given = self.constants.iter().find(|(name, _)| *name == constant.as_bytes());
                let Some(&(_, id)) = given else {
                    let message = "the subscription needs this constant; give it with the expression";
                    let error = at(function, Kind::MissingAttribute, message, self.text);
                    return Err(error.about(constant.as_bytes()));
                };
                Ok(Predicate { attribute, test: Test::Cap { now, kind, id, namespace, value, seconds } })
            }
            _ => Err(fault("there is no such function")),
        }
    }

    fn part(
        &self,
        arguments: &[Token<'a>],
        part: Part,
        fault: impl Fn(&'static str) -> Error<'a>,
    ) -> Result<Predicate, Error<'a>> {
        let &[name, text] = arguments else { return Err(fault("it takes an attribute and a string")) };
        let (attribute, declared) = self.attribute(name)?;
        self.of_type(declared.ty == Type::Text, name, declared)?;
        Ok(Predicate { attribute, test: Test::Part(part, self.string(text, None)?) })
    }

    /// Reads `(`, constants and names with commas between them, and `)`.
    fn arguments(&mut self) -> Result<Vec<Token<'a>>, Error<'a>> {
        let mut arguments = Vec::new();
        self.take()?;
        if self.token.any(&[")"]) {
            self.take()?;
            return Ok(arguments);
        }
        loop {
            let argument = if self.token.is == Is::Name { self.take()? } else { self.constant()? };
            push(&mut arguments, argument)?;
            match self.token {
                token if token.any(&[","]) => self.take()?,
                token if token.any(&[")"]) => break,
                _ => return Err(self.syntax("`,` or `)` is expected")),
            };
        }
        self.take()?;
        Ok(arguments)
    }

    /// Returns the attribute with this name, and its position.
    fn attribute(&self, name: Token<'a>) -> Result<(usize, &'a Attribute), Error<'a>> {
        if name.is != Is::Name {
            return Err(at(name, Kind::Syntax, "an attribute's name is expected", self.text));
        }
        match find(self.schema, name.text.as_bytes()) {
            Some(place) => Ok((place, &self.schema[place])),
            None => {
                let error = at(name, Kind::UnknownAttribute, "the schema has no such attribute; declare it", self.text);
                Err(error.about(name.text.as_bytes()))
            }
        }
    }

    /// Returns the position of an attribute that `function` reads implicitly.
    fn implied(&self, name: &'static str, ty: Type, function: Token<'a>) -> Result<usize, Error<'a>> {
        let Some(place) = find(self.schema, name.as_bytes()) else {
            let error =
                at(function, Kind::UnknownAttribute, "the function reads this attribute; declare it", self.text);
            return Err(error.about(name.as_bytes()));
        };
        self.of_type(self.schema[place].ty == ty, function, &self.schema[place])?;
        Ok(place)
    }

    fn of_type(&self, fits: bool, token: Token<'a>, declared: &'a Attribute) -> Result<(), Error<'a>> {
        if fits {
            Ok(())
        } else {
            Err(misuse(token, declared, self.text))
        }
    }

    fn integer(&self, token: Token<'a>, of: Option<&'a Attribute>) -> Result<i64, Error<'a>> {
        let fault = |kind, message| about(at(token, kind, message, self.text), of);
        if token.is != Is::Integer {
            return Err(fault(Kind::Type, "an integer is expected"));
        }
        let integer = token.text.parse().map_err(|_| fault(Kind::OutOfBounds, "the integer does not fit 64 bits"))?;
        match of.map(|attribute| attribute.bounds) {
            Some(Bounds::Integers(min, max)) if !(min..=max).contains(&integer) => {
                Err(fault(Kind::OutOfBounds, "the constant lies outside of the attribute's bounds"))
            }
            _ => Ok(integer),
        }
    }

    fn float(&self, token: Token<'a>, of: Option<&'a Attribute>) -> Result<f64, Error<'a>> {
        let fault = |kind, message| about(at(token, kind, message, self.text), of);
        if !matches!(token.is, Is::Integer | Is::Float) {
            return Err(fault(Kind::Type, "a number is expected"));
        }
        let float = token.text.parse().unwrap_or(f64::NAN);
        if !f64::is_finite(float) {
            return Err(fault(Kind::OutOfBounds, "the number does not fit a float"));
        }
        match of.map(|attribute| attribute.bounds) {
            Some(Bounds::Floats(min, max)) if !(min..=max).contains(&float) => {
                Err(fault(Kind::OutOfBounds, "the constant lies outside of the attribute's bounds"))
            }
            _ => Ok(float),
        }
    }

    /// Returns a string without its quotes and with its escapes resolved.
    fn string(&self, token: Token<'a>, of: Option<&'a Attribute>) -> Result<Vec<u8>, Error<'a>> {
        if token.is != Is::Text {
            return Err(about(at(token, Kind::Type, "a string is expected, in quotes", self.text), of));
        }
        let mut string = Vec::new();
        reserve(&mut string, token.text.len())?;
        let mut bytes = token.text[1..token.text.len() - 1].bytes();
        while let Some(byte) = bytes.next() {
            string.push(match byte {
                b'\\' => match bytes.next() {
                    Some(b'n') => b'\n',
                    Some(b'r') => b'\r',
                    Some(b't') => b'\t',
                    Some(same) => same,
                    None => break,
                },
                plain => plain,
            });
        }
        string.shrink_to_fit();
        Ok(string)
    }

    fn constant(&mut self) -> Result<Token<'a>, Error<'a>> {
        match self.token.is {
            Is::Integer | Is::Float | Is::Text => self.take(),
            _ if self.token.any(&["true", "false"]) => self.take(),
            _ => Err(self.syntax("a constant is expected")),
        }
    }

    fn name(&mut self) -> Result<Token<'a>, Error<'a>> {
        match self.token.is {
            Is::Name => self.take(),
            _ => Err(self.syntax("an attribute is expected")),
        }
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error<'a>> {
        match self.token.any(&[symbol]) {
            true => self.take().map(drop),
            false => Err(self.syntax("`in` is expected after `not`")),
        }
    }

    fn syntax(&self, message: &'static str) -> Error<'a> {
        at(self.token, Kind::Syntax, message, self.text)
    }

    /// Consumes the token and reads the next one.
    fn take(&mut self) -> Result<Token<'a>, Error<'a>> {
        let taken = self.token;
        let from = taken.start + taken.text.len();
        let rest = self.text[from..].trim_start_matches([' ', '\t', '\n', '\r']);
        let start = self.text.len() - rest.len();
        let fault = |message| Error::new(Kind::Syntax, message).at(self.text.as_bytes(), start);
        let (is, length) = match rest.as_bytes() {
            [] => (Is::End, 0),
            [b'(' | b')' | b',', ..] => (Is::Symbol, 1),
            [b'&', b'&', ..] | [b'|', b'|', ..] | [b'<', b'=' | b'>', ..] | [b'>', b'=', ..] => (Is::Symbol, 2),
            [b'=', b'=', ..] => return Err(fault("`==` is no operator; write `=`")),
            [b'<' | b'>' | b'=', ..] => (Is::Symbol, 1),
            [quote @ (b'"' | b'\''), ..] => (
                Is::Text,
                string_length(rest, *quote)
                    .ok_or_else(|| fault("the string never ends, or has an escape that is none"))?,
            ),
            [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => {
                number(rest).ok_or_else(|| fault("it is neither a number nor a name"))?
            }
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => {
                let length = name_length(rest);
                let reserved = ["and", "or", "not", "in", "true", "false"].contains(&&rest[..length]);
                (if reserved { Is::Symbol } else { Is::Name }, length)
            }
            _ => return Err(fault("nothing starts with this character")),
        };
        self.token = Token { is, text: &rest[..length], start };
        Ok(taken)
    }
}

/// Pops operators that bind at least as tightly as `least` to the output, down to the last bracket.
fn complete(steps: &mut Vec<Step>, pending: &mut Vec<Pending>, least: Pending) -> Result<(), Error<'static>> {
    while let Some(&operator) = pending.last().filter(|operator| **operator >= least) {
        pending.pop();
        push(
            steps,
            match operator {
                Pending::Not => Step::Not,
                Pending::And => Step::And,
                _ => Step::Or,
            },
        )?;
    }
    Ok(())
}

fn sorted<'a, T: Ord>(
    tokens: &[Token<'a>],
    read: impl Fn(Token<'a>) -> Result<T, Error<'a>>,
) -> Result<Vec<T>, Error<'a>> {
    let mut constants = Vec::new();
    reserve(&mut constants, tokens.len())?;
    for token in tokens {
        constants.push(read(*token)?);
    }
    constants.sort_unstable();
    constants.dedup();
    constants.shrink_to_fit();
    Ok(constants)
}

fn at<'a>(token: Token<'a>, kind: Kind, message: &'static str, text: &'a str) -> Error<'a> {
    Error::new(kind, message).at(text.as_bytes(), token.start)
}

fn about<'a>(error: Error<'a>, attribute: Option<&'a Attribute>) -> Error<'a> {
    attribute.map_or(error, |attribute| error.about(&attribute.name))
}

fn misuse<'a>(token: Token<'a>, attribute: &'a Attribute, text: &'a str) -> Error<'a> {
    at(token, Kind::Type, "an attribute of its type cannot be used so", text).about(&attribute.name)
}

fn name_length(rest: &str) -> usize {
    rest.bytes().position(|byte| !(byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-')).unwrap_or(rest.len())
}

/// Returns the length of the string at the start of `rest`, with its quotes.
fn string_length(rest: &str, quote: u8) -> Option<usize> {
    let bytes = rest.as_bytes();
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b'\\' if !matches!(bytes.get(at + 1)?, b'\\' | b'\'' | b'"' | b'n' | b'r' | b't') => return None,
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            _ => at += 1,
        }
    }
}

/// Returns the kind of the number at the start of `rest`, and its length.
fn number(rest: &str) -> Option<(Is, usize)> {
    let bytes = rest.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut is = Is::Integer;
    let mut length = usize::from(bytes[0] == b'-');
    length += digits(length);
    if bytes.get(length) == Some(&b'.') {
        is = Is::Float;
        length += 1 + digits(length + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(length) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = digits((length + 1 + sign).min(bytes.len()));
        is = Is::Float;
        length += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    let glued = name_length(&rest[length..]) > 0 || bytes.get(length) == Some(&b'.');
    (!glued).then_some((is, length))
}
