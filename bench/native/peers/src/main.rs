//! Measures other crates for the same task, and compares their results with those of the index.

mod a_tree;
mod quamina;

use std::process::ExitCode;
use std::time::Duration;

use be_tree_bench_common::measure::Results;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::{run, timed, Arguments, Builder, Built, Unavailable};

struct Peers<'a> {
    workload: &'a Workload,
    build_limit: Duration,
}

impl<'a> Builder<'a> for Peers<'a> {
    fn build(&mut self, engine: &str, events: &'a Events) -> Built<'a> {
        let Peers { workload, build_limit } = *self;
        match engine {
            "a-tree" => timed(|| a_tree::Peer::new(workload, events, build_limit)),
            "quamina" => timed(|| quamina::Peer::new(workload, events, build_limit)),
            _ => Err(Unavailable::Failed("there is no such engine".into())),
        }
    }
}

fn main() -> ExitCode {
    be_tree_bench_common::main(body)
}

fn body(arguments: Arguments) -> Result<(), String> {
    let workload = Workload::read(&arguments.folder)?;
    let mut peers = Peers { workload: &workload, build_limit: arguments.build_limit };
    let known = Results::read(&arguments.folder, workload.events())?;
    run(&arguments, &workload, &mut peers, known).map(drop)
}
