//! The next due event: a match whose deadline comes, or a fact that expires.

use crate::compile::code::{Bound, SLOTS};
use crate::facts::change::{self, Removal};
use crate::facts::expiry;
use crate::layout::CLOCK;
use crate::matches::agenda::MATCH_DEADLINE;
use crate::matches::{agenda, deadlines, guards};
use crate::memory::{Address, Full};
use crate::step::Step;
use crate::tables::DEADLINES;

/// An event in time.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// A match whose windows have closed.
    Match(Address),
    /// A fact of this type that has expired.
    Fact(usize, Address),
}

/// Returns the first event due by `time`, and its time. At equal times, matches come before facts.
pub(crate) fn first_due(step: &Step, time: i64) -> Option<(i64, Due)> {
    let mut first = None;
    if let Some(block) = DEADLINES.first(step.words) {
        let deadline = step.words.get64(block + MATCH_DEADLINE) as i64;
        if deadline <= time {
            first = Some((deadline, Due::Match(block)));
        }
    }
    if let Some((end, ty, fact)) = expiry::first(step) {
        let end = end.max(step.clock());
        if end <= time && first.is_none_or(|(earliest, _)| end < earliest) {
            first = Some((end, Due::Fact(ty, fact)));
        }
    }
    first
}

/// Processes an event.
pub(crate) fn happen(step: &mut Step, time: i64, due: Due) -> Result<(), Full> {
    step.words.set64(CLOCK, time.max(step.clock()) as u64)?;
    match due {
        Due::Fact(ty, fact) => change::remove(step, ty, fact, Removal::Drop),
        Due::Match(block) => {
            deadlines::take_first(step, block)?;
            let mut bound: Bound = [0; SLOTS + 1];
            let rule = &step.program.rules[agenda::match_rule(step, block) as usize];
            if agenda::bind(step, block, &mut bound)
                && rule.guards.iter().all(|guard| guards::guard_holds(step, guard, &mut bound))
            {
                agenda::push_match_block(step, block)
            } else {
                agenda::free_match(step, block)
            }
        }
    }
}
