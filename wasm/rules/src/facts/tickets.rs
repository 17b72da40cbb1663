//! Tickets: the two numbers of a fact that waited.
//!
//! A waiting fact has a number, which its caller knows. The engine orders facts by their numbers, so an inserted fact gets another
//! one. The ticket links the two numbers while the fact exists, and both find the fact.

use crate::layout::NUMBER;
use crate::memory::{mix, Address, Full, Words};
use crate::step::Step;
use crate::tables::{NUMBERS, TICKETS};

/// The words of a ticket: the number of the fact, and the one that it had while it waited.
pub(crate) const TICKET_NUMBER: Address = 0;
pub(crate) const TICKET_ID: Address = 2;
pub(crate) const TICKET: u32 = 4;

pub(crate) fn hash(number: u64) -> u32 {
    mix(1, number) as u32
}

/// Returns the number by which callers know a fact.
pub(crate) fn id_of(words: &Words, fact: Address) -> u64 {
    let number = words.get64(fact + NUMBER);
    ticket(words, number).map_or(number, |(_, ticket)| words.get64(ticket + TICKET_ID))
}

fn ticket(words: &Words, number: u64) -> Option<(Address, Address)> {
    TICKETS.find(words, hash(number), |ticket| words.get64(ticket + TICKET_NUMBER) == number)
}

/// Forgets the number that a fact had while it waited, if it did.
pub(crate) fn forget_ticket(step: &mut Step, number: u64) -> Result<(), Full> {
    let Some((at, ticket)) = ticket(step.words, number) else { return Ok(()) };
    NUMBERS.remove(step.words, step.words.get64(ticket + TICKET_ID))?;
    TICKETS.remove(step.words, at)?;
    step.words.free(ticket, TICKET)
}
