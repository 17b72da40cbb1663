//! Reads and writes Erlang's external terms.

use crate::error::{Error, Kind};
use crate::value::{too_deep, Sequence, Shape, Value, Values, MAX_DEPTH};

const VERSION: u8 = 131;
const NEW_FLOAT: u8 = 70;
const BIT_BINARY: u8 = 77;
const NEW_PID: u8 = 88;
const NEW_PORT: u8 = 89;
const NEWER_REFERENCE: u8 = 90;
const SMALL_INTEGER: u8 = 97;
const INTEGER: u8 = 98;
const ATOM: u8 = 100;
const SMALL_TUPLE: u8 = 104;
const LARGE_TUPLE: u8 = 105;
const NIL: u8 = 106;
const STRING: u8 = 107;
const LIST: u8 = 108;
const BINARY: u8 = 109;
const SMALL_BIG: u8 = 110;
const LARGE_BIG: u8 = 111;
const NEW_FUN: u8 = 112;
const EXPORT: u8 = 113;
const SMALL_ATOM: u8 = 115;
const MAP: u8 = 116;
const ATOM_UTF8: u8 = 118;
const SMALL_ATOM_UTF8: u8 = 119;
const V4_PORT: u8 = 120;

/// A cursor over a term.
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error<'a>> {
        match bytes {
            [VERSION, rest @ ..] => Ok(Reader { rest }),
            _ => Err(Error::new(Kind::Syntax, "an external term starts with the byte 131")),
        }
    }

    /// Checks that nothing follows the term.
    pub fn finish(&self) -> Result<(), Error<'a>> {
        match self.rest {
            [] => Ok(()),
            _ => Err(Error::new(Kind::Syntax, "bytes follow the term")),
        }
    }

    /// Reads a list; `read` reads each element.
    pub fn list(&mut self, mut read: impl FnMut(&mut Self) -> Result<(), Error<'a>>) -> Result<(), Error<'a>> {
        let length = match self.u8()? {
            NIL => return Ok(()),
            LIST => self.u32()?,
            _ => return Err(Error::new(Kind::Type, "a list is expected")),
        };
        for _ in 0..length {
            read(self)?;
        }
        self.end_of_list()
    }

    fn end_of_list(&mut self) -> Result<(), Error<'a>> {
        match self.u8()? {
            NIL => Ok(()),
            _ => Err(Error::new(Kind::Type, "a list is expected to be proper")),
        }
    }

    /// Reads the head of a tuple of `arity` elements.
    pub fn tuple(&mut self, arity: u8) -> Result<(), Error<'a>> {
        match self.take(2)? {
            [SMALL_TUPLE, given] if *given == arity => Ok(()),
            _ => Err(Error::new(Kind::Type, "a tuple has another number of elements")),
        }
    }

    pub fn binary(&mut self) -> Result<&'a [u8], Error<'a>> {
        match self.u8()? {
            BINARY => {
                let length = self.u32()?;
                self.take(length)
            }
            _ => Err(Error::new(Kind::Type, "a binary is expected")),
        }
    }

    /// Returns the name of an atom as it is encoded.
    pub fn atom(&mut self) -> Result<&'a [u8], Error<'a>> {
        let length = match self.u8()? {
            SMALL_ATOM | SMALL_ATOM_UTF8 => self.u8()? as usize,
            ATOM | ATOM_UTF8 => self.u16()?,
            _ => return Err(Error::new(Kind::Type, "an atom is expected")),
        };
        self.take(length)
    }

    pub fn is_atom(&self) -> bool {
        matches!(self.rest, [ATOM | SMALL_ATOM | ATOM_UTF8 | SMALL_ATOM_UTF8, ..])
    }

    pub fn is_tuple(&self) -> bool {
        matches!(self.rest, [SMALL_TUPLE | LARGE_TUPLE, ..])
    }

    /// Reads a number, or another term without parts.
    pub fn number(&mut self) -> Result<Value, Error<'a>> {
        Ok(match self.u8()? {
            SMALL_INTEGER => Value::Integer(self.u8()?.into()),
            INTEGER => Value::Integer(i32::from_be_bytes(self.array()?).into()),
            SMALL_BIG => {
                let length = self.u8()? as usize;
                self.big(length)?
            }
            LARGE_BIG => {
                let length = self.u32()?;
                self.big(length)?
            }
            NEW_FLOAT => Value::Float(f64::from_be_bytes(self.array()?)),
            _ => return Err(Error::new(Kind::Type, "a number is expected")),
        })
    }

    fn big(&mut self, length: usize) -> Result<Value, Error<'a>> {
        let negative = self.u8()? != 0;
        let digits = self.take(length)?;
        let significant = digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        if significant > 8 {
            return Ok(Value::Huge(f64::INFINITY));
        }
        let magnitude = digits[..significant].iter().rfold(0, |all, &digit| all << 8 | i128::from(digit));
        let integer = if negative { -magnitude } else { magnitude };
        Ok(match (i64::try_from(integer), u64::try_from(integer)) {
            (Ok(integer), _) => Value::Integer(integer),
            (_, Ok(integer)) => Value::Wide(integer),
            _ => Value::Huge(f64::NEG_INFINITY),
        })
    }

    /// Reads a term.
    pub fn value(&mut self, values: &mut Values, depth: usize) -> Result<Value, Error<'a>> {
        if depth == MAX_DEPTH {
            return Err(too_deep());
        }
        let Some(&tag) = self.rest.first() else { return Err(cut_short()) };
        match tag {
            SMALL_INTEGER | INTEGER | SMALL_BIG | LARGE_BIG | NEW_FLOAT => self.number(),
            BINARY => {
                let bytes = self.binary()?;
                Ok(values.copy(bytes))
            }
            ATOM | SMALL_ATOM | ATOM_UTF8 | SMALL_ATOM_UTF8 => match self.atom()? {
                b"nil" | b"undefined" => Ok(Value::Undefined),
                b"true" => Ok(Value::Boolean(true)),
                b"false" => Ok(Value::Boolean(false)),
                name if matches!(tag, ATOM | SMALL_ATOM) => values.text(|text| {
                    name.iter().for_each(|&byte| append(char::from(byte), text));
                    Ok(())
                }),
                name => Ok(values.copy(name)),
            },
            NIL | STRING | LIST | SMALL_TUPLE | LARGE_TUPLE | MAP => self.sequence(values, depth),
            _ => self.other(values, depth),
        }
    }

    fn sequence(&mut self, values: &mut Values, depth: usize) -> Result<Value, Error<'a>> {
        let tag = self.u8()?;
        let (shape, length) = match tag {
            NIL => (Shape::List, 0),
            STRING => (Shape::List, self.u16()?),
            LIST => (Shape::List, self.u32()?),
            SMALL_TUPLE => (Shape::Tuple, self.u8()? as usize),
            LARGE_TUPLE => (Shape::Tuple, self.u32()?),
            _ => (Shape::Map, self.u32()?.saturating_mul(2)),
        };
        let mut sequence = Sequence::empty(shape);
        for _ in 0..length {
            let element = match tag {
                STRING => Value::Integer(self.u8()?.into()),
                _ => self.value(values, depth + 1)?,
            };
            values.append(&mut sequence, element);
        }
        if tag == LIST {
            self.end_of_list()?;
        }
        Ok(Value::Sequence(sequence))
    }

    /// Skips a pid, a function or another term without a value.
    fn other(&mut self, values: &mut Values, depth: usize) -> Result<Value, Error<'a>> {
        let (terms, bytes) = match self.u8()? {
            NEW_PID | V4_PORT => (1, 12),
            NEW_PORT => (1, 8),
            NEWER_REFERENCE => (1, 4 + 4 * self.u16()?),
            BIT_BINARY => (0, 1 + self.u32()?),
            // The size includes itself.
            NEW_FUN => (0, self.u32()?.saturating_sub(4)),
            EXPORT => (3, 0),
            _ => return Err(Error::new(Kind::Syntax, "a term is of a kind that is not known")),
        };
        for _ in 0..terms {
            self.value(values, depth + 1)?;
        }
        self.take(bytes)?;
        Ok(Value::Other)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error<'a>> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(cut_short)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error<'a>> {
        Ok(self.take(N)?.try_into().expect("as long as was taken"))
    }

    fn u8(&mut self) -> Result<u8, Error<'a>> {
        Ok(self.array::<1>()?[0])
    }

    fn u16(&mut self) -> Result<usize, Error<'a>> {
        Ok(u16::from_be_bytes(self.array()?).into())
    }

    fn u32(&mut self) -> Result<usize, Error<'a>> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }
}

fn cut_short() -> Error<'static> {
    Error::new(Kind::Syntax, "the term ends too early")
}

/// Appends a character in UTF-8.
pub fn append(character: char, text: &mut Vec<u8>) {
    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Appends one term to a buffer: each head first, then its elements.
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(VERSION);
        Writer { out }
    }

    pub fn integer(&mut self, integer: i64) {
        match i32::try_from(integer) {
            Ok(small) => {
                self.out.push(INTEGER);
                self.out.extend_from_slice(&small.to_be_bytes());
            }
            Err(_) => {
                self.out.extend_from_slice(&[SMALL_BIG, 8, u8::from(integer < 0)]);
                self.out.extend_from_slice(&integer.unsigned_abs().to_le_bytes());
            }
        }
    }

    pub fn float(&mut self, float: f64) {
        self.out.push(NEW_FLOAT);
        self.out.extend_from_slice(&float.to_be_bytes());
    }

    pub fn atom(&mut self, name: &str) {
        self.out.extend_from_slice(&[SMALL_ATOM_UTF8, name.len() as u8]);
        self.out.extend_from_slice(name.as_bytes());
    }

    pub fn boolean(&mut self, boolean: bool) {
        self.atom(if boolean { "true" } else { "false" });
    }

    /// Writes a binary of these parts.
    pub fn binary(&mut self, parts: &[&[u8]]) {
        self.head(BINARY, parts.iter().map(|part| part.len()).sum());
        parts.iter().for_each(|part| self.out.extend_from_slice(part));
    }

    pub fn tuple(&mut self, arity: u8) {
        self.out.extend_from_slice(&[SMALL_TUPLE, arity]);
    }

    /// Writes the head of a list. The elements follow, and then `end_list`.
    pub fn list(&mut self, length: usize) {
        if length > 0 {
            self.head(LIST, length);
        }
    }

    pub fn end_list(&mut self) {
        self.out.push(NIL);
    }

    fn head(&mut self, tag: u8, length: usize) {
        self.out.push(tag);
        self.out.extend_from_slice(&(length as u32).to_be_bytes());
    }
}
