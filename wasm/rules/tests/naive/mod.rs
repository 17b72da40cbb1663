//! The parts that the naive evaluators share: facts in time, tests, combinations of facts, and matches that wait.
//!
//! A naive evaluator keeps all facts, and enumerates all combinations of them after each change. It has no indices, no lives and no
//! seeds.

// Each test binary uses a part of this module.
#![allow(dead_code)]

pub mod random;

/// A fact of a naive evaluator.
pub trait Fact {
    fn id(&self) -> u64;
    fn ty(&self) -> usize;
    fn at(&self) -> i64;
}

/// A test of a fact, given the facts that earlier conditions bind.
pub trait Test {
    type Fact: Fact;

    fn holds(&self, fact: &Self::Fact, bound: &[&Self::Fact]) -> bool;

    /// Returns the time clause, if the test is one.
    fn clause(&self) -> Option<&Clause>;
}

/// Returns whether a fact has a type and passes the tests.
pub fn passes<T: Test>(ty: usize, tests: &[T], fact: &T::Fact, bound: &[&T::Fact]) -> bool {
    fact.ty() == ty && tests.iter().all(|test| test.holds(fact, bound))
}

/// Returns whether two values are in a relation.
pub fn related<T: PartialOrd>(relation: &str, left: T, right: T) -> bool {
    match relation {
        "=" => left == right,
        "<>" => left != right,
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    }
}

/// A time clause: `after`, `before` or within a duration `of` the fact of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Clause {
    pub relation: &'static str,
    pub slot: usize,
    /// The duration in milliseconds; `of` has one.
    pub within: Option<i64>,
}

impl Clause {
    pub fn text(self) -> String {
        match (self.relation, self.slot, self.within) {
            ("of", slot, within) => format!("within {} milliseconds of p{slot}", within.unwrap()),
            (relation, slot, None) => format!("{relation} p{slot}"),
            (relation, slot, Some(within)) => format!("{relation} p{slot} within {within} milliseconds"),
        }
    }

    pub fn holds<F: Fact>(self, fact: &F, bound: &[&F]) -> bool {
        let [this, other] = [fact, bound[self.slot]].map(|fact| (fact.at(), fact.id()));
        let difference = this.0 - other.0;
        match self.relation {
            "after" => this > other && self.within.is_none_or(|within| difference < within),
            "before" => other > this && self.within.is_none_or(|within| -difference < within),
            _ => difference.abs() < self.within.unwrap(),
        }
    }
}

/// Returns the facts with these numbers, if all exist.
pub fn facts_of<'f, F: Fact>(facts: &'f [F], ids: &[u64]) -> Option<Vec<&'f F>> {
    ids.iter().map(|id| facts.iter().find(|fact| fact.id() == *id)).collect()
}

/// Returns the numbers of all combinations of facts that meet the conditions that bind facts.
pub fn combinations<T: Test>(facts: &[T::Fact], slots: &[(usize, Vec<T>)]) -> Vec<Vec<u64>> {
    let mut combinations: Vec<Vec<&T::Fact>> = vec![vec![]];
    for (ty, tests) in slots {
        let longer = |bound: Vec<_>| {
            let partners: Vec<_> = facts.iter().filter(|fact| passes(*ty, tests, fact, &bound)).collect();
            partners.into_iter().map(move |fact| [&bound[..], &[fact]].concat())
        };
        combinations = combinations.into_iter().flat_map(longer).collect();
    }
    combinations.iter().map(|bound| bound.iter().map(|fact| fact.id()).collect()).collect()
}

/// Returns the time at which the windows of all guards have closed, given the tests of each guard.
pub fn deadline<'t, T: Test + 't>(guards: impl Iterator<Item = &'t [T]>, bound: &[&T::Fact]) -> i64 {
    let end = |clause: &Clause| match (clause.relation, clause.within) {
        ("after" | "of", Some(within)) => Some(bound[clause.slot].at() + within),
        _ => None,
    };
    guards.filter_map(|tests| tests.iter().filter_map(Test::clause).filter_map(end).min()).max().unwrap_or(i64::MIN)
}

/// The matches that wait for a deadline.
pub struct Waiting<M>(Vec<(i64, M)>);

impl<M> Waiting<M> {
    pub fn new() -> Self {
        Waiting(Vec::new())
    }

    pub fn add(&mut self, deadline: i64, waiting: M) {
        self.0.push((deadline, waiting));
    }

    pub fn first_deadline(&self) -> Option<i64> {
        self.0.iter().map(|(deadline, _)| *deadline).min()
    }

    /// Removes the matches whose deadline has come.
    pub fn take_until(&mut self, now: i64) -> Vec<M> {
        let (due, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut self.0).into_iter().partition(|(at, _)| *at <= now);
        self.0 = waiting;
        due.into_iter().map(|(_, due)| due).collect()
    }
}
