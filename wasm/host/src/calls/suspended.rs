//! A suspended call, as a resource of the process that holds it between two slices.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustler::Resource;

use super::abandoned;
use super::call::Call;
use crate::failure::{Failure, Kind};
use crate::system::counts::{self, Counted};

/// A suspended call as a resource. It holds its instance until it ends or is cancelled. If no process refers to it any more,
/// it is cancelled.
pub struct Suspended {
    state: Mutex<State>,
    _counted: Counted,
}

enum State {
    Standing(Call),
    /// A process runs the next slice.
    Running,
    Ended,
}

#[rustler::resource_impl]
impl Resource for Suspended {}

impl Suspended {
    pub fn new(call: Call) -> Self {
        Self { state: Mutex::new(State::Standing(call)), _counted: Counted::new(&counts::SUSPENDED) }
    }

    /// Takes the call to run its next slice. `put_back` or `end` must follow.
    ///
    /// # Errors
    ///
    /// `Overloaded` if another process runs a slice, and `NotFound` if the call ended.
    pub fn take(&self) -> Result<Call, Failure> {
        let mut state = self.state();
        match std::mem::replace(&mut *state, State::Running) {
            State::Standing(call) => Ok(call),
            State::Running => Err(Failure::new(Kind::Overloaded, "another process is resuming this call")),
            State::Ended => {
                *state = State::Ended;
                Err(ended())
            }
        }
    }

    /// Returns the call.
    ///
    /// # Errors
    ///
    /// `NotFound` if the call was cancelled while it ran.
    pub fn put_back(&self, call: Call) -> Result<(), Failure> {
        let mut state = self.state();
        if let State::Running = *state {
            *state = State::Standing(call);
            return Ok(());
        }
        abandon(call);
        Err(ended())
    }

    pub fn end(&self) {
        *self.state() = State::Ended;
    }

    /// Cancels the call: its fiber is unwound, and the instance is free soon after.
    pub fn cancel(&self) {
        let state = std::mem::replace(&mut *self.state(), State::Ended);
        if let State::Standing(call) = state {
            abandon(call);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Finishes a call if it must not be cut off, and unwinds its fiber. Until then the instance is running: any process that
/// wants it queues, the process that held the call included.
fn abandon(call: Call) {
    call.home().resume();
    abandoned::finish(call);
}

fn ended() -> Failure {
    Failure::new(Kind::NotFound, "there is nothing to resume: the call ended or was cancelled")
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.cancel();
    }
}
