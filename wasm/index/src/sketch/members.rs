//! The distinct values, up to a bound. Beyond the bound the sketch tells that there are more, and keeps some of them.

use crate::error::Error;
use crate::sketch::codec::{put, Input, MAX_INTEGER_BYTES};
use crate::sketch::values::{Hashed, Value, Values};
use crate::sketch::{ensure, request};

/// A set of at most `bound` values.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    bound: u16,
    /// Whether a value was left out.
    more: bool,
    values: Values,
}

impl Members {
    pub fn new(bound: u16) -> Self {
        Members { bound, more: false, values: Values::default() }
    }

    /// Returns whether there are more values than the bound.
    pub fn has_more(&self) -> bool {
        self.more
    }

    /// Returns the values in order.
    pub fn sorted(&self) -> Result<Vec<&Value>, Error> {
        ensure(request::<&Value>(self.values.len()))?;
        let mut values: Vec<&Value> = (0..self.values.len()).map(|position| self.values.get(position)).collect();
        values.sort_unstable();
        Ok(values)
    }

    /// Returns an upper bound of the bytes that inserting `values` requests.
    pub fn growth<'a>(&self, values: impl Iterator<Item = Hashed<'a>>) -> usize {
        let left = usize::from(self.bound) - self.values.len();
        let (mut count, mut bytes) = (0, 0);
        for value in values.filter(|&value| left > 0 && self.lacks(value)) {
            count += 1;
            bytes += value.value.growth();
        }
        bytes + self.values.growth(left.min(count))
    }

    /// Returns whether inserting a value requests memory for it.
    pub fn lacks(&self, value: Hashed) -> bool {
        self.values.find(value).is_none()
    }

    /// Requests memory for `more` values at once. One insertion needs no reserve.
    pub fn reserve(&mut self, more: usize) {
        self.values.reserve(more.min(usize::from(self.bound) - self.values.len()));
    }

    /// Adds a value.
    pub fn insert(&mut self, value: Hashed) {
        if self.lacks(value) {
            if self.values.len() < usize::from(self.bound) {
                self.values.push(value);
            } else {
                self.more = true;
            }
        }
    }

    /// Returns an upper bound of the bytes that [`Members::merge`] requests.
    pub fn merge_growth(&self, other: &Members) -> usize {
        let len = other.values.len();
        self.values.growth(len) + other.values.copy_growth() + Values::order_growth(self.values.len() + len)
    }

    /// Adds the values of another set. The larger bound counts. Of too many values those with the least hashes are kept, so that the
    /// result does not depend on the order of merges.
    pub fn merge(&mut self, other: &Members) {
        self.bound = self.bound.max(other.bound);
        self.more |= other.more;
        self.values.reserve(other.values.len());
        for value in (0..other.values.len()).map(|position| other.values.hashed(position)) {
            if self.values.find(value).is_none() {
                self.values.push(value);
            }
        }
        self.more |= self.values.keep_least(self.bound.into());
    }

    /// Returns an upper bound of the encoded bytes.
    pub fn max_encoded_bytes(&self) -> usize {
        2 * MAX_INTEGER_BYTES + 1 + self.values.max_encoded_bytes()
    }

    /// Appends the bound, whether there are more, and the values.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put(out, self.bound.into());
        out.push(self.more.into());
        put(out, self.values.len() as u64);
        (0..self.values.len()).for_each(|position| self.values.encode(position, out));
    }

    /// Reads an encoded set. Errors: malformed bytes; no memory.
    pub fn decode(input: &mut Input) -> Result<Self, Error> {
        let bound = input.at_most(MAX_BOUND.into(), "the bound of a set")? as u16;
        let more = match input.byte()? {
            0 => false,
            1 => true,
            _ => return Err(input.malformed("a set has either more values or none")),
        };
        let mut members = Members::new(bound);
        let count = input.count(2)?;
        if count > bound.into() {
            return Err(input.malformed("a set exceeds its bound"));
        }
        ensure(members.values.growth(count))?;
        members.values.reserve(count);
        (0..count).try_for_each(|_| members.values.decode(input))?;
        members.more = more;
        Ok(members)
    }

    /// Returns the bytes that a copy requests, apart from the set itself.
    pub fn copy_growth(&self) -> usize {
        self.values.copy_growth()
    }

    /// Returns the bytes of the values.
    pub fn bytes(&self) -> usize {
        self.values.bytes()
    }
}

/// The maximum number of values of a set.
pub(crate) const MAX_BOUND: u16 = 1000;
