//! The shared parts of the measuring programs.
//!
//! `PROGRAM FOLDER --seconds N --build-seconds N [--guest FILE --slice FUEL] ENGINE:FORMAT...`
//!
//! [`workload::Workload::read`] describes the folder. Each engine prints one line of `key=value` fields, separated by tabs
//! ([`measure::Summary`]). All engines must find the same ids for an event. The program of the index writes its results to
//! `FOLDER/results`, one line an event, and the program of the peers compares with that file. A program ends with status 1 and
//! a message if results differ or a file cannot be read.

pub mod measure;
pub mod tree;
pub mod workload;

use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use measure::{Contestant, Engine, Results};
use workload::{Events, Workload};

/// The arguments of a program.
pub struct Arguments {
    /// The folder of the workload.
    pub folder: String,
    /// The time to measure each engine, and as much for its check.
    pub budget: Duration,
    /// The maximum time to build an engine.
    pub build_limit: Duration,
    /// The sandboxed module.
    pub guest: String,
    /// The fuel of a slice.
    pub slice: u64,
    /// `engine:format`.
    pub engines: Vec<String>,
}

/// The reason why an engine is missing.
pub enum Unavailable {
    /// The engine cannot run this workload: its language lacks a predicate, or building takes too long.
    Skipped(String),
    /// The engine failed.
    Failed(String),
}

impl From<String> for Unavailable {
    fn from(message: String) -> Self {
        Unavailable::Failed(message)
    }
}

/// An engine and its build time.
pub type Built<'a> = Result<(Box<dyn Engine + 'a>, Duration), Unavailable>;

/// Builds the engines of a program by their names.
pub trait Builder<'a> {
    fn build(&mut self, engine: &str, events: &'a Events) -> Built<'a>;
}

/// Returns an engine with its build time.
pub fn timed<'a, E: Engine + 'a>(build: impl FnOnce() -> Result<E, Unavailable>) -> Built<'a> {
    let started = Instant::now();
    let engine = build()?;
    Ok((Box::new(engine), started.elapsed()))
}

/// Builds, checks and measures the engines of a program.
pub fn run<'a>(
    arguments: &Arguments,
    workload: &'a Workload,
    builder: &mut impl Builder<'a>,
    mut results: Results,
) -> Result<Results, String> {
    let mut contestants = Vec::new();
    for name in &arguments.engines {
        let (engine, format) = name.split_once(':').ok_or_else(|| format!("{name} is not engine:format"))?;
        match builder.build(engine, workload.events_in(format)?) {
            Ok((engine, build)) => contestants.push(Contestant::new(name, engine, build)),
            Err(Unavailable::Skipped(reason)) => println!("engine={name}\tskipped={reason}"),
            Err(Unavailable::Failed(message)) => return Err(format!("{name}: {message}")),
        }
    }
    for contestant in &mut contestants {
        contestant.verify(&mut results, arguments.budget)?;
    }
    measure::race(&mut contestants, arguments.budget);
    contestants.iter().for_each(|contestant| println!("{}", contestant.summary(&results)));
    Ok(results)
}

/// Runs a program: reads its arguments, calls `body`, and returns its status.
pub fn main(body: impl FnOnce(Arguments) -> Result<(), String>) -> ExitCode {
    match arguments().and_then(body) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut given = std::env::args().skip(1);
    let mut arguments = Arguments {
        folder: given.next().ok_or("the folder of the workload is missing")?,
        budget: Duration::from_secs(1),
        build_limit: Duration::from_secs(60),
        guest: String::new(),
        slice: 0,
        engines: Vec::new(),
    };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} lacks its value"));
        match argument.as_str() {
            "--seconds" => arguments.budget = seconds(&value()?)?,
            "--build-seconds" => arguments.build_limit = seconds(&value()?)?,
            "--guest" => arguments.guest = value()?,
            "--slice" => arguments.slice = number(&value()?)?,
            engine => arguments.engines.push(engine.to_owned()),
        }
    }
    Ok(arguments)
}

fn seconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(text)?).map_err(|error| format!("{text} seconds: {error}"))
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}
