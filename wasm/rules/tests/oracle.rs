//! Random cases against the oracle.
//!
//! `RULES_CASES` is the number of cases of each test, and `RULES_SEED` the seed of the first.

mod differential;

use differential::{check, Form, Random};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

/// Runs `default` cases, or the number in the environment, and returns the number of firings.
fn run(default: u64, is_pure: bool, is_paged: bool) -> usize {
    let first = number("RULES_SEED").unwrap_or(0);
    let seeds = first..first + number("RULES_CASES").unwrap_or(default);
    let case = |seed: u64| {
        let form = Form { is_pure, is_indexed: seed % 2 == 1, is_paged };
        check(&mut Random::of_seed(seed), form, &format!("seed {seed}"))
    };
    seeds.map(case).sum()
}

#[test]
fn firings_and_facts_are_those_of_the_oracle() {
    let fired = run(3_000, false, false);
    assert!(fired > 1_000, "the cases are too quiet: {fired} firings");
}

#[test]
fn dropped_facts_are_never_missed() {
    let fired = run(2_000, true, false);
    assert!(fired > 500, "the cases are too quiet: {fired} firings");
}

#[test]
fn operations_in_pages_fire_as_whole_ones_do() {
    let fired = run(1_000, false, true) + run(1_000, true, true);
    assert!(fired > 500, "the cases are too quiet: {fired} firings");
}
