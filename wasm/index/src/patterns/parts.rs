//! The substrings that expressions test for, found by their n-grams.
//!
//! A pattern of `like` has several literals, and any of them may lead to it. It counts as one part here, wildcards included.
//! Its gram lies in one literal, and only this literal is compared.
//!
//! Each part is filed under one *gram*: consecutive bytes at one of its positions, of the greatest length in [`LENGTHS`]
//! that it contains. A string looks up its grams of each length in use, and compares the parts filed there with its own
//! bytes. A part is filed under the one of its grams that has the fewest parts so far. So a gram that all parts share, such
//! as `http`, has few. Grams of eight bytes tell words apart that share a few syllables.
//!
//! A string that contains one literal of a `like` pattern usually lacks another one. So a pattern also notes a hash of four
//! bytes of another literal, and a string sets the bits of its own four-byte grams ([`Marks`], as in a Bloom filter). A
//! pattern whose bit is missing is skipped without a read of its text.
//!
//! If no gram of the parts is rare, or if parts and string are repetitive, the comparisons may take longer than searching
//! for each part alone. So their work is bounded by the length of the string. Beyond that, all parts count as found. The
//! programs of their expressions then decide, step by step, as they would without the table.

use std::hash::Hasher;

use super::chains::{Chains, Links};
use super::Found;
use crate::handles::PredicateId;
use crate::model::wildcard::{is_wild, literals};
use crate::support::footprint::of_table;
use crate::support::hash::Words;
use crate::support::headroom::{growth, trim};

/// The lengths of grams, ascending. A part has the longest that it contains.
const LENGTHS: [usize; 5] = [1, 2, 3, 4, 8];
/// The number of positions of a part that are considered for its gram, spread evenly. It bounds the time of an insertion.
const MAX_GRAM_POSITIONS: usize = 32;

/// The work limit of a string, and its increase for each byte: comparisons with a part, and eight-byte words compared.
const MAX_WORK: usize = 4096;
const MAX_WORK_PER_BYTE: usize = 64;

#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The parts by gram.
    by_gram: Chains,
    /// The number of parts that note a second gram.
    seconds: u32,
    /// The number of parts with grams of each of the [`LENGTHS`].
    counts: [u32; LENGTHS.len()],
    /// The empty part, and patterns of `like` without text.
    empty: Vec<PredicateId>,
}

/// The note of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Note {
    /// The position of its gram.
    offset: u32,
    /// The position in [`LENGTHS`] of its gram's length, kept because finding it reads the whole part.
    class: u8,
    /// A bit of [`Marks`] that every string with the part has, or none.
    second: Option<Mark>,
}

/// The position of a bit in [`Marks`], plus one.
type Mark = std::num::NonZeroU16;

/// The hashes of all grams of a string that have [`SECOND_GRAM_BYTES`] bytes.
struct Marks([u64; Marks::WORDS]);

/// The length of a second gram.
const SECOND_GRAM_BYTES: usize = 4;

impl Marks {
    const WORDS: usize = 64;
    const BITS: u32 = Marks::WORDS as u32 * u64::BITS;

    fn of(bytes: &[u8]) -> Marks {
        let mut marks = Marks([0; Marks::WORDS]);
        for at in 0..(bytes.len() + 1).saturating_sub(SECOND_GRAM_BYTES) {
            let bit = Marks::bit(&bytes[at..]);
            marks.0[(bit / u64::BITS) as usize] |= 1 << (bit % u64::BITS);
        }
        marks
    }

    /// Returns the bit of the gram at the start of `bytes`.
    #[inline(always)]
    fn bit(bytes: &[u8]) -> u32 {
        Gram::of(bytes, SECOND_GRAM_BYTES).hash() as u32 % Marks::BITS
    }

    #[inline(always)]
    fn has(&self, mark: Mark) -> bool {
        let bit = u32::from(mark.get() - 1);
        self.0[(bit / u64::BITS) as usize % Marks::WORDS] >> (bit % u64::BITS) & 1 == 1
    }
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

/// A part: the text of a predicate, and whether it has wildcards.
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

    /// Returns the length of the longest literal.
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
            let count = (literal.len() + 1).saturating_sub(len);
            (start..start + count).step_by(count.div_ceil(MAX_GRAM_POSITIONS).max(1))
        });
        spread.take(4 * MAX_GRAM_POSITIONS)
    }

    /// Returns the mark of the last four bytes of a literal without `offset`, if one is long enough.
    fn second(self, offset: usize) -> Option<Mark> {
        let around = |start: usize, literal: &[u8]| (start..start + literal.len()).contains(&offset);
        let mut others = literals(self.text)
            .filter(|&(start, literal)| literal.len() >= SECOND_GRAM_BYTES && !around(start, literal));
        let (_, literal) = others.next().filter(|_| self.is_wild)?;
        Mark::new(1 + Marks::bit(&literal[literal.len() - SECOND_GRAM_BYTES..]) as u16)
    }

    /// Returns the literal around `offset`, and the position of `offset` in it.
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
    /// Adds a part. `part_of` returns the other parts by id.
    pub fn insert<'a>(
        &mut self,
        links: &mut Links<Note>,
        part: Part,
        id: PredicateId,
        part_of: impl Fn(PredicateId) -> Part<'a>,
    ) {
        if part.longest() == 0 {
            // Any string leads to a pattern of `like` without text.
            self.empty.push(id);
            return;
        }
        let class = part.class();
        let len = LENGTHS[class];
        self.counts[class] += 1;
        let mut best = None;
        for offset in part.positions(len) {
            let first = first(&self.by_gram, links, Gram::of(&part.text[offset..], len), &part_of);
            let count = links.count(first);
            if best.is_none_or(|(_, _, least)| count < least) {
                best = Some((offset, first, count));
            }
            if count == 0 {
                break;
            }
        }
        let Some((offset, first, _)) = best else { unreachable!("a part has a gram") };
        let second = part.second(offset);
        self.seconds += u32::from(second.is_some());
        let note = Note { offset: offset as u32, class: class as u8, second };
        self.by_gram.insert(links, id, Gram::of(&part.text[offset..], len).hash(), first, note);
    }

    /// Removes a part. `part_of` returns the other parts by id.
    pub fn remove<'a>(
        &mut self,
        links: &mut Links<Note>,
        part: Part,
        id: PredicateId,
        part_of: impl Fn(PredicateId) -> Part<'a>,
    ) {
        if part.longest() == 0 {
            self.empty.retain(|&empty| empty != id);
            trim(&mut self.empty);
            return;
        }
        let Note { offset, class, second } = *links.note(id);
        let class = usize::from(class);
        self.counts[class] -= 1;
        self.seconds -= u32::from(second.is_some());
        let gram = Gram::of(&part.text[offset as usize..], LENGTHS[class]);
        self.by_gram.remove(links, id, gram.hash(), |by_gram, links| first(by_gram, links, gram, &part_of));
    }

    /// Calls `found` with each part in `bytes`, at each of its occurrences, and perhaps with others. `part_of` returns the
    /// part of an id.
    pub fn each<'a>(
        &self,
        links: &Links<Note>,
        bytes: &[u8],
        part_of: impl Fn(PredicateId) -> Part<'a>,
        found: &mut impl FnMut(PredicateId, Found),
    ) {
        self.empty.iter().for_each(|&id| {
            let found_empty = if part_of(id).is_wild { Found::Perhaps } else { Found::True };
            found(id, found_empty);
        });
        let marks = (self.seconds > 0).then(|| Marks::of(bytes));
        let mut work = MAX_WORK_PER_BYTE * bytes.len() + MAX_WORK;
        for (len, _) in LENGTHS.into_iter().zip(self.counts).filter(|(_, parts)| *parts > 0) {
            for at in 0..(bytes.len() + 1).saturating_sub(len) {
                let mut next = first(&self.by_gram, links, Gram::of(&bytes[at..], len), &part_of);
                while let Some(id) = next {
                    if work == 0 {
                        return self.by_gram.all(links).for_each(|id| found(id, Found::Perhaps));
                    }
                    let note = *links.note(id);
                    if let (Some(second), Some(marks)) = (note.second, &marks) {
                        if !marks.has(second) {
                            work = work.saturating_sub(1);
                            next = links.after(id);
                            continue;
                        }
                    }
                    let whole = part_of(id);
                    let (part, offset) = whole.around(note.offset as usize);
                    let here = at.checked_sub(offset).and_then(|start| bytes[start..].get(..part.len()));
                    // Finding the literal around the gram reads its bytes one by one.
                    work = work.saturating_sub(1 + if whole.is_wild { part.len() / size_of::<u64>() } else { 0 });
                    if here.is_some_and(|here| same_end(here, part)) {
                        work = work.saturating_sub(part.len() / size_of::<u64>());
                        if here == Some(part) {
                            found(id, if whole.is_wild { Found::Perhaps } else { Found::True });
                        }
                    }
                    next = links.after(id);
                }
            }
        }
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.by_gram.heap_bytes() + of_table(&self.empty)
    }

    /// Returns the bytes by which `more` parts may grow the tables, without the links.
    pub fn growth(&self, more: usize) -> usize {
        self.by_gram.growth(more) + growth(&self.empty, more)
    }
}

/// Compares the last bytes of two strings of one length. They tell parts with a common prefix apart.
#[inline(always)]
fn same_end(one: &[u8], other: &[u8]) -> bool {
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(one), Some(other)) => u64::from_le_bytes(*one) == u64::from_le_bytes(*other),
        _ => one.last() == other.last(),
    }
}

/// Returns the first part under a gram.
#[inline(always)]
fn first<'a>(
    by_gram: &Chains,
    links: &Links<Note>,
    sought: Gram,
    part_of: &impl Fn(PredicateId) -> Part<'a>,
) -> Option<PredicateId> {
    by_gram.first(links, sought.hash(), |id, note| {
        Gram::of(&part_of(id).text[note.offset as usize..], LENGTHS[usize::from(note.class)]) == sought
    })
}
