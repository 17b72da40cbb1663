//! Short byte strings: comparison without a call, and storage without an allocation.
//!
//! Most strings of expressions and events, and all names, have a few bytes. A loop over their bytes, or a call of `memcmp`,
//! ends with a branch misprediction, and the sandbox meters it.

use std::ops::Deref;

use crate::support::footprint::of_slice;

/// Returns the bytes as little-endian 64-bit words, the last one padded with zeros. Strings that differ only in trailing
/// zeros may have the same words, so hashes also take the length.
#[inline]
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| last_word(bytes));
    whole.iter().map(|word| u64::from_le_bytes(*word)).chain(last)
}

/// Returns the last word of `bytes`, which is shorter than eight bytes. Overlapping reads avoid a loop.
#[inline]
fn last_word(bytes: &[u8]) -> u64 {
    let rest = bytes.len() % 8;
    if let Some(last) = bytes.last_chunk() {
        return u64::from_le_bytes(*last) >> (64 - 8 * rest);
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let [first, last] = [*first, *last].map(|half| u64::from(u32::from_le_bytes(half)));
        return first | last << (8 * (rest - 4));
    }
    let byte = |at: usize| u64::from(bytes[at]) << (8 * at);
    byte(0) | byte(rest / 2) | byte(rest - 1)
}

/// A word with a 1 in each byte. Multiplying a byte by this word repeats the byte eight times.
pub(crate) const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte of a word.
pub(crate) const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of each zero byte of `word`. Only the lowest mark is reliable, because a borrow may mark a byte above it.
/// Only high bits are marks: see [`marked`].
#[inline]
pub(crate) fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word
}

/// Returns the position of the first marked byte.
#[inline]
pub(crate) fn marked(marks: u64) -> Option<usize> {
    let marks = marks & HIGH_BITS;
    (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
}

/// Returns whether two strings are equal.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    match (a.last_chunk::<8>(), b.last_chunk::<8>()) {
        (Some(last_of_a), Some(last_of_b)) => {
            last_of_a == last_of_b && a.as_chunks::<8>().0.iter().eq(b.as_chunks::<8>().0)
        }
        _ => a.is_empty() || last_word(a) == last_word(b),
    }
}

/// The longest string that is stored in place.
const MAX_INLINE_BYTES: usize = 26;

/// A string, stored in place if it is short.
#[derive(Clone, Debug)]
pub(crate) enum Bytes {
    Few { len: u8, bytes: [u8; MAX_INLINE_BYTES] },
    Many(Box<[u8]>),
}

impl Bytes {
    /// Returns the heap bytes of the string.
    pub fn heap_bytes(&self) -> usize {
        match self {
            Bytes::Few { .. } => 0,
            Bytes::Many(bytes) => of_slice(bytes),
        }
    }
}

impl Default for Bytes {
    fn default() -> Self {
        Bytes::Few { len: 0, bytes: [0; MAX_INLINE_BYTES] }
    }
}

impl From<&[u8]> for Bytes {
    fn from(from: &[u8]) -> Self {
        let mut bytes = [0; MAX_INLINE_BYTES];
        match bytes.get_mut(..from.len()) {
            Some(few) => {
                few.copy_from_slice(from);
                Bytes::Few { len: from.len() as u8, bytes }
            }
            None => Bytes::Many(from.into()),
        }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Few { len, bytes } => &bytes[..usize::from(*len)],
            Bytes::Many(bytes) => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns strings of every length up to 70, and each of them with one byte changed.
    fn strings() -> Vec<Vec<u8>> {
        let plain = (0..=70).map(|len| (0..len as u8).collect::<Vec<_>>()).collect::<Vec<_>>();
        let changed = plain.iter().flat_map(|string| {
            (0..string.len()).map(|at| {
                let mut string = string.clone();
                string[at] ^= 0x80;
                string
            })
        });
        plain.iter().cloned().chain(changed).collect()
    }

    #[test]
    fn strings_are_the_same_if_all_their_bytes_are() {
        let strings = strings();
        for a in &strings {
            for b in &strings {
                assert_eq!(same(a, b), a == b, "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn words_are_the_bytes_filled_up_with_zeros() {
        for string in strings() {
            let filled = [&string[..], &vec![0; string.len().next_multiple_of(8) - string.len()]].concat();
            let expected = filled.chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
            assert!(words(&string).eq(expected), "{string:?}");
        }
    }

    #[test]
    fn strings_are_kept_as_they_are() {
        for string in strings() {
            assert_eq!(*Bytes::from(&*string), *string);
        }
        assert_eq!(*Bytes::default(), []);
    }
}
