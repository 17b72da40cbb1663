//! Operations that the bytes choose, on an index of little memory and on the oracle of the tests: what is not refused for want
//! of memory must agree, and what is refused must change nothing.

#![no_main]

#[path = "../../tests/support/heap.rs"]
mod heap;
#[path = "../../tests/support/mod.rs"]
mod support;

use heap::{alone, begin_anew, Little, PAGE};
use libfuzzer_sys::fuzz_target;
use support::random::Random;
use support::sequence::Sequence;

fuzz_target!(|bytes: &[u8]| {
    let _alone = alone();
    begin_anew();
    let random = &mut Random::of_bytes(bytes);
    let memory = Little::new(PAGE * random.below(8));
    let mut sequence = Sequence::within(memory, random);
    while !random.is_spent() {
        sequence.step(random);
    }
    sequence.end();
});
