//! The predicates that programs do not have the constants of: places, parts of strings, segments, caps, long lists.
//!
//! Each is held once, however many expressions have it, and evaluated at most once an event.

use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::hash::hash_of;
use crate::interner::StringId;
use crate::predicate::Predicate;

/// The number of a predicate that a [`Predicates`] table holds.
pub type PredicateId = u32;

#[derive(Clone, Debug)]
struct Entry {
    predicate: Predicate<StringId>,
    references: u32,
}

/// A table of predicates with a count of the expressions' references to each. What they refer to, such as strings, the
/// expressions hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Predicates {
    entries: Chunks<Option<Entry>>,
    free: Vec<PredicateId>,
    by_value: HashTable<PredicateId>,
}

impl Predicates {
    /// One more than the greatest number given so far: the size of a table with a place for each predicate.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// The predicate `id`, which is held.
    pub fn get(&self, id: PredicateId) -> &Predicate<StringId> {
        match &self.entries[id as usize] {
            Some(entry) => &entry.predicate,
            None => unreachable!("predicate {id} is held"),
        }
    }

    /// Counts one more reference to `predicate`, which is taken in if it is new.
    pub fn retain(&mut self, predicate: &Predicate<StringId>) -> PredicateId {
        let hash = hash_of(predicate);
        let Predicates { entries, by_value, .. } = self;
        if let Some(&id) = by_value.find(hash, |&id| is(&entries[id as usize], predicate)) {
            if let Some(entry) = &mut entries[id as usize] {
                entry.references += 1;
            }
            return id;
        }
        let entry = Some(Entry { predicate: predicate.clone(), references: 1 });
        let id = match self.free.pop() {
            Some(id) => {
                entries[id as usize] = entry;
                id
            }
            None => {
                entries.push(entry);
                entries.len() as PredicateId - 1
            }
        };
        by_value
            .insert_unique(hash, id, |&id| entries[id as usize].as_ref().map_or(0, |held| hash_of(&held.predicate)));
        id
    }

    /// Counts one reference to `id` less, and forgets the predicate with its last one.
    pub fn release(&mut self, id: PredicateId) {
        let entry = &mut self.entries[id as usize];
        let Some(held) = entry else { unreachable!("predicate {id} is held") };
        held.references -= 1;
        if held.references > 0 {
            return;
        }
        let hash = hash_of(&held.predicate);
        *entry = None;
        if let Ok(entry) = self.by_value.find_entry(hash, |&held| held == id) {
            entry.remove();
        }
        self.free.push(id);
    }

    /// Bytes that giving back `more` predicates may request, for the list of free numbers.
    pub(crate) fn removal(&self, more: usize) -> usize {
        2 * growth(&self.free, more)
    }

    /// Bytes that the next insertion may take to enlarge the tables.
    pub(crate) fn growth(&self, more: usize) -> usize {
        self.entries.growth(more) + table_growth(&self.by_value, more)
    }

    /// Checks that counts, table and free list agree with `expected` references to each predicate.
    pub fn validate(&self, expected: &[u32]) -> Result<(), String> {
        if self.by_value.len() + self.free.len() != self.entries.len() {
            return Err(format!(
                "predicates: {} of {} hashed, {} free",
                self.by_value.len(),
                self.entries.len(),
                self.free.len()
            ));
        }
        for (id, (entry, &expected)) in self.entries.iter().zip(expected).enumerate() {
            let references = entry.as_ref().map_or(0, |entry| entry.references);
            if references != expected {
                return Err(format!("predicate {id}: {references} references counted, {expected} expected"));
            }
            if let Some(Entry { predicate, .. }) = entry {
                let found = self.by_value.find(hash_of(predicate), |&held| is(&self.entries[held as usize], predicate));
                if found != Some(&(id as PredicateId)) {
                    return Err(format!("predicate {id} is not found by its value"));
                }
            }
        }
        Ok(())
    }
}

fn is(entry: &Option<Entry>, predicate: &Predicate<StringId>) -> bool {
    entry.as_ref().is_some_and(|entry| entry.predicate == *predicate)
}

/// Bytes that pushing `more` elements onto `table` may allocate.
pub(crate) fn growth<T>(table: &Vec<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    (table.len() + more).max(2 * table.capacity()) * size_of::<T>()
}

/// Bytes that inserting `more` elements into `table` may allocate.
pub(crate) fn table_growth<T>(table: &HashTable<T>, more: usize) -> usize {
    if table.len() + more <= table.capacity() {
        return 0;
    }
    // It has a power of two of buckets, of which it fills seven eighths, each with a byte of control.
    let buckets = ((table.len() + more).max(table.capacity() + 1) * 8).div_ceil(7).next_power_of_two();
    buckets.max(4) * (size_of::<T>() + 1) + CONTROLS
}

/// Bytes of control that a table has besides, and what it is aligned to.
const CONTROLS: usize = 32;
