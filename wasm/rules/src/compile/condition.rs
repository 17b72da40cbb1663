//! Single-fact conditions: the part of conditions that is about one fact.

use crate::compile::code::{Bound, Test};
use crate::memory::{Address, Words};

/// The part of conditions that is about one fact. Equal parts are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// They test the fact in slot [`crate::compile::code::OWN`].
    pub tests: Vec<Test>,
    /// The rules that match nothing while no fact meets this.
    pub needed_by: Vec<u32>,
    /// The rules, and their slots, that a fact which meets this may complete. Those in a list have equal first look-ups.
    pub seeds: Vec<Vec<(u32, u8)>>,
    /// The rules, and their guards, that facts which meet this are about.
    pub guards: Vec<(u32, u8)>,
    /// Those of them that are aggregates.
    pub aggregates: Vec<(u32, u8)>,
    /// The indices, one bit each, in which this is looked up.
    pub indices: u32,
    /// The bit of this among the conditions of its type, if they are few.
    pub bit: u32,
    /// The series of facts that meet this.
    pub series: Vec<u32>,
    /// The word that counts the facts that meet this.
    pub at: Address,
}

impl Condition {
    /// Returns whether the fact in slot [`OWN`] meets this.
    #[inline]
    pub fn is_met(&self, words: &Words, bound: &Bound) -> bool {
        self.tests.iter().all(|test| test.holds(words, bound))
    }
}
