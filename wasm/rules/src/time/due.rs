//! Deadlines of matches, and the dropping of facts that no rule can use any more.
//!
//! The matches of a rule mostly begin to wait in the order of their deadlines, so they are a queue. A heap has the first match of
//! each queue, and each match that would come before the last one of its queue.

use crate::compile::code::{Bound, SLOTS, TIME};
use crate::facts::change::Removal;
use crate::matches::agenda::{LAST_WAITING, MATCH_DEADLINE, MATCH_LINK};
use crate::memory::{Address, Full, Words};
use crate::step::{Step, CLOCK, TIMERS};

/// An event in time.
#[derive(Clone, Copy)]
pub(crate) enum Due {
    /// A match whose windows are closed.
    Match(Address),
    /// A fact of this type that is of no more use.
    Fact(usize, Address),
}

impl Step<'_> {
    /// Keeps a match until its deadline.
    pub fn wait(&mut self, rule: u32, bound: &Bound, deadline: i64) -> Result<(), Full> {
        let block = self.match_block(rule, bound, deadline)?;
        let last_at = self.program.rule_at(rule) + LAST_WAITING;
        let last = self.words.get(last_at);
        if last == 0 {
            self.words.set(last_at, block)?;
        } else if self.words.get64(last + MATCH_DEADLINE) as i64 <= deadline {
            self.words.set(last + MATCH_LINK, block)?;
            return self.words.set(last_at, block);
        }
        TIMERS.push(self.words, block, is_before)
    }

    /// Takes the first waiting match out.
    fn take_first(&mut self, block: Address) -> Result<(), Full> {
        let last_at = self.program.rule_at(self.match_rule(block)) + LAST_WAITING;
        if self.words.get(last_at) == block {
            self.words.set(last_at, 0)?;
        }
        match self.words.get(block + MATCH_LINK) {
            0 => TIMERS.pop(self.words, is_before),
            next => TIMERS.replace_first(self.words, next, is_before),
        }
    }

    /// Returns the first event up to `time`, and its time. At the same time, matches come before facts.
    pub fn first_due(&self, time: i64) -> Option<(i64, Due)> {
        let mut first = None;
        if let Some(block) = TIMERS.first(self.words) {
            let deadline = self.words.get64(block + MATCH_DEADLINE) as i64;
            if deadline <= time {
                first = Some((deadline, Due::Match(block)));
            }
        }
        for (number, life) in &self.program.lives {
            let ty = &self.program.types[*number];
            let fact = ty.oldest(self.words);
            if fact == 0 {
                continue;
            }
            // A late fact is dropped after those that came before it. So it stays no longer than a fact that came with it and was
            // not late.
            let end = (self.words.get64(fact + TIME) as i64).saturating_add(*life).max(self.clock());
            if end <= time && first.is_none_or(|(earliest, _)| end < earliest) {
                first = Some((end, Due::Fact(*number, fact)));
            }
        }
        first
    }

    /// Lets an event happen.
    pub fn happen(&mut self, time: i64, due: Due) -> Result<(), Full> {
        self.words.set64(CLOCK, time.max(self.clock()) as u64)?;
        match due {
            Due::Fact(ty, fact) => self.remove(ty, fact, Removal::Drop),
            Due::Match(block) => {
                self.take_first(block)?;
                let mut bound: Bound = [0; SLOTS + 1];
                let rule = &self.program.rules[self.match_rule(block) as usize];
                if self.bind(block, &mut bound) && rule.guards.iter().all(|guard| self.guard_holds(guard, &mut bound)) {
                    self.push_match_block(block)
                } else {
                    self.free_match(block)
                }
            }
        }
    }
}

fn is_before(words: &Words, a: u32, b: u32) -> bool {
    let deadline = |block: u32| words.get64(block + MATCH_DEADLINE) as i64;
    deadline(a) < deadline(b)
}
