//! Suspended calls, which processes hold between two slices.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustler::Resource;

use super::abandoned;
use super::call::Call;
use crate::failure::{Failure, Kind};
use crate::system::counts::{self, Counted};

/// A suspended call, as a resource. It occupies its instance until it ends or is cancelled. Garbage collection of the
/// resource cancels it.
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

    /// Takes the call out to run its next slice. The caller must then call `put_back` or `end`.
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

    /// Cancels the call. Its fiber is unwound, and the instance is free soon afterwards.
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

/// Hands a call over to the thread for abandoned calls. Until it ends there, the instance is running, and every process
/// that wants it queues.
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
