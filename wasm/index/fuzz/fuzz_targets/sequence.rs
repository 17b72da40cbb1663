//! Operations that the bytes choose, on an index and on the oracle of the tests, which must agree after each.

#![no_main]

#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use support::random::Random;
use support::sequence::Sequence;

fuzz_target!(|bytes: &[u8]| {
    let random = &mut Random::of_bytes(bytes);
    let mut sequence = Sequence::new(random);
    while !random.is_spent() {
        sequence.step(random);
    }
    sequence.end();
});
