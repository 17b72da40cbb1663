//! Fact accessors that any module may use: whether a fact exists, and its moment.

use crate::layout::{NUMBER, TIME};
use crate::memory::{Address, Words};

/// The position of a fact in the order of time: its time, and its number to break ties.
pub(crate) type Moment = (i64, u64);

/// Returns the moment of a fact.
#[inline(always)]
pub(crate) fn moment_of_fact(words: &Words, fact: Address) -> Moment {
    (words.get64(fact + TIME) as i64, words.get64(fact + NUMBER))
}

/// Returns whether the block holds the fact with this number.
#[inline(always)]
pub(crate) fn is_alive(words: &Words, fact: Address, number: u64) -> bool {
    words.get64(fact + NUMBER) == number
}
