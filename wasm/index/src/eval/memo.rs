//! The memo of the predicates that were evaluated for the present event.

use crate::compile::predicates::Predicates;
use crate::error::Error;
use crate::eval::predicate;
use crate::event::Event;
use crate::handles::PredicateId;
use crate::patterns::Found;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

/// The greatest event number. Numbers run from 1 and wrap around, because a byte holds the number and two bits of state.
const EVENTS: u8 = 63;
/// The number of parts of the table. Each event clears one, so all are cleared before a number repeats.
const PARTS: usize = EVENTS as usize - 1;

/// The states of a predicate: 0 is false, `TRUE` is true, and `LISTED` is a pattern that was found and must still be
/// evaluated.
const TRUE: u8 = 1;
const LISTED: u8 = 2;
const STATE_BITS: u32 = 2;
const STATE: u8 = (1 << STATE_BITS) - 1;

/// A byte for each predicate: the number of the event for which it was last evaluated or listed, and its state then.
///
/// Each event clears an equal part of the table. So no stale value has the present number, and all events cost the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    values: Vec<u8>,
    event: u8,
    /// The part to clear next.
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
        // Growing clears the whole table, because its parts move. So it grows by at least a thirty-second.
        grow(&mut self.values, predicates.next_multiple_of(PARTS * (predicates / (32 * PARTS)).max(1)))?;
        self.values.fill(0);
        Ok(())
    }

    pub fn has_room(&self, predicates: usize) -> bool {
        predicates <= self.values.len()
    }

    /// Begins a new event. If an interrupted call is repeated, it clears more than necessary, but never less.
    pub fn begin(&mut self) {
        let part = self.values.len() / PARTS;
        self.values[self.forgotten * part..][..part].fill(0);
        in_order();
        self.forgotten = (self.forgotten + 1) % PARTS;
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
            *value = self.event << STATE_BITS | u8::from(predicate::holds(predicate, event));
        }
        Some(*value & STATE == TRUE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_outlives_the_number_of_its_event() {
        for predicates in [0, 1, 61, 62, 63, 125, 126, 127, 1000, 1001] {
            let mut memo = Memo::default();
            memo.reserve(predicates).unwrap();
            for _ in 0..1000 {
                memo.begin();
                let stale = memo.values.iter().position(|value| value >> STATE_BITS == memo.event);
                assert_eq!(stale, None);
                // Every third event evaluates all predicates; all others evaluate none.
                if memo.event % 3 == 0 {
                    memo.values.fill(memo.event << STATE_BITS | TRUE);
                }
            }
        }
    }
}
