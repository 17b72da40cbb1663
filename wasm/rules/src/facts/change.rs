//! Insertion, modification and removal of facts.
//!
//! A fact is in the first index of its type, and in those that a condition which it meets is looked up in: no other look-up accepts
//! it. A removed fact keeps its content until the step ends.

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
        // It only makes a `none` false.
        for (rule, guard) in &condition.aggregates {
            if agenda::is_possible(step, *rule) {
                flips::flip(step, *rule, *guard, number - 1, Change { gone: 0, new: fact }, fact)?;
            }
        }
    }
    Ok(fact)
}

/// Adds a fact with the fields of [`Scratch::cells`] and its seeds, and lists the conditions that it meets. The guards that it is
/// about are not told. Returns its address and number.
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

/// Puts a fact with the fields of [`Scratch::cells`] in the place of another, from which it differs in the `changed` fields, and
/// returns its address.
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

/// Gives a fact the `changed` fields of [`Scratch::cells`] and a new number, where it is: that has the effects of its
/// [`replace`] by another fact. Returns whether it could. If not, nothing has changed.
///
/// The fact stays in the lists that it heads and whose keys do not change. So nothing may look facts up before it is done, as
/// a `none` or an aggregate would that loses the fact. If the fact blocked all matches of a rule, they are looked up afterwards
/// instead, without its old fields. Seeds find those matches that the renewed fact is in.
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
    // An aggregate that had the fact before does not read what changed, or its rule had no matches.
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

/// Returns those of the `given` fields, one bit each, in which a fact differs from [`Scratch::cells`].
pub(crate) fn changed_fields(step: &Step, fact_type: &FactType, fact: Address, given: impl Iterator<Item = u8>) -> u32 {
    let cells = &step.scratch.cells;
    let differs = |field: &usize| {
        let new = (cells.defined & 1 << field != 0).then(|| cells.values[*field]);
        fact_type.cell(step.words, fact, *field) != new
    };
    given.map(usize::from).filter(differs).fold(0, |changed, field| changed | 1 << field)
}

/// Gives a fact the changed ones of the fields of [`Scratch::cells`].
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

/// Takes the fact as an owner from the string in a field, when the step ends.
fn release_string(step: &mut Step, fact_type: &FactType, fact: Address, field: usize) -> Result<(), Full> {
    if let Some(string) = fact_type.cell(step.words, fact, field) {
        if step.scratch.released.is_full() {
            return Err(Full::Released);
        }
        step.scratch.released.push(string as Address);
    }
    Ok(())
}

/// Leaves seeds of a new fact, whose conditions are listed and counted.
fn seed_rules(step: &mut Step, fact: Address, number: u64) -> Result<(), Full> {
    let program = step.program;
    // A rule has no use for a seed if the fact has no older partners.
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

/// Returns whether a guard may become true when another fact comes in the place of one, which differs in the `changed` fields and
/// in its number. If the guard does not read these, the other fact counts as the one did.
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

/// Takes a fact out of the indices, and lists the conditions that it met. It keeps its content and its number.
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

/// Frees a fact that is in no index any more. Until here guards' tests may read its number.
fn discard(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    step.words.set64(fact + NUMBER, 0)?;
    for (field, declared) in fact_type.fields.iter().enumerate() {
        if declared.kind == Kind::String {
            release_string(step, fact_type, fact, field)?;
        }
    }
    step.words.free_to(fact_type.at + FREE_FACTS, fact, fact_type.size())
}
