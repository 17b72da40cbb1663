//! An instance as a resource, its machines behind a gate, and the tickets of those who wait for them.
//!
//! What Elixir calls an instance has one machine of its own, or it is a pool: replicas of one snapshot, which are made
//! when they are needed, and made again where one is lost.

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
    /// Bytes of memories and tables. Of replicas, those beyond the snapshot, which is counted once.
    pub charged: Arc<AtomicUsize>,
    pub setup: Setup,
    /// Of the call at each place of the gate.
    stages: Stages,
    module: Arc<Compiled>,
    /// What the replicas of a pool begin with.
    snapshot: Option<Arc<Snapshot>>,
}

/// Where a machine on loan is used, which decides who tells the next in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Normal,
    /// A process can be killed while its dirty NIF runs, and then can send nothing: `enif_send` fails as if the receiver
    /// were dead, and every waiter would be passed over. So a thread of the host's own tells.
    Dirty,
}

/// Why no machine can be had now.
pub enum Denied {
    /// The caller has to queue.
    Busy,
    /// The caller has to make a replica, on a dirty scheduler.
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

    /// A pool of up to `replicas`, for which at most `queue` callers wait. Makes none yet.
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

    /// Takes a machine, if one is free and nobody is before the caller.
    pub fn borrow(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>, scheduler: Scheduler) -> Result<Lent, Denied> {
        let (place, machine) = self.gate.enter(ticket.map(|ticket| ticket.turn), env.pid())?;
        Ok(Lent { machine: Some(machine), place, shared: self.clone(), scheduler })
    }

    /// Makes the replica of a vacant place, and answers a ticket whose turn has come. Takes some ten microseconds, and as
    /// long as the module's start function: not for a normal scheduler.
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

    /// Joins the queue of those who wait for a machine.
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

    /// The one machine, for another instance to have.
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

/// A place whose replica is being made. Where that fails, the place is as vacant as before.
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

/// A machine on loan. It goes back through `leave` or `fail`; where it is dropped instead, its call was cut short.
pub struct Lent {
    machine: Option<Reaped<Box<Machine>>>,
    place: usize,
    shared: Arc<Shared>,
    scheduler: Scheduler,
}

/// Where a machine on loan came from: what outlives the loan.
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

    /// The machine's call is suspended, and `holder` has it.
    pub fn suspend(&self, holder: LocalPid) {
        self.shared.gate.suspend(self.place, holder);
    }

    /// The machine's call goes on, or is about to be unwound.
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

    /// Puts the machine of `fresh` in the place of the one on loan. Nobody can use `fresh` afterwards.
    ///
    /// # Errors
    ///
    /// `BadModule` unless both have one machine, of the same module and with the same setup; else those of a call of
    /// `fresh`.
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

    /// Gives the machine back after a call that ended.
    pub fn leave(mut self, env: Env) {
        if let Some(machine) = self.machine.take() {
            let awaited = self.shared.gate.leave(self.place, machine);
            self.advance(env, awaited);
        }
    }

    /// Gives the machine back after a call that failed. A replica that stopped itself is not to be trusted with what its
    /// memory has become, and may have grown: it makes way for a new one.
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

/// A process in the queue; it is sent `{reference, :ready}`.
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

    /// Answers whether the process is there to be told. `caller` is the environment of the process that runs on this
    /// normal scheduler, or nothing on the host's own threads.
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

/// A place in the queue as a resource: a waiter that dies takes it along, and so gives its turn up.
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
