//! Plans the order of joins: for each condition, the look-ups that find all matches containing a given fact.
//!
//! Planning is greedy: the next look-up is the one with the most equalities to bound facts. An equality with a constant counts
//! less. On ties, the order of the text decides.
//!
//! A look-up for a fact later than the given one comes first. The given fact is the newest of the match, and facts mostly arrive in
//! time order, so a later fact hardly ever exists, and without one the search ends at once. In "two failed logins and then a change
//! of the password", a failed login is not joined with all earlier ones.

use std::collections::HashSet;

use crate::compile::code::{Code, Kind, Operand, Relation, Test, OWN};
use crate::compile::program::{
    Aggregate, Condition, Deadlines, FactType, Guard, Join, Limit, Plan, Probe, Series, Slot,
};
use crate::compile::program::{TimeBound, Window, NUMBER_READ};
use crate::layout::field_at;
use crate::memory::Table;

/// The most indices of a fact type. Further look-ups use an index over fewer fields, and test the rest.
const MAX_INDICES: usize = 24;

/// A `none` or an aggregate whose look-up is not planned yet.
pub(super) struct RawGuard {
    pub ty: usize,
    pub aggregate: Aggregate,
    pub conjuncts: Vec<Code>,
    pub having: Vec<Code>,
    pub local: Option<u8>,
    pub deadlines: Deadlines,
    pub place: u32,
}

impl RawGuard {
    /// Returns the slots of other facts that the guard reads, one bit each.
    fn reads(&self) -> u32 {
        let slots = self.conjuncts.iter().chain(&self.having).fold(0, |slots, code| slots | code.slots());
        slots & !(1 << OWN)
    }
}

pub(super) struct Planner<'a> {
    pub types: &'a mut Vec<FactType>,
    pub conditions: &'a mut Vec<Condition>,
    pub series: &'a mut Vec<Series>,
    /// The single-fact conditions, by slot and by guard.
    pub slot_conditions: &'a [u32],
    pub guard_conditions: &'a [u32],
    pub slots: &'a [Slot],
    pub conjuncts: &'a [Code],
    /// The tests that the conjuncts imply.
    pub implied: &'a [Code],
    pub guards: &'a [RawGuard],
}

impl Planner<'_> {
    /// Returns the look-up of a guard.
    pub fn guard(&mut self, number: usize) -> Guard {
        let raw = &self.guards[number];
        let tests: Vec<&Code> = raw.conjuncts.iter().collect();
        let probe = self.probe(raw.ty, OWN, self.guard_conditions[number], &tests);
        let is_none = raw.aggregate == Aggregate::None && probe.index == 0;
        let window = self.window(number, &probe);
        let raw = &self.guards[number];
        Guard {
            aggregate: raw.aggregate.clone(),
            limit: if is_none { Limit::of(&probe.tests) } else { None },
            probe,
            window,
            having: raw.having.clone(),
            local: raw.local,
            deadlines: raw.deadlines.clone(),
            reads: Planner::fields_read(raw),
            blocks_all: self.blocks_all(number),
            place: raw.place,
        }
    }

    /// Returns whether any fact of a guard blocks all matches, and matches are valid exactly while no `none` is violated.
    fn blocks_all(&self, number: usize) -> bool {
        let is_plain = |guard: &RawGuard| guard.aggregate == Aggregate::None && guard.deadlines.is_empty();
        let joins = |code: &Code| code.slots() & 1 << OWN != 0 && code.slots() != 1 << OWN;
        self.guards.iter().all(is_plain) && !self.guards[number].conjuncts.iter().any(joins)
    }

    /// Returns the fields that a guard reads of its own facts, one bit each, and [`NUMBER_READ`] if it reads their numbers, as an
    /// order of facts with equal times does. A modification leaves everything else unchanged.
    fn fields_read(raw: &RawGuard) -> u64 {
        let mut read = match raw.aggregate.field() {
            Some(Operand::Field { offset, .. }) => 1 << field_at(offset),
            _ => 0,
        };
        for code in &raw.conjuncts {
            code.visit(&mut |code| match code {
                Code::Field { slot: OWN, offset, .. } => read |= 1 << field_at(*offset),
                Code::After { later, earlier, .. } if [later, earlier].contains(&&OWN) => read |= NUMBER_READ,
                _ => {}
            });
        }
        read
    }

    /// Returns the window of a series that an aggregate covers, if a condition, a key and bounds in time are all that its facts
    /// must meet.
    fn window(&mut self, number: usize, probe: &Probe) -> Option<Window> {
        let raw = &self.guards[number];
        if raw.aggregate == Aggregate::None {
            return None;
        }
        let used = &self.types[raw.ty].indices[probe.index];
        let is_keyed = |(field, operand): (u8, Operand)| {
            used.iter().zip(&probe.key).any(|(used, key)| (*used, *key) == (field, operand))
        };
        let mut bounds = Vec::new();
        for code in &raw.conjuncts {
            if code.slots() & !(1 << OWN) == 0 || equality(code, OWN, u32::MAX).is_some_and(is_keyed) {
                continue;
            }
            bounds.push(TimeBound::of(code, OWN, u32::MAX)?);
        }
        let (ty, condition, aggregate) = (raw.ty, self.guard_conditions[number], raw.aggregate.clone());
        let is_it = |series: &Series| {
            (series.ty, series.index, series.condition) == (ty, probe.index, condition) && series.aggregate == aggregate
        };
        let series = match self.series.iter().position(is_it) {
            Some(series) => series,
            None => self.add_series(Series { ty, index: probe.index, condition, aggregate, at: 0 }),
        };
        Some(Window { series, bounds })
    }

    fn add_series(&mut self, series: Series) -> usize {
        self.conditions[series.condition as usize].series.push(self.series.len() as u32);
        self.series.push(series);
        self.series.len() - 1
    }

    /// Returns the window of a series that a look-up covers, if time clauses bound it.
    fn window_of_join(&mut self, probe: &Probe, bound: u32, conjuncts: &[Code]) -> Option<Window> {
        let bounds: Vec<_> = conjuncts.iter().filter_map(|code| TimeBound::of(code, probe.slot, bound)).collect();
        if bounds.is_empty() {
            return None;
        }
        let (ty, index, condition) = (probe.ty, probe.index, self.slot_conditions[probe.slot as usize]);
        let is_it = |series: &Series| (series.ty, series.index, series.condition) == (ty, index, condition);
        let series = match self.series.iter().position(is_it) {
            Some(series) => series,
            None => self.add_series(Series { ty, index, condition, aggregate: Aggregate::Count, at: 0 }),
        };
        Some(Window { series, bounds })
    }

    /// Returns the plan for matches whose newest fact is in the slot `seed`.
    pub fn plan(&mut self, seed: u8) -> Plan {
        let mut bound = 1_u32 << seed;
        let mut tested = 0_u32;
        let guards = self.testable(bound, &mut tested);
        let mut joins = Vec::new();
        while let Some(slot) = self.next(bound, self.conjuncts, Some(seed)) {
            let conjuncts = self.conjuncts;
            let mut join = self.join(slot, bound, conjuncts);
            join.is_older = slot < seed;
            bound |= 1 << slot;
            join.guards = self.testable(bound, &mut tested);
            joins.push(join);
        }
        let first = joins.first().map(|join: &Join| join.probe.slot);
        let later = self.later(seed, first);
        Plan { guards, joins, later }
    }

    /// Returns the look-ups, keyed by the fact in `seed` alone, of facts that must be later than it. The slot `first` is left out.
    fn later(&mut self, seed: u8, first: Option<u8>) -> Vec<Join> {
        let mut later = Vec::new();
        for slot in 0..self.slots.len() as u8 {
            if Some(slot) != first && slot != seed && self.is_rare(slot, seed, 1 << seed) {
                later.push(Join { is_older: slot < seed, ..self.join(slot, 1 << seed, self.conjuncts) });
            }
        }
        later
    }

    /// Returns the plan for the matches affected by a fact of a guard. That fact is in the slot [`OWN`].
    pub fn flip(&mut self, number: usize) -> Plan {
        let all: Vec<Code> = self.conjuncts.iter().chain(&self.guards[number].conjuncts).cloned().collect();
        let mut bound = 1_u32 << OWN;
        let mut joins = Vec::new();
        while let Some(slot) = self.next(bound, &all, None) {
            let mut join = self.join(slot, bound, &all);
            if self.guards[number].aggregate != Aggregate::None {
                join.window = self.window_of_join(&join.probe, bound, &all);
            }
            joins.push(join);
            bound |= 1 << slot;
        }
        Plan { guards: Vec::new(), joins, later: Vec::new() }
    }

    /// Returns the untested guards whose slots are all in `bound`, and marks them as tested.
    fn testable(&self, bound: u32, tested: &mut u32) -> Vec<u8> {
        let mut guards = Vec::new();
        for (number, guard) in self.guards.iter().enumerate() {
            if *tested & 1 << number == 0 && guard.reads() & !bound == 0 {
                *tested |= 1 << number;
                guards.push(number as u8);
            }
        }
        guards
    }

    /// Returns the next slot to look up. `newest` is the slot of the newest fact, if there is one.
    fn next(&self, bound: u32, conjuncts: &[Code], newest: Option<u8>) -> Option<u8> {
        let mut best: Option<(u8, (bool, u32))> = None;
        for slot in (0..self.slots.len() as u8).filter(|slot| bound & 1 << slot == 0) {
            let mut score = 0;
            for code in conjuncts {
                if let Some((_, operand)) = equality(code, slot, bound) {
                    score += if matches!(operand, Operand::Constant(_)) { 1 } else { 10 };
                }
            }
            let is_rare = newest.is_some_and(|newest| self.is_rare(slot, newest, bound));
            if best.is_none_or(|(_, most)| (is_rare, score) > most) {
                best = Some((slot, (is_rare, score)));
            }
        }
        best.map(|(slot, _)| slot)
    }

    /// Returns whether the fact in `slot` must be later than the fact in `newest`, and is keyed by a bound fact.
    fn is_rare(&self, slot: u8, newest: u8, bound: u32) -> bool {
        let mut codes = self.conjuncts.iter().chain(self.implied);
        let is_later =
            |code: &Code| matches!(code, Code::After { later, earlier, .. } if (*later, *earlier) == (slot, newest));
        let is_keyed = |code: &Code| matches!(equality(code, slot, bound), Some((_, Operand::Field { .. })));
        codes.clone().any(is_later) && codes.any(is_keyed)
    }

    fn join(&mut self, slot: u8, bound: u32, conjuncts: &[Code]) -> Join {
        let is_testable = |code: &&Code| code.slots() & 1 << slot != 0 && code.slots() & !(bound | 1 << slot) == 0;
        let mut tests: Vec<&Code> = conjuncts.iter().filter(is_testable).collect();
        // Implied tests replace the tests whose slots are not bound yet.
        let field_of = |code: &Code| equality(code, slot, bound).map(|(field, _)| field);
        let mut has_order = tests.iter().any(|test| matches!(test, Code::After { .. }));
        let mut fields: HashSet<Option<u8>> = tests.iter().map(|test| field_of(test)).collect();
        for code in self.implied.iter().filter(is_testable) {
            let is_new = match code {
                Code::After { .. } => !std::mem::replace(&mut has_order, true),
                _ => fields.insert(field_of(code)),
            };
            if is_new {
                tests.push(code);
            }
        }
        let condition = self.slot_conditions[slot as usize];
        let probe = self.probe(self.slots[slot as usize].ty, slot, condition, &tests);
        Join { probe, window: None, is_older: false, guards: Vec::new() }
    }

    /// Returns the look-up of the facts that pass `tests`. The tests read the slot and bound slots only. `condition` is the
    /// single-fact part of `tests`.
    fn probe(&mut self, ty: usize, slot: u8, condition: u32, tests: &[&Code]) -> Probe {
        let mut key: Vec<(u8, Operand)> = Vec::new();
        for test in tests {
            if let Some((field, operand)) = equality(test, slot, u32::MAX) {
                if !key.iter().any(|(known, _)| *known == field) {
                    key.push((field, operand));
                }
            }
        }
        key.sort_by_key(|(field, _)| *field);
        let fields: Vec<u8> = key.iter().map(|(field, _)| *field).collect();
        let index = index(&mut self.types[ty].indices, fields);
        self.conditions[condition as usize].indices |= 1 << index;
        let used = &self.types[ty].indices[index];
        let key = key.into_iter().filter(|(field, _)| used.contains(field)).map(|(_, operand)| operand).collect();
        // Cheap tests come first.
        let mut tests: Vec<Test> = tests.iter().map(|code| Test::of(code)).collect();
        tests.sort_by_key(|test| matches!(test, Test::Code(_)));
        let link = self.types[ty].links(index);
        // The table is filled in by [`Program::find_tables`], once all rules are compiled.
        Probe { ty, index, table: Table(0), link, key, tests, slot }
    }
}

/// Returns the number of the index over these fields, or, beyond the limit, of an index over most of them.
fn index(indices: &mut Vec<Vec<u8>>, fields: Vec<u8>) -> usize {
    if let Some(found) = indices.iter().position(|index| *index == fields) {
        return found;
    }
    if indices.len() < MAX_INDICES {
        indices.push(fields);
        return indices.len() - 1;
    }
    let usable = indices.iter().enumerate().filter(|(_, index)| index.iter().all(|field| fields.contains(field)));
    usable.max_by_key(|(_, index)| index.len()).map_or(0, |(number, _)| number)
}

/// Returns the field of `slot` that a test equates with a constant or a bound operand, and that operand. Floats cannot be keys:
/// equal floats may differ in their bits.
fn equality(code: &Code, slot: u8, bound: u32) -> Option<(u8, Operand)> {
    let Code::Compare(kind, Relation::Equal, left, right) = code else { return None };
    if *kind == Kind::Float {
        return None;
    }
    let (left, right) = (Operand::of(left)?, Operand::of(right)?);
    [(left, right), (right, left)].into_iter().find_map(|(own, other)| match (own, other) {
        (Operand::Field { slot: of, .. }, Operand::Field { slot: other, .. }) if of == slot && other == slot => None,
        (Operand::Field { slot: of, offset, .. }, other) if of == slot => {
            let is_bound = match other {
                Operand::Constant(_) => true,
                Operand::Field { slot, .. } => bound & 1 << slot != 0,
            };
            is_bound.then_some((field_at(offset) as u8, other))
        }
        _ => None,
    })
}
