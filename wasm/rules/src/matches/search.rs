//! The search for the next match of a rule that contains a given fact.
//!
//! A search is a depth-first join over the look-ups of a plan, newest facts first. Its state is one fact per look-up, so it can
//! stop at each match and resume there later.

use crate::compile::code::{Bound, SLOTS};
use crate::compile::program::{Join, Plan, Rule};
use crate::fact::is_alive;
use crate::layout::NUMBER;
use crate::matches::agenda::{SEED_FACT, SEED_NEXT, SEED_NUMBER, SEED_PATH, SEED_SEARCHED, SEED_SLOT, TOP};
use crate::matches::{agenda, guards};
use crate::memory::{Address, Full};
use crate::step::{Scratch, Step};

/// A match that a search found: its seed, its number of look-ups, and whether the seed had a match before.
pub(crate) struct Found {
    seed: Address,
    joins: usize,
    is_another: bool,
}

/// Returns whether the first look-up of a plan may find a partner for a new fact in `slot`. Facts inserted after this one are no
/// partners, so a plan without a partner now never has one.
pub(crate) fn has_partner(step: &Step, plan: &Plan, slot: u8, fact: Address, newest: u64) -> bool {
    plan.joins.first().is_none_or(|first| may_find(step, first, slot, fact, newest))
}

/// Returns whether each look-up in `later` may find a fact for the new fact in `slot`, as in [`has_partner`].
#[inline]
pub(crate) fn has_later(step: &Step, later: &[Join], slot: u8, fact: Address, newest: u64) -> bool {
    later.iter().all(|join| may_find(step, join, slot, fact, newest))
}

/// Returns whether a look-up keyed by the new fact in `slot` alone may find a partner.
fn may_find(step: &Step, join: &Join, slot: u8, fact: Address, newest: u64) -> bool {
    let mut bound: Bound = [0; SLOTS + 1];
    bound[slot as usize] = fact;
    let link = join.probe.link;
    let most = if join.is_older { newest - 1 } else { newest };
    let mut fact = join.probe.head(step.words, &bound);
    // Scans a short prefix only; the search scans the rest.
    for _ in 0..8 {
        if fact == 0 {
            return false;
        }
        if step.words.get64(fact + NUMBER) <= most {
            bound[join.probe.slot as usize] = fact;
            if join.probe.tests.iter().all(|test| test.holds(step.words, &bound)) {
                return true;
            }
        }
        fact = step.words.get(fact + link);
    }
    true
}

/// Binds the first match, or, if the search resumes, the match after [`crate::step::Scratch::path`]. Partners are numbered up to
/// `newest`, or below it where the plan says so. Returns whether there is a match; it is then in `path`.
fn search(step: &mut Step, rule: &Rule, plan: &Plan, newest: u64, mut goes_on: bool, bound: &mut Bound) -> bool {
    let is_found = plan.guards.iter().all(|guard| guards::guard_holds(step, &rule.guards[*guard as usize], bound))
        && search_from(step, rule, plan, 0, newest, &mut goes_on, bound);
    if is_found {
        for (place, join) in step.scratch.path.iter_mut().zip(&plan.joins) {
            let fact = bound[join.probe.slot as usize];
            *place = (fact, step.words.get64(fact + NUMBER));
        }
        if let Some(join) = plan.joins.first() {
            let link = join.probe.link;
            let Scratch { path, next, .. } = &mut *step.scratch;
            let others = &path[1..plan.joins.len()];
            next.0 = step.words.get(path[0].0 + link);
            while next.0 != 0 && others.iter().any(|(fact, _)| *fact == next.0) {
                next.0 = step.words.get(next.0 + link);
            }
            next.1 = if next.0 == 0 { 0 } else { step.words.get64(next.0 + NUMBER) };
        }
    }
    is_found
}

/// Returns whether [`Scratch::next`] directly follows the removed fact with this number, apart from other facts of the match, which
/// are gone too.
fn is_next_of(step: &Step, plan: &Plan, number: u64) -> bool {
    let Scratch { path, next, .. } = &*step.scratch;
    let is_there = |(fact, number): (Address, u64)| fact != 0 && is_alive(step.words, fact, number);
    let mut others = path[1..plan.joins.len()].iter();
    is_there(*next) && !others.any(|other| (next.1..number).contains(&other.1) && is_there(*other))
}

fn search_from(
    step: &mut Step,
    rule: &Rule,
    plan: &Plan,
    depth: usize,
    newest: u64,
    goes_on: &mut bool,
    bound: &mut Bound,
) -> bool {
    let Some(join) = plan.joins.get(depth) else {
        // A resumed search first finds its last match again, which does not count.
        return !std::mem::take(goes_on);
    };
    let is_last = depth + 1 == plan.joins.len();
    let link = join.probe.link;
    let (reached, number) = step.scratch.path[depth];
    let mut fact = if *goes_on && is_alive(step.words, reached, number) {
        reached
    } else if *goes_on && depth == 0 && is_next_of(step, plan, number) {
        step.scratch.next.0
    } else {
        join.probe.head(step.words, bound)
    };
    // Skips the facts before the cursor, or those too new to be partners.
    let most = match (*goes_on, join.is_older) {
        (true, _) => number,
        (false, true) => newest - 1,
        (false, false) => newest,
    };
    while fact != 0 && step.words.get64(fact + NUMBER) > most {
        fact = step.words.get(fact + link);
    }
    while fact != 0 {
        if *goes_on && number != step.words.get64(fact + NUMBER) {
            *goes_on = false;
        }
        bound[join.probe.slot as usize] = fact;
        if join.probe.tests.iter().all(|test| test.holds(step.words, bound))
            && join.guards.iter().all(|guard| guards::guard_holds(step, &rule.guards[*guard as usize], bound))
        {
            let is_found = if is_last {
                !std::mem::take(goes_on)
            } else {
                search_from(step, rule, plan, depth + 1, newest, goes_on, bound)
            };
            if is_found {
                return true;
            }
        }
        *goes_on = false;
        fact = step.words.get(fact + link);
    }
    *goes_on = false;
    false
}

/// Binds the next match of the rule's best seed. Without one, removes the seed and returns `None`. [`keep`] then makes the seed
/// resume after this match.
pub(crate) fn next_match(step: &mut Step, number: u32, bound: &mut Bound) -> Result<Option<Found>, Full> {
    let rule = &step.program.rules[number as usize];
    let seed = step.words.get(step.program.rule_at(number) + TOP);
    let fact = step.words.get(seed + SEED_FACT);
    let newest = step.words.get64(seed + SEED_NUMBER);
    let slot = step.words.get(seed + SEED_SLOT) as usize;
    let plan = &rule.plans[slot];
    if is_alive(step.words, fact, newest) {
        bound[slot] = fact;
        let is_another = agenda::is_searched(step, seed);
        if is_another {
            for depth in 0..plan.joins.len() {
                step.scratch.path[depth] = agenda::reached(step, seed, depth);
            }
            step.scratch.next = (step.words.get(seed + SEED_NEXT), step.words.get64(seed + SEED_NEXT + 1));
        }
        if search(step, rule, plan, newest, is_another, bound) {
            return Ok(Some(Found { seed, joins: plan.joins.len(), is_another }));
        }
    }
    agenda::pop_seed(step, number)?;
    Ok(None)
}

/// Stores the last match of a search in its seed.
pub(crate) fn keep(step: &mut Step, found: Found) -> Result<(), Full> {
    let Found { seed, joins, is_another } = found;
    if !is_another {
        // Nothing reads the other words of an unsearched seed, so they need no undo log.
        step.words.set(seed + SEED_SEARCHED, 1)?;
        let Scratch { path, next, .. } = &*step.scratch;
        let places = (seed + SEED_NEXT..).step_by(3);
        for (at, (fact, number)) in places.zip(std::iter::once(next).chain(&path[..joins])) {
            step.words.raw(at, *fact);
            step.words.raw64(at + 1, *number);
        }
        return Ok(());
    }
    let next = (step.words.get(seed + SEED_NEXT), step.words.get64(seed + SEED_NEXT + 1));
    if joins > 0 && step.scratch.next != next {
        agenda::set_place(step, seed + SEED_NEXT, step.scratch.next)?;
    }
    for depth in 0..joins {
        let place = step.scratch.path[depth];
        if agenda::reached(step, seed, depth) != place {
            agenda::set_place(step, seed + SEED_PATH + 3 * depth as u32, place)?;
        }
    }
    Ok(())
}
