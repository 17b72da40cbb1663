//! Inserts facts into series, removes them, and reads windows of series for aggregates and look-ups.

use crate::aggregate::totals::Total;
use crate::aggregate::tree::{change_word, moment_of, FACT, LEFT, MEASURED, RIGHT};
use crate::compile::code::{Bound, OWN, SLOTS};
use crate::compile::fact_type::KEY;
use crate::compile::program::{Guard, Probe, Series, Window};
use crate::fact::{moment_of_fact, Moment};
use crate::layout::NUMBER;
use crate::memory::{mix, Address, Full};
use crate::step::{Change, Step};

/// Adds a fact to the series of a condition that it meets. The fact already heads its list in each index.
pub(crate) fn join_series(step: &mut Step, condition: u32, fact: Address) -> Result<(), Full> {
    let program = step.program;
    for number in &program.conditions[condition as usize].series {
        let series = &program.series[*number as usize];
        let is_measured = program.min_tree_facts < MEASURED as u32
            || mix(KEY, step.words.get64(fact + NUMBER)).is_multiple_of(MEASURED);
        if !is_measured && series.table().is_empty(step.words) {
            continue;
        }
        let fact_type = &program.types[series.ty];
        let Some(hash) = fact_type.hash(step.words, fact, series.index) else { continue };
        if let Some((at, root)) = series.table().find(step.words, hash, |_| true) {
            if has_same_key(step, series, step.words.get(root + FACT), fact) {
                let root = series.add(step.words, root, fact)?;
                change_word(step.words, at + 1, root)?;
            }
        } else if is_measured {
            begin_tree(step, series, condition, hash, fact)?;
        }
    }
    Ok(())
}

/// Builds the tree of a list once the list is long.
#[cold]
fn begin_tree(step: &mut Step, series: &Series, condition: u32, hash: u32, first: Address) -> Result<(), Full> {
    let link = step.program.types[series.ty].links(series.index);
    let condition = &step.program.conditions[condition as usize];
    let (mut length, mut fact) = (0, first);
    while fact != 0 && length < step.program.min_tree_facts {
        length += 1;
        fact = step.words.get(fact + link);
    }
    if length < step.program.min_tree_facts {
        return Ok(());
    }
    let (mut root, mut fact) = (0, first);
    let mut bound: Bound = [0; SLOTS + 1];
    while fact != 0 {
        bound[OWN as usize] = fact;
        if has_same_key(step, series, first, fact) && condition.is_met(step.words, &bound) {
            root = series.add(step.words, root, fact)?;
        }
        fact = step.words.get(fact + link);
    }
    series.table().insert(step.words, hash, root)
}

/// Removes a fact from the series of a condition that it meets.
pub(crate) fn leave_series(step: &mut Step, condition: u32, fact: Address) -> Result<(), Full> {
    let program = step.program;
    for number in &program.conditions[condition as usize].series {
        let series = &program.series[*number as usize];
        let table = series.table();
        if table.is_empty(step.words) {
            continue;
        }
        let Some(hash) = program.types[series.ty].hash(step.words, fact, series.index) else { continue };
        let Some((at, root)) = table.find(step.words, hash, |_| true) else { continue };
        if !has_same_key(step, series, step.words.get(root + FACT), fact) {
            continue;
        }
        let (node, root) = series.remove(step.words, root, moment_of_fact(step.words, fact))?;
        debug_assert_eq!(step.words.get(node + FACT), fact);
        if root == 0 {
            table.remove(step.words, at)?;
        } else {
            change_word(step.words, at + 1, root)?;
        }
        step.words.free(node, series.node_size())?;
    }
    Ok(())
}

fn has_same_key(step: &Step, series: &Series, first: Address, second: Address) -> bool {
    let fact_type = &step.program.types[series.ty];
    let mut fields = fact_type.indices[series.index].iter().map(|field| usize::from(*field));
    fields.all(|field| fact_type.cell(step.words, first, field) == fact_type.cell(step.words, second, field))
}

/// Returns the root of the tree that holds the facts of a look-up, if they have a tree.
#[inline]
pub(crate) fn tree(step: &Step, window: &Window, probe: &Probe, bound: &Bound) -> Option<Address> {
    let table = step.program.series[window.series].table();
    if table.is_empty(step.words) {
        return None;
    }
    let mut hash = KEY;
    for operand in &probe.key {
        hash = mix(hash, operand.value(step.words, bound)?);
    }
    let (_, root) = table.find(step.words, hash as u32, |_| true)?;
    let (fact_type, fact) = (&step.program.types[probe.ty], step.words.get(root + FACT));
    let mut key = fact_type.indices[probe.index].iter().zip(&probe.key);
    let is_of_key = key
        .all(|(field, operand)| fact_type.cell(step.words, fact, (*field).into()) == operand.value(step.words, bound));
    is_of_key.then_some(root)
}

/// Returns an aggregate's total in the state before a change, if its facts are in a tree.
#[inline]
pub(crate) fn total_of_tree(step: &Step, guard: &Guard, bound: &mut Bound, before: Change) -> Option<Total> {
    let window = guard.window.as_ref()?;
    let root = tree(step, window, &guard.probe, bound)?;
    let series = &step.program.series[window.series];
    let (after, until) = window.range(step.words, bound);
    let mut total = if before.new == 0 {
        series.between(step.words, root, after, until)
    } else {
        // Splits the window at the new fact, which did not count before the change.
        let new = moment_of_fact(step.words, before.new);
        let first = series.between(step.words, root, after, until.min(new));
        first.merged(series.between(step.words, root, after.max(new), until), &series.aggregate)
    };
    if before.gone != 0 {
        let kept = std::mem::replace(&mut bound[OWN as usize], before.gone);
        if guard.probe.accepts(step.words, bound) {
            total = total.merged(series.of_fact(step.words, before.gone), &series.aggregate);
        }
        bound[OWN as usize] = kept;
    }
    Some(total)
}

/// Returns the first fact of a tree after a moment, or 0.
pub(crate) fn first_after(step: &Step, root: Address, after: Moment) -> Address {
    let (mut node, mut first) = (root, 0);
    while node != 0 {
        let side = if moment_of(step.words, node) > after {
            first = step.words.get(node + FACT);
            LEFT
        } else {
            RIGHT
        };
        node = step.words.get(node + side);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_the_same_hash_have_their_own_aggregates() {
        let mut known = std::collections::HashMap::new();
        let mut pairs = (0..).filter_map(|key: u64| Some((known.insert(mix(KEY, key) as u32, key)?, key)));
        let (first, second) = pairs.next().unwrap();
        let rules = "
            fact f(key: integer, value: integer)
            rule r
              when p: f
                   n: count f(key = p.key, within 300 milliseconds before p), n >= 0
                   s: sum f.value(key = p.key, within 300 milliseconds before p), s >= 0
              then notify hit(n: n, s: s)
        ";
        let mut engine = crate::Engine::new(rules, crate::Limits::default()).unwrap();
        let integer = |key: u64| crate::Value::Integer(key as i64);
        // Two keys with equal hashes: both grow long, the one with the tree empties, then grows long again.
        for number in 0..3_000_u64 {
            let is_first = number.is_multiple_of(2) && !(600..1_200).contains(&number);
            let fields = [("key", integer(if is_first { first } else { second })), ("value", integer(number))];
            engine.assert(&engine.types().fact("f", Some(number as i64), &fields).unwrap()).unwrap();
            engine.run().unwrap();
            let is_same = |other: &u64| (other.is_multiple_of(2) && !(600..1_200).contains(other)) == is_first;
            let others: Vec<u64> = (number.saturating_sub(299)..number).filter(is_same).collect();
            let expected = [others.len() as i64, others.iter().sum::<u64>() as i64];
            let notice = engine.take_notices().remove(0);
            let found: Vec<_> = notice.values.into_iter().map(|(_, value)| value).collect();
            assert_eq!(found, expected.map(|value| Some(crate::Owned::Integer(value))), "{number}");
        }
    }
}
