//! The interner of the strings in expressions. Each string is stored once, as long as an expression contains it.

use crate::handles::handle;
use crate::support::bytes::{same, Bytes};
use crate::support::chunks::Chunks;
use crate::support::free_numbers::FreeNumbers;
use crate::support::hash::hash_bytes;
use crate::support::id_table::IdTable;

handle! {
    /// The id of a string in an [`Interner`].
    pub struct StringId
}

impl StringId {
    /// The id of every string that no expression contains. No interner assigns it.
    pub const UNKNOWN: StringId = StringId(u32::MAX);
}

/// The look-up of a string before it is taken in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lookup {
    hash: u64,
    /// The position of the entry that probably has the string, or a position after the last one.
    position: u32,
}

impl Lookup {
    pub fn new(bytes: &[u8]) -> Self {
        Lookup { hash: hash_bytes(bytes), position: u32::MAX }
    }
}

#[derive(Clone, Debug, Default)]
struct Entry {
    bytes: Bytes,
    references: u32,
    id: StringId,
}

/// The number of strings whose entries usually fit the nearest cache: 50 KB.
const MAX_CACHED_STRINGS: usize = 1024;

/// A reference-counted table of strings. Releasing the last reference removes the string.
///
/// ```
/// use be_tree_index::model::strings::Interner;
///
/// let mut strings = Interner::default();
/// let id = strings.retain(b"Rome");
/// assert_eq!(strings.retain(b"Rome"), id);
/// strings.release(id);
/// assert_eq!((strings.find(b"Rome"), strings.get(id)), (Some(id), &b"Rome"[..]));
/// strings.release(id);
/// assert_eq!((strings.find(b"Rome"), strings.is_empty()), (None, true));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Interner {
    /// The entries, without gaps. A removal moves the last entry into the gap.
    entries: Chunks<Entry>,
    /// The position of the entry of each id. The greatest id is in use.
    positions: Chunks<u32>,
    free: FreeNumbers,
    /// The positions of the entries by the hash of their bytes.
    by_bytes: IdTable,
}

impl Interner {
    /// Returns the id of `bytes`, if an expression contains them. Costs one hash and one comparison.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<StringId> {
        self.find_hashed(hash_bytes(bytes), bytes)
    }

    /// Like [`Interner::find`], with a known hash.
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, bytes: &[u8]) -> Option<StringId> {
        self.by_bytes.find_map(hash, |position| {
            let entry = &self.entries[position as usize];
            same(&entry.bytes, bytes).then_some(entry.id)
        })
    }

    /// Returns whether looking up a string is probably a cache miss.
    pub(crate) fn is_far(&self) -> bool {
        self.len() > MAX_CACHED_STRINGS
    }

    /// Prefetches the entries of strings with these hashes. The reads are independent, so the processor overlaps them.
    pub(crate) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        let positions = hashes.filter_map(|hash| self.by_bytes.find(hash, |_| true));
        std::hint::black_box(positions.fold(0, |sum, at| sum ^ self.entries[at as usize].references));
    }

    /// Looks up strings that [`Interner::take_in`] will take in, and prefetches their entries. The reads are independent, so the
    /// processor overlaps them.
    pub(crate) fn look_up(&self, lookups: &mut [Lookup]) {
        let mut read = 0;
        for lookup in lookups {
            if let Some(position) = self.by_bytes.find(lookup.hash, |_| true) {
                lookup.position = position;
                read ^= self.entries[position as usize].references;
            }
        }
        std::hint::black_box(read);
    }

    /// Returns the bytes of `id`, which must be in the table.
    pub fn get(&self, id: StringId) -> &[u8] {
        &self.entries[self.position(id)].bytes
    }

    fn position(&self, id: StringId) -> usize {
        self.positions[id.index()] as usize
    }

    /// Returns the greatest id in use plus one.
    pub(crate) fn capacity(&self) -> usize {
        self.positions.len()
    }

    /// Returns the number of strings in the table.
    pub fn len(&self) -> usize {
        self.by_bytes.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a reference to `bytes`, and inserts them if they are new. Returns their id.
    pub fn retain(&mut self, bytes: &[u8]) -> StringId {
        let id = self.take_in(Lookup::new(bytes), bytes);
        self.count(id);
        id
    }

    /// Returns the id of `bytes`, and inserts them if they are new. The caller must count a reference. No string
    /// may be removed between [`Interner::look_up`] and this call.
    pub(crate) fn take_in(&mut self, lookup: Lookup, bytes: &[u8]) -> StringId {
        debug_assert_eq!(lookup.hash, hash_bytes(bytes));
        match self.entries.get(lookup.position as usize) {
            Some(entry) if same(&entry.bytes, bytes) => entry.id,
            _ => self.find_hashed(lookup.hash, bytes).unwrap_or_else(|| self.insert(lookup.hash, bytes)),
        }
    }

    /// Inserts `bytes`, which are new and whose hash is `hash`. Returns their id.
    fn insert(&mut self, hash: u64, bytes: &[u8]) -> StringId {
        let position = self.entries.len() as u32;
        let number = match self.free.take_lowest() {
            Some(number) => {
                self.positions[number] = position;
                number
            }
            None => {
                self.positions.push(position);
                self.free.extend_to(self.positions.len());
                self.positions.len() - 1
            }
        };
        let id = StringId::from_index(number);
        self.entries.push(Entry { bytes: bytes.into(), references: 0, id });
        self.by_bytes.insert(hash, position);
        id
    }

    /// Adds a reference to `id`.
    pub(crate) fn count(&mut self, id: StringId) {
        let position = self.position(id);
        self.entries[position].references += 1;
    }

    /// Drops a reference to `id`. Dropping the last one removes the string. Allocates nothing.
    pub fn release(&mut self, id: StringId) {
        let position = self.position(id);
        let entry = &mut self.entries[position];
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        self.by_bytes.remove(hash_bytes(&entry.bytes), position as u32);
        self.remove_entry(position);
        self.free.insert(id.index());
        match self.free.free_below(self.positions.len()) {
            0 => {}
            free => {
                self.positions.shorten(self.positions.len() - free);
                self.free.truncate(self.positions.len());
            }
        }
    }

    /// Removes the entry at `position`, and moves the last entry there.
    fn remove_entry(&mut self, position: usize) {
        let last = self.entries.len() - 1;
        let moved = std::mem::take(&mut self.entries[last]);
        if position < last {
            self.by_bytes.renumber(hash_bytes(&moved.bytes), last as u32, position as u32);
            self.positions[moved.id.index()] = position as u32;
            self.entries[position] = moved;
        }
        self.entries.shorten(last);
    }

    /// Frees all memory. No string may be in use.
    pub(crate) fn clear(&mut self) {
        *self = Interner::default();
    }

    /// Returns the heap bytes of the table.
    pub(crate) fn heap_bytes(&self) -> usize {
        let Interner { entries, positions, free, by_bytes } = self;
        let long: usize = entries.iter().map(|entry| entry.bytes.heap_bytes()).sum();
        entries.heap_bytes() + long + positions.heap_bytes() + free.heap_bytes() + by_bytes.heap_bytes()
    }

    /// Returns the bytes by which inserting `more` strings may grow the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        let numbers = self.positions.growth(more) + self.free.growth(self.positions.len() + more);
        self.entries.growth(more) + numbers + self.by_bytes.growth(more)
    }

    /// Checks that the counts, the table and the free ids agree.
    pub fn validate(&self) -> Result<(), String> {
        for (position, entry) in self.entries.iter().enumerate() {
            let id = entry.id;
            if entry.references == 0 || self.free.contains(id.index()) {
                return Err(format!("interner: string {id} has {} references", entry.references));
            }
            if self.positions.get(id.index()) != Some(&(position as u32)) {
                return Err(format!("interner: string {id} is not at {position}"));
            }
            if self.find(&entry.bytes) != Some(id) {
                return Err(format!("interner: string {id} is not found by its bytes"));
            }
        }
        let (held, hashed, free, all) =
            (self.entries.len(), self.by_bytes.len(), self.free.len(), self.positions.len());
        if held != hashed || held + free != all || self.free.free_below(all) > 0 {
            return Err(format!("interner: {held} held, {hashed} hashed, {free} free of {all}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_string_lives_as_long_as_its_references() {
        let mut interner = Interner::default();
        let a = interner.retain(b"a");
        assert_eq!(interner.retain(b"a"), a);
        let b = interner.retain(b"b");
        assert_ne!(a, b);
        interner.release(a);
        assert_eq!(interner.find(b"a"), Some(a));
        interner.release(a);
        assert_eq!(interner.find(b"a"), None);
        assert_eq!(interner.retain(b"c"), a);
        assert_eq!(interner.get(a), b"c");
        interner.validate().unwrap();
    }

    proptest! {
        #[test]
        fn strings_are_held_as_in_a_plain_list(changes in prop::collection::vec((any::<bool>(), 0..60_usize, 0..4_u8), 0..300)) {
            let mut interner = Interner::default();
            let mut plain: BTreeMap<Vec<u8>, Vec<StringId>> = BTreeMap::new();
            for (is_held, len, byte) in changes {
                let string = vec![byte; len];
                if is_held {
                    plain.entry(string.clone()).or_default().push(interner.retain(&string));
                } else if let Some(ids) = plain.get_mut(&string) {
                    ids.pop().into_iter().for_each(|id| interner.release(id));
                }
                plain.retain(|_, ids| !ids.is_empty());
                prop_assert_eq!(interner.find(&string), plain.get(&string).map(|ids| ids[0]));
                prop_assert_eq!(interner.len(), plain.len());
                let greatest = plain.values().map(|ids| ids[0].index() + 1).max().unwrap_or(0);
                prop_assert_eq!(interner.capacity(), greatest);
                prop_assert_eq!(interner.validate(), Ok(()));
            }
            for (string, ids) in &plain {
                prop_assert!(ids.iter().all(|&id| interner.get(id) == &string[..] && id == ids[0]));
            }
        }
    }
}
