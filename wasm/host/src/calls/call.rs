//! A call: a future that runs one slice each time it is polled.
//!
//! # Cancelling
//!
//! Dropping the future cuts off the call. wasmtime 48 then resumes the fiber once with an error in place of more fuel
//! (`StoreFiber::dispose`). The libcall that had yielded returns that error, which is a trap like any other. It unwinds
//! the wasm frames to the entry of the call, where the store's state is restored as after every trap
//! (`EntryStoreContext`, `CallThreadState`). The fiber ends, and its stack returns to the store for the next call. So
//! the store is as sound as after a trap and can be used again, and the module's memory is as the last instruction left
//! it. The future owns the machine on loan (`Loan`): dropping it ends the fiber first, and then returns the machine to
//! its instance.

use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::failure::{Failure, Kind};
use crate::instance::{Loan, LoanPlace};
use crate::machine::phase::{CurrentPhase, Phase};
use crate::machine::stop::{Reason, StopWord};
use crate::machine::{Done, Order, OPENING_SLICE};
use crate::terms::Output;

/// The most fuel of a change after it lost its caller, and again after the host asked it to give up. Every change of
/// the built-in modules takes less. It is about 0.1 seconds, and 2 microseconds for each byte of input.
const MAX_GRACE_FUEL: u64 = 500_000_000;
const MAX_GRACE_FUEL_PER_BYTE: u64 = 10_000;
/// The fuel of a turn of an abandoned call, about a millisecond.
const TURN_FUEL: u64 = 5_000_000;

/// The machine of a call that ended, and its result or error.
pub type Ended = (Loan, Result<Done, Failure>);

pub struct Call {
    future: Pin<Box<dyn Future<Output = Ended> + Send>>,
    home: LoanPlace,
    phase: CurrentPhase,
    output: Output,
    fuel: u64,
    slice: u64,
    used: u64,
    is_change: bool,
    /// `None` after the call has ended, because its machine may be gone.
    stop: Option<StopWord>,
    /// `patience`: the most fuel after the call lost its caller. `grace`: the fuel left of it.
    patience: u64,
    grace: u64,
    /// Whether the host asked the abandoned call to give up.
    is_stopping: bool,
}

/// The outcome of one slice.
pub enum Slice {
    Ended(Ended),
    Yielded,
    /// The host itself failed, so the instance is unusable.
    Lost(Failure),
}

impl Call {
    pub fn new(mut lent: Loan, order: Order, output: Output) -> Self {
        let (home, phase) = (lent.home(), lent.machine().phase().clone());
        let Order { fuel, is_change, stop, .. } = order;
        let slice = order.slice.unwrap_or(0);
        let patience = MAX_GRACE_FUEL.saturating_add(MAX_GRACE_FUEL_PER_BYTE.saturating_mul(order.length as u64));
        let (grace, is_stopping) = (patience, false);
        let future = Box::pin(run(lent, order));
        Self { future, home, phase, output, fuel, slice, used: 0, is_change, stop, patience, grace, is_stopping }
    }

    /// Runs until the fuel of a slice is exhausted or the call ends. Must not be called again after the end.
    pub fn run_slice(&mut self) -> Slice {
        let mut context = Context::from_waker(Waker::noop());
        // The stop word is valid only while the future is pending and owns the machine.
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
            Err(_) => Slice::Lost(Failure::new(Kind::Trap, "the call failed inside the host; make a new instance")),
        }
    }

    /// Asks a suspended change to give up: it rolls back and ends with an error. Does nothing if the module has no stop
    /// word, or if its function does not run now, because then it would never clear the word.
    pub fn ask_to_stop(&self, reason: Reason) {
        if let (Some(word), Phase::Running) = (self.stop, self.phase.get()) {
            // SAFETY: `run_slice` leaves the word only if the future is pending. The future has the machine, and its code is
            // suspended.
            unsafe { word.set(reason) };
        }
    }

    /// Returns whether an abandoned call must not be cut off at this point. A change, an entry of the log or an
    /// allocation would stay incomplete, and the memory would be inconsistent for the next call. All of these end soon
    /// by themselves.
    fn must_end(&self) -> bool {
        self.is_change || matches!(self.phase.get(), Phase::Opening | Phase::Replaying)
    }

    /// Runs a turn of an abandoned call. Returns whether the call needs another turn. A change that used up its grace
    /// is asked to give up, and is cut off if it uses the same fuel again.
    pub fn run_turn(&mut self) -> bool {
        let mut turn = TURN_FUEL;
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

    pub fn home(&self) -> &LoanPlace {
        &self.home
    }

    /// Returns whether the call uses metered fuel now: its function runs.
    pub fn is_metered(&self) -> bool {
        self.phase.get() == Phase::Running
    }

    pub fn output(&self) -> Output {
        self.output
    }

    /// Returns the fuel of the finished slices, a lower bound of the fuel used. A slice overruns its fuel up to the
    /// next check: by some straight-line code, or by one chunk of a bulk instruction (`compile::rewrite`).
    pub fn used(&self) -> u64 {
        self.used
    }
}

async fn run(mut lent: Loan, order: Order) -> Ended {
    let outcome = lent.machine().run(order).await;
    (lent, outcome)
}
