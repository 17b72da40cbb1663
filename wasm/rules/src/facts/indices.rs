//! The lists of an index: the facts with equal keys, newest first, doubly linked.

use crate::compile::fact_type::FactType;
use crate::memory::{Address, Full};
use crate::step::Step;

/// Stores a word of a fact.
#[inline(always)]
pub(crate) fn store<const IS_NEW: bool>(step: &mut Step, address: Address, value: u32) -> Result<(), Full> {
    if IS_NEW {
        step.words.raw(address, value);
        return Ok(());
    }
    step.words.set(address, value)
}

/// Prepends the fact to its list in an index.
pub(crate) fn link<const IS_NEW: bool>(
    step: &mut Step,
    fact_type: &FactType,
    fact: Address,
    index: usize,
) -> Result<(), Full> {
    let (links, table) = (fact + fact_type.links(index), fact_type.table(index));
    store::<IS_NEW>(step, links + 1, 0)?;
    let next = if index == 0 {
        let next = step.words.get(table.0);
        step.words.set(table.0, fact)?;
        next
    } else {
        let Some(hash) = fact_type.hash(step.words, fact, index) else { return Ok(()) };
        let (at, next) = table.place(step.words, hash);
        if next == 0 {
            table.fill(step.words, at, hash, fact)?;
        } else {
            step.words.set(at + 1, fact)?;
        }
        next
    };
    store::<IS_NEW>(step, links, next)?;
    if next != 0 {
        step.words.set(next + fact_type.links(index) + 1, fact)?;
    }
    Ok(())
}

/// Removes the fact from its list in an index.
pub(crate) fn unlink(step: &mut Step, fact_type: &FactType, fact: Address, index: usize) -> Result<(), Full> {
    let (offset, table) = (fact_type.links(index), fact_type.table(index));
    let (next, previous) = (step.words.get(fact + offset), step.words.get(fact + offset + 1));
    if previous != 0 {
        step.words.set(previous + offset, next)?;
    } else if index == 0 {
        step.words.set(table.0, next)?;
    } else {
        let Some(hash) = fact_type.hash(step.words, fact, index) else { return Ok(()) };
        if let Some((at, _)) = table.find(step.words, hash, |_| true) {
            if next == 0 {
                table.remove(step.words, at)?;
            } else {
                step.words.set(at + 1, next)?;
            }
        }
    }
    if next != 0 {
        step.words.set(next + offset + 1, previous)?;
    }
    Ok(())
}
