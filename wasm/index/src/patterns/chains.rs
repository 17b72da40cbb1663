//! Patterns by a key that many may share: a table of the first pattern under each key, and lists of the others.
//!
//! A list is doubly linked, so a change takes the same time however long the list is.

use crate::handles::PredicateId;
use crate::support::chunks::Chunks;
use crate::support::id_table::IdTable;

/// Patterns, each under one key and with a note. The caller knows the keys and compares them.
#[derive(Clone, Debug)]
pub(super) struct Chains<T> {
    /// The first pattern under each key, by the key's hash.
    firsts: IdTable,
    /// By number of a pattern.
    links: Chunks<Link<T>>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link<T> {
    /// The patterns before and after this one, or [`PredicateId::NONE`].
    before: PredicateId,
    after: PredicateId,
    /// The number of patterns under the key. Only that of the first one counts.
    count: u32,
    note: T,
}

impl<T> Default for Chains<T> {
    fn default() -> Self {
        Chains { firsts: IdTable::default(), links: Chunks::default(), len: 0 }
    }
}

impl<T: Copy + Default> Chains<T> {
    /// Returns the first pattern under the key with this hash. `is` returns whether a pattern is under that key.
    #[inline(always)]
    pub fn first(&self, hash: u64, is: impl Fn(PredicateId, &T) -> bool) -> Option<PredicateId> {
        let is = |id| is(PredicateId::from_word(id), self.note(PredicateId::from_word(id)));
        self.firsts.find(hash, is).map(PredicateId::from_word)
    }

    /// Returns the number of patterns in the list that begins with `first`.
    pub fn count(&self, first: Option<PredicateId>) -> u32 {
        first.map_or(0, |first| self.links[first.index()].count)
    }

    /// Returns the note of a pattern.
    #[inline(always)]
    pub fn note(&self, id: PredicateId) -> &T {
        &self.links[id.index()].note
    }

    /// Returns the pattern after `id` in its list.
    #[inline(always)]
    pub fn after(&self, id: PredicateId) -> Option<PredicateId> {
        Some(self.links[id.index()].after).filter(|after| *after != PredicateId::NONE)
    }

    /// Returns all patterns.
    pub fn all(&self) -> impl Iterator<Item = PredicateId> + '_ {
        self.firsts
            .numbers()
            .flat_map(|first| std::iter::successors(Some(PredicateId::from_word(first)), |id| self.after(*id)))
    }

    /// Adds the pattern `id` in front of `first`, the list of its key, whose hash is `hash`.
    pub fn insert(&mut self, id: PredicateId, hash: u64, first: Option<PredicateId>, note: T) {
        let link = Link {
            before: PredicateId::NONE,
            after: first.unwrap_or(PredicateId::NONE),
            count: self.count(first) + 1,
            note,
        };
        while self.links.len() <= id.index() {
            self.links.push(Link { before: PredicateId::NONE, after: PredicateId::NONE, count: 0, note: T::default() });
        }
        self.links[id.index()] = link;
        match first {
            Some(first) => {
                self.links[first.index()].before = id;
                self.firsts.renumber(hash, first.word(), id.word());
            }
            None => self.firsts.insert(hash, id.word()),
        }
        self.len += 1;
    }

    /// Removes the pattern `id` from the list of its key, whose hash is `hash`. `first` returns the beginning of the list. Takes
    /// no memory.
    pub fn remove(&mut self, id: PredicateId, hash: u64, first: impl FnOnce(&Self) -> Option<PredicateId>) {
        let Link { before, after, count, .. } = self.links[id.index()];
        if before != PredicateId::NONE {
            let Some(first) = first(self) else { unreachable!("the list of pattern {id} has a beginning") };
            self.links[first.index()].count -= 1;
            self.links[before.index()].after = after;
        }
        if after != PredicateId::NONE {
            self.links[after.index()].before = before;
        }
        match (before, after) {
            (PredicateId::NONE, PredicateId::NONE) => self.firsts.remove(hash, id.word()),
            (PredicateId::NONE, after) => {
                self.links[after.index()].count = count - 1;
                self.firsts.renumber(hash, id.word(), after.word());
            }
            _ => {}
        }
        self.len -= 1;
        if self.len == 0 {
            self.links.clear();
        }
    }

    /// Returns the bytes by which `more` patterns, with numbers below `ids`, may grow the tables.
    pub fn growth(&self, more: usize, ids: usize) -> usize {
        self.firsts.growth(more) + self.links.growth(ids.saturating_sub(self.links.len()))
    }
}
