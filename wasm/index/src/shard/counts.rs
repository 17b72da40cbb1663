//! The counts of matches of one day.

use hashbrown::HashTable;

use crate::error::Error;
use crate::event::Event;
use crate::support::hash::{hash_of, out_of_memory};

/// The events of a day, and the matches of each expression.
#[derive(Debug)]
pub struct Counts {
    day: i32,
    events: u64,
    matched: u64,
    by_id: HashTable<(u64, u64)>,
    /// Days that ended.
    sealed: Vec<(i32, Vec<u8>)>,
}

const VERSION: u8 = 0;

impl Counts {
    pub(super) fn new(day: i32) -> Self {
        Counts { day, events: 0, matched: 0, by_id: HashTable::new(), sealed: Vec::new() }
    }

    /// Returns the current day, in days since 1970.
    pub fn day(&self) -> i32 {
        self.day
    }

    /// Counts an event. Either all of it is counted, or nothing after an error.
    pub fn add(&mut self, day: i32, ids: &[u64], event: &Event) -> Result<(), Error> {
        self.prepare(day, ids, event)?;
        self.count(ids, event);
        Ok(())
    }

    /// Makes room for the counts of an event. A later day seals the current one.
    pub fn prepare(&mut self, day: i32, ids: &[u64], _event: &Event) -> Result<(), Error> {
        if day > self.day {
            self.sealed.try_reserve(1).map_err(out_of_memory)?;
            let mut blob = Vec::new();
            blob.try_reserve(25 + 16 * self.by_id.len()).map_err(out_of_memory)?;
            self.encode(&mut blob);
            self.sealed.push((self.day, blob));
            *self = Counts { sealed: std::mem::take(&mut self.sealed), ..Counts::new(day) };
        }
        let hash = |&(id, _): &(u64, u64)| hash_of(&id);
        let new = ids.iter().filter(|&&id| self.by_id.find(hash_of(&id), |&(other, _)| other == id).is_none());
        let new = new.count();
        self.by_id.try_reserve(new, hash).map_err(out_of_memory)
    }

    /// Counts an event, after [`Counts::prepare`].
    pub fn count(&mut self, ids: &[u64], _event: &Event) {
        self.events += 1;
        self.matched += u64::from(!ids.is_empty());
        for &id in ids {
            let hash = hash_of(&id);
            match self.by_id.find_mut(hash, |&(other, _)| other == id) {
                Some((_, matches)) => *matches += 1,
                None => drop(self.by_id.insert_unique(hash, (id, 1), |&(id, _)| hash_of(&id))),
            }
        }
    }

    pub(super) fn remove(&mut self, _id: u64) {}

    /// Appends the day, the events, the events that matched, and each id with its matches.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        out.extend(self.day.to_le_bytes());
        out.extend(self.events.to_le_bytes());
        out.extend(self.matched.to_le_bytes());
        out.extend((self.by_id.len() as u32).to_le_bytes());
        for (id, matches) in &self.by_id {
            out.extend(id.to_le_bytes());
            out.extend(matches.to_le_bytes());
        }
    }

    /// Returns the sealed days, the oldest first.
    pub fn sealed(&self) -> &[(i32, Vec<u8>)] {
        &self.sealed
    }

    /// Forgets a sealed day.
    pub fn release(&mut self, day: i32) {
        self.sealed.retain(|&(sealed, _)| sealed != day);
    }

    /// Returns the bytes of the tables.
    pub fn bytes(&self) -> usize {
        self.by_id.allocation_size() + self.sealed.iter().map(|(_, blob)| blob.capacity()).sum::<usize>()
    }
}
