//! The search for the next match of a rule with a given fact.
//!
//! A search goes through the look-ups of a plan, newest facts first. It holds one fact for each look-up. So it can stop at each
//! match, and later go on after that match.

use crate::compile::code::{Bound, NUMBER, SLOTS};
use crate::compile::program::{Join, Plan, Probe, Rule};
use crate::facts::change::{is_alive, KEY};
use crate::memory::{mix, Address};
use crate::step::{Scratch, Step};

/// The facts of a match, one for each look-up: their addresses and numbers.
pub(crate) type Path = [(Address, u64); SLOTS];

impl Step<'_> {
    /// Returns the newest fact that may pass the tests of a look-up, or 0.
    #[inline]
    pub fn head(&self, probe: &Probe, bound: &Bound) -> Address {
        if probe.index == 0 {
            return self.words.get(probe.table.0);
        }
        let mut hash = KEY;
        for operand in &probe.key {
            let Some(value) = operand.value(self.words, bound) else { return 0 };
            hash = mix(hash, value);
        }
        probe.table.place(self.words, hash as u32).1
    }

    /// Returns whether the first look-up of a plan may find a partner for a new fact in `slot`. What is looked up later is older
    /// than the fact, so a plan without a partner now never has one.
    pub fn has_partner(&self, plan: &Plan, slot: u8, fact: Address, newest: u64) -> bool {
        plan.joins.first().is_none_or(|first| self.may_find(first, slot, fact, newest))
    }

    /// Returns whether there may be the facts that must be later than the new fact in `slot`, as in [`Step::has_partner`].
    #[inline]
    pub fn has_later(&self, later: &[Join], slot: u8, fact: Address, newest: u64) -> bool {
        later.iter().all(|join| self.may_find(join, slot, fact, newest))
    }

    /// Returns whether a look-up by the new fact in `slot` alone may find another one.
    fn may_find(&self, join: &Join, slot: u8, fact: Address, newest: u64) -> bool {
        let mut bound: Bound = [0; SLOTS + 1];
        bound[slot as usize] = fact;
        let link = join.probe.link;
        let most = if join.is_older { newest - 1 } else { newest };
        let mut fact = self.head(&join.probe, &bound);
        // A long list is left to the search.
        for _ in 0..8 {
            if fact == 0 {
                return false;
            }
            if self.words.get64(fact + NUMBER) <= most {
                bound[join.probe.slot as usize] = fact;
                if join.probe.tests.iter().all(|test| test.holds(self.words, &bound)) {
                    return true;
                }
            }
            fact = self.words.get(fact + link);
        }
        true
    }

    /// Binds the first match, or the next one after that of [`crate::step::Scratch::path`] if the search goes on. Partners are at
    /// most as new as `newest`, or older where the plan says so. Returns whether there is a match, which is the path then.
    pub fn search(&mut self, rule: &Rule, plan: &Plan, newest: u64, mut goes_on: bool, bound: &mut Bound) -> bool {
        let is_found = plan.guards.iter().all(|guard| self.guard_holds(&rule.guards[*guard as usize], bound))
            && self.search_from(rule, plan, 0, newest, &mut goes_on, bound);
        if is_found {
            for (place, join) in self.scratch.path.iter_mut().zip(&plan.joins) {
                let fact = bound[join.probe.slot as usize];
                *place = (fact, self.words.get64(fact + NUMBER));
            }
            if let Some(join) = plan.joins.first() {
                let link = join.probe.link;
                let Scratch { path, next, .. } = &mut *self.scratch;
                let others = &path[1..plan.joins.len()];
                next.0 = self.words.get(path[0].0 + link);
                while next.0 != 0 && others.iter().any(|(fact, _)| *fact == next.0) {
                    next.0 = self.words.get(next.0 + link);
                }
                next.1 = if next.0 == 0 { 0 } else { self.words.get64(next.0 + NUMBER) };
            }
        }
        is_found
    }

    /// Returns whether [`Scratch::next`] is the first fact of its list after the one with this number, which is gone. Between the
    /// two there were other facts of the match alone.
    fn is_next_of(&self, plan: &Plan, number: u64) -> bool {
        let Scratch { path, next, .. } = &*self.scratch;
        let is_there = |(fact, number): (Address, u64)| fact != 0 && is_alive(self.words, fact, number);
        let mut others = path[1..plan.joins.len()].iter();
        is_there(*next) && !others.any(|other| (next.1..number).contains(&other.1) && is_there(*other))
    }

    fn search_from(
        &mut self,
        rule: &Rule,
        plan: &Plan,
        depth: usize,
        newest: u64,
        goes_on: &mut bool,
        bound: &mut Bound,
    ) -> bool {
        let Some(join) = plan.joins.get(depth) else {
            // The match after which the search goes on is found again, and is no new one.
            return !std::mem::take(goes_on);
        };
        let is_last = depth + 1 == plan.joins.len();
        let link = join.probe.link;
        let (reached, number) = self.scratch.path[depth];
        let mut fact = if *goes_on && is_alive(self.words, reached, number) {
            reached
        } else if *goes_on && depth == 0 && self.is_next_of(plan, number) {
            self.scratch.next.0
        } else {
            self.head(&join.probe, bound)
        };
        // Facts before the place where the search goes on.
        let most = match (*goes_on, join.is_older) {
            (true, _) => number,
            (false, true) => newest - 1,
            (false, false) => newest,
        };
        while fact != 0 && self.words.get64(fact + NUMBER) > most {
            fact = self.words.get(fact + link);
        }
        while fact != 0 {
            if *goes_on && number != self.words.get64(fact + NUMBER) {
                *goes_on = false;
            }
            bound[join.probe.slot as usize] = fact;
            if join.probe.tests.iter().all(|test| test.holds(self.words, bound))
                && join.guards.iter().all(|guard| self.guard_holds(&rule.guards[*guard as usize], bound))
            {
                let is_found = if is_last {
                    !std::mem::take(goes_on)
                } else {
                    self.search_from(rule, plan, depth + 1, newest, goes_on, bound)
                };
                if is_found {
                    return true;
                }
            }
            *goes_on = false;
            fact = self.words.get(fact + link);
        }
        *goes_on = false;
        false
    }
}
