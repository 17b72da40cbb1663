//! A short list of distinct values: integers or strings of bounded length.
//!
//! A list has at most some hundred values. A look-up compares 32 bits of each hash, in blocks that the compiler makes vectors of,
//! and then the value.

use crate::error::Error;
use crate::sketch::codec::{put_bytes, put_signed, Input, MAX_INTEGER_BYTES};
use crate::sketch::{ensure, growth, hash, request};

/// The maximum number of bytes of a string. A longer one is cut, and [`CUT`] follows.
pub(crate) const MAX_VALUE_BYTES: usize = 128;
/// The mark at the end of a string that was cut.
pub(crate) const CUT: &str = "…";
/// The number of hashes that are compared at once.
const BLOCK: usize = 16;

/// A value that a sketch keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Integer(i64),
    Bytes(Box<[u8]>),
}

/// A value of an event, with its hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hashed<'a> {
    pub tag: u32,
    pub value: Borrowed<'a>,
}

/// A value of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Borrowed<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
}

impl Borrowed<'_> {
    /// Returns the bytes that keeping the value requests.
    pub fn growth(self) -> usize {
        match self {
            Borrowed::Integer(_) => 0,
            Borrowed::Bytes(bytes) => request::<u8>(bytes.len()),
        }
    }

    fn kept(self) -> Value {
        match self {
            Borrowed::Integer(integer) => Value::Integer(integer),
            Borrowed::Bytes(bytes) => Value::Bytes(bytes.into()),
        }
    }
}

impl<'a> Hashed<'a> {
    /// Returns the value with its hash.
    pub fn new(value: Borrowed<'a>) -> Self {
        let hash = match value {
            Borrowed::Integer(integer) => hash::of_integer(integer),
            Borrowed::Bytes(bytes) => hash::of_bytes(bytes),
        };
        Hashed { tag: hash as u32, value }
    }
}

impl Value {
    fn borrowed(&self) -> Borrowed<'_> {
        match self {
            Value::Integer(integer) => Borrowed::Integer(*integer),
            Value::Bytes(bytes) => Borrowed::Bytes(bytes),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Value::Integer(_) => 0,
            Value::Bytes(bytes) => bytes.len(),
        }
    }
}

/// Distinct values in the order in which they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Values {
    /// The lower half of each hash.
    tags: Vec<u32>,
    values: Vec<Value>,
}

impl Values {
    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn get(&self, position: usize) -> &Value {
        &self.values[position]
    }

    /// Returns the value at `position` with its hash.
    pub fn hashed(&self, position: usize) -> Hashed<'_> {
        Hashed { tag: self.tags[position], value: self.values[position].borrowed() }
    }

    /// Returns the position of a value.
    #[inline]
    pub fn find(&self, sought: Hashed) -> Option<usize> {
        for (number, block) in self.tags.chunks(BLOCK).enumerate() {
            if block.iter().fold(false, |found, &tag| found | (tag == sought.tag)) {
                for (at, &tag) in block.iter().enumerate() {
                    let position = number * BLOCK + at;
                    if tag == sought.tag && self.values[position].borrowed() == sought.value {
                        return Some(position);
                    }
                }
            }
        }
        None
    }

    /// Returns an upper bound of the bytes that `more` values request, apart from their own bytes.
    pub fn growth(&self, more: usize) -> usize {
        growth(&self.tags, more) + growth(&self.values, more)
    }

    /// Requests memory for `more` values at once.
    pub fn reserve(&mut self, more: usize) {
        self.tags.reserve(more);
        self.values.reserve(more);
    }

    /// Adds a new value.
    pub fn push(&mut self, value: Hashed) {
        self.tags.push(value.tag);
        self.values.push(value.value.kept());
    }

    /// Replaces the value at `position` by a new one.
    pub fn replace(&mut self, position: usize, value: Hashed) {
        self.tags[position] = value.tag;
        self.values[position] = value.value.kept();
    }

    /// Keeps the values at these positions, in this order.
    pub fn keep(&mut self, positions: &[u32]) {
        self.tags = positions.iter().map(|&position| self.tags[position as usize]).collect();
        let mut take = |position: u32| std::mem::replace(&mut self.values[position as usize], Value::Integer(0));
        self.values = positions.iter().map(|&position| take(position)).collect();
    }

    /// Drops all but the `most` values with the least hashes. Returns whether there were more. The order changes.
    pub fn keep_least(&mut self, most: usize) -> bool {
        if self.len() <= most {
            return false;
        }
        self.keep(&self.order()[..most]);
        true
    }

    /// Returns the positions in the order of the hashes.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0..self.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| {
            let [a, b] = [a, b].map(|position| position as usize);
            self.tags[a].cmp(&self.tags[b]).then_with(|| self.values[a].cmp(&self.values[b]))
        });
        order
    }

    /// Returns the bytes that [`Values::keep_least`] requests for `len` values.
    pub fn order_growth(len: usize) -> usize {
        2 * request::<u32>(len) + request::<Value>(len)
    }

    /// Returns the bytes that a copy requests.
    pub fn copy_growth(&self) -> usize {
        self.bytes() + request::<u8>(0) * (2 + self.len())
    }

    /// Appends the value at `position`.
    pub fn encode(&self, position: usize, out: &mut Vec<u8>) {
        match &self.values[position] {
            Value::Integer(integer) => {
                out.push(0);
                put_signed(out, *integer);
            }
            Value::Bytes(bytes) => {
                out.push(1);
                put_bytes(out, bytes);
            }
        }
    }

    /// Returns an upper bound of the encoded bytes of all values.
    pub fn max_encoded_bytes(&self) -> usize {
        self.values.iter().map(|value| 1 + MAX_INTEGER_BYTES + value.bytes()).sum()
    }

    /// Reads the next value of a list that has room for it. Errors: malformed bytes; the list has the value already; no memory.
    pub fn decode(&mut self, input: &mut Input) -> Result<(), Error> {
        let value = match input.byte()? {
            0 => Borrowed::Integer(input.signed()?),
            1 => Borrowed::Bytes(input.string()?),
            _ => return Err(input.malformed("a value is neither an integer nor a string")),
        };
        if matches!(value, Borrowed::Bytes(bytes) if bytes.len() > MAX_VALUE_BYTES + CUT.len()) {
            return Err(input.malformed("a string is too long"));
        }
        let value = Hashed::new(value);
        if self.find(value).is_some() {
            return Err(input.malformed("a value is there twice"));
        }
        ensure(value.value.growth())?;
        self.push(value);
        Ok(())
    }

    /// Returns the bytes of all values.
    pub fn bytes(&self) -> usize {
        self.tags.capacity() * size_of::<u32>()
            + self.values.capacity() * size_of::<Value>()
            + self.values.iter().map(Value::bytes).sum::<usize>()
    }
}
