//! An instance as a resource, its machine behind a gate, and the tickets of those who wait for it.

use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::Arc;
use std::thread;

use rustler::env::SavedTerm;
use rustler::{Env, LocalPid, OwnedEnv, Resource, Term};

use crate::failure::{Failure, Kind};
use crate::gate::{Gate, Refusal, Turn};
use crate::machine::{Machine, Setup};
use crate::module::Compiled;
use crate::reaper::{self, Reaped};
use crate::terms::atoms;

pub struct Instance(pub Arc<Shared>);

#[rustler::resource_impl]
impl Resource for Instance {}

pub struct Shared {
    pub gate: Gate<Reaped<Box<Machine>>, Waiter, LocalPid>,
    /// Bytes of memories and tables.
    pub charged: Arc<AtomicUsize>,
    pub limit: usize,
    /// Whether the call that runs now has begun to use the fuel that counts.
    pub metered: AtomicBool,
}

/// Where a machine on loan is used, which decides who tells the next in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Normal,
    /// A process can be killed while its dirty NIF runs, and then can send nothing: `enif_send` fails as if the receiver
    /// were dead, and every waiter would be passed over. So the reaper tells.
    Dirty,
}

/// Why the machine cannot be had now.
pub enum Denied {
    /// The caller has to queue.
    Busy,
    Failed(Failure),
}

impl Shared {
    pub fn new(module: &Compiled, setup: &Setup) -> Result<Arc<Self>, Failure> {
        let charged = Arc::new(AtomicUsize::new(0));
        let machine = Machine::new(module, setup, charged.clone())?;
        Ok(Arc::new(Self {
            gate: Gate::new(Reaped::new(Box::new(machine))),
            charged,
            limit: setup.memory,
            metered: AtomicBool::new(false),
        }))
    }

    /// Takes the machine, if it is free and nobody is before the caller.
    pub fn borrow(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>, scheduler: Scheduler) -> Result<Lent, Denied> {
        match self.gate.enter(ticket.map(|ticket| ticket.turn)) {
            Ok(machine) => Ok(Lent { machine: Some(machine), shared: self.clone(), scheduler }),
            Err(Refusal::Busy) => Err(Denied::Busy),
            Err(Refusal::Suspended(holder)) if holder == env.pid() => Err(Denied::Failed(Failure::new(
                Kind::Overloaded,
                "this process holds a suspended call of this instance; resume it to its end or cancel it first",
            ))),
            Err(Refusal::Suspended(_)) => Err(Denied::Busy),
            Err(Refusal::Broken(why)) => Err(Denied::Failed(Failure::new(Kind::Trap, why))),
        }
    }

    /// Joins the queue of those who wait for the machine.
    pub fn queue(self: &Arc<Self>, env: Env, reference: Term) -> Ticket {
        let turn = self.gate.join(Waiter::new(env, reference));
        self.gate.advance(|waiter| waiter.wake(Some(env)));
        Ticket { turn, shared: self.clone() }
    }

    fn advance_later(self: &Arc<Self>) {
        let shared = self.clone();
        reaper::later(move || shared.gate.advance(|waiter| waiter.wake(None)));
    }
}

/// A machine on loan. It goes back through `leave`; where it is dropped instead, its call was cut short.
pub struct Lent {
    machine: Option<Reaped<Box<Machine>>>,
    shared: Arc<Shared>,
    scheduler: Scheduler,
}

impl Lent {
    pub fn machine(&mut self) -> &mut Machine {
        self.machine.as_mut().expect("taken only by leave and drop")
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Gives the machine back after a call that ended.
    pub fn leave(mut self, env: Env) {
        if let Some(machine) = self.machine.take() {
            let awaited = self.shared.gate.leave(machine);
            match self.scheduler {
                Scheduler::Normal if awaited => self.shared.gate.advance(|waiter| waiter.wake(Some(env))),
                Scheduler::Dirty if awaited => self.shared.advance_later(),
                _ => {}
            }
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut machine) = self.machine.take() else { return };
        if thread::panicking() {
            self.shared.gate.condemn("a call of this instance failed inside of the host; make a new instance");
            drop(machine);
        } else {
            machine.restore_stack_pointer();
            self.shared.gate.leave(machine);
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

impl Drop for Ticket {
    fn drop(&mut self) {
        if self.shared.gate.forfeit(self.turn) {
            self.shared.advance_later();
        }
    }
}
