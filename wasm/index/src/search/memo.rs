//! The predicates that were evaluated for the present event, with their values.

use super::grow;
use crate::error::Error;
use crate::evaluate;
use crate::event::Event;
use crate::predicates::{PredicateId, Predicates};

/// The greatest number of an event: a byte holds it, shifted, and the value.
const LAST: u8 = 127;

/// One byte for each predicate: the number of the event it was last evaluated for, and its value then.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memo {
    values: Vec<u8>,
    event: u8,
}

impl Memo {
    /// Makes room for predicates below `predicates`.
    pub fn reserve(&mut self, predicates: usize) -> Result<(), Error> {
        grow(&mut self.values, predicates)
    }

    /// Begins a new event.
    pub fn forget(&mut self) {
        if self.event == LAST {
            self.values.fill(0);
            self.event = 0;
        }
        self.event += 1;
    }

    /// Whether the predicate `id` holds for `event`; evaluated at most once an event.
    #[inline]
    pub fn holds(&mut self, predicates: &Predicates, id: PredicateId, event: &Event) -> bool {
        let known = self.values[id as usize];
        if known >> 1 == self.event {
            return known & 1 == 1;
        }
        let holds = evaluate::holds(predicates, id, event);
        self.values[id as usize] = self.event << 1 | u8::from(holds);
        holds
    }
}
