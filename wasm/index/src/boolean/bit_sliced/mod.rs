//! Dense expressions for 256 events at once: a bit an event.
//!
//! An expression is the program that is run for one event, a list of tests of which each jumps ahead or goes on to the
//! next. Here a test is reached by a set of events. Those that its literal makes jump are added to the set
//! that waits at its target, the others go on; so one pass over the tests leads every event to its end, whatever its
//! values, without a branch on them. The tests that decide most come first: the pass is over where all events have
//! come to an end, mostly before the last test.

pub(crate) mod bits;
mod lanes;

use bits::{transpose, Bits, EVENTS};
use lanes::Lanes;

use crate::catalog::subscriptions::{Placement, Subscriptions};
use crate::catalog::Catalog;
use crate::compile::booleans::{self, Boolean, Tests, ACCEPT, FIRST, LITERALS, PACKED_LITERALS, PLACES, REJECT};
use crate::error::Error;
use crate::event::Value;
use crate::handles::Slot;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

/// So many slots are evaluated until the bits are turned from events to slots.
const BLOCK: usize = EVENTS;

/// How many words of tests go by until it is asked whether all events are at an end.
const STRETCH: usize = 4;

/// About how many tests a step takes.
const STEP: usize = 1024;

/// For each place of a program the events that jumped there.
type Waiting = [Lanes; PLACES];

/// The values of booleans, and what the expressions over them come to, for a group of events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sliced {
    /// For each literal the events that jump where it is tested.
    columns: Vec<Lanes>,
    /// All empty where no expression is under way, unless a step was cut off.
    waiting: Vec<Lanes>,
    is_cut_off: bool,
    /// The expressions of a block of slots, a row each.
    block: Vec<Bits>,
    /// Block by block a row for each event: the slots of the block that it makes true.
    rows: Vec<Bits>,
    events: usize,
}

impl Sliced {
    /// Makes room for an index of so many attributes and slots.
    pub fn reserve(&mut self, attributes: usize, slots: usize) -> Result<(), Error> {
        let literals = if 2 * attributes <= PACKED_LITERALS { PACKED_LITERALS } else { LITERALS };
        grow(&mut self.columns, literals)?;
        grow(&mut self.waiting, size_of::<Waiting>() / size_of::<Lanes>())?;
        grow(&mut self.block, BLOCK)?;
        grow(&mut self.rows, slots.next_multiple_of(BLOCK))?;
        Ok(())
    }

    pub fn has_room(&self, slots: usize) -> bool {
        slots <= self.rows.len()
    }

    /// Begins a group of `events` events.
    pub fn begin(&mut self, events: usize) {
        self.columns.fill(Lanes::NONE);
        self.waiting.fill(Lanes::NONE);
        self.is_cut_off = false;
        self.events = events;
    }

    /// Takes in the values of the event with this number in the group.
    pub fn add(&mut self, event: usize, values: &[Value]) {
        let mut bit = Bits::NONE;
        bit.set(event);
        let bit = Lanes::from(bit);
        let columns = self.columns.chunks_exact_mut(2);
        for (pair, value) in columns.zip(values) {
            let column = &mut pair[usize::from(*value == Value::Boolean(true))];
            *column = *column | bit;
        }
    }

    /// Evaluates dense expressions from `slot` on, and answers the slot to go on from, or none at the end.
    #[inline(never)]
    pub fn step(&mut self, slot: Slot, subscriptions: &Subscriptions, catalog: &Catalog) -> Option<Slot> {
        if self.is_cut_off {
            self.waiting.fill(Lanes::NONE);
        }
        self.is_cut_off = true;
        in_order();
        let mut tests = 0;
        let mut slot = slot as usize;
        let end = subscriptions.capacity();
        while slot < end && tests < STEP {
            let mut row = Bits::NONE;
            if let Some(Placement::Dense(_)) = subscriptions.placement(slot as Slot) {
                let code = catalog.code(subscriptions.get(slot as Slot));
                let packed = |word, _| booleans::packed(word);
                tests += match (booleans::tests(code), self.columns.len()) {
                    (Tests::Packed(words), _) => self.evaluate::<2, PACKED_LITERALS>(words, packed, &mut row),
                    (Tests::Operations(words), PACKED_LITERALS) => {
                        self.evaluate::<1, PACKED_LITERALS>(words, booleans::operation, &mut row)
                    }
                    (Tests::Operations(words), _) => self.evaluate::<1, LITERALS>(words, booleans::operation, &mut row),
                };
            }
            self.block[slot % BLOCK] = row;
            slot += 1;
            tests += 1;
            if slot.is_multiple_of(BLOCK) || slot == end {
                // The next block takes this one's place, so the step ends here: it may have to be done again.
                self.finish_block((slot - 1) / BLOCK, slot);
                break;
            }
        }
        in_order();
        self.is_cut_off = false;
        (slot < end).then_some(slot as Slot)
    }

    /// As if a step had been cut off within an expression.
    #[cfg(test)]
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.waiting.fill(Bits::of_first(EVENTS).into());
    }

    /// Turns the rows of expressions, of slots up to `end`, into rows of events.
    #[inline(never)]
    fn finish_block(&mut self, block: usize, end: usize) {
        let Some(rows) = self.rows[block * BLOCK..].first_chunk_mut() else {
            unreachable!("there is room for whole blocks");
        };
        let held = end - block * BLOCK;
        rows[..held].copy_from_slice(&self.block[..held]);
        rows[held..].fill(Bits::NONE);
        transpose(rows);
    }

    /// Sets `held` to the events that make the expression of these words true, of which each has the `N` tests that `read`
    /// says, over so many literals; and tells how many of its tests were taken.
    #[inline(never)]
    fn evaluate<const N: usize, const LITERALS: usize>(
        &mut self,
        words: &[u32],
        read: impl Fn(u32, usize) -> [Boolean; N],
        held: &mut Bits,
    ) -> usize {
        let Sliced { columns, waiting, events, .. } = self;
        let (Some(columns), Some(waiting)) = (columns.first_chunk::<LITERALS>(), waiting.first_chunk_mut()) else {
            unreachable!("there is room");
        };
        let all = Lanes::from(Bits::of_first(*events));
        let is_over = |waiting: &Waiting| ((waiting[ACCEPT] | waiting[REJECT]) ^ all).is_empty();
        let mut reached = all;
        let mut at = FIRST;
        let (stretches, rest) = words.as_chunks::<STRETCH>();
        for stretch in stretches {
            reached = take(stretch, &read, at, reached, columns, waiting);
            at += N * STRETCH;
            if is_over(waiting) {
                break;
            }
        }
        if !is_over(waiting) {
            take(rest, &read, at, reached, columns, waiting);
            at += N * rest.len();
        }
        // Behind the last test the expression is false.
        *held = waiting[ACCEPT].into();
        waiting[ACCEPT] = Lanes::NONE;
        waiting[REJECT] = Lanes::NONE;
        at - FIRST
    }

    /// The slots that the event with this number makes true, 32 to a word.
    #[inline]
    pub fn word(&self, event: usize, word: usize) -> u32 {
        const HALVES: usize = BLOCK / 32;
        self.rows[word / HALVES * BLOCK + event].half_word(word % HALVES)
    }
}

/// Takes the tests from the place `at` on for the events that come to the first, and for those that wait at one. Answers
/// which of them go on behind the last.
#[inline(always)]
fn take<const N: usize, const LITERALS: usize>(
    words: &[u32],
    read: impl Fn(u32, usize) -> [Boolean; N],
    at: usize,
    coming: Lanes,
    columns: &[Lanes; LITERALS],
    waiting: &mut Waiting,
) -> Lanes {
    (at..).step_by(N).zip(words).fold(coming, |coming, (at, &word)| {
        (at..).zip(read(word, at)).fold(coming, |coming, (at, Boolean { literal, target })| {
            let here = at % PLACES;
            let reached = coming | waiting[here];
            waiting[here] = Lanes::NONE;
            let jumping = reached & columns[literal % LITERALS];
            let target = target % PLACES;
            waiting[target] = waiting[target] | jumping;
            reached ^ jumping
        })
    })
}
