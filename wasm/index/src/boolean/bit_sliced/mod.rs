//! Bit-sliced evaluation runs dense expressions for 256 events at once, with a bit for each event.
//!
//! The program of an expression is the one that runs for a single event. It is a list of tests. A test jumps ahead, or
//! continues with the next one. Here a set of events reaches a test. Those for which its literal jumps join the set that waits at the target;
//! the others continue. So one pass over the tests takes every event to its end, without a branch on its values. The most
//! decisive tests come first, and the pass ends once all events are at an end, mostly before the last test.

pub(crate) mod bits;
mod lanes;
#[cfg(test)]
mod tests;

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
use crate::support::simd::{Fastest, Vector};

/// The number of slots that are evaluated before the bits are transposed from events to slots.
const BLOCK: usize = EVENTS;

/// The number of words of tests between two checks whether all events are at an end.
const STRETCH: usize = 4;

/// The approximate number of tests in a step.
const STEP: usize = 1024;

/// For each place of a program, the events that jumped there.
type Waiting<V> = [Lanes<V>; PLACES];

/// The values of booleans for a group of events, and the results of the expressions over them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sliced<V = Fastest> {
    /// For each literal, the events for which its test jumps.
    columns: Vec<Lanes<V>>,
    /// The events that wait at each test. All sets are empty between expressions, unless a step was interrupted.
    waiting: Vec<Lanes<V>>,
    is_cut_off: bool,
    /// The results of the expressions in a block of slots, a row each.
    block: Vec<Bits>,
    /// For each block, a row for each event: the slots of the block that it makes true.
    rows: Vec<Bits>,
    events: usize,
}

impl<V: Vector> Sliced<V> {
    /// Makes room for an index with `attributes` attributes and `slots` slots.
    pub fn reserve(&mut self, attributes: usize, slots: usize) -> Result<(), Error> {
        let literals = if 2 * attributes <= PACKED_LITERALS { PACKED_LITERALS } else { LITERALS };
        grow(&mut self.columns, literals)?;
        grow(&mut self.waiting, PLACES)?;
        grow(&mut self.block, BLOCK)?;
        grow(&mut self.rows, slots.next_multiple_of(BLOCK))?;
        Ok(())
    }

    pub fn has_room(&self, slots: usize) -> bool {
        slots <= self.rows.len()
    }

    /// Begins a group of `events` events.
    pub fn begin(&mut self, events: usize) {
        self.columns.fill(Lanes::default());
        self.waiting.fill(Lanes::default());
        self.is_cut_off = false;
        self.events = events;
    }

    /// Adds the values of the event with this number in the group.
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

    /// Evaluates dense expressions from `slot` on. Returns the slot from which to continue, or `None` at the end.
    #[inline(never)]
    pub fn step(&mut self, slot: Slot, subscriptions: &Subscriptions, catalog: &Catalog) -> Option<Slot> {
        if self.is_cut_off {
            self.waiting.fill(Lanes::default());
        }
        self.is_cut_off = true;
        in_order();
        let mut tests = 0;
        let mut slot = slot.index();
        let end = subscriptions.capacity();
        while slot < end && tests < STEP {
            let mut row = Bits::NONE;
            if let Some(Placement::Dense(_)) = subscriptions.placement(Slot::from_index(slot)) {
                let code = catalog.code(subscriptions.get(Slot::from_index(slot)));
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
                // A repetition of this step needs its block, which the next block overwrites, so the step ends here.
                self.finish_block((slot - 1) / BLOCK, slot);
                break;
            }
        }
        in_order();
        self.is_cut_off = false;
        (slot < end).then_some(Slot::from_index(slot))
    }

    /// Simulates a step that was interrupted within an expression.
    #[cfg(test)]
    pub fn cut_off(&mut self) {
        self.is_cut_off = true;
        self.waiting.fill(Bits::of_first(EVENTS).into());
    }

    /// Transposes the rows of expressions, of slots up to `end`, to rows of events.
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

    /// Sets `held` to the events that make the expression of `words` true. Each word has the `N` tests that `read` returns,
    /// over `LITERALS` literals. Returns the number of tests that ran.
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
        let is_over = |waiting: &Waiting<V>| ((waiting[ACCEPT] | waiting[REJECT]) ^ all).is_empty();
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
        // An event that passes the last test makes the expression false.
        *held = waiting[ACCEPT].into();
        waiting[ACCEPT] = Lanes::default();
        waiting[REJECT] = Lanes::default();
        at - FIRST
    }

    /// Returns the slots that the event with this number makes true, 32 in a word.
    #[inline]
    pub fn word(&self, event: usize, word: usize) -> u32 {
        const HALVES: usize = BLOCK / 32;
        self.rows[word / HALVES * BLOCK + event].half_word(word % HALVES)
    }
}

/// Runs the tests from the place `at` on. The events are those that reach the first test, and those that wait at one.
/// Returns the events that continue behind the last.
#[inline(always)]
fn take<V: Vector, const N: usize, const LITERALS: usize>(
    words: &[u32],
    read: impl Fn(u32, usize) -> [Boolean; N],
    at: usize,
    coming: Lanes<V>,
    columns: &[Lanes<V>; LITERALS],
    waiting: &mut Waiting<V>,
) -> Lanes<V> {
    (at..).step_by(N).zip(words).fold(coming, |coming, (at, &word)| {
        (at..).zip(read(word, at)).fold(coming, |coming, (at, Boolean { literal, target })| {
            let here = at % PLACES;
            let reached = coming | waiting[here];
            waiting[here] = Lanes::default();
            let jumping = reached & columns[literal % LITERALS];
            let target = target % PLACES;
            waiting[target] = waiting[target] | jumping;
            reached ^ jumping
        })
    })
}
