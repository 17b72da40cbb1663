//! Compiles the conditions and actions of rules.

use std::collections::{HashMap, HashSet};

use crate::compile::code::{Code, Kind, Operand, Test, OWN, SLOTS};
use crate::compile::implied::implied;
use crate::compile::life::Time;
use crate::compile::plans::{Planner, RawGuard};
use crate::compile::program::{Action, Aggregate, Condition, Deadlines, Join, Program, Rule, Slot, TypeNames};
use crate::compile::resolve::{kind_name, Binding, Constants, Names};
use crate::compile::switch::Switch;
use crate::compile::{cycles, life, partition, types};
use crate::error::{self, Error};
use crate::keys::By;
use crate::language::{self, Binary, Clause, Expr, Name, Node, Pattern, PatternKind, Text, TimeRelation};
use crate::layout::field_offset;

/// The most combinations of a rule's alternatives.
const MAX_VARIANTS: usize = 64;

/// The most values of a notice.
const MAX_NOTICE_VALUES: usize = 32;

/// Compiles the rules of `text`, parsed as `parsed`. With `by`, refuses rules that cannot be partitioned.
pub(crate) fn compile(parsed: &Text, text: &str, by: Option<&By>, constants: &mut Constants) -> Result<Program, Error> {
    let types = types::compile(&parsed.facts, text, constants)?;
    let keys = by.map(|by| partition::keys(by, &parsed.facts, &types, text)).transpose()?;
    let mut compiler = Compiler {
        text,
        program: Program { names: TypeNames::new(&types), types, keys, ..Program::default() },
        known: HashMap::new(),
        seeds: Vec::new(),
        places: Vec::new(),
        life: life::Lives::new(parsed.facts.len()),
    };
    let mut names: HashSet<&str> = HashSet::new();
    for rule in &parsed.rules {
        if !names.insert(&rule.name.text) {
            let message = format!("the rule `{}` is declared twice; give one another name", rule.name.text);
            return Err(Error::new(error::Kind::DuplicateId, message).about(&rule.name.text).at(text, rule.name.at));
        }
        for variant in variants(rule, text)? {
            compiler.rule(rule, &variant, constants)?;
        }
    }
    let Compiler { mut program, life, seeds, places, .. } = compiler;
    share_first(&mut program, &seeds);
    for ((number, ty), life) in program.types.iter_mut().enumerate().zip(life.all()) {
        ty.life = life;
        program.lives.extend(life.map(|life| (number, life)));
        ty.switch = Switch::new(&ty.conditions, &program.conditions);
        ty.has_series = program.series.iter().any(|series| series.ty == number);
        ty.set_bits(&mut program.conditions);
    }
    program.warnings = cycles::warnings(&program, text, &places);
    Ok(program)
}

/// Adds to each condition its seeds, grouped by equal first look-ups.
fn share_first(program: &mut Program, seeds: &[(u32, u32, u8)]) {
    let mut known = HashMap::new();
    for (number, rule, slot) in seeds {
        let join = program.rules[*rule as usize].plans[*slot as usize].joins.first();
        // The look-up reads only these two facts, so slots are renamed to compare look-ups of different rules.
        let first = join.map(|Join { probe, is_older, .. }| {
            let key: Vec<Operand> = probe.key.iter().map(|operand| operand.moved(*slot, OWN)).collect();
            let tests: Vec<Test> = probe.tests.iter().map(|test| test.moved(*slot, OWN).moved(probe.slot, 0)).collect();
            (probe.ty, probe.index, key, tests, *is_older)
        });
        let seeds = &mut program.conditions[*number as usize].seeds;
        let place = *known.entry((*number, first)).or_insert(seeds.len());
        if place == seeds.len() {
            seeds.push(Vec::new());
        }
        seeds[place].push((*rule, *slot));
    }
}

/// Returns the conditions of each combination of alternatives.
fn variants<'r>(rule: &'r language::Rule, text: &str) -> Result<Vec<Vec<&'r Pattern>>, Error> {
    fn expand(conditions: &[language::Condition]) -> Option<Vec<Vec<&Pattern>>> {
        let mut variants = vec![Vec::new()];
        for condition in conditions {
            let choices = match condition {
                language::Condition::One(pattern) => vec![vec![pattern]],
                language::Condition::Either(alternatives) => {
                    let mut choices = Vec::new();
                    for alternative in alternatives {
                        choices.extend(expand(alternative)?);
                    }
                    choices
                }
            };
            if variants.len() * choices.len() > MAX_VARIANTS {
                return None;
            }
            if let [only] = &choices[..] {
                variants.iter_mut().for_each(|variant| variant.extend(only));
                continue;
            }
            variants = variants
                .iter()
                .flat_map(|variant: &Vec<&Pattern>| {
                    choices.iter().map(move |choice| variant.iter().chain(choice).copied().collect())
                })
                .collect();
        }
        Some(variants)
    }
    expand(&rule.conditions).ok_or_else(|| {
        let message = format!("the alternatives have more than {MAX_VARIANTS} combinations; split the rule");
        Error::new(error::Kind::OutOfBounds, message).about(&rule.name.text).at(text, rule.name.at)
    })
}

struct Compiler<'a> {
    text: &'a str,
    program: Program,
    /// The numbers of single-fact conditions by their type and tests.
    known: HashMap<(usize, Vec<Test>), u32>,
    /// The single-fact conditions, rules and slots of all seeds.
    seeds: Vec<(u32, u32, u8)>,
    /// The byte offsets of the rules' names in the text.
    places: Vec<usize>,
    life: life::Lives,
}

impl Compiler<'_> {
    fn rule(&mut self, rule: &language::Rule, patterns: &[&Pattern], constants: &mut Constants) -> Result<(), Error> {
        let text = self.text;
        let types = std::mem::take(&mut self.program.types);
        let type_names = std::mem::take(&mut self.program.names);
        let mut names =
            Names { text, types: &types, type_names: &type_names, bindings: Vec::new(), own: None, constants };
        let mut body = Body::default();
        let compiled = body.conditions(patterns, &mut names).and_then(|()| body.actions(&rule.actions, &mut names));
        let fault = |message: String| {
            Error::new(error::Kind::OutOfBounds, message).about(&rule.name.text).at(text, rule.name.at)
        };
        let actions = compiled?;
        if body.slots.is_empty() {
            return Err(fault(
                "a rule needs a condition that binds a fact; add one beside `none` and aggregates".into(),
            ));
        }
        if let Some(keys) = &self.program.keys {
            let names = names.bindings.iter().filter_map(|(name, binding)| match binding {
                Binding::Fact { slot, .. } => Some((*slot, name.as_str())),
                Binding::Local { .. } => None,
            });
            partition::Candidate {
                text,
                rule,
                types: &types,
                keys,
                slots: &body.slots,
                names: names.collect(),
                conjuncts: &body.conjuncts,
                guards: &body.guards,
                actions: &actions,
            }
            .check()?;
        }
        self.program.types = types;
        self.program.names = type_names;
        self.life.add(&body.times, &body.slots, &body.guards);
        let number = self.program.rules.len() as u32;
        // Single-fact conditions.
        let mut needs = Vec::new();
        let (mut slot_conditions, mut guard_conditions) = (Vec::new(), Vec::new());
        for (slot, bound) in body.slots.iter().enumerate() {
            let condition = self.condition(bound.ty, slot as u8, &body.conjuncts);
            slot_conditions.push(condition);
            self.seeds.push((condition, number, slot as u8));
            if !needs.contains(&condition) {
                needs.push(condition);
                self.program.conditions[condition as usize].needed_by.push(number);
            }
        }
        for (guard, raw) in body.guards.iter().enumerate() {
            let condition = self.condition(raw.ty, OWN, &raw.conjuncts);
            guard_conditions.push(condition);
            let condition = &mut self.program.conditions[condition as usize];
            condition.guards.push((number, guard as u8));
            if raw.aggregate != Aggregate::None {
                condition.aggregates.push((number, guard as u8));
            }
        }
        let implied = implied(&body.conjuncts);
        let mut planner = Planner {
            types: &mut self.program.types,
            conditions: &mut self.program.conditions,
            series: &mut self.program.series,
            slot_conditions: &slot_conditions,
            guard_conditions: &guard_conditions,
            slots: &body.slots,
            conjuncts: &body.conjuncts,
            implied: &implied,
            guards: &body.guards,
        };
        let guards: Vec<_> = (0..body.guards.len()).map(|guard| planner.guard(guard)).collect();
        let plans = (0..body.slots.len()).map(|slot| planner.plan(slot as u8)).collect();
        let flips = (0..body.guards.len()).map(|guard| planner.flip(guard)).collect();
        self.places.push(rule.name.at);
        self.program.rules.push(Rule {
            name: rule.name.text.clone(),
            priority: rule.priority,
            slots: body.slots,
            guards,
            plans,
            flips,
            needs: needs.len() as u32,
            actions,
            has_locals: body.locals > 0,
        });
        Ok(())
    }

    /// Returns the number of the single-fact condition formed by the conjuncts that read `slot` alone.
    fn condition(&mut self, ty: usize, slot: u8, conjuncts: &[Code]) -> u32 {
        let own = conjuncts.iter().filter(|code| code.slots() == 1 << slot || slot == OWN && code.slots() == 0);
        let mut tests: Vec<Test> = own.map(|code| Test::of(&code.moved(slot, OWN))).collect();
        tests.sort_unstable();
        let key = (ty, tests.clone());
        let next = self.program.conditions.len() as u32;
        let number = *self.known.entry(key).or_insert(next);
        if number == next {
            self.program.conditions.push(Condition { tests, ..Condition::default() });
            self.program.types[ty].conditions.push(number);
        }
        number
    }
}

/// The compiled parts of a rule.
#[derive(Default)]
struct Body {
    slots: Vec<Slot>,
    conjuncts: Vec<Code>,
    guards: Vec<RawGuard>,
    times: Vec<Time>,
    locals: u8,
}

impl Body {
    fn conditions(&mut self, patterns: &[&Pattern], names: &mut Names) -> Result<(), Error> {
        for pattern in patterns {
            let ty = names.fact_type(&pattern.ty)?;
            if let Some(name) = &pattern.name {
                check_new(name, names)?;
            }
            match &pattern.kind {
                PatternKind::Fact => self.fact(pattern, ty, names)?,
                kind => self.guard(pattern, kind, ty, names)?,
            }
        }
        Ok(())
    }

    fn fact(&mut self, pattern: &Pattern, ty: usize, names: &mut Names) -> Result<(), Error> {
        if self.slots.len() == SLOTS {
            let message = format!("a rule binds at most {SLOTS} facts; split it");
            return Err(Error::new(error::Kind::OutOfBounds, message).at(names.text, pattern.ty.at));
        }
        let slot = self.slots.len() as u8;
        self.slots.push(Slot { ty, place: pattern.ty.at as u32 });
        if let Some(name) = &pattern.name {
            names.bindings.push((name.text.clone(), Binding::Fact { slot, ty }));
        }
        names.own = Some((slot, ty));
        for clause in &pattern.clauses {
            match clause {
                Clause::Test(expr) => {
                    for part in conjuncts(expr) {
                        let code = names.test(part)?.into_equality();
                        if code.reads_locals() {
                            let message = "an aggregate's value can stand in its own clauses and in actions only";
                            return Err(Error::new(error::Kind::Type, message).at(names.text, part.at));
                        }
                        // A test without fields belongs to the condition that contains it.
                        let code = if code.slots() == 0 { on_slot(code, slot) } else { code };
                        self.conjuncts.push(code);
                    }
                }
                Clause::Time { relation, anchor, within } => {
                    let (anchor, _) = names.fact(anchor)?;
                    let (code, times) = time(*relation, slot, slot.into(), anchor, *within);
                    self.conjuncts.push(code);
                    self.times.extend(times);
                }
            }
        }
        names.own = None;
        Ok(())
    }

    fn guard(&mut self, pattern: &Pattern, kind: &PatternKind, ty: usize, names: &mut Names) -> Result<(), Error> {
        let number = self.guards.len();
        if number == SLOTS {
            let message = format!("a rule has at most {SLOTS} `none` and aggregates; split it");
            return Err(Error::new(error::Kind::OutOfBounds, message).at(names.text, pattern.ty.at));
        }
        let field = |names: &Names, name: &Name| -> Result<(Kind, Operand), Error> {
            let field = names.field(ty, name)?;
            let declared = &names.types[ty].fields[field];
            if !matches!(declared.kind, Kind::Integer | Kind::Float) {
                let message = format!("`{}` is {}; aggregate a number", name.text, kind_name(declared.kind));
                return Err(Error::new(error::Kind::Type, message).at(names.text, name.at));
            }
            let bit = if declared.optional { 1 << field } else { 0 };
            Ok((declared.kind, Operand::Field { slot: OWN, offset: field_offset(field), bit }))
        };
        let (aggregate, value_kind) = match kind {
            PatternKind::Fact | PatternKind::None => (Aggregate::None, None),
            PatternKind::Count => (Aggregate::Count, Some(Kind::Integer)),
            PatternKind::Sum(name) => field(names, name).map(|(kind, of)| (Aggregate::Sum(kind, of), Some(kind)))?,
            PatternKind::Min(name) => field(names, name).map(|(kind, of)| (Aggregate::Min(kind, of), Some(kind)))?,
            PatternKind::Max(name) => field(names, name).map(|(kind, of)| (Aggregate::Max(kind, of), Some(kind)))?,
        };
        let mut local = None;
        if let (Some(name), Some(kind)) = (&pattern.name, value_kind) {
            local = Some(self.locals);
            names.bindings.push((name.text.clone(), Binding::Local { local: self.locals, kind }));
            self.locals += 1;
        }
        let place = pattern.ty.at as u32;
        let deadlines = Deadlines::default();
        let mut guard = RawGuard { ty, aggregate, conjuncts: vec![], having: vec![], local, deadlines, place };
        names.own = Some((OWN, ty));
        for clause in &pattern.clauses {
            match clause {
                Clause::Test(expr) => {
                    for part in conjuncts(expr) {
                        let code = names.test(part)?.into_equality();
                        if !code.reads_locals() {
                            guard.conjuncts.push(code);
                            continue;
                        }
                        let mut is_own = code.slots() & 1 << OWN == 0;
                        code.visit(&mut |code| is_own &= !matches!(code, Code::Local(other) if Some(*other) != local));
                        if !is_own {
                            let message =
                                "a clause on an aggregate's value reads this value, earlier facts and constants only";
                            return Err(Error::new(error::Kind::Type, message).at(names.text, part.at));
                        }
                        guard.having.push(code);
                    }
                }
                Clause::Time { relation, anchor, within } => {
                    let (anchor, _) = names.fact(anchor)?;
                    let (code, times) = time(*relation, OWN, SLOTS + number, anchor, *within);
                    guard.conjuncts.push(code);
                    self.times.extend(times);
                    if let (TimeRelation::After | TimeRelation::Of, Some(within)) = (relation, within) {
                        guard.deadlines.add(anchor, *within);
                    }
                }
            }
        }
        names.own = None;
        self.guards.push(guard);
        Ok(())
    }

    fn actions(&mut self, actions: &[language::Action], names: &mut Names) -> Result<Vec<Action>, Error> {
        let mut compiled = Vec::new();
        for action in actions {
            compiled.push(match action {
                language::Action::Assert(name, values) => {
                    let ty = names.fact_type(name)?;
                    let values = self.values(ty, values, names)?;
                    let fields = names.types[ty].fields.iter().enumerate();
                    let mut lacking = fields.filter(|(number, field)| {
                        !field.optional && !values.iter().any(|(given, _)| usize::from(*given) == *number)
                    });
                    if let Some((_, field)) = lacking.next() {
                        let message =
                            format!("`{}` needs `{}`; give it, or declare it optional", name.text, field.name);
                        return Err(Error::new(error::Kind::MissingAttribute, message)
                            .about(&field.name)
                            .at(names.text, name.at));
                    }
                    Action::Assert { ty, values }
                }
                language::Action::Modify(name, values) => {
                    let (slot, ty) = names.fact(name)?;
                    Action::Modify { slot, ty, values: self.values(ty, values, names)?, is_last: false }
                }
                language::Action::Retract(name) => Action::Retract { slot: names.fact(name)?.0 },
                language::Action::Notify(name, values) => {
                    let mut fields: Vec<(String, Kind, Code)> = Vec::new();
                    if values.len() > MAX_NOTICE_VALUES {
                        let message = format!("a notice has at most {MAX_NOTICE_VALUES} values; send two");
                        return Err(Error::new(error::Kind::OutOfBounds, message).at(names.text, name.at));
                    }
                    for (field, expr) in values {
                        if fields.iter().any(|(known, _, _)| *known == field.text) {
                            return Err(twice(field, names));
                        }
                        let (code, kind) = names.value(expr)?;
                        fields.push((field.text.clone(), kind, code));
                    }
                    Action::Notify { name: name.text.clone(), values: fields }
                }
                language::Action::Let(name, expr) => {
                    check_new(name, names)?;
                    if usize::from(self.locals) == SLOTS {
                        let message = format!("a rule has at most {SLOTS} aggregates and `let`; split it");
                        return Err(Error::new(error::Kind::OutOfBounds, message).at(names.text, name.at));
                    }
                    let (code, kind) = names.value(expr)?;
                    let local = self.locals;
                    self.locals += 1;
                    names.bindings.push((name.text.clone(), Binding::Local { local, kind }));
                    Action::Let { local, code }
                }
            });
        }
        self.mark_unread(&mut compiled);
        Ok(compiled)
    }

    /// Marks each modification whose fields no later action reads in any slot of the type: two slots may hold the same fact.
    fn mark_unread(&self, actions: &mut [Action]) {
        // The fields that later actions read, by type and offset.
        let mut read: HashSet<(usize, u32)> = HashSet::new();
        for action in actions.iter_mut().rev() {
            if let Action::Modify { ty, values, is_last, .. } = action {
                *is_last = !values.iter().any(|(field, _)| read.contains(&(*ty, field_offset((*field).into()))));
            }
            // Every `let` is evaluated before the first action runs.
            if matches!(action, Action::Let { .. }) {
                continue;
            }
            action.visit(|code| {
                code.visit(&mut |code| {
                    if let Code::Field { slot, offset, .. } = code {
                        read.insert((self.slots[*slot as usize].ty, *offset));
                    }
                });
            });
        }
    }

    fn values(&self, ty: usize, values: &[(Name, Expr)], names: &mut Names) -> Result<Vec<(u8, Code)>, Error> {
        let mut compiled: Vec<(u8, Code)> = Vec::new();
        for (name, expr) in values {
            let field = names.field(ty, name)?;
            if compiled.iter().any(|(known, _)| usize::from(*known) == field) {
                return Err(twice(name, names));
            }
            compiled.push((field as u8, names.value_for(ty, field, expr)?));
        }
        Ok(compiled)
    }
}

fn twice(name: &Name, names: &Names) -> Error {
    let message = format!("`{}` is given twice; keep one value", name.text);
    Error::new(error::Kind::Type, message).about(&name.text).at(names.text, name.at)
}

fn check_new(name: &Name, names: &Names) -> Result<(), Error> {
    if !names.bindings.iter().any(|(known, _)| *known == name.text) {
        return Ok(());
    }
    let message = format!("`{}` is bound already; choose another name", name.text);
    Err(Error::new(error::Kind::DuplicateId, message).about(&name.text).at(names.text, name.at))
}

/// Turns a test without fields into a test of the fact in a slot.
fn on_slot(code: Code, slot: u8) -> Code {
    let is_there = Code::Not(Box::new(Code::IsNull(Box::new(Code::Time(slot)))));
    Code::And(Box::new(is_there), Box::new(code))
}

/// Returns the operands of nested `and`s.
fn conjuncts(expr: &Expr) -> Vec<&Expr> {
    fn add<'e>(expr: &'e Expr, parts: &mut Vec<&'e Expr>) {
        match &expr.node {
            Node::Binary(Binary::And, left, right) => {
                add(left, parts);
                add(right, parts);
            }
            _ => parts.push(expr),
        }
    }
    let mut parts = Vec::new();
    add(expr, &mut parts);
    parts
}

/// Returns the test of a time clause on the fact in `slot`, and its bounds. `fact` is the fact's node in the graph of times.
fn time(relation: TimeRelation, slot: u8, fact: usize, anchor: u8, within: Option<i64>) -> (Code, Vec<Time>) {
    let other = usize::from(anchor);
    match relation {
        TimeRelation::After => (
            Code::After { later: slot, earlier: anchor, less_than: within },
            vec![Time { later: fact, earlier: other, less_than: within, is_near: false }],
        ),
        TimeRelation::Before => (
            Code::After { later: anchor, earlier: slot, less_than: within },
            vec![Time { later: other, earlier: fact, less_than: within, is_near: false }],
        ),
        TimeRelation::Of => {
            let less_than = within.unwrap_or(i64::MAX);
            let times = vec![Time { later: fact, earlier: other, less_than: within, is_near: true }];
            (Code::Near { slots: [slot, anchor], less_than }, times)
        }
    }
}
