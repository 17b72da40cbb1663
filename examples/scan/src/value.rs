//! Values of terms and JSON, in preallocated memory.

use crate::error::{Error, Kind};

/// Maximum nesting of values. Reading them is the only recursion here.
pub const MAX_DEPTH: usize = 100;

#[derive(Clone, Copy)]
pub enum Value {
    Undefined,
    Boolean(bool),
    Integer(i64),
    /// An integer that fits an unsigned word and no signed one.
    Wide(u64),
    /// A longer integer as the nearest float, possibly infinite.
    Huge(f64),
    Float(f64),
    /// A binary, an atom or a string.
    Text(Span),
    Sequence(Sequence),
    /// A term that is no value, such as a pid.
    Other,
}

/// Bytes of [`Values`].
#[derive(Clone, Copy)]
pub struct Span {
    start: u32,
    length: u32,
}

/// A sequence of values. A map alternates names and values.
#[derive(Clone, Copy)]
pub struct Sequence {
    pub shape: Shape,
    pub length: u32,
    first: u32,
    last: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    List,
    Tuple,
    Map,
}

/// The parts of one event's values: elements as linked lists, and bytes.
pub struct Values {
    items: Vec<(Value, u32)>,
    bytes: Vec<u8>,
}

impl Values {
    /// Room for any event of `length` bytes: an element takes at least one byte, and a byte of a Latin-1 atom becomes two.
    pub fn with_capacity(length: usize) -> Self {
        Values { items: Vec::with_capacity(length), bytes: Vec::with_capacity(2 * length) }
    }

    pub fn clear(&mut self) {
        self.items.clear();
        self.bytes.clear();
    }

    /// Returns the text that `write` appends.
    pub fn text<E>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<(), E>) -> Result<Value, E> {
        let start = self.bytes.len();
        write(&mut self.bytes)?;
        Ok(Value::Text(Span { start: start as u32, length: (self.bytes.len() - start) as u32 }))
    }

    pub fn copy(&mut self, bytes: &[u8]) -> Value {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        Value::Text(Span { start, length: bytes.len() as u32 })
    }

    pub fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..][..span.length as usize]
    }

    pub fn append(&mut self, sequence: &mut Sequence, value: Value) {
        let place = self.items.len() as u32;
        self.items.push((value, 0));
        match sequence.length {
            0 => sequence.first = place,
            _ => self.items[sequence.last as usize].1 = place,
        }
        sequence.last = place;
        sequence.length += 1;
    }

    pub fn each(&self, sequence: Sequence) -> impl Iterator<Item = Value> + '_ {
        let mut next = sequence.first;
        (0..sequence.length).map(move |_| {
            let (value, following) = self.items[next as usize];
            next = following;
            value
        })
    }
}

impl Sequence {
    pub fn empty(shape: Shape) -> Self {
        Sequence { shape, length: 0, first: 0, last: 0 }
    }
}

impl Value {
    pub fn signed(self) -> Result<i64, Error<'static>> {
        match self {
            Value::Integer(integer) => Ok(integer),
            Value::Wide(_) | Value::Huge(_) => Err(Error::new(Kind::OutOfBounds, "an integer does not fit 64 bits")),
            _ => Err(Error::new(Kind::Type, "an integer is expected")),
        }
    }

    pub fn unsigned(self) -> Result<u64, Error<'static>> {
        match self {
            Value::Integer(integer @ 0..) => Ok(integer as u64),
            Value::Wide(integer) => Ok(integer),
            Value::Integer(_) | Value::Huge(_) => {
                Err(Error::new(Kind::OutOfBounds, "an integer is not from 0 to 2^64 - 1"))
            }
            _ => Err(Error::new(Kind::Type, "an integer is expected")),
        }
    }

    pub fn float(self) -> Result<f64, Error<'static>> {
        match self {
            Value::Integer(integer) => Ok(integer as f64),
            Value::Wide(integer) => Ok(integer as f64),
            Value::Float(float) | Value::Huge(float) if float.is_finite() => Ok(float),
            Value::Float(_) | Value::Huge(_) => Err(Error::new(Kind::OutOfBounds, "a number does not fit a float")),
            _ => Err(Error::new(Kind::Type, "a number is expected")),
        }
    }
}

pub fn too_deep() -> Error<'static> {
    Error::new(Kind::OutOfBounds, "the event nests values deeper than 100; this module reads no deeper")
}
