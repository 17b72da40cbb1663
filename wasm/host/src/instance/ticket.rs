//! Tickets: the turns of processes that wait for a machine.

use std::sync::Arc;

use rustler::Resource;

use super::Shared;
use crate::instance::checkout::Turn;

/// A turn in the queue, as a resource. Dropping the ticket, as when its process dies, withdraws the turn.
pub struct Ticket {
    turn: Turn,
    shared: Arc<Shared>,
}

#[rustler::resource_impl]
impl Resource for Ticket {}

impl Ticket {
    pub(super) fn new(turn: Turn, shared: Arc<Shared>) -> Self {
        Self { turn, shared }
    }

    pub(super) fn turn(&self) -> Turn {
        self.turn
    }

    /// Withdraws the turn, whether it has come or not.
    pub fn withdraw(&self) {
        if self.shared.checkout.withdraw(self.turn) {
            self.shared.advance_later();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.withdraw();
    }
}
