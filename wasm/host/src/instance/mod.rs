//! An instance, as a resource: one machine or a pool of replicas, which calls borrow.
//!
//! A pool makes its replicas of a snapshot on demand, and replaces a lost replica on demand too. `checkout` lends
//! machines to callers in order, `loan` is a machine on loan, and a `ticket` is the turn of a waiting process.
//! `log` has the changes that replicas apply before their next call. `renewal` replaces the machine of an instance by a
//! new one, and `stand_in` holds an instance that replaces another one for a while.

pub mod checkout;
mod loan;
pub mod log;
mod renewal;
pub mod stand_in;
mod ticket;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::{Env, LocalPid, Resource, Term};

use crate::compile::module::Compiled;
use crate::failure::{Failure, Kind};
use crate::instance::checkout::{Checkout, Turn, Unavailable};
use crate::instance::log::Log;
use crate::machine::{Machine, Setup};
use crate::memory::snapshot::Snapshot;
use crate::system::background::{self, DropLater};
use crate::terms::{atoms, reply::Receiver};

pub use loan::{Copied, Loan, LoanPlace};
use renewal::{Pending, Renewal};
pub use ticket::Ticket;

pub struct Instance(pub Arc<Shared>);

#[rustler::resource_impl]
impl Resource for Instance {}

pub struct Shared {
    pub checkout: Checkout<DropLater<Box<Machine>>, Receiver, LocalPid>,
    /// Bytes of memories and tables. A pool counts its snapshot once, and the bytes of each replica beyond it.
    pub charged: Arc<AtomicUsize>,
    pub setup: Setup,
    /// The changes that each replica applies before its next call.
    pub log: Log,
    module: Arc<Compiled>,
    /// The machine that will replace the present one, in an instance that is no pool.
    pending: Pending,
    /// The initial state of replicas, in a pool.
    base: Option<Mutex<Base>>,
}

/// The initial state of new replicas.
#[derive(Clone)]
struct Base {
    snapshot: Arc<Snapshot>,
    /// The number of log entries that the snapshot contains.
    applied: u64,
    /// Whether each replica copies the snapshot. The replicas of the first base map its pages copy-on-write. In a pool
    /// that is changed that does not pay: in time changes write nearly all pages, one by one and as small pages.
    is_copied: bool,
}

/// The most entries that may be appended while no caller borrows a replica. A longer idle replica is not kept up to
/// date, and the next base drops it.
const MAX_IDLE_ENTRIES: u64 = 1_024;

/// The scheduler that uses a borrowed machine. It decides which thread wakes the next process in the queue.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scheduler {
    Normal,
    /// A process can be killed while its dirty NIF runs. `enif_send` then fails as if the receiver were dead, which
    /// would skip every waiter. So the waker's thread sends the messages.
    Dirty,
}

/// The reason why no machine is available now.
pub enum Denied {
    /// No machine is free: the caller must join the queue.
    Busy,
    /// The caller must call `fill`, on a dirty scheduler.
    Vacant,
    Failed(Failure),
}

impl Shared {
    pub fn new(module: Arc<Compiled>, snapshot: Option<&Snapshot>, setup: Setup) -> Result<Arc<Self>, Failure> {
        let charged = Arc::new(AtomicUsize::new(0));
        let machine = match snapshot {
            None => Machine::new(&module, &setup, charged.clone())?,
            Some(snapshot) => {
                module.saved_globals()?;
                Machine::restored(&module, &setup, snapshot, charged.clone())?
            }
        };
        let checkout = Checkout::single(DropLater::new(Box::new(machine)));
        let log = Log::default();
        let pending = Pending::default();
        Ok(Arc::new(Self { checkout, charged, setup, log, module, pending, base: None }))
    }

    /// Returns a pool of at most `replicas` replicas and `queue` waiting callers. It has no replica yet.
    pub fn pool(
        module: Arc<Compiled>,
        snapshot: Arc<Snapshot>,
        setup: Setup,
        replicas: usize,
        queue: usize,
    ) -> Result<Arc<Self>, Failure> {
        module.saved_globals()?;
        let charged = Arc::new(AtomicUsize::new(snapshot.length()));
        let checkout = Checkout::vacant(replicas, queue);
        let log = Log::default();
        let base = Some(Mutex::new(Base { snapshot, applied: 0, is_copied: false }));
        let pending = Pending::default();
        Ok(Arc::new(Self { checkout, charged, setup, log, module, pending, base }))
    }

    /// Lends a machine, unless none is free or another caller's turn comes first.
    pub fn borrow(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>, scheduler: Scheduler) -> Result<Loan, Denied> {
        let (place, mut machine) = self.checkout.check_out(ticket.map(Ticket::turn), env.pid(), applied)?;
        machine.set_used(self.log.length());
        Ok(Loan::new(machine, place, self.clone(), scheduler))
    }

    /// Lends the free machine that lacks most entries of the log, if it lacks at least `lag` and no caller waits.
    /// Ignores idle machines (`MAX_IDLE_ENTRIES`).
    pub fn borrow_behind(self: &Arc<Self>, lag: u64) -> Option<Loan> {
        let length = self.log.length();
        let limit = (length + 1).checked_sub(lag.max(1))?;
        let is_idle = |machine: &DropLater<Box<Machine>>| length.saturating_sub(machine.used()) > MAX_IDLE_ENTRIES;
        let rank = |machine: &DropLater<Box<Machine>>| if is_idle(machine) { u64::MAX } else { machine.applied() };
        let (place, machine) = self.checkout.check_out_below(limit, rank)?;
        Some(Loan::new(machine, place, self.clone(), Scheduler::Normal))
    }

    /// Lends a free machine that maps pages of a snapshot, if one exists and no caller waits.
    pub fn borrow_sharing(self: &Arc<Self>) -> Option<Loan> {
        let (place, machine) = self.checkout.check_out_below(1, |machine| u64::from(!machine.shares_pages()))?;
        Some(Loan::new(machine, place, self.clone(), Scheduler::Dirty))
    }

    /// Makes `snapshot`, a later state of this pool, the base of new replicas. New replicas copy the base. Drops replicas
    /// behind the base, and the entries of the log that the base contains.
    pub fn rebase(&self, snapshot: Arc<Snapshot>) -> Result<(), Failure> {
        let mut base = self.base().ok_or_else(|| Failure::bad_module("only replicas have a base"))?;
        let applied = snapshot.applied();
        if applied < base.applied || applied > self.log.length() {
            return Err(Failure::bad_module("the snapshot is not a later state of these replicas"));
        }
        self.charged.fetch_add(snapshot.length(), Ordering::Relaxed);
        self.charged.fetch_sub(base.snapshot.length(), Ordering::Relaxed);
        let former = std::mem::replace(&mut *base, Base { snapshot, applied, is_copied: true });
        drop(base);
        drop(former);
        self.checkout.drop_below(applied, self::applied);
        self.log.trim(applied);
        Ok(())
    }

    fn base(&self) -> Option<MutexGuard<'_, Base>> {
        // No code that can panic runs under this lock.
        self.base.as_ref().map(|base| base.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the length of the log, and the largest number of entries that a free machine lacks.
    pub fn lag(&self) -> (u64, u64) {
        let length = self.log.length();
        let lowest = self.checkout.ranks(applied).map_or(length, |(low, _high)| low);
        (length, length.saturating_sub(lowest))
    }

    pub fn is_pool(&self) -> bool {
        self.base.is_some()
    }

    /// Makes the replica of a vacant place. Returns a ticket whose turn has come. Runs the module's start function, so
    /// it must run on a dirty scheduler.
    pub fn fill(self: &Arc<Self>, env: Env, ticket: Option<&Ticket>) -> Result<Ticket, Denied> {
        let place = self.checkout.claim(ticket.map(Ticket::turn), env.pid())?.ok_or(Denied::Busy)?;
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
        let turn = self.checkout.join(Receiver::new(env, reference)).ok_or_else(|| {
            let replicas = match self.checkout.places() {
                1 => "the 1 replica is".to_owned(),
                count => format!("all {count} replicas are"),
            };
            Failure::new(
                Kind::Overloaded,
                format!("{replicas} in use, and the queue of waiting callers is full; try again later"),
            )
        })?;
        self.checkout.advance(|waiter| waiter.send(Some(env), &atoms::ready()));
        Ok(Ticket::new(turn, self.clone()))
    }

    /// Replaces the machine by that of `fresh` as soon as no call has it, if its export `question` then returns a value
    /// other than 0. `fresh` is unusable afterwards.
    ///
    /// # Errors
    ///
    /// `BadModule` unless both instances have one machine, of the same module and with the same setup; and the errors of a
    /// call of `fresh`.
    pub fn renew(self: &Arc<Self>, env: Env, fresh: &Arc<Self>, question: String) -> Result<(), Failure> {
        let is_alike = Arc::ptr_eq(&self.module, &fresh.module) && self.setup == fresh.setup;
        if !is_alike || self.is_pool() || fresh.is_pool() {
            return Err(Failure::bad_module(
                "an instance can be replaced only by an instance of the same module with the same options",
            ));
        }
        if Arc::ptr_eq(self, fresh) {
            return Err(Failure::bad_module("an instance cannot replace itself"));
        }
        let machine = fresh.take_machine(env)?;
        self.pending.set(Renewal { machine, charged: fresh.charged.clone(), question });
        if let Some(mut loan) = self.borrow_to_renew() {
            loan.renew();
            loan.give_back(env);
        }
        Ok(())
    }

    /// Lends the machine for a pending renewal if it is free and no caller waits. Otherwise the next call renews it
    /// when it ends.
    fn borrow_to_renew(self: &Arc<Self>) -> Option<Loan> {
        if !self.pending.is_set() {
            return None;
        }
        let (place, machine) = self.checkout.check_out_below(1, |_machine| 0)?;
        Some(Loan::new(machine, place, self.clone(), Scheduler::Dirty))
    }

    /// Takes the machine out, for another instance.
    fn take_machine(self: &Arc<Self>, env: Env) -> Result<DropLater<Box<Machine>>, Failure> {
        let loan = self.borrow(env, None, Scheduler::Dirty).map_err(|denied| match denied {
            Denied::Failed(failure) => failure,
            Denied::Busy | Denied::Vacant => Failure::new(Kind::Overloaded, "another process uses the new instance"),
        })?;
        let machine = loan.take();
        self.checkout.poison("this instance has given its memory to another one");
        self.advance_later();
        Ok(machine)
    }

    fn advance_later(self: &Arc<Self>) {
        let shared = self.clone();
        background::wake_later(move || {
            shared.checkout.advance(|waiter| waiter.send(None, &atoms::ready()));
            // A caller that withdrew its turn has made no renewal.
            if let Some(loan) = shared.borrow_to_renew() {
                loan.renew_and_give_back();
            }
        });
    }
}

fn applied(machine: &DropLater<Box<Machine>>) -> u64 {
    machine.applied()
}

/// A reserved place whose replica is being made. Dropping it vacates the place again.
struct Vacancy<'a> {
    shared: &'a Arc<Shared>,
    place: usize,
}

impl Vacancy<'_> {
    fn fill(self, machine: Machine) -> Turn {
        let applied = machine.applied();
        let turn = self.shared.checkout.fill(self.place, DropLater::new(Box::new(machine)), applied);
        std::mem::forget(self);
        turn
    }
}

impl Drop for Vacancy<'_> {
    fn drop(&mut self) {
        if self.shared.checkout.vacate(self.place) {
            self.shared.advance_later();
        }
    }
}

impl From<Unavailable> for Denied {
    fn from(refusal: Unavailable) -> Self {
        match refusal {
            Unavailable::Busy => Self::Busy,
            Unavailable::Vacant => Self::Vacant,
            Unavailable::Held => Self::Failed(Failure::new(
                Kind::Overloaded,
                "this process holds a suspended call of this instance; resume it to its end or cancel it first",
            )),
            Unavailable::Broken(why) => Self::Failed(Failure::new(Kind::Trap, why)),
        }
    }
}
