//! Hashing that is the same in every run and on every machine, so that fuel is, too.
//!
//! The sandbox multiplies words of 64 bits and answers as many, so hashes that fold the upper half of a product into the
//! lower take four multiplications there. Here each word takes one, and its upper half goes to the lower by a shift.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::bytes::words;
use crate::error::{Error, Kind};

/// The hasher of every table.
pub type State = BuildHasherDefault<Words>;

/// The golden ratio's digits: a multiplier without a pattern.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of words, one after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words(u64);

impl Words {
    /// With the next word.
    #[inline]
    pub fn add(self, word: u64) -> Self {
        let product = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Words(product ^ product >> 32)
    }

    /// The hash of a string of `len` bytes whose words were added, as [`words`] gives them.
    #[inline]
    pub fn of_bytes(self, len: usize) -> u64 {
        self.add(len as u64).finish()
    }
}

impl Hasher for Words {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        *self = words(bytes).fold(*self, Words::add).add(bytes.len() as u64);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        *self = self.add(number);
    }

    /// As wide on every machine.
    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    /// Tables use the lowest bits and the highest ones, of which the former now hold what only the latter knew of.
    #[inline]
    fn finish(&self) -> u64 {
        self.add(0).0
    }
}

/// The hash of any value.
#[inline]
pub fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut words = Words::default();
    value.hash(&mut words);
    words.finish()
}

/// The hash of a string.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    words(bytes).fold(Words::default(), Words::add).of_bytes(bytes.len())
}

/// The error for a table that could not grow.
pub fn out_of_memory<T>(_refused: T) -> Error {
    Error::new(Kind::OutOfMemory, "the memory limit does not allow this; raise the limit or delete subscriptions")
}
