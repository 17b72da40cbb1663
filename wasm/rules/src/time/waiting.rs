//! Facts that wait for the watermark.
//!
//! A fact whose time is beyond the watermark waits, and no rule sees it. When the watermark reaches it, it is inserted, before all
//! later ones: so rules see facts in the order of their times, and among equal times in the order in which they came. That makes
//! everything that depends on an order of facts (absence, aggregates, actions, which match fires first) the same for each order in
//! which they may come.
//!
//! A block of a waiting fact has the mark [`WAITS`] in place of its type, its place among the others by time
//! ([`Order`](crate::memory::Order)), its type, a bit for each defined field, and the fields. It owns its strings.
//!
//! A waiting fact has a number, which its caller knows. The engine's order of facts is that of their numbers, so an inserted fact gets
//! another one. A block, the ticket, links the two for as long as the fact exists, and both find the fact.

use crate::compile::code::{Kind, NUMBER};
use crate::compile::program::FactType;
use crate::engine::{Engine, Fact};
use crate::error::Error;
use crate::memory::order::{time, AT, ID, REST};
use crate::memory::{mix, Address, Full, Words};
use crate::step::{Step, FACTS, NEXT, NUMBERS, RELEASED, STRINGS, TICKETS, WAITING};

/// In place of the type of a fact: it waits.
pub(crate) const WAITS: u32 = u32::MAX;

const TYPE: Address = REST;
const DEFINED: Address = REST + 1;
const FIELDS: Address = REST + 2;

/// The words of a ticket: the number of the fact, and the one that it had while it waited.
const TICKET_NUMBER: Address = 0;
const TICKET_ID: Address = 2;
const TICKET: u32 = 4;

fn size(ty: &FactType) -> u32 {
    FIELDS + 2 * ty.fields.len() as u32
}

fn hash(number: u64) -> u32 {
    mix(1, number) as u32
}

/// Returns a field of a waiting fact.
fn field(words: &Words, block: Address, field: usize) -> Option<u64> {
    (words.get(block + DEFINED) & 1 << field != 0).then(|| words.get64(block + FIELDS + 2 * field as u32))
}

/// Returns the number by which callers know a fact.
pub(crate) fn id_of(words: &Words, fact: Address) -> u64 {
    let number = words.get64(fact + NUMBER);
    ticket(words, number).map_or(number, |(_, ticket)| words.get64(ticket + TICKET_ID))
}

fn ticket(words: &Words, number: u64) -> Option<(Address, Address)> {
    TICKETS.find(words, hash(number), |ticket| words.get64(ticket + TICKET_NUMBER) == number)
}

impl Engine {
    /// Returns the time of the first fact that waits.
    pub(crate) fn first_waiting(&self) -> Option<i64> {
        WAITING.first(&self.words).map(|block| time(&self.words, block))
    }

    /// Inserts the first fact that waits, at whose time the engine is.
    pub(crate) fn insert_first_waiting(&mut self) -> Result<(), Error> {
        self.retried(|step| match WAITING.first(step.words) {
            Some(block) => step.stop_waiting(block),
            None => Ok(()),
        })
    }

    /// Returns the number of facts that wait for the watermark.
    pub fn waiting_len(&self) -> u32 {
        WAITING.len(&self.words)
    }

    /// Returns at most `most` of the facts that wait, those from the place `from` on, in no order.
    pub fn waiting(&self, from: u32, most: u32) -> Vec<Fact> {
        let places = from..from.saturating_add(most).min(self.waiting_len());
        places.filter_map(|place| WAITING.at(&self.words, place)).map(|block| self.waiting_fact(block)).collect()
    }

    fn waiting_fact(&self, block: Address) -> Fact {
        let ty = &self.program.types[self.words.get(block + TYPE) as usize];
        let fields = ty.fields.iter().enumerate().map(|(number, declared)| {
            let value = field(&self.words, block, number).map(|cell| self.owned(declared.kind, cell));
            (declared.name.clone(), value)
        });
        Fact {
            id: self.words.get64(block + ID),
            ty: ty.name.clone(),
            at: time(&self.words, block),
            fields: fields.collect(),
        }
    }
}

impl Step<'_> {
    /// Lets a fact with the fields of [`Scratch::cells`](crate::step::Scratch::cells) wait, and returns its number.
    pub fn let_wait(&mut self, ty: usize, time: i64) -> Result<u64, Full> {
        let fact_type = &self.program.types[ty];
        let facts = self.words.get(FACTS);
        if facts >= self.limits.facts {
            return Err(Full::Facts);
        }
        self.words.set(FACTS, facts + 1)?;
        let id = self.words.get64(NEXT);
        self.words.set64(NEXT, id + 1)?;
        let block = self.words.allocate(size(fact_type))?;
        self.words.raw(block, WAITS);
        self.words.raw64(block + AT, time as u64);
        self.words.raw64(block + ID, id);
        self.words.raw(block + TYPE, ty as u32);
        let mut defined = 0;
        for (number, declared) in fact_type.fields.iter().enumerate() {
            let Some(cell) = self.scratch.cells.get(number) else { continue };
            defined |= 1 << number;
            self.words.raw64(block + FIELDS + 2 * number as u32, cell);
            if declared.kind == Kind::String {
                STRINGS.retain(self.words, cell as Address)?;
            }
        }
        self.words.raw(block + DEFINED, defined);
        NUMBERS.insert(self.words, id, block)?;
        WAITING.push(self.words, block)?;
        Ok(id)
    }

    /// Inserts a fact that waits.
    fn stop_waiting(&mut self, block: Address) -> Result<(), Full> {
        let (id, time) = (self.words.get64(block + ID), time(self.words, block));
        let ty = self.words.get(block + TYPE) as usize;
        self.scratch.cells.clear();
        for number in 0..self.program.types[ty].fields.len() {
            self.scratch.cells.set(number, field(self.words, block, number));
        }
        self.free_waiting(block)?;
        let fact = self.insert(ty, time)?;
        NUMBERS.insert(self.words, id, fact)?;
        let number = self.words.get64(fact + NUMBER);
        let ticket = self.words.allocate(TICKET)?;
        self.words.raw64(ticket + TICKET_NUMBER, number);
        self.words.raw64(ticket + TICKET_ID, id);
        TICKETS.insert(self.words, hash(number), ticket)?;
        self.words.set64(RELEASED, self.words.get64(RELEASED) + 1)
    }

    /// Removes a fact that waits.
    pub fn free_waiting(&mut self, block: Address) -> Result<(), Full> {
        let fact_type = &self.program.types[self.words.get(block + TYPE) as usize];
        self.words.set(FACTS, self.words.get(FACTS) - 1)?;
        WAITING.remove(self.words, block)?;
        NUMBERS.remove(self.words, self.words.get64(block + ID))?;
        for (number, declared) in fact_type.fields.iter().enumerate() {
            if let (Kind::String, Some(string)) = (declared.kind, field(self.words, block, number)) {
                self.release(string as Address)?;
            }
        }
        self.words.free(block, size(fact_type))
    }

    /// Forgets the number that a fact had while it waited, if it did.
    pub fn forget_ticket(&mut self, number: u64) -> Result<(), Full> {
        let Some((at, ticket)) = ticket(self.words, number) else { return Ok(()) };
        NUMBERS.remove(self.words, self.words.get64(ticket + TICKET_ID))?;
        TICKETS.remove(self.words, at)?;
        self.words.free(ticket, TICKET)
    }
}
