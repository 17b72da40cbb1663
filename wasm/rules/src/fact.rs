//! What any code reads of a fact: whether it exists, and its place in time.

use crate::layout::{NUMBER, TIME};
use crate::memory::{Address, Words};

/// A place in the order of time: a time, and the number of a fact.
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
