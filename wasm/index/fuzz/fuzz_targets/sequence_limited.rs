//! Operations that the bytes choose, on an index of little memory and on the oracle of the tests: what is not refused for want
//! of memory must agree, and what is refused must change nothing.

#![no_main]

#[path = "../../tests/support/limited.rs"]
mod limited;
#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use limited::{alone, begin_anew, Little, PAGE};
use support::random::Random;
use support::sequence::{Memory, Sequence};

impl Memory for Little {
    fn run<T>(&self, change: impl FnOnce() -> T) -> T {
        Little::run(self, change)
    }
}

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
