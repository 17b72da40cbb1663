//! The strings of expressions. Each is stored once, as long as an expression contains it.

use crate::handles::handle;
use crate::support::bytes::{same, Bytes};
use crate::support::chunks::Chunks;
use crate::support::hash::hash_bytes;
use crate::support::id_table::IdTable;

handle! {
    /// The number of a string that an [`Interner`] holds.
    pub struct StringId
}

impl StringId {
    /// The id of strings that no expression contains. No interner returns it for a string.
    pub const UNKNOWN: StringId = StringId(u32::MAX);
}

#[derive(Clone, Debug, Default)]
struct Entry {
    bytes: Bytes,
    /// The number of references, or, from [`FREE`] on, the [`link`] to the next free number.
    references: u32,
}

/// Above all counts: an expression takes more than two bytes of memory.
const FREE: u32 = 1 << 31;
/// The link at the end of the list of free numbers.
const NONE_FREE: u32 = u32::MAX;

/// Returns the link to a free number.
fn link(id: StringId) -> u32 {
    id.word() | FREE
}

/// Returns the free number to which `link` leads, if it leads to one.
fn linked(link: u32) -> Option<StringId> {
    (link != NONE_FREE).then(|| StringId::from_word(link & !FREE))
}

/// The number of strings that usually fit the nearest cache: they take 50 KB.
const NEAR: usize = 1024;

/// A table of strings with the number of references to each. A string is removed with its last reference.
#[derive(Clone, Debug)]
pub struct Interner {
    entries: Chunks<Entry>,
    /// The [`link`] to the first free number. Freeing a number takes no memory.
    free: u32,
    by_bytes: IdTable,
}

impl Default for Interner {
    fn default() -> Self {
        Interner { entries: Chunks::default(), free: NONE_FREE, by_bytes: IdTable::default() }
    }
}

impl Entry {
    fn is_held(&self) -> bool {
        self.references < FREE
    }
}

impl Interner {
    /// Returns the id of `bytes`, if some expression contains them. Costs one hash and one comparison.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<StringId> {
        self.find_hashed(hash_bytes(bytes), bytes)
    }

    /// [`Interner::find`] for bytes whose hash is known.
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, bytes: &[u8]) -> Option<StringId> {
        let found = self.by_bytes.find(hash, |id| same(self.get(StringId::from_word(id)), bytes));
        found.map(StringId::from_word)
    }

    /// Returns whether looking up a string is probably a cache miss.
    pub(crate) fn is_far(&self) -> bool {
        self.len() > NEAR
    }

    /// Prefetches the entries of strings with these hashes. These reads do not depend on one another, so the processor makes
    /// many at a time.
    pub(crate) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        let ids = hashes.filter_map(|hash| self.by_bytes.find(hash, |_| true)).map(StringId::from_word);
        std::hint::black_box(ids.fold(0, |sum, id| sum ^ self.entries[id.index()].references));
    }

    /// Returns the bytes of `id`, which must be in the table.
    pub fn get(&self, id: StringId) -> &[u8] {
        &self.entries[id.index()].bytes
    }

    /// Returns the greatest number so far plus one.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the number of strings in the table.
    pub fn len(&self) -> usize {
        self.by_bytes.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts one more reference to `bytes`, and inserts them if they are new. Returns their id.
    pub fn retain(&mut self, bytes: &[u8]) -> StringId {
        let id = self.take_in(hash_bytes(bytes), bytes);
        self.count(id);
        id
    }

    /// Returns the id of `bytes`, whose hash is `hash`, and inserts them if they are new. A reference must be counted then.
    pub(crate) fn take_in(&mut self, hash: u64, bytes: &[u8]) -> StringId {
        debug_assert_eq!(hash, hash_bytes(bytes));
        if let Some(id) = self.find_hashed(hash, bytes) {
            return id;
        }
        let entry = Entry { bytes: bytes.into(), references: 0 };
        let id = match linked(self.free) {
            None => {
                self.entries.push(entry);
                StringId::from_index(self.entries.len() - 1)
            }
            Some(id) => {
                self.free = self.entries[id.index()].references;
                self.entries[id.index()] = entry;
                id
            }
        };
        self.by_bytes.insert(hash, id.word());
        id
    }

    /// Counts one more reference to `id`.
    pub(crate) fn count(&mut self, id: StringId) {
        self.entries[id.index()].references += 1;
    }

    /// Counts one reference to `id` less, and removes the string with its last reference.
    pub fn release(&mut self, id: StringId) {
        let entry = &mut self.entries[id.index()];
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        self.by_bytes.remove(hash_bytes(&entry.bytes), id.word());
        *entry = Entry { bytes: Bytes::default(), references: std::mem::replace(&mut self.free, link(id)) };
    }

    /// Frees all memory. No string may be in use.
    pub(crate) fn clear(&mut self) {
        *self = Interner::default();
    }

    /// Returns the bytes by which inserting `more` strings may grow the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        self.entries.growth(more) + self.by_bytes.growth(more)
    }

    /// Checks that the counts, the table and the free list agree.
    pub fn validate(&self) -> Result<(), String> {
        let held = self.entries.iter().filter(|entry| entry.is_held()).count();
        let (mut free, mut next) = (0, self.free);
        while let Some(id) = linked(next).filter(|_| free <= self.entries.len()) {
            (free, next) = (free + 1, self.entries[id.index()].references);
        }
        if held != self.by_bytes.len() || held + free != self.entries.len() {
            let (hashed, all) = (self.by_bytes.len(), self.entries.len());
            return Err(format!("interner: {held} held, {hashed} hashed, {free} free of {all}"));
        }
        for (i, entry) in self.entries.iter().enumerate() {
            if entry.is_held() && self.find(&entry.bytes) != Some(StringId::from_index(i)) {
                return Err(format!("interner: string {i} is not found by its bytes"));
            }
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
                prop_assert_eq!(interner.validate(), Ok(()));
            }
            for (string, ids) in &plain {
                prop_assert!(ids.iter().all(|&id| interner.get(id) == &string[..] && id == ids[0]));
            }
        }
    }
}
