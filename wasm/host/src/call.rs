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
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use rustler::Resource;

use crate::census::{self, Counted};
use crate::failure::{Failure, Kind};
use crate::finisher;
use crate::instance::{Home, Lent};
use crate::machine::{Done, Order, OPENING_SLICE};
use crate::stage::Stage;
use crate::terms::Output;

/// A call that lost its caller may use as much fuel as any change takes: about 0.1 seconds, and 2 microseconds for each
/// byte of input.
const GRACE: u64 = 500_000_000;
const GRACE_PER_BYTE: u64 = 10_000;
/// The fuel of a turn, whatever the slice: about a millisecond.
const TURN: u64 = 5_000_000;

/// A call that ended: the machine, and what it came to or why it failed.
pub type Ended = (Lent, Result<Done, Failure>);

pub struct Call {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    home: Home,
    output: Output,
    fuel: u64,
    slice: u64,
    used: u64,
    is_change: bool,
    /// The fuel that the call may still use when it has lost its caller.
    grace: u64,
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
        home.enter(Stage::Opening);
        let (fuel, slice, is_change) = (order.fuel, order.slice.unwrap_or(0), order.is_change);
        let grace = GRACE.saturating_add(GRACE_PER_BYTE.saturating_mul(order.length as u64));
        Self { future: Box::pin(run(lent, order)), home, output, fuel, slice, used: 0, is_change, grace }
    }

    /// Runs until the fuel of a slice is exhausted or the call ends. A call that ended is not run again.
    pub fn run_slice(&mut self) -> Slice {
        let mut context = Context::from_waker(Waker::noop());
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(ended)) => Slice::Ended(ended),
            Ok(Poll::Pending) => {
                if self.is_metered() {
                    self.used = self.used.saturating_add(self.slice).min(self.fuel);
                }
                Slice::Yielded
            }
            Err(_) => Slice::Lost(Failure::new(Kind::Trap, "the call failed inside of the host; make a new instance")),
        }
    }

    /// Whether a call that lost its caller is not to be cut off here. A change would be half made; and while the module
    /// makes room for the input its allocator is in the middle of what it does, with the instance to be called again. But
    /// that is over at some time.
    fn needs_more(&self) -> bool {
        self.grace > 0 && (self.is_change || self.home.stage() == Stage::Opening)
    }

    /// Runs a turn of a call that lost its caller. Answers whether the call is still under way, and needs another.
    pub fn go_on(&mut self) -> bool {
        let end = self.grace.saturating_sub(TURN);
        while self.needs_more() {
            if self.grace <= end {
                return true;
            }
            self.grace = self.grace.saturating_sub(if self.is_change { self.slice.max(1) } else { OPENING_SLICE });
            if !matches!(self.run_slice(), Slice::Yielded) {
                return false;
            }
        }
        false
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Whether the call burns the fuel that counts: it neither makes room for the input nor copies.
    pub fn is_metered(&self) -> bool {
        self.home.stage() == Stage::Running
    }

    pub fn output(&self) -> Output {
        self.output
    }

    /// The fuel of the slices so far. At least this much was used, and more by what each slice's last stretch without a
    /// check cost: some straight code, or one part of a bulk instruction, which costs a unit a byte (`bulk`).
    pub fn used(&self) -> u64 {
        self.used
    }
}

async fn run(mut lent: Lent, order: Order) -> Ended {
    let home = lent.home();
    let outcome = lent.machine().run(order, &home).await;
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

/// Has a call finished where it must be, and its fiber unwound. Until that is done the instance counts as running: whoever wants it queues, the process
/// that held the call included.
fn abandon(call: Call) {
    call.home().resume();
    finisher::finish(call);
}

fn ended() -> Failure {
    Failure::new(Kind::NotFound, "there is nothing to resume: the call ended or was cancelled")
}

impl Drop for Suspended {
    fn drop(&mut self) {
        self.cancel();
    }
}
