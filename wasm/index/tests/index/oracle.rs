//! The index against the oracle: random schemas, expressions and events, with insertions and deletions in between.

use crate::support::generate;
use crate::support::random::Random;
use crate::support::twin::Twin;
use proptest::prelude::*;

fn rehearse(seed: u64, subscriptions: usize, rounds: usize) {
    let mut random = Random::new(seed);
    let mut twin = Twin::new(generate::schema(&mut random));
    let schema = twin.index.schema().clone();
    for _ in 0..rounds {
        for _ in 0..subscriptions {
            let id = random.next() % (4 * subscriptions as u64);
            if random.chance(40) {
                twin.delete(id);
            } else {
                let depth = random.below(6);
                let text = generate::expression(&mut random, &schema, depth);
                twin.insert(id, &text);
            }
        }
        twin.index.validate().unwrap();
        for _ in 0..4 {
            let event = generate::event(&mut random, &schema);
            twin.check(&mut random, &event);
        }
    }
    let ids: Vec<u64> = twin.oracle.keys().copied().collect();
    ids.into_iter().for_each(|id| twin.delete(id));
    twin.index.validate().unwrap();
    let info = twin.index.info();
    assert_eq!((info.expressions, info.predicates, info.strings, info.entries, info.nodes), (0, 0, 0, 0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_small_index_finds_what_the_oracle_finds(seed: u64) {
        rehearse(seed, 60, 6);
    }
}

#[test]
fn an_index_that_splits_and_merges_finds_what_the_oracle_finds() {
    for seed in 0..6 {
        rehearse(seed, 1500, 4);
    }
}

/// Regression: a lax range of all later times let an event with the least time pass.
#[test]
fn times_at_the_lower_bound_find_what_the_oracle_finds() {
    rehearse(2556039803617823573, 60, 6);
}

/// A replacement keeps the order of ids and slots, on which searches rely.
#[test]
fn put_replaces_the_subscription_with_its_id() {
    let mut random = Random::new(7);
    let mut twin = Twin::new(generate::schema(&mut random));
    let schema = twin.index.schema().clone();
    for round in 0..2_000 {
        let id = random.next() % 200 + u64::from(round % 7 == 0) * (u64::MAX - 199);
        let text = generate::expression(&mut random, &schema, 3);
        twin.put(id, &text);
    }
    twin.index.validate().unwrap();
    for _ in 0..40 {
        let event = generate::event(&mut random, &schema);
        twin.check(&mut random, &event);
    }
}
