//! The parts that expressions ask for anywhere in a string.
//!
//! Each part stands under one *gram*: some bytes in a row at one of its positions, as many as [`LENGTHS`] allows. A string
//! looks up its grams of each length that parts have, and compares the parts under them with its own bytes. A part goes under
//! the one of its grams that has the fewest parts so far. So a gram that all parts share, such as `http`, has few. Grams of
//! eight bytes tell apart what words of a few syllables have in common.
//!
//! If no gram of the parts is rare, or if parts and string repeat themselves, the comparisons may take longer than searching
//! for each part alone. So their work is bounded by the length of the string. Beyond that, all parts count as found. The
//! programs of their expressions then decide, step by step, as they would without the table.

use std::hash::Hasher;

use super::chains::Chains;
use super::Found;
use crate::handles::PredicateId;
use crate::support::hash::Words;

/// The lengths of grams, ascending. A part has the longest that it contains.
const LENGTHS: [usize; 5] = [1, 2, 3, 4, 8];
/// The number of positions of a part that are considered for its gram. It bounds the time of an insertion.
const CONSIDERED: usize = 32;

/// The work for a string and for each of its bytes: comparisons with a part, and words of eight bytes that are compared.
const WORK: usize = 4096;
const WORK_PER_BYTE: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The parts by gram, each with the position of the gram in the part.
    by_gram: Chains<u32>,
    /// The number of parts with grams of each of the [`LENGTHS`].
    counts: [u32; LENGTHS.len()],
    /// The empty part.
    empty: Option<PredicateId>,
}

/// The bytes of a gram, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gram {
    word: u64,
    len: usize,
}

impl Gram {
    /// Returns the gram of `len` bytes at the start of `bytes`.
    #[inline(always)]
    fn of(bytes: &[u8], len: usize) -> Gram {
        let word = match (bytes.first_chunk(), len) {
            (Some(eight), 8) => u64::from_le_bytes(*eight),
            _ => match (bytes.first_chunk(), len) {
                (Some(four), 4) => u32::from_le_bytes(*four).into(),
                _ => bytes[..len].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
            },
        };
        Gram { word, len }
    }

    #[inline(always)]
    fn hash(self) -> u64 {
        Words::default().add(self.word.wrapping_add(self.len as u64)).finish()
    }
}

/// Returns the position in [`LENGTHS`] of the grams of a part, which is not empty.
#[inline(always)]
fn class(part: &[u8]) -> usize {
    match part.len() {
        8.. => 4,
        4.. => 3,
        len => len - 1,
    }
}

impl Parts {
    /// Adds a part. `text` returns the other parts by number.
    pub fn insert<'a>(&mut self, part: &[u8], id: PredicateId, text: impl Fn(PredicateId) -> &'a [u8]) {
        if part.is_empty() {
            self.empty = Some(id);
            return;
        }
        let len = LENGTHS[class(part)];
        self.counts[class(part)] += 1;
        let last = part.len() - len;
        let mut best = (0, self.first(Gram::of(part, len), &text));
        for offset in 1..=last.min(CONSIDERED - 1) {
            if self.by_gram.count(best.1) == 0 {
                break;
            }
            let first = self.first(Gram::of(&part[offset..], len), &text);
            if self.by_gram.count(first) < self.by_gram.count(best.1) {
                best = (offset, first);
            }
        }
        let (offset, first) = best;
        self.by_gram.insert(id, Gram::of(&part[offset..], len).hash(), first, offset as u32);
    }

    /// Removes a part. `text` returns the other parts by number.
    pub fn remove<'a>(&mut self, part: &[u8], id: PredicateId, text: impl Fn(PredicateId) -> &'a [u8]) {
        if part.is_empty() {
            self.empty = None;
            return;
        }
        self.counts[class(part)] -= 1;
        let gram = Gram::of(&part[*self.by_gram.note(id) as usize..], LENGTHS[class(part)]);
        self.by_gram.remove(id, gram.hash(), |by_gram| first(by_gram, gram, &text));
    }

    /// Calls `found` with each part that `bytes` contain, at each of its places, and perhaps with others. `text` returns the part
    /// with a number.
    pub fn each<'a>(
        &self,
        bytes: &[u8],
        text: impl Fn(PredicateId) -> &'a [u8],
        found: &mut impl FnMut(PredicateId, Found),
    ) {
        self.empty.iter().for_each(|&id| found(id, Found::True));
        let mut work = WORK_PER_BYTE * bytes.len() + WORK;
        for (len, _) in LENGTHS.into_iter().zip(self.counts).filter(|(_, parts)| *parts > 0) {
            for at in 0..(bytes.len() + 1).saturating_sub(len) {
                let mut next = self.first(Gram::of(&bytes[at..], len), &text);
                while let Some(id) = next {
                    if work == 0 {
                        return self.by_gram.all().for_each(|id| found(id, Found::Perhaps));
                    }
                    let (offset, part) = (*self.by_gram.note(id) as usize, text(id));
                    let here = at.checked_sub(offset).and_then(|start| bytes[start..].get(..part.len()));
                    work = work.saturating_sub(1);
                    if here.is_some_and(|here| same_end(here, part)) {
                        work = work.saturating_sub(part.len() / size_of::<u64>());
                        if here == Some(part) {
                            found(id, Found::True);
                        }
                    }
                    next = self.by_gram.after(id);
                }
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

/// Returns whether two strings of one length have the same last bytes, which tell parts with a common beginning apart.
#[inline(always)]
fn same_end(one: &[u8], other: &[u8]) -> bool {
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(one), Some(other)) => u64::from_le_bytes(*one) == u64::from_le_bytes(*other),
        _ => one.last() == other.last(),
    }
}

/// Returns the first part under a gram.
#[inline(always)]
fn first<'a>(by_gram: &Chains<u32>, sought: Gram, text: &impl Fn(PredicateId) -> &'a [u8]) -> Option<PredicateId> {
    by_gram.first(sought.hash(), |id, &offset| {
        let part = text(id);
        Gram::of(&part[offset as usize..], LENGTHS[class(part)]) == sought
    })
}
