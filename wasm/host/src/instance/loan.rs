//! A machine on loan, and its place in the instance.

use std::sync::Arc;
use std::thread;

use rustler::{Env, LocalPid};

use super::{Scheduler, Shared};
use crate::failure::{Failure, Kind};
use crate::machine::phase::Phase;
use crate::machine::{Entry, Machine};
use crate::memory::snapshot::{Growing, Snapshot};
use crate::system::background::{self, Reaped};

/// A machine on loan. `leave` and `fail` return it. If it is dropped instead, its call was cut off.
pub struct Lent {
    machine: Option<Reaped<Box<Machine>>>,
    place: usize,
    shared: Arc<Shared>,
    scheduler: Scheduler,
}

/// A copy of a machine's state, or one that is being made.
pub enum Copied {
    Whole(Snapshot),
    InPart(Growing),
}

/// The instance and the place of a machine on loan. It outlives the loan.
#[derive(Clone)]
pub struct Home {
    shared: Arc<Shared>,
    place: usize,
}

impl Home {
    /// Records that `holder` has the machine's suspended call.
    pub fn suspend(&self, holder: LocalPid) {
        self.shared.gate.suspend(self.place, holder);
    }

    /// Records that the machine's call runs again, or is about to be unwound.
    pub fn resume(&self) {
        self.shared.gate.resume(self.place);
    }
}

impl Lent {
    pub(super) fn new(machine: Reaped<Box<Machine>>, place: usize, shared: Arc<Shared>, scheduler: Scheduler) -> Self {
        machine.phase().set(Phase::Opening);
        Self { machine: Some(machine), place, shared, scheduler }
    }

    /// Takes the machine for good. Its place stays lent.
    pub(super) fn take(mut self) -> Reaped<Box<Machine>> {
        self.machine.take().expect("taken only by leave, fail, take and drop")
    }

    pub fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("taken only by leave, fail, take and drop")
    }

    /// Returns at most `most` entries of the log that the machine lacks, or `None` if the log no longer has all of them. Then
    /// `retire` must follow.
    pub fn missing(&mut self, most: usize) -> Option<Vec<Arc<Entry>>> {
        let applied = self.machine().applied();
        self.shared.log.after(applied, most)
    }

    /// Drops a replica that lacks entries which the log no longer has, because the base came meanwhile. The caller must then ask
    /// again.
    pub fn retire(mut self, env: Env) {
        drop(self.machine.take());
        let awaited = self.shared.gate.vacate(self.place);
        self.advance(env, awaited);
    }

    /// Replaces the machine by one with the same state that shares no pages with a snapshot. Returns whether it shared any.
    pub fn settle(&mut self) -> Result<bool, Failure> {
        let shared = self.shared.clone();
        let machine = self.machine();
        if !machine.is_mapped() {
            return Ok(false);
        }
        let (used, charged) = (machine.used(), shared.charged.clone());
        let mut copy = machine.own_copy(&shared.module, &shared.setup, shared.module.carried()?, charged)?;
        copy.set_used(used);
        self.machine = Some(Reaped::new(Box::new(copy)));
        Ok(true)
    }

    /// Applies all entries that the machine lacks, and copies its state, or begins to copy a long one.
    pub fn snapshot(&mut self) -> Result<Copied, Failure> {
        let shared = self.shared.clone();
        let carried = shared.module.carried()?;
        let missing = self.missing(usize::MAX).ok_or_else(|| {
            Failure::new(Kind::Overloaded, "the replica fell behind the base that came meanwhile; try again")
        })?;
        if !missing.is_empty() {
            self.machine().repeat_now(&missing)?;
        }
        Ok(match self.machine().begin_snapshot(carried)? {
            Some(growing) => Copied::InPart(growing),
            None => Copied::Whole(self.machine().snapshot(carried)?),
        })
    }

    /// Replaces the machine by the one that waits to replace it, if the module says so. A module that fails to say it keeps its
    /// machine.
    pub(super) fn renew(&mut self) {
        let Some(mut renewal) = self.shared.pending.take() else { return };
        if matches!(self.machine().says_yes(&renewal.question), Ok(true)) {
            renewal.machine.count_in(self.shared.charged.clone());
            self.machine().count_in(renewal.charged);
            self.machine = Some(renewal.machine);
        }
    }

    /// Renews and returns the machine, on a thread of the host.
    pub(super) fn renew_and_leave(mut self) {
        self.renew();
        if let Some(machine) = self.machine.take() {
            let applied = machine.applied();
            self.shared.gate.leave(self.place, machine, applied);
            self.shared.advance_later();
        }
    }

    pub fn home(&self) -> Home {
        Home { shared: self.shared.clone(), place: self.place }
    }

    /// Returns the machine after a call that ended. If it is to be renewed, a thread of the host does that first.
    pub fn leave(mut self, env: Env) {
        if self.shared.pending.is_set() {
            return background::wake_later(move || self.renew_and_leave());
        }
        if let Some(machine) = self.machine.take() {
            let applied = machine.applied();
            let awaited = self.shared.gate.leave(self.place, machine, applied);
            self.advance(env, awaited);
        }
        // A renewal that came meanwhile found the machine lent.
        if let Some(lent) = self.shared.borrow_to_renew() {
            background::wake_later(move || lent.renew_and_leave());
        }
    }

    /// Returns the machine, unless an entry of the log was applied in part. Then it is dropped and replaced.
    pub fn leave_whole(mut self, env: Env) {
        if self.is_half_changed() {
            drop(self.machine.take());
            let awaited = self.shared.gate.vacate(self.place);
            self.advance(env, awaited);
        } else {
            self.leave(env);
        }
    }

    /// Returns the machine after a call that failed. After a trap or a lack of memory a replica is dropped and replaced: its
    /// memory is not reliable, and may have grown.
    pub fn fail(mut self, env: Env, failure: &Failure) {
        let stopped = matches!(failure.kind, Kind::Trap | Kind::OutOfMemory) || self.is_half_changed();
        if stopped && self.shared.is_pool() {
            drop(self.machine.take());
            let awaited = self.shared.gate.vacate(self.place);
            self.advance(env, awaited);
        } else {
            self.leave(env);
        }
    }

    /// Returns whether the application of an entry failed or was cut off.
    fn is_half_changed(&self) -> bool {
        self.machine.as_ref().is_some_and(|machine| machine.phase().get() == Phase::Replaying)
    }

    fn advance(&self, env: Env, awaited: bool) {
        match self.scheduler {
            Scheduler::Normal if awaited => self.shared.gate.advance(|waiter| waiter.wake(Some(env))),
            Scheduler::Dirty if awaited => self.shared.advance_later(),
            _ => {}
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let is_half_changed = self.is_half_changed();
        let Some(mut machine) = self.machine.take() else { return };
        if !thread::panicking() && !is_half_changed {
            machine.restore_stack_pointer();
            let applied = machine.applied();
            self.shared.gate.leave(self.place, machine, applied);
        } else if self.shared.is_pool() {
            drop(machine);
            self.shared.gate.vacate(self.place);
        } else {
            drop(machine);
            self.shared.gate.condemn("a call of this instance failed inside of the host; make a new instance");
        }
        self.shared.advance_later();
    }
}
