//! Expressions that the bytes choose, in three lengths, in indexes that other such expressions have grown: the bytes that a
//! change requests and holds may not grow faster than the expression.

#![no_main]

#[path = "../../tests/support/counted.rs"]
mod counted;
#[path = "../../tests/support/mod.rs"]
mod support;
#[path = "../../tests/support/recipe.rs"]
mod recipe;

use libfuzzer_sys::fuzz_target;
use support::random::Random;
use recipe::Growth;

fuzz_target!(|bytes: &[u8]| Growth::new(&mut Random::of_bytes(bytes)).check(30));
