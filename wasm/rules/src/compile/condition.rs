//! Single-fact conditions: the tests of a condition that read one fact only.

use crate::compile::code::{Bound, Test};
use crate::memory::{Address, Words};

/// The tests of a condition that read one fact only. Conditions with equal tests share one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Condition {
    /// The tests of the fact in slot [`crate::compile::code::OWN`].
    pub tests: Vec<Test>,
    /// The rules that have no match while no fact meets this condition.
    pub needed_by: Vec<u32>,
    /// The (rule, slot) pairs that a new fact may complete. Pairs in one list have equal first look-ups.
    pub seeds: Vec<Vec<(u32, u8)>>,
    /// The (rule, guard) pairs that read the facts meeting this condition.
    pub guards: Vec<(u32, u8)>,
    /// The pairs of `guards` whose guard is an aggregate.
    pub aggregates: Vec<(u32, u8)>,
    /// The indices, one bit each, that hold the facts meeting this condition.
    pub indices: u32,
    /// The bit of this condition among those of its type, if they are few.
    pub bit: u32,
    /// The series of the facts that meet this condition.
    pub series: Vec<u32>,
    /// The word that counts the facts meeting this condition.
    pub at: Address,
}

impl Condition {
    /// Returns whether the fact in slot [`OWN`] meets this condition.
    #[inline]
    pub fn is_met(&self, words: &Words, bound: &Bound) -> bool {
        self.tests.iter().all(|test| test.holds(words, bound))
    }
}
