//! Expiry: a queue of facts per type, and a heap of types by the expiry of the first fact in their queue.
//!
//! A queue is in the order of arrival. A late fact expires after the facts that arrived before it, so it stays no longer than a
//! fact that arrived with it on time. The heap holds each type with such facts, so the next fact to drop is found without scanning
//! the types.

use crate::compile::fact_type::{FactType, EXPIRY, NEWEST, OLDEST};
use crate::facts::indices::store;
use crate::layout::TIME;
use crate::memory::order::{time, AT, ID};
use crate::memory::{Address, Full, Words};
use crate::step::Step;
use crate::tables::EXPIRIES;

/// Initializes the heap block of a type in a new engine.
pub(crate) fn set_up(words: &mut Words, fact_type: &FactType, number: usize) -> Result<(), Full> {
    let block = fact_type.at + EXPIRY;
    words.set(block, number as u32)?;
    words.set64(block + ID, number as u64)
}

/// Returns the next fact to expire: its expiry, type and address.
pub(crate) fn first(step: &Step) -> Option<(i64, usize, Address)> {
    let block = EXPIRIES.first(step.words)?;
    let ty = step.words.get(block) as usize;
    Some((time(step.words, block), ty, step.program.types[ty].oldest(step.words)))
}

fn end(words: &Words, fact_type: &FactType, fact: Address) -> i64 {
    (words.get64(fact + TIME) as i64).saturating_add(fact_type.life.unwrap_or(i64::MAX))
}

/// Appends the fact to its type's queue.
pub(crate) fn append<const IS_NEW: bool>(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    let links = fact_type.drop_links();
    let newest = step.words.get(fact_type.at + NEWEST);
    store::<IS_NEW>(step, fact + links, 0)?;
    store::<IS_NEW>(step, fact + links + 1, newest)?;
    step.words.set(fact_type.at + NEWEST, fact)?;
    if newest != 0 {
        return step.words.set(newest + links, fact);
    }
    step.words.set(fact_type.at + OLDEST, fact)?;
    let (block, end) = (fact_type.at + EXPIRY, end(step.words, fact_type, fact));
    step.words.set64(block + AT, end as u64)?;
    EXPIRIES.push(step.words, block)
}

/// Removes the fact from its type's queue.
pub(crate) fn take_out(step: &mut Step, fact_type: &FactType, fact: Address) -> Result<(), Full> {
    let links = fact_type.drop_links();
    let (newer, older) = (step.words.get(fact + links), step.words.get(fact + links + 1));
    let link = if newer == 0 { fact_type.at + NEWEST } else { newer + links + 1 };
    step.words.set(link, older)?;
    if older != 0 {
        return step.words.set(older + links, newer);
    }
    step.words.set(fact_type.at + OLDEST, newer)?;
    let block = fact_type.at + EXPIRY;
    if newer == 0 {
        return EXPIRIES.remove(step.words, block);
    }
    let end = end(step.words, fact_type, newer);
    if end != time(step.words, block) {
        EXPIRIES.set_time(step.words, block, end)?;
    }
    Ok(())
}
