//! Measures the index on one workload: natively, in the sandbox, and beside a plain loop and its peers.
//!
//! `be_tree_bench FOLDER --guest FILE --slice FUEL --seconds N --build-seconds N ENGINE:FORMAT...`
//!
//! The folder is as [`workload::Workload::read`] says. Each engine prints one line of `key=value` fields, parted by
//! tabs ([`measure::Summary`]). All engines must find the same ids; what they found goes to `FOLDER/results`, one line
//! an event. It ends with status 1 and a message where they differ, or where anything cannot be read.

mod engines;
mod measure;
mod tree;
mod workload;

use std::process::ExitCode;
use std::time::Duration;

use engines::{Context, Unavailable};
use measure::{Contestant, Results};
use workload::Workload;

struct Arguments {
    folder: String,
    guest: String,
    slice: u64,
    seconds: f64,
    build_seconds: f64,
    engines: Vec<String>,
}

fn main() -> ExitCode {
    match arguments().and_then(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<(), String> {
    let workload = Workload::read(&arguments.folder)?;
    let guest = std::fs::read(&arguments.guest).map_err(|error| format!("{}: {error}", arguments.guest))?;
    let mut context = Context::new(&workload, guest, arguments.slice, Duration::from_secs_f64(arguments.build_seconds));
    let mut contestants = Vec::new();
    for name in &arguments.engines {
        match engines::build(name, &mut context) {
            Ok((engine, build)) => contestants.push(Contestant::new(name, engine, build)),
            Err(Unavailable::Skipped(reason)) => println!("engine={name}\tskipped={reason}"),
            Err(Unavailable::Failed(message)) => return Err(format!("{name}: {message}")),
        }
    }
    let budget = Duration::from_secs_f64(arguments.seconds);
    let mut results = Results::new(workload.events());
    for contestant in &mut contestants {
        contestant.verify(&mut results, budget)?;
    }
    measure::run(&mut contestants, &results, budget);
    contestants.iter().for_each(|contestant| println!("{}", contestant.summary()));
    results.write(&arguments.folder)
}

fn arguments() -> Result<Arguments, String> {
    let mut given = std::env::args().skip(1);
    let folder = given.next().ok_or("the folder of the workload is missing")?;
    let mut arguments =
        Arguments { folder, guest: String::new(), slice: 0, seconds: 1.0, build_seconds: 60.0, engines: Vec::new() };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} lacks its value"));
        match argument.as_str() {
            "--guest" => arguments.guest = value()?,
            "--slice" => arguments.slice = number(&value()?)?,
            "--seconds" => arguments.seconds = number(&value()?)?,
            "--build-seconds" => arguments.build_seconds = number(&value()?)?,
            engine => arguments.engines.push(engine.to_owned()),
        }
    }
    Ok(arguments)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no number"))
}
