//! Matches waiting for a deadline.
//!
//! Matches of a rule mostly start waiting in the order of their deadlines, so each rule has a queue. A heap holds the first match
//! of each queue, and each match whose deadline is before that of the last one in its queue.

use crate::compile::code::Bound;
use crate::matches::agenda;
use crate::matches::agenda::{LAST_WAITING, MATCH_DEADLINE, MATCH_LINK};
use crate::memory::{Address, Full, Words};
use crate::step::Step;
use crate::tables::DEADLINES;

/// Keeps a match until its deadline.
pub(crate) fn wait(step: &mut Step, rule: u32, bound: &Bound, deadline: i64) -> Result<(), Full> {
    let block = agenda::match_block(step, rule, bound, deadline)?;
    let last_at = step.program.rule_at(rule) + LAST_WAITING;
    let last = step.words.get(last_at);
    if last == 0 {
        step.words.set(last_at, block)?;
    } else if step.words.get64(last + MATCH_DEADLINE) as i64 <= deadline {
        step.words.set(last + MATCH_LINK, block)?;
        return step.words.set(last_at, block);
    }
    DEADLINES.push(step.words, block, is_before)
}

/// Removes the waiting match with the earliest deadline.
pub(crate) fn take_first(step: &mut Step, block: Address) -> Result<(), Full> {
    let last_at = step.program.rule_at(agenda::match_rule(step, block)) + LAST_WAITING;
    if step.words.get(last_at) == block {
        step.words.set(last_at, 0)?;
    }
    match step.words.get(block + MATCH_LINK) {
        0 => DEADLINES.pop(step.words, is_before),
        next => DEADLINES.replace_first(step.words, next, is_before),
    }
}

fn is_before(words: &Words, a: u32, b: u32) -> bool {
    let deadline = |block: u32| words.get64(block + MATCH_DEADLINE) as i64;
    deadline(a) < deadline(b)
}
