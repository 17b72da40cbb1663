//! Regular expressions, found by the prefixes of their matches.

use super::lengths::{hash, Lengths, Side};
use super::members::{Members, Seat};
use crate::handles::PredicateId;

#[derive(Clone, Debug, Default)]
pub(super) struct Beginnings {
    lengths: Lengths,
    members: Members,
}

impl Beginnings {
    /// Adds the prefixes of a regular expression. `of` returns the prefixes of another one by id.
    pub fn insert<'a>(&mut self, texts: &[Box<[u8]>], id: PredicateId, of: impl Fn(PredicateId) -> &'a [Box<[u8]>]) {
        for (position, text) in texts.iter().enumerate() {
            self.lengths.add(text.len());
            let is = |seat: Seat| of(seat.list)[seat.position as usize] == *text;
            self.members.insert(id, position as u32, hash(Side::Start, text), is);
        }
    }

    /// Removes the prefixes of a regular expression. Allocates nothing.
    pub fn remove(&mut self, texts: &[Box<[u8]>], id: PredicateId) {
        for (position, text) in texts.iter().enumerate() {
            self.lengths.remove(text.len());
            self.members.remove(id, position as u32, hash(Side::Start, text));
        }
    }

    /// Calls `found` with each regular expression that has a prefix of `bytes`. `of` returns the prefixes of one by id.
    pub fn each<'a>(
        &self,
        bytes: &[u8],
        of: impl Fn(PredicateId) -> &'a [Box<[u8]>],
        found: &mut impl FnMut(PredicateId),
    ) {
        self.lengths.each(Side::Start, bytes, |part, hash| {
            let is = |seat: Seat| *of(seat.list)[seat.position as usize] == *part;
            self.members.each(hash, is, found);
        });
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.lengths.heap_bytes() + self.members.heap_bytes()
    }

    /// Returns the bytes by which `more` prefixes may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        self.lengths.growth(more) + self.members.growth(more)
    }
}
