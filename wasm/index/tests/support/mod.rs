//! The shared parts of the tests: an oracle, cases with known results, random cases, and encoders of events.
//! Only the twin, the sequence and the filter of valid random expressions use the code under test; the rest uses its types.

// Each program of tests uses a part of this.
#![allow(dead_code)]

pub mod cases;
pub mod encode;
pub mod generate;
pub mod make;
pub mod naive;
pub mod random;
pub mod refused;
pub mod sequence;
pub mod twin;
