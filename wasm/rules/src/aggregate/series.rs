//! Series: the facts of a key in the order of their times, from which the aggregate of any window is read.
//!
//! A series is of the facts that meet one single-fact condition and are in one index. The facts of a key are a tree if they are many;
//! of few, a scan of their list costs less. A tree begins with the facts of a list that became long, and ends with its last fact.
//!
//! A tree is balanced by weight, as in "Balancing weight-balanced trees" by Hirai and Yamamoto (2011): no subtree has more than three
//! times the weight of its sibling. So it is as deep as the logarithm of its facts, whatever order they come in. A node has its
//! children, the number of facts below and with it, its fact, and the total of these facts, if that is more than their number. The
//! order is that of (time, number).
//!
//! The words of a series are a table from the hash of a key to the root of the key's tree. If two keys have the same hash, only one of
//! them has a tree, and the aggregates of the other scan.

use crate::aggregate::totals::{Sum, Total};
use crate::compile::code::{Bound, NUMBER, OWN, SLOTS, TIME};
use crate::compile::program::{Aggregate, Guard, Probe, Series, Window};
use crate::facts::change::KEY;
use crate::matches::guards::Change;
use crate::memory::{mix, Address, Full, Table, Words};
use crate::step::Step;

const LEFT: Address = 0;
const RIGHT: Address = 1;
const SIZE: Address = 2;
const FACT: Address = 3;
const TOTAL: Address = 4;

/// The ratio of weights up to which siblings are balanced, and the ratio of a child's children up to which one rotation is enough.
const BALANCED: u32 = 3;
const SINGLE: u32 = 2;

/// A list is measured once in so many insertions.
const MEASURED: u64 = 8;

/// A place in a series: a time and the number of a fact.
pub(crate) type Moment = (i64, u64);

/// The exponent of a sum that does not fit. No other one has it.
const UNFIT: u32 = 1 << 31;

impl Series {
    fn table(&self) -> Table {
        Table(self.at)
    }

    fn node_size(&self) -> u32 {
        TOTAL
            + match self.aggregate {
                Aggregate::None | Aggregate::Count => 0,
                Aggregate::Sum(..) => 5,
                Aggregate::Min(..) | Aggregate::Max(..) => 3,
            }
    }

    /// Returns the total of a fact.
    fn of_fact(&self, words: &Words, fact: Address) -> Total {
        let Some(field) = self.aggregate.field() else { return Total::Count(1) };
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        Total::of_one(&self.aggregate, field.value(words, &bound))
    }

    /// Returns the total of the facts below and with a node.
    fn total(&self, words: &Words, node: Address) -> Total {
        if node == 0 {
            return Total::of_nothing(&self.aggregate);
        }
        match self.aggregate {
            Aggregate::None | Aggregate::Count => Total::Count(words.get(node + SIZE).into()),
            Aggregate::Sum(..) => {
                let exponent = words.get(node + TOTAL);
                let [low, high] = [1, 3].map(|at| words.get64(node + TOTAL + at));
                let mantissa = (u128::from(high) << 64 | u128::from(low)) as i128;
                Total::Sum((exponent != UNFIT).then_some(Sum { mantissa, exponent: exponent as i32 }))
            }
            Aggregate::Min(..) | Aggregate::Max(..) => {
                Total::Extreme((words.get(node + TOTAL) != 0).then(|| words.get64(node + TOTAL + 1)))
            }
        }
    }

    /// Sets the size and the total of a node, whose children have theirs.
    fn update(&self, words: &mut Words, node: Address) -> Result<(), Full> {
        let [left, right, _, fact] = words.get_part(node);
        change(words, node + SIZE, size(words, left) + size(words, right) + 1)?;
        let mut total = self.of_fact(words, fact);
        if let Total::Count(_) = total {
            return Ok(());
        }
        for child in [left, right] {
            if child != 0 {
                total = total.merged(self.total(words, child), &self.aggregate);
            }
        }
        self.set_total(words, node, total)
    }

    fn set_total(&self, words: &mut Words, node: Address, total: Total) -> Result<(), Full> {
        let mut store = |at: Address, value: u32| change(words, node + TOTAL + at, value);
        match total {
            Total::Count(_) => Ok(()),
            Total::Sum(None) => store(0, UNFIT),
            Total::Sum(Some(Sum { mantissa, exponent })) => {
                store(0, exponent as u32)?;
                (0..4).try_for_each(|word| store(1 + word, (mantissa >> (32 * word)) as u32))
            }
            Total::Extreme(None) => store(0, 0),
            Total::Extreme(Some(value)) => {
                store(0, 1)?;
                store(1, value as u32)?;
                store(2, (value >> 32) as u32)
            }
        }
    }

    /// Adds a fact to a tree, and returns the root.
    fn add(&self, words: &mut Words, root: Address, fact: Address) -> Result<Address, Full> {
        let node = words.allocate(self.node_size())?;
        words.clear(node, self.node_size());
        words.raw(node + SIZE, 1);
        words.raw(node + FACT, fact);
        let total = self.of_fact(words, fact);
        self.set_total(words, node, total)?;
        self.insert(words, root, node, (moment_of_fact(words, fact), total))
    }

    /// Adds a node to a tree, and returns the root. `own` are the node's moment and total.
    fn insert(&self, words: &mut Words, root: Address, node: Address, own: (Moment, Total)) -> Result<Address, Full> {
        if root == 0 {
            return Ok(node);
        }
        let side = if own.0 < moment_of(words, root) { LEFT } else { RIGHT };
        let child = self.insert(words, words.get(root + side), node, own)?;
        change(words, root + side, child)?;
        if let Some(heavy) = heavy_side(words, root) {
            return self.raise(words, root, heavy);
        }
        words.set(root + SIZE, words.get(root + SIZE) + 1)?;
        if !matches!(own.1, Total::Count(_)) {
            let total = self.total(words, root).merged(own.1, &self.aggregate);
            self.set_total(words, root, total)?;
        }
        Ok(root)
    }

    /// Takes the node of a fact out of a tree, and returns it and the root.
    fn remove(&self, words: &mut Words, root: Address, moment: Moment) -> Result<(Address, Address), Full> {
        if root == 0 {
            return Ok((0, 0));
        }
        let own = moment_of(words, root);
        if own == moment {
            return Ok((root, self.join(words, root)?));
        }
        let side = if moment < own { LEFT } else { RIGHT };
        let (node, child) = self.remove(words, words.get(root + side), moment)?;
        change(words, root + side, child)?;
        Ok((node, self.balance(words, root)?))
    }

    /// Joins the children of a node that is taken out, and returns the root.
    fn join(&self, words: &mut Words, node: Address) -> Result<Address, Full> {
        let [left, right] = words.get_part(node);
        if left == 0 || right == 0 {
            return Ok(left.max(right));
        }
        let side = if size(words, left) > size(words, right) { LEFT } else { RIGHT };
        let (nearest, rest) = self.take_end(words, if side == LEFT { left } else { right }, other(side))?;
        change(words, nearest + side, rest)?;
        change(words, nearest + other(side), if side == LEFT { right } else { left })?;
        self.balance(words, nearest)
    }

    /// Takes the last node on a side out of a tree, and returns it and the root.
    fn take_end(&self, words: &mut Words, root: Address, side: Address) -> Result<(Address, Address), Full> {
        let child = words.get(root + side);
        if child == 0 {
            return Ok((root, words.get(root + other(side))));
        }
        let (end, rest) = self.take_end(words, child, side)?;
        change(words, root + side, rest)?;
        Ok((end, self.balance(words, root)?))
    }

    /// Restores the balance of a node whose children are balanced, and its size and total. Returns the root.
    fn balance(&self, words: &mut Words, root: Address) -> Result<Address, Full> {
        match heavy_side(words, root) {
            Some(heavy) => self.raise(words, root, heavy),
            None => {
                self.update(words, root)?;
                Ok(root)
            }
        }
    }

    /// Raises the heavy child of a node, or that child's inner child if it is too heavy itself. Returns the root.
    fn raise(&self, words: &mut Words, root: Address, heavy: Address) -> Result<Address, Full> {
        let child = words.get(root + heavy);
        let [inner, outer] = [other(heavy), heavy].map(|side| words.get(child + side));
        if size(words, inner) + 1 >= SINGLE * (size(words, outer) + 1) {
            let raised = self.rotate(words, child, other(heavy))?;
            change(words, root + heavy, raised)?;
        }
        self.rotate(words, root, heavy)
    }

    /// Raises the child on a side above its parent, and returns it.
    fn rotate(&self, words: &mut Words, root: Address, side: Address) -> Result<Address, Full> {
        let child = words.get(root + side);
        change(words, root + side, words.get(child + other(side)))?;
        change(words, child + other(side), root)?;
        self.update(words, root)?;
        self.update(words, child)?;
        Ok(child)
    }

    /// Returns the total of the facts of a tree between two moments.
    fn between(&self, words: &Words, root: Address, after: Moment, before: Moment) -> Total {
        let mut node = root;
        while node != 0 {
            let moment = moment_of(words, node);
            if moment <= after {
                node = words.get(node + RIGHT);
            } else if moment >= before {
                node = words.get(node + LEFT);
            } else {
                break;
            }
        }
        if node == 0 {
            return Total::of_nothing(&self.aggregate);
        }
        // From here on the two ends are apart: what is on the inner side of a node within is within.
        let mut total = self.of_fact(words, words.get(node + FACT));
        for side in [LEFT, RIGHT] {
            let mut at = words.get(node + side);
            while at != 0 {
                let moment = moment_of(words, at);
                let is_within = if side == LEFT { moment > after } else { moment < before };
                if !is_within {
                    at = words.get(at + other(side));
                    continue;
                }
                total = total.merged(self.of_fact(words, words.get(at + FACT)), &self.aggregate);
                total = total.merged(self.total(words, words.get(at + other(side))), &self.aggregate);
                at = words.get(at + side);
            }
        }
        total
    }
}

fn other(side: Address) -> Address {
    LEFT + RIGHT - side
}

/// Returns the side on which a node's child is too heavy for its sibling.
fn heavy_side(words: &Words, node: Address) -> Option<Address> {
    let [left, right] = words.get_part(node);
    let (left, right) = (size(words, left) + 1, size(words, right) + 1);
    if right > BALANCED * left {
        Some(RIGHT)
    } else if left > BALANCED * right {
        Some(LEFT)
    } else {
        None
    }
}

fn size(words: &Words, node: Address) -> u32 {
    if node == 0 {
        0
    } else {
        words.get(node + SIZE)
    }
}

fn moment_of(words: &Words, node: Address) -> Moment {
    moment_of_fact(words, words.get(node + FACT))
}

#[inline(always)]
pub(crate) fn moment_of_fact(words: &Words, fact: Address) -> Moment {
    (words.get64(fact + TIME) as i64, words.get64(fact + NUMBER))
}

/// Stores a word, unless it has that value.
#[inline(always)]
fn change(words: &mut Words, at: Address, value: u32) -> Result<(), Full> {
    if words.get(at) == value {
        return Ok(());
    }
    words.set(at, value)
}

impl Step<'_> {
    /// Adds a fact to the series of a condition that it meets. The fact is the first of its lists.
    pub fn join_series(&mut self, condition: u32, fact: Address) -> Result<(), Full> {
        let program = self.program;
        for number in &program.conditions[condition as usize].series {
            let series = &program.series[*number as usize];
            let is_measured =
                program.long < MEASURED as u32 || mix(KEY, self.words.get64(fact + NUMBER)).is_multiple_of(MEASURED);
            if !is_measured && series.table().is_empty(self.words) {
                continue;
            }
            let fact_type = &program.types[series.ty];
            let Some(hash) = fact_type.hash(self.words, fact, series.index) else { continue };
            if let Some((at, root)) = series.table().find(self.words, hash, |_| true) {
                if self.has_same_key(series, self.words.get(root + FACT), fact) {
                    let root = series.add(self.words, root, fact)?;
                    change(self.words, at + 1, root)?;
                }
            } else if is_measured {
                self.begin_tree(series, condition, hash, fact)?;
            }
        }
        Ok(())
    }

    /// Makes a tree of a list, if it is long.
    #[cold]
    fn begin_tree(&mut self, series: &Series, condition: u32, hash: u32, first: Address) -> Result<(), Full> {
        let link = self.program.types[series.ty].links(series.index);
        let condition = &self.program.conditions[condition as usize];
        let (mut length, mut fact) = (0, first);
        while fact != 0 && length < self.program.long {
            length += 1;
            fact = self.words.get(fact + link);
        }
        if length < self.program.long {
            return Ok(());
        }
        let (mut root, mut fact) = (0, first);
        let mut bound: Bound = [0; SLOTS + 1];
        while fact != 0 {
            bound[OWN as usize] = fact;
            if self.has_same_key(series, first, fact) && condition.is_met(self.words, &bound) {
                root = series.add(self.words, root, fact)?;
            }
            fact = self.words.get(fact + link);
        }
        series.table().insert(self.words, hash, root)
    }

    /// Takes a fact out of the series of a condition that it meets.
    pub fn leave_series(&mut self, condition: u32, fact: Address) -> Result<(), Full> {
        let program = self.program;
        for number in &program.conditions[condition as usize].series {
            let series = &program.series[*number as usize];
            let table = series.table();
            if table.is_empty(self.words) {
                continue;
            }
            let Some(hash) = program.types[series.ty].hash(self.words, fact, series.index) else { continue };
            let Some((at, root)) = table.find(self.words, hash, |_| true) else { continue };
            if !self.has_same_key(series, self.words.get(root + FACT), fact) {
                continue;
            }
            let (node, root) = series.remove(self.words, root, moment_of_fact(self.words, fact))?;
            debug_assert_eq!(self.words.get(node + FACT), fact);
            if root == 0 {
                table.remove(self.words, at)?;
            } else {
                change(self.words, at + 1, root)?;
            }
            self.words.free(node, series.node_size())?;
        }
        Ok(())
    }

    fn has_same_key(&self, series: &Series, first: Address, second: Address) -> bool {
        let fact_type = &self.program.types[series.ty];
        let mut fields = fact_type.indices[series.index].iter().map(|field| usize::from(*field));
        fields.all(|field| fact_type.cell(self.words, first, field) == fact_type.cell(self.words, second, field))
    }

    /// Returns the root of the tree with the facts of a look-up, if there is one.
    #[inline]
    pub fn tree(&self, window: &Window, probe: &Probe, bound: &Bound) -> Option<Address> {
        let table = self.program.series[window.series].table();
        if table.is_empty(self.words) {
            return None;
        }
        let mut hash = KEY;
        for operand in &probe.key {
            hash = mix(hash, operand.value(self.words, bound)?);
        }
        let (_, root) = table.find(self.words, hash as u32, |_| true)?;
        let (fact_type, fact) = (&self.program.types[probe.ty], self.words.get(root + FACT));
        let mut key = fact_type.indices[probe.index].iter().zip(&probe.key);
        let is_of_key = key.all(|(field, operand)| {
            fact_type.cell(self.words, fact, (*field).into()) == operand.value(self.words, bound)
        });
        is_of_key.then_some(root)
    }

    /// Returns the total of an aggregate before a change, if its facts are in a tree.
    #[inline]
    pub fn total_of_tree(&self, guard: &Guard, bound: &mut Bound, before: Change) -> Option<Total> {
        let window = guard.window.as_ref()?;
        let root = self.tree(window, &guard.probe, bound)?;
        let series = &self.program.series[window.series];
        let (after, until) = window.range(self.words, bound);
        let mut total = if before.new == 0 {
            series.between(self.words, root, after, until)
        } else {
            // The new fact lies between the two parts, or in neither.
            let new = moment_of_fact(self.words, before.new);
            let first = series.between(self.words, root, after, until.min(new));
            first.merged(series.between(self.words, root, after.max(new), until), &series.aggregate)
        };
        if before.gone != 0 {
            let kept = std::mem::replace(&mut bound[OWN as usize], before.gone);
            if guard.probe.accepts(self.words, bound) {
                total = total.merged(series.of_fact(self.words, before.gone), &series.aggregate);
            }
            bound[OWN as usize] = kept;
        }
        Some(total)
    }

    /// Returns the first fact of a tree after a moment, or 0.
    pub fn first_after(&self, root: Address, after: Moment) -> Address {
        let (mut node, mut first) = (root, 0);
        while node != 0 {
            let side = if moment_of(self.words, node) > after {
                first = self.words.get(node + FACT);
                LEFT
            } else {
                RIGHT
            };
            node = self.words.get(node + side);
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::code::{Kind, Operand, DEFINED, FIELDS};

    /// Checks the order, the sizes and the balance of a tree, and returns the moments of its facts.
    fn moments(words: &Words, node: Address) -> Vec<Moment> {
        if node == 0 {
            return Vec::new();
        }
        let [left, right] = words.get_part(node);
        let weights = [left, right].map(|child| size(words, child) + 1);
        assert!(weights[0] <= BALANCED * weights[1] && weights[1] <= BALANCED * weights[0], "{weights:?}");
        let mut all = moments(words, left);
        all.push(moment_of(words, node));
        all.extend(moments(words, right));
        assert!(all.is_sorted() && all.len() == size(words, node) as usize);
        all
    }

    fn make_fact(words: &mut Words, moment: Moment, value: Option<u64>) -> Result<Address, Full> {
        let fact = words.allocate(FIELDS + 2)?;
        words.raw64(fact + TIME, moment.0 as u64);
        words.raw64(fact + NUMBER, moment.1);
        words.raw(fact + DEFINED, value.is_some().into());
        words.raw64(fact + FIELDS, value.unwrap_or(0));
        Ok(fact)
    }

    /// Runs a step, again and with more room as long as it lacks room.
    fn step<T>(words: &mut Words, run: impl Fn(&mut Words) -> Result<T, Full>) -> T {
        loop {
            match run(words) {
                Ok(value) => {
                    words.commit().unwrap();
                    return value;
                }
                Err(full) => {
                    words.undo();
                    words.grow(full).unwrap();
                }
            }
        }
    }

    fn check(kind: Kind, aggregate: Aggregate) {
        let mut words = Words::new(1 << 26).unwrap();
        let series = Series { ty: 0, index: 0, condition: 0, aggregate, at: 0 };
        let mut random = 3_u64;
        let mut next = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let (mut root, mut facts): (Address, Vec<(Moment, Option<u64>, Address)>) = (0, Vec::new());
        for number in 1..3_000 {
            // The facts grow in number, in order and late, then mostly the oldest go, and then any.
            let goes = match number {
                ..1_000 => next(10) == 0,
                1_000..2_000 => next(10) < 6,
                _ => next(10) < 7,
            };
            if goes && !facts.is_empty() {
                let at = if number < 2_000 { 0 } else { next(facts.len() as u64) as usize };
                let (moment, ..) = facts.remove(at);
                let (_, rest) = step(&mut words, |words| series.remove(words, root, moment));
                root = rest;
            } else {
                let late = if next(4) == 0 { next(500) as i64 } else { 0 };
                let moment = (number as i64 / 3 - late, number);
                let value = (next(8) > 0).then(|| match kind {
                    Kind::Float => (next(1_000) as f64 / 10.0).to_bits(),
                    _ => next(1_000),
                });
                let (fact, added) = step(&mut words, |words| {
                    let fact = make_fact(words, moment, value)?;
                    Ok((fact, series.add(words, root, fact)?))
                });
                root = added;
                let at = facts.partition_point(|(other, ..)| *other < moment);
                facts.insert(at, (moment, value, fact));
            }
            if number % 7 > 0 {
                continue;
            }
            assert_eq!(moments(&words, root), facts.iter().map(|(moment, ..)| *moment).collect::<Vec<_>>());
            for _ in 0..4 {
                let mut end = || (next(1_400) as i64 - 300, next(3_000));
                let (after, before) = (end(), end());
                let within = facts.iter().filter(|(moment, ..)| *moment > after && *moment < before);
                let expected = within.fold(Total::of_nothing(&series.aggregate), |total, (_, value, _)| {
                    total.merged(Total::of_one(&series.aggregate, *value), &series.aggregate)
                });
                let found = series.between(&words, root, after, before);
                assert_eq!(found.value(&series.aggregate), expected.value(&series.aggregate));
            }
        }
    }

    #[test]
    fn trees_have_the_totals_of_a_list_and_stay_balanced() {
        let field = Operand::Field { slot: OWN, offset: FIELDS, bit: 1 };
        for kind in [Kind::Integer, Kind::Float] {
            for aggregate in [
                Aggregate::Count,
                Aggregate::Sum(kind, field),
                Aggregate::Min(kind, field),
                Aggregate::Max(kind, field),
            ] {
                check(kind, aggregate);
            }
        }
    }

    #[test]
    fn a_sum_that_fits_again_is_the_same_as_before() {
        let field = Operand::Field { slot: OWN, offset: FIELDS, bit: 1 };
        let aggregate = Aggregate::Sum(Kind::Float, field);
        let series = Series { ty: 0, index: 0, condition: 0, aggregate: aggregate.clone(), at: 0 };
        let mut words = Words::new(1 << 20).unwrap();
        let (first, last) = ((i64::MIN, 0), (i64::MAX, u64::MAX));
        // The last value has the exponent -1.
        let mut root = 0;
        for (number, float) in [(1, 0.5), (2, 1e30), (3, 1e-30), (4, 0.5)] {
            root = step(&mut words, |words| {
                let fact = make_fact(words, (0, number), Some(f64::to_bits(float)))?;
                series.add(words, root, fact)
            });
        }
        assert_eq!(series.between(&words, root, first, last), Total::Sum(None));
        for number in [3, 2] {
            root = step(&mut words, |words| series.remove(words, root, (0, number))).1;
        }
        let total = series.between(&words, root, first, last).value(&aggregate);
        assert_eq!(total.map(f64::from_bits), Some(1.0));
    }

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
        // Both keys have many facts, then the one with the tree has none, and gets many again.
        for number in 0..3_000_u64 {
            let is_first = number.is_multiple_of(2) && !(600..1_200).contains(&number);
            let fields = [("key", integer(if is_first { first } else { second })), ("value", integer(number))];
            engine.assert(&engine.fact("f", Some(number as i64), &fields).unwrap()).unwrap();
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
