//! Deterministic hashing: the same hashes, and so the same fuel, in every run and on every machine.
//!
//! WebAssembly cannot multiply 64-bit words to a 128-bit product. Folding such a product takes four multiplications there. This
//! hash takes one for each word, and a shift mixes the upper half of the 64-bit product into the lower half.

use std::hash::{BuildHasherDefault, Hash, Hasher};

use crate::error::{Error, Kind};
use crate::support::bytes::words;

/// The hasher of every table.
pub type State = BuildHasherDefault<Words>;

/// A multiplier without a pattern: the digits of the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash of a sequence of words.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words(u64);

impl Words {
    /// Returns the hash with the next word.
    #[inline]
    pub fn add(self, word: u64) -> Self {
        let product = (self.0 ^ word).wrapping_mul(MULTIPLIER);
        Words(product ^ product >> 32)
    }

    /// Returns the hash of a string of `len` bytes whose words were added in the order of [`words`].
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

    /// Writes 64 bits on every machine.
    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    /// Mixes once more, because tables use the lowest and the highest bits. The lowest bits then depend on all bits.
    #[inline]
    fn finish(&self) -> u64 {
        self.add(0).0
    }
}

/// Returns the hash of any value.
#[inline]
pub fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    let mut words = Words::default();
    value.hash(&mut words);
    words.finish()
}

/// Returns the hash of a string.
#[inline]
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    words(bytes).fold(Words::default(), Words::add).of_bytes(bytes.len())
}

/// Returns the error for a table that could not grow.
pub fn out_of_memory<T>(_refused: T) -> Error {
    Error::new(Kind::OutOfMemory, "the memory limit does not allow this; raise the limit or delete subscriptions")
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// These hashes were computed independently of this program.
    #[test]
    fn hashes_are_the_same_on_every_machine() {
        assert_eq!(hash_bytes(b""), 0);
        assert_eq!(hash_bytes(b"country"), 0x2077_0e8e_5e68_ffd2);
        assert_eq!(hash_bytes(b"string_list_37_3328"), 0x503f_41dc_be4f_df07);
        assert_eq!(hash_of(&4711_u64), 0xb3f4_4f83_d40f_cb5d);
        assert_eq!(hash_of(&(1_usize, -1_i64, Some(2_u32))), 0xf457_7b8f_5bdb_787c);
    }

    #[test]
    fn a_string_hashed_as_a_value_is_a_string_behind_its_length() {
        let mut words = Words::default();
        words.write_usize(3);
        words.write(b"abc");
        assert_eq!(hash_of(&b"abc"[..]), words.finish());
    }

    #[test]
    fn strings_with_zeros_at_the_end_have_hashes_of_their_own() {
        let hashes: HashSet<u64> = (0..100).map(|len| hash_bytes(&vec![0; len])).collect();
        assert_eq!(hashes.len(), 100);
    }

    /// If hashes look random, some 63 % of the buckets have a key when there are as many keys as buckets.
    fn spread(keys: impl Iterator<Item = u64>) {
        const BUCKETS: usize = 1 << 14;
        let hashes: Vec<u64> = keys.take(BUCKETS).collect();
        for bits in [0, 7, 18] {
            let taken: HashSet<u64> = hashes.iter().map(|hash| hash >> bits & (BUCKETS as u64 - 1)).collect();
            assert!(taken.len() > BUCKETS * 60 / 100, "{} of {BUCKETS} from bit {bits}", taken.len());
        }
        let controls: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert_eq!(controls.len(), 128);
    }

    #[test]
    fn keys_that_are_alike_are_spread_over_a_table() {
        spread((0..).map(|key: u64| hash_of(&key)));
        spread((0..).map(|key: u64| hash_of(&(key << 32))));
        spread((0..).map(|key: u64| hash_of(&(key * 1000))));
        spread((0..).map(|key: i64| hash_of(&-key)));
        spread((0..).map(|key: u64| hash_of(&(key as f64).to_bits())));
        spread((0..).map(|key: u32| hash_of(&(key % 128, key / 128))));
        spread((0..).map(|key: u32| hash_bytes(key.to_string().as_bytes())));
        spread((0..).map(|key: u32| hash_bytes(format!("string_list_{key}").as_bytes())));
        spread((0..).map(|key: u32| hash_bytes(format!("{key:08}").as_bytes())));
        spread((0..).map(|key: u32| hash_bytes(format!("{key:016}").as_bytes())));
        spread((0..).map(|key: u32| hash_bytes(format!("{key:0>40}").as_bytes())));
    }
}
