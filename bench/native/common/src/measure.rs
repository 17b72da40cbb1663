//! Runs engines side by side: first for their answers, then for their times.

use std::fmt;
use std::time::{Duration, Instant};

/// In how many turns each engine runs: what the machine does at the same time then falls on all of them alike.
const ROUNDS: u32 = 8;

/// Something that finds the ids of the expressions that an event makes true.
pub trait Engine {
    /// How many events it takes at once.
    fn width(&self) -> usize {
        1
    }
    /// Brings the events from number `first` on into the shape that `search` needs.
    fn decode(&mut self, first: usize);
    /// Searches for what was decoded.
    fn search(&mut self);
    /// What the last search found for the `nth` of its events, in any order.
    fn ids(&mut self, nth: usize) -> Vec<u64>;
    /// The fuel of the last search, if that is metered.
    fn fuel(&mut self) -> Option<u64> {
        None
    }
}

/// What is found for an event: how many ids, and their sum.
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

/// What was found for each event, and by which engine first.
pub struct Results(Vec<Option<(Found, String)>>);

impl Results {
    /// Of so many events, nothing.
    pub fn unknown(events: usize) -> Results {
        Results(vec![None; events])
    }

    /// What another program wrote to `folder/results`.
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

    /// Writes the count and the sum of each event as a line of `folder/results`, as far as they are known.
    pub fn write(&self, folder: &str) -> Result<(), String> {
        let known = self.0.iter().map_while(Option::as_ref);
        let lines: String = known.map(|(found, _)| format!("{} {}\n", found.count, found.sum)).collect();
        let path = format!("{folder}/results");
        std::fs::write(&path, lines).map_err(|error| format!("{path}: {error}"))
    }
}

/// An engine, and what was measured of it.
pub struct Contestant<'a> {
    name: String,
    engine: Box<dyn Engine + 'a>,
    build: Duration,
    /// Which event comes next, and how many there are for it: whole widths only.
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

    /// Compares what is found for one event, and then for as many as `budget` allows: the first may take long, where an
    /// engine still prepares itself. Also warms up.
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

    /// Times searches for `budget`, at least one; of the events that were verified, each in its turn.
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

/// A line of `key=value` fields: times in nanoseconds an event, the build in microseconds, fuel an event.
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
