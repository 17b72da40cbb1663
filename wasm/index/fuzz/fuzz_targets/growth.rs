//! Expressions that the bytes choose, each of several lengths, in indexes that other such expressions have grown: the bytes that
//! a change requests and holds may not grow faster than the expression.

#![no_main]

#[path = "../../tests/support/heap.rs"]
mod heap;
#[path = "../../tests/support/recipe.rs"]
mod recipe;
#[path = "../../tests/support/mod.rs"]
mod support;

use libfuzzer_sys::fuzz_target;
use recipe::Growth;
use support::random::Random;

fuzz_target!(|bytes: &[u8]| Growth::new(&mut Random::of_bytes(bytes)).check(30));
