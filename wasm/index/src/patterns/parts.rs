//! The parts that expressions ask for anywhere in a string.
//!
//! Each part stands under one *gram*: the bytes of length [`GRAM`] at one of its positions, or the whole part if it is
//! shorter. A string looks up the gram at each of its positions, and compares the parts under it with its own bytes. A part
//! goes under the one of its grams that has the fewest parts so far. So a gram that all parts share, such as `http`, has few.
//!
//! If no gram of the parts is rare, many parts stand under one, and a string with this gram is compared with each of them, as
//! it would be without the table.

use std::hash::Hasher;

use super::chains::Chains;
use crate::handles::PredicateId;
use crate::support::hash::Words;

/// The bytes of a gram.
const GRAM: usize = 4;
/// The number of positions of a part that are considered for its gram. It bounds the time of an insertion.
const CONSIDERED: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The parts by gram, each with the position of the gram in the part.
    by_gram: Chains<u32>,
    /// The number of parts of each length below [`GRAM`], and in the last element that of all others.
    lengths: [u32; GRAM + 1],
    /// The empty part.
    empty: Option<PredicateId>,
}

/// The bytes of a gram, and above them their number.
type Gram = u64;

/// Returns the gram of `len` bytes at the start of `bytes`.
#[inline(always)]
fn gram(bytes: &[u8], len: usize) -> Gram {
    let word = match (bytes.first_chunk::<GRAM>(), len) {
        (Some(four), GRAM) => u32::from_le_bytes(*four),
        _ => bytes[..len].iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)),
    };
    (len as u64) << 32 | u64::from(word)
}

#[inline(always)]
fn hash(gram: Gram) -> u64 {
    Words::default().add(gram).finish()
}

impl Parts {
    /// Adds a part. `text` returns the other parts by number.
    pub fn insert<'a>(&mut self, part: &[u8], id: PredicateId, text: impl Fn(PredicateId) -> &'a [u8]) {
        if part.is_empty() {
            self.empty = Some(id);
            return;
        }
        let len = part.len().min(GRAM);
        self.lengths[len] += 1;
        let last = part.len() - len;
        let mut best = (0, self.first(gram(part, len), &text));
        for offset in 1..=last.min(CONSIDERED - 1) {
            if self.by_gram.count(best.1) == 0 {
                break;
            }
            let first = self.first(gram(&part[offset..], len), &text);
            if self.by_gram.count(first) < self.by_gram.count(best.1) {
                best = (offset, first);
            }
        }
        let (offset, first) = best;
        self.by_gram.insert(id, hash(gram(&part[offset..], len)), first, offset as u32);
    }

    /// Removes a part. `text` returns the other parts by number.
    pub fn remove<'a>(&mut self, part: &[u8], id: PredicateId, text: impl Fn(PredicateId) -> &'a [u8]) {
        if part.is_empty() {
            self.empty = None;
            return;
        }
        let len = part.len().min(GRAM);
        self.lengths[len] -= 1;
        let gram = gram(&part[*self.by_gram.note(id) as usize..], len);
        self.by_gram.remove(id, hash(gram), |by_gram| first(by_gram, gram, &text));
    }

    /// Calls `found` with each part that `bytes` contain, at each of its places. `text` returns the part with a number.
    pub fn each<'a>(&self, bytes: &[u8], text: impl Fn(PredicateId) -> &'a [u8], found: &mut impl FnMut(PredicateId)) {
        self.empty.iter().for_each(|&id| found(id));
        for len in (1..=GRAM).filter(|&len| self.lengths[len] > 0) {
            for at in 0..(bytes.len() + 1).saturating_sub(len) {
                self.by_gram.each(self.first(gram(&bytes[at..], len), &text), |id, &offset| {
                    let start = at.checked_sub(offset as usize);
                    if start.is_some_and(|start| bytes[start..].starts_with(text(id))) {
                        found(id);
                    }
                });
            }
        }
    }

    /// Returns the bytes by which `more` parts, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        self.by_gram.growth(more, ids)
    }

    #[inline(always)]
    fn first<'a>(&self, gram: Gram, text: &impl Fn(PredicateId) -> &'a [u8]) -> Option<PredicateId> {
        first(&self.by_gram, gram, text)
    }
}

/// Returns the first part under a gram.
#[inline(always)]
fn first<'a>(by_gram: &Chains<u32>, sought: Gram, text: &impl Fn(PredicateId) -> &'a [u8]) -> Option<PredicateId> {
    by_gram.first(hash(sought), |id, &offset| {
        let part = text(id);
        gram(&part[offset as usize..], part.len().min(GRAM)) == sought
    })
}
