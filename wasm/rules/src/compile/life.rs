//! The time for which a fact can still be used.
//!
//! A fact serves a rule as long as a fact that comes now can complete a match with it, and as long as a match that may contain it,
//! or that a `none` or an aggregate tests with it, waits for its deadline. Time clauses bound the differences of the facts' times,
//! and the shortest paths over these bounds are the bounds for all pairs.
//!
//! With a window on both sides, a match waits on after the last fact that completes it. In `n: count b(within 10 minutes of p)`
//! the match is tested ten minutes after `p`, which may be ten minutes after `b`. So `b` is of use for twenty.
//!
//! A fact whose every use is bounded is dropped after the largest bound. A fact type that no time clause is about is kept.

use crate::compile::code::SLOTS;
use crate::compile::plans::RawGuard;
use crate::compile::program::Slot;

/// A time clause: one fact is later than another by less than a duration.
pub(super) struct Time {
    /// The facts: a slot, or [`SLOTS`] and the number of a guard.
    pub later: usize,
    pub earlier: usize,
    pub less_than: Option<i64>,
    /// Whether `earlier` may also be the later one, by less than the same duration.
    pub is_near: bool,
}

/// By fact type: whether a time clause is about it, and the longest use, or `None` if it is unbounded.
pub(super) struct Lives(Vec<(bool, Option<i64>)>);

/// By facts i and j: an upper bound of the time from i to j.
struct Bounds(Vec<Vec<i64>>);

impl Bounds {
    fn new(facts: usize) -> Self {
        let mut bounds = vec![vec![i64::MAX; facts]; facts];
        (0..facts).for_each(|fact| bounds[fact][fact] = 0);
        Bounds(bounds)
    }

    fn add(&mut self, from: usize, to: usize, bound: i64) {
        self.0[from][to] = self.0[from][to].min(bound);
    }

    /// Makes the bounds those of the shortest paths.
    fn close(mut self) -> Self {
        let facts = self.0.len();
        for via in 0..facts {
            for from in 0..facts {
                for to in 0..facts {
                    let sum = self.0[from][via].saturating_add(self.0[via][to]);
                    self.add(from, to, sum);
                }
            }
        }
        self
    }
}

impl Lives {
    pub fn new(types: usize) -> Self {
        Lives(vec![(false, Some(0)); types])
    }

    /// Takes the uses of facts by a rule into account.
    pub fn add(&mut self, times: &[Time], slots: &[Slot], guards: &[RawGuard]) {
        let types: Vec<usize> = slots.iter().map(|slot| slot.ty).chain(guards.iter().map(|guard| guard.ty)).collect();
        let node = |fact: usize| if fact < SLOTS { fact } else { slots.len() + fact - SLOTS };
        // How much later a fact may be, and how much later it may come.
        let (mut times_between, mut arrivals) = (Bounds::new(types.len()), Bounds::new(types.len()));
        for time in times {
            let (later, earlier) = (node(time.later), node(time.earlier));
            self.0[types[later]].0 |= time.less_than.is_some();
            self.0[types[earlier]].0 |= time.less_than.is_some();
            let less_than = time.less_than.unwrap_or(i64::MAX);
            times_between.add(earlier, later, less_than);
            times_between.add(later, earlier, if time.is_near { less_than } else { 0 });
            arrivals.add(earlier, later, less_than);
            // The earlier fact may come after the later one, which waits for it as long.
            arrivals.add(later, earlier, less_than);
        }
        let (times_between, arrivals) = (times_between.close(), arrivals.close());
        for (fact, ty) in types.iter().enumerate() {
            let others = (0..types.len()).filter(|other| *other != fact).map(|other| arrivals.0[fact][other]);
            let waits = guards.iter().filter_map(|guard| guard.deadlines.end(|slot| times_between.0[fact][slot]));
            let longest = others.chain(waits).max().unwrap_or(0);
            let life = &mut self.0[*ty].1;
            *life = if longest == i64::MAX { None } else { life.map(|life| life.max(longest)) };
        }
    }

    /// Returns the life of each fact type, in milliseconds. A type without one is kept.
    pub fn all(self) -> impl Iterator<Item = Option<i64>> {
        self.0.into_iter().map(|(is_timed, life)| life.filter(|_| is_timed))
    }
}
