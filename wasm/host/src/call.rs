//! A call as a future, polled once a slice.
//!
//! # Cancelling
//!
//! A call that is cut short is a future that is dropped. wasmtime 48 then resumes the fiber once with an error in
//! place of more fuel (`StoreFiber::dispose`): the libcall that had yielded returns that error, which is a trap like
//! any other. It unwinds the wasm frames to the entry of the call, where the store's state is put back as after every
//! trap (`EntryStoreContext`, `CallThreadState`), the fiber ends, and its stack goes back to the store for the next
//! call. So the store is as sound as after a trap, and the module's memory stands as the last instruction left it.
//! That is why the store need not be thrown away: the future owns the machine on loan (`Lent`), and when it is
//! dropped, at any point, the fiber goes first and the machine then goes home.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustler::Resource;

use crate::census::{self, Counted};
use crate::failure::{Failure, Kind};
use crate::instance::{Home, Lent};
use crate::machine::Order;
use crate::reaper;
use crate::terms::Output;

/// A call that ended: the machine, and the fuel used or why it failed.
pub type Ended = (Lent, Result<u64, Failure>);

pub struct Call {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    home: Home,
    output: Output,
    fuel: u64,
    slice: u64,
    used: u64,
}

/// What one slice came to.
pub enum Slice {
    Ended(Ended),
    Yielded,
    /// The host itself failed; the instance is broken.
    Lost(Failure),
}

impl Call {
    pub fn new(lent: Lent, order: Order, output: Output) -> Self {
        let home = lent.home();
        home.metered().store(false, Ordering::Relaxed);
        let (fuel, slice) = (order.fuel, order.slice.unwrap_or(0));
        Self { future: Box::pin(run(lent, order)), home, output, fuel, slice, used: 0 }
    }

    /// Runs until the fuel of a slice is exhausted or the call ends. A call that ended is not run again.
    pub fn run_slice(&mut self) -> Slice {
        let mut context = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(ended)) => Slice::Ended(ended),
            Ok(Poll::Pending) => {
                if self.home.metered().load(Ordering::Relaxed) {
                    self.used = self.used.saturating_add(self.slice).min(self.fuel);
                }
                Slice::Yielded
            }
            Err(_) => Slice::Lost(Failure::new(Kind::Trap, "the call failed inside of the host; make a new instance")),
        }
    }

    /// Has the module make room for the input, where that is under way: cut off there, its allocator would be left in the
    /// middle of what it does, with the instance to be called again.
    fn finish_inbox(&mut self) {
        while !self.home.metered().load(Ordering::Relaxed) {
            if !matches!(self.run_slice(), Slice::Yielded) {
                return;
            }
        }
    }

    /// Runs all slices.
    pub fn run_to_end(&mut self) -> Result<Ended, Failure> {
        loop {
            match self.run_slice() {
                Slice::Ended(ended) => return Ok(ended),
                Slice::Yielded => {}
                Slice::Lost(failure) => return Err(failure),
            }
        }
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    pub fn output(&self) -> Output {
        self.output
    }

    /// The fuel of the slices so far. At least this much was used, and more by what each slice's last stretch without a
    /// check cost: some straight code, or one bulk instruction, which costs a unit a byte.
    pub fn used(&self) -> u64 {
        self.used
    }
}

async fn run(mut lent: Lent, order: Order) -> Ended {
    let home = lent.home();
    let outcome = lent.machine().run(order, home.metered()).await;
    (lent, outcome)
}

/// A call between two slices, as a resource. It holds its instance until it ends or is cancelled; where its last
/// process forgets it or dies, it is cancelled.
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
        Self { state: Mutex::new(State::Standing(call)), _counted: Counted::new(&census::SUSPENDED) }
    }

    /// Takes the call to run its next slice. Then comes `put_back` or `end`.
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

    /// Fails where the call was cancelled while it ran.
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

    /// Has the fiber unwound; the instance is free soon after.
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

/// Has a call's fiber unwound. Until that is done the instance counts as running: whoever wants it queues, the process
/// that held the call included.
fn abandon(mut call: Call) {
    call.home().resume();
    reaper::later(move || call.finish_inbox());
}

fn ended() -> Failure {
    Failure::new(Kind::NotFound, "there is nothing to resume: the call ended or was cancelled")
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.cancel();
    }
}
