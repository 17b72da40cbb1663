//! Transactions: operations that are rolled back together.

use crate::engine::Engine;
use crate::error::Error;
use crate::layout::GATHERING;
use crate::time::due;

/// The number of changed words from which on an advance may save its time.
pub(super) const MIN_CHANGED_WORDS: usize = 1 << 16;

impl Engine {
    /// Begins a transaction, and commits the previous one, which lasted until now.
    ///
    /// Errors: `out_of_memory`, only for the first.
    pub fn begin_transaction(&mut self) -> Result<(), Error> {
        self.recover();
        self.saved_time = None;
        self.has_changed_facts = false;
        self.history.begin_transaction();
        self.words.begin_transaction()
    }

    /// Rolls back all operations since the transaction began, including taken notices. Returns the time that was saved since. It
    /// must not be interrupted.
    pub fn roll_back(&mut self) -> Option<i64> {
        self.recover();
        self.words.roll_back();
        self.scratch.tested = None;
        self.history.roll_back();
        self.saved_time
    }

    /// Begins the next transaction here if this one has changed many words and nothing is due. A roll-back then restores this time,
    /// so an advance over any number of events needs little memory. After facts that this transaction asserted or retracted nothing is
    /// saved, because a roll-back undoes them too.
    pub fn save_time(&mut self) {
        if self.has_changed_facts || self.words.changed_in_transaction() < MIN_CHANGED_WORDS || !self.is_at_rest() {
            return;
        }
        // Advancing every source to this event time leads to the current time.
        let time = self.clock().now().saturating_add(self.clock().lateness());
        if self.raise_floor(time).is_ok() {
            self.words.begin_next_transaction();
            self.saved_time = Some(time);
        }
    }

    /// Returns whether nothing is due at the engine's time.
    fn is_at_rest(&mut self) -> bool {
        let (now, is_gathering) = (self.clock().now(), self.words.get(GATHERING) == 1);
        !is_gathering && !self.is_busy() && self.examine(|step| due::first_due(step, now).is_none()).unwrap_or(false)
    }
}
