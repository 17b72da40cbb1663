//! The parts that expressions ask for anywhere in a string.
//!
//! A pattern of `like` is several parts, and any of them may lead to it. It counts as one part here, whose bytes include
//! those that stand for other characters. The gram lies between these, and only the bytes around the gram up to the next of
//! them are compared.
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
use crate::model::wildcard::{is_wild, literals};
use crate::support::hash::Words;
use crate::support::headroom::{growth, trim};

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
    /// The empty part, and patterns of `like` without text.
    empty: Vec<PredicateId>,
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

/// A part: the text of a predicate, and whether some of its bytes stand for other characters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub text: &'a [u8],
    pub is_wild: bool,
}

impl<'a> Part<'a> {
    /// Returns the position in [`LENGTHS`] of the part's grams. The part is not empty.
    #[inline(always)]
    fn class(self) -> usize {
        match self.longest() {
            8.. => 4,
            4.. => 3,
            len => len - 1,
        }
    }

    /// Returns the number of bytes in a row that stand for themselves.
    #[inline(always)]
    fn longest(self) -> usize {
        match self.is_wild {
            false => self.text.len(),
            true => literals(self.text).map(|(_, literal)| literal.len()).max().unwrap_or(0),
        }
    }

    /// Returns the positions at which the part may have its gram, which has `len` bytes.
    fn positions(self, len: usize) -> impl Iterator<Item = usize> + 'a {
        let whole = (!self.is_wild).then_some((0, self.text));
        let literals = self.is_wild.then(|| literals(self.text)).into_iter().flatten();
        let spread = whole.into_iter().chain(literals).flat_map(move |(start, literal)| {
            (start..(start + literal.len() + 1).saturating_sub(len).max(start)).take(CONSIDERED)
        });
        spread.take(4 * CONSIDERED)
    }

    /// Returns the bytes around `offset` that stand for themselves, and the position of `offset` among them.
    #[inline(always)]
    fn around(self, offset: usize) -> (&'a [u8], usize) {
        if !self.is_wild {
            return (self.text, offset);
        }
        let start = self.text[..offset].iter().rposition(|&byte| is_wild(byte)).map_or(0, |at| at + 1);
        let end = self.text[offset..].iter().position(|&byte| is_wild(byte)).map_or(self.text.len(), |at| offset + at);
        (&self.text[start..end], offset - start)
    }
}

impl Parts {
    /// Adds a part. `part_of` returns the other parts by number.
    pub fn insert<'a>(&mut self, part: Part, id: PredicateId, part_of: impl Fn(PredicateId) -> Part<'a>) {
        if part.longest() == 0 {
            // A pattern of `like` without text is led to by any string.
            self.empty.push(id);
            return;
        }
        let class = part.class();
        let len = LENGTHS[class];
        self.counts[class] += 1;
        let mut best = None;
        for offset in part.positions(len) {
            let first = self.first(Gram::of(&part.text[offset..], len), &part_of);
            let count = self.by_gram.count(first);
            if best.is_none_or(|(_, _, least)| count < least) {
                best = Some((offset, first, count));
            }
            if count == 0 {
                break;
            }
        }
        let Some((offset, first, _)) = best else { unreachable!("a part has a gram") };
        self.by_gram.insert(id, Gram::of(&part.text[offset..], len).hash(), first, offset as u32);
    }

    /// Removes a part. `part_of` returns the other parts by number.
    pub fn remove<'a>(&mut self, part: Part, id: PredicateId, part_of: impl Fn(PredicateId) -> Part<'a>) {
        if part.longest() == 0 {
            self.empty.retain(|&empty| empty != id);
            trim(&mut self.empty);
            return;
        }
        let class = part.class();
        self.counts[class] -= 1;
        let gram = Gram::of(&part.text[*self.by_gram.note(id) as usize..], LENGTHS[class]);
        self.by_gram.remove(id, gram.hash(), |by_gram| first(by_gram, gram, &part_of));
    }

    /// Calls `found` with each part that `bytes` contain, at each of its places, and perhaps with others. `part_of` returns the
    /// part with a number.
    pub fn each<'a>(
        &self,
        bytes: &[u8],
        part_of: impl Fn(PredicateId) -> Part<'a>,
        found: &mut impl FnMut(PredicateId, Found),
    ) {
        self.empty.iter().for_each(|&id| {
            let found_empty = if part_of(id).is_wild { Found::Perhaps } else { Found::True };
            found(id, found_empty);
        });
        let mut work = WORK_PER_BYTE * bytes.len() + WORK;
        for (len, _) in LENGTHS.into_iter().zip(self.counts).filter(|(_, parts)| *parts > 0) {
            for at in 0..(bytes.len() + 1).saturating_sub(len) {
                let mut next = self.first(Gram::of(&bytes[at..], len), &part_of);
                while let Some(id) = next {
                    if work == 0 {
                        return self.by_gram.all().for_each(|id| found(id, Found::Perhaps));
                    }
                    let whole = part_of(id);
                    let (part, offset) = whole.around(*self.by_gram.note(id) as usize);
                    let here = at.checked_sub(offset).and_then(|start| bytes[start..].get(..part.len()));
                    work = work.saturating_sub(1);
                    if here.is_some_and(|here| same_end(here, part)) {
                        work = work.saturating_sub(part.len() / size_of::<u64>());
                        if here == Some(part) {
                            found(id, if whole.is_wild { Found::Perhaps } else { Found::True });
                        }
                    }
                    next = self.by_gram.after(id);
                }
            }
        }
    }

    /// Returns the bytes by which `more` parts, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        self.by_gram.growth(more, ids) + growth(&self.empty, more)
    }

    #[inline(always)]
    fn first<'a>(&self, gram: Gram, part_of: &impl Fn(PredicateId) -> Part<'a>) -> Option<PredicateId> {
        first(&self.by_gram, gram, part_of)
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
fn first<'a>(by_gram: &Chains<u32>, sought: Gram, part_of: &impl Fn(PredicateId) -> Part<'a>) -> Option<PredicateId> {
    by_gram.first(sought.hash(), |id, &offset| {
        let part = part_of(id);
        Gram::of(&part.text[offset as usize..], LENGTHS[part.class()]) == sought
    })
}
