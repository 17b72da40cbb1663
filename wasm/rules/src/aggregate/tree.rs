//! Series: trees that order the facts of a key by time and give the aggregate of any window in logarithmic time.
//!
//! A series covers the facts that meet one single-fact condition, by the key of one index. A key with many facts has a tree; a key
//! with few is scanned as a list, which costs less. A tree is built when a list becomes long, and freed with its last fact.
//!
//! Trees are weight-balanced, as in "Balancing weight-balanced trees" by Hirai and Yamamoto (2011): no subtree has more than three
//! times the weight of its sibling, so the depth is logarithmic for every order of insertion. A node stores its children, the size
//! of its subtree, its fact, and the total of its subtree, unless the total is just the size. The order is (time, number).
//!
//! The words of a series are a table from the hash of a key to the root of the key's tree. If two keys share a hash, only one of
//! them has a tree, and the aggregates of the other scan.

use crate::aggregate::totals::{Sum, Total};
use crate::compile::code::{Bound, OWN, SLOTS};
use crate::compile::program::{Aggregate, Series};
use crate::fact::{moment_of_fact, Moment};
use crate::memory::{Address, Full, Table, Words};

pub(super) const LEFT: Address = 0;
pub(super) const RIGHT: Address = 1;
pub(super) const SIZE: Address = 2;
pub(super) const FACT: Address = 3;
pub(super) const TOTAL: Address = 4;

/// The largest balanced ratio of sibling weights, and the ratio of a child's children up to which a single rotation suffices.
pub(super) const BALANCED: u32 = 3;
pub(super) const SINGLE: u32 = 2;

/// One insertion in `MEASURED` measures the length of its list.
pub(super) const MEASURED: u64 = 8;

/// The exponent that marks an overflowed sum. No other sum has it.
pub(super) const UNFIT: u32 = 1 << 31;

impl Series {
    pub(super) fn table(&self) -> Table {
        Table(self.at)
    }

    pub(super) fn node_size(&self) -> u32 {
        TOTAL
            + match self.aggregate {
                Aggregate::None | Aggregate::Count => 0,
                Aggregate::Sum(..) => 5,
                Aggregate::Min(..) | Aggregate::Max(..) => 3,
            }
    }

    /// Returns the total of a fact.
    pub(super) fn of_fact(&self, words: &Words, fact: Address) -> Total {
        let Some(field) = self.aggregate.field() else { return Total::Count(1) };
        let mut bound: Bound = [0; SLOTS + 1];
        bound[OWN as usize] = fact;
        Total::of_one(&self.aggregate, field.value(words, &bound))
    }

    /// Returns the total of a subtree.
    pub(super) fn total(&self, words: &Words, node: Address) -> Total {
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

    /// Recomputes the size and the total of a node from its children.
    pub(super) fn update(&self, words: &mut Words, node: Address) -> Result<(), Full> {
        let [left, right, _, fact] = words.get_part(node);
        change_word(words, node + SIZE, size(words, left) + size(words, right) + 1)?;
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

    pub(super) fn set_total(&self, words: &mut Words, node: Address, total: Total) -> Result<(), Full> {
        let mut store = |at: Address, value: u32| change_word(words, node + TOTAL + at, value);
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
    pub(super) fn add(&self, words: &mut Words, root: Address, fact: Address) -> Result<Address, Full> {
        let node = words.allocate(self.node_size())?;
        words.clear(node, self.node_size());
        words.raw(node + SIZE, 1);
        words.raw(node + FACT, fact);
        let total = self.of_fact(words, fact);
        self.set_total(words, node, total)?;
        self.insert(words, root, node, (moment_of_fact(words, fact), total))
    }

    /// Inserts a node into a tree, and returns the root. `own` is the node's moment and total.
    pub(super) fn insert(
        &self,
        words: &mut Words,
        root: Address,
        node: Address,
        own: (Moment, Total),
    ) -> Result<Address, Full> {
        if root == 0 {
            return Ok(node);
        }
        let side = if own.0 < moment_of(words, root) { LEFT } else { RIGHT };
        let child = self.insert(words, words.get(root + side), node, own)?;
        change_word(words, root + side, child)?;
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

    /// Removes the node of a fact from a tree. Returns the node and the root.
    pub(super) fn remove(&self, words: &mut Words, root: Address, moment: Moment) -> Result<(Address, Address), Full> {
        if root == 0 {
            return Ok((0, 0));
        }
        let own = moment_of(words, root);
        if own == moment {
            return Ok((root, self.join(words, root)?));
        }
        let side = if moment < own { LEFT } else { RIGHT };
        let (node, child) = self.remove(words, words.get(root + side), moment)?;
        change_word(words, root + side, child)?;
        Ok((node, self.balance(words, root)?))
    }

    /// Joins the children of a removed node, and returns the root.
    pub(super) fn join(&self, words: &mut Words, node: Address) -> Result<Address, Full> {
        let [left, right] = words.get_part(node);
        if left == 0 || right == 0 {
            return Ok(left.max(right));
        }
        let side = if size(words, left) > size(words, right) { LEFT } else { RIGHT };
        let (nearest, rest) = self.take_end(words, if side == LEFT { left } else { right }, other(side))?;
        change_word(words, nearest + side, rest)?;
        change_word(words, nearest + other(side), if side == LEFT { right } else { left })?;
        self.balance(words, nearest)
    }

    /// Removes the leftmost or rightmost node of a tree. Returns the node and the root.
    pub(super) fn take_end(&self, words: &mut Words, root: Address, side: Address) -> Result<(Address, Address), Full> {
        let child = words.get(root + side);
        if child == 0 {
            return Ok((root, words.get(root + other(side))));
        }
        let (end, rest) = self.take_end(words, child, side)?;
        change_word(words, root + side, rest)?;
        Ok((end, self.balance(words, root)?))
    }

    /// Restores the balance, the size and the total of a node whose children are balanced. Returns the root.
    pub(super) fn balance(&self, words: &mut Words, root: Address) -> Result<Address, Full> {
        match heavy_side(words, root) {
            Some(heavy) => self.raise(words, root, heavy),
            None => {
                self.update(words, root)?;
                Ok(root)
            }
        }
    }

    /// Rotates once, or twice if the inner child of the heavy child is too heavy. Returns the root.
    pub(super) fn raise(&self, words: &mut Words, root: Address, heavy: Address) -> Result<Address, Full> {
        let child = words.get(root + heavy);
        let [inner, outer] = [other(heavy), heavy].map(|side| words.get(child + side));
        if size(words, inner) + 1 >= SINGLE * (size(words, outer) + 1) {
            let raised = self.rotate(words, child, other(heavy))?;
            change_word(words, root + heavy, raised)?;
        }
        self.rotate(words, root, heavy)
    }

    /// Rotates the child on a side above its parent, and returns the child.
    pub(super) fn rotate(&self, words: &mut Words, root: Address, side: Address) -> Result<Address, Full> {
        let child = words.get(root + side);
        change_word(words, root + side, words.get(child + other(side)))?;
        change_word(words, child + other(side), root)?;
        self.update(words, root)?;
        self.update(words, child)?;
        Ok(child)
    }

    /// Returns the total of the facts of a tree between two moments.
    pub(super) fn between(&self, words: &Words, root: Address, after: Moment, before: Moment) -> Total {
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
        // The paths to the two ends part here: inside the range, the whole inner subtree of a node counts.
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

pub(super) fn other(side: Address) -> Address {
    LEFT + RIGHT - side
}

/// Returns the side of the child that is too heavy for its sibling.
pub(super) fn heavy_side(words: &Words, node: Address) -> Option<Address> {
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

pub(super) fn size(words: &Words, node: Address) -> u32 {
    if node == 0 {
        0
    } else {
        words.get(node + SIZE)
    }
}

pub(super) fn moment_of(words: &Words, node: Address) -> Moment {
    moment_of_fact(words, words.get(node + FACT))
}

/// Stores a word if its value changes.
#[inline(always)]
pub(super) fn change_word(words: &mut Words, at: Address, value: u32) -> Result<(), Full> {
    if words.get(at) == value {
        return Ok(());
    }
    words.set(at, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::code::{Kind, Operand};
    use crate::layout::{DEFINED, FIELDS, NUMBER, TIME};

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

    /// Runs a step, and grows the words and repeats it while it lacks room.
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
            // Phases: grow in order and late, then remove mostly the oldest facts, then any.
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
}
