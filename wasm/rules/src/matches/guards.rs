//! `none` and aggregates: conditions on all facts that match, and the matches that become valid when such a condition turns true.
//!
//! A fact that comes or goes can make a guard true for matches of older facts. They are looked up at once, and each that was not
//! valid before goes to the agenda, or to the timers if the guard's window is still open. A match that a seed has yet to find is
//! left to the seed.

use crate::aggregate::series::moment_of_fact;
use crate::aggregate::totals::{Total, Wide};
use crate::compile::code::{Bound, Locals, Scope, NO_LOCALS, NUMBER, OWN, SLOTS, TIME};
use crate::compile::program::{self, Aggregate, Guard, Limit, Probe, Rule};
use crate::facts::change::is_alive;
use crate::memory::{Address, Full};
use crate::step::{Step, Tested};

/// A change of facts that counts for a guard in the state before it: one fact was there, and another was not. The address 0 stands
/// for none. The fact that is gone keeps its content and its number until the guards are told.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub gone: Address,
    pub new: Address,
}

/// The search for the matches that a change makes valid, see [`Step::flip`].
#[derive(Clone, Copy)]
struct Flip {
    rule: u32,
    guard: u8,
    newest: u64,
    change: Change,
    fact: Address,
}

impl Step<'_> {
    /// Returns whether a guard holds for the bound facts, apart from its deadline.
    pub fn guard_holds(&mut self, guard: &Guard, bound: &mut Bound) -> bool {
        if guard.aggregate == Aggregate::None {
            return !self.is_blocked(guard, bound);
        }
        self.is_reached(guard, bound)
    }

    /// Returns whether the facts of an aggregate have the value that it demands.
    pub fn is_reached(&self, guard: &Guard, bound: &mut Bound) -> bool {
        self.satisfies(guard, self.aggregate(guard, bound, Change::default()), bound)
    }

    fn is_blocked(&mut self, guard: &Guard, bound: &mut Bound) -> bool {
        let head = self.head(&guard.probe, bound);
        if guard.probe.index != 0 {
            return self.blocker_from(guard, head, 0, bound) != 0;
        }
        let place = std::ptr::from_ref(guard) as usize;
        let tested = self.scratch.tested.filter(|tested| tested.guard == place);
        if let Some(limit) = &guard.limit {
            let fresh = Tested { guard: place, blocker: 0, next: head };
            return self.is_exceeded(guard, limit, tested.unwrap_or(fresh), bound);
        }
        // All facts of the type are one list. The one that blocked the last match, or one after it, often blocks this one.
        let last = tested.map_or(head, |tested| tested.blocker);
        let mut blocker = self.blocker_from(guard, last, 0, bound);
        if blocker == 0 && last != head {
            blocker = self.blocker_from(guard, head, last, bound);
        }
        if blocker != 0 {
            self.scratch.tested = Some(Tested { guard: place, blocker, next: 0 });
        }
        blocker != 0
    }

    /// Returns whether a fact blocks a `none` that is a bound. If the greatest fact does not, none does. So each fact is seen at most
    /// once until a fact comes or goes, however many matches are tested.
    fn is_exceeded(&mut self, guard: &Guard, limit: &Limit, mut tested: Tested, bound: &mut Bound) -> bool {
        let kept = bound[OWN as usize];
        let link = guard.probe.link;
        let mut is_blocked = false;
        if tested.blocker != 0 {
            bound[OWN as usize] = tested.blocker;
            is_blocked = limit.test.holds(self.words, bound);
        }
        while !is_blocked && tested.next != 0 {
            let fact = tested.next;
            bound[OWN as usize] = fact;
            tested.next = self.words.get(fact + link);
            if limit.is_beyond(self.words, tested.blocker, bound)
                && limit.own.iter().all(|test| test.holds(self.words, bound))
            {
                tested.blocker = fact;
                is_blocked = limit.test.holds(self.words, bound);
            }
        }
        bound[OWN as usize] = kept;
        self.scratch.tested = Some(tested);
        is_blocked
    }

    /// Returns the newest fact for which a `none` does not hold, or 0.
    pub fn blocker(&self, guard: &Guard, bound: &mut Bound) -> Address {
        self.blocker_from(guard, self.head(&guard.probe, bound), 0, bound)
    }

    /// Returns the first fact of a list, from `fact` up to `end`, that passes a guard's tests, or 0.
    #[inline]
    fn blocker_from(&self, guard: &Guard, mut fact: Address, end: Address, bound: &mut Bound) -> Address {
        let link = guard.probe.link;
        let kept = bound[OWN as usize];
        while fact != end {
            bound[OWN as usize] = fact;
            if guard.probe.accepts(self.words, bound) {
                break;
            }
            fact = self.words.get(fact + link);
        }
        bound[OWN as usize] = kept;
        if fact == end {
            0
        } else {
            fact
        }
    }

    /// Returns whether the value of an aggregate satisfies its clauses.
    fn satisfies(&self, guard: &Guard, value: Option<u64>, bound: &Bound) -> bool {
        let mut locals = NO_LOCALS;
        if let Some(local) = guard.local {
            locals[local as usize] = value;
        }
        let scope = Scope { words: self.words, bound, locals: &locals };
        guard.having.iter().all(|code| code.holds(scope))
    }

    /// Returns the value of an aggregate before a change.
    fn aggregate(&self, guard: &Guard, bound: &mut Bound, before: Change) -> Option<u64> {
        let aggregate = &guard.aggregate;
        let total = self.total_of_tree(guard, bound, before).unwrap_or_else(|| {
            let mut total = Total::of_nothing(aggregate);
            self.each_value(guard, bound, before, |value| {
                total = total.merged(Total::of_one(aggregate, value), aggregate);
            });
            total
        });
        if total == Total::Sum(None) {
            let mut wide = Wide::new();
            self.each_value(guard, bound, before, |value| value.into_iter().for_each(|value| wide.add(value)));
            return wide.value();
        }
        total.value(aggregate)
    }

    /// Calls `visit` for each fact of an aggregate before a change, with the value of the aggregate's field.
    #[inline]
    fn each_value(&self, guard: &Guard, bound: &mut Bound, before: Change, mut visit: impl FnMut(Option<u64>)) {
        let field = guard.aggregate.field();
        let link = guard.probe.link;
        let kept = bound[OWN as usize];
        if before.gone != 0 {
            bound[OWN as usize] = before.gone;
            if guard.probe.accepts(self.words, bound) {
                visit(field.and_then(|field| field.value(self.words, bound)));
            }
        }
        let mut fact = self.head(&guard.probe, bound);
        while fact != 0 {
            bound[OWN as usize] = fact;
            if fact != before.new && guard.probe.accepts(self.words, bound) {
                visit(field.and_then(|field| field.value(self.words, bound)));
            }
            fact = self.words.get(fact + link);
        }
        bound[OWN as usize] = kept;
    }

    /// Returns the values of a rule's aggregates.
    pub fn locals(&self, rule: &Rule, bound: &mut Bound) -> Locals {
        let mut locals = NO_LOCALS;
        for guard in &rule.guards {
            if let Some(local) = guard.local {
                locals[local as usize] = self.aggregate(guard, bound, Change::default());
            }
        }
        locals
    }

    /// Returns the time from which on all guards' windows are closed.
    pub fn deadline(&self, rule: &Rule, bound: &Bound) -> i64 {
        let closed = |guard: &Guard| guard.deadlines.end(|slot| self.words.get64(bound[slot] + TIME) as i64);
        rule.guards.iter().filter_map(closed).max().unwrap_or(i64::MIN)
    }

    /// Looks up the matches of facts numbered up to `newest` that a change makes valid. Of the change's facts, the one in no index
    /// any more, or the new one, is `fact`, and the matches are those whose guard it is about.
    ///
    /// A modification is one change: a match is new if it was not valid before the old fact went, and is valid once the new one is
    /// there.
    pub fn flip(&mut self, rule: u32, guard: u8, newest: u64, change: Change, fact: Address) -> Result<(), Full> {
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        self.flip_from(Flip { rule, guard, newest, change, fact }, 0, &mut bound)
    }

    /// Goes on with a flip from the look-up `depth` on.
    fn flip_from(&mut self, flip: Flip, depth: usize, bound: &mut Bound) -> Result<(), Full> {
        let rule = &self.program.rules[flip.rule as usize];
        let Some(program::Join { probe, window, .. }) = rule.flips[flip.guard as usize].joins.get(depth) else {
            return self.gain(flip, bound);
        };
        let tree = window.as_ref().and_then(|window| Some((window, self.tree(window, probe, bound)?)));
        if let Some((window, root)) = tree {
            let (after, before) = window.range(self.words, bound);
            let mut fact = self.first_after(root, after);
            while fact != 0 {
                let moment = moment_of_fact(self.words, fact);
                if moment >= before {
                    break;
                }
                self.flip_with(flip, depth, probe, fact, bound)?;
                fact = self.first_after(root, moment);
            }
            return Ok(());
        }
        let mut fact = self.head(probe, bound);
        while fact != 0 {
            self.flip_with(flip, depth, probe, fact, bound)?;
            fact = self.words.get(fact + probe.link);
        }
        Ok(())
    }

    /// Goes on with a flip behind the look-up `depth`, which found `fact`.
    #[inline]
    fn flip_with(
        &mut self,
        flip: Flip,
        depth: usize,
        probe: &Probe,
        fact: Address,
        bound: &mut Bound,
    ) -> Result<(), Full> {
        if self.words.get64(fact + NUMBER) > flip.newest {
            return Ok(());
        }
        bound[probe.slot as usize] = fact;
        if probe.accepts(self.words, bound) {
            self.flip_from(flip, depth + 1, bound)?;
        }
        Ok(())
    }

    /// Adds the match of a flip, if the change makes it valid.
    fn gain(&mut self, flip: Flip, bound: &mut Bound) -> Result<(), Full> {
        let Flip { rule: number, guard, change, fact, .. } = flip;
        let rule = &self.program.rules[number as usize];
        let changed = &rule.guards[guard as usize];
        if fact == change.new && change.gone != 0 {
            // The matches whose guard both facts are about are those of the old one.
            bound[OWN as usize] = change.gone;
            let is_about_both = changed.probe.accepts(self.words, bound);
            bound[OWN as usize] = fact;
            if is_about_both {
                return Ok(());
            }
        }
        let held_before = match changed.aggregate {
            // It blocked the match.
            Aggregate::None => false,
            _ => self.satisfies(changed, self.aggregate(changed, bound, change), bound),
        };
        if held_before
            || !rule.guards.iter().all(|guard| self.guard_holds(guard, bound))
            || self.is_pending(number, bound)
        {
            return Ok(());
        }
        let deadline = self.deadline(rule, bound);
        if deadline > self.clock() {
            self.wait(number, bound, deadline)
        } else {
            self.push_match(number, bound)
        }
    }

    /// Returns whether a seed of the rule has yet to find the match.
    fn is_pending(&self, number: u32, bound: &Bound) -> bool {
        let rule = &self.program.rules[number as usize];
        let slots = rule.slots.len();
        let numbers = |slot: usize| self.words.get64(bound[slot] + NUMBER);
        // The first of the slots with the newest fact.
        let seed_slot = (0..slots).rev().max_by_key(|slot| numbers(*slot)).unwrap_or(0);
        let newest = numbers(seed_slot);
        let Some(seed) = self.find_seed(number, seed_slot as u8, newest) else { return false };
        debug_assert!(is_alive(self.words, bound[seed_slot], newest));
        if !self.is_searched(seed) {
            return true;
        }
        for (depth, join) in rule.plans[seed_slot].joins.iter().enumerate() {
            let (own, (_, reached)) = (numbers(join.probe.slot as usize), self.reached(seed, depth));
            if own != reached {
                return own < reached;
            }
        }
        false
    }
}
