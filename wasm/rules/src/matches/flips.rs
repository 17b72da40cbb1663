//! Flips: the matches that become valid when a guard turns true.
//!
//! A fact that comes or goes can make a guard true for matches of older facts. A flip looks these matches up at once. Each match
//! that was not valid before goes to the agenda, or waits for its deadline if the guard's window is still open. A match that a seed
//! has yet to find is left to the seed.

use crate::aggregate::series;
use crate::compile::code::{Bound, OWN, SLOTS};
use crate::compile::program::{Aggregate, Join, Probe};
use crate::fact::{is_alive, moment_of_fact};
use crate::layout::NUMBER;
use crate::matches::{agenda, deadlines, guards};
use crate::memory::{Address, Full};
use crate::step::{Change, Step};

/// The search for the matches that a change makes valid, see [`flip`].
#[derive(Clone, Copy)]
struct Flip {
    rule: u32,
    guard: u8,
    newest: u64,
    change: Change,
    fact: Address,
}

/// Looks up the matches that a change makes valid, among facts numbered up to `newest`. `fact` is the old or the new fact of the
/// change; the matches are those whose guard reads `fact`.
///
/// A modification is one change: a match becomes valid if it was invalid with the old fact and is valid with the new one.
pub(crate) fn flip(
    step: &mut Step,
    rule: u32,
    guard: u8,
    newest: u64,
    change: Change,
    fact: Address,
) -> Result<(), Full> {
    let mut bound: Bound = [0; SLOTS + 1];
    bound[OWN as usize] = fact;
    flip_from(step, Flip { rule, guard, newest, change, fact }, 0, &mut bound)
}

/// Continues a flip from the look-up `depth` on.
fn flip_from(step: &mut Step, flip: Flip, depth: usize, bound: &mut Bound) -> Result<(), Full> {
    let rule = &step.program.rules[flip.rule as usize];
    let Some(Join { probe, window, .. }) = rule.flips[flip.guard as usize].joins.get(depth) else {
        return gain(step, flip, bound);
    };
    let tree = window.as_ref().and_then(|window| Some((window, series::tree(step, window, probe, bound)?)));
    if let Some((window, root)) = tree {
        let (after, before) = window.range(step.words, bound);
        let mut fact = series::first_after(step, root, after);
        while fact != 0 {
            let moment = moment_of_fact(step.words, fact);
            if moment >= before {
                break;
            }
            flip_with(step, flip, depth, probe, fact, bound)?;
            fact = series::first_after(step, root, moment);
        }
        return Ok(());
    }
    let mut fact = probe.head(step.words, bound);
    while fact != 0 {
        flip_with(step, flip, depth, probe, fact, bound)?;
        fact = step.words.get(fact + probe.link);
    }
    Ok(())
}

/// Continues a flip after the look-up `depth` has found `fact`.
#[inline]
fn flip_with(
    step: &mut Step,
    flip: Flip,
    depth: usize,
    probe: &Probe,
    fact: Address,
    bound: &mut Bound,
) -> Result<(), Full> {
    if step.words.get64(fact + NUMBER) > flip.newest {
        return Ok(());
    }
    bound[probe.slot as usize] = fact;
    if probe.accepts(step.words, bound) {
        flip_from(step, flip, depth + 1, bound)?;
    }
    Ok(())
}

/// Adds the match of a flip if the change makes it valid.
fn gain(step: &mut Step, flip: Flip, bound: &mut Bound) -> Result<(), Full> {
    let Flip { rule: number, guard, change, fact, .. } = flip;
    let rule = &step.program.rules[number as usize];
    let changed = &rule.guards[guard as usize];
    if fact == change.new && change.gone != 0 {
        // A match whose guard reads both facts is found by the flip of the old one.
        bound[OWN as usize] = change.gone;
        let is_about_both = changed.probe.accepts(step.words, bound);
        bound[OWN as usize] = fact;
        if is_about_both {
            return Ok(());
        }
    }
    let held_before = match changed.aggregate {
        // The old fact blocked the match.
        Aggregate::None => false,
        _ => guards::satisfies(step, changed, guards::aggregate(step, changed, bound, change), bound),
    };
    if held_before
        || !rule.guards.iter().all(|guard| guards::guard_holds(step, guard, bound))
        || is_pending(step, number, bound)
    {
        return Ok(());
    }
    let deadline = guards::deadline(step, rule, bound);
    if deadline > step.clock() {
        deadlines::wait(step, number, bound, deadline)
    } else {
        agenda::push_match(step, number, bound)
    }
}

/// Returns whether a seed of the rule has yet to find the match.
fn is_pending(step: &Step, number: u32, bound: &Bound) -> bool {
    let rule = &step.program.rules[number as usize];
    let slots = rule.slots.len();
    let numbers = |slot: usize| step.words.get64(bound[slot] + NUMBER);
    // The first slot that holds the newest fact.
    let seed_slot = (0..slots).rev().max_by_key(|slot| numbers(*slot)).unwrap_or(0);
    let newest = numbers(seed_slot);
    let Some(seed) = agenda::find_seed(step, number, seed_slot as u8, newest) else { return false };
    debug_assert!(is_alive(step.words, bound[seed_slot], newest));
    if !agenda::is_searched(step, seed) {
        return true;
    }
    for (depth, join) in rule.plans[seed_slot].joins.iter().enumerate() {
        let (own, (_, reached)) = (numbers(join.probe.slot as usize), agenda::reached(step, seed, depth));
        if own != reached {
            return own < reached;
        }
    }
    false
}
