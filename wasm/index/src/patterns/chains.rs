//! A hash multimap of patterns: a table of the first pattern under each key, and a linked list of the others.
//!
//! A list is doubly linked, so a change takes constant time.

use crate::handles::PredicateId;
use crate::support::chunks::Chunks;
use crate::support::id_table::IdTable;

/// Patterns, each under one key and with a note. The caller knows the keys and compares them. The links of all chains are in
/// one table ([`Links`]), because each pattern is in one chain.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    /// The first pattern under each key, by the key's hash.
    firsts: IdTable,
}

/// The links of all patterns in chains, by the pattern's id.
#[derive(Clone, Debug)]
pub(super) struct Links<T> {
    links: Chunks<Link<T>>,
    /// The number of patterns in chains.
    used: usize,
}

#[derive(Clone, Copy, Debug)]
struct Link<T> {
    /// The patterns before and after this one, or [`PredicateId::NONE`].
    before: PredicateId,
    after: PredicateId,
    /// The number of patterns under the key. Only valid in the list's first link.
    count: u32,
    note: T,
}

impl<T> Default for Links<T> {
    fn default() -> Self {
        Links { links: Chunks::default(), used: 0 }
    }
}

impl<T: Copy + Default> Links<T> {
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

    fn put(&mut self, id: PredicateId, link: Link<T>) {
        while self.links.len() <= id.index() {
            self.links.push(Link { before: PredicateId::NONE, after: PredicateId::NONE, count: 0, note: T::default() });
        }
        self.links[id.index()] = link;
        self.used += 1;
    }

    /// Decrements the number of patterns. Allocates nothing.
    fn drop_one(&mut self) {
        self.used -= 1;
        if self.used == 0 {
            self.links.clear();
        }
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        self.links.heap_bytes()
    }

    /// Returns the bytes by which patterns with ids below `ids` may grow the table.
    pub fn growth(&self, ids: usize) -> usize {
        self.links.growth(ids.saturating_sub(self.links.len()))
    }
}

impl Chains {
    /// Returns the first pattern under the key with this hash. `is` returns whether a pattern is under that key.
    #[inline(always)]
    pub fn first<T: Copy + Default>(
        &self,
        links: &Links<T>,
        hash: u64,
        is: impl Fn(PredicateId, &T) -> bool,
    ) -> Option<PredicateId> {
        let is = |id| is(PredicateId::from_word(id), links.note(PredicateId::from_word(id)));
        self.firsts.find(hash, is).map(PredicateId::from_word)
    }

    /// Returns all patterns.
    pub fn all<'a, T: Copy + Default>(&'a self, links: &'a Links<T>) -> impl Iterator<Item = PredicateId> + 'a {
        self.firsts
            .numbers()
            .flat_map(|first| std::iter::successors(Some(PredicateId::from_word(first)), |id| links.after(*id)))
    }

    /// Adds the pattern `id` in front of `first`, the list of its key, whose hash is `hash`.
    pub fn insert<T: Copy + Default>(
        &mut self,
        links: &mut Links<T>,
        id: PredicateId,
        hash: u64,
        first: Option<PredicateId>,
        note: T,
    ) {
        let (before, after) = (PredicateId::NONE, first.unwrap_or(PredicateId::NONE));
        links.put(id, Link { before, after, count: links.count(first) + 1, note });
        match first {
            Some(first) => {
                links.links[first.index()].before = id;
                self.firsts.renumber(hash, first.word(), id.word());
            }
            None => self.firsts.insert(hash, id.word()),
        }
    }

    /// Removes the pattern `id` from the list of its key, whose hash is `hash`. `first` returns the first pattern of the
    /// list. Allocates nothing.
    pub fn remove<T: Copy + Default>(
        &mut self,
        links: &mut Links<T>,
        id: PredicateId,
        hash: u64,
        first: impl FnOnce(&Self, &Links<T>) -> Option<PredicateId>,
    ) {
        let Link { before, after, count, .. } = links.links[id.index()];
        if before != PredicateId::NONE {
            let Some(first) = first(self, links) else { unreachable!("the list of pattern {id} has a beginning") };
            links.links[first.index()].count -= 1;
            links.links[before.index()].after = after;
        }
        if after != PredicateId::NONE {
            links.links[after.index()].before = before;
        }
        match (before, after) {
            (PredicateId::NONE, PredicateId::NONE) => self.firsts.remove(hash, id.word()),
            (PredicateId::NONE, after) => {
                links.links[after.index()].count = count - 1;
                self.firsts.renumber(hash, id.word(), after.word());
            }
            _ => {}
        }
        links.drop_one();
    }

    /// Returns the heap bytes of the table of keys.
    pub fn heap_bytes(&self) -> usize {
        self.firsts.heap_bytes()
    }

    /// Returns the bytes by which `more` patterns may grow the table of keys.
    pub fn growth(&self, more: usize) -> usize {
        self.firsts.growth(more)
    }
}
