//! Calls: their slices, their suspension between slices, and their end when no process waits for them any more.
//!
//! `call` runs the slices of a call. `abandoned` finishes calls whose caller is gone.

pub mod abandoned;
pub mod call;
