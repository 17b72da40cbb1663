//! Insertion, modification and removal of facts.
//!
//! A fact is in the first index of its type, and in each index that is used to look up a condition that the fact meets: no other
//! look-up accepts it. A removed fact keeps its content until the step ends.

use crate::aggregate::series;
use crate::compile::code::Kind;
use crate::compile::fact_type::{bits, FactType, COUNT, FREE_FACTS};
use crate::compile::program::NUMBER_READ;
use crate::facts::{conditions, expiry, indices, tickets};
use crate::layout::{field_offset, DEFINED, FACTS, MET, NEXT, NUMBER, TIME};
use crate::matches::{agenda, flips, search};
use crate::memory::{Address, Full};
use crate::step::{Change, Step};
use crate::tables::{NUMBERS, STRINGS};

/// Why a fact is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removal {
    Retraction,
    /// No rule can use it any more.
    Drop,
}

/// Inserts a fact with the fields of [`Scratch::cells`], and returns its address.
pub(crate) fn insert(step: &mut Step, ty: usize, time: i64) -> Result<Address, Full> {
    let (fact, number) = add(step, ty, time)?;
    for position in 0..step.scratch.met.len() {
        let condition = &step.program.conditions[step.scratch.met[position] as usize];
        // A new fact can make an aggregate true; it only makes a `none` false.
        for (rule, guard) in &condition.aggregates {
            if agenda::is_possible(step, *rule) {
                flips::flip(step, *rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
            }
        }
    }
    Ok(fact)
}

/// Adds a fact with the fields of [`Scratch::cells`], leaves its seeds, and lists the conditions that it meets. Flips no guards.
/// Returns its address and number.
fn add(step: &mut Step, ty: usize, time: i64) -> Result<(Address, u64), Full> {
    let program = step.program;
    let fact_type = &program.types[ty];
    let facts = step.words.get(FACTS);
    if facts >= step.limits.facts {
        return Err(Full::Facts);
    }
    step.words.set(FACTS, facts + 1)?;
    step.scratch.tested = None;
    let count = fact_type.count(step.words);
    step.words.set(fact_type.at + COUNT, count + 1)?;
    let fact = step.words.allocate_from(fact_type.at + FREE_FACTS, fact_type.size())?;
    let number = step.words.get64(NEXT);
    step.words.set64(NEXT, number + 1)?;
    let defined = step.scratch.cells.defined;
    step.words.raw(fact, ty as u32);
    step.words.raw64(fact + NUMBER, number);
    step.words.raw64(fact + TIME, time as u64);
    step.words.raw(fact + DEFINED, defined);
    for (field, declared) in fact_type.fields.iter().enumerate() {
        if defined & 1 << field == 0 {
            continue;
        }
        let cell = step.scratch.cells.values[field];
        step.words.raw64(fact + field_offset(field), cell);
        if declared.kind == Kind::String {
            STRINGS.retain(step.words, cell as Address)?;
        }
    }
    NUMBERS.insert(step.words, number, fact)?;
    let indices = conditions::meet(step, ty, fact)?;
    for index in bits(indices) {
        indices::link::<true>(step, fact_type, fact, index)?;
    }
    if fact_type.life.is_some() {
        expiry::append::<true>(step, fact_type, fact)?;
    }
    if fact_type.has_series {
        for position in 0..step.scratch.met.len() {
            series::join_series(step, step.scratch.met[position], fact)?;
        }
    }
    for position in 0..step.scratch.met.len() {
        conditions::count_in(step, step.scratch.met[position])?;
    }
    seed_rules(step, fact, number)?;
    Ok((fact, number))
}

/// Replaces a fact by one with the fields of [`Scratch::cells`], which differs in the `changed` fields. Returns the new address.
pub(crate) fn replace(step: &mut Step, ty: usize, fact: Address, changed: u32) -> Result<Address, Full> {
    let program = step.program;
    let fact_type = &program.types[ty];
    take(step, ty, fact)?;
    let (new, number) = add(step, ty, step.words.get64(fact + TIME) as i64)?;
    let change = Change { gone: fact, new };
    for position in 0..step.scratch.met.len() {
        let condition = &program.conditions[step.scratch.met[position] as usize];
        for (rule, guard) in &condition.aggregates {
            if may_gain(step, *rule, *guard, changed) {
                flips::flip(step, *rule, *guard, number - 1, change, new)?;
            }
        }
    }
    conditions::list_met(step, fact_type, fact);
    for position in 0..step.scratch.met.len() {
        let condition = &program.conditions[step.scratch.met[position] as usize];
        for (rule, guard) in &condition.guards {
            if may_gain(step, *rule, *guard, changed) {
                flips::flip(step, *rule, *guard, number - 1, change, fact)?;
            }
        }
    }
    discard(step, fact_type, fact)?;
    Ok(new)
}

/// Modifies a fact in place: sets the `changed` fields of [`Scratch::cells`] and a new number, with the same effects as
/// [`replace`]. Returns false, and changes nothing, if that is impossible.
///
/// Where the fact heads a list and keeps its key, it stays linked meanwhile. So nothing may look facts up in between, as flipping a
/// guard that loses the fact would: such a guard rules a change in place out. A guard whose facts block all matches of a rule is
/// flipped afterwards instead, without the old fields. Seeds find the matches that contain the renewed fact.
pub(crate) fn renew(step: &mut Step, ty: usize, fact: Address, changed: u32) -> Result<bool, Full> {
    let program = step.program;
    let fact_type = &program.types[ty];
    if !fact_type.has_few_conditions() {
        return Ok(false);
    }
    let before = step.words.get(fact + MET);
    let blocks_all = |rule: u32, guard: u8| program.rules[rule as usize].guards[guard as usize].blocks_all;
    for condition in fact_type.of_bits(before) {
        let mut guards = program.conditions[condition as usize].guards.iter();
        if guards.any(|(rule, guard)| may_gain(step, *rule, *guard, changed) && !blocks_all(*rule, *guard)) {
            return Ok(false);
        }
    }
    step.scratch.tested = None;
    let indices_before = conditions::indices_of(step, fact_type, before);
    let rekeyed = bits(changed).fold(0, |rekeyed, field| rekeyed | fact_type.keyed_by[field]);
    for index in bits(indices_before & rekeyed) {
        indices::unlink(step, fact_type, fact, index)?;
    }
    if fact_type.has_series {
        for condition in fact_type.of_bits(before) {
            series::leave_series(step, condition, fact)?;
        }
    }
    change_fields(step, fact_type, fact, changed)?;
    let number = step.words.get64(NEXT);
    step.words.set64(NEXT, number + 1)?;
    tickets::forget_ticket(step, step.words.get64(fact + NUMBER))?;
    NUMBERS.remove(step.words, step.words.get64(fact + NUMBER))?;
    NUMBERS.insert(step.words, number, fact)?;
    step.words.set64(fact + NUMBER, number)?;
    let retested = bits(changed).fold(0, |retested, field| retested | fact_type.tested_by[field]);
    let met = before & !retested | conditions::met_of(step, fact_type, fact, retested);
    if met != before {
        step.words.set(fact + MET, met)?;
    }
    let indices = conditions::indices_of(step, fact_type, met);
    for index in bits(indices | indices_before) {
        let (is_in, was_in) = (indices & 1 << index != 0, indices_before & !rekeyed & 1 << index != 0);
        let is_first = was_in && step.words.get(fact + fact_type.links(index) + 1) == 0;
        if is_in && is_first {
            continue;
        }
        if was_in {
            indices::unlink(step, fact_type, fact, index)?;
        }
        if is_in {
            indices::link::<false>(step, fact_type, fact, index)?;
        }
    }
    if fact_type.life.is_some() {
        expiry::take_out(step, fact_type, fact)?;
        expiry::append::<false>(step, fact_type, fact)?;
    }
    if fact_type.has_series {
        for condition in fact_type.of_bits(met) {
            series::join_series(step, condition, fact)?;
        }
    }
    for condition in fact_type.of_bits(before & !met) {
        conditions::count_out(step, condition)?;
    }
    for condition in fact_type.of_bits(met & !before) {
        conditions::count_in(step, condition)?;
    }
    step.scratch.met.clear();
    step.scratch.met.extend(fact_type.of_bits(met));
    seed_rules(step, fact, number)?;
    // An aggregate that already had the fact does not read the changed fields, or its rule had no matches.
    for condition in fact_type.of_bits(met & !before) {
        for (rule, guard) in &program.conditions[condition as usize].aggregates {
            if agenda::is_possible(step, *rule) {
                flips::flip(step, *rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
            }
        }
    }
    for condition in fact_type.of_bits(before) {
        for (rule, guard) in &program.conditions[condition as usize].guards {
            if may_gain(step, *rule, *guard, changed) && blocks_all(*rule, *guard) {
                flips::flip(step, *rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
            }
        }
    }
    Ok(true)
}

/// Returns the `given` fields, one bit each, in which a fact differs from [`Scratch::cells`].
pub(crate) fn changed_fields(step: &Step, fact_type: &FactType, fact: Address, given: impl Iterator<Item = u8>) -> u32 {
    let cells = &step.scratch.cells;
    let differs = |field: &usize| {
        let new = (cells.defined & 1 << field != 0).then(|| cells.values[*field]);
        fact_type.cell(step.words, fact, *field) != new
    };
    given.map(usize::from).filter(differs).fold(0, |changed, field| changed | 1 << field)
}

/// Copies the changed fields of [`Scratch::cells`] to a fact.
fn change_fields(step: &mut Step, fact_type: &FactType, fact: Address, changed: u32) -> Result<(), Full> {
    for field in bits(changed) {
        let cell = step.scratch.cells.values[field];
        let is_defined = step.scratch.cells.defined & 1 << field != 0;
        if fact_type.fields[field].kind == Kind::String {
            release_string(step, fact_type, fact, field)?;
            if is_defined {
                STRINGS.retain(step.words, cell as Address)?;
            }
        }
        if is_defined {
            step.words.set64(fact + field_offset(field), cell)?;
        }
    }
    let before = step.words.get(fact + DEFINED);
    let defined = before & !changed | step.scratch.cells.defined & changed;
    if defined != before {
        step.words.set(fact + DEFINED, defined)?;
    }
    Ok(())
}

/// Releases the string in a field at the end of the step.
fn release_string(step: &mut Step, fact_type: &FactType, fact: Address, field: usize) -> Result<(), Full> {
    if let Some(string) = fact_type.cell(step.words, fact, field) {
        if step.scratch.released.is_full() {
            return Err(Full::Released);
        }
        step.scratch.released.push(string as Address);
    }
    Ok(())
}

/// Leaves the seeds of a new fact. Its conditions are already listed and counted.
fn seed_rules(step: &mut Step, fact: Address, number: u64) -> Result<(), Full> {
    let program = step.program;
    // A fact without an older partner needs no seed in a rule.
    for position in 0..step.scratch.met.len() {
        let condition = &program.conditions[step.scratch.met[position] as usize];
        for seeds in &condition.seeds {
            let Some(first) = first_possible(step, seeds) else { continue };
            let (rule, slot) = seeds[first];
            if !search::has_partner(step, &program.rules[rule as usize].plans[slot as usize], slot, fact, number) {
                continue;
            }
            for (rule, slot) in &seeds[first..] {
                let later = &program.rules[*rule as usize].plans[*slot as usize].later;
                if agenda::is_possible(step, *rule) && search::has_later(step, later, *slot, fact, number) {
                    agenda::push_seed(step, *rule, *slot, fact, number)?;
                }
            }
        }
    }
    Ok(())
}

/// Returns the position of the first seed of a rule that can fire.
fn first_possible(step: &Step, seeds: &[(u32, u8)]) -> Option<usize> {
    seeds.iter().position(|(rule, _)| agenda::is_possible(step, *rule))
}

/// Returns whether replacing a fact may make a guard true. The new fact differs in the `changed` fields and in its number; a guard
/// that reads none of these is unaffected.
fn may_gain(step: &Step, rule: u32, guard: u8, changed: u32) -> bool {
    let changed = u64::from(changed) | NUMBER_READ;
    agenda::is_possible(step, rule) && step.program.rules[rule as usize].guards[guard as usize].reads & changed != 0
}

/// Removes a fact. A retraction may make a `none` or an aggregate's clause true; a drop does not.
pub(crate) fn remove(step: &mut Step, ty: usize, fact: Address, why: Removal) -> Result<(), Full> {
    let program = step.program;
    let fact_type = &program.types[ty];
    take(step, ty, fact)?;
    if why == Removal::Retraction {
        for position in 0..step.scratch.met.len() {
            let condition = &program.conditions[step.scratch.met[position] as usize];
            for (rule, guard) in &condition.guards {
                if agenda::is_possible(step, *rule) {
                    flips::flip(step, *rule, *guard, u64::MAX, Change { gone: fact, new: 0 }, fact)?;
                }
            }
        }
    }
    discard(step, fact_type, fact)
}

/// Removes a fact from the indices, and lists the conditions that it met. It keeps its content and its number.
fn take(step: &mut Step, ty: usize, fact: Address) -> Result<(), Full> {
    let fact_type = &step.program.types[ty];
    let number = step.words.get64(fact + NUMBER);
    step.words.set(FACTS, step.words.get(FACTS) - 1)?;
    step.scratch.tested = None;
    step.words.set(fact_type.at + COUNT, fact_type.count(step.words) - 1)?;
    tickets::forget_ticket(step, number)?;
    NUMBERS.remove(step.words, number)?;
    conditions::take_met(step, fact_type, fact)?;
    if fact_type.has_series {
        for position in 0..step.scratch.met.len() {
            series::leave_series(step, step.scratch.met[position], fact)?;
        }
    }
    for index in bits(conditions::indices_of_met(step)) {
        indices::unlink(step, fact_type, fact, index)?;
    }
    if fact_type.life.is_some() {
        expiry::take_out(step, fact_type, fact)?;
    }
    for position in 0..step.scratch.met.len() {
        conditions::count_out(step, step.scratch.met[position])?;
    }
    Ok(())
}

/// Frees a fact that is in no index any more. Before this, tests of guards may read its number.
fn discard(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    step.words.set64(fact + NUMBER, 0)?;
    for (field, declared) in fact_type.fields.iter().enumerate() {
        if declared.kind == Kind::String {
            release_string(step, fact_type, fact, field)?;
        }
    }
    step.words.free_to(fact_type.at + FREE_FACTS, fact, fact_type.size())
}
