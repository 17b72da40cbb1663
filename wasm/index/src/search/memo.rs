//! The predicates that were evaluated for the present event, with their values.

use super::{grow, in_order};
use crate::error::Error;
use crate::evaluate;
use crate::event::Event;
use crate::library::Library;
use crate::predicates::PredicateId;

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
}

impl Memo {
    /// Makes room for predicates below `predicates`.
    pub fn reserve(&mut self, predicates: usize) -> Result<(), Error> {
        let before = self.values.len();
        grow(&mut self.values, predicates.next_multiple_of(PARTS))?;
        if self.values.len() > before {
            // The parts are others now, so what is to be forgotten must not wait for its turn.
            self.values.fill(0);
        }
        Ok(())
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

    /// Whether the predicate `id` holds for `event`; evaluated at most once an event.
    #[inline]
    pub fn holds(&mut self, library: &Library, id: PredicateId, event: &Event) -> bool {
        let value = &mut self.values[id as usize];
        if *value >> 1 != self.event {
            *value = self.event << 1 | u8::from(evaluate::holds(library.predicates.get(id), event));
        }
        *value & 1 == 1
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
