//! The NIFs that `BeTree.Runtime.Native` declares and documents: `call` runs calls, `snapshot` copies states, `output` has the queues of messages, the others
//! are here.

mod call;
mod output;
mod snapshot;

use std::sync::atomic::Ordering;
use std::sync::Arc;

use rustler::schedule::consume_timeslice;
use rustler::{Atom, Binary, Encoder, Env, Error, NifResult, ResourceArc, Term};

use snapshot::snapshot_term;

use crate::compile::cache;
use crate::compile::code_folders::Folders;
use crate::compile::engine;
use crate::compile::module::Module;
use crate::failure::Failure;
use crate::instance::checkout::Status;
use crate::instance::stand_in::StandIn;
use crate::instance::{Denied, Instance, Loan, Scheduler, Shared, Ticket};
use crate::machine::{LogEntry, Setup, Step};
use crate::memory::snapshot::{Snapshot, SnapshotResource};
use crate::system::counts;
use crate::system::quota;
use crate::terms::lists;
use crate::terms::{self, atoms};

#[rustler::nif(name = "loaded?")]
fn loaded() -> bool {
    true
}

/// Returns the error for which no module can run on this machine, or `nil`.
#[rustler::nif]
fn engine_error(env: Env) -> Term {
    match engine::get() {
        Ok(_) => atoms::nil().encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

/// The unit of a charge: in percent of a time slice, and in reductions.
const CHARGE_STEP: (i32, u64) = (5, 200);
/// A whole time slice, in percent.
const WHOLE_SLICE: i32 = 100;

#[rustler::nif]
fn charge(env: Env, reductions: u64) -> u64 {
    let (percent, step) = CHARGE_STEP;
    let mut left = reductions;
    while left >= step {
        left -= step;
        if consume_timeslice(env, percent) {
            break;
        }
    }
    left
}

#[rustler::nif]
fn compile<'a>(env: Env<'a>, reference: Term<'a>, digest: Binary<'a>, bytes: Term<'a>, folders: Folders) -> Term<'a> {
    match cache::request(env, reference, &digest, bytes, folders) {
        Ok(Some(module)) => (atoms::ok(), ResourceArc::new(Module(module))).encode(env),
        Ok(None) => atoms::busy().encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

/// Returns the bytes without a copy: the binary refers to the module.
#[rustler::nif]
fn module_bytes<'a>(env: Env<'a>, module: ResourceArc<Module>) -> Binary<'a> {
    module.make_binary(env, |module| module.0.bytes())
}

#[rustler::nif]
fn module_exports<'a>(env: Env<'a>, module: &Module) -> Term<'a> {
    module.0.exports(env)
}

#[rustler::nif]
fn module_imports<'a>(env: Env<'a>, module: &Module) -> Term<'a> {
    module.0.imports(env)
}

#[rustler::nif(schedule = "DirtyCpu")]
fn instantiate<'a>(
    env: Env<'a>,
    module: &Module,
    snapshot: Option<&SnapshotResource>,
    memory: usize,
    inbox: Option<String>,
    outbox: Option<String>,
    stop: Option<String>,
) -> Term<'a> {
    let snapshot = snapshot.map(|held| &*held.0);
    instance_term(env, Shared::new(module.0.clone(), snapshot, Setup { memory, inbox, outbox, stop }))
}

/// Returns the number of entries of the log that a snapshot contains.
#[rustler::nif]
fn snapshot_applied(snapshot: &SnapshotResource) -> u64 {
    snapshot.0.applied()
}

/// Appends an entry to the log of a pool, a list of `{export, integers, input}`. Returns the number of entries.
#[rustler::nif]
fn append<'a>(
    env: Env<'a>,
    instance: &Instance,
    steps: Vec<(Binary<'a>, Vec<i64>, Option<Binary<'a>>)>,
) -> NifResult<Term<'a>> {
    if !instance.0.is_pool() {
        return Ok(terms::error(env, &Failure::bad_module("only replicas have a log")));
    }
    let steps = steps.into_iter().map(|(export, arguments, input)| Step {
        export: export.as_slice().into(),
        arguments,
        input: input.map(|input| input.as_slice().into()),
    });
    Ok((atoms::ok(), instance.0.log.append(LogEntry { steps: steps.collect() })).encode(env))
}

/// Makes a later state of a pool the base of its replicas.
#[rustler::nif]
fn rebase<'a>(env: Env<'a>, instance: &Instance, snapshot: &SnapshotResource) -> Term<'a> {
    match instance.0.rebase(snapshot.0.clone()) {
        Ok(()) => atoms::ok().encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

/// Un-shares one replica: copies the pages that it still maps from its snapshot. Returns whether a free replica mapped
/// any.
#[rustler::nif(schedule = "DirtyCpu")]
fn settle<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>) -> Term<'a> {
    let unshare = |loan: &mut Loan| Ok((atoms::ok(), loan.unshare()?).encode(env));
    if !instance.0.is_pool() {
        return with_machine(env, instance, ticket, unshare);
    }
    let Some(mut loan) = instance.0.borrow_sharing() else { return (atoms::ok(), false).encode(env) };
    let term = unshare(&mut loan).unwrap_or_else(|failure| terms::error(env, &failure));
    loan.give_back(env);
    term
}

/// Returns the length of the log, and the largest number of entries that a free replica lacks.
#[rustler::nif]
fn lag(instance: &Instance) -> (u64, u64) {
    instance.0.lag()
}

#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_of<'a>(env: Env<'a>, length: usize, parts: Vec<(usize, Binary<'a>)>) -> Term<'a> {
    let parts: Vec<(usize, &[u8])> = parts.iter().map(|(address, bytes)| (*address, bytes.as_slice())).collect();
    Snapshot::of(length, &parts)
        .map_or_else(|failure| terms::error(env, &failure), |snapshot| snapshot_term(env, snapshot))
}

#[rustler::nif]
fn snapshot_length(snapshot: &SnapshotResource) -> usize {
    snapshot.0.length()
}

#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot_read<'a>(env: Env<'a>, snapshot: &SnapshotResource, address: usize, length: usize) -> Term<'a> {
    let outcome = snapshot.0.read(address, length).map(|bytes| (atoms::ok(), terms::binary(env, &bytes)).encode(env));
    outcome.unwrap_or_else(|failure| terms::error(env, &failure))
}

#[rustler::nif]
#[allow(clippy::too_many_arguments)]
fn pool<'a>(
    env: Env<'a>,
    module: &Module,
    snapshot: &SnapshotResource,
    memory: usize,
    inbox: Option<String>,
    outbox: Option<String>,
    replicas: usize,
    queue: usize,
) -> Term<'a> {
    let setup = Setup { memory, inbox, outbox, stop: None };
    instance_term(env, Shared::pool(module.0.clone(), snapshot.0.clone(), setup, replicas, queue))
}

fn instance_term(env: Env, shared: Result<Arc<Shared>, Failure>) -> Term {
    match shared {
        Ok(shared) => (atoms::ok(), ResourceArc::new(Instance(shared))).encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

#[rustler::nif(schedule = "DirtyCpu")]
fn fill<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>) -> Term<'a> {
    match instance.0.fill(env, ticket) {
        Ok(ticket) => (atoms::ok(), ResourceArc::new(ticket)).encode(env),
        Err(denied) => deny(env, denied),
    }
}

#[rustler::nif]
fn unpack<'a>(env: Env<'a>, packed: Binary<'a>, end: usize, list: Term<'a>) -> NifResult<(Term<'a>, usize)> {
    let unpacked = lists::unpack(env, packed.as_slice(), end, list).ok_or(Error::BadArg)?;
    consume_timeslice(env, WHOLE_SLICE);
    Ok(unpacked)
}

#[rustler::nif]
fn queue<'a>(env: Env<'a>, instance: &Instance, reference: Term<'a>) -> Term<'a> {
    match instance.0.queue(env, reference) {
        Ok(ticket) => (atoms::ok(), ResourceArc::new(ticket)).encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

#[rustler::nif]
fn withdraw(ticket: &Ticket) -> Atom {
    ticket.withdraw();
    atoms::ok()
}

#[rustler::nif(schedule = "DirtyCpu")]
fn read<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>, address: usize, length: usize) -> Term<'a> {
    with_machine(env, instance, ticket, |loan| {
        let bytes = loan.machine().read(address, length)?;
        Ok((atoms::ok(), terms::binary(env, bytes)).encode(env))
    })
}

#[rustler::nif(schedule = "DirtyCpu")]
fn write<'a>(
    env: Env<'a>,
    instance: &Instance,
    ticket: Option<&Ticket>,
    address: usize,
    bytes: Binary<'a>,
) -> Term<'a> {
    with_machine(env, instance, ticket, |loan| {
        loan.machine().write(address, &bytes)?;
        Ok(atoms::ok().encode(env))
    })
}

/// Replaces the machine by that of `fresh`, now or when it is next free, if the export `question` then agrees.
#[rustler::nif(schedule = "DirtyCpu")]
fn renew<'a>(env: Env<'a>, instance: &Instance, fresh: &Instance, question: String) -> Term<'a> {
    match instance.0.renew(env, &fresh.0, question) {
        Ok(()) => atoms::ok().encode(env),
        Err(failure) => terms::error(env, &failure),
    }
}

#[rustler::nif]
fn place() -> ResourceArc<StandIn> {
    ResourceArc::new(StandIn::default())
}

#[rustler::nif]
fn place_put(place: &StandIn, version: u64, instance: ResourceArc<Instance>) -> Atom {
    place.put(version, instance);
    atoms::ok()
}

#[rustler::nif]
fn place_get<'a>(env: Env<'a>, place: &StandIn, version: u64) -> Term<'a> {
    place.get(version).encode(env)
}

#[rustler::nif]
fn info(instance: &Instance) -> (usize, usize, Atom, usize, usize) {
    let shared = &instance.0;
    let status = match shared.checkout.status() {
        Status::Free => atoms::free(),
        Status::Running => atoms::running(),
        Status::Suspended => atoms::suspended(),
        Status::Broken => atoms::broken(),
    };
    let charged = shared.charged.load(Ordering::Relaxed);
    (charged, shared.setup.memory, status, shared.checkout.waiting(), shared.checkout.filled())
}

#[rustler::nif]
fn counts() -> (usize, usize, usize) {
    (
        counts::MODULES.load(Ordering::Relaxed),
        counts::INSTANCES.load(Ordering::Relaxed),
        counts::SUSPENDED.load(Ordering::Relaxed),
    )
}

#[rustler::nif]
fn taken() -> (usize, usize) {
    (quota::mappings().taken(), quota::descriptors().taken())
}

/// Runs `work` on a borrowed machine, in NIFs on dirty schedulers.
fn with_machine<'a>(
    env: Env<'a>,
    instance: &Instance,
    ticket: Option<&Ticket>,
    work: impl FnOnce(&mut Loan) -> Result<Term<'a>, Failure>,
) -> Term<'a> {
    match instance.0.borrow(env, ticket, Scheduler::Dirty) {
        Ok(mut loan) => {
            let term = work(&mut loan).unwrap_or_else(|failure| terms::error(env, &failure));
            loan.give_back_or_discard(env);
            term
        }
        Err(denied) => deny(env, denied),
    }
}

fn deny(env: Env, denied: Denied) -> Term {
    match denied {
        Denied::Busy => atoms::busy().encode(env),
        Denied::Vacant => atoms::vacant().encode(env),
        Denied::Failed(failure) => terms::error(env, &failure),
    }
}
