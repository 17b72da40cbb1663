//! Tickets: the two numbers of a fact that waited.
//!
//! A waiting fact has a number known to its caller. Facts are ordered by number, so a waiting fact gets a new number when it is
//! inserted. The ticket links the two numbers while the fact exists; either finds the fact.

use crate::layout::NUMBER;
use crate::memory::{mix, Address, Full, Words};
use crate::step::Step;
use crate::tables::{NUMBERS, TICKETS};

/// The words of a ticket: the fact's current number, and its number while it waited.
pub(crate) const TICKET_NUMBER: Address = 0;
pub(crate) const TICKET_ID: Address = 2;
pub(crate) const TICKET: u32 = 4;

pub(crate) fn hash(number: u64) -> u32 {
    mix(1, number) as u32
}

/// Returns the number by which callers identify a fact.
pub(crate) fn id_of(words: &Words, fact: Address) -> u64 {
    let number = words.get64(fact + NUMBER);
    ticket(words, number).map_or(number, |(_, ticket)| words.get64(ticket + TICKET_ID))
}

fn ticket(words: &Words, number: u64) -> Option<(Address, Address)> {
    TICKETS.find(words, hash(number), |ticket| words.get64(ticket + TICKET_NUMBER) == number)
}

/// Frees the ticket of a fact, if it waited.
pub(crate) fn forget_ticket(step: &mut Step, number: u64) -> Result<(), Full> {
    let Some((at, ticket)) = ticket(step.words, number) else { return Ok(()) };
    NUMBERS.remove(step.words, step.words.get64(ticket + TICKET_ID))?;
    TICKETS.remove(step.words, at)?;
    step.words.free(ticket, TICKET)
}
