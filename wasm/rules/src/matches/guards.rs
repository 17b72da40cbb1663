//! Guards: `none` and aggregates, the conditions on sets of facts.

use crate::aggregate::series;
use crate::aggregate::totals::{Total, Wide};
use crate::compile::code::{Bound, Locals, Scope, NO_LOCALS, OWN};
use crate::compile::program::{Aggregate, Guard, Limit, Rule};
use crate::layout::TIME;
use crate::memory::Address;
use crate::step::{Change, Step, Tested};

/// Returns whether a guard holds for the bound facts, regardless of its deadline.
pub(crate) fn guard_holds(step: &mut Step, guard: &Guard, bound: &mut Bound) -> bool {
    if guard.aggregate == Aggregate::None {
        return !is_blocked(step, guard, bound);
    }
    is_reached(step, guard, bound)
}

/// Returns whether an aggregate's value satisfies its clauses.
pub(crate) fn is_reached(step: &Step, guard: &Guard, bound: &mut Bound) -> bool {
    satisfies(step, guard, aggregate(step, guard, bound, Change::default()), bound)
}

fn is_blocked(step: &mut Step, guard: &Guard, bound: &mut Bound) -> bool {
    let head = guard.probe.head(step.words, bound);
    if guard.probe.index != 0 {
        return blocker_from(step, guard, head, 0, bound) != 0;
    }
    let place = std::ptr::from_ref(guard) as usize;
    let tested = step.scratch.tested.filter(|tested| tested.guard == place);
    if let Some(limit) = &guard.limit {
        let fresh = Tested { guard: place, blocker: 0, next: head };
        return is_exceeded(step, guard, limit, tested.unwrap_or(fresh), bound);
    }
    // Locality: the blocker of the last match, or a fact after it, often blocks this match too. All facts of the type are one list.
    let last = tested.map_or(head, |tested| tested.blocker);
    let mut blocker = blocker_from(step, guard, last, 0, bound);
    if blocker == 0 && last != head {
        blocker = blocker_from(step, guard, head, last, bound);
    }
    if blocker != 0 {
        step.scratch.tested = Some(Tested { guard: place, blocker, next: 0 });
    }
    blocker != 0
}

/// Returns whether a fact blocks a `none` that is a limit. If the greatest fact does not, no fact does. So each fact is tested at
/// most once until a fact comes or goes, regardless of the number of matches.
fn is_exceeded(step: &mut Step, guard: &Guard, limit: &Limit, mut tested: Tested, bound: &mut Bound) -> bool {
    let kept = bound[OWN as usize];
    let link = guard.probe.link;
    let mut is_blocked = false;
    if tested.blocker != 0 {
        bound[OWN as usize] = tested.blocker;
        is_blocked = limit.test.holds(step.words, bound);
    }
    while !is_blocked && tested.next != 0 {
        let fact = tested.next;
        bound[OWN as usize] = fact;
        tested.next = step.words.get(fact + link);
        if limit.is_beyond(step.words, tested.blocker, bound)
            && limit.own.iter().all(|test| test.holds(step.words, bound))
        {
            tested.blocker = fact;
            is_blocked = limit.test.holds(step.words, bound);
        }
    }
    bound[OWN as usize] = kept;
    step.scratch.tested = Some(tested);
    is_blocked
}

/// Returns the newest fact that violates a `none`, or 0.
pub(crate) fn blocker(step: &Step, guard: &Guard, bound: &mut Bound) -> Address {
    blocker_from(step, guard, guard.probe.head(step.words, bound), 0, bound)
}

/// Returns the first fact that passes a guard's tests in the part of a list from `fact` up to `end`, or 0.
#[inline]
fn blocker_from(step: &Step, guard: &Guard, mut fact: Address, end: Address, bound: &mut Bound) -> Address {
    let link = guard.probe.link;
    let kept = bound[OWN as usize];
    while fact != end {
        bound[OWN as usize] = fact;
        if guard.probe.accepts(step.words, bound) {
            break;
        }
        fact = step.words.get(fact + link);
    }
    bound[OWN as usize] = kept;
    if fact == end {
        0
    } else {
        fact
    }
}

/// Returns whether the value of an aggregate satisfies its clauses.
pub(crate) fn satisfies(step: &Step, guard: &Guard, value: Option<u64>, bound: &Bound) -> bool {
    let mut locals = NO_LOCALS;
    if let Some(local) = guard.local {
        locals[local as usize] = value;
    }
    let scope = Scope { words: step.words, bound, locals: &locals };
    guard.having.iter().all(|code| code.holds(scope))
}

/// Returns the value of an aggregate in the state before a change.
pub(crate) fn aggregate(step: &Step, guard: &Guard, bound: &mut Bound, before: Change) -> Option<u64> {
    let aggregate = &guard.aggregate;
    let total = series::total_of_tree(step, guard, bound, before).unwrap_or_else(|| {
        let mut total = Total::of_nothing(aggregate);
        each_value(step, guard, bound, before, |value| {
            total = total.merged(Total::of_one(aggregate, value), aggregate);
        });
        total
    });
    if total == Total::Sum(None) {
        let mut wide = Wide::new();
        each_value(step, guard, bound, before, |value| value.into_iter().for_each(|value| wide.add(value)));
        return wide.value();
    }
    total.value(aggregate)
}

/// Calls `visit` with the field's value for each fact of an aggregate, in the state before a change.
#[inline]
fn each_value(step: &Step, guard: &Guard, bound: &mut Bound, before: Change, mut visit: impl FnMut(Option<u64>)) {
    let field = guard.aggregate.field();
    let link = guard.probe.link;
    let kept = bound[OWN as usize];
    if before.gone != 0 {
        bound[OWN as usize] = before.gone;
        if guard.probe.accepts(step.words, bound) {
            visit(field.and_then(|field| field.value(step.words, bound)));
        }
    }
    let mut fact = guard.probe.head(step.words, bound);
    while fact != 0 {
        bound[OWN as usize] = fact;
        if fact != before.new && guard.probe.accepts(step.words, bound) {
            visit(field.and_then(|field| field.value(step.words, bound)));
        }
        fact = step.words.get(fact + link);
    }
    bound[OWN as usize] = kept;
}

/// Returns the values of a rule's aggregates.
pub(crate) fn locals(step: &Step, rule: &Rule, bound: &mut Bound) -> Locals {
    let mut locals = NO_LOCALS;
    for guard in &rule.guards {
        if let Some(local) = guard.local {
            locals[local as usize] = aggregate(step, guard, bound, Change::default());
        }
    }
    locals
}

/// Returns the time at which the windows of all guards have closed.
pub(crate) fn deadline(step: &Step, rule: &Rule, bound: &Bound) -> i64 {
    let closed = |guard: &Guard| guard.deadlines.end(|slot| step.words.get64(bound[slot] + TIME) as i64);
    rule.guards.iter().filter_map(closed).max().unwrap_or(i64::MIN)
}
