//! The lengths of the texts in a table that is searched for the prefixes, or the suffixes, of a string.
//!
//! A string is looked up once for each length. The hash is extended byte by byte, so all hashes together cost as much as that
//! of the longest text.

use std::hash::Hasher;

use crate::support::footprint::of_table;
use crate::support::hash::Words;
use crate::support::headroom::growth;

/// The side of a string at which a text stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    End,
}

impl Side {
    /// Returns the byte at a distance from this side.
    #[inline(always)]
    fn byte(self, bytes: &[u8], distance: usize) -> u8 {
        match self {
            Side::Start => bytes[distance],
            Side::End => bytes[bytes.len() - 1 - distance],
        }
    }

    /// Returns the prefix, or the suffix, of `len` bytes.
    #[inline(always)]
    fn part(self, bytes: &[u8], len: usize) -> &[u8] {
        match self {
            Side::Start => &bytes[..len],
            Side::End => &bytes[bytes.len() - len..],
        }
    }
}

/// A hash that is extended by single bytes.
#[derive(Clone, Copy, Debug)]
struct Rolling(u64);

impl Rolling {
    /// The offset and the prime of FNV-1a, <http://www.isthe.com/chongo/tech/comp/fnv/>.
    const START: Rolling = Rolling(0xcbf2_9ce4_8422_2325);
    const PRIME: u64 = 0x0000_0100_0000_01b3;

    #[inline(always)]
    fn add(self, byte: u8) -> Rolling {
        Rolling((self.0 ^ u64::from(byte)).wrapping_mul(Rolling::PRIME))
    }

    #[inline(always)]
    fn finish(self) -> u64 {
        Words::default().add(self.0).finish()
    }
}

/// Returns the hash of a text at a side.
pub(super) fn hash(side: Side, text: &[u8]) -> u64 {
    (0..text.len()).fold(Rolling::START, |hash, distance| hash.add(side.byte(text, distance))).finish()
}

/// The lengths, ascending, with the number of texts of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Lengths(Vec<(u32, u32)>);

impl Lengths {
    /// Counts one more text of this length.
    pub fn add(&mut self, len: usize) {
        match self.position(len) {
            Ok(position) => self.0[position].1 += 1,
            Err(position) => self.0.insert(position, (len as u32, 1)),
        }
    }

    /// Counts one text less of this length, which was added. Allocates nothing.
    pub fn remove(&mut self, len: usize) {
        let Ok(position) = self.position(len) else { unreachable!("a text of {len} bytes was inserted") };
        self.0[position].1 -= 1;
        if self.0[position].1 == 0 {
            self.0.remove(position);
        }
    }

    /// Calls `each` with every prefix, or suffix, of `bytes` that has one of the lengths, and with its hash.
    #[inline(always)]
    pub fn each(&self, side: Side, bytes: &[u8], mut each: impl FnMut(&[u8], u64)) {
        let mut hash = Rolling::START;
        let mut hashed = 0;
        for &(len, _) in &self.0 {
            let len = len as usize;
            if len > bytes.len() {
                break;
            }
            while hashed < len {
                hash = hash.add(side.byte(bytes, hashed));
                hashed += 1;
            }
            each(side.part(bytes, len), hash.finish());
        }
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.0)
    }

    /// Returns the bytes by which adding `more` lengths may grow the table.
    pub fn growth(&self, more: usize) -> usize {
        growth(&self.0, more)
    }

    fn position(&self, len: usize) -> Result<usize, usize> {
        self.0.binary_search_by_key(&(len as u32), |&(len, _)| len)
    }
}
