//! Insertion and removal of facts.
//!
//! A fact's block has its type, its number (0 once it is removed), its time, a bit for each defined field, the single-fact
//! conditions that it meets, the fields, two links for each index of its type, and two links for the order in which facts are
//! dropped. The facts with equal keys in an index are a list, newest first. A removed fact keeps its content until the step ends.
//!
//! A fact is in the first index, and in those that a condition which it meets is looked up in: no other look-up accepts it.
//!
//! The words of a fact type: its free blocks, the number of its facts, the oldest and the newest fact, and a table for each
//! index. Of the first index, which has no key, only the first word is used: the newest fact.

use crate::compile::code::{Bound, Kind, DEFINED, FIELDS, MET, NUMBER, OWN, SLOTS, TIME};
use crate::compile::program::{FactType, NUMBER_READ};
use crate::matches::guards::Change;
use crate::memory::{mix, Address, Full, Table, Words};
use crate::step::{Scratch, Step, FACTS, NEXT, NUMBERS, STRINGS};

const FREE: Address = 0;
const COUNT: Address = 1;
const OLDEST: Address = 2;
const NEWEST: Address = 3;
const INDICES: Address = 4;

/// The values of a fact's fields, and a bit for each that is defined.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cells {
    values: [u64; 32],
    defined: u32,
}

impl Cells {
    /// Leaves all fields undefined.
    pub fn clear(&mut self) {
        self.defined = 0;
    }

    pub fn set(&mut self, field: usize, value: Option<u64>) {
        match value {
            Some(value) => {
                self.values[field] = value;
                self.defined |= 1 << field;
            }
            None => self.defined &= !(1 << field),
        }
    }

    pub fn get(&self, field: usize) -> Option<u64> {
        (self.defined & 1 << field != 0).then(|| self.values[field])
    }
}

/// Why a fact is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Retraction,
    /// No rule can use it any more.
    Drop,
}

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

    /// Returns the offset of the links to the next fact that is dropped and to the one before.
    pub fn drop_links(&self) -> u32 {
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

    /// Returns the conditions of some bits, if the type has few.
    pub fn of_bits(&self, met: u32) -> impl Iterator<Item = u32> + '_ {
        bits(met).map(|position| self.conditions[position])
    }

    /// Returns the value of a field.
    pub fn cell(&self, words: &Words, fact: Address, field: usize) -> Option<u64> {
        (words.get(fact + DEFINED) & 1 << field != 0).then(|| words.get64(fact + FIELDS + 2 * field as u32))
    }

    /// Returns the hash of a fact's key in an index, or `None` if a field of the key is undefined.
    #[inline]
    pub fn hash(&self, words: &Words, fact: Address, index: usize) -> Option<u32> {
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

/// Returns the positions of the bits that are set, ascending.
pub(crate) fn bits(mut word: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let position = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        Some(position)
    })
}

/// The hash of an empty key.
pub(crate) const KEY: u64 = 1;

/// Returns whether the block holds the fact with this number.
#[inline(always)]
pub(crate) fn is_alive(words: &Words, fact: Address, number: u64) -> bool {
    words.get64(fact + NUMBER) == number
}

impl Step<'_> {
    /// Inserts a fact with the fields of [`Scratch::cells`], and returns its address.
    pub fn insert(&mut self, ty: usize, time: i64) -> Result<Address, Full> {
        let (fact, number) = self.add(ty, time)?;
        for position in 0..self.scratch.met.len() {
            let condition = &self.program.conditions[self.scratch.met[position] as usize];
            // It only makes a `none` false.
            for (rule, guard) in &condition.aggregates {
                if self.is_possible(*rule) {
                    self.flip(*rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
                }
            }
        }
        Ok(fact)
    }

    /// Adds a fact with the fields of [`Scratch::cells`] and its seeds, and lists the conditions that it meets. The guards that it is
    /// about are not told. Returns its address and number.
    fn add(&mut self, ty: usize, time: i64) -> Result<(Address, u64), Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        let facts = self.words.get(FACTS);
        if facts >= self.limits.facts {
            return Err(Full::Facts);
        }
        self.words.set(FACTS, facts + 1)?;
        self.scratch.tested = None;
        let count = fact_type.count(self.words);
        self.words.set(fact_type.at + COUNT, count + 1)?;
        let fact = self.words.allocate_from(fact_type.at + FREE, fact_type.size())?;
        let number = self.words.get64(NEXT);
        self.words.set64(NEXT, number + 1)?;
        let defined = self.scratch.cells.defined;
        self.words.raw(fact, ty as u32);
        self.words.raw64(fact + NUMBER, number);
        self.words.raw64(fact + TIME, time as u64);
        self.words.raw(fact + DEFINED, defined);
        for (field, declared) in fact_type.fields.iter().enumerate() {
            if defined & 1 << field == 0 {
                continue;
            }
            let cell = self.scratch.cells.values[field];
            self.words.raw64(fact + FIELDS + 2 * field as u32, cell);
            if declared.kind == Kind::String {
                STRINGS.retain(self.words, cell as Address)?;
            }
        }
        NUMBERS.insert(self.words, number, fact)?;
        let indices = self.meet(ty, fact)?;
        for index in bits(indices) {
            self.link::<true>(fact_type, fact, index)?;
        }
        if fact_type.life.is_some() {
            self.append::<true>(fact_type, fact)?;
        }
        if fact_type.has_series {
            for position in 0..self.scratch.met.len() {
                self.join_series(self.scratch.met[position], fact)?;
            }
        }
        for position in 0..self.scratch.met.len() {
            self.count_in(self.scratch.met[position])?;
        }
        self.seed_rules(fact, number)?;
        Ok((fact, number))
    }

    /// Puts a fact with the fields of [`Scratch::cells`] in the place of another, from which it differs in the `changed` fields, and
    /// returns its address.
    pub fn replace(&mut self, ty: usize, fact: Address, changed: u32) -> Result<Address, Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        self.take(ty, fact)?;
        let (new, number) = self.add(ty, self.words.get64(fact + TIME) as i64)?;
        let change = Change { gone: fact, new };
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            for (rule, guard) in &condition.aggregates {
                if self.may_gain(*rule, *guard, changed) {
                    self.flip(*rule, *guard, number - 1, change, new)?;
                }
            }
        }
        self.list_met(fact_type, fact);
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            for (rule, guard) in &condition.guards {
                if self.may_gain(*rule, *guard, changed) {
                    self.flip(*rule, *guard, number - 1, change, fact)?;
                }
            }
        }
        self.discard(fact_type, fact)?;
        Ok(new)
    }

    /// Gives a fact the `changed` fields of [`Scratch::cells`] and a new number, where it is: that has the effects of its
    /// [`Step::replace`] by another fact. Returns whether it could. If not, nothing has changed.
    ///
    /// The fact stays in the lists that it heads and whose keys do not change. So nothing may look facts up before it is done, as
    /// a `none` or an aggregate would that loses the fact. If the fact blocked all matches of a rule, they are looked up afterwards
    /// instead, without its old fields. Seeds find those matches that the renewed fact is in.
    pub fn renew(&mut self, ty: usize, fact: Address, changed: u32) -> Result<bool, Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        if !fact_type.has_few_conditions() {
            return Ok(false);
        }
        let before = self.words.get(fact + MET);
        let blocks_all = |rule: u32, guard: u8| program.rules[rule as usize].guards[guard as usize].blocks_all;
        for condition in fact_type.of_bits(before) {
            let mut guards = program.conditions[condition as usize].guards.iter();
            if guards.any(|(rule, guard)| self.may_gain(*rule, *guard, changed) && !blocks_all(*rule, *guard)) {
                return Ok(false);
            }
        }
        self.scratch.tested = None;
        let indices_before = self.indices_of(fact_type, before);
        let rekeyed = bits(changed).fold(0, |rekeyed, field| rekeyed | fact_type.keyed_by[field]);
        for index in bits(indices_before & rekeyed) {
            self.unlink(fact_type, fact, index)?;
        }
        if fact_type.has_series {
            for condition in fact_type.of_bits(before) {
                self.leave_series(condition, fact)?;
            }
        }
        self.change_fields(fact_type, fact, changed)?;
        let number = self.words.get64(NEXT);
        self.words.set64(NEXT, number + 1)?;
        self.forget_ticket(self.words.get64(fact + NUMBER))?;
        NUMBERS.remove(self.words, self.words.get64(fact + NUMBER))?;
        NUMBERS.insert(self.words, number, fact)?;
        self.words.set64(fact + NUMBER, number)?;
        let retested = bits(changed).fold(0, |retested, field| retested | fact_type.tested_by[field]);
        let met = before & !retested | self.met_of(fact_type, fact, retested);
        if met != before {
            self.words.set(fact + MET, met)?;
        }
        let indices = self.indices_of(fact_type, met);
        for index in bits(indices | indices_before) {
            let (is_in, was_in) = (indices & 1 << index != 0, indices_before & !rekeyed & 1 << index != 0);
            let is_first = was_in && self.words.get(fact + fact_type.links(index) + 1) == 0;
            if is_in && is_first {
                continue;
            }
            if was_in {
                self.unlink(fact_type, fact, index)?;
            }
            if is_in {
                self.link::<false>(fact_type, fact, index)?;
            }
        }
        if fact_type.life.is_some() {
            self.take_out(fact_type, fact)?;
            self.append::<false>(fact_type, fact)?;
        }
        if fact_type.has_series {
            for condition in fact_type.of_bits(met) {
                self.join_series(condition, fact)?;
            }
        }
        for condition in fact_type.of_bits(before & !met) {
            self.count_out(condition)?;
        }
        for condition in fact_type.of_bits(met & !before) {
            self.count_in(condition)?;
        }
        self.scratch.met.clear();
        self.scratch.met.extend(fact_type.of_bits(met));
        self.seed_rules(fact, number)?;
        // An aggregate that had the fact before does not read what changed, or its rule had no matches.
        for condition in fact_type.of_bits(met & !before) {
            for (rule, guard) in &program.conditions[condition as usize].aggregates {
                if self.is_possible(*rule) {
                    self.flip(*rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
                }
            }
        }
        for condition in fact_type.of_bits(before) {
            for (rule, guard) in &program.conditions[condition as usize].guards {
                if self.may_gain(*rule, *guard, changed) && blocks_all(*rule, *guard) {
                    self.flip(*rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
                }
            }
        }
        Ok(true)
    }

    /// Returns those of the `given` fields, one bit each, in which a fact differs from [`Scratch::cells`].
    pub fn changed_fields(&self, fact_type: &FactType, fact: Address, given: impl Iterator<Item = u8>) -> u32 {
        let cells = &self.scratch.cells;
        let differs = |field: &usize| {
            let new = (cells.defined & 1 << field != 0).then(|| cells.values[*field]);
            fact_type.cell(self.words, fact, *field) != new
        };
        given.map(usize::from).filter(differs).fold(0, |changed, field| changed | 1 << field)
    }

    /// Gives a fact the changed ones of the fields of [`Scratch::cells`].
    fn change_fields(&mut self, fact_type: &FactType, fact: Address, changed: u32) -> Result<(), Full> {
        for field in bits(changed) {
            let cell = self.scratch.cells.values[field];
            let is_defined = self.scratch.cells.defined & 1 << field != 0;
            if fact_type.fields[field].kind == Kind::String {
                self.release_string(fact_type, fact, field)?;
                if is_defined {
                    STRINGS.retain(self.words, cell as Address)?;
                }
            }
            if is_defined {
                self.words.set64(fact + FIELDS + 2 * field as u32, cell)?;
            }
        }
        let before = self.words.get(fact + DEFINED);
        let defined = before & !changed | self.scratch.cells.defined & changed;
        if defined != before {
            self.words.set(fact + DEFINED, defined)?;
        }
        Ok(())
    }

    /// Takes the fact as an owner from the string in a field, when the step ends.
    fn release_string(&mut self, fact_type: &FactType, fact: Address, field: usize) -> Result<(), Full> {
        if let Some(string) = fact_type.cell(self.words, fact, field) {
            if self.scratch.released.is_full() {
                return Err(Full::Released);
            }
            self.scratch.released.push(string as Address);
        }
        Ok(())
    }

    /// Stores a word of a fact.
    #[inline(always)]
    fn store<const IS_NEW: bool>(&mut self, address: Address, value: u32) -> Result<(), Full> {
        if IS_NEW {
            self.words.raw(address, value);
            return Ok(());
        }
        self.words.set(address, value)
    }

    /// Adds the fact to the front of its list in an index.
    fn link<const IS_NEW: bool>(&mut self, fact_type: &FactType, fact: Address, index: usize) -> Result<(), Full> {
        let (links, table) = (fact + fact_type.links(index), fact_type.table(index));
        self.store::<IS_NEW>(links + 1, 0)?;
        let next = if index == 0 {
            let next = self.words.get(table.0);
            self.words.set(table.0, fact)?;
            next
        } else {
            let Some(hash) = fact_type.hash(self.words, fact, index) else { return Ok(()) };
            let (at, next) = table.place(self.words, hash);
            if next == 0 {
                table.fill(self.words, at, hash, fact)?;
            } else {
                self.words.set(at + 1, fact)?;
            }
            next
        };
        self.store::<IS_NEW>(links, next)?;
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
    fn append<const IS_NEW: bool>(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        let links = fact_type.drop_links();
        let newest = self.words.get(fact_type.at + NEWEST);
        self.store::<IS_NEW>(fact + links, 0)?;
        self.store::<IS_NEW>(fact + links + 1, newest)?;
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

    /// Lists the single-fact conditions that a new fact meets, and keeps them with the fact: as bits, or in a block if its type has
    /// many. Returns the indices, one bit each, that the fact is to be in.
    fn meet(&mut self, ty: usize, fact: Address) -> Result<u32, Full> {
        let fact_type = &self.program.types[ty];
        if self.scratch.selections[ty].is_none() {
            let bits = self.met_of(fact_type, fact, u32::MAX);
            self.words.raw(fact + MET, bits);
            self.scratch.met.clear();
            self.scratch.met.extend(fact_type.of_bits(bits));
            return Ok(self.indices_of(fact_type, bits));
        }
        self.find_met(ty, fact)?;
        self.keep_met(fact_type, fact)?;
        Ok(self.indices_of_met())
    }

    /// Lists the single-fact conditions that a new fact meets. Its type has many.
    fn find_met(&mut self, ty: usize, fact: Address) -> Result<(), Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        let Scratch { met, selections, .. } = &mut *self.scratch;
        met.clear();
        let Some(selection) = &mut selections[ty] else { return Ok(()) };
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        let words = &*self.words;
        let mut add = |condition: u32| {
            if program.conditions[condition as usize].is_met(words, &bound) {
                met.push(condition);
            }
        };
        selection.rest.iter().copied().for_each(&mut add);
        selection.select(fact_type, words, fact)?.iter().for_each(|condition| add(*condition as u32));
        Ok(())
    }

    /// Returns the conditions that a fact meets, among those of `asked`, one bit each. Its type has few.
    fn met_of(&self, fact_type: &FactType, fact: Address, asked: u32) -> u32 {
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        let asked = asked & fact_type.switch.candidates(self.words, fact);
        let is_met = |position: &usize| {
            self.program.conditions[fact_type.conditions[*position] as usize].is_met(self.words, &bound)
        };
        bits(asked).filter(is_met).fold(0, |met, position| met | 1 << position)
    }

    /// Keeps the listed conditions with their fact: as bits, or in a block if its type has many.
    fn keep_met(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        let met = &self.scratch.met;
        let kept = if fact_type.has_few_conditions() {
            let bit = |condition: &u32| self.program.conditions[*condition as usize].bit;
            met.iter().fold(0, |bits, condition| bits | bit(condition))
        } else if met.is_empty() {
            0
        } else {
            let block = self.words.allocate(1 + met.len() as u32)?;
            self.words.raw(block, met.len() as u32);
            for (address, condition) in (block + 1..).zip(met.iter()) {
                self.words.raw(address, *condition);
            }
            block
        };
        self.words.raw(fact + MET, kept);
        Ok(())
    }

    /// Lists the conditions that are kept with a fact. Returns their block and its size, if its type has many.
    fn list_met(&mut self, fact_type: &FactType, fact: Address) -> Option<(Address, u32)> {
        let met = &mut self.scratch.met;
        met.clear();
        let kept = self.words.get(fact + MET);
        if fact_type.has_few_conditions() {
            met.extend(fact_type.of_bits(kept));
            return None;
        }
        if kept == 0 {
            return None;
        }
        let length = self.words.get(kept);
        met.extend((kept + 1..=kept + length).map(|address| self.words.get(address)));
        Some((kept, 1 + length))
    }

    /// Lists the conditions that are kept with a fact, and frees their block.
    fn take_met(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        match self.list_met(fact_type, fact) {
            Some((block, size)) => self.words.free(block, size),
            None => Ok(()),
        }
    }

    /// Returns the indices, one bit each, that a fact with the listed conditions is in.
    fn indices_of_met(&self) -> u32 {
        let met = self.scratch.met.iter();
        met.fold(1, |indices, condition| indices | self.program.conditions[*condition as usize].indices)
    }

    /// Returns the indices, one bit each, that a fact which meets these conditions is in.
    fn indices_of(&self, fact_type: &FactType, met: u32) -> u32 {
        let conditions = fact_type.of_bits(met);
        conditions.fold(1, |indices, condition| indices | self.program.conditions[condition as usize].indices)
    }

    /// Counts a fact that meets a condition.
    fn count_in(&mut self, condition: u32) -> Result<(), Full> {
        let condition = &self.program.conditions[condition as usize];
        let count = self.words.get(condition.at);
        self.words.set(condition.at, count + 1)?;
        if count == 0 {
            for rule in &condition.needed_by {
                self.need_met(*rule)?;
            }
        }
        Ok(())
    }

    /// Counts a fact that meets a condition no more.
    fn count_out(&mut self, condition: u32) -> Result<(), Full> {
        let condition = &self.program.conditions[condition as usize];
        let count = self.words.get(condition.at) - 1;
        self.words.set(condition.at, count)?;
        if count == 0 {
            for rule in &condition.needed_by {
                self.need_unmet(*rule)?;
            }
        }
        Ok(())
    }

    /// Returns the position of the first seed of a rule that can fire.
    fn first_possible(&self, seeds: &[(u32, u8)]) -> Option<usize> {
        seeds.iter().position(|(rule, _)| self.is_possible(*rule))
    }

    /// Leaves seeds of a new fact, whose conditions are listed and counted.
    fn seed_rules(&mut self, fact: Address, number: u64) -> Result<(), Full> {
        let program = self.program;
        // A rule has no use for a seed if the fact has no older partners.
        for position in 0..self.scratch.met.len() {
            let condition = &program.conditions[self.scratch.met[position] as usize];
            for seeds in &condition.seeds {
                let Some(first) = self.first_possible(seeds) else { continue };
                let (rule, slot) = seeds[first];
                if !self.has_partner(&program.rules[rule as usize].plans[slot as usize], slot, fact, number) {
                    continue;
                }
                for (rule, slot) in &seeds[first..] {
                    let later = &program.rules[*rule as usize].plans[*slot as usize].later;
                    if self.is_possible(*rule) && self.has_later(later, *slot, fact, number) {
                        self.push_seed(*rule, *slot, fact, number)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns whether a guard may become true when another fact comes in the place of one, which differs in the `changed` fields and
    /// in its number. If the guard does not read these, the other fact counts as the one did.
    fn may_gain(&self, rule: u32, guard: u8, changed: u32) -> bool {
        let changed = u64::from(changed) | NUMBER_READ;
        self.is_possible(rule) && self.program.rules[rule as usize].guards[guard as usize].reads & changed != 0
    }

    /// Removes a fact. A retraction may make a `none` or an aggregate's clause true; a drop does not.
    pub fn remove(&mut self, ty: usize, fact: Address, why: Removal) -> Result<(), Full> {
        let program = self.program;
        let fact_type = &program.types[ty];
        self.take(ty, fact)?;
        if why == Removal::Retraction {
            for position in 0..self.scratch.met.len() {
                let condition = &program.conditions[self.scratch.met[position] as usize];
                for (rule, guard) in &condition.guards {
                    if self.is_possible(*rule) {
                        self.flip(*rule, *guard, u64::MAX, Change { gone: fact, new: 0 }, fact)?;
                    }
                }
            }
        }
        self.discard(fact_type, fact)
    }

    /// Takes a fact out of the indices, and lists the conditions that it met. It keeps its content and its number.
    fn take(&mut self, ty: usize, fact: Address) -> Result<(), Full> {
        let fact_type = &self.program.types[ty];
        let number = self.words.get64(fact + NUMBER);
        self.words.set(FACTS, self.words.get(FACTS) - 1)?;
        self.scratch.tested = None;
        self.words.set(fact_type.at + COUNT, fact_type.count(self.words) - 1)?;
        self.forget_ticket(number)?;
        NUMBERS.remove(self.words, number)?;
        self.take_met(fact_type, fact)?;
        if fact_type.has_series {
            for position in 0..self.scratch.met.len() {
                self.leave_series(self.scratch.met[position], fact)?;
            }
        }
        for index in bits(self.indices_of_met()) {
            self.unlink(fact_type, fact, index)?;
        }
        if fact_type.life.is_some() {
            self.take_out(fact_type, fact)?;
        }
        for position in 0..self.scratch.met.len() {
            self.count_out(self.scratch.met[position])?;
        }
        Ok(())
    }

    /// Frees a fact that is in no index any more. Until here guards' tests may read its number.
    fn discard(&mut self, fact_type: &FactType, fact: Address) -> Result<(), Full> {
        self.words.set64(fact + NUMBER, 0)?;
        for (field, declared) in fact_type.fields.iter().enumerate() {
            if declared.kind == Kind::String {
                self.release_string(fact_type, fact, field)?;
            }
        }
        self.words.free_to(fact_type.at + FREE, fact, fact_type.size())
    }
}
