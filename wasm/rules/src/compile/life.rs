//! The time for which a fact can still be used.
//!
//! A fact serves a rule as long as a fact that comes now can complete a match with it. Time clauses bound the differences of
//! the facts' times, and the shortest paths over these bounds are the bounds for all pairs. A fact whose every use is bounded
//! is dropped after the largest bound. A fact type that no time clause is about is kept.

use crate::compile::code::SLOTS;
use crate::compile::plans::RawGuard;
use crate::compile::program::Slot;
use crate::compile::rules::Time;

/// By fact type: whether a time clause is about it, and the longest use, or `None` if it is unbounded.
pub(super) struct Lives(Vec<(bool, Option<i64>)>);

impl Lives {
    pub fn new(types: usize) -> Self {
        Lives(vec![(false, Some(0)); types])
    }

    /// Takes the uses of facts by a rule into account.
    pub fn add(&mut self, times: &[Time], slots: &[Slot], guards: &[RawGuard]) {
        let types: Vec<usize> = slots.iter().map(|slot| slot.ty).chain(guards.iter().map(|guard| guard.ty)).collect();
        let node = |fact: usize| if fact < SLOTS { fact } else { slots.len() + fact - SLOTS };
        let facts = types.len();
        // The bounds of `time of j - time of i`.
        let mut bounds = vec![vec![i64::MAX; facts]; facts];
        for time in times {
            let (later, earlier) = (node(time.later), node(time.earlier));
            self.0[types[later]].0 |= time.less_than.is_some();
            self.0[types[earlier]].0 |= time.less_than.is_some();
            let less_than = time.less_than.unwrap_or(i64::MAX);
            bounds[earlier][later] = bounds[earlier][later].min(less_than);
            // The later one of two may be in the past of the other by as much, if it is not known to be later.
            bounds[later][earlier] = bounds[later][earlier].min(less_than);
        }
        for via in 0..facts {
            for from in 0..facts {
                for to in 0..facts {
                    let sum = bounds[from][via].saturating_add(bounds[via][to]);
                    bounds[from][to] = bounds[from][to].min(sum);
                }
            }
        }
        for (fact, ty) in types.iter().enumerate() {
            let longest = (0..facts).filter(|other| *other != fact).map(|other| bounds[fact][other]).max();
            let longest = longest.unwrap_or(0);
            let life = &mut self.0[*ty].1;
            *life = if longest == i64::MAX { None } else { life.map(|life| life.max(longest)) };
        }
    }

    /// Returns the life of each fact type, in milliseconds. A type without one is kept.
    pub fn all(self) -> impl Iterator<Item = Option<i64>> {
        self.0.into_iter().map(|(is_timed, life)| life.filter(|_| is_timed))
    }
}
