//! Facts waiting for the watermark.
//!
//! A fact beyond the watermark waits, and no rule sees it. Waiting facts are inserted as the watermark reaches them: in time order,
//! and at equal times in the order of arrival. So results that depend on the order of facts (absence, aggregates, actions, firing
//! order) are the same for each order of arrival within the lateness.
//!
//! The block of a waiting fact has the mark [`WAITS`] in place of its type, its header in the heap by time
//! ([`Order`](crate::memory::Order)), its type, a bit for each defined field, and the fields. It owns its strings.
//!
//! A waiting fact has a number known to its caller. Facts are ordered by number, so a waiting fact gets a new number when it is
//! inserted. Its ticket links the two numbers while the fact exists; either finds the fact.

use crate::compile::code::Kind;
use crate::compile::fact_type::FactType;
use crate::facts::change;
use crate::facts::tickets::{hash, TICKET, TICKET_ID, TICKET_NUMBER};
use crate::layout::{FACTS, NEXT, NUMBER, RELEASED};
use crate::memory::order::time;
use crate::memory::order::{AT, ID, REST};
use crate::memory::{Address, Full, Words};
use crate::step::Step;
use crate::tables::{NUMBERS, STRINGS, TICKETS, WAITING};

/// The mark of a waiting fact, in place of its type.
pub(crate) const WAITS: u32 = u32::MAX;

pub(crate) const TYPE: Address = REST;
const DEFINED: Address = REST + 1;
const FIELDS: Address = REST + 2;

fn size(ty: &FactType) -> u32 {
    FIELDS + 2 * ty.fields.len() as u32
}

/// Returns a field of a waiting fact.
pub(crate) fn field(words: &Words, block: Address, field: usize) -> Option<u64> {
    (words.get(block + DEFINED) & 1 << field != 0).then(|| words.get64(block + FIELDS + 2 * field as u32))
}

/// Queues a fact with the fields of [`Scratch::cells`](crate::step::Scratch::cells), and returns its number.
pub(crate) fn let_wait(step: &mut Step, ty: usize, time: i64) -> Result<u64, Full> {
    let fact_type = &step.program.types[ty];
    let facts = step.words.get(FACTS);
    if facts >= step.limits.facts {
        return Err(Full::Facts);
    }
    step.words.set(FACTS, facts + 1)?;
    let id = step.words.get64(NEXT);
    step.words.set64(NEXT, id + 1)?;
    let block = step.words.allocate(size(fact_type))?;
    step.words.raw(block, WAITS);
    step.words.raw64(block + AT, time as u64);
    step.words.raw64(block + ID, id);
    step.words.raw(block + TYPE, ty as u32);
    let mut defined = 0;
    for (number, declared) in fact_type.fields.iter().enumerate() {
        let Some(cell) = step.scratch.cells.get(number) else { continue };
        defined |= 1 << number;
        step.words.raw64(block + FIELDS + 2 * number as u32, cell);
        if declared.kind == Kind::String {
            STRINGS.retain(step.words, cell as Address)?;
        }
    }
    step.words.raw(block + DEFINED, defined);
    NUMBERS.insert(step.words, id, block)?;
    WAITING.push(step.words, block)?;
    Ok(id)
}

/// Inserts a waiting fact.
pub(crate) fn stop_waiting(step: &mut Step, block: Address) -> Result<(), Full> {
    let (id, time) = (step.words.get64(block + ID), time(step.words, block));
    let ty = step.words.get(block + TYPE) as usize;
    step.scratch.cells.clear();
    for number in 0..step.program.types[ty].fields.len() {
        step.scratch.cells.set(number, field(step.words, block, number));
    }
    free_waiting(step, block)?;
    let fact = change::insert(step, ty, time)?;
    NUMBERS.insert(step.words, id, fact)?;
    let number = step.words.get64(fact + NUMBER);
    let ticket = step.words.allocate(TICKET)?;
    step.words.raw64(ticket + TICKET_NUMBER, number);
    step.words.raw64(ticket + TICKET_ID, id);
    TICKETS.insert(step.words, hash(number), ticket)?;
    step.words.set64(RELEASED, step.words.get64(RELEASED) + 1)
}

/// Frees a waiting fact.
pub(crate) fn free_waiting(step: &mut Step, block: Address) -> Result<(), Full> {
    let fact_type = &step.program.types[step.words.get(block + TYPE) as usize];
    step.words.set(FACTS, step.words.get(FACTS) - 1)?;
    WAITING.remove(step.words, block)?;
    NUMBERS.remove(step.words, step.words.get64(block + ID))?;
    for (number, declared) in fact_type.fields.iter().enumerate() {
        if let (Kind::String, Some(string)) = (declared.kind, field(step.words, block, number)) {
            step.release(string as Address)?;
        }
    }
    step.words.free(block, size(fact_type))
}
