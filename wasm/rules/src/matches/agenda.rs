//! The agenda: seeds and single matches, in the order of firing.
//!
//! A rule's seeds are a list, newest fact first. A heap holds the rules that have seeds, by priority, newest seed and number. The
//! words of a rule: its newest seed, its place in the heap from 1, the number of its conditions that no fact meets, and the last
//! match of its queue of those that wait for a deadline. A seed has the next seed, the fact's number, address and slot, whether it
//! was searched, and the next fact and the path of its last match ([`Scratch::next`](crate::step::Scratch::next)).
//!
//! A match that became valid without a new fact in it is on a second heap.

use std::cmp::Ordering;

use crate::compile::code::{Bound, NUMBER};
use crate::compile::program::{Program, Rule};
use crate::facts::change::{is_alive, KEY};
use crate::memory::{mix, Address, Full, Words};
use crate::step::{Scratch, Step, AGENDA, AGENDA_BASE, MATCHES, MATCH_HEAP};

pub(crate) const RULE_WORDS: u32 = 4;
const TOP: Address = 0;
const PLACE: Address = 1;
const UNMET: Address = 2;
pub(crate) const LAST_WAITING: Address = 3;

const SEED_NUMBER: Address = 1;
const SEED_FACT: Address = 3;
const SEED_SLOT: Address = 4;
const SEED_SEARCHED: Address = 5;
const SEED_NEXT: Address = 6;
const SEED_PATH: Address = 9;

pub(crate) const MATCH_LINK: Address = 0;
const MATCH_RULE: Address = 1;
const MATCH_NEWEST: Address = 2;
const MATCH_HASH: Address = 4;
pub(crate) const MATCH_DEADLINE: Address = 5;
const MATCH_FACTS: Address = 7;

/// The best entry of the agenda.
pub(crate) enum Best {
    Seed(u32),
    Match,
}

/// A match that a search found: its seed, the number of its look-ups, and whether the seed had a match before.
pub(crate) struct Found {
    seed: Address,
    joins: usize,
    is_another: bool,
}

impl Rule {
    fn seed_size(&self) -> u32 {
        SEED_PATH + 3 * (self.slots.len() as u32 - 1)
    }

    fn match_size(&self) -> u32 {
        MATCH_FACTS + 3 * self.slots.len() as u32
    }
}

/// Sets the words of a rule of a new engine.
pub(crate) fn set_up(words: &mut Words, program: &Program, number: usize) -> Result<(), Full> {
    words.set(program.rule_at(number as u32) + UNMET, program.rules[number].needs)
}

impl Program {
    /// Returns the address of a rule's words.
    #[inline(always)]
    pub fn rule_at(&self, number: u32) -> Address {
        self.rules_at + RULE_WORDS * number
    }
}

impl Step<'_> {
    /// Returns whether each condition of the rule is met by some fact.
    #[inline]
    pub fn is_possible(&self, rule: u32) -> bool {
        self.words.get(self.program.rule_at(rule) + UNMET) == 0
    }

    /// Records that a fact meets a condition of the rule that none met before.
    pub fn need_met(&mut self, rule: u32) -> Result<(), Full> {
        let at = self.program.rule_at(rule);
        self.words.set(at + UNMET, self.words.get(at + UNMET) - 1)
    }

    /// Records that no fact meets a condition of the rule any more. Its seeds can find nothing.
    pub fn need_unmet(&mut self, number: u32) -> Result<(), Full> {
        let at = self.program.rule_at(number);
        self.words.set(at + UNMET, self.words.get(at + UNMET) + 1)?;
        let mut seed = self.words.get(at + TOP);
        if seed == 0 {
            return Ok(());
        }
        let rule = &self.program.rules[number as usize];
        while seed != 0 {
            let next = self.words.get(seed);
            self.words.free(seed, rule.seed_size())?;
            seed = next;
        }
        self.words.set(at + TOP, 0)?;
        self.leave(number)
    }

    /// Adds a seed. Seeds of one fact are in the order of their slots.
    pub fn push_seed(&mut self, number: u32, slot: u8, fact: Address, fact_number: u64) -> Result<(), Full> {
        let rule = &self.program.rules[number as usize];
        let seed = self.words.allocate(rule.seed_size())?;
        self.words.raw64(seed + SEED_NUMBER, fact_number);
        self.words.raw(seed + SEED_FACT, fact);
        self.words.raw(seed + SEED_SLOT, slot.into());
        self.words.raw(seed + SEED_SEARCHED, 0);
        let top_at = self.program.rule_at(number) + TOP;
        let mut before = 0;
        let mut next = self.words.get(top_at);
        while next != 0
            && self.words.get64(next + SEED_NUMBER) == fact_number
            && self.words.get(next + SEED_SLOT) < slot.into()
        {
            before = next;
            next = self.words.get(next);
        }
        self.words.raw(seed, next);
        if before != 0 {
            return self.words.set(before, seed);
        }
        self.words.set(top_at, seed)?;
        self.rise(number)
    }

    fn pop_seed(&mut self, number: u32) -> Result<(), Full> {
        let top_at = self.program.rule_at(number) + TOP;
        let seed = self.words.get(top_at);
        let next = self.words.get(seed);
        self.words.free(seed, self.program.rules[number as usize].seed_size())?;
        self.words.set(top_at, next)?;
        if next == 0 {
            self.leave(number)
        } else {
            self.sink(number)
        }
    }

    /// Returns the rule's seed with this slot and fact.
    pub fn find_seed(&self, number: u32, slot: u8, fact_number: u64) -> Option<Address> {
        let mut seed = self.words.get(self.program.rule_at(number) + TOP);
        while seed != 0 && self.words.get64(seed + SEED_NUMBER) >= fact_number {
            if self.words.get64(seed + SEED_NUMBER) == fact_number && self.words.get(seed + SEED_SLOT) == slot.into() {
                return Some(seed);
            }
            seed = self.words.get(seed);
        }
        None
    }

    /// Returns whether a seed has found a match.
    pub fn is_searched(&self, seed: Address) -> bool {
        self.words.get(seed + SEED_SEARCHED) != 0
    }

    /// Returns the fact of a look-up in the last match of a seed: its address and number.
    pub fn reached(&self, seed: Address, depth: usize) -> (Address, u64) {
        let at = seed + SEED_PATH + 3 * depth as u32;
        (self.words.get(at), self.words.get64(at + 1))
    }

    /// Binds the next match of the best seed of the rule. Without one, removes the seed and returns `None`. The seed goes on after
    /// the match once that is kept.
    pub fn next_match(&mut self, number: u32, bound: &mut Bound) -> Result<Option<Found>, Full> {
        let rule = &self.program.rules[number as usize];
        let seed = self.words.get(self.program.rule_at(number) + TOP);
        let fact = self.words.get(seed + SEED_FACT);
        let newest = self.words.get64(seed + SEED_NUMBER);
        let slot = self.words.get(seed + SEED_SLOT) as usize;
        let plan = &rule.plans[slot];
        if is_alive(self.words, fact, newest) {
            bound[slot] = fact;
            let is_another = self.is_searched(seed);
            if is_another {
                for depth in 0..plan.joins.len() {
                    self.scratch.path[depth] = self.reached(seed, depth);
                }
                self.scratch.next = (self.words.get(seed + SEED_NEXT), self.words.get64(seed + SEED_NEXT + 1));
            }
            if self.search(rule, plan, newest, is_another, bound) {
                return Ok(Some(Found { seed, joins: plan.joins.len(), is_another }));
            }
        }
        self.pop_seed(number)?;
        Ok(None)
    }

    /// Stores the match that the last search found with its seed.
    pub fn keep(&mut self, found: Found) -> Result<(), Full> {
        let Found { seed, joins, is_another } = found;
        if !is_another {
            // Nothing reads the other words of a seed that was not searched, so they need no way back.
            self.words.set(seed + SEED_SEARCHED, 1)?;
            let Scratch { path, next, .. } = &*self.scratch;
            let places = (seed + SEED_NEXT..).step_by(3);
            for (at, (fact, number)) in places.zip(std::iter::once(next).chain(&path[..joins])) {
                self.words.raw(at, *fact);
                self.words.raw64(at + 1, *number);
            }
            return Ok(());
        }
        let next = (self.words.get(seed + SEED_NEXT), self.words.get64(seed + SEED_NEXT + 1));
        if joins > 0 && self.scratch.next != next {
            self.set_place(seed + SEED_NEXT, self.scratch.next)?;
        }
        for depth in 0..joins {
            let place = self.scratch.path[depth];
            if self.reached(seed, depth) != place {
                self.set_place(seed + SEED_PATH + 3 * depth as u32, place)?;
            }
        }
        Ok(())
    }

    fn set_place(&mut self, at: Address, (fact, number): (Address, u64)) -> Result<(), Full> {
        self.words.set_part(at, [fact, number as u32, (number >> 32) as u32])
    }

    /// Returns the best entry.
    pub fn best(&self) -> Option<Best> {
        let rule = (self.words.get(AGENDA) > 0).then(|| self.words.get(self.words.get(AGENDA_BASE)));
        match (rule, MATCH_HEAP.first(self.words)) {
            (rule, None) => rule.map(Best::Seed),
            (None, Some(_)) => Some(Best::Match),
            (Some(rule), Some(block)) => {
                let seed_key = self.rule_key(rule);
                let other = self.words.get(block + MATCH_RULE);
                let match_key = key(&self.program.rules[other as usize], self.words.get64(block + MATCH_NEWEST), other);
                Some(if seed_key > match_key { Best::Seed(rule) } else { Best::Match })
            }
        }
    }

    fn rule_key(&self, number: u32) -> (i32, u64, std::cmp::Reverse<u32>) {
        let rule = &self.program.rules[number as usize];
        key(rule, self.words.get64(self.words.get(self.program.rule_at(number) + TOP) + SEED_NUMBER), number)
    }

    fn place(&mut self, place: u32, number: u32) -> Result<(), Full> {
        let base = self.words.get(AGENDA_BASE);
        self.words.set(base + place, number)?;
        self.words.set(self.program.rule_at(number) + PLACE, place + 1)
    }

    /// Moves the rule up to its place in the heap. It may be new there.
    fn rise(&mut self, number: u32) -> Result<(), Full> {
        let at = self.program.rule_at(number) + PLACE;
        let base = self.words.get(AGENDA_BASE);
        let mut place = self.words.get(at);
        if place == 0 {
            place = self.words.get(AGENDA) + 1;
            self.words.set(AGENDA, place)?;
        }
        place -= 1;
        let own = self.rule_key(number);
        while place > 0 {
            let parent = self.words.get(base + (place - 1) / 2);
            if self.rule_key(parent) > own {
                break;
            }
            self.place(place, parent)?;
            place = (place - 1) / 2;
        }
        if self.words.get(at) != place + 1 {
            self.place(place, number)?;
        }
        Ok(())
    }

    /// Moves the rule down to its place in the heap.
    fn sink(&mut self, number: u32) -> Result<(), Full> {
        let at = self.program.rule_at(number) + PLACE;
        let (base, length) = (self.words.get(AGENDA_BASE), self.words.get(AGENDA));
        let mut place = self.words.get(at) - 1;
        let own = self.rule_key(number);
        loop {
            let mut child = 2 * place + 1;
            if child >= length {
                break;
            }
            let mut greater = self.words.get(base + child);
            if child + 1 < length {
                let second = self.words.get(base + child + 1);
                if self.rule_key(second) > self.rule_key(greater) {
                    child += 1;
                    greater = second;
                }
            }
            if own > self.rule_key(greater) {
                break;
            }
            self.place(place, greater)?;
            place = child;
        }
        if self.words.get(at) != place + 1 {
            self.place(place, number)?;
        }
        Ok(())
    }

    /// Takes the rule out of the heap.
    fn leave(&mut self, number: u32) -> Result<(), Full> {
        let at = self.program.rule_at(number) + PLACE;
        let place = self.words.get(at) - 1;
        self.words.set(at, 0)?;
        let last_place = self.words.get(AGENDA) - 1;
        self.words.set(AGENDA, last_place)?;
        if place == last_place {
            return Ok(());
        }
        let last = self.words.get(self.words.get(AGENDA_BASE) + last_place);
        self.place(place, last)?;
        self.rise(last)?;
        self.sink(last)
    }

    /// Returns a block with the match.
    pub fn match_block(&mut self, number: u32, bound: &Bound, deadline: i64) -> Result<Address, Full> {
        let rule = &self.program.rules[number as usize];
        let block = self.words.allocate(rule.match_size())?;
        self.words.raw(block + MATCH_LINK, 0);
        self.words.raw(block + MATCH_RULE, number);
        let mut newest = 0;
        let mut hash = mix(KEY, number.into());
        for (slot, fact) in bound.iter().take(rule.slots.len()).enumerate() {
            let fact_number = self.words.get64(fact + NUMBER);
            let at = block + MATCH_FACTS + 3 * slot as u32;
            self.words.raw(at, *fact);
            self.words.raw64(at + 1, fact_number);
            newest = newest.max(fact_number);
            hash = mix(hash, fact_number);
        }
        self.words.raw64(block + MATCH_NEWEST, newest);
        self.words.raw(block + MATCH_HASH, hash as u32);
        self.words.raw64(block + MATCH_DEADLINE, deadline as u64);
        Ok(block)
    }

    /// Adds a match, unless it is on the agenda.
    pub fn push_match(&mut self, number: u32, bound: &Bound) -> Result<(), Full> {
        let block = self.match_block(number, bound, i64::MIN)?;
        self.push_match_block(block)
    }

    /// Adds the match of a block, or frees the block if the match is on the agenda.
    pub fn push_match_block(&mut self, block: Address) -> Result<(), Full> {
        let program = self.program;
        let rule = &program.rules[self.words.get(block + MATCH_RULE) as usize];
        let slots = rule.slots.len();
        let hash = self.words.get(block + MATCH_HASH);
        let known = MATCHES.find(self.words, hash, |other| {
            self.words.get(other + MATCH_RULE) == self.words.get(block + MATCH_RULE)
                && order_of_facts(self.words, slots, other, block) == Ordering::Equal
        });
        if known.is_some() {
            return self.words.free(block, rule.match_size());
        }
        MATCHES.insert(self.words, hash, block)?;
        MATCH_HEAP.push(self.words, block, |words, a, b| is_match_before(program, words, a, b))
    }

    /// Binds the facts of the best match. Returns its rule, and whether all of the facts exist.
    pub fn first_match(&self, bound: &mut Bound) -> (u32, bool) {
        let block = MATCH_HEAP.first(self.words).unwrap_or(0);
        (self.match_rule(block), self.bind(block, bound))
    }

    /// Removes the best match.
    pub fn pop_match(&mut self) -> Result<(), Full> {
        let program = self.program;
        let block = MATCH_HEAP.first(self.words).unwrap_or(0);
        MATCH_HEAP.pop(self.words, |words, a, b| is_match_before(program, words, a, b))?;
        if let Some((at, _)) = MATCHES.find(self.words, self.words.get(block + MATCH_HASH), |found| found == block) {
            MATCHES.remove(self.words, at)?;
        }
        self.free_match(block)
    }

    /// Binds the facts of a match. Returns whether they all exist.
    pub fn bind(&self, block: Address, bound: &mut Bound) -> bool {
        let slots = self.program.rules[self.words.get(block + MATCH_RULE) as usize].slots.len();
        let mut are_there = true;
        for (slot, place) in bound.iter_mut().take(slots).enumerate() {
            let at = block + MATCH_FACTS + 3 * slot as u32;
            *place = self.words.get(at);
            are_there &= is_alive(self.words, *place, self.words.get64(at + 1));
        }
        are_there
    }

    /// Returns the rule of a match.
    pub fn match_rule(&self, block: Address) -> u32 {
        self.words.get(block + MATCH_RULE)
    }

    pub fn free_match(&mut self, block: Address) -> Result<(), Full> {
        let size = self.program.rules[self.match_rule(block) as usize].match_size();
        self.words.free(block, size)
    }
}

fn key(rule: &Rule, newest: u64, number: u32) -> (i32, u64, std::cmp::Reverse<u32>) {
    (rule.priority, newest, std::cmp::Reverse(number))
}

/// Compares the facts of two matches, condition by condition.
fn order_of_facts(words: &Words, slots: usize, a: Address, b: Address) -> Ordering {
    let numbers = |block: Address| (0..slots as u32).map(move |slot| words.get64(block + MATCH_FACTS + 3 * slot + 1));
    numbers(a).cmp(numbers(b))
}

fn is_match_before(program: &Program, words: &Words, a: Address, b: Address) -> bool {
    let [first, second] = [a, b].map(|block| words.get(block + MATCH_RULE));
    let keys = [(a, first), (b, second)]
        .map(|(block, rule)| key(&program.rules[rule as usize], words.get64(block + MATCH_NEWEST), rule));
    match keys[0].cmp(&keys[1]) {
        Ordering::Equal => order_of_facts(words, program.rules[first as usize].slots.len(), a, b) == Ordering::Greater,
        order => order == Ordering::Greater,
    }
}
