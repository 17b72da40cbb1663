//! Insertion and removal of facts.
//!
//! A fact's block has its type, its number (0 once it is removed), its time, a bit for each defined field, the fields, two links
//! for each index of its type, and two links for the order in which facts are dropped. The facts with equal keys in an index are
//! a list, newest first. A removed fact keeps its content until the step ends.
//!
//! The words of a fact type: its free blocks, the number of its facts, the oldest and the newest fact, and a table for each
//! index. Of the first index, which has no key, only the first word is used: the newest fact.

use crate::compile::code::{Bound, Kind, DEFINED, FIELDS, NUMBER, OWN, SLOTS, TIME};
use crate::compile::program::FactType;
use crate::memory::{mix, Address, Full, Table, Words};
use crate::step::{Scratch, Step, FACTS, NEXT, NUMBERS, STRINGS};

const FREE: Address = 0;
const COUNT: Address = 1;
const OLDEST: Address = 2;
const NEWEST: Address = 3;
const INDICES: Address = 4;

/// The values of a fact's fields.
pub(crate) type Cells = [Option<u64>; 32];

impl FactType {
    /// Returns the number of words that the engine has for the type.
    pub fn engine_words(&self) -> u32 {
        INDICES + Table::SIZE * self.indices.len() as u32
    }

    /// Returns the offset of the links of an index in a fact.
    #[inline(always)]
    pub fn links(&self, index: usize) -> u32 {
        FIELDS + 2 * (self.fields.len() + index) as u32
    }

    fn drop_links(&self) -> u32 {
        self.links(self.indices.len())
    }

    fn size(&self) -> u32 {
        self.drop_links() + if self.life.is_some() { 2 } else { 0 }
    }

    #[inline(always)]
    pub fn table(&self, index: usize) -> Table {
        Table(self.at + INDICES + Table::SIZE * index as u32)
    }

    /// Returns the number of facts of this type.
    pub fn count(&self, words: &Words) -> u32 {
        words.get(self.at + COUNT)
    }

    /// Returns the newest fact of this type, or 0.
    pub fn newest(&self, words: &Words) -> Address {
        words.get(self.table(0).0)
    }

    /// Returns the fact that is dropped next, or 0.
    pub fn oldest(&self, words: &Words) -> Address {
        words.get(self.at + OLDEST)
    }

    /// Returns the value of a field.
    pub fn cell(&self, words: &Words, fact: Address, field: usize) -> Option<u64> {
        (words.get(fact + DEFINED) & 1 << field != 0).then(|| words.get64(fact + FIELDS + 2 * field as u32))
    }

    /// Returns the hash of a fact's key in an index, or `None` if a field of the key is undefined.
    #[inline]
    fn hash(&self, words: &Words, fact: Address, index: usize) -> Option<u32> {
        let defined = words.get(fact + DEFINED);
        let mut hash = KEY;
        for field in &self.indices[index] {
            if defined & 1 << field == 0 {
                return None;
            }
            hash = mix(hash, words.get64(fact + FIELDS + 2 * u32::from(*field)));
        }
        Some(hash as u32)
    }
}

/// The hash of an empty key.
pub(crate) const KEY: u64 = 1;

/// Returns whether the block holds the fact with this number.
#[inline(always)]
pub(crate) fn is_alive(words: &Words, fact: Address, number: u64) -> bool {
    words.get64(fact + NUMBER) == number
}

/// Returns the hash of a fact's number.
pub(crate) fn number_hash(number: u64) -> u32 {
    mix(KEY, number) as u32
}

impl Step<'_> {
    /// Inserts a fact, and returns its address.
    pub fn insert(&mut self, ty: usize, cells: &Cells, time: i64) -> Result<Address, Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        let facts = self.words.get(FACTS);
        if facts >= self.limits.facts {
            return Err(Full::Facts);
        }
        self.words.set(FACTS, facts + 1)?;
        let count = fact_type.count(self.words);
        self.words.set(fact_type.at + COUNT, count + 1)?;
        let fact = self.words.allocate_from(fact_type.at + FREE, fact_type.size())?;
        let number = self.words.get64(NEXT);
        self.words.set64(NEXT, number + 1)?;
        self.words.raw(fact, ty as u32);
        self.words.raw64(fact + NUMBER, number);
        self.words.raw64(fact + TIME, time as u64);
        let mut defined = 0;
        for (field, declared) in fact_type.fields.iter().enumerate() {
            let Some(cell) = cells[field] else { continue };
            defined |= 1 << field;
            self.words.raw64(fact + FIELDS + 2 * field as u32, cell);
            if declared.kind == Kind::String {
                STRINGS.retain(self.words, cell as Address)?;
            }
        }
        self.words.raw(fact + DEFINED, defined);
        NUMBERS.insert(self.words, number_hash(number), fact)?;
        for index in 0..fact_type.indices.len() {
            self.link(fact_type, fact, index)?;
        }
        if fact_type.life.is_some() {
            self.append(fact_type, fact)?;
        }
        self.find_met(ty, fact)?;
        self.count_in(fact, number)?;
        Ok(fact)
    }

    /// Adds the fact to the front of its list in an index.
    fn link(&mut self, fact_type: &FactType, fact: Address, index: usize) -> Result<(), Full> {
        let (links, table) = (fact + fact_type.links(index), fact_type.table(index));
        self.words.raw(links + 1, 0);
        let next = if index == 0 {
            let next = self.words.get(table.0);
            self.words.set(table.0, fact)?;
            next
        } else {
            let Some(hash) = fact_type.hash(self.words, fact, index) else { return Ok(()) };
            match table.find(self.words, hash, |_| true) {
                Some((at, next)) => {
                    self.words.set(at + 1, fact)?;
                    next
                }
                None => {
                    table.insert(self.words, hash, fact)?;
                    0
                }
            }
        };
        self.words.raw(links, next);
        if next != 0 {
            self.words.set(next + fact_type.links(index) + 1, fact)?;
        }
        Ok(())
    }

    /// Removes the fact from its list in an index.
    fn unlink(&mut self, fact_type: &FactType, fact: Address, index: usize) -> Result<(), Full> {
        let (offset, table) = (fact_type.links(index), fact_type.table(index));
        let (next, previous) = (self.words.get(fact + offset), self.words.get(fact + offset + 1));
        if previous != 0 {
            self.words.set(previous + offset, next)?;
        } else if index == 0 {
            self.words.set(table.0, next)?;
        } else {
            let Some(hash) = fact_type.hash(self.words, fact, index) else { return Ok(()) };
            if let Some((at, _)) = table.find(self.words, hash, |_| true) {
                if next == 0 {
                    table.remove(self.words, at)?;
                } else {
                    self.words.set(at + 1, next)?;
                }
            }
        }
        if next != 0 {
            self.words.set(next + offset + 1, previous)?;
        }
        Ok(())
    }

    /// Adds the fact to those that are dropped in time.
    fn append(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        let links = fact_type.drop_links();
        let newest = self.words.get(fact_type.at + NEWEST);
        self.words.raw(fact + links, 0);
        self.words.raw(fact + links + 1, newest);
        let link = if newest == 0 { fact_type.at + OLDEST } else { newest + links };
        self.words.set(link, fact)?;
        self.words.set(fact_type.at + NEWEST, fact)
    }

    fn take_out(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        let links = fact_type.drop_links();
        let (newer, older) = (self.words.get(fact + links), self.words.get(fact + links + 1));
        let link = if older == 0 { fact_type.at + OLDEST } else { older + links };
        self.words.set(link, newer)?;
        let link = if newer == 0 { fact_type.at + NEWEST } else { newer + links + 1 };
        self.words.set(link, older)
    }

    /// Lists the single-fact conditions that the fact meets.
    fn find_met(&mut self, ty: usize, fact: Address) -> Result<(), Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        let Scratch { met, selections, .. } = &mut *self.scratch;
        let words = &*self.words;
        met.clear();
        let mut add = |condition: u32| {
            let tests = &program.conditions[condition as usize].tests;
            if tests.iter().all(|test| test.holds(words, &bound)) {
                met.push(condition);
            }
        };
        match &mut selections[ty] {
            None => fact_type.conditions.iter().copied().for_each(add),
            Some(selection) => {
                selection.rest.iter().copied().for_each(&mut add);
                selection.select(fact_type, words, fact)?.iter().for_each(|condition| add(*condition as u32));
            }
        }
        Ok(())
    }

    /// Tells the rules of a new fact, whose conditions are listed.
    fn count_in(&mut self, fact: Address, number: u64) -> Result<(), Full> {
        let program = self.program;
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            let count = self.words.get(condition.at);
            self.words.set(condition.at, count + 1)?;
            if count == 0 {
                for rule in &condition.needed_by {
                    self.need_met(*rule)?;
                }
            }
        }
        // A rule with a condition that no fact meets has no older partners for this fact, so it needs no seed.
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            for (rule, slot) in &condition.seeds {
                if self.is_possible(*rule) {
                    self.push_seed(*rule, *slot, fact, number)?;
                }
            }
        }
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            for (rule, guard) in &condition.guards {
                if self.is_possible(*rule) {
                    self.guard_gains(*rule, *guard, fact, number)?;
                }
            }
        }
        Ok(())
    }

    /// Removes a fact. A retraction may make a `none` or an aggregate's clause true; a drop does not.
    pub fn remove(&mut self, ty: usize, fact: Address, is_retraction: bool) -> Result<(), Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        let number = self.words.get64(fact + NUMBER);
        self.words.set(FACTS, self.words.get(FACTS) - 1)?;
        self.words.set(fact_type.at + COUNT, fact_type.count(self.words) - 1)?;
        if let Some((at, _)) = NUMBERS.find(self.words, number_hash(number), |found| found == fact) {
            NUMBERS.remove(self.words, at)?;
        }
        for index in 0..fact_type.indices.len() {
            self.unlink(fact_type, fact, index)?;
        }
        if fact_type.life.is_some() {
            self.take_out(fact_type, fact)?;
        }
        self.find_met(ty, fact)?;
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            let count = self.words.get(condition.at) - 1;
            self.words.set(condition.at, count)?;
            if count == 0 {
                for rule in &condition.needed_by {
                    self.need_unmet(*rule)?;
                }
            }
        }
        if is_retraction {
            for position in 0..self.scratch.met.len() {
                let condition = &program.conditions[self.scratch.met[position] as usize];
                for (rule, guard) in &condition.guards {
                    if self.is_possible(*rule) {
                        self.guard_loses(*rule, *guard, fact)?;
                    }
                }
            }
        }
        // A guard's test may read the number, so it goes last.
        self.words.set64(fact + NUMBER, 0)?;
        for (field, declared) in fact_type.fields.iter().enumerate() {
            if declared.kind == Kind::String {
                if let Some(string) = fact_type.cell(self.words, fact, field) {
                    if self.scratch.released.len() == self.scratch.released.capacity() {
                        return Err(Full::Freed);
                    }
                    self.scratch.released.push(string as Address);
                }
            }
        }
        self.words.free_to(fact_type.at + FREE, fact)
    }
}
