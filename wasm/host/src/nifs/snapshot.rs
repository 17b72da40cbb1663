//! The functions that copy the state of an instance.
//!
//! A long memory is copied in parts on normal schedulers: a thread of a dirty scheduler would take a processor from one of them
//! for as long as the copy takes. The machine is lent meanwhile. If the process ends, the copy is dropped and the machine
//! returns.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustler::schedule::consume_timeslice;
use rustler::{Encoder, Env, Resource, ResourceArc, Term};

use super::{deny, WHOLE};
use crate::failure::{Failure, Kind};
use crate::instance::{Copied, Instance, Lent, Scheduler, Ticket};
use crate::memory::snapshot::{Growing, Held, Snapshot};
use crate::terms::{self, atoms};

/// The bytes that are copied at a time: some 50 microseconds.
const COPIED: usize = 128 << 10;

/// A copy that is being made, and the machine that is copied.
pub struct Copying(Mutex<Option<(Lent, Growing)>>);

#[rustler::resource_impl]
impl Resource for Copying {}

impl Copying {
    fn state(&self) -> MutexGuard<'_, Option<(Lent, Growing)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns `{:ok, snapshot}`, or `{:more, copying}` for `snapshot_more`.
#[rustler::nif(schedule = "DirtyCpu")]
fn snapshot<'a>(env: Env<'a>, instance: &Instance, ticket: Option<&Ticket>) -> Term<'a> {
    let mut lent = match instance.0.borrow(env, ticket, Scheduler::Dirty) {
        Ok(lent) => lent,
        Err(denied) => return deny(env, denied),
    };
    match lent.snapshot() {
        Ok(Copied::InPart(growing)) => {
            (atoms::more(), ResourceArc::new(Copying(Mutex::new(Some((lent, growing)))))).encode(env)
        }
        Ok(Copied::Whole(snapshot)) => {
            lent.leave_whole(env);
            held(env, snapshot)
        }
        Err(failure) => {
            lent.leave_whole(env);
            terms::error(env, &failure)
        }
    }
}

/// Copies the next part.
#[rustler::nif]
fn snapshot_more(env: Env, copying: ResourceArc<Copying>) -> Term {
    let Some((mut lent, mut growing)) = copying.state().take() else {
        return terms::error(env, &Failure::new(Kind::NotFound, "there is nothing to copy: the copy is made"));
    };
    consume_timeslice(env, WHOLE);
    match lent.machine().grow_snapshot(&mut growing, COPIED) {
        Ok(false) => {
            *copying.state() = Some((lent, growing));
            (atoms::more(), copying).encode(env)
        }
        Ok(true) => {
            lent.leave_whole(env);
            growing.finish().map_or_else(|failure| terms::error(env, &failure), |snapshot| held(env, snapshot))
        }
        Err(failure) => {
            lent.leave_whole(env);
            terms::error(env, &failure)
        }
    }
}

pub(super) fn held(env: Env, snapshot: Snapshot) -> Term {
    (atoms::ok(), ResourceArc::new(Held(Arc::new(snapshot)))).encode(env)
}
