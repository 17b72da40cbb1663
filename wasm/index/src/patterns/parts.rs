//! The parts that expressions ask for anywhere in a string.
//!
//! Each part stands under one *gram*: the bytes of length [`GRAM`] at one of its positions, or the whole part if it is
//! shorter. A string looks up the gram at each of its positions, and compares the parts under it with its own bytes. A part
//! goes under the one of its grams that has the fewest parts so far. So a gram that all parts share, such as `http`, has few.
//!
//! If no gram of the parts is rare, many parts stand under one, and a string with this gram is compared with each of them, as
//! it would be without the table. The parts under a gram form a doubly linked list, so a change takes the same time however
//! many there are.

use std::hash::Hasher;

use crate::handles::PredicateId;
use crate::support::chunks::Chunks;
use crate::support::hash::Words;
use crate::support::id_table::IdTable;

/// The bytes of a gram.
const GRAM: usize = 4;
/// The number of positions of a part that are considered for its gram. It bounds the time of an insertion.
const CONSIDERED: usize = 32;

#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    /// The first part under each gram, by the gram's hash.
    firsts: IdTable,
    /// By number of a part, its neighbors under its gram.
    links: Chunks<Link>,
    /// The number of parts of each length below [`GRAM`], and in the last element that of all others.
    lengths: [u32; GRAM + 1],
    /// The empty part.
    empty: Option<PredicateId>,
}

/// The place of a part in the list under its gram.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// The parts before and after this one, or [`PredicateId::NONE`].
    before: PredicateId,
    after: PredicateId,
    /// The position of the gram in the part.
    offset: u32,
    /// The number of parts under the gram. Only that of the first part counts.
    count: u32,
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
        while self.links.len() <= id.index() {
            self.links.push(Link::default());
        }
        let offsets = 0..(part.len() - len + 1).min(CONSIDERED);
        let counted = offsets.map(|offset| {
            let first = self.first(gram(&part[offset..], len), &text);
            (first.map_or(0, |first| self.links[first.index()].count), offset, first)
        });
        // An empty list cannot be improved on.
        let mut best = None;
        for (count, offset, first) in counted {
            if best.map_or(true, |(least, _, _)| count < least) {
                best = Some((count, offset, first));
            }
            if count == 0 {
                break;
            }
        }
        let Some((count, offset, first)) = best else { unreachable!("a part has a gram") };
        let after = first.unwrap_or(PredicateId::NONE);
        self.links[id.index()] =
            Link { before: PredicateId::NONE, after, offset: offset as u32, count: count + 1 };
        let hash = hash(gram(&part[offset..], len));
        match first {
            Some(first) => {
                self.links[first.index()].before = id;
                self.firsts.renumber(hash, first.word(), id.word());
            }
            None => self.firsts.insert(hash, id.word()),
        }
    }

    /// Removes a part. `text` returns the other parts by number.
    pub fn remove<'a>(&mut self, part: &[u8], id: PredicateId, text: impl Fn(PredicateId) -> &'a [u8]) {
        if part.is_empty() {
            self.empty = None;
            return;
        }
        let len = part.len().min(GRAM);
        self.lengths[len] -= 1;
        let Link { before, after, offset, count } = self.links[id.index()];
        let gram = gram(&part[offset as usize..], len);
        if after != PredicateId::NONE {
            self.links[after.index()].before = before;
        }
        if before != PredicateId::NONE {
            self.links[before.index()].after = after;
            let Some(first) = self.first(gram, &text) else { unreachable!("a gram has a first part") };
            self.links[first.index()].count -= 1;
        } else if after != PredicateId::NONE {
            self.links[after.index()].count = count - 1;
            self.firsts.renumber(hash(gram), id.word(), after.word());
        } else {
            self.firsts.remove(hash(gram), id.word());
        }
        if self.lengths.iter().all(|&parts| parts == 0) {
            self.links.clear();
        }
    }

    /// Calls `found` with each part that `bytes` contain, at each of its places. `text` returns the part with a number.
    pub fn each<'a>(
        &self,
        bytes: &[u8],
        text: impl Fn(PredicateId) -> &'a [u8],
        found: &mut impl FnMut(PredicateId),
    ) {
        self.empty.iter().for_each(|&id| found(id));
        for len in (1..=GRAM).filter(|&len| self.lengths[len] > 0) {
            for at in 0..(bytes.len() + 1).saturating_sub(len) {
                let mut next = self.first(gram(&bytes[at..], len), &text).unwrap_or(PredicateId::NONE);
                while next != PredicateId::NONE {
                    let Link { after, offset, .. } = self.links[next.index()];
                    let start = at.checked_sub(offset as usize);
                    if start.is_some_and(|start| bytes[start..].starts_with(text(next))) {
                        found(next);
                    }
                    next = after;
                }
            }
        }
    }

    /// Returns the bytes by which `more` parts, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        self.firsts.growth(more) + self.links.growth(ids.saturating_sub(self.links.len()))
    }

    /// Returns the first part under a gram.
    #[inline(always)]
    fn first<'a>(&self, sought: Gram, text: &impl Fn(PredicateId) -> &'a [u8]) -> Option<PredicateId> {
        let is = |id| {
            let id = PredicateId::from_word(id);
            let part = text(id);
            gram(&part[self.links[id.index()].offset as usize..], part.len().min(GRAM)) == sought
        };
        self.firsts.find(hash(sought), is).map(PredicateId::from_word)
    }
}
