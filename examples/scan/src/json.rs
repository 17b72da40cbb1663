//! Reads JSON (RFC 8259).

use crate::error::{Error, Kind};
use crate::term::append;
use crate::value::{too_deep, Sequence, Shape, Value, Values, MAX_DEPTH};

/// A cursor over a text.
pub struct Json<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Json<'a> {
    pub fn new(text: &'a [u8]) -> Result<Self, Error<'a>> {
        match std::str::from_utf8(text) {
            Ok(text) => Ok(Json { text, at: 0 }),
            Err(error) => Err(Error::new(Kind::Syntax, "JSON is UTF-8").at(text, error.valid_up_to())),
        }
    }

    /// Checks that nothing follows the value.
    pub fn finish(&mut self) -> Result<(), Error<'a>> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.syntax("something follows the event")),
        }
    }

    /// Reads a value.
    pub fn value(&mut self, values: &mut Values, depth: usize) -> Result<Value, Error<'a>> {
        if depth == MAX_DEPTH {
            return Err(too_deep());
        }
        match self.peek() {
            Some(b'{') => self.sequence(values, depth, Shape::Map, b'}'),
            Some(b'[') => self.sequence(values, depth, Shape::List, b']'),
            Some(b'"') => self.string(values),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Boolean(true)),
            Some(b'f') => self.word("false", Value::Boolean(false)),
            Some(b'n') => self.word("null", Value::Undefined),
            _ => Err(self.syntax("a value is expected")),
        }
    }

    fn sequence(&mut self, values: &mut Values, depth: usize, shape: Shape, end: u8) -> Result<Value, Error<'a>> {
        let mut sequence = Sequence::empty(shape);
        self.at += 1;
        while !(sequence.length == 0 && self.takes(end)) {
            if shape == Shape::Map {
                if self.peek() != Some(b'"') {
                    return Err(self.syntax("a name in double quotes is expected"));
                }
                let name = self.string(values)?;
                values.append(&mut sequence, name);
                if !self.takes(b':') {
                    return Err(self.syntax("`:` is expected after a name"));
                }
            }
            let value = self.value(values, depth + 1)?;
            values.append(&mut sequence, value);
            if self.takes(end) {
                break;
            }
            if !self.takes(b',') {
                return Err(self.syntax("`,` or the end is expected after a value"));
            }
        }
        Ok(Value::Sequence(sequence))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Error<'a>> {
        match self.text[self.at..].starts_with(word) {
            true => {
                self.at += word.len();
                Ok(value)
            }
            false => Err(self.syntax("a value is expected")),
        }
    }

    fn number(&mut self) -> Result<Value, Error<'a>> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        let mut whole = true;
        if self.byte() == Some(b'.') {
            whole = false;
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            whole = false;
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let number = &self.text[start..self.at];
        let float = || number.parse().unwrap_or(f64::NAN);
        Ok(match number.parse() {
            Ok(integer) if whole => Value::Integer(integer),
            _ if whole => Value::Huge(float()),
            _ => Value::Float(float()),
        })
    }

    fn digits(&mut self) -> Result<(), Error<'a>> {
        if !matches!(self.byte(), Some(b'0'..=b'9')) {
            return Err(self.syntax("a digit is expected"));
        }
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        Ok(())
    }

    fn string(&mut self, values: &mut Values) -> Result<Value, Error<'a>> {
        self.at += 1;
        values.text(|text| loop {
            match self.text[self.at..].chars().next() {
                None => return Err(self.syntax("the text ends within a string")),
                Some('"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some('\\') => append(self.escape()?, text),
                Some(..' ') => return Err(self.syntax("a control character in a string is written as an escape")),
                Some(character) => {
                    self.at += character.len_utf8();
                    append(character, text);
                }
            }
        })
    }

    /// Reads an escape, and returns its character.
    fn escape(&mut self) -> Result<char, Error<'a>> {
        let character = match self.text.as_bytes().get(self.at + 1) {
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(&same @ (b'"' | b'\\' | b'/')) => same.into(),
            Some(b'u') => {
                let first = self.code_unit(self.at);
                let second =
                    first.filter(|first| (0xd800..0xdc00).contains(first)).and_then(|_| self.code_unit(self.at + 6));
                let decoded = char::decode_utf16([first, second].into_iter().flatten()).next();
                let Some(Ok(character)) = decoded else {
                    return Err(self.syntax("after `\\u` come four digits, and half of a pair is no character"));
                };
                self.at += 6 * character.len_utf16();
                return Ok(character);
            }
            _ => return Err(self.syntax("there is no such escape")),
        };
        self.at += 2;
        Ok(character)
    }

    fn code_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
    }

    /// Returns the next byte.
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Returns the next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn syntax(&self, message: &'static str) -> Error<'a> {
        Error::new(Kind::Syntax, message).at(self.text.as_bytes(), self.at)
    }
}
