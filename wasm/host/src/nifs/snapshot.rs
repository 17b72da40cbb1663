//! The NIFs that copy the state of an instance.
//!
//! A long memory is copied in chunks on normal schedulers, because a dirty scheduler would take a processor away from
//! one of them for the whole copy. The machine stays on loan meanwhile. If the process ends, the copy is dropped and
//! the machine returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::schedule::consume_timeslice;
use rustler::{Encoder, Env, Resource, ResourceArc, Term};

use super::{deny, WHOLE_SLICE};
use crate::failure::{Failure, Kind};
use crate::instance::{Copied, Instance, Loan, Scheduler, Ticket};
use crate::memory::snapshot::{Growing, Snapshot, SnapshotResource};
use crate::terms::{self, atoms};

/// The bytes that are copied in one NIF call, in some 50 microseconds.
const SNAPSHOT_CHUNK: usize = 128 << 10;

/// A copy in progress, and the machine that it copies.
pub struct Copying(Mutex<Option<(Loan, Growing)>>);

#[rustler::resource_impl]
impl Resource for Copying {}

impl Copying {
    fn state(&self) -> MutexGuard<'_, Option<(Loan, Growing)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `{:ok, snapshot}`, or `{:more, copying}` for `snapshot_more`.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>) -> Term<'a> {
    let mut loan = match instance.0.borrow(env, ticket, Scheduler::Dirty) {
        Ok(loan) => loan,
        Err(denied) => return deny(env, denied),
    };
    match loan.snapshot() {
        Ok(Copied::InPart(growing)) => {
            (atoms::more(), ResourceArc::new(Copying(Mutex::new(Some((loan, growing)))))).encode(env)
        }
        Ok(Copied::Whole(snapshot)) => {
            loan.give_back_or_discard(env);
            snapshot_term(env, snapshot)
        }
        Err(failure) => {
            loan.give_back_or_discard(env);
            terms::error(env, &failure)
        }
    }
}

/// Copies the next chunk.
#[rustler::nif]
fn snapshot_more(env: Env, copying: ResourceArc<Copying>) -> Term {
    let Some((mut loan, mut growing)) = copying.state().take() else {
        return terms::error(env, &Failure::new(Kind::NotFound, "there is nothing to copy: the snapshot is complete"));
    };
    consume_timeslice(env, WHOLE_SLICE);
    match loan.machine().grow_snapshot(&mut growing, SNAPSHOT_CHUNK) {
        Ok(false) => {
            *copying.state() = Some((loan, growing));
            (atoms::more(), copying).encode(env)
        }
        Ok(true) => {
            loan.give_back_or_discard(env);
            growing.finish().map_or_else(|failure| terms::error(env, &failure), |snapshot| snapshot_term(env, snapshot))
        }
        Err(failure) => {
            loan.give_back_or_discard(env);
            terms::error(env, &failure)
        }
    }
}

pub(super) fn snapshot_term(env: Env, snapshot: Snapshot) -> Term {
    (atoms::ok(), ResourceArc::new(SnapshotResource(Arc::new(snapshot)))).encode(env)
}
