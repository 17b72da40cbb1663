//! Calls: their slices, their suspension between slices, and their end when no process waits for them any more.
//!
//! `call` runs the slices of a call, and `suspended` holds it between two of them. `abandoned` finishes calls that lost
//! their caller.

pub mod abandoned;
pub mod call;
pub mod suspended;
