//! Computes the life of a fact: the time after which no rule can use it.
//!
//! A fact is of use while a new fact can complete a match with it, and while a match that may contain it, or whose `none` or
//! aggregate tests it, waits for its deadline. Time clauses bound the differences of the facts' times; all-pairs shortest paths
//! over these bounds give the tightest bound for each pair.
//!
//! With a window on both sides, a match waits beyond its last fact. In `n: count b(within 10 minutes of p)` the match is tested ten
//! minutes after `p`, which may come ten minutes after `b`. So `b` is of use for twenty minutes.
//!
//! A fact whose uses are all bounded is dropped after the largest bound. Types that no time clause mentions are kept.

use crate::compile::code::SLOTS;
use crate::compile::plans::RawGuard;
use crate::compile::program::Slot;

/// A time clause: one fact is later than another by less than a duration.
pub(super) struct Time {
    /// A slot, or [`SLOTS`] plus the number of a guard.
    pub later: usize,
    pub earlier: usize,
    pub less_than: Option<i64>,
    /// Whether the order may also be reversed, within the same duration.
    pub is_near: bool,
}

/// By fact type: whether a time clause mentions it, and its longest use, or `None` if that is unbounded.
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

    /// Tightens the bounds by all-pairs shortest paths.
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

    /// Adds the uses that a rule makes of facts.
    pub fn add(&mut self, times: &[Time], slots: &[Slot], guards: &[RawGuard]) {
        let types: Vec<usize> = slots.iter().map(|slot| slot.ty).chain(guards.iter().map(|guard| guard.ty)).collect();
        let node = |fact: usize| if fact < SLOTS { fact } else { slots.len() + fact - SLOTS };
        // Upper bounds on the differences of the facts' times, and of their arrivals.
        let (mut times_between, mut arrivals) = (Bounds::new(types.len()), Bounds::new(types.len()));
        for time in times {
            let (later, earlier) = (node(time.later), node(time.earlier));
            self.0[types[later]].0 |= time.less_than.is_some();
            self.0[types[earlier]].0 |= time.less_than.is_some();
            let less_than = time.less_than.unwrap_or(i64::MAX);
            times_between.add(earlier, later, less_than);
            times_between.add(later, earlier, if time.is_near { less_than } else { 0 });
            arrivals.add(earlier, later, less_than);
            // The earlier fact may also arrive after the later one, which waits for it for the same duration.
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

    /// Returns the life of each fact type in milliseconds, or `None` if its facts are kept.
    pub fn all(self) -> impl Iterator<Item = Option<i64>> {
        self.0.into_iter().map(|(is_timed, life)| life.filter(|_| is_timed))
    }
}
