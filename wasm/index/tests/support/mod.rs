//! What the tests share: an oracle, cases with known results, random cases, and encoders of events.
//! But for the twin and the sequence, none of it uses the code under test, only its types.

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
