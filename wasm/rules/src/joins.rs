//! The search for the next match of a rule with a given fact.
//!
//! A search goes through the look-ups of a plan, newest facts first. It holds one fact for each look-up. So it can stop at each
//! match, and later go on after that match.

use crate::compile::code::SLOTS;
use crate::compile::code::{Bound, NUMBER};
use crate::compile::program::{Plan, Probe, Rule};
use crate::facts::{is_alive, KEY};
use crate::memory::{mix, Address};
use crate::step::Step;

/// The facts of the last match, one for each look-up: their addresses and numbers.
pub(crate) type Path = [(Address, u64); SLOTS];

impl Step<'_> {
    /// Returns the newest fact that may pass the tests of a look-up, or 0.
    #[inline]
    pub fn head(&self, probe: &Probe, bound: &Bound) -> Address {
        let fact_type = &self.program.types[probe.ty];
        if probe.index == 0 {
            return fact_type.newest(self.words);
        }
        let mut hash = KEY;
        for operand in &probe.key {
            let Some(value) = operand.value(self.words, bound) else { return 0 };
            hash = mix(hash, value);
        }
        fact_type.table(probe.index).find(self.words, hash as u32, |_| true).map_or(0, |(_, fact)| fact)
    }

    /// Returns the offset of the link from a fact to the next one of a look-up.
    #[inline]
    pub fn link_of(&self, probe: &Probe) -> u32 {
        self.program.types[probe.ty].links(probe.index)
    }

    /// Returns whether the first look-up of a plan may find a partner for a new fact. Whatever is looked up later is older than
    /// the fact, so a plan without a partner now never has one.
    pub fn has_partner(&self, plan: &Plan, newest: u64, bound: &mut Bound) -> bool {
        let Some(step) = plan.steps.first() else { return true };
        let link = self.link_of(&step.probe);
        let most = if step.is_older { newest - 1 } else { newest };
        let mut fact = self.head(&step.probe, bound);
        // A long list is left to the search.
        for _ in 0..8 {
            if fact == 0 {
                return false;
            }
            if self.words.get64(fact + NUMBER) <= most {
                bound[step.probe.slot as usize] = fact;
                if step.probe.tests.iter().all(|test| test.holds(self.words, bound)) {
                    return true;
                }
            }
            fact = self.words.get(fact + link);
        }
        true
    }

    /// Binds the next match, after the match of `after`. Partners are at most as new as `newest`, or older where the plan says
    /// so. Returns whether there is one.
    pub fn search(&self, rule: &Rule, plan: &Plan, newest: u64, after: Option<Path>, bound: &mut Bound) -> bool {
        let mut after = after;
        plan.guards.iter().all(|guard| self.guard_holds(&rule.guards[*guard as usize], bound))
            && self.search_from(rule, plan, 0, newest, &mut after, bound)
    }

    fn search_from(
        &self,
        rule: &Rule,
        plan: &Plan,
        depth: usize,
        newest: u64,
        after: &mut Option<Path>,
        bound: &mut Bound,
    ) -> bool {
        let Some(step) = plan.steps.get(depth) else {
            // The match after which the search goes on is found again, and is no new one.
            return after.take().is_none();
        };
        let link = self.link_of(&step.probe);
        let mut fact = match after {
            Some(path) if is_alive(self.words, path[depth].0, path[depth].1) => path[depth].0,
            _ => self.head(&step.probe, bound),
        };
        // Facts before the place where the search goes on.
        let most = match after {
            Some(path) => path[depth].1,
            None if step.is_older => newest - 1,
            None => newest,
        };
        while fact != 0 && self.words.get64(fact + NUMBER) > most {
            fact = self.words.get(fact + link);
        }
        while fact != 0 {
            if after.is_some_and(|path| path[depth].1 != self.words.get64(fact + NUMBER)) {
                *after = None;
            }
            bound[step.probe.slot as usize] = fact;
            if step.probe.tests.iter().all(|test| test.holds(self.words, bound))
                && step.guards.iter().all(|guard| self.guard_holds(&rule.guards[*guard as usize], bound))
                && self.search_from(rule, plan, depth + 1, newest, after, bound)
            {
                return true;
            }
            *after = None;
            fact = self.words.get(fact + link);
        }
        *after = None;
        false
    }

    /// Returns the facts of the match by look-up.
    pub fn path(&self, plan: &Plan, bound: &Bound) -> Path {
        let mut path = [(0, 0); SLOTS];
        for (place, step) in path.iter_mut().zip(&plan.steps) {
            let fact = bound[step.probe.slot as usize];
            *place = (fact, self.words.get64(fact + NUMBER));
        }
        path
    }
}
