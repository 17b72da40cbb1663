//! Measures jobs of rules natively and, compiled to WebAssembly with metered fuel, in the sandbox.
//!
//! `be_tree_bench_rules --guest FILE --seconds N JOB:SIZE...` prints a line of `key=value` fields for each job and place.
//! The places take turns, so other work on the machine affects both alike. Times are processor time where the system
//! reports it. The status is 1 if the totals of the places differ, or are wrong for a known program.
//!
//! `--soak EVENTS` instead runs the job for that number of events in one place after the other, the sandbox first, and
//! prints its memory twenty times. `--text JOB:SIZE` prints the rules and the facts of a job's input for other engines.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use crate::clock;
use crate::sandbox::{Guest, Sandbox};
use be_tree_rules_jobs::jobs::{self, Job, Totals};

struct Arguments {
    guest: Option<String>,
    budget: Duration,
    soak: Option<u64>,
    is_text: bool,
    jobs: Vec<(String, u32)>,
}

pub fn main() -> ExitCode {
    match arguments().and_then(body) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let mut arguments =
        Arguments { guest: None, budget: Duration::from_secs(2), soak: None, is_text: false, jobs: Vec::new() };
    let mut given = std::env::args().skip(1);
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or_else(|| format!("{argument} lacks its value"));
        match argument.as_str() {
            "--guest" => arguments.guest = Some(value()?),
            "--seconds" => arguments.budget = Duration::from_secs(number(&value()?)?),
            "--soak" => arguments.soak = Some(number(&value()?)?),
            "--text" => arguments.is_text = true,
            job => {
                let (name, size) = job.split_once(':').ok_or_else(|| format!("{job} is not job:size"))?;
                arguments.jobs.push((name.to_owned(), number(size)?));
            }
        }
    }
    Ok(arguments)
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is not a number"))
}

fn body(arguments: Arguments) -> Result<(), String> {
    let guest = match &arguments.guest {
        Some(path) => Some(Guest::read(path)?),
        None => None,
    };
    for (name, size) in &arguments.jobs {
        let native = jobs::prepare(name, *size).ok_or_else(|| format!("there is no job {name}"))?;
        if arguments.is_text {
            print_text(native);
        } else {
            let (each, names) = (native.events(), native.totals());
            let mut places = vec![Place::Native(native)];
            if let Some(guest) = &guest {
                let sandbox = guest.start(name, *size).map_err(|error| format!("{name}: {error:#}"))?;
                places.push(Place::Sandbox(Box::new(sandbox)));
            }
            match arguments.soak {
                Some(events) => places.into_iter().rev().try_for_each(|place| soak(place, events, each, &names))?,
                None => measure(name, *size, places, arguments.budget)?,
            }
        }
    }
    Ok(())
}

fn print_text(mut job: Box<dyn Job>) {
    job.fill();
    let (rules, facts) = job.text();
    print!("{rules}\n----\n{}\n", facts.join("\n"));
}

/// A place where a job runs.
enum Place {
    Native(Box<dyn Job>),
    Sandbox(Box<Sandbox>),
}

impl Place {
    /// Fills an input and handles it. Returns the time of handling and its fuel.
    fn turn(&mut self) -> Result<(Duration, u64), String> {
        match self {
            Place::Native(job) => {
                job.fill();
                let started = clock::now();
                job.run();
                Ok((clock::now() - started, 0))
            }
            Place::Sandbox(sandbox) => sandbox.turn().map_err(|error| format!("{error:#}")),
        }
    }

    fn totals(&mut self, names: &Totals) -> Result<Totals, String> {
        match self {
            Place::Native(job) => Ok(job.totals()),
            Place::Sandbox(sandbox) => sandbox.totals(names).map_err(|error| format!("{error:#}")),
        }
    }

    /// Returns the size of the linear memory.
    fn memory_bytes(&self) -> Option<usize> {
        match self {
            Place::Native(_) => None,
            Place::Sandbox(sandbox) => Some(sandbox.memory_bytes()),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Place::Native(_) => "native",
            Place::Sandbox(_) => "sandbox",
        }
    }
}

fn measure(name: &str, size: u32, mut places: Vec<Place>, budget: Duration) -> Result<(), String> {
    let Place::Native(job) = &places[0] else { unreachable!("the first place is native") };
    let (events, warm_up) = (job.events(), job.warm_up());
    for place in &mut places {
        for _ in 0..warm_up {
            place.turn()?;
        }
    }
    let Place::Native(job) = &places[0] else { unreachable!("the first place is native") };
    job.check().map_err(|error| format!("{name}:{size}: {error}"))?;
    if name == "correlation" {
        check_correlation(size, job.as_ref(), warm_up * events)?;
    }
    let mut samples: Vec<Vec<(Duration, u64)>> = vec![Vec::new(); places.len()];
    let started = Instant::now();
    while started.elapsed() < budget || samples[0].len() < 3 {
        for (place, samples) in places.iter_mut().zip(&mut samples) {
            samples.push(place.turn()?);
        }
    }
    let names = places[0].totals(&Vec::new())?;
    for (place, samples) in places.iter_mut().zip(&mut samples) {
        let totals = place.totals(&names)?;
        if totals != names {
            return Err(format!("{name}:{size}: natively {names:?}, but in the {} {totals:?}", place.name()));
        }
        // Processor time is exact only over many turns.
        let mean = samples.iter().map(|(time, _)| *time).sum::<Duration>().as_nanos() / samples.len() as u128;
        samples.sort();
        let at = |share: usize| samples[(samples.len() - 1) * share / 100].0.as_nanos();
        let mut line =
            format!("job={name}\tsize={size}\tplace={}\tevents={events}\tturns={}", place.name(), samples.len());
        line += &format!("\tmean={mean}\tmedian={}\tp90={}", at(50), at(90));
        if let Place::Sandbox(sandbox) = place {
            let fuel: u64 = samples.iter().map(|(_, fuel)| fuel).sum();
            line += &format!("\tfuel={}\tmemory={}", fuel / samples.len() as u64, sandbox.memory_bytes());
        }
        for (total, value) in totals {
            line += &format!("\t{total}={value}");
        }
        println!("{line}");
    }
    Ok(())
}

/// Compares the firings with a replay of the stream without rules.
fn check_correlation(users: u32, job: &dyn Job, events: u64) -> Result<(), String> {
    let (takeovers, unpaid) = jobs::replay(users.into(), events);
    let firings = job.totals()[0].1;
    if firings == takeovers + unpaid {
        return Ok(());
    }
    Err(format!("a replay of {events} events finds {takeovers} takeovers and {unpaid} unpaid orders, not {firings}"))
}

/// Runs a job for a number of events, and prints its totals twenty times.
fn soak(mut place: Place, events: u64, each: u64, names: &Totals) -> Result<(), String> {
    let inputs = events / each;
    let mut spent = Duration::ZERO;
    for input in 1..=inputs {
        spent += place.turn()?.0;
        if input % (inputs / 20).max(1) == 0 {
            let totals = place.totals(names)?;
            let totals: Vec<String> = totals.iter().map(|(name, total)| format!("{name}={total}")).collect();
            let (name, handled) = (place.name(), input * each);
            let memory = place.memory_bytes().map_or(String::new(), |bytes| format!("\tmemory={bytes}"));
            println!(
                "place={name}\tevents={handled}\tseconds={:.1}{memory}\t{}",
                spent.as_secs_f64(),
                totals.join("\t")
            );
        }
    }
    Ok(())
}
