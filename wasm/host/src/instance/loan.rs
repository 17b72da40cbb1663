//! A machine on loan to a call, and its place in the instance.

use std::sync::Arc;
use std::thread;

use rustler::{Env, LocalPid};

use super::{Scheduler, Shared};
use crate::failure::{Failure, Kind};
use crate::machine::phase::Phase;
use crate::machine::{LogEntry, Machine};
use crate::memory::snapshot::{Growing, Snapshot};
use crate::system::background::{self, DropLater};
use crate::terms::atoms;

/// A machine on loan. `give_back` and `fail` return it. A loan that is dropped instead belongs to a call that was cut
/// off.
pub struct Loan {
    machine: Option<DropLater<Box<Machine>>>,
    place: usize,
    shared: Arc<Shared>,
    scheduler: Scheduler,
}

/// A finished copy of a machine's state, or one in progress.
pub enum Copied {
    Whole(Snapshot),
    InPart(Growing),
}

/// The place of a machine on loan. It outlives the loan.
#[derive(Clone)]
pub struct LoanPlace {
    shared: Arc<Shared>,
    place: usize,
}

impl LoanPlace {
    /// Records that `holder` holds the suspended call of the machine.
    pub fn suspend(&self, holder: LocalPid) {
        self.shared.checkout.suspend(self.place, holder);
    }

    /// Records that the machine's call runs again, or is about to be unwound.
    pub fn resume(&self) {
        self.shared.checkout.resume(self.place);
    }
}

impl Loan {
    pub(super) fn new(
        machine: DropLater<Box<Machine>>,
        place: usize,
        shared: Arc<Shared>,
        scheduler: Scheduler,
    ) -> Self {
        machine.phase().set(Phase::Opening);
        Self { machine: Some(machine), place, shared, scheduler }
    }

    /// Takes the machine out of the instance. Its place stays lent.
    pub(super) fn take(mut self) -> DropLater<Box<Machine>> {
        self.machine.take().expect("only methods that consume the loan take the machine")
    }

    pub fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("only methods that consume the loan take the machine")
    }

    /// Returns the next entries of the log that the machine lacks, at most `max`. Returns `None` if the log was trimmed
    /// behind them; the caller must then call `discard`.
    pub fn missing(&mut self, max: usize) -> Option<Vec<Arc<LogEntry>>> {
        let applied = self.machine().applied();
        self.shared.log.after(applied, max)
    }

    /// Drops a replica that is behind the trimmed log, because a new base came meanwhile. The caller must then borrow
    /// again.
    pub fn discard(mut self, env: Env) {
        drop(self.machine.take());
        let awaited = self.shared.checkout.vacate(self.place);
        self.advance(env, awaited);
    }

    /// Un-shares the machine: replaces it by a copy that maps no pages of a snapshot. Returns whether it mapped any.
    pub fn unshare(&mut self) -> Result<bool, Failure> {
        let shared = self.shared.clone();
        let machine = self.machine();
        if !machine.shares_pages() {
            return Ok(false);
        }
        let (used, charged) = (machine.used(), shared.charged.clone());
        let mut copy = machine.unshared_copy(&shared.module, &shared.setup, shared.module.saved_globals()?, charged)?;
        copy.set_used(used);
        self.machine = Some(DropLater::new(Box::new(copy)));
        Ok(true)
    }

    /// Applies all entries that the machine lacks, and copies its state. Only begins to copy a long memory.
    pub fn snapshot(&mut self) -> Result<Copied, Failure> {
        let shared = self.shared.clone();
        let saved_globals = shared.module.saved_globals()?;
        let missing = self.missing(usize::MAX).ok_or_else(|| {
            Failure::new(Kind::Overloaded, "the replica fell behind the base that came meanwhile; try again")
        })?;
        if !missing.is_empty() {
            self.machine().replay_blocking(&missing)?;
        }
        Ok(match self.machine().begin_snapshot(saved_globals)? {
            Some(growing) => Copied::InPart(growing),
            None => Copied::Whole(self.machine().snapshot(saved_globals)?),
        })
    }

    /// Replaces the machine by the pending one if the module agrees. After an error of the module the machine stays.
    pub(super) fn renew(&mut self) {
        let Some(mut renewal) = self.shared.pending.take() else { return };
        if matches!(self.machine().says_yes(&renewal.question), Ok(true)) {
            renewal.machine.count_in(self.shared.charged.clone());
            self.machine().count_in(renewal.charged);
            self.machine = Some(renewal.machine);
        }
    }

    /// Renews and returns the machine, on the waker's thread.
    pub(super) fn renew_and_give_back(mut self) {
        self.renew();
        if let Some(machine) = self.machine.take() {
            let applied = machine.applied();
            self.shared.checkout.check_in(self.place, machine, applied);
            self.shared.advance_later();
        }
    }

    pub fn home(&self) -> LoanPlace {
        LoanPlace { shared: self.shared.clone(), place: self.place }
    }

    /// Returns the machine after a call that ended. If a renewal is pending, the waker's thread makes it first.
    pub fn give_back(mut self, env: Env) {
        if self.shared.pending.is_set() {
            return background::wake_later(move || self.renew_and_give_back());
        }
        if let Some(machine) = self.machine.take() {
            let applied = machine.applied();
            let awaited = self.shared.checkout.check_in(self.place, machine, applied);
            self.advance(env, awaited);
        }
        // A renewal that came meanwhile could not borrow the machine.
        if let Some(loan) = self.shared.borrow_to_renew() {
            background::wake_later(move || loan.renew_and_give_back());
        }
    }

    /// Returns the machine, or drops it if an entry of the log was applied in part.
    pub fn give_back_or_discard(self, env: Env) {
        if self.is_partly_changed() {
            self.discard(env);
        } else {
            self.give_back(env);
        }
    }

    /// Returns the machine after a call that failed. Drops a replica after a trap or a lack of memory, because its
    /// memory is unreliable and may have grown.
    pub fn fail(self, env: Env, failure: &Failure) {
        let stopped = matches!(failure.kind, Kind::Trap | Kind::OutOfMemory) || self.is_partly_changed();
        if stopped && self.shared.is_pool() {
            self.discard(env);
        } else {
            self.give_back(env);
        }
    }

    /// Returns whether an entry of the log was applied in part.
    fn is_partly_changed(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| machine.phase().get() == Phase::Replaying)
    }

    fn advance(&self, env: Env, awaited: bool) {
        match self.scheduler {
            Scheduler::Normal if awaited => {
                self.shared.checkout.advance(|waiter| waiter.send(Some(env), &atoms::ready()))
            }
            Scheduler::Dirty if awaited => self.shared.advance_later(),
            _ => {}
        }
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        let is_partly_changed = self.is_partly_changed();
        let Some(mut machine) = self.machine.take() else { return };
        if !thread::panicking() && !is_partly_changed {
            machine.restore_stack_pointer();
            let applied = machine.applied();
            self.shared.checkout.check_in(self.place, machine, applied);
        } else if self.shared.is_pool() {
            drop(machine);
            self.shared.checkout.vacate(self.place);
        } else {
            drop(machine);
            self.shared.checkout.poison("a call of this instance failed inside the host; make a new instance");
        }
        self.shared.advance_later();
    }
}
