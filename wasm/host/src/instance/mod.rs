//! An instance as a resource: its machines behind a gate.
//!
//! An instance in Elixir has one machine of its own, or it is a pool of replicas of one snapshot. Replicas are made when
//! they are needed, and a lost replica is replaced when it is next needed. A caller borrows a machine (`loan`), and processes
//! that find none free wait for one with a ticket (`queue`).

pub mod checkout;
mod loan;
pub mod log;
mod queue;
mod renewal;
pub mod stand_in;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::{Env, LocalPid, Resource, Term};

use crate::compile::module::Compiled;
use crate::failure::{Failure, Kind};
use crate::instance::checkout::{Gate, Refusal, Turn};
use crate::instance::log::Log;
use crate::machine::{Machine, Setup};
use crate::memory::snapshot::Snapshot;
use crate::system::background::{self, Reaped};

pub use loan::{Copied, Home, Lent};
pub use queue::Ticket;
use queue::Waiter;
use renewal::{Pending, Renewal};

pub struct Instance(pub Arc<Shared>);

#[rustler::resource_impl]
impl Resource for Instance {}

pub struct Shared {
    pub gate: Gate<Reaped<Box<Machine>>, Waiter, LocalPid>,
    /// Bytes of memories and tables. A pool counts its snapshot once, and of each replica only the bytes beyond the
    /// snapshot.
    pub charged: Arc<AtomicUsize>,
    pub setup: Setup,
    /// The calls that each replica makes before its next call.
    pub log: Log,
    module: Arc<Compiled>,
    /// The machine with which an instance that is no pool goes on when it is free.
    pending: Pending,
    /// The state with which the replicas of a pool begin.
    base: Option<Mutex<Base>>,
}

/// The state with which replicas begin.
#[derive(Clone)]
struct Base {
    snapshot: Arc<Snapshot>,
    /// The number of entries of the log that it contains.
    applied: u64,
    /// Whether each replica gets a copy of its own. The replicas of a first base share its pages until they write them. Changes
    /// write nearly all of them in time, one by one and as small pages, so sharing does not pay for a pool that is changed.
    is_copied: bool,
}

/// A replica that no caller had while this many entries were appended is not kept up to date. With the next base it is dropped.
const IDLE: u64 = 1_024;

/// The scheduler on which a lent machine is used. It decides which thread wakes the next process in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Normal,
    /// A process can be killed while its dirty NIF runs. `enif_send` then fails as if the receiver were dead, and every
    /// waiter would be skipped. So a thread of the host sends the messages.
    Dirty,
}

/// The reason why no machine is available now.
pub enum Denied {
    /// The caller must join the queue.
    Busy,
    /// The caller must make a replica, on a dirty scheduler.
    Vacant,
    Failed(Failure),
}

impl Shared {
    pub fn new(module: Arc<Compiled>, snapshot: Option<&Snapshot>, setup: Setup) -> Result<Arc<Self>, Failure> {
        let charged = Arc::new(AtomicUsize::new(0));
        let machine = match snapshot {
            None => Machine::new(&module, &setup, charged.clone())?,
            Some(snapshot) => {
                module.carried()?;
                Machine::restored(&module, &setup, snapshot, charged.clone())?
            }
        };
        let gate = Gate::single(Reaped::new(Box::new(machine)));
        let log = Log::default();
        let pending = Pending::default();
        Ok(Arc::new(Self { gate, charged, setup, log, module, pending, base: None }))
    }

    /// Returns a pool of up to `replicas` replicas, for which at most `queue` callers wait. It makes none yet.
    pub fn pool(
        module: Arc<Compiled>,
        snapshot: Arc<Snapshot>,
        setup: Setup,
        replicas: usize,
        queue: usize,
    ) -> Result<Arc<Self>, Failure> {
        module.carried()?;
        let charged = Arc::new(AtomicUsize::new(snapshot.length()));
        let gate = Gate::vacant(replicas, queue);
        let log = Log::default();
        let base = Some(Mutex::new(Base { snapshot, applied: 0, is_copied: false }));
        let pending = Pending::default();
        Ok(Arc::new(Self { gate, charged, setup, log, module, pending, base }))
    }

    /// Lends a machine, if one is free and no other caller has a turn before this one.
    pub fn borrow(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>, scheduler: Scheduler) -> Result<Lent, Denied> {
        let (place, mut machine) = self.gate.enter(ticket.map(Ticket::turn), env.pid(), applied)?;
        machine.set_used(self.log.length());
        Ok(Lent::new(machine, place, self.clone(), scheduler))
    }

    /// Lends the free machine that lacks most entries of the log, if it lacks at least `lag` and no caller waits. A machine that
    /// no caller had for a long time does not count.
    pub fn borrow_behind(self: &Arc<Self>, lag: u64) -> Option<Lent> {
        let length = self.log.length();
        let limit = (length + 1).checked_sub(lag.max(1))?;
        let is_idle = |machine: &Reaped<Box<Machine>>| length.saturating_sub(machine.used()) > IDLE;
        let rank = |machine: &Reaped<Box<Machine>>| if is_idle(machine) { u64::MAX } else { machine.applied() };
        let (place, machine) = self.gate.enter_below(limit, rank)?;
        Some(Lent::new(machine, place, self.clone(), Scheduler::Normal))
    }

    /// Lends a free machine that shares pages with a snapshot, if there is one and no caller waits.
    pub fn borrow_mapped(self: &Arc<Self>) -> Option<Lent> {
        let (place, machine) = self.gate.enter_below(1, |machine| u64::from(!machine.is_mapped()))?;
        Some(Lent::new(machine, place, self.clone(), Scheduler::Dirty))
    }

    /// Makes replicas begin with `snapshot` from now on, a later state of this pool, each with a copy of its own. Replicas that
    /// are behind it are dropped, and so are the entries of the log that it contains.
    pub fn rebase(&self, snapshot: Arc<Snapshot>) -> Result<(), Failure> {
        let mut base = self.base().ok_or_else(|| Failure::bad_module("only replicas have a base"))?;
        let applied = snapshot.applied();
        if applied < base.applied || applied > self.log.length() {
            return Err(Failure::bad_module("the snapshot is no later state of these replicas"));
        }
        self.charged.fetch_add(snapshot.length(), Ordering::Relaxed);
        self.charged.fetch_sub(base.snapshot.length(), Ordering::Relaxed);
        let former = std::mem::replace(&mut *base, Base { snapshot, applied, is_copied: true });
        drop(base);
        drop(former);
        self.gate.require(applied, self::applied);
        self.log.trim(applied);
        Ok(())
    }

    fn base(&self) -> Option<MutexGuard<'_, Base>> {
        // No code that can panic runs under this lock.
        self.base.as_ref().map(|base| base.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the number of entries of the log, and the greatest number of them that a free machine lacks.
    pub fn lag(&self) -> (u64, u64) {
        let length = self.log.length();
        let lowest = self.gate.ranks(applied).map_or(length, |(low, _high)| low);
        (length, length.saturating_sub(lowest))
    }

    pub fn is_pool(&self) -> bool {
        self.base.is_some()
    }

    /// Makes the replica of a vacant place, and returns a ticket whose turn has come. Takes some ten microseconds and the
    /// time of the module's start function, so it is not for a normal scheduler.
    pub fn fill(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>) -> Result<Ticket, Denied> {
        let place = self.gate.claim(ticket.map(Ticket::turn), env.pid())?.ok_or(Denied::Busy)?;
        let vacancy = Vacancy { shared: self, place };
        let machine = self.replica().map_err(Denied::Failed)?;
        let turn = vacancy.fill(machine);
        Ok(Ticket::new(turn, self.clone()))
    }

    fn replica(&self) -> Result<Machine, Failure> {
        let base = self.base().expect("only the places of a pool are vacant").clone();
        let make = if base.is_copied { Machine::copied } else { Machine::replica };
        make(&self.module, &self.setup, &base.snapshot, base.applied, self.charged.clone())
    }

    /// Joins the queue for a machine.
    pub fn queue(self: &Arc<Self>, env: Env, reference: Term) -> Result<Ticket, Failure> {
        let turn = self.gate.join(Waiter::new(env, reference)).ok_or_else(|| {
            let replicas = match self.gate.places() {
                1 => "the 1 replica is".to_owned(),
                count => format!("all {count} replicas are"),
            };
            Failure::new(Kind::Overloaded, format!("{replicas} in use, and as many callers wait as may"))
        })?;
        self.gate.advance(|waiter| waiter.wake(Some(env)));
        Ok(Ticket::new(turn, self.clone()))
    }

    /// Goes on with the machine of `fresh`, which is unusable afterwards, if the export `question` returns another value than 0
    /// when no call has the machine: now, or when the call that has it ends.
    ///
    /// # Errors
    ///
    /// `BadModule` unless both instances have one machine, of the same module and with the same setup; and the errors of a
    /// call of `fresh`.
    pub fn renew(self: &Arc<Self>, env: Env, fresh: &Arc<Self>, question: String) -> Result<(), Failure> {
        let is_alike = Arc::ptr_eq(&self.module, &fresh.module) && self.setup == fresh.setup;
        if !is_alike || self.is_pool() || fresh.is_pool() {
            return Err(Failure::bad_module(
                "only an instance of the same module with the same options can replace another one",
            ));
        }
        if Arc::ptr_eq(self, fresh) {
            return Err(Failure::bad_module("an instance cannot replace itself"));
        }
        let machine = fresh.give_up(env)?;
        self.pending.set(Renewal { machine, charged: fresh.charged.clone(), question });
        if let Some(mut lent) = self.borrow_to_renew() {
            lent.renew();
            lent.leave(env);
        }
        Ok(())
    }

    /// Lends the machine if a renewal waits, and no call has the machine and none waits. A call that has it or waits for it
    /// renews it when it ends.
    fn borrow_to_renew(self: &Arc<Self>) -> Option<Lent> {
        if !self.pending.is_set() {
            return None;
        }
        let (place, machine) = self.gate.enter_below(1, |_machine| 0)?;
        Some(Lent::new(machine, place, self.clone(), Scheduler::Dirty))
    }

    /// Takes the machine out, so that another instance can have it.
    fn give_up(self: &Arc<Self>, env: Env) -> Result<Reaped<Box<Machine>>, Failure> {
        let lent = self.borrow(env, None, Scheduler::Dirty).map_err(|denied| match denied {
            Denied::Failed(failure) => failure,
            Denied::Busy | Denied::Vacant => Failure::new(Kind::Overloaded, "another process uses the new instance"),
        })?;
        let machine = lent.take();
        self.gate.condemn("this instance has given its memory to another one");
        self.advance_later();
        Ok(machine)
    }

    fn advance_later(self: &Arc<Self>) {
        let shared = self.clone();
        background::wake_later(move || {
            shared.gate.advance(|waiter| waiter.wake(None));
            // A caller that gave its turn up renews nothing.
            if let Some(lent) = shared.borrow_to_renew() {
                lent.renew_and_leave();
            }
        });
    }
}

fn applied(machine: &Reaped<Box<Machine>>) -> u64 {
    machine.applied()
}

/// A place whose replica is being made. If that fails, dropping this makes the place vacant again.
struct Vacancy<'a> {
    shared: &'a Arc<Shared>,
    place: usize,
}

impl Vacancy<'_> {
    fn fill(self, machine: Machine) -> Turn {
        let applied = machine.applied();
        let turn = self.shared.gate.fill(self.place, Reaped::new(Box::new(machine)), applied);
        std::mem::forget(self);
        turn
    }
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        if self.shared.gate.vacate(self.place) {
            self.shared.advance_later();
        }
    }
}

impl From<Refusal> for Denied {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Busy => Self::Busy,
            Refusal::Vacant => Self::Vacant,
            Refusal::Held => Self::Failed(Failure::new(
                Kind::Overloaded,
                "this process holds a suspended call of this instance; resume it to its end or cancel it first",
            )),
            Refusal::Broken(why) => Self::Failed(Failure::new(Kind::Trap, why)),
        }
    }
}
