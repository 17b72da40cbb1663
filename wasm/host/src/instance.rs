//! An instance as a resource: its machines behind a gate, and the tickets of the processes that wait for one.
//!
//! An instance in Elixir has one machine of its own, or it is a pool of replicas of one snapshot. Replicas are made when
//! they are needed, and a lost replica is replaced when it is next needed.

use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::thread;

use rustler::env::SavedTerm;
use rustler::{Env, LocalPid, OwnedEnv, Resource, Term};

use crate::failure::{Failure, Kind};
use crate::gate::{Gate, Refusal, Turn};
use crate::machine::{Machine, Setup};
use crate::module::Compiled;
use crate::reaper::{self, Reaped};
use crate::snapshot::Snapshot;
use crate::stage::{Stage, Stages};
use crate::terms::atoms;

pub struct Instance(pub Arc<Shared>);

#[rustler::resource_impl]
impl Resource for Instance {}

pub struct Shared {
    pub gate: Gate<Reaped<Box<Machine>>, Waiter, LocalPid>,
    /// Bytes of memories and tables. A pool counts its snapshot once, and of each replica only the bytes beyond the
    /// snapshot.
    pub charged: Arc<AtomicUsize>,
    pub setup: Setup,
    /// The stage of the call at each place of the gate.
    stages: Stages,
    module: Arc<Compiled>,
    /// The state with which the replicas of a pool begin.
    snapshot: Option<Arc<Snapshot>>,
}

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
        Ok(Arc::new(Self { gate, charged, setup, stages: Stages::new(1), module, snapshot: None }))
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
        Ok(Arc::new(Self { gate, charged, setup, stages: Stages::new(replicas), module, snapshot: Some(snapshot) }))
    }

    /// Lends a machine, if one is free and no other caller has a turn before this one.
    pub fn borrow(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>, scheduler: Scheduler) -> Result<Lent, Denied> {
        let (place, machine) = self.gate.enter(ticket.map(|ticket| ticket.turn), env.pid())?;
        Ok(Lent { machine: Some(machine), place, shared: self.clone(), scheduler })
    }

    /// Makes the replica of a vacant place, and returns a ticket whose turn has come. Takes some ten microseconds and the
    /// time of the module's start function, so it is not for a normal scheduler.
    pub fn fill(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>) -> Result<Ticket, Denied> {
        let place = self.gate.claim(ticket.map(|ticket| ticket.turn), env.pid())?.ok_or(Denied::Busy)?;
        let vacancy = Vacancy { shared: self, place };
        let machine = self.replica().map_err(Denied::Failed)?;
        let turn = vacancy.fill(machine);
        Ok(Ticket { turn, shared: self.clone() })
    }

    fn replica(&self) -> Result<Machine, Failure> {
        let snapshot = self.snapshot.as_ref().expect("only the places of a pool are vacant");
        Machine::replica(&self.module, &self.setup, snapshot, self.charged.clone())
    }

    /// Joins the queue for a machine.
    pub fn queue(self: &Arc<Self>, env: Env, reference: Term) -> Result<Ticket, Failure> {
        let turn = self.gate.join(Waiter::new(env, reference)).ok_or_else(|| {
            let replicas = match self.stages.places() {
                1 => "the 1 replica is".to_owned(),
                count => format!("all {count} replicas are"),
            };
            Failure::new(Kind::Overloaded, format!("{replicas} in use, and as many callers wait as may"))
        })?;
        self.gate.advance(|waiter| waiter.wake(Some(env)));
        Ok(Ticket { turn, shared: self.clone() })
    }

    /// Takes the machine out, so that another instance can have it.
    fn give_up(self: &Arc<Self>, env: Env) -> Result<Reaped<Box<Machine>>, Failure> {
        let mut lent = self.borrow(env, None, Scheduler::Dirty).map_err(|denied| match denied {
            Denied::Failed(failure) => failure,
            Denied::Busy | Denied::Vacant => Failure::new(Kind::Overloaded, "the instance to go on as is in use"),
        })?;
        let machine = lent.machine.take().expect("a machine that was just lent is here");
        self.gate.condemn("another instance goes on as this one");
        self.advance_later();
        Ok(machine)
    }

    fn advance_later(self: &Arc<Self>) {
        let shared = self.clone();
        reaper::wake_later(move || shared.gate.advance(|waiter| waiter.wake(None)));
    }
}

/// A place whose replica is being made. If that fails, dropping this makes the place vacant again.
struct Vacancy<'a> {
    shared: &'a Arc<Shared>,
    place: usize,
}

impl Vacancy<'_> {
    fn fill(self, machine: Machine) -> Turn {
        let turn = self.shared.gate.fill(self.place, Reaped::new(Box::new(machine)));
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

/// A machine on loan. `leave` and `fail` return it. If it is dropped instead, its call was cut off.
pub struct Lent {
    machine: Option<Reaped<Box<Machine>>>,
    place: usize,
    shared: Arc<Shared>,
    scheduler: Scheduler,
}

/// The instance and the place of a machine on loan. It outlives the loan.
#[derive(Clone)]
pub struct Home {
    shared: Arc<Shared>,
    place: usize,
}

impl Home {
    pub fn stage(&self) -> Stage {
        self.shared.stages.get(self.place)
    }

    pub fn enter(&self, stage: Stage) {
        self.shared.stages.set(self.place, stage);
    }

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
    pub fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("taken only by leave, fail and drop")
    }

    pub fn snapshot(&mut self) -> Result<Snapshot, Failure> {
        let shared = self.shared.clone();
        self.machine().snapshot(shared.module.carried()?)
    }

    /// Replaces the machine on loan by the machine of `fresh`, which is unusable afterwards.
    ///
    /// # Errors
    ///
    /// `BadModule` unless both instances have one machine, of the same module and with the same setup; and the errors of a
    /// call of `fresh`.
    pub fn renew(&mut self, env: Env, fresh: &Arc<Shared>) -> Result<(), Failure> {
        let shared = &self.shared;
        let is_alike = Arc::ptr_eq(&shared.module, &fresh.module) && shared.setup == fresh.setup;
        if !is_alike || shared.snapshot.is_some() || fresh.snapshot.is_some() {
            return Err(Failure::bad_module("an instance goes on as one of the same module, with the same options"));
        }
        let mut given = fresh.give_up(env)?;
        given.count_in(shared.charged.clone());
        self.machine().count_in(fresh.charged.clone());
        self.machine = Some(given);
        Ok(())
    }

    pub fn home(&self) -> Home {
        Home { shared: self.shared.clone(), place: self.place }
    }

    /// Returns the machine after a call that ended.
    pub fn leave(mut self, env: Env) {
        if let Some(machine) = self.machine.take() {
            let awaited = self.shared.gate.leave(self.place, machine);
            self.advance(env, awaited);
        }
    }

    /// Returns the machine after a call that failed. After a trap or a lack of memory a replica is dropped and replaced: its
    /// memory is not reliable, and may have grown.
    pub fn fail(mut self, env: Env, failure: &Failure) {
        let stopped = matches!(failure.kind, Kind::Trap | Kind::OutOfMemory);
        if stopped && self.shared.snapshot.is_some() {
            drop(self.machine.take());
            let awaited = self.shared.gate.vacate(self.place);
            self.advance(env, awaited);
        } else {
            self.leave(env);
        }
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
        let Some(mut machine) = self.machine.take() else { return };
        if !thread::panicking() {
            machine.restore_stack_pointer();
            self.shared.gate.leave(self.place, machine);
        } else if self.shared.snapshot.is_some() {
            drop(machine);
            self.shared.gate.vacate(self.place);
        } else {
            drop(machine);
            self.shared.gate.condemn("a call of this instance failed inside of the host; make a new instance");
        }
        self.shared.advance_later();
    }
}

/// A process in the queue. It receives `{reference, :ready}`.
pub struct Waiter {
    pid: LocalPid,
    env: OwnedEnv,
    reference: SavedTerm,
}

impl Waiter {
    fn new(env: Env, reference: Term) -> Self {
        let own = OwnedEnv::new();
        let reference = own.save(reference);
        Self { pid: env.pid(), env: own, reference }
    }

    /// Sends the message, and returns whether the process is alive. `caller` is the environment of the process that runs on
    /// this normal scheduler, or `None` on the host's own threads.
    fn wake(&self, caller: Option<Env>) -> bool {
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
