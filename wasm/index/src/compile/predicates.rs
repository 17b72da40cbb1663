//! The table of predicates whose constants are not in programs: geographic radii, substrings, segments, caps, long lists.
//!
//! Expressions share the predicates of the table, and an event evaluates each of them at most once.

use hashbrown::HashTable;

use crate::handles::PredicateId;
use crate::model::predicate::Predicate;
use crate::model::strings::StringId;
use crate::patterns::Patterns;
use crate::support::chunks::Chunks;
use crate::support::footprint::of_hash_table;
use crate::support::hash::hash_of;
use crate::support::headroom::table_growth;

#[derive(Clone, Debug)]
enum Entry {
    Held {
        predicate: Predicate<StringId>,
        references: u32,
    },
    /// A free id. It holds the next id of the free list, or [`PredicateId::NONE`].
    Free(PredicateId),
}

/// A reference-counted table of predicates. The expressions, not the table, keep the strings in predicates alive.
#[derive(Clone, Debug)]
pub(crate) struct Predicates {
    entries: Chunks<Entry>,
    /// The head of the free list. The list runs through [`Entry::Free`], so freeing an id allocates nothing.
    free: PredicateId,
    by_value: HashTable<PredicateId>,
    /// Look-up structures from a value to the predicates that it may satisfy.
    patterns: Patterns,
}

impl Default for Predicates {
    fn default() -> Self {
        Predicates {
            entries: Chunks::default(),
            free: PredicateId::NONE,
            by_value: HashTable::new(),
            patterns: Patterns::default(),
        }
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
    /// Returns the greatest id so far plus one: the size of a table with an element for each predicate.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Returns the predicate `id`, which must be in use.
    pub fn get(&self, id: PredicateId) -> &Predicate<StringId> {
        held(&self.entries, id)
    }

    /// Returns the id of `predicate`, if it is in the table.
    pub fn find(&self, predicate: &Predicate<StringId>) -> Option<PredicateId> {
        self.by_value.find(hash_of(predicate), |&id| is(&self.entries[id.index()], predicate)).copied()
    }

    /// Returns the look-up structures from values to predicates.
    pub fn patterns(&self) -> &Patterns {
        &self.patterns
    }

    /// Adds a reference to `predicate`, and inserts it if it is new. Returns its id.
    pub fn retain(&mut self, predicate: &Predicate<StringId>) -> PredicateId {
        let hash = hash_of(predicate);
        let Predicates { entries, by_value, free, patterns } = self;
        if let Some(&id) = by_value.find(hash, |&id| is(&entries[id.index()], predicate)) {
            if let Entry::Held { references, .. } = &mut entries[id.index()] {
                *references += 1;
            }
            return id;
        }
        let entry = Entry::Held { predicate: predicate.clone(), references: 1 };
        let id = match entries.get(free.index()) {
            Some(&Entry::Free(next)) => {
                let id = std::mem::replace(free, next);
                entries[id.index()] = entry;
                id
            }
            _ => {
                entries.push(entry);
                PredicateId::from_index(entries.len() - 1)
            }
        };
        by_value.insert_unique(hash, id, |&id| entries[id.index()].predicate().map_or(0, hash_of));
        patterns.insert(id, predicate, |id| held(entries, id));
        id
    }

    /// Drops a reference to `id`. Dropping the last one removes the predicate.
    pub fn release(&mut self, id: PredicateId) {
        let entry = &mut self.entries[id.index()];
        let Entry::Held { references, .. } = entry else { unreachable!("predicate {id} is held") };
        *references -= 1;
        if *references > 0 {
            return;
        }
        let predicate = held(&self.entries, id);
        let hash = hash_of(predicate);
        self.patterns.remove(id, predicate, |id| held(&self.entries, id));
        self.entries[id.index()] = Entry::Free(std::mem::replace(&mut self.free, id));
        if let Ok(entry) = self.by_value.find_entry(hash, |&held| held == id) {
            entry.remove();
        }
        if self.by_value.is_empty() {
            *self = Predicates::default();
        }
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        let Predicates { entries, by_value, patterns, .. } = self;
        let held = entries.iter().filter_map(Entry::predicate).map(|predicate| predicate.test.heap_bytes());
        entries.heap_bytes() + held.sum::<usize>() + of_hash_table(by_value) + patterns.heap_bytes()
    }

    /// Returns the bytes by which the insertion of `more` predicates, with these `patterns`, may grow the tables.
    pub(crate) fn growth<'a, S: 'a>(&self, more: usize, patterns: impl Iterator<Item = &'a Predicate<S>>) -> usize {
        self.entries.growth(more)
            + table_growth(&self.by_value, more)
            + self.patterns.growth(patterns, self.entries.len() + more)
    }

    /// Checks that the counts, the table and the free list agree with `expected` references to each predicate.
    pub fn validate(&self, expected: &[u32]) -> Result<(), String> {
        let mut free = 0;
        let mut next = self.free;
        while let Some(&Entry::Free(behind)) = self.entries.get(next.index()) {
            (free, next) = (free + 1, behind);
        }
        if next != PredicateId::NONE || self.by_value.len() + free != self.entries.len() {
            let (hashed, all) = (self.by_value.len(), self.entries.len());
            return Err(format!("predicates: {hashed} of {all} hashed, {free} free up to {next}"));
        }
        for (id, (entry, &expected)) in self.entries.iter().zip(expected).enumerate() {
            let counted = if let Entry::Held { references, .. } = entry { *references } else { 0 };
            if counted != expected {
                return Err(format!("predicate {id}: {counted} references counted, {expected} expected"));
            }
            if let Some(predicate) = entry.predicate() {
                let found = self.by_value.find(hash_of(predicate), |&held| is(&self.entries[held.index()], predicate));
                if found != Some(&PredicateId::from_index(id)) {
                    return Err(format!("predicate {id} is not found by its value"));
                }
            }
        }
        let numbered = self.entries.iter().enumerate();
        let all = numbered.filter_map(|(id, entry)| Some((PredicateId::from_index(id), entry.predicate()?)));
        self.patterns.validate(&all.collect::<Vec<_>>())
    }
}

fn held(entries: &Chunks<Entry>, id: PredicateId) -> &Predicate<StringId> {
    match &entries[id.index()] {
        Entry::Held { predicate, .. } => predicate,
        Entry::Free(_) => unreachable!("predicate {id} is held"),
    }
}

fn is(entry: &Entry, predicate: &Predicate<StringId>) -> bool {
    entry.predicate() == Some(predicate)
}
