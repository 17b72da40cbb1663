//! The memo of the predicates that were evaluated for the present event.

use crate::compile::predicates::Predicates;
use crate::error::Error;
use crate::eval::predicate;
use crate::event::Event;
use crate::handles::PredicateId;
use crate::patterns::Found;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

/// The greatest event number. Numbers run from 1 and wrap around, because an element holds the number and two bits of state.
const EVENTS: u16 = (1 << (u16::BITS - STATE_BITS)) - 1;
/// The greatest number of parts of the table. Each event clears one, so all are cleared before a number repeats.
const MAX_PARTS: usize = EVENTS as usize - 1;
/// The number of elements of a part, unless the table has more than 130,000. It is the same for most tables, because the cost of a
/// search in a small index must not depend on the size of another index that uses the same table. One instruction clears a part.
const PART: usize = 8;

/// The states of a predicate: 0 is false, `TRUE` is true, and `LISTED` is a pattern that was found and must still be
/// evaluated.
const TRUE: u16 = 1;
const LISTED: u16 = 2;
const STATE_BITS: u32 = 2;
const STATE: u16 = (1 << STATE_BITS) - 1;

/// An element for each predicate: the number of the event for which it was last evaluated or listed, and its state then.
///
/// Each event clears an equal part of the table. So no stale value has the present number, and all events cost the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    /// Whole parts, at least one once there is room.
    values: Vec<u16>,
    event: u16,
    /// The number of elements of a part.
    part: usize,
    /// The start of the part to clear next.
    forgotten: usize,
    /// The work that may still begin in this step, in words of a program.
    left: u32,
    /// A predicate was not evaluated because no work was left.
    is_exhausted: bool,
}

impl Memo {
    /// Makes room for predicates below `predicates`.
    pub fn reserve(&mut self, predicates: usize) -> Result<(), Error> {
        if self.has_room(predicates) {
            return Ok(());
        }
        // Growing clears the whole table, because its parts may move. So it grows by at least a thirty-second.
        let room = (predicates + predicates / 32).max(1);
        let part = PART * room.div_ceil(PART * MAX_PARTS);
        grow(&mut self.values, room.next_multiple_of(part))?;
        self.values.fill(0);
        (self.part, self.forgotten) = (part, 0);
        Ok(())
    }

    pub fn has_room(&self, predicates: usize) -> bool {
        predicates.max(1) <= self.values.len()
    }

    /// Begins a new event. If an interrupted call is repeated, it clears more than necessary, but never less.
    pub fn begin(&mut self) {
        let part = &mut self.values[self.forgotten..][..self.part];
        // A call of `memset` would take 1 % of the fuel of a search in a small index.
        match part.first_chunk_mut() {
            Some(only) if self.part == PART => *only = [0; PART],
            _ => part.fill(0),
        }
        in_order();
        let next = self.forgotten + self.part;
        self.forgotten = next * usize::from(next < self.values.len());
        in_order();
        self.event = self.event % EVENTS + 1;
    }

    /// Records that the pattern `id` was found, and whether it is true. Returns whether it is new for the event.
    #[inline]
    pub fn is_new(&mut self, id: PredicateId, found: Found) -> bool {
        let value = &mut self.values[id.index()];
        let is_new = *value >> STATE_BITS != self.event;
        if found == Found::True {
            *value = self.event << STATE_BITS | TRUE;
        } else if is_new {
            *value = self.event << STATE_BITS | LISTED;
        }
        is_new
    }

    /// Begins a step. It may evaluate predicates until their work reaches `work`, and at least one.
    pub fn allow(&mut self, work: u32) {
        self.left = work;
        self.is_exhausted = false;
    }

    /// Returns whether this step ran out of work before a predicate. Known values are kept, so the next step gets further.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Returns whether the predicate `id` is true for `event`, and evaluates it at most once an event. Returns `None` if the
    /// step has no work left, because a single evaluation may take time in proportion to the event's size.
    #[inline]
    pub fn holds(&mut self, predicates: &Predicates, id: PredicateId, event: &Event) -> Option<bool> {
        let value = &mut self.values[id.index()];
        if *value >> STATE_BITS != self.event || *value & STATE == LISTED {
            if self.left == 0 {
                self.is_exhausted = true;
                return None;
            }
            let predicate = predicates.get(id);
            self.left = self.left.saturating_sub(predicate::work(predicate, event));
            *value = self.event << STATE_BITS | u16::from(predicate::holds(predicate, event));
        }
        Some(*value & STATE == TRUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_outlives_the_number_of_its_event() {
        let most = PART * MAX_PARTS;
        for predicates in [0, 1, PART, PART + 1, 1001, most * 9 / 10, most, most + 1, 3 * most] {
            let mut memo = Memo::default();
            memo.reserve(predicates).unwrap();
            assert!(memo.has_room(predicates) && memo.values.len() / memo.part <= MAX_PARTS);
            // All predicates are evaluated once. None of them is known when the number of their event comes again.
            memo.begin();
            let event = memo.event;
            memo.values.fill(event << STATE_BITS | TRUE);
            for _ in 0..EVENTS {
                memo.begin();
            }
            assert_eq!((memo.event, memo.values.iter().position(|value| value >> STATE_BITS == event)), (event, None));
        }
    }

    #[test]
    fn an_event_clears_as_many_elements_in_a_large_table_as_in_a_small_one() {
        for predicates in [0, 1, 1_000, 100_000] {
            let mut memo = Memo::default();
            memo.reserve(predicates).unwrap();
            assert_eq!(memo.part, PART);
        }
    }
}
