//! The prefixes, or the suffixes, that expressions test for: a table by hash, and the lengths in it.

use super::lengths::{hash, Lengths, Side};
use crate::handles::PredicateId;
use crate::support::id_table::IdTable;

#[derive(Clone, Debug, Default)]
pub(super) struct Affixes {
    lengths: Lengths,
    by_hash: IdTable,
}

impl Affixes {
    pub fn insert(&mut self, side: Side, text: &[u8], id: PredicateId) {
        self.lengths.add(text.len());
        self.by_hash.insert(hash(side, text), id.word());
    }

    pub fn remove(&mut self, side: Side, text: &[u8], id: PredicateId) {
        self.lengths.remove(text.len());
        self.by_hash.remove(hash(side, text), id.word());
    }

    /// Calls `found` with each affix of `bytes`. `text` returns the affix of an id.
    pub fn each<'a>(
        &self,
        side: Side,
        bytes: &[u8],
        text: impl Fn(PredicateId) -> &'a [u8],
        found: &mut impl FnMut(PredicateId),
    ) {
        self.lengths.each(side, bytes, |part, hash| {
            if let Some(id) = self.by_hash.find(hash, |id| text(PredicateId::from_word(id)) == part) {
                found(PredicateId::from_word(id));
            }
        });
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.lengths.heap_bytes() + self.by_hash.heap_bytes()
    }

    /// Returns the bytes by which `more` affixes may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        self.lengths.growth(more) + self.by_hash.growth(more)
    }
}
