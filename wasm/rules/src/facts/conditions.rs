//! The single-fact conditions that a fact meets: bits in the fact's block, or a separate block if its type has many conditions.

use crate::compile::code::{Bound, OWN, SLOTS};
use crate::compile::fact_type::{bits, FactType};
use crate::layout::MET;
use crate::matches::agenda;
use crate::memory::{Address, Full};
use crate::step::{Scratch, Step};

/// Lists the single-fact conditions that a new fact meets, and stores them with the fact. Returns the indices that must hold the
/// fact, one bit each.
pub(crate) fn meet(step: &mut Step, ty: usize, fact: Address) -> Result<u32, Full> {
    let fact_type = &step.program.types[ty];
    if step.scratch.selections[ty].is_none() {
        let bits = met_of(step, fact_type, fact, u32::MAX);
        step.words.raw(fact + MET, bits);
        step.scratch.met.clear();
        step.scratch.met.extend(fact_type.of_bits(bits));
        return Ok(indices_of(step, fact_type, bits));
    }
    find_met(step, ty, fact)?;
    keep_met(step, fact_type, fact)?;
    Ok(indices_of_met(step))
}

/// Lists the single-fact conditions that a new fact meets, for a type with many conditions.
fn find_met(step: &mut Step, ty: usize, fact: Address) -> Result<(), Full> {
    let program = step.program;
    let fact_type = &program.types[ty];
    let Scratch { met, selections, .. } = &mut *step.scratch;
    met.clear();
    let Some(selection) = &mut selections[ty] else { return Ok(()) };
    let mut bound: Bound = [0; SLOTS + 1];
    bound[OWN as usize] = fact;
    let words = &*step.words;
    let mut add = |condition: u32| {
        if program.conditions[condition as usize].is_met(words, &bound) {
            met.push(condition);
        }
    };
    selection.rest.iter().copied().for_each(&mut add);
    selection.select(fact_type, words, fact)?.iter().for_each(|condition| add(*condition as u32));
    Ok(())
}

/// Returns which of the `asked` conditions a fact meets, one bit each, for a type with few conditions.
pub(crate) fn met_of(step: &Step, fact_type: &FactType, fact: Address, asked: u32) -> u32 {
    let mut bound: Bound = [0; SLOTS + 1];
    bound[OWN as usize] = fact;
    let asked = asked & fact_type.switch.candidates(step.words, fact);
    let is_met =
        |position: &usize| step.program.conditions[fact_type.conditions[*position] as usize].is_met(step.words, &bound);
    bits(asked).filter(is_met).fold(0, |met, position| met | 1 << position)
}

/// Stores the listed conditions with their fact: as bits, or in a block if its type has many.
fn keep_met(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    let met = &step.scratch.met;
    let kept = if fact_type.has_few_conditions() {
        let bit = |condition: &u32| step.program.conditions[*condition as usize].bit;
        met.iter().fold(0, |bits, condition| bits | bit(condition))
    } else if met.is_empty() {
        0
    } else {
        let block = step.words.allocate(1 + met.len() as u32)?;
        step.words.raw(block, met.len() as u32);
        for (address, condition) in (block + 1..).zip(met.iter()) {
            step.words.raw(address, *condition);
        }
        block
    };
    step.words.raw(fact + MET, kept);
    Ok(())
}

/// Lists the conditions stored with a fact. Returns their block and its size, if its type has many.
pub(crate) fn list_met(step: &mut Step, fact_type: &FactType, fact: Address) -> Option<(Address, u32)> {
    let met = &mut step.scratch.met;
    met.clear();
    let kept = step.words.get(fact + MET);
    if fact_type.has_few_conditions() {
        met.extend(fact_type.of_bits(kept));
        return None;
    }
    if kept == 0 {
        return None;
    }
    let length = step.words.get(kept);
    met.extend((kept + 1..=kept + length).map(|address| step.words.get(address)));
    Some((kept, 1 + length))
}

/// Lists the conditions stored with a fact, and frees their block.
pub(crate) fn take_met(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    match list_met(step, fact_type, fact) {
        Some((block, size)) => step.words.free(block, size),
        None => Ok(()),
    }
}

/// Returns the indices that hold a fact meeting the listed conditions, one bit each.
pub(crate) fn indices_of_met(step: &Step) -> u32 {
    let met = step.scratch.met.iter();
    met.fold(1, |indices, condition| indices | step.program.conditions[*condition as usize].indices)
}

/// Returns the indices that hold a fact meeting these conditions, one bit each.
pub(crate) fn indices_of(step: &Step, fact_type: &FactType, met: u32) -> u32 {
    let conditions = fact_type.of_bits(met);
    conditions.fold(1, |indices, condition| indices | step.program.conditions[condition as usize].indices)
}

/// Increments the number of facts that meet a condition.
pub(crate) fn count_in(step: &mut Step, condition: u32) -> Result<(), Full> {
    let condition = &step.program.conditions[condition as usize];
    let count = step.words.get(condition.at);
    step.words.set(condition.at, count + 1)?;
    if count == 0 {
        for rule in &condition.needed_by {
            agenda::need_met(step, *rule)?;
        }
    }
    Ok(())
}

/// Decrements the number of facts that meet a condition.
pub(crate) fn count_out(step: &mut Step, condition: u32) -> Result<(), Full> {
    let condition = &step.program.conditions[condition as usize];
    let count = step.words.get(condition.at) - 1;
    step.words.set(condition.at, count)?;
    if count == 0 {
        for rule in &condition.needed_by {
            agenda::need_unmet(step, *rule)?;
        }
    }
    Ok(())
}
