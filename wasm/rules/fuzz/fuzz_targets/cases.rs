//! Rules, facts, retractions and times that the bytes choose, in the engine and in the oracle of the tests.

#![no_main]

#[path = "../../tests/differential/mod.rs"]
mod differential;

use differential::{check, Form, Random};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((form, bytes)) = bytes.split_first() else { return };
    let form = Form { is_pure: form & 1 == 1, is_indexed: form & 2 == 2, is_paged: form & 4 == 4 };
    check(&mut Random::Bytes(bytes), form, "the bytes");
});
