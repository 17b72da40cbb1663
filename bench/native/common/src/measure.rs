//! Runs engines side by side: first to compare their results, then to measure their times.

use std::fmt;
use std::time::{Duration, Instant};

/// Turns of each engine. Other work on the machine then affects all engines alike.
const ROUNDS: u32 = 8;

/// An engine finds the ids of the expressions that an event makes true.
pub trait Engine {
    /// Returns the number of events of one search.
    fn width(&self) -> usize {
        1
    }
    /// Decodes a batch of events, from number `first` on, for `search`.
    fn decode(&mut self, first: usize);
    /// Searches for the decoded events.
    fn search(&mut self);
    /// Returns the ids that the last search found for its `nth` event, in any order.
    fn ids(&mut self, nth: usize) -> Vec<u64>;
    /// Returns the fuel of the last search, if it is metered.
    fn fuel(&mut self) -> Option<u64> {
        None
    }
}

/// The result for an event: the number of ids, and their sum.
#[derive(Clone, Copy, PartialEq)]
struct Found {
    count: u64,
    sum: u64,
}

impl Found {
    fn parse(line: &str) -> Option<Found> {
        let (count, sum) = line.split_once(' ')?;
        Some(Found { count: count.parse().ok()?, sum: sum.parse().ok()? })
    }
}

/// The result for each event, and the engine that found it first.
pub struct Results(Vec<Option<(Found, String)>>);

impl Results {
    /// Returns no results for `events` events.
    pub fn unknown(events: usize) -> Results {
        Results(vec![None; events])
    }

    /// Reads the results that another program wrote to `folder/results`.
    pub fn read(folder: &str, events: usize) -> Result<Results, String> {
        let path = format!("{folder}/results");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut results = Results::unknown(events);
        for (line, result) in text.lines().zip(&mut results.0) {
            let found = Found::parse(line).ok_or_else(|| format!("{path}: {line} is not a count and a sum"))?;
            *result = Some((found, "the index".to_owned()));
        }
        Ok(results)
    }

    fn check(&mut self, event: usize, found: Found, engine: &str) -> Result<(), String> {
        match &self.0[event] {
            None => self.0[event] = Some((found, engine.to_owned())),
            Some((expected, other)) if *expected != found => {
                return Err(format!(
                    "event {event}: {engine} finds {} ids with the sum {}, but {other} finds {} with the sum {}",
                    found.count, found.sum, expected.count, expected.sum
                ));
            }
            Some(_) => {}
        }
        Ok(())
    }

    fn matches(&self, events: std::ops::Range<usize>) -> u64 {
        self.0[events].iter().flatten().map(|(found, _)| found.count).sum()
    }

    /// Writes the count and the sum of each event as a line of `folder/results`, up to the first unknown one.
    pub fn write(&self, folder: &str) -> Result<(), String> {
        let known = self.0.iter().map_while(Option::as_ref);
        let lines: String = known.map(|(found, _)| format!("{} {}\n", found.count, found.sum)).collect();
        let path = format!("{folder}/results");
        std::fs::write(&path, lines).map_err(|error| format!("{path}: {error}"))
    }
}

/// An engine and its measurements.
pub struct Contestant<'a> {
    name: String,
    engine: Box<dyn Engine + 'a>,
    build: Duration,
    /// The next event, and the number of checked events in complete batches.
    event: usize,
    verified: usize,
    fuel: Option<f64>,
    decodes: Vec<u64>,
    searches: Vec<u64>,
    totals: Vec<u64>,
}

impl<'a> Contestant<'a> {
    pub fn new(name: &str, engine: Box<dyn Engine + 'a>, build: Duration) -> Self {
        Contestant {
            name: name.to_owned(),
            engine,
            build,
            event: 0,
            verified: 0,
            fuel: None,
            decodes: Vec::new(),
            searches: Vec::new(),
            totals: Vec::new(),
        }
    }

    /// Compares the results for one event, then for as many as `budget` allows, because an engine may prepare itself in its
    /// first search.
    /// This also warms the caches.
    pub fn verify(&mut self, results: &mut Results, budget: Duration) -> Result<(), String> {
        let mut warm: Option<Instant> = None;
        let width = self.engine.width();
        let mut fuel = 0;
        let mut searches = 0;
        while self.verified + width <= results.0.len() && warm.is_none_or(|warm| warm.elapsed() < budget) {
            self.engine.decode(self.verified);
            self.engine.search();
            for nth in 0..width {
                let ids = self.engine.ids(nth);
                let found = Found { count: ids.len() as u64, sum: ids.iter().sum() };
                results.check(self.verified + nth, found, &self.name)?;
            }
            if let Some(burnt) = self.engine.fuel() {
                fuel += burnt;
                searches += 1;
            }
            self.verified += width;
            warm.get_or_insert_with(Instant::now);
        }
        self.fuel = (searches > 0).then(|| fuel as f64 / searches as f64);
        Ok(())
    }

    /// Times at least one search within `budget`. The checked events rotate.
    fn turn(&mut self, budget: Duration) {
        let width = self.engine.width();
        let started = Instant::now();
        loop {
            let start = Instant::now();
            self.engine.decode(self.event);
            let decoded = Instant::now();
            self.engine.search();
            let end = Instant::now();
            let nanoseconds = |from: Instant, to: Instant| (to - from).as_nanos() as u64 / width as u64;
            self.decodes.push(nanoseconds(start, decoded));
            self.searches.push(nanoseconds(decoded, end));
            self.totals.push(nanoseconds(start, end));
            self.event = (self.event + width) % self.verified;
            if end - started >= budget {
                return;
            }
        }
    }

    pub fn summary(&self, results: &Results) -> Summary<'_> {
        Summary { contestant: self, matches: results.matches(0..self.verified) }
    }
}

/// Times the engines in turns, each for `budget` in all.
pub fn race(contestants: &mut [Contestant], budget: Duration) {
    for _ in 0..ROUNDS {
        let able = contestants.iter_mut().filter(|contestant| contestant.verified > 0);
        able.for_each(|contestant| contestant.turn(budget / ROUNDS));
    }
}

/// A line of `key=value` fields, with times in nanoseconds an event, the build in microseconds, and fuel an event.
pub struct Summary<'a> {
    contestant: &'a Contestant<'a>,
    matches: u64,
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Contestant { name, build, verified, .. } = self.contestant;
        write!(f, "engine={name}\tbuild={}\tverified={verified}\tmatches={}", build.as_micros(), self.matches)?;
        let Contestant { decodes, searches, totals, .. } = self.contestant;
        write!(f, "\tsearches={}", totals.len())?;
        for (part, times) in [("decode", decodes), ("search", searches), ("total", totals)] {
            let mut times = times.clone();
            times.sort_unstable();
            let at = |share: f64| times.get((share * times.len() as f64) as usize).copied().unwrap_or(0);
            let (min, p50, p99) = (at(0.0), at(0.5), at(0.99));
            let mean = times.iter().sum::<u64>() / times.len().max(1) as u64;
            write!(f, "\t{part}_min={min}\t{part}_p50={p50}\t{part}_p99={p99}\t{part}_mean={mean}")?;
        }
        match self.contestant.fuel {
            Some(fuel) => write!(f, "\tfuel={fuel:.0}"),
            None => Ok(()),
        }
    }
}
