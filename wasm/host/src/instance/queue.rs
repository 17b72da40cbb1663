//! The processes that wait for a machine, and the tickets of their turns.

use std::sync::Arc;

use rustler::env::SavedTerm;
use rustler::{Env, LocalPid, OwnedEnv, Resource, Term};

use super::Shared;
use crate::instance::checkout::Turn;
use crate::terms::atoms;

/// A process in the queue. It receives `{reference, :ready}`.
pub struct Waiter {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

impl Waiter {
    pub(super) fn new(env: Env, reference: Term) -> Self {
        let own = OwnedEnv::new();
        let reference = own.save(reference);
        Self { pid: env.pid(), env: own, reference }
    }

    /// Sends the message, and returns whether the process is alive. `caller` is the environment of the process that runs on
    /// this normal scheduler, or `None` on the host's own threads.
    pub(super) fn wake(&self, caller: Option<Env>) -> bool {
        self.env.run(|own| {
            let reference = self.reference.load(own);
            match caller {
                Some(env) => env.send(&self.pid, (reference.in_env(env), atoms::ready())).is_ok(),
                None => own.send(&self.pid, (reference, atoms::ready())).is_ok(),
            }
        })
    }
}

/// A turn in the queue as a resource. If its process dies, the ticket is dropped, which gives the turn up.
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

    /// Gives the turn up, whether it has come or not.
    pub fn withdraw(&self) {
        if self.shared.gate.withdraw(self.turn) {
            self.shared.advance_later();
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.withdraw();
    }
}
