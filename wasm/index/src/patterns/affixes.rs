//! The starts, or the ends, that expressions ask for: a table by hash, and the lengths that it has.
//!
//! A string finds its starts by one look-up for each length. The hash is extended byte by byte, so all hashes together cost
//! as much as that of the longest start.

use std::hash::Hasher;

use crate::handles::PredicateId;
use crate::support::hash::Words;
use crate::support::headroom::growth;
use crate::support::id_table::IdTable;

/// The side of a string at which affixes stand.
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

    /// Returns the affix of this length.
    fn affix(self, bytes: &[u8], len: usize) -> &[u8] {
        match self {
            Side::Start => &bytes[..len],
            Side::End => &bytes[bytes.len() - len..],
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Affixes {
    /// The lengths of affixes, ascending, with the number of affixes of each.
    lengths: Vec<(u32, u32)>,
    by_hash: IdTable,
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

fn hash(side: Side, text: &[u8]) -> u64 {
    (0..text.len()).fold(Rolling::START, |hash, distance| hash.add(side.byte(text, distance))).finish()
}

impl Affixes {
    pub fn insert(&mut self, side: Side, text: &[u8], id: PredicateId) {
        match self.position(text.len()) {
            Ok(position) => self.lengths[position].1 += 1,
            Err(position) => self.lengths.insert(position, (text.len() as u32, 1)),
        }
        self.by_hash.insert(hash(side, text), id.word());
    }

    pub fn remove(&mut self, side: Side, text: &[u8], id: PredicateId) {
        let Ok(position) = self.position(text.len()) else { unreachable!("affix {id} was inserted") };
        self.lengths[position].1 -= 1;
        if self.lengths[position].1 == 0 {
            self.lengths.remove(position);
        }
        self.by_hash.remove(hash(side, text), id.word());
    }

    /// Calls `found` with each affix of `bytes`. `text` returns the affix with a number.
    pub fn each<'a>(
        &self,
        side: Side,
        bytes: &[u8],
        text: impl Fn(PredicateId) -> &'a [u8],
        found: &mut impl FnMut(PredicateId),
    ) {
        let mut hash = Rolling::START;
        let mut hashed = 0;
        for &(len, _) in &self.lengths {
            let len = len as usize;
            if len > bytes.len() {
                break;
            }
            while hashed < len {
                hash = hash.add(side.byte(bytes, hashed));
                hashed += 1;
            }
            let is = |id| text(PredicateId::from_word(id)) == side.affix(bytes, len);
            if let Some(id) = self.by_hash.find(hash.finish(), is) {
                found(PredicateId::from_word(id));
            }
        }
    }

    /// Returns the bytes by which `more` affixes may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        growth(&self.lengths, more) + self.by_hash.growth(more)
    }

    fn position(&self, len: usize) -> Result<usize, usize> {
        self.lengths.binary_search_by_key(&(len as u32), |&(len, _)| len)
    }
}
