//! What is measured.

mod a_tree;
mod bits;
mod guest;
mod index;
mod quamina;
mod scan;

use std::time::{Duration, Instant};

use crate::measure::Engine;
use crate::workload::Workload;

/// What engines are built from.
pub struct Context<'a> {
    workload: &'a Workload,
    guests: guest::Guests,
    slice: u64,
    build_limit: Duration,
}

impl<'a> Context<'a> {
    /// `guest` is the sandboxed module, `slice` the fuel of a slice; what takes longer than `build_limit` to build is
    /// left out.
    pub fn new(workload: &'a Workload, guest: Vec<u8>, slice: u64, build_limit: Duration) -> Self {
        Context { workload, guests: guest::Guests::new(guest), slice, build_limit }
    }
}

/// Why an engine is not there.
pub enum Unavailable {
    /// It is not for this workload: its language lacks something, or it takes too long to build.
    Skipped(String),
    /// It should have worked.
    Failed(String),
}

impl From<String> for Unavailable {
    fn from(message: String) -> Self {
        Unavailable::Failed(message)
    }
}

type Built<'a> = Box<dyn Engine + 'a>;

/// Builds the engine called `name`, `engine:format`, over the workload; answers how long that took.
pub fn build<'a>(name: &str, context: &mut Context<'a>) -> Result<(Built<'a>, Duration), Unavailable> {
    let (engine, format) = name.split_once(':').ok_or_else(|| format!("{name} is not engine:format"))?;
    let workload = context.workload;
    let events = workload.events_in(format)?;
    let started = Instant::now();
    let built: Built<'a> = match engine {
        "index" => Box::new(index::Native::new(workload, events)?),
        "scan" => Box::new(scan::Scan::new(workload, events)?),
        "bits" => Box::new(bits::Bits::new(workload, events)?),
        "a-tree" => Box::new(a_tree::Peer::new(workload, events, context.build_limit)?),
        "quamina" => Box::new(quamina::Peer::new(workload, events, context.build_limit)?),
        "guest" => {
            let (guest, build) = context.guests.metered(workload, events)?;
            return Ok((Box::new(guest), build));
        }
        "guest-no-fuel" => {
            let (guest, build) = context.guests.unmetered(workload, events)?;
            return Ok((Box::new(guest), build));
        }
        "guest-fiber" => {
            let (guest, build) = context.guests.on_a_fiber(workload, events, None)?;
            return Ok((Box::new(guest), build));
        }
        "guest-sliced" => {
            let (guest, build) = context.guests.on_a_fiber(workload, events, Some(context.slice))?;
            return Ok((Box::new(guest), build));
        }
        _ => return Err(Unavailable::Failed(format!("there is no engine {engine}"))),
    };
    Ok((built, started.elapsed()))
}
