//! The agenda: seeds and single matches, in firing order.
//!
//! A rule's seeds are a list, newest fact first. A heap orders the rules that have seeds by priority, newest seed and number. The
//! words of a rule are its newest seed, its place in the heap from 1, its number of unmet conditions, and the last match in its
//! queue of waiting matches. A seed holds the next seed, the fact's number, address and slot, whether it was searched, and the
//! cursor and the path of its last match ([`Scratch::next`](crate::step::Scratch::next)).
//!
//! A second heap holds the matches that became valid without a new fact.

use crate::compile::code::Bound;
use crate::compile::fact_type::KEY;
use crate::compile::program::{Program, Rule};
use crate::fact::is_alive;
use crate::layout::{AGENDA, AGENDA_BASE, NUMBER};
use crate::memory::{mix, Address, Full, Words};
use crate::step::Step;
use crate::tables::{MATCHES, MATCH_HEAP};
use std::cmp::Ordering;

pub(crate) const RULE_WORDS: u32 = 4;
pub(crate) const TOP: Address = 0;
pub(crate) const PLACE: Address = 1;
pub(crate) const UNMET: Address = 2;
pub(crate) const LAST_WAITING: Address = 3;

pub(crate) const SEED_NUMBER: Address = 1;
pub(crate) const SEED_FACT: Address = 3;
pub(crate) const SEED_SLOT: Address = 4;
pub(crate) const SEED_SEARCHED: Address = 5;
pub(crate) const SEED_NEXT: Address = 6;
pub(crate) const SEED_PATH: Address = 9;

pub(crate) const MATCH_LINK: Address = 0;
pub(crate) const MATCH_RULE: Address = 1;
pub(crate) const MATCH_NEWEST: Address = 2;
pub(crate) const MATCH_HASH: Address = 4;
pub(crate) const MATCH_DEADLINE: Address = 5;
pub(crate) const MATCH_FACTS: Address = 7;

/// The best entry of the agenda.
pub(crate) enum Best {
    Seed(u32),
    Match,
}

impl Rule {
    pub fn seed_size(&self) -> u32 {
        SEED_PATH + 3 * (self.slots.len() as u32 - 1)
    }

    pub fn match_size(&self) -> u32 {
        MATCH_FACTS + 3 * self.slots.len() as u32
    }
}

/// Initializes the words of a rule in a new engine.
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

/// Returns whether each condition of the rule is met by some fact.
#[inline]
pub(crate) fn is_possible(step: &Step, rule: u32) -> bool {
    step.words.get(step.program.rule_at(rule) + UNMET) == 0
}

/// Records that a condition of the rule, unmet so far, is met by a fact.
pub(crate) fn need_met(step: &mut Step, rule: u32) -> Result<(), Full> {
    let at = step.program.rule_at(rule);
    step.words.set(at + UNMET, step.words.get(at + UNMET) - 1)
}

/// Records that no fact meets a condition of the rule any more. The rule's seeds then find nothing.
pub(crate) fn need_unmet(step: &mut Step, number: u32) -> Result<(), Full> {
    let at = step.program.rule_at(number);
    step.words.set(at + UNMET, step.words.get(at + UNMET) + 1)?;
    let mut seed = step.words.get(at + TOP);
    if seed == 0 {
        return Ok(());
    }
    let rule = &step.program.rules[number as usize];
    while seed != 0 {
        let next = step.words.get(seed);
        step.words.free(seed, rule.seed_size())?;
        seed = next;
    }
    step.words.set(at + TOP, 0)?;
    leave(step, number)
}

/// Adds a seed. Seeds of one fact are in the order of their slots.
pub(crate) fn push_seed(step: &mut Step, number: u32, slot: u8, fact: Address, fact_number: u64) -> Result<(), Full> {
    let rule = &step.program.rules[number as usize];
    let seed = step.words.allocate(rule.seed_size())?;
    step.words.raw64(seed + SEED_NUMBER, fact_number);
    step.words.raw(seed + SEED_FACT, fact);
    step.words.raw(seed + SEED_SLOT, slot.into());
    step.words.raw(seed + SEED_SEARCHED, 0);
    let top_at = step.program.rule_at(number) + TOP;
    let mut before = 0;
    let mut next = step.words.get(top_at);
    while next != 0
        && step.words.get64(next + SEED_NUMBER) == fact_number
        && step.words.get(next + SEED_SLOT) < slot.into()
    {
        before = next;
        next = step.words.get(next);
    }
    step.words.raw(seed, next);
    if before != 0 {
        return step.words.set(before, seed);
    }
    step.words.set(top_at, seed)?;
    rise(step, number)
}

pub(crate) fn pop_seed(step: &mut Step, number: u32) -> Result<(), Full> {
    let top_at = step.program.rule_at(number) + TOP;
    let seed = step.words.get(top_at);
    let next = step.words.get(seed);
    step.words.free(seed, step.program.rules[number as usize].seed_size())?;
    step.words.set(top_at, next)?;
    if next == 0 {
        leave(step, number)
    } else {
        sink(step, number)
    }
}

/// Returns the rule's seed with this slot and fact.
pub(crate) fn find_seed(step: &Step, number: u32, slot: u8, fact_number: u64) -> Option<Address> {
    let mut seed = step.words.get(step.program.rule_at(number) + TOP);
    while seed != 0 && step.words.get64(seed + SEED_NUMBER) >= fact_number {
        if step.words.get64(seed + SEED_NUMBER) == fact_number && step.words.get(seed + SEED_SLOT) == slot.into() {
            return Some(seed);
        }
        seed = step.words.get(seed);
    }
    None
}

/// Returns whether a seed has found a match.
pub(crate) fn is_searched(step: &Step, seed: Address) -> bool {
    step.words.get(seed + SEED_SEARCHED) != 0
}

/// Returns the fact that a look-up found in a seed's last match: its address and number.
pub(crate) fn reached(step: &Step, seed: Address, depth: usize) -> (Address, u64) {
    let at = seed + SEED_PATH + 3 * depth as u32;
    (step.words.get(at), step.words.get64(at + 1))
}

pub(crate) fn set_place(step: &mut Step, at: Address, (fact, number): (Address, u64)) -> Result<(), Full> {
    step.words.set_part(at, [fact, number as u32, (number >> 32) as u32])
}

/// Returns the best entry.
pub(crate) fn best(step: &Step) -> Option<Best> {
    let rule = (step.words.get(AGENDA) > 0).then(|| step.words.get(step.words.get(AGENDA_BASE)));
    match (rule, MATCH_HEAP.first(step.words)) {
        (rule, None) => rule.map(Best::Seed),
        (None, Some(_)) => Some(Best::Match),
        (Some(rule), Some(block)) => {
            let seed_key = rule_key(step, rule);
            let other = step.words.get(block + MATCH_RULE);
            let match_key = key(&step.program.rules[other as usize], step.words.get64(block + MATCH_NEWEST), other);
            Some(if seed_key > match_key { Best::Seed(rule) } else { Best::Match })
        }
    }
}

fn rule_key(step: &Step, number: u32) -> (i32, u64, std::cmp::Reverse<u32>) {
    let rule = &step.program.rules[number as usize];
    key(rule, step.words.get64(step.words.get(step.program.rule_at(number) + TOP) + SEED_NUMBER), number)
}

fn put(step: &mut Step, place: u32, number: u32) -> Result<(), Full> {
    let base = step.words.get(AGENDA_BASE);
    step.words.set(base + place, number)?;
    step.words.set(step.program.rule_at(number) + PLACE, place + 1)
}

/// Sifts the rule up in the heap. The rule may be new there.
fn rise(step: &mut Step, number: u32) -> Result<(), Full> {
    let at = step.program.rule_at(number) + PLACE;
    let base = step.words.get(AGENDA_BASE);
    let mut place = step.words.get(at);
    if place == 0 {
        place = step.words.get(AGENDA) + 1;
        step.words.set(AGENDA, place)?;
    }
    place -= 1;
    let own = rule_key(step, number);
    while place > 0 {
        let parent = step.words.get(base + (place - 1) / 2);
        if rule_key(step, parent) > own {
            break;
        }
        put(step, place, parent)?;
        place = (place - 1) / 2;
    }
    if step.words.get(at) != place + 1 {
        put(step, place, number)?;
    }
    Ok(())
}

/// Sifts the rule down in the heap.
fn sink(step: &mut Step, number: u32) -> Result<(), Full> {
    let at = step.program.rule_at(number) + PLACE;
    let (base, length) = (step.words.get(AGENDA_BASE), step.words.get(AGENDA));
    let mut place = step.words.get(at) - 1;
    let own = rule_key(step, number);
    loop {
        let mut child = 2 * place + 1;
        if child >= length {
            break;
        }
        let mut greater = step.words.get(base + child);
        if child + 1 < length {
            let second = step.words.get(base + child + 1);
            if rule_key(step, second) > rule_key(step, greater) {
                child += 1;
                greater = second;
            }
        }
        if own > rule_key(step, greater) {
            break;
        }
        put(step, place, greater)?;
        place = child;
    }
    if step.words.get(at) != place + 1 {
        put(step, place, number)?;
    }
    Ok(())
}

/// Removes the rule from the heap.
fn leave(step: &mut Step, number: u32) -> Result<(), Full> {
    let at = step.program.rule_at(number) + PLACE;
    let place = step.words.get(at) - 1;
    step.words.set(at, 0)?;
    let last_place = step.words.get(AGENDA) - 1;
    step.words.set(AGENDA, last_place)?;
    if place == last_place {
        return Ok(());
    }
    let last = step.words.get(step.words.get(AGENDA_BASE) + last_place);
    put(step, place, last)?;
    rise(step, last)?;
    sink(step, last)
}

/// Allocates a block for the match.
pub(crate) fn match_block(step: &mut Step, number: u32, bound: &Bound, deadline: i64) -> Result<Address, Full> {
    let rule = &step.program.rules[number as usize];
    let block = step.words.allocate(rule.match_size())?;
    step.words.raw(block + MATCH_LINK, 0);
    step.words.raw(block + MATCH_RULE, number);
    let mut newest = 0;
    let mut hash = mix(KEY, number.into());
    for (slot, fact) in bound.iter().take(rule.slots.len()).enumerate() {
        let fact_number = step.words.get64(fact + NUMBER);
        let at = block + MATCH_FACTS + 3 * slot as u32;
        step.words.raw(at, *fact);
        step.words.raw64(at + 1, fact_number);
        newest = newest.max(fact_number);
        hash = mix(hash, fact_number);
    }
    step.words.raw64(block + MATCH_NEWEST, newest);
    step.words.raw(block + MATCH_HASH, hash as u32);
    step.words.raw64(block + MATCH_DEADLINE, deadline as u64);
    Ok(block)
}

/// Adds a match, unless it is on the agenda already.
pub(crate) fn push_match(step: &mut Step, number: u32, bound: &Bound) -> Result<(), Full> {
    let block = match_block(step, number, bound, i64::MIN)?;
    push_match_block(step, block)
}

/// Adds the match of a block, or frees the block if the match is on the agenda already.
pub(crate) fn push_match_block(step: &mut Step, block: Address) -> Result<(), Full> {
    let program = step.program;
    let rule = &program.rules[step.words.get(block + MATCH_RULE) as usize];
    let slots = rule.slots.len();
    let hash = step.words.get(block + MATCH_HASH);
    let known = MATCHES.find(step.words, hash, |other| {
        step.words.get(other + MATCH_RULE) == step.words.get(block + MATCH_RULE)
            && order_of_facts(step.words, slots, other, block) == Ordering::Equal
    });
    if known.is_some() {
        return step.words.free(block, rule.match_size());
    }
    MATCHES.insert(step.words, hash, block)?;
    MATCH_HEAP.push(step.words, block, |words, a, b| is_match_before(program, words, a, b))
}

/// Binds the facts of the best match. Returns its rule, and whether all its facts still exist.
pub(crate) fn first_match(step: &Step, bound: &mut Bound) -> (u32, bool) {
    let block = MATCH_HEAP.first(step.words).unwrap_or(0);
    (match_rule(step, block), bind(step, block, bound))
}

/// Removes the best match.
pub(crate) fn pop_match(step: &mut Step) -> Result<(), Full> {
    let program = step.program;
    let block = MATCH_HEAP.first(step.words).unwrap_or(0);
    MATCH_HEAP.pop(step.words, |words, a, b| is_match_before(program, words, a, b))?;
    if let Some((at, _)) = MATCHES.find(step.words, step.words.get(block + MATCH_HASH), |found| found == block) {
        MATCHES.remove(step.words, at)?;
    }
    free_match(step, block)
}

/// Binds the facts of a match. Returns whether they all still exist.
pub(crate) fn bind(step: &Step, block: Address, bound: &mut Bound) -> bool {
    let slots = step.program.rules[step.words.get(block + MATCH_RULE) as usize].slots.len();
    let mut are_there = true;
    for (slot, place) in bound.iter_mut().take(slots).enumerate() {
        let at = block + MATCH_FACTS + 3 * slot as u32;
        *place = step.words.get(at);
        are_there &= is_alive(step.words, *place, step.words.get64(at + 1));
    }
    are_there
}

/// Returns the rule of a match.
pub(crate) fn match_rule(step: &Step, block: Address) -> u32 {
    step.words.get(block + MATCH_RULE)
}

pub(crate) fn free_match(step: &mut Step, block: Address) -> Result<(), Full> {
    let size = step.program.rules[match_rule(step, block) as usize].match_size();
    step.words.free(block, size)
}

fn key(rule: &Rule, newest: u64, number: u32) -> (i32, u64, std::cmp::Reverse<u32>) {
    (rule.priority, newest, std::cmp::Reverse(number))
}

/// Compares two matches by their facts, condition by condition.
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
