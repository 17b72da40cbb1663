//! Strings that expressions mention, each held once for as long as one mentions it.

use crate::support::bytes::{same, Bytes};
use crate::support::chunks::Chunks;
use crate::support::hash::hash_bytes;
use crate::support::id_table::IdTable;

/// The number of a string that an [`Interner`] holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StringId(pub u32);

impl StringId {
    /// Stands for a string that no expression mentions; equal to no id that an interner gives.
    pub const UNKNOWN: StringId = StringId(u32::MAX);
}

#[derive(Clone, Debug, Default)]
struct Entry {
    bytes: Bytes,
    /// How many there are; or, from [`FREE`] on, which number is free as well as this one.
    references: u32,
}

/// Above all counts: an expression takes more than two bytes of memory.
const FREE: u32 = 1 << 31;
/// Marks that no number is free.
const NONE_FREE: u32 = u32::MAX;

/// So many strings are mostly in the nearest memory: they take 50 KB.
const NEAR: usize = 1024;

/// A table of strings with a count of what refers to each. A string whose count falls to nothing is forgotten.
#[derive(Clone, Debug)]
pub struct Interner {
    entries: Chunks<Entry>,
    /// The first free number and [`FREE`], or [`NONE_FREE`]; to give one back takes no memory.
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
    /// The id of `bytes`, if some expression mentions them. Costs one hash and one comparison.
    #[inline]
    pub fn find(&self, bytes: &[u8]) -> Option<StringId> {
        self.find_hashed(hash_bytes(bytes), bytes)
    }

    /// [`Interner::find`] for bytes whose hash is known.
    #[inline]
    pub(crate) fn find_hashed(&self, hash: u64, bytes: &[u8]) -> Option<StringId> {
        let found = self.by_bytes.find(hash, |i| same(&self.entries[i as usize].bytes, bytes));
        found.map(StringId)
    }

    /// Whether looking up a string reads what may be far away.
    pub(crate) fn is_far(&self) -> bool {
        self.len() > NEAR
    }

    /// Reads a word of each place that looking up strings with these hashes will read. Reads that do not wait for one
    /// another are fetched many at a time.
    pub(crate) fn prefetch(&self, hashes: impl Iterator<Item = u64>) {
        let numbers = hashes.filter_map(|hash| self.by_bytes.find(hash, |_| true));
        std::hint::black_box(numbers.fold(0, |sum, i| sum ^ self.entries[i as usize].references));
    }

    /// The bytes of `id`, which is held.
    pub fn get(&self, id: StringId) -> &[u8] {
        &self.entries[id.0 as usize].bytes
    }

    /// One more than the greatest number given so far.
    pub(crate) fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// How many strings are held.
    pub fn len(&self) -> usize {
        self.by_bytes.len()
    }

    /// Whether none is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts one more reference to `bytes`, which are taken in if they are new.
    pub fn retain(&mut self, bytes: &[u8]) -> StringId {
        let id = self.take_in(hash_bytes(bytes), bytes);
        self.count(id);
        id
    }

    /// The id of `bytes`, whose hash is `hash`. Where they are new they are taken in, for a reference to be counted.
    pub(crate) fn take_in(&mut self, hash: u64, bytes: &[u8]) -> StringId {
        debug_assert_eq!(hash, hash_bytes(bytes));
        if let Some(id) = self.find_hashed(hash, bytes) {
            return id;
        }
        let entry = Entry { bytes: bytes.into(), references: 0 };
        let index = match self.free {
            NONE_FREE => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
            free => {
                let index = free & !FREE;
                self.free = self.entries[index as usize].references;
                self.entries[index as usize] = entry;
                index
            }
        };
        self.by_bytes.insert(hash, index);
        StringId(index)
    }

    /// Counts one more reference to `id`.
    pub(crate) fn count(&mut self, id: StringId) {
        self.entries[id.0 as usize].references += 1;
    }

    /// Counts one reference to `id` less, and forgets the string with its last one.
    pub fn release(&mut self, id: StringId) {
        let entry = &mut self.entries[id.0 as usize];
        entry.references -= 1;
        if entry.references > 0 {
            return;
        }
        self.by_bytes.remove(hash_bytes(&entry.bytes), id.0);
        *entry = Entry { bytes: Bytes::default(), references: std::mem::replace(&mut self.free, id.0 | FREE) };
    }

    /// Gives back all memory. No string is held.
    pub(crate) fn clear(&mut self) {
        *self = Interner::default();
    }

    /// Bytes that taking in `more` strings may take to enlarge the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        self.entries.growth(more) + self.by_bytes.growth(more)
    }

    /// Checks that counts, table and free list agree.
    pub fn validate(&self) -> Result<(), String> {
        let held = self.entries.iter().filter(|entry| entry.is_held()).count();
        let (mut free, mut next) = (0, self.free);
        while next != NONE_FREE && free <= self.entries.len() {
            (free, next) = (free + 1, self.entries[(next & !FREE) as usize].references);
        }
        if held != self.by_bytes.len() || held + free != self.entries.len() {
            let (hashed, all) = (self.by_bytes.len(), self.entries.len());
            return Err(format!("interner: {held} held, {hashed} hashed, {free} free of {all}"));
        }
        for (i, entry) in self.entries.iter().enumerate() {
            if entry.is_held() && self.find(&entry.bytes) != Some(StringId(i as u32)) {
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
