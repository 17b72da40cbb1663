//! Compiled rules.

use crate::compile::code::{compare, Bound, Code, Kind, Operand, Relation, Test, OWN};
pub(crate) use crate::compile::condition::Condition;
use crate::compile::fact_type::KEY;
pub(crate) use crate::compile::fact_type::{Domain, FactType, Field, TypeNames};
use crate::fact::{moment_of_fact, Moment};
use crate::keys::Keys;
use crate::memory::{mix, Address, Table, Words};

/// Compiled rules. Nothing in them changes after the engine is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub types: Vec<FactType>,
    pub names: TypeNames,
    pub conditions: Vec<Condition>,
    pub rules: Vec<Rule>,
    pub series: Vec<Series>,
    /// The number of facts from which on a list has a tree in its series.
    pub long: u32,
    /// The words of the engine for the rules, see `agenda`.
    pub rules_at: Address,
    /// The fact types whose facts are dropped, and their lives.
    pub lives: Vec<(usize, i64)>,
    /// The keys of the fact types, if the rules can be partitioned.
    pub keys: Option<Keys>,
    /// Sentences about rules that may be meant otherwise.
    pub warnings: Vec<String>,
}

impl Program {
    /// Gives each look-up its table, once the types have their words.
    pub fn find_tables(&mut self) {
        let Program { types, rules, .. } = self;
        for rule in rules {
            let plans = rule.plans.iter_mut().chain(&mut rule.flips);
            let joins = plans.flat_map(|plan| plan.joins.iter_mut().chain(&mut plan.later));
            let probes = joins.map(|join| &mut join.probe).chain(rule.guards.iter_mut().map(|guard| &mut guard.probe));
            probes.for_each(|probe| probe.table = types[probe.ty].table(probe.index));
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub name: String,
    pub priority: i32,
    pub slots: Vec<Slot>,
    pub guards: Vec<Guard>,
    /// By slot of the newest fact.
    pub plans: Vec<Plan>,
    /// By guard.
    pub flips: Vec<Plan>,
    /// The number of single-fact conditions that need a fact.
    pub needs: u32,
    pub actions: Vec<Action>,
    /// Whether it has aggregates with names or `let`.
    pub has_locals: bool,
}

/// A condition that binds a fact.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub ty: usize,
    /// The byte of the text at which the condition lies.
    pub place: u32,
}

/// The ends of a guard's windows: slots, and the milliseconds after their facts' time from which on no more facts can match. A match
/// waits for the earliest. So long live the facts that it needs, see `life`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(Vec<(u8, i64)>);

impl Deadlines {
    pub fn add(&mut self, slot: u8, within: i64) {
        self.0.push((slot, within));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether a match waits for a time after this slot's fact alone.
    pub fn is_after_only(&self, slot: u8) -> bool {
        matches!(self.0[..], [(of, _)] if of == slot)
    }

    /// Returns the time at which the wait ends, if the fact of each slot has the time that `time` returns. Without windows, no match
    /// waits.
    pub fn end(&self, time: impl Fn(usize) -> i64) -> Option<i64> {
        self.0.iter().map(|(slot, within)| time(usize::from(*slot)).saturating_add(*within)).min()
    }
}

/// The bit, besides those of fields, of a guard that reads the numbers of its facts. Every modification changes the number.
pub(crate) const NUMBER_READ: u64 = 1 << 32;

/// A `none` or an aggregate: a condition on all facts that match.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub aggregate: Aggregate,
    pub probe: Probe,
    /// The part of a series whose facts it is about, if nothing else is to test.
    pub window: Option<Window>,
    /// The bound that it sets, if it is a `none` over all facts of a type.
    pub limit: Option<Limit>,
    /// What the value has to satisfy.
    pub having: Vec<Code>,
    /// The local that takes the value.
    pub local: Option<u8>,
    pub deadlines: Deadlines,
    /// The fields that it reads of its facts, one bit each, and [`NUMBER_READ`]. A modification of other fields leaves it as it is.
    pub reads: u64,
    /// Whether each of its facts blocks all matches of the rule, which has no aggregates and no deadlines.
    pub blocks_all: bool,
    /// The byte of the text at which the condition lies.
    pub place: u32,
}

/// A `none` that compares one field with a value of other facts: the fact with the greatest value, or the least, decides it.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub kind: Kind,
    pub field: Operand,
    /// Whether greater values block more. Otherwise less ones do.
    pub is_upper: bool,
    pub test: Test,
    /// The other tests, which are about the fact alone.
    pub own: Vec<Test>,
}

impl Limit {
    /// Returns the bound that a `none` with these tests sets.
    pub fn of(tests: &[Test]) -> Option<Limit> {
        let is_own = |operand: &Operand| matches!(operand, Operand::Field { slot: OWN, .. });
        let (own, mut rest): (Vec<&Test>, Vec<&Test>) = tests.iter().partition(|test| test.slots() == 1 << OWN);
        let test = rest.pop().filter(|_| rest.is_empty())?;
        let Test::Compare(kind, relation, left, right) = test else { return None };
        let is_greater = match relation {
            Relation::Greater | Relation::AtLeast => true,
            Relation::Less | Relation::AtMost => false,
            Relation::Equal | Relation::Unequal => return None,
        };
        let (field, is_upper) = if is_own(left) { (*left, is_greater) } else { (*right, !is_greater) };
        (is_own(left) != is_own(right)).then(|| Limit {
            kind: *kind,
            field,
            is_upper,
            test: test.clone(),
            own: own.into_iter().cloned().collect(),
        })
    }

    /// Returns whether the own fact has a value that blocks more than that of `other`, or any if that is 0.
    #[inline]
    pub fn is_beyond(&self, words: &Words, other: Address, bound: &Bound) -> bool {
        let Some(value) = self.field.value(words, bound) else { return false };
        if other == 0 {
            return true;
        }
        let mut others = *bound;
        others[OWN as usize] = other;
        let relation = if self.is_upper { Relation::Greater } else { Relation::Less };
        self.field.value(words, &others).is_none_or(|other| compare(self.kind, relation, value, other))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Aggregate {
    None,
    Count,
    Sum(Kind, Operand),
    Min(Kind, Operand),
    Max(Kind, Operand),
}

impl Aggregate {
    /// Returns the field whose values it takes.
    pub fn field(&self) -> Option<Operand> {
        match self {
            Aggregate::None | Aggregate::Count => None,
            Aggregate::Sum(_, field) | Aggregate::Min(_, field) | Aggregate::Max(_, field) => Some(*field),
        }
    }
}

/// A look-up of facts, and their tests.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub ty: usize,
    pub index: usize,
    /// The table of the index, and the offset of its links in a fact.
    pub table: Table,
    pub link: u32,
    pub key: Vec<Operand>,
    pub tests: Vec<Test>,
    /// The slot that the fact is bound to.
    pub slot: u8,
}

/// The facts that meet a condition, by the key of an index and by time, see `series`.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub ty: usize,
    pub index: usize,
    pub condition: u32,
    /// The aggregate of its facts.
    pub aggregate: Aggregate,
    /// The words of its table.
    pub at: Address,
}

/// The facts of a series within bounds of their times.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub series: usize,
    pub bounds: Vec<TimeBound>,
}

/// A time clause about a fact and a bound one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBound {
    pub anchor: u8,
    /// Whether the fact is after the bound one, or else before it, or `None` if it may be either.
    pub is_after: Option<bool>,
    pub less_than: i64,
}

impl TimeBound {
    /// Returns the time clause of a test, if that is one about the fact in `slot` and another one of those that are `bound`.
    pub fn of(code: &Code, slot: u8, bound: u32) -> Option<TimeBound> {
        let (anchor, is_after, less_than) = match *code {
            Code::After { later, earlier, less_than } if later == slot => (earlier, Some(true), less_than),
            Code::After { later, earlier, less_than } if earlier == slot => (later, Some(false), less_than),
            Code::Near { slots: [first, second], less_than } if first == slot => (second, None, Some(less_than)),
            Code::Near { slots: [first, second], less_than } if second == slot => (first, None, Some(less_than)),
            _ => return None,
        };
        let less_than = less_than.unwrap_or(i64::MAX);
        (anchor != slot && bound & 1 << anchor != 0).then_some(TimeBound { anchor, is_after, less_than })
    }
}

impl Window {
    /// Returns the moments between which the facts lie.
    #[inline]
    pub fn range(&self, words: &Words, bound: &Bound) -> (Moment, Moment) {
        let (mut after, mut before) = ((i64::MIN, 0), (i64::MAX, u64::MAX));
        for TimeBound { anchor, is_after, less_than } in &self.bounds {
            let moment = moment_of_fact(words, bound[*anchor as usize]);
            // Each fact has a number from 1 on, and below the greatest.
            let first = (moment.0.saturating_sub(*less_than), u64::MAX);
            let last = (moment.0.saturating_add(*less_than), 0);
            let (least, most) = match is_after {
                Some(true) => (moment, last),
                Some(false) => (first, moment),
                None => (first, last),
            };
            after = after.max(least);
            before = before.min(most);
        }
        (after, before)
    }
}

impl Probe {
    /// Returns the newest fact that may pass the tests of a look-up, or 0.
    #[inline]
    pub fn head(&self, words: &Words, bound: &Bound) -> Address {
        if self.index == 0 {
            return words.get(self.table.0);
        }
        let mut hash = KEY;
        for operand in &self.key {
            let Some(value) = operand.value(words, bound) else { return 0 };
            hash = mix(hash, value);
        }
        self.table.place(words, hash as u32).1
    }

    /// Returns whether the bound facts pass the tests.
    #[inline(always)]
    pub fn accepts(&self, words: &Words, bound: &Bound) -> bool {
        self.tests.iter().all(|test| test.holds(words, bound))
    }
}

/// An order of look-ups that finds all matches of a rule with a given fact.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The guards to test once the first fact is bound.
    pub guards: Vec<u8>,
    pub joins: Vec<Join>,
    /// Look-ups, besides the first join, of facts that must be later than the given one, the newest of the match. It has no match if
    /// one of them finds nothing.
    pub later: Vec<Join>,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub probe: Probe,
    /// The part of a series in which the fact lies, in a plan for the facts of an aggregate.
    pub window: Option<Window>,
    /// Whether the fact has to be older than the first one. Otherwise it may be the same.
    pub is_older: bool,
    /// The guards to test once this fact is bound.
    pub guards: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Assert {
        ty: usize,
        values: Vec<(u8, Code)>,
    },
    /// `is_last` says that no later action reads a field that this one changes.
    Modify {
        slot: u8,
        ty: usize,
        values: Vec<(u8, Code)>,
        is_last: bool,
    },
    Retract {
        slot: u8,
    },
    Notify {
        name: String,
        values: Vec<(String, Kind, Code)>,
    },
    Let {
        local: u8,
        code: Code,
    },
}

impl Action {
    /// Calls `visit` for each expression of the action.
    pub fn visit<'a>(&'a self, mut visit: impl FnMut(&'a Code)) {
        match self {
            Action::Assert { values, .. } | Action::Modify { values, .. } => {
                values.iter().for_each(|(_, code)| visit(code));
            }
            Action::Notify { values, .. } => values.iter().for_each(|(_, _, code)| visit(code)),
            Action::Let { code, .. } => visit(code),
            Action::Retract { .. } => {}
        }
    }

    /// Calls `change` for each expression of the action.
    pub fn change(&mut self, mut change: impl FnMut(&mut Code)) {
        match self {
            Action::Assert { values, .. } | Action::Modify { values, .. } => {
                values.iter_mut().for_each(|(_, code)| change(code));
            }
            Action::Notify { values, .. } => values.iter_mut().for_each(|(_, _, code)| change(code)),
            Action::Let { code, .. } => change(code),
            Action::Retract { .. } => {}
        }
    }
}
