//! Compiled rules.

use crate::compile::code::{compare, Bound, Code, Kind, Operand, Relation, Test, OWN};
pub(crate) use crate::compile::condition::Condition;
use crate::compile::fact_type::KEY;
pub(crate) use crate::compile::fact_type::{Domain, FactType, Field, TypeNames};
use crate::fact::{moment_of_fact, Moment};
use crate::keys::Keys;
use crate::memory::{mix, Address, Table, Words};

/// Compiled rules, immutable once the engine is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub types: Vec<FactType>,
    pub names: TypeNames,
    pub conditions: Vec<Condition>,
    pub rules: Vec<Rule>,
    pub series: Vec<Series>,
    /// The number of facts from which on a list has a tree in its series.
    pub min_tree_facts: u32,
    /// The address of the rules' words, see `agenda`.
    pub rules_at: Address,
    /// The fact types whose facts are dropped, and their lives.
    pub lives: Vec<(usize, i64)>,
    /// The keys of the fact types, if the rules can be partitioned.
    pub keys: Option<Keys>,
    /// Warnings about rules that may not do what they seem to.
    pub warnings: Vec<String>,
}

impl Program {
    /// Assigns each look-up its table, once the types have addresses.
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
    /// The plan by slot of the newest fact.
    pub plans: Vec<Plan>,
    /// The plan by guard.
    pub flips: Vec<Plan>,
    /// The number of distinct single-fact conditions that must be met by some fact.
    pub needs: u32,
    pub actions: Vec<Action>,
    /// Whether the rule has named aggregates or `let`.
    pub has_locals: bool,
}

/// A condition that binds a fact.
#[derive(Clone, Debug)]
pub(crate) struct Slot {
    pub ty: usize,
    /// The byte offset of the condition in the text.
    pub place: u32,
}

/// The ends of a guard's windows: slots, and the milliseconds after their facts' times at which a window closes. A match waits for
/// the earliest end. The facts that it needs live as long, see `life`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines(Vec<(u8, i64)>);

impl Deadlines {
    pub fn add(&mut self, slot: u8, within: i64) {
        self.0.push((slot, within));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the only window ends after the fact in this slot.
    pub fn is_after_only(&self, slot: u8) -> bool {
        matches!(self.0[..], [(of, _)] if of == slot)
    }

    /// Returns the time at which the wait ends, given the time of each slot's fact. Without windows, returns `None`.
    pub fn end(&self, time: impl Fn(usize) -> i64) -> Option<i64> {
        self.0.iter().map(|(slot, within)| time(usize::from(*slot)).saturating_add(*within)).min()
    }
}

/// The bit, beside the bits of fields, of a guard that reads the numbers of its facts. Every modification changes the number.
pub(crate) const NUMBER_READ: u64 = 1 << 32;

/// A `none` or an aggregate: a condition on all facts that match.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub aggregate: Aggregate,
    pub probe: Probe,
    /// The window of a series that holds exactly its facts, if nothing is left to test.
    pub window: Option<Window>,
    /// The limit that a `none` over all facts of a type reduces to, if it does.
    pub limit: Option<Limit>,
    /// The tests on the aggregate's value.
    pub having: Vec<Code>,
    /// The local that stores the value.
    pub local: Option<u8>,
    pub deadlines: Deadlines,
    /// The fields that it reads of its facts, one bit each, and [`NUMBER_READ`]. Modifying other fields does not affect it.
    pub reads: u64,
    /// Whether any of its facts blocks all matches of the rule, which has no aggregates and no deadlines.
    pub blocks_all: bool,
    /// The byte offset of the condition in the text.
    pub place: u32,
}

/// A `none` that compares one field with values of other facts: the fact with the greatest or least value decides it.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub kind: Kind,
    pub field: Operand,
    /// Whether greater values block more; otherwise smaller values do.
    pub is_upper: bool,
    pub test: Test,
    /// The other tests, which read the fact alone.
    pub own: Vec<Test>,
}

impl Limit {
    /// Returns the limit that a `none` with these tests reduces to.
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

    /// Returns whether the own fact blocks more than `other` does, or has any value if `other` is 0.
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
    /// Returns the field that the aggregate reads.
    pub fn field(&self) -> Option<Operand> {
        match self {
            Aggregate::None | Aggregate::Count => None,
            Aggregate::Sum(_, field) | Aggregate::Min(_, field) | Aggregate::Max(_, field) => Some(*field),
        }
    }
}

/// A look-up of facts by key, and the tests on them.
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

/// The facts that meet a condition, by index key and time, see `series`.
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

/// A time clause that relates a fact to a bound one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeBound {
    pub anchor: u8,
    /// Whether the fact is after the bound one (`Some(true)`), before it, or either (`None`).
    pub is_after: Option<bool>,
    pub less_than: i64,
}

impl TimeBound {
    /// Returns the time clause of a test, if it relates the fact in `slot` to one in `bound`.
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
    /// Returns the exclusive bounds of the facts' moments.
    #[inline]
    pub fn range(&self, words: &Words, bound: &Bound) -> (Moment, Moment) {
        let (mut after, mut before) = ((i64::MIN, 0), (i64::MAX, u64::MAX));
        for TimeBound { anchor, is_after, less_than } in &self.bounds {
            let moment = moment_of_fact(words, bound[*anchor as usize]);
            // Fact numbers lie strictly between 0 and `u64::MAX`.
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
    /// Returns the head of the list that a look-up scans, its newest fact, or 0.
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

/// An order of look-ups that finds all matches of a rule containing a given fact.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The guards to test once the first fact is bound.
    pub guards: Vec<u8>,
    pub joins: Vec<Join>,
    /// Look-ups of facts that must be later than the given one, the newest of the match. If any of them finds nothing, there is no
    /// match. The first join is not repeated here.
    pub later: Vec<Join>,
}

#[derive(Clone, Debug)]
pub(crate) struct Join {
    pub probe: Probe,
    /// The window of a series that holds the fact, in a plan for the facts of an aggregate.
    pub window: Option<Window>,
    /// Whether the fact must be older than the first one; otherwise it may be the same.
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
    /// `is_last` is true if no later action reads a field that this one changes.
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
    pub fn visit(&self, mut visit: impl FnMut(&Code)) {
        match self {
            Action::Assert { values, .. } | Action::Modify { values, .. } => {
                values.iter().for_each(|(_, code)| visit(code));
            }
            Action::Notify { values, .. } => values.iter().for_each(|(_, _, code)| visit(code)),
            Action::Let { code, .. } => visit(code),
            Action::Retract { .. } => {}
        }
    }
}
