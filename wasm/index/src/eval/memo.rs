//! The predicates that were evaluated for the present event, with their values.

use crate::compile::predicates::Predicates;
use crate::error::Error;
use crate::eval::predicate;
use crate::event::Event;
use crate::handles::PredicateId;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

/// Events are numbered from 1 to this, then from 1 again: a byte holds the number, shifted, and a value.
const EVENTS: u8 = 127;
/// The table is forgotten in so many parts: all of it before a number comes again.
const PARTS: usize = EVENTS as usize - 1;

/// One byte for each predicate: the number of the event it was last evaluated for, and its value then.
///
/// Each event forgets an equal part of the table, so that what a number stood for is gone when it is used again, and
/// every event costs the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    values: Vec<u8>,
    event: u8,
    /// The part that is forgotten next.
    forgotten: usize,
    /// How much more work may begin in this step, in words of a program.
    left: u32,
    /// Whether a predicate was not evaluated as there was no work left.
    is_exhausted: bool,
}

impl Memo {
    /// Makes room for predicates below `predicates`.
    pub fn reserve(&mut self, predicates: usize) -> Result<(), Error> {
        if self.has_room(predicates) {
            return Ok(());
        }
        // By a thirty-second at the least, as all of it is forgotten: the parts are others then, so what is to be forgotten must
        // not wait for its turn.
        grow(&mut self.values, predicates.next_multiple_of(PARTS * (predicates / (32 * PARTS)).max(1)))?;
        self.values.fill(0);
        Ok(())
    }

    pub fn has_room(&self, predicates: usize) -> bool {
        predicates <= self.values.len()
    }

    /// Begins a new event. Cut off and begun again, it may forget more than it has to, but never less.
    pub fn begin(&mut self) {
        let part = self.values.len() / PARTS;
        self.values[self.forgotten * part..][..part].fill(0);
        in_order();
        self.forgotten = (self.forgotten + 1) % PARTS;
        in_order();
        self.event = self.event % EVENTS + 1;
    }

    /// Begins a step in which predicates may be evaluated as long as their work is less than `work`, one at the least.
    pub fn allow(&mut self, work: u32) {
        self.left = work;
        self.is_exhausted = false;
    }

    /// Whether a predicate of this step was left to the next one. All that were evaluated are remembered, so the next step
    /// gets further.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// Whether the predicate `id` holds for `event`; evaluated at most once an event. Nothing where it is left to the next
    /// step: what evaluates it may take as long as the whole event is.
    #[inline]
    pub fn holds(&mut self, predicates: &Predicates, id: PredicateId, event: &Event) -> Option<bool> {
        let value = &mut self.values[id as usize];
        if *value >> 1 != self.event {
            if self.left == 0 {
                self.is_exhausted = true;
                return None;
            }
            let predicate = predicates.get(id);
            self.left = self.left.saturating_sub(predicate::work(predicate, event));
            *value = self.event << 1 | u8::from(predicate::holds(predicate, event));
        }
        Some(*value & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_outlives_the_number_of_its_event() {
        for predicates in [0, 1, 125, 126, 127, 1000, 1001] {
            let mut memo = Memo::default();
            memo.reserve(predicates).unwrap();
            for _ in 0..1000 {
                memo.begin();
                let stale = memo.values.iter().position(|value| value >> 1 == memo.event);
                assert_eq!(stale, None);
                // Every predicate is evaluated for every third event, or each but once in a while.
                if memo.event % 3 == 0 {
                    memo.values.fill(memo.event << 1 | 1);
                }
            }
        }
    }
}
