//! Sequences of operations against the oracle: inserts, batches of them, deletions, searches, explanations and batches of
//! events. `BE_TREE_SEED` and `BE_TREE_SEQUENCES` choose others.

// Left out in the sandbox for the reason in `memory.rs`.
#![cfg(not(target_arch = "wasm32"))]

use crate::heap::{alone, begin_anew, Little, PAGE};
use crate::support::random::Random;
use crate::support::sequence::Sequence;

const OPERATIONS: usize = 150;

fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

#[test]
fn operations_in_any_order_find_what_the_oracle_finds() {
    let first = number("BE_TREE_SEED", 1);
    for seed in first..first + number("BE_TREE_SEQUENCES", 15) {
        println!("BE_TREE_SEED={seed} BE_TREE_SEQUENCES=1 repeats this");
        let random = &mut Random::new(seed);
        let mut sequence = Sequence::new(random);
        (0..OPERATIONS).for_each(|_| sequence.step(random));
        sequence.end();
    }
}

#[test]
fn operations_in_little_memory_do_what_the_oracle_does_or_nothing() {
    let _alone = alone();
    let mut refusals = 0;
    let first = number("BE_TREE_SEED", 1);
    for seed in first..first + number("BE_TREE_SEQUENCES", 30) {
        println!("BE_TREE_SEED={seed} BE_TREE_SEQUENCES=1 repeats this");
        begin_anew();
        let random = &mut Random::new(seed);
        let memory = Little::new(PAGE * random.below(8));
        let mut sequence = Sequence::within(memory, random);
        (0..OPERATIONS).for_each(|_| sequence.step(random));
        refusals += sequence.end();
    }
    assert!(refusals > 0);
}
