//! Warns of rules that may enable themselves or one another without end.
//!
//! A rule enables another if an action inserts a fact that a condition of the other may bind or aggregate, or removes a fact that a
//! `none` or an aggregate may read. A modification does both. Constants rule edges out: `modify s (state: 2)` enables no condition
//! `s(state = 1)`. The strongly connected components of this graph (Tarjan, "Depth-First Search and Linear Graph Algorithms", 1972)
//! are the candidates. From each component, a rule is removed if it fires finitely often while only rules of the component fire:
//!
//! - each firing takes a fact from a condition, and no rule of the component gives it one;
//! - each firing leaves fewer facts of a type, and no rule of the component leaves more;
//! - each firing takes a number towards a bound in its condition, and no rule of the component takes it back.
//!
//! An inserted fact has the latest time. So it enables no condition that waits for a window after that fact, and none that needs a
//! later fact of a type that the component does not insert. The rest of a component is analysed again without the removed rules,
//! until nothing changes.
//!
//! The analysis is conservative: rules that it clears terminate; a rule that it warns of may terminate for a reason it cannot see.
//!
//! Functions are not inlined: the time of the sandbox's compiler grows with the square of a function's size.
//!
//! Conditions are nodes too, and one node stands in for all pairs of many actions and many conditions, so the graph is linear in
//! the size of the rules.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use crate::compile::code::{compare, Arithmetic, Code, Kind, Operand, Relation, Test};
use crate::compile::program::{Action, Aggregate, Domain, Program, NUMBER_READ};
use crate::layout::{field_at, field_offset};

/// The most warnings. Further cycles are counted in the last one.
const MAX_WARNINGS: usize = 32;
/// The most rules that a warning names.
const MAX_NAMES: usize = 8;
/// The most rounds of analysis of one component.
const MAX_ROUNDS: u32 = 32;
/// The most actions or conditions for which each pair is compared.
const MAX_COMPARED: usize = 64;

/// The fields of a fact whose values are known, by their offsets. `None` is undefined.
type Known = Vec<(u32, Option<u64>)>;

/// A fact that an action inserts or removes.
struct Effect {
    rule: u32,
    ty: usize,
    known: Known,
    change: Change,
}

#[derive(Clone, Copy, PartialEq)]
enum Change {
    /// Inserts a fact with the time of the engine.
    Assert,
    /// Inserts a fact with the time of its predecessor.
    Modify,
    /// Removes a fact. The bits are the fields in which its successor differs; all bits, if it has none.
    Remove(u32),
}

/// A reason for a condition to become true. Each condition has a node for each reason.
#[derive(Clone, Copy)]
enum Reason {
    /// A fact was asserted, and a condition binds it.
    Asserted,
    /// A fact was modified, and a condition binds it.
    Modified,
    /// A fact came, and an aggregate reads it.
    Came,
    /// A fact went, and a `none` or an aggregate reads it.
    Went,
}
const REASONS: usize = 4;

/// The number that an action adds to a field of the old fact. `None` is any other change.
type Delta = Option<i64>;

struct Analysis<'a> {
    program: &'a Program,
    effects: Vec<Effect>,
    /// By condition: its type, and the fields that its `none` and aggregates read, one bit each.
    types: Vec<usize>,
    reads: Vec<u64>,
    /// By rule and slot: the single-fact condition.
    slots: Vec<Vec<u32>>,
    /// By rule and guard: the single-fact condition, and whether the guard is an aggregate.
    guards: Vec<Vec<(u32, bool)>>,
    /// By type: the offset of the field that most conditions compare with a constant.
    fields: Vec<u32>,
}

/// Returns a warning for each cycle of rules that may enable one another without end. `places` are the byte offsets of the rules'
/// names in `text`.
#[inline(never)]
pub(super) fn warnings(program: &Program, text: &str, places: &[usize]) -> Vec<String> {
    let newlines: Vec<usize> = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at).collect();
    let line = |rule: u32| newlines.partition_point(|newline| *newline < places[rule as usize]) + 1;
    let cycles = Analysis::new(program).cycles();
    let mut warnings: Vec<String> = Vec::new();
    for cycle in cycles.iter().take(MAX_WARNINGS) {
        let mut names: Vec<String> = Vec::new();
        for rule in cycle {
            let name = format!("`{}` (line {})", program.rules[*rule as usize].name, line(*rule));
            // The alternatives of a rule share a name.
            if !names.contains(&name) {
                names.push(name);
            }
            if names.len() == MAX_NAMES {
                break;
            }
        }
        let others = cycle.len().saturating_sub(MAX_NAMES);
        if others > 0 {
            names.push(format!("{others} more"));
        }
        let last = names.pop().unwrap_or_default();
        warnings.push(match names.len() {
            0 => format!("rule {last} can enable itself without end"),
            _ => format!("rules {} and {last} can enable each other without end", names.join(", ")),
        });
    }
    if let Some(others) = cycles.len().checked_sub(MAX_WARNINGS).filter(|others| *others > 0) {
        warnings.push(format!("{others} more cycles of rules can enable each other without end"));
    }
    warnings
}

impl<'a> Analysis<'a> {
    #[inline(never)]
    fn new(program: &'a Program) -> Self {
        let count = program.conditions.len();
        let (mut types, mut reads) = (vec![0; count], vec![0; count]);
        for (number, ty) in program.types.iter().enumerate() {
            ty.conditions.iter().for_each(|condition| types[*condition as usize] = number);
        }
        let mut guards = vec![Vec::new(); program.rules.len()];
        let mut slots: Vec<Vec<u32>> = program.rules.iter().map(|rule| vec![0; rule.slots.len()]).collect();
        for (number, condition) in program.conditions.iter().enumerate() {
            for (rule, slot) in condition.seeds.iter().flatten() {
                slots[*rule as usize][usize::from(*slot)] = number as u32;
            }
            for (rule, guard) in &condition.guards {
                let guard = &program.rules[*rule as usize].guards[usize::from(*guard)];
                let is_aggregate = guard.aggregate != Aggregate::None;
                guards[*rule as usize].push((number as u32, is_aggregate));
                reads[number] |= if is_aggregate { u64::MAX } else { guard.reads };
            }
        }
        let fields = program.types.iter().map(|ty| {
            let mut asked: HashMap<u32, u32> = HashMap::new();
            for condition in &ty.conditions {
                for (offset, _) in equalities(&program.conditions[*condition as usize].tests) {
                    *asked.entry(offset).or_default() += 1;
                }
            }
            asked.into_iter().max_by_key(|(offset, times)| (*times, *offset)).map_or(0, |(offset, _)| offset)
        });
        let fields = fields.collect();
        let mut analysis = Analysis { program, effects: Vec::new(), types, reads, slots, guards, fields };
        for rule in 0..program.rules.len() {
            analysis.add_effects(rule);
        }
        analysis
    }

    /// Adds the effects of a rule's actions.
    #[inline(never)]
    fn add_effects(&mut self, number: usize) {
        let rule = &self.program.rules[number];
        if !rule.actions.iter().any(|action| !matches!(action, Action::Notify { .. } | Action::Let { .. })) {
            return;
        }
        let condition = |slot: &u32| equalities(&self.program.conditions[*slot as usize].tests);
        let of_slots: Vec<Known> = self.slots[number].iter().map(|slot| condition(slot).collect()).collect();
        // Two slots may hold the same fact, so several modifications may change it.
        let mut changes: HashMap<(usize, u8), u32> = HashMap::new();
        for action in &rule.actions {
            if let Action::Modify { ty, values, .. } = action {
                values.iter().for_each(|(field, _)| *changes.entry((*ty, *field)).or_default() += 1);
            }
        }
        let value = |code: &Code| match code {
            Code::Constant(constant) => Some(Some(*constant)),
            Code::Field { slot, offset, .. } => lookup(&of_slots[usize::from(*slot)], *offset),
            _ => None,
        };
        let known_of = |values: &[(u8, Code)]| -> Known {
            let known = values.iter().filter_map(|(field, code)| Some((offset(*field), value(code)?)));
            known.collect()
        };
        for action in &rule.actions {
            let (ty, known, change) = match action {
                Action::Notify { .. } | Action::Let { .. } => continue,
                Action::Assert { ty, values } => {
                    let mut known = known_of(values);
                    let fields = 0..self.program.types[*ty].fields.len() as u8;
                    let left_out = fields.filter(|field| values.iter().all(|(given, _)| given != field));
                    known.extend(left_out.map(|field| (offset(field), None)));
                    (*ty, known, Change::Assert)
                }
                Action::Modify { slot, ty, values, .. } => {
                    let changed = values.iter().fold(0, |bits, (field, _)| bits | 1 << field);
                    let old = &of_slots[usize::from(*slot)];
                    let removal = Change::Remove(changed);
                    self.effects.push(Effect { rule: number as u32, ty: *ty, known: old.clone(), change: removal });
                    let mut known = known_of(values);
                    let is_kept = |offset: &u32| !changes.contains_key(&(*ty, field_at(*offset) as u8));
                    known.extend(old.iter().filter(|(offset, _)| is_kept(offset)));
                    (*ty, known, Change::Modify)
                }
                Action::Retract { slot } => {
                    let known = of_slots[usize::from(*slot)].clone();
                    (rule.slots[usize::from(*slot)].ty, known, Change::Remove(u32::MAX))
                }
            };
            self.effects.push(Effect { rule: number as u32, ty, known, change });
        }
    }

    /// Returns, for each component that may not terminate, the rules of a cycle in the order in which they enable one another.
    #[inline(never)]
    fn cycles(&self) -> Vec<Vec<u32>> {
        let mut rules: Vec<u32> = self.effects.iter().map(|effect| effect.rule).collect();
        rules.dedup();
        let effects: Vec<usize> = (0..self.effects.len()).collect();
        let mut cycles = Vec::new();
        let mut left = vec![(rules, effects, 0)];
        while let Some((rules, effects, round)) = left.pop() {
            let graph = Graph::new(self, &rules, &effects);
            let components = graph.components();
            let of_rule: HashMap<u32, usize> = components
                .iter()
                .enumerate()
                .flat_map(|(number, of)| of.iter().map(move |rule| (*rule, number)))
                .collect();
            let mut own = vec![Vec::new(); components.len()];
            for effect in &effects {
                if let Some(number) = of_rule.get(&self.effects[*effect].rule) {
                    own[*number].push(*effect);
                }
            }
            for (component, own) in components.into_iter().zip(own) {
                let finite = self.finite(&component, &own);
                let mut rest: Vec<u32> = component.iter().copied().filter(|rule| !finite.contains(rule)).collect();
                rest.sort_unstable();
                if rest.is_empty() {
                    continue;
                }
                if rest.len() == rules.len() || round == MAX_ROUNDS {
                    cycles.push(graph.cycle(&rest));
                    continue;
                }
                let own: Vec<usize> =
                    own.into_iter().filter(|effect| !finite.contains(&self.effects[*effect].rule)).collect();
                left.push((rest, own, round + 1));
            }
        }
        cycles.sort();
        cycles
    }

    /// Returns the rules of a component that fire finitely often while only rules of the component fire.
    #[inline(never)]
    fn finite(&self, component: &HashSet<u32>, effects: &[usize]) -> HashSet<u32> {
        let fed = Feeding::new(self, effects.iter().copied().filter(|effect| self.inserts(*effect)));
        let counts = self.net_counts(component);
        let deltas = self.deltas(component);
        let is_finite = |rule: &&u32| {
            self.consumes(**rule, &fed) || self.leaves_fewer(**rule, &counts) || self.counts_down(**rule, &deltas)
        };
        component.iter().filter(is_finite).copied().collect()
    }

    fn inserts(&self, effect: usize) -> bool {
        matches!(self.effects[effect].change, Change::Assert | Change::Modify)
    }

    /// Returns whether each firing of a rule consumes a fact of a condition that no effect feeds.
    #[inline(never)]
    fn consumes(&self, rule: u32, fed: &Feeding) -> bool {
        let actions = &self.program.rules[rule as usize].actions;
        actions.iter().any(|action| match action {
            // The fact that a modification inserts is among the effects that feed conditions.
            Action::Modify { slot, .. } | Action::Retract { slot } => {
                !fed.feeds(self, self.slots[rule as usize][usize::from(*slot)])
            }
            _ => false,
        })
    }

    /// Returns, by type, the most facts that a firing of a rule of the component adds (negative if it removes facts).
    #[inline(never)]
    fn net_counts(&self, component: &HashSet<u32>) -> HashMap<usize, i64> {
        let mut most: HashMap<usize, i64> = HashMap::new();
        for rule in component {
            for (ty, count) in self.counts_of(*rule) {
                let most = most.entry(ty).or_insert(0);
                *most = count.max(*most);
            }
        }
        most
    }

    /// Returns, by type, the number of facts that a firing adds. Two slots may hold the same fact, so several retractions count as
    /// one. They count as none if the rule modifies facts of the type, because a modification inserts a new fact.
    #[inline(never)]
    fn counts_of(&self, rule: u32) -> HashMap<usize, i64> {
        let rule = &self.program.rules[rule as usize];
        let mut counts: HashMap<usize, i64> = HashMap::new();
        let mut kept: HashSet<usize> = HashSet::new();
        for action in &rule.actions {
            match action {
                Action::Assert { ty, .. } => *counts.entry(*ty).or_insert(0) += 1,
                Action::Modify { ty, .. } => {
                    kept.insert(*ty);
                }
                _ => {}
            }
        }
        for action in &rule.actions {
            if let Action::Retract { slot } = action {
                let ty = rule.slots[usize::from(*slot)].ty;
                if kept.insert(ty) {
                    *counts.entry(ty).or_insert(0) -= 1;
                }
            }
        }
        counts
    }

    fn leaves_fewer(&self, rule: u32, most: &HashMap<usize, i64>) -> bool {
        self.counts_of(rule).iter().any(|(ty, count)| *count < 0 && most.get(ty) == Some(&0))
    }

    /// Returns the fields that rules of the component may raise, and the fields that they may lower.
    #[inline(never)]
    fn deltas(&self, component: &HashSet<u32>) -> [HashSet<(usize, u32)>; 2] {
        let [mut raised, mut lowered] = [HashSet::new(), HashSet::new()];
        for (_, ty, field, delta) in component.iter().flat_map(|rule| self.deltas_of(*rule)) {
            if delta.is_none_or(|by| by > 0) {
                raised.insert((ty, field));
            }
            if delta.is_none_or(|by| by < 0) {
                lowered.insert((ty, field));
            }
        }
        [raised, lowered]
    }

    /// Returns the numeric changes of a rule: the slot of the old fact, its type, the field's offset, and the change. If the rule
    /// retracts one fact of a type, asserts one and modifies none, the asserted fact is the successor of the retracted one.
    #[inline(never)]
    fn deltas_of(&self, rule: u32) -> Vec<(Option<u8>, usize, u32, Delta)> {
        let rule = &self.program.rules[rule as usize];
        let mut retracted: HashMap<usize, u8> = HashMap::new();
        let (mut asserted, mut replaced) = (HashSet::new(), HashSet::new());
        for action in &rule.actions {
            match action {
                Action::Retract { slot } => {
                    retracted.entry(rule.slots[usize::from(*slot)].ty).or_insert(*slot);
                }
                Action::Assert { ty, .. } if asserted.insert(*ty) => {
                    replaced.insert(*ty);
                }
                Action::Assert { ty, .. } | Action::Modify { ty, .. } => {
                    asserted.insert(*ty);
                    replaced.remove(ty);
                }
                _ => {}
            }
        }
        let mut deltas = Vec::new();
        for action in &rule.actions {
            match action {
                Action::Modify { slot, ty, values, .. } => {
                    for (field, code) in values {
                        deltas.push((Some(*slot), *ty, offset(*field), delta(code, offset(*field), *slot)));
                    }
                }
                Action::Assert { ty, values } => {
                    let slot = retracted.get(ty).copied().filter(|_| replaced.contains(ty));
                    for field in 0..self.program.types[*ty].fields.len() as u8 {
                        let code = values.iter().find(|(given, _)| *given == field).map(|(_, code)| code);
                        let change = slot.zip(code).and_then(|(slot, code)| delta(code, offset(field), slot));
                        deltas.push((slot, *ty, offset(field), change));
                    }
                }
                _ => {}
            }
        }
        deltas
    }

    /// Returns whether each firing of a rule moves a number of a fact towards a bound, and no rule of the component moves such a
    /// number away from it. `raised` and `lowered` are the results of [`Analysis::deltas`].
    #[inline(never)]
    fn counts_down(&self, rule: u32, [raised, lowered]: &[HashSet<(usize, u32)>; 2]) -> bool {
        let deltas = self.deltas_of(rule);
        // The last of several modifications of a fact counts.
        let mut mixed = [HashSet::new(), HashSet::new()];
        for (_, ty, field, delta) in &deltas {
            if delta.is_none_or(|by| by >= 0) {
                mixed[0].insert((*ty, *field));
            }
            if delta.is_none_or(|by| by <= 0) {
                mixed[1].insert((*ty, *field));
            }
        }
        let [not_lowered, not_raised] = mixed;
        deltas.iter().any(|(slot, ty, field, delta)| {
            let (Some(slot), Some(delta)) = (slot, delta) else { return false };
            let declared = &self.program.types[*ty].fields[field_at(*field)];
            if declared.kind != Kind::Integer {
                return false;
            }
            let condition = self.slots[rule as usize][usize::from(*slot)];
            let tests = &self.program.conditions[condition as usize].tests;
            // A value outside its domain is never stored: that firing changes nothing.
            let is_bounded = !declared.optional && matches!(declared.domain, Domain::Integers(..));
            let has = |is_lower| is_bounded || tests.iter().any(|test| bounds(test, *field, is_lower));
            let key = (*ty, *field);
            let falls = *delta < 0 && !raised.contains(&key) && !not_lowered.contains(&key);
            let rises = *delta > 0 && !lowered.contains(&key) && !not_raised.contains(&key);
            falls && has(true) || rises && has(false)
        })
    }
}

/// The effects, by the conditions that they may feed.
struct Feeding<'e> {
    /// The effects by type and value of the type's field; those with an unknown value by type alone.
    known: HashMap<(usize, u64), Vec<&'e Effect>>,
    all: HashMap<usize, Vec<&'e Effect>>,
    unknown: HashMap<usize, Vec<&'e Effect>>,
}

impl<'e> Feeding<'e> {
    #[inline(never)]
    fn new(analysis: &'e Analysis, effects: impl Iterator<Item = usize>) -> Self {
        let mut fed = Feeding { known: HashMap::new(), all: HashMap::new(), unknown: HashMap::new() };
        for effect in effects {
            let effect = &analysis.effects[effect];
            fed.all.entry(effect.ty).or_default().push(effect);
            match lookup(&effect.known, analysis.fields[effect.ty]) {
                Some(Some(value)) => fed.known.entry((effect.ty, value)).or_default().push(effect),
                Some(None) => {}
                None => fed.unknown.entry(effect.ty).or_default().push(effect),
            }
        }
        fed
    }

    /// Returns whether an effect may insert a fact that meets a condition.
    #[inline(never)]
    fn feeds(&self, analysis: &Analysis, condition: u32) -> bool {
        let ty = analysis.types[condition as usize];
        let tests = &analysis.program.conditions[condition as usize].tests;
        let may = |effects: Option<&Vec<&Effect>>| {
            effects.is_some_and(|effects| {
                effects.len() > MAX_COMPARED || effects.iter().any(|effect| may_meet(tests, &effect.known))
            })
        };
        match analysis.key(condition) {
            Some(value) => may(self.known.get(&(ty, value))) || may(self.unknown.get(&ty)),
            None => may(self.all.get(&ty)),
        }
    }
}

impl Analysis<'_> {
    /// Returns the constant that a condition requires of its type's field.
    fn key(&self, condition: u32) -> Option<u64> {
        let field = self.fields[self.types[condition as usize]];
        let mut asked = equalities(&self.program.conditions[condition as usize].tests);
        asked.find(|(offset, _)| *offset == field).and_then(|(_, value)| value)
    }
}

/// The graph of a set of rules: an edge leads from a rule to what it may enable.
struct Graph<'a> {
    rules: &'a [u32],
    /// By node: the rules in their order, then the conditions by reason, then the nodes that stand in for pairs.
    next: Vec<Vec<u32>>,
    analysis: &'a Analysis<'a>,
}

impl<'a> Graph<'a> {
    #[inline(never)]
    fn new(analysis: &'a Analysis, rules: &'a [u32], effects: &[usize]) -> Self {
        let places: HashMap<u32, u32> = rules.iter().enumerate().map(|(place, rule)| (*rule, place as u32)).collect();
        let mut graph = Graph { rules, next: vec![Vec::new(); rules.len()], analysis };
        // The fact types that these rules insert.
        let inserted: HashSet<usize> = effects
            .iter()
            .filter(|effect| analysis.inserts(**effect))
            .map(|effect| analysis.effects[*effect].ty)
            .collect();
        // The conditions of these rules, and the first node of each.
        let mut nodes: HashMap<u32, u32> = HashMap::new();
        let mut node_of = |condition: u32, next: &mut Vec<Vec<u32>>| {
            *nodes.entry(condition).or_insert_with(|| {
                next.resize(next.len() + REASONS, Vec::new());
                (next.len() - REASONS) as u32
            })
        };
        let mut conditions: Vec<u32> = Vec::new();
        let mut add = |condition: u32, reason: Reason, place: u32, graph: &mut Graph| {
            let before = graph.next.len();
            let node = node_of(condition, &mut graph.next);
            if graph.next.len() > before {
                conditions.push(condition);
            }
            graph.next[node as usize + reason as usize].push(place);
        };
        for (rule, place) in rules.iter().zip(0_u32..) {
            for (slot, condition) in analysis.slots[*rule as usize].iter().enumerate() {
                add(*condition, Reason::Modified, place, &mut graph);
                if !analysis.waits(*rule, slot as u8, &inserted) {
                    add(*condition, Reason::Asserted, place, &mut graph);
                }
            }
            for (condition, is_aggregate) in &analysis.guards[*rule as usize] {
                add(*condition, Reason::Went, place, &mut graph);
                if *is_aggregate {
                    add(*condition, Reason::Came, place, &mut graph);
                }
            }
        }
        let by_rule = |effect: &usize| places[&analysis.effects[*effect].rule];
        let mut by_type: BTreeMap<usize, (Vec<u32>, Vec<usize>)> = BTreeMap::new();
        for condition in conditions {
            by_type.entry(analysis.types[condition as usize]).or_default().0.push(condition);
        }
        for effect in effects {
            by_type.entry(analysis.effects[*effect].ty).or_default().1.push(*effect);
        }
        for (conditions, effects) in by_type.into_values() {
            // By value of the type's field: the conditions that require it, and the effects that have it.
            let mut keyed: BTreeMap<u64, (Vec<u32>, Vec<usize>)> = BTreeMap::new();
            let (mut others, mut known, mut unknown) = (Vec::new(), Vec::new(), Vec::new());
            for condition in &conditions {
                match analysis.key(*condition) {
                    Some(value) => keyed.entry(value).or_default().0.push(*condition),
                    None => others.push(*condition),
                }
            }
            for effect in effects {
                let Effect { ty, known: values, .. } = &analysis.effects[effect];
                match lookup(values, analysis.fields[*ty]) {
                    None => unknown.push(effect),
                    Some(value) => {
                        known.push(effect);
                        if let Some(value) = value {
                            keyed.entry(value).or_default().1.push(effect);
                        }
                    }
                }
            }
            for (conditions, effects) in keyed.values().chain([&(others, known), &(conditions, unknown)]) {
                graph.join(conditions, effects, &nodes, by_rule);
            }
        }
        graph
    }

    /// Adds edges from effects to the conditions that they may make true.
    #[inline(never)]
    fn join(
        &mut self,
        conditions: &[u32],
        effects: &[usize],
        nodes: &HashMap<u32, u32>,
        by_rule: impl Fn(&usize) -> u32,
    ) {
        let analysis = self.analysis;
        if conditions.len().min(effects.len()) <= MAX_COMPARED {
            for effect in effects {
                let Effect { known, change, .. } = &analysis.effects[*effect];
                for condition in conditions {
                    let tests = &analysis.program.conditions[*condition as usize].tests;
                    let is_unread = matches!(change, Change::Remove(changed) if *changed != u32::MAX && (u64::from(*changed) | NUMBER_READ) & analysis.reads[*condition as usize] == 0);
                    if !is_unread && may_meet(tests, known) {
                        let to = reasons(*change).map(|reason| nodes[condition] + reason as u32);
                        self.next[by_rule(effect) as usize].extend(to);
                    }
                }
            }
            return;
        }
        // One node for each reason.
        let first = self.next.len() as u32;
        self.next.resize(self.next.len() + REASONS, Vec::new());
        for effect in effects {
            let to = reasons(analysis.effects[*effect].change).map(|reason| first + reason as u32);
            self.next[by_rule(effect) as usize].extend(to);
        }
        for condition in conditions {
            for reason in 0..REASONS as u32 {
                self.next[(first + reason) as usize].push(nodes[condition] + reason);
            }
        }
    }

    /// Returns the strongly connected components that contain a cycle.
    #[inline(never)]
    fn components(&self) -> Vec<HashSet<u32>> {
        const UNSEEN: u32 = u32::MAX;
        let count = self.next.len();
        let (mut order, mut low) = (vec![UNSEEN; count], vec![0; count]);
        let mut is_open = vec![false; count];
        let (mut open, mut components, mut seen) = (Vec::new(), Vec::new(), 0);
        for start in 0..count as u32 {
            if order[start as usize] != UNSEEN {
                continue;
            }
            // The depth-first path: each node with the number of its edges already followed.
            let mut path = vec![(start, 0)];
            while let Some((node, followed)) = path.last_mut() {
                let (number, edge) = (*node as usize, *followed);
                *followed += 1;
                if edge == 0 {
                    (order[number], low[number]) = (seen, seen);
                    seen += 1;
                    open.push(number);
                    is_open[number] = true;
                }
                if let Some(next) = self.next[number].get(edge) {
                    if order[*next as usize] == UNSEEN {
                        path.push((*next, 0));
                    } else if is_open[*next as usize] {
                        low[number] = low[number].min(order[*next as usize]);
                    }
                    continue;
                }
                path.pop();
                if let Some((parent, _)) = path.last() {
                    low[*parent as usize] = low[*parent as usize].min(low[number]);
                }
                if low[number] == order[number] {
                    let from = open.iter().rposition(|open| *open == number).unwrap_or(0);
                    let component: Vec<usize> = open.drain(from..).collect();
                    component.iter().for_each(|node| is_open[*node] = false);
                    // A rule has edges to conditions only, so a component of one rule has no cycle.
                    if component.len() > 1 {
                        let rules = component.iter().filter_map(|node| self.rules.get(*node).copied());
                        components.push(rules.collect());
                    }
                }
            }
        }
        components
    }

    /// Returns the shortest cycle through the first of these rules, within the set. The rules are in ascending order.
    #[inline(never)]
    fn cycle(&self, rules: &[u32]) -> Vec<u32> {
        let among: HashSet<u32> = rules.iter().copied().collect();
        let Some(first) = rules.first().and_then(|rule| self.rules.iter().position(|other| other == rule)) else {
            return rules.to_vec();
        };
        let mut before = vec![u32::MAX; self.next.len()];
        let mut queue = VecDeque::from([first as u32]);
        while let Some(node) = queue.pop_front() {
            for next in &self.next[node as usize] {
                let is_outside = self.rules.get(*next as usize).is_some_and(|rule| !among.contains(rule));
                if is_outside || before[*next as usize] != u32::MAX {
                    continue;
                }
                before[*next as usize] = node;
                if *next as usize == first {
                    queue.clear();
                    break;
                }
                queue.push_back(*next);
            }
        }
        let (mut cycle, mut node) = (Vec::new(), first);
        loop {
            if let Some(rule) = self.rules.get(node) {
                cycle.push(*rule);
            }
            node = before[node] as usize;
            if node == first || node >= before.len() {
                break;
            }
        }
        // The path was followed backwards.
        cycle[1..].reverse();
        cycle
    }
}

impl Analysis<'_> {
    /// Returns whether a newly asserted fact cannot fill this slot of a rule until time moves on, or until a fact arrives whose
    /// type is not in `inserted`.
    #[inline(never)]
    fn waits(&self, rule: u32, slot: u8, inserted: &HashSet<usize>) -> bool {
        let rule = &self.program.rules[rule as usize];
        let waits_for_time = rule.guards.iter().any(|guard| guard.deadlines.is_after_only(slot));
        // Each plan contains every test of two slots.
        let joins = rule.plans.first().map_or(&[][..], |plan| &plan.joins);
        let is_later = |test: &Test| match test {
            Test::Code(Code::After { later, earlier, .. }) => {
                *earlier == slot && !inserted.contains(&rule.slots[usize::from(*later)].ty)
            }
            _ => false,
        };
        waits_for_time || joins.iter().any(|join| join.probe.tests.iter().any(is_later))
    }
}

/// Returns the reasons that a change may give.
fn reasons(change: Change) -> impl Iterator<Item = Reason> {
    let reasons = match change {
        Change::Assert => [Some(Reason::Asserted), Some(Reason::Came)],
        Change::Modify => [Some(Reason::Modified), Some(Reason::Came)],
        Change::Remove(_) => [Some(Reason::Went), None],
    };
    reasons.into_iter().flatten()
}

fn offset(field: u8) -> u32 {
    field_offset(field.into())
}

/// Returns the value of a field, if it is known.
#[inline(never)]
fn lookup(known: &Known, offset: u32) -> Option<Option<u64>> {
    known.iter().find(|(of, _)| *of == offset).map(|(_, value)| *value)
}

/// Returns the fields, by their offsets, that tests equate with constants. Equal floats may differ in their bits.
fn equalities(tests: &[Test]) -> impl Iterator<Item = (u32, Option<u64>)> + '_ {
    tests.iter().filter_map(|test| match *test {
        Test::Compare(Kind::Float, ..) => None,
        Test::Compare(_, Relation::Equal, Operand::Field { offset, .. }, Operand::Constant(constant))
        | Test::Compare(_, Relation::Equal, Operand::Constant(constant), Operand::Field { offset, .. }) => {
            Some((offset, Some(constant)))
        }
        _ => None,
    })
}

/// Returns the number that an expression adds to this field of the fact in `slot`.
#[inline(never)]
fn delta(code: &Code, offset: u32, slot: u8) -> Delta {
    let is_own =
        |code: &Code| matches!(code, Code::Field { slot: other, offset: of, .. } if (*other, *of) == (slot, offset));
    match code {
        code if is_own(code) => Some(0),
        Code::Arithmetic(Kind::Integer, operator, left, right) => match (operator, &**left, &**right) {
            (Arithmetic::Add, own, Code::Constant(by)) | (Arithmetic::Add, Code::Constant(by), own) if is_own(own) => {
                Some(*by as i64)
            }
            (Arithmetic::Subtract, own, Code::Constant(by)) if is_own(own) => (*by as i64).checked_neg(),
            _ => None,
        },
        _ => None,
    }
}

/// Returns whether a test compares a field with a constant lower bound (`is_lower`) or upper bound.
#[inline(never)]
fn bounds(test: &Test, field: u32, is_lower: bool) -> bool {
    let Test::Compare(Kind::Integer, relation, left, right) = test else { return false };
    let is_field = |operand: &Operand| matches!(operand, Operand::Field { offset, .. } if *offset == field);
    let is_greater = match relation {
        Relation::Equal => return is_field(left) && matches!(right, Operand::Constant(_)),
        Relation::Unequal => return false,
        Relation::Greater | Relation::AtLeast => true,
        Relation::Less | Relation::AtMost => false,
    };
    match (left, right) {
        (left, Operand::Constant(_)) if is_field(left) => is_greater == is_lower,
        (Operand::Constant(_), right) if is_field(right) => is_greater != is_lower,
        _ => false,
    }
}

/// Returns whether a fact with these known fields may meet tests.
#[inline(never)]
fn may_meet(tests: &[Test], known: &Known) -> bool {
    tests.iter().all(|test| match test {
        Test::Compare(kind, relation, left, right) => {
            let value = |operand: &Operand| match operand {
                Operand::Constant(constant) => Some(Some(*constant)),
                Operand::Field { offset, .. } => lookup(known, *offset),
            };
            compared(*kind, *relation, value(left), value(right)) != Some(false)
        }
        Test::Code(code) => truth(code, known) != Some(false),
    })
}

/// Returns the result of a comparison, if both values are known. A comparison with an undefined value is false.
fn compared(kind: Kind, relation: Relation, left: Option<Option<u64>>, right: Option<Option<u64>>) -> Option<bool> {
    match (left, right) {
        (Some(None), _) | (_, Some(None)) => Some(false),
        (Some(Some(left)), Some(Some(right))) => Some(compare(kind, relation, left, right)),
        _ => None,
    }
}

/// Returns whether an expression is true, if that is known.
#[inline(never)]
fn truth(code: &Code, known: &Known) -> Option<bool> {
    match code {
        Code::Not(operand) => truth(operand, known).map(|is_true| !is_true),
        Code::And(left, right) => match (truth(left, known), truth(right, known)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        },
        Code::Or(left, right) => match (truth(left, known), truth(right, known)) {
            (Some(true), _) | (_, Some(true)) => Some(true),
            (Some(false), Some(false)) => Some(false),
            _ => None,
        },
        Code::Compare(kind, relation, left, right) => {
            compared(*kind, *relation, value(left, known), value(right, known))
        }
        Code::In(kind, operand, constants) => value(operand, known).map(|value| {
            value
                .is_some_and(|value| constants.iter().any(|constant| compare(*kind, Relation::Equal, value, *constant)))
        }),
        Code::IsNull(operand) => value(operand, known).map(|value| value.is_none()),
        code => value(code, known).map(|value| value == Some(1)),
    }
}

/// Returns the value of an expression, if it is known.
fn value(code: &Code, known: &Known) -> Option<Option<u64>> {
    match code {
        Code::Constant(constant) => Some(Some(*constant)),
        Code::Field { offset, .. } => lookup(known, *offset),
        _ => None,
    }
}
