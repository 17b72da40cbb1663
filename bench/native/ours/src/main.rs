//! Measures the index natively and in the sandbox, beside a plain loop and a bit-sliced one.

mod bits;
mod decode;
mod guest;
mod index;
mod scan;

use std::process::ExitCode;

use be_tree_bench_common::measure::Results;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::{run, timed, Arguments, Builder, Built, Unavailable};
use be_tree_index::search::Form;
use guest::Guests;

struct Ours<'a> {
    workload: &'a Workload,
    guests: Guests,
    slice: u64,
}

impl<'a> Builder<'a> for Ours<'a> {
    fn build(&mut self, engine: &str, events: &'a Events) -> Built<'a> {
        let Ours { workload, guests, slice } = self;
        match engine {
            "index" => timed(|| index::Native::new(workload, events)),
            "index-many" => timed(|| index::Many::new(workload, events, Form::Ids)),
            "index-bitmaps" => timed(|| index::Many::new(workload, events, Form::Bitmap)),
            "decode" => timed(|| decode::Decode::new(workload, events)),
            "scan" => timed(|| scan::Scan::new(workload, events)),
            "bits" => timed(|| bits::Bits::new(workload, events)),
            "guest" => guests.metered(workload, events),
            "guest-no-fuel" => guests.unmetered(workload, events),
            "guest-fiber" => guests.on_a_fiber(workload, events, None),
            "guest-sliced" => guests.on_a_fiber(workload, events, Some(*slice)),
            _ => Err(Unavailable::Failed("there is no such engine".into())),
        }
    }
}

fn main() -> ExitCode {
    be_tree_bench_common::main(body)
}

fn body(arguments: Arguments) -> Result<(), String> {
    let workload = Workload::read(&arguments.folder)?;
    let wasm = std::fs::read(&arguments.guest).map_err(|error| format!("{}: {error}", arguments.guest))?;
    let mut ours = Ours { workload: &workload, guests: Guests::new(wasm), slice: arguments.slice };
    let results = run(&arguments, &workload, &mut ours, Results::unknown(workload.events()))?;
    results.write(&arguments.folder)
}
