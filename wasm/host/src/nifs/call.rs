//! The NIFs that begin, resume and cancel calls.

use rustler::schedule::consume_timeslice;
use rustler::{Atom, Binary, Encoder, Env, ResourceArc, Term};
use wasmtime::Val;

use super::{deny, WHOLE_SLICE};
use crate::calls::call::{Call, Ended, Slice};
use crate::calls::suspended::Suspended;
use crate::failure::Failure;
use crate::instance::{Instance, Scheduler, Ticket};
use crate::machine::stop::Reason;
use crate::machine::{Done, Machine, Order, Request, OPENING_SLICE};
use crate::terms::lists;
use crate::terms::{self, atoms, Bytes, Output};

#[rustler::nif]
fn call<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>, request: Request<'a>) -> Term<'a> {
    begin(env, Scheduler::Normal, instance, ticket, &request)
}

#[rustler::nif(schedule = "DirtyCpu")]
fn change<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>, request: Request<'a>) -> Term<'a> {
    begin(env, Scheduler::Dirty, instance, ticket, &request)
}

fn begin<'a>(
    env: Env<'a>,
    scheduler: Scheduler,
    instance: &Instance,
    ticket: Option<&Ticket>,
    request: &Request<'a>,
) -> Term<'a> {
    let mut loan = match instance.0.borrow(env, ticket, scheduler) {
        Ok(loan) => loan,
        Err(denied) => return deny(env, denied),
    };
    let Some(missing) = loan.missing(usize::MAX) else {
        loan.discard(env);
        return atoms::busy().encode(env);
    };
    let call = match loan.machine().prepare(missing, request) {
        Ok(order) => Call::new(loan, order, request.output),
        Err(failure) => {
            loan.give_back(env);
            return terms::error(env, &failure);
        }
    };
    first_slice(env, call)
}

fn first_slice(env: Env, mut call: Call) -> Term {
    let output = call.output();
    match call.run_slice() {
        Slice::Yielded => {
            let used = suspend(env, &call);
            (atoms::r#yield(), ResourceArc::new(Suspended::new(call)), used).encode(env)
        }
        Slice::Ended(ended) => end(env, ended, output),
        Slice::Lost(failure) => terms::error(env, &failure),
    }
}

/// Applies at most `max` log entries to the free replica that lacks most entries, if it lacks at least `lag`.
#[rustler::nif]
fn catch_up<'a>(env: Env<'a>, instance: &Instance, lag: u64, max: usize) -> Term<'a> {
    let Some(mut loan) = instance.0.borrow_behind(lag) else { return atoms::none().encode(env) };
    let Some(missing) = loan.missing(max) else {
        loan.discard(env);
        return atoms::none().encode(env);
    };
    first_slice(env, Call::new(loan, Order::replay_only(missing), Output::None))
}

/// Suspends a call. Returns the metered fuel so far, for which Elixir charges the process. Charges a time slice here
/// for a slice that is not metered, which allocated or copied; otherwise the process would keep its scheduler for
/// thousands of slices.
fn suspend(env: Env, call: &Call) -> u64 {
    call.home().suspend(env.pid());
    if !call.is_metered() {
        consume_timeslice(env, WHOLE_SLICE);
    }
    call.used()
}

#[rustler::nif]
fn resume(env: Env, suspended: ResourceArc<Suspended>, stop: u32) -> Term {
    go_on(env, suspended, Reason::from_code(stop))
}

#[rustler::nif(schedule = "DirtyCpu")]
fn resume_change(env: Env, suspended: ResourceArc<Suspended>, stop: u32) -> Term {
    go_on(env, suspended, Reason::from_code(stop))
}

/// Runs the next slice of a call. With a reason to stop, first asks the call to give up.
fn go_on(env: Env, suspended: ResourceArc<Suspended>, stop: Option<Reason>) -> Term {
    let mut call = match suspended.take() {
        Ok(call) => call,
        Err(failure) => return terms::error(env, &failure),
    };
    if let Some(reason) = stop {
        call.ask_to_stop(reason);
    }
    call.home().resume();
    let output = call.output();
    match call.run_slice() {
        Slice::Yielded => {
            let used = suspend(env, &call);
            match suspended.put_back(call) {
                Ok(()) => (atoms::r#yield(), suspended, used).encode(env),
                Err(failure) => terms::error(env, &failure),
            }
        }
        Slice::Ended(ended) => {
            suspended.end();
            end(env, ended, output)
        }
        Slice::Lost(failure) => {
            suspended.end();
            terms::error(env, &failure)
        }
    }
}

#[rustler::nif]
fn cancel(suspended: &Suspended) -> Atom {
    suspended.cancel();
    atoms::ok()
}

/// Returns `{:done, results, output, fuel}` or an error. The machine returns to its instance.
fn end<'a>(env: Env<'a>, (mut loan, outcome): Ended, output: Output) -> Term<'a> {
    charge_replay(env, loan.machine().take_uncharged_fuel());
    match outcome.and_then(|outcome| done(env, loan.machine(), output, outcome)) {
        Ok(term) => {
            loan.give_back(env);
            term
        }
        Err(failure) => {
            loan.fail(env, &failure);
            terms::error(env, &failure)
        }
    }
}

/// Charges the process for the fuel of log entries since the last yield, which charged a whole time slice.
fn charge_replay(env: Env, fuel: u64) {
    let percent = fuel % OPENING_SLICE * WHOLE_SLICE as u64 / OPENING_SLICE;
    if percent > 0 {
        consume_timeslice(env, percent as i32);
    }
}

fn done<'a>(env: Env<'a>, machine: &Machine, output: Output, done: Done) -> Result<Term<'a>, Failure> {
    let refused = machine.results().first().and_then(Val::i32).is_some_and(|status| status != 0);
    let bytes = || match done.output {
        Some(binary) => Ok(Bytes::Copied(Binary::from_owned(binary, env))),
        None => machine.output().map(Bytes::InMemory),
    };
    let output = match output {
        Output::None => atoms::nil().encode(env),
        Output::U64s if !refused => lists::u64s(env, &bytes()?)?,
        Output::U64Lists if !refused => lists::u64_lists(env, &bytes()?)?,
        Output::U64Binaries if !refused => lists::u64_binaries(env, &bytes()?)?,
        _ => bytes()?.binary(env),
    };
    Ok((atoms::done(), terms::results(env, machine.results()), output, done.fuel).encode(env))
}
