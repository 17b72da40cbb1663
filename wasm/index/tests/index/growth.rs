//! The bytes that a change requests and holds about double when its expression doubles.

// Left out in the sandbox, where the requests are the same.
#![cfg(not(target_arch = "wasm32"))]

use crate::recipe::Growth;
use crate::support::random::Random;

#[test]
fn the_cost_of_changes_grows_with_their_text() {
    for seed in 0..300 {
        Growth::new(&mut Random::new(seed)).check(20);
    }
}
