//! A call as a future that is polled once for each slice.
//!
//! # Cancelling
//!
//! Dropping the future cuts the call off. wasmtime 48 then resumes the fiber once with an error in place of more fuel
//! (`StoreFiber::dispose`). The libcall that had yielded returns that error, which is a trap like any other. It unwinds the
//! wasm frames to the entry of the call, where the store's state is restored as after every trap (`EntryStoreContext`,
//! `CallThreadState`). The fiber ends, and its stack returns to the store for the next call. So the store is as sound as
//! after a trap, and the module's memory is as the last instruction left it. That is why the store can be used again. The
//! future owns the machine on loan (`Lent`). Whenever the future is dropped, the fiber ends first, and then the machine
//! returns to its instance.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::failure::{Failure, Kind};
use crate::instance::{Home, Lent};
use crate::machine::phase::{CurrentPhase, Phase};
use crate::machine::stop::{Reason, StopWord};
use crate::machine::{Done, Order, OPENING_SLICE};
use crate::terms::Output;

/// The most fuel that a change may use after it lost its caller, and again after it was asked to give up. Any change takes less:
/// about 0.1 seconds, and 2 microseconds for each byte of input.
const GRACE: u64 = 500_000_000;
const GRACE_PER_BYTE: u64 = 10_000;
/// The fuel of a turn, for every slice: about a millisecond.
const TURN: u64 = 5_000_000;

/// A call that ended: the machine, and the result or the error.
pub type Ended = (Lent, Result<Done, Failure>);

pub struct Call {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    home: Home,
    phase: CurrentPhase,
    output: Output,
    fuel: u64,
    slice: u64,
    used: u64,
    is_change: bool,
    /// `None` once the call has ended, because its machine may then be gone.
    stop: Option<StopWord>,
    /// The fuel that the call may use after it lost its caller, and what is left of it.
    patience: u64,
    grace: u64,
    /// Whether the call was asked to give up after it lost its caller.
    is_stopping: bool,
}

/// The outcome of one slice.
pub enum Slice {
    Ended(Ended),
    Yielded,
    /// The host itself failed. The instance is broken.
    Lost(Failure),
}

impl Call {
    pub fn new(mut lent: Lent, order: Order, output: Output) -> Self {
        let (home, phase) = (lent.home(), lent.machine().phase().clone());
        let Order { fuel, is_change, stop, .. } = order;
        let slice = order.slice.unwrap_or(0);
        let patience = GRACE.saturating_add(GRACE_PER_BYTE.saturating_mul(order.length as u64));
        let (grace, is_stopping) = (patience, false);
        let future = Box::pin(run(lent, order));
        Self { future, home, phase, output, fuel, slice, used: 0, is_change, stop, patience, grace, is_stopping }
    }

    /// Runs until the fuel of a slice is exhausted or the call ends. A call that ended must not run again.
    pub fn run_slice(&mut self) -> Slice {
        let mut context = Context::from_waker(Waker::noop());
        // The machine is in the future while that is pending.
        let stop = self.stop.take();
        match catch_unwind(AssertUnwindSafe(|| self.future.as_mut().poll(&mut context))) {
            Ok(Poll::Ready(ended)) => Slice::Ended(ended),
            Ok(Poll::Pending) => {
                self.stop = stop;
                if self.is_metered() {
                    self.used = self.used.saturating_add(self.slice).min(self.fuel);
                }
                Slice::Yielded
            }
            Err(_) => Slice::Lost(Failure::new(Kind::Trap, "the call failed inside of the host; make a new instance")),
        }
    }

    /// Asks a change between two slices to give up, so that it rolls back and ends as refused. A module without the stop word is
    /// not asked, and neither is a change that has not begun or whose output is being copied: it would never clear the word.
    pub fn ask_to_stop(&self, reason: Reason) {
        if let (Some(word), Phase::Running) = (self.stop, self.phase.get()) {
            // SAFETY: `run_slice` leaves the word only if the future is pending. The future has the machine, and its code is
            // suspended.
            unsafe { word.set(reason) };
        }
    }

    /// Returns whether a call that lost its caller must not be cut off here. A change would be half made, and so would an entry
    /// of the log. While the module makes room for input, its allocator may be half done, and the instance is called again. All
    /// of them end in time.
    fn must_end(&self) -> bool {
        self.is_change || matches!(self.phase.get(), Phase::Opening | Phase::Replaying)
    }

    /// Runs a turn of a call that lost its caller. Returns whether the call needs another turn. A change that used its grace is
    /// asked to give up, and is cut off only if it uses as much again.
    pub fn go_on(&mut self) -> bool {
        let mut turn = TURN;
        while self.must_end() {
            if self.grace == 0 {
                if self.is_stopping || self.stop.is_none() {
                    return false;
                }
                self.is_stopping = true;
                self.grace = self.patience;
            }
            if turn == 0 {
                return true;
            }
            if self.is_stopping {
                self.ask_to_stop(Reason::Timeout);
            }
            let slice = if self.is_change { self.slice.max(1) } else { OPENING_SLICE };
            self.grace = self.grace.saturating_sub(slice);
            turn = turn.saturating_sub(slice);
            if !matches!(self.run_slice(), Slice::Yielded) {
                return false;
            }
        }
        false
    }

    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Returns whether the call uses metered fuel: it neither makes room for the input nor copies.
    pub fn is_metered(&self) -> bool {
        self.phase.get() == Phase::Running
    }

    pub fn output(&self) -> Output {
        self.output
    }

    /// Returns the fuel of the slices so far. The call used at least this much. Each slice also used the fuel after its last
    /// check: some straight code, or one part of a bulk instruction, which costs a unit a byte (`compile::rewrite`).
    pub fn used(&self) -> u64 {
        self.used
    }
}

async fn run(mut lent: Lent, order: Order) -> Ended {
    let outcome = lent.machine().run(order).await;
    (lent, outcome)
}
