//! Jobs: each fills an input, outside of the measured time, and then handles it.

mod correlation;
mod many;
mod messages;
mod programs;

pub use correlation::{replay, Stream};

use be_tree_rules::Engine;
use messages::{Messages, Test};

/// Messages in a list.
const BATCH: usize = 1_000;

/// The names of the jobs.
pub const NAMES: [&str; 10] = [
    "manners",
    "waltzdb",
    "reject",
    "reject-single",
    "reject-1k",
    "accept",
    "accept-1k",
    "cycle",
    "correlation",
    "many",
];

/// Totals by name.
pub type Totals = Vec<(&'static str, u64)>;

pub trait Job {
    /// Prepares the next input.
    fn fill(&mut self);

    /// Handles the input.
    fn run(&mut self);

    /// Returns the number of events of an input: 1 for a program that runs once.
    fn events(&self) -> u64;

    /// Returns the number of inputs until the job reaches its steady state.
    fn warm_up(&self) -> u64 {
        1
    }

    /// Returns the totals so far, equal in every place.
    fn totals(&self) -> Totals;

    /// Returns the text of the rules and the facts of the current input, for other engines.
    fn text(&self) -> (String, Vec<String>);

    /// Checks the totals after the first run.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Returns the totals of every job.
fn totals(engine: &Engine) -> Totals {
    vec![
        ("firings", engine.counts().firings),
        ("facts", engine.counts().facts.into()),
        ("bytes", engine.counts().used_bytes as u64),
    ]
}

/// Returns the job of this name and size.
pub fn prepare(name: &str, size: u32) -> Option<Box<dyn Job>> {
    Some(match name {
        "manners" => Box::new(programs::Program::manners(size)),
        "waltzdb" => Box::new(programs::Program::waltzdb(size)),
        "reject" => Box::new(Messages::new(Test::Reject, 30, BATCH)),
        "reject-single" => Box::new(Messages::new(Test::Reject, 30, 1)),
        "reject-1k" => Box::new(Messages::new(Test::Reject, 1_000, BATCH)),
        "accept" => Box::new(Messages::new(Test::Accept, 50, BATCH)),
        "accept-1k" => Box::new(Messages::new(Test::Accept, 1_000, BATCH)),
        "cycle" => Box::new(Messages::new(Test::Cycle, 50, BATCH)),
        "correlation" => Box::new(correlation::Correlation::new(size)),
        "many" => Box::new(many::Many::new(size)),
        _ => return None,
    })
}
