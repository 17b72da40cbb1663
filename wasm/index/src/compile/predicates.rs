//! The predicates that programs do not have the constants of: places, parts of strings, segments, caps, long lists.
//!
//! Each is held once, however many expressions have it, and evaluated at most once an event.

use hashbrown::HashTable;

use crate::handles::PredicateId;
use crate::model::predicate::Predicate;
use crate::model::strings::StringId;
use crate::support::chunks::Chunks;
use crate::support::hash::hash_of;
use crate::support::headroom::table_growth;

#[derive(Clone, Debug)]
enum Entry {
    Held {
        predicate: Predicate<StringId>,
        references: u32,
    },
    /// The number is free, and so is this one, if it is not [`NONE_FREE`].
    Free(PredicateId),
}

const NONE_FREE: PredicateId = PredicateId::MAX;

/// A table of predicates with a count of the expressions' references to each. What they refer to, such as strings, the
/// expressions hold.
#[derive(Clone, Debug)]
pub(crate) struct Predicates {
    entries: Chunks<Entry>,
    /// The first free number; to give one back takes no memory.
    free: PredicateId,
    by_value: HashTable<PredicateId>,
}

impl Default for Predicates {
    fn default() -> Self {
        Predicates { entries: Chunks::default(), free: NONE_FREE, by_value: HashTable::new() }
    }
}

impl Entry {
    fn predicate(&self) -> Option<&Predicate<StringId>> {
        match self {
            Entry::Held { predicate, .. } => Some(predicate),
            Entry::Free(_) => None,
        }
    }
}

impl Predicates {
    /// One more than the greatest number given so far: the size of a table with a place for each predicate.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The predicate `id`, which is held.
    pub fn get(&self, id: PredicateId) -> &Predicate<StringId> {
        match &self.entries[id as usize] {
            Entry::Held { predicate, .. } => predicate,
            Entry::Free(_) => unreachable!("predicate {id} is held"),
        }
    }

    /// Counts one more reference to `predicate`, which is taken in if it is new.
    pub fn retain(&mut self, predicate: &Predicate<StringId>) -> PredicateId {
        let hash = hash_of(predicate);
        let Predicates { entries, by_value, free } = self;
        if let Some(&id) = by_value.find(hash, |&id| is(&entries[id as usize], predicate)) {
            if let Entry::Held { references, .. } = &mut entries[id as usize] {
                *references += 1;
            }
            return id;
        }
        let entry = Entry::Held { predicate: predicate.clone(), references: 1 };
        let id = match entries.get(*free as usize) {
            Some(&Entry::Free(next)) => {
                let id = std::mem::replace(free, next);
                entries[id as usize] = entry;
                id
            }
            _ => {
                entries.push(entry);
                entries.len() as PredicateId - 1
            }
        };
        by_value.insert_unique(hash, id, |&id| entries[id as usize].predicate().map_or(0, hash_of));
        id
    }

    /// Counts one reference to `id` less, and forgets the predicate with its last one.
    pub fn release(&mut self, id: PredicateId) {
        let entry = &mut self.entries[id as usize];
        let Entry::Held { predicate, references } = entry else { unreachable!("predicate {id} is held") };
        *references -= 1;
        if *references > 0 {
            return;
        }
        let hash = hash_of(&*predicate);
        *entry = Entry::Free(std::mem::replace(&mut self.free, id));
        if let Ok(entry) = self.by_value.find_entry(hash, |&held| held == id) {
            entry.remove();
        }
        if self.by_value.is_empty() {
            *self = Predicates::default();
        }
    }

    /// Bytes that the next insertion may take to enlarge the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        self.entries.growth(more) + table_growth(&self.by_value, more)
    }

    /// Checks that counts, table and free list agree with `expected` references to each predicate.
    pub fn validate(&self, expected: &[u32]) -> Result<(), String> {
        let mut free = 0;
        let mut next = self.free;
        while let Some(&Entry::Free(behind)) = self.entries.get(next as usize) {
            (free, next) = (free + 1, behind);
        }
        if next != NONE_FREE || self.by_value.len() + free != self.entries.len() {
            let (hashed, all) = (self.by_value.len(), self.entries.len());
            return Err(format!("predicates: {hashed} of {all} hashed, {free} free up to {next}"));
        }
        for (id, (entry, &expected)) in self.entries.iter().zip(expected).enumerate() {
            let counted = if let Entry::Held { references, .. } = entry { *references } else { 0 };
            if counted != expected {
                return Err(format!("predicate {id}: {counted} references counted, {expected} expected"));
            }
            if let Some(predicate) = entry.predicate() {
                let found = self.by_value.find(hash_of(predicate), |&held| is(&self.entries[held as usize], predicate));
                if found != Some(&(id as PredicateId)) {
                    return Err(format!("predicate {id} is not found by its value"));
                }
            }
        }
        Ok(())
    }
}

fn is(entry: &Entry, predicate: &Predicate<StringId>) -> bool {
    entry.predicate() == Some(predicate)
}
