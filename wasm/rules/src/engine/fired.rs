//! The results of firings: notices, the rule that fired last, and the cycle that the last firings form.

use crate::compile::code::SLOTS;
use crate::compile::program::Program;
use crate::engine::Engine;
use crate::firing::notices::{self, Notice};
use crate::layout::{NOTICES, NOTICE_WORDS};

/// The number of firings that [`Fired::cycle`] examines.
const RECENT_FIRINGS: usize = 32;

/// The most rules that [`Fired::cycle`] returns without a repeating sequence.
const MAX_FREQUENT_RULES: usize = 8;

/// A rule and the numbers of the facts for which it fired.
type Firing = (u32, [u64; SLOTS]);

/// The rules that fired, by number. Not part of the state that steps change, so an interruption may lose a firing.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The rule that fired last.
    last: Option<u32>,
    /// A ring buffer of the rules that fired since the transaction began, and their number.
    recent: [u32; RECENT_FIRINGS],
    count: usize,
    /// The firings since [`Engine::record`], if it was called.
    record: Option<Vec<Firing>>,
}

impl History {
    pub fn add(&mut self, rule: u32, facts: &[u64; SLOTS]) {
        self.last = Some(rule);
        self.recent[self.count % RECENT_FIRINGS] = rule;
        self.count += 1;
        if let Some(record) = &mut self.record {
            record.push((rule, *facts));
        }
    }

    pub fn is_recorded(&self) -> bool {
        self.record.is_some()
    }

    pub fn begin_transaction(&mut self) {
        self.count = 0;
    }

    pub fn roll_back(&mut self) {
        self.last = None;
    }
}

/// The results of firings.
#[derive(Clone, Copy, Debug)]
pub struct Fired<'e> {
    pub(super) program: &'e Program,
    pub(super) history: &'e History,
    pub(super) notices: &'e [u32],
}

impl<'e> Fired<'e> {
    /// Returns the pending notices.
    pub fn notices(self) -> Vec<Notice> {
        notices::read(self.program, self.notices)
    }

    /// Returns the name of the rule that fired last.
    pub fn last_rule(self) -> Option<&'e str> {
        self.history.last.map(|rule| self.name(rule))
    }

    /// Returns the rule names of the cycle in which the last [`RECENT_FIRINGS`] firings end, in firing order: the shortest sequence
    /// whose repetition fills the second half of these firings. Without a cycle, returns the most frequent rules. Only firings since
    /// the transaction began count, and an interruption may lose one, so the names are for messages alone.
    #[inline(never)]
    pub fn cycle(self) -> Vec<String> {
        let History { recent, count, .. } = self.history;
        let length = (*count).min(RECENT_FIRINGS);
        let fired: Vec<u32> = (count - length..*count).map(|number| recent[number % RECENT_FIRINGS]).collect();
        let repeats = |period: &usize| {
            let start = length - (2 * period).max(length / 2);
            fired[start..length - period] == fired[start + period..]
        };
        let mut rules = match (1..=length / 2).find(repeats) {
            Some(period) => {
                let mut cycle = fired[length - period..].to_vec();
                // Rotated to begin with the first rule in the text.
                let first = cycle.iter().enumerate().min_by_key(|(_, rule)| **rule).map_or(0, |(place, _)| place);
                cycle.rotate_left(first);
                cycle
            }
            None => {
                let mut rules = fired.clone();
                rules.sort_unstable();
                rules.dedup();
                rules.sort_by_key(|rule| std::cmp::Reverse(fired.iter().filter(|fired| *fired == rule).count()));
                rules.truncate(MAX_FREQUENT_RULES);
                rules
            }
        };
        // The alternatives of a rule share a name.
        rules.dedup_by(|left, right| self.name(*left) == self.name(*right));
        rules.iter().map(|rule| self.name(*rule).to_owned()).collect()
    }

    fn name(self, rule: u32) -> &'e str {
        &self.program.rules[rule as usize].name
    }
}

impl Engine {
    /// Returns the firings recorded so far, each with its rule and the numbers of its facts, and records from now on. The record
    /// grows until the next call.
    pub fn record(&mut self) -> Vec<(String, Vec<u64>)> {
        let rules = &self.program.rules;
        let named = |(number, facts): Firing| {
            let rule = &rules[number as usize];
            (rule.name.clone(), facts[..rule.slots.len()].to_vec())
        };
        self.history.record.replace(Vec::new()).unwrap_or_default().into_iter().map(named).collect()
    }

    /// Returns the pending notices, and empties their list.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.recover();
        let notices = self.fired().notices();
        self.empty_notices();
        notices
    }

    /// Empties the list of notices.
    pub fn empty_notices(&mut self) {
        if self.words.get(NOTICES) == 0 {
            return;
        }
        // Two words fit any log.
        let emptied = self.retried(|step| {
            step.words.set(NOTICE_WORDS, 0)?;
            step.words.set(NOTICES, 0)
        });
        debug_assert!(emptied.is_ok());
    }
}
