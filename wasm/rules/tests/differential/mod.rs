//! The engine against a naive one: random rules, facts, retractions and times, compared firing by firing.
//!
//! The oracle enumerates all combinations of facts after each change, in the order that the crate's documentation defines. It keeps
//! all facts, and has no pages, no lives, and no limits except on the firings of a case. It shares with the engine the text of the
//! rules and the order of joins, which affects only the documented order of firings, not which rules fire.
//!
//! The engine drops facts. A drop is not a retraction, but a retraction may make a match valid again whose facts were dropped. So
//! in programs with retractions and modifications a rule without windows keeps all facts ([`KEEPER`]). In pure programs, which only
//! notify, drops must not affect any firing.

// Each test binary uses a part of this module.
#![allow(dead_code)]

#[path = "../naive/mod.rs"]
mod naive;

use std::cmp::Reverse;

use be_tree_rules::{Call, Engine, Error, EventTime, Limits, Owned, Value};
use naive::{combinations, deadline, passes, related, Clause, Waiting};

pub use naive::random::Random;

const TYPES: usize = 3;
const STRINGS: [&str; 3] = ["x", "y", "z"];
const RELATIONS: [&str; 6] = ["=", "<>", "<", "<=", ">", ">="];

/// A fact: `a` is required, `b` is optional, `s` is the number of a string.
#[derive(Clone, Debug, PartialEq)]
struct Fact {
    id: u64,
    ty: usize,
    at: i64,
    a: i64,
    b: Option<i64>,
    s: i64,
}

impl naive::Fact for Fact {
    fn id(&self) -> u64 {
        self.id
    }

    fn ty(&self) -> usize {
        self.ty
    }

    fn at(&self) -> i64 {
        self.at
    }
}

impl Fact {
    fn field(&self, field: &str) -> Option<i64> {
        match field {
            "a" => Some(self.a),
            "b" => self.b,
            _ => Some(self.s),
        }
    }
}

#[derive(Clone, Debug)]
enum Test {
    Constant(&'static str, &'static str, i64),
    Null(bool),
    Among(Vec<i64>),
    Other(&'static str, &'static str, usize, &'static str, i64),
    Not(Box<Test>),
    Or(Box<Test>, Box<Test>),
    Time(Clause),
}

fn constant(field: &str, value: i64) -> String {
    if field == "s" {
        format!("'{}'", STRINGS[value as usize])
    } else {
        value.to_string()
    }
}

impl Test {
    fn random(random: &mut Random, others: usize, depth: usize) -> Test {
        if depth > 0 && random.chance(12) {
            return Test::Not(Box::new(Test::random(random, others, depth - 1)));
        }
        if depth > 0 && random.chance(10) {
            let parts = [0; 2].map(|_| Box::new(Test::random(random, others, depth - 1)));
            let [left, right] = parts;
            return Test::Or(left, right);
        }
        if others > 0 && random.chance(60) {
            let other = random.below(others as u64) as usize;
            let relation = if random.chance(65) { "=" } else { random.pick(&RELATIONS) };
            return match random.below(5) {
                0 => Test::Other("s", if relation == "=" { "=" } else { "<>" }, other, "s", 0),
                1 => Test::Other("b", relation, other, random.pick(&["a", "b"]), 0),
                2 => Test::Other("a", relation, other, random.pick(&["a", "b"]), random.below(3) as i64),
                _ => Test::Other("a", relation, other, random.pick(&["a", "b"]), 0),
            };
        }
        match random.below(6) {
            0 => Test::Null(random.chance(50)),
            1 => Test::Among(vec![random.below(4) as i64, random.below(4) as i64]),
            2 => Test::Constant("s", random.pick(&["=", "<>"]), random.below(3) as i64),
            3 => Test::Constant("b", random.pick(&RELATIONS), random.below(4) as i64),
            _ => Test::Constant("a", random.pick(&RELATIONS), random.below(4) as i64),
        }
    }

    fn time(random: &mut Random, others: usize) -> Test {
        let relation = random.pick(&["after", "before", "of"]);
        let within = (relation == "of" || random.chance(80)).then(|| 1 + random.below(8) as i64);
        Test::Time(Clause { relation, slot: random.below(others as u64) as usize, within })
    }

    fn text(&self) -> String {
        match self {
            Test::Constant(field, relation, value) => format!("{field} {relation} {}", constant(field, *value)),
            Test::Null(is_null) => format!("b is {}null", if *is_null { "" } else { "not " }),
            Test::Among(values) => format!("a in ({}, {})", values[0], values[1]),
            Test::Other(field, relation, other, of, 0) => format!("{field} {relation} p{other}.{of}"),
            Test::Other(field, relation, other, of, plus) => format!("{field} {relation} p{other}.{of} + {plus}"),
            Test::Not(test) => format!("not ({})", test.text()),
            Test::Or(left, right) => format!("({} or {})", left.text(), right.text()),
            Test::Time(clause) => clause.text(),
        }
    }
}

impl naive::Test for Test {
    type Fact = Fact;

    fn holds(&self, fact: &Fact, bound: &[&Fact]) -> bool {
        match self {
            Test::Constant(field, relation, value) => {
                fact.field(field).is_some_and(|own| related(relation, own, *value))
            }
            Test::Null(is_null) => fact.b.is_none() == *is_null,
            Test::Among(values) => values.contains(&fact.a),
            Test::Other(field, relation, other, of, plus) => match (fact.field(field), bound[*other].field(of)) {
                (Some(own), Some(value)) => related(relation, own, value + plus),
                _ => false,
            },
            Test::Not(test) => !test.holds(fact, bound),
            Test::Or(left, right) => left.holds(fact, bound) || right.holds(fact, bound),
            Test::Time(clause) => clause.holds(fact, bound),
        }
    }

    fn clause(&self) -> Option<&Clause> {
        match self {
            Test::Time(clause) => Some(clause),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
struct Guard {
    ty: usize,
    tests: Vec<Test>,
    /// `none`, or an aggregate and the test of its value.
    aggregate: &'static str,
    relation: &'static str,
    value: i64,
}

#[derive(Clone, Debug)]
enum Action {
    Assert(usize, usize),
    Modify(usize, i64),
    /// Adds one to a field while it is below three, so the rule terminates.
    Raise(usize, &'static str),
    Retract(usize),
    Notify,
}

#[derive(Clone, Debug)]
struct Rule {
    /// The number in the name.
    number: usize,
    priority: i64,
    slots: Vec<(usize, Vec<Test>)>,
    /// An alternative to the last condition that binds a fact.
    alternative: Option<(usize, Vec<Test>)>,
    guards: Vec<Guard>,
    actions: Vec<Action>,
}

impl Rule {
    fn random(random: &mut Random, number: usize, is_pure: bool) -> Rule {
        let slot = |random: &mut Random, others: usize| {
            let mut tests: Vec<Test> = (0..random.below(3)).map(|_| Test::random(random, others, 2)).collect();
            if others > 0 && random.chance(if is_pure { 100 } else { 40 }) {
                tests.push(Test::time(random, others));
            }
            (random.below(TYPES as u64) as usize, tests)
        };
        let mut slots: Vec<_> = (0..1 + random.below(3) as usize).map(|others| slot(random, others)).collect();
        let alternative = random.chance(15).then(|| slot(random, slots.len() - 1));
        let mut guards = Vec::new();
        for _ in 0..random.below(3) {
            let mut tests: Vec<Test> = (0..random.below(3)).map(|_| Test::random(random, slots.len(), 1)).collect();
            if random.chance(if is_pure { 100 } else { 40 }) {
                tests.push(Test::time(random, slots.len()));
            }
            let aggregate = random.pick(&["none", "none", "count", "sum", "min", "max"]);
            guards.push(Guard {
                ty: random.below(TYPES as u64) as usize,
                tests,
                aggregate,
                relation: random.pick(&RELATIONS),
                value: random.below(4) as i64,
            });
        }
        let mut actions = Vec::new();
        for _ in 0..1 + random.below(2) {
            let slot = random.below(slots.len() as u64) as usize;
            actions.push(match random.below(if is_pure { 1 } else { 12 }) {
                0 | 1 => Action::Notify,
                2 => Action::Assert(random.below(TYPES as u64) as usize, slot),
                3 | 4 => Action::Modify(slot, 1 + random.below(3) as i64),
                5 | 6 => Action::Retract(slot),
                _ => {
                    let field = random.pick(&["a", "b"]);
                    slots[slot].1.push(Test::Constant(field, "<", 3));
                    Action::Raise(slot, field)
                }
            });
        }
        Rule { number, priority: random.below(3) as i64 - 1, slots, alternative, guards, actions }
    }

    /// Returns a rule for each alternative.
    fn variants(self) -> Vec<Rule> {
        let Some(alternative) = self.alternative.clone() else { return vec![self] };
        let mut other = self.clone();
        *other.slots.last_mut().unwrap() = alternative;
        vec![self, other]
    }

    fn text(&self) -> String {
        let number = self.number;
        let tests = |tests: &[Test]| tests.iter().map(|test| format!(", {}", test.text())).collect::<String>();
        let mut text = format!("rule r{number} priority {}\n when\n", self.priority);
        let last = self.slots.len() - 1;
        for (slot, (ty, own)) in self.slots.iter().enumerate() {
            let condition = format!("p{slot}: t{ty}{}", tests(own));
            text += &match &self.alternative {
                Some((other, theirs)) if slot == last => {
                    format!("  either ({condition})\n  or (p{slot}: t{other}{})\n", tests(theirs))
                }
                _ => format!("  {condition}\n"),
            };
        }
        for (number, guard) in self.guards.iter().enumerate() {
            let Guard { ty, aggregate, relation, value, .. } = guard;
            let own = tests(&guard.tests);
            text += &match *aggregate {
                "none" => format!("  none t{ty}{own}\n"),
                "count" => format!("  n{number}: count t{ty}{own}, n{number} {relation} {value}\n"),
                _ => format!("  n{number}: {aggregate} t{ty}.b{own}, n{number} {relation} {value}\n"),
            };
        }
        let actions = self.actions.iter().map(|action| match action {
            Action::Assert(ty, slot) => format!("assert t{ty}(a: (p{slot}.a + 1) mod 4, b: p{slot}.b, s: p{slot}.s)"),
            Action::Modify(slot, plus) => format!("modify p{slot}(a: (p{slot}.a + {plus}) mod 4)"),
            Action::Raise(slot, field) => format!("modify p{slot}({field}: p{slot}.{field} + 1)"),
            Action::Retract(slot) => format!("retract p{slot}"),
            Action::Notify => "notify fired(a: p0.a)".to_owned(),
        });
        text += &format!(" then {}\n", actions.collect::<Vec<_>>().join(", "));
        text
    }
}

const TYPES_TEXT: &str = "
fact t0(a: integer, b: integer optional, s: string)
fact t1(a: integer, b: integer optional, s: string)
fact t2(a: integer, b: integer optional, s: string)
";

/// A rule that never fires; without a window it keeps the facts of all types.
const KEEPER: &str = "rule keeper when k0: t0(a > 99) k1: t1 k2: t2 then notify kept\n";

/// Why a match is on the agenda.
#[derive(Clone, Debug, PartialEq)]
enum Origin {
    /// Its newest fact was inserted.
    Seed,
    /// A `none`, an aggregate or a deadline made it valid.
    Change,
}

#[derive(Clone, Debug, PartialEq)]
struct Entry {
    rule: usize,
    facts: Vec<u64>,
    origin: Origin,
}

struct Oracle {
    rules: Vec<Rule>,
    joins: Vec<Vec<Vec<usize>>>,
    facts: Vec<Fact>,
    next: u64,
    clock: i64,
    agenda: Vec<Entry>,
    waiting: Waiting<Entry>,
    fired: Vec<(String, Vec<u64>)>,
    left: usize,
}

impl Oracle {
    fn bound(&self, ids: &[u64]) -> Option<Vec<&Fact>> {
        naive::facts_of(&self.facts, ids)
    }

    /// Returns whether a guard holds among these facts.
    fn guard_holds(&self, guard: &Guard, bound: &[&Fact], facts: &[Fact]) -> bool {
        let found: Vec<&Fact> = facts.iter().filter(|fact| passes(guard.ty, &guard.tests, fact, bound)).collect();
        let values = found.iter().filter_map(|fact| fact.b);
        let value = match guard.aggregate {
            "none" => return found.is_empty(),
            "count" => Some(found.len() as i64),
            "sum" => Some(values.sum()),
            "min" => values.min(),
            _ => values.max(),
        };
        value.is_some_and(|value| related(guard.relation, value, guard.value))
    }

    fn guards_hold(&self, rule: &Rule, bound: &[&Fact]) -> bool {
        rule.guards.iter().all(|guard| self.guard_holds(guard, bound, &self.facts))
    }

    fn deadline(&self, rule: &Rule, bound: &[&Fact]) -> i64 {
        deadline(rule.guards.iter().map(|guard| &guard.tests[..]), bound)
    }

    fn add(&mut self, entry: Entry) {
        if !self.agenda.contains(&entry) {
            self.agenda.push(entry);
        }
    }

    fn insert(&mut self, fact: Fact) {
        let before = self.facts.clone();
        let id = fact.id;
        self.facts.push(fact);
        self.seed(id);
        self.flip(id, &before);
    }

    fn retract(&mut self, id: u64) {
        let Some(position) = self.facts.iter().position(|fact| fact.id == id) else { return };
        let before = self.facts.clone();
        self.facts.remove(position);
        self.flip(id, &before);
    }

    /// Adds the matches that contain a new fact.
    fn seed(&mut self, id: u64) {
        for (number, rule) in self.rules.clone().iter().enumerate() {
            for facts in combinations(&self.facts, &rule.slots).into_iter().filter(|facts| facts.contains(&id)) {
                self.add(Entry { rule: number, facts, origin: Origin::Seed });
            }
        }
    }

    /// Adds the matches without the fact `id` whose guard failed among the facts `before` and holds now.
    fn flip(&mut self, id: u64, before: &[Fact]) {
        for (number, rule) in self.rules.clone().iter().enumerate() {
            for facts in combinations(&self.facts, &rule.slots).into_iter().filter(|facts| !facts.contains(&id)) {
                let bound = self.bound(&facts).unwrap();
                let turned = rule.guards.iter().any(|guard| {
                    !self.guard_holds(guard, &bound, before) && self.guard_holds(guard, &bound, &self.facts)
                });
                if !turned || !self.guards_hold(rule, &bound) {
                    continue;
                }
                let deadline = self.deadline(rule, &bound);
                if self.agenda.contains(&Entry { rule: number, facts: facts.clone(), origin: Origin::Seed }) {
                    continue;
                }
                let entry = Entry { rule: number, facts, origin: Origin::Change };
                if deadline > self.clock {
                    self.waiting.add(deadline, entry);
                } else {
                    self.add(entry);
                }
            }
        }
    }

    /// Returns the position of the first entry of the agenda.
    fn first(&self) -> Option<usize> {
        let key = |entry: &Entry| {
            let newest = *entry.facts.iter().max().unwrap();
            let (slot, path) = match entry.origin {
                Origin::Change => (0, entry.facts.clone()),
                Origin::Seed => {
                    let slot = entry.facts.iter().position(|fact| *fact == newest).unwrap();
                    let joined = &self.joins[entry.rule][slot];
                    (1 + slot, joined.iter().map(|slot| entry.facts[*slot]).collect())
                }
            };
            (Reverse(self.rules[entry.rule].priority), Reverse(newest), entry.rule, slot, Reverse(path))
        };
        (0..self.agenda.len()).min_by_key(|position| key(&self.agenda[*position]))
    }

    /// Fires until nothing is due. Returns whether the limit allows that.
    fn run(&mut self) -> bool {
        loop {
            // The engine pauses when it has entries left, valid or not.
            if self.agenda.is_empty() {
                return true;
            }
            if self.left == 0 {
                return false;
            }
            let entry = self.agenda.remove(self.first().unwrap());
            let rule = self.rules[entry.rule].clone();
            let Some(bound) = self.bound(&entry.facts) else { continue };
            if !self.guards_hold(&rule, &bound) {
                continue;
            }
            let deadline = self.deadline(&rule, &bound);
            if deadline > self.clock {
                self.waiting.add(deadline, Entry { origin: Origin::Change, ..entry });
                continue;
            }
            let bound: Vec<Fact> = bound.into_iter().cloned().collect();
            self.fire(&rule, &bound);
        }
    }

    fn fire(&mut self, rule: &Rule, bound: &[Fact]) {
        self.left -= 1;
        self.fired.push((format!("r{}", rule.number), bound.iter().map(|fact| fact.id).collect()));
        let mut current: Vec<u64> = bound.iter().map(|fact| fact.id).collect();
        for action in &rule.actions {
            match action {
                Action::Notify => {}
                Action::Assert(ty, slot) => {
                    let of = &bound[*slot];
                    let id = self.take_id();
                    self.insert(Fact { id, ty: *ty, at: self.clock, a: (of.a + 1) % 4, b: of.b, s: of.s });
                }
                Action::Modify(slot, plus) => {
                    let a = (bound[*slot].a + plus) % 4;
                    self.modify(&mut current[*slot], |fact| fact.a = a);
                }
                Action::Raise(slot, field) => {
                    let raised = bound[*slot].field(field).map(|value| value + 1);
                    self.modify(&mut current[*slot], |fact| match *field {
                        "a" => fact.a = raised.unwrap_or(fact.a),
                        _ => fact.b = raised,
                    });
                }
                Action::Retract(slot) => self.retract(current[*slot]),
            }
        }
    }

    /// Replaces the fact `id`. That is one step: a match without the fact is new only if a condition on sets of facts failed before
    /// it and holds after it.
    fn modify(&mut self, id: &mut u64, change: impl Fn(&mut Fact)) {
        let Some(mut fact) = self.facts.iter().find(|fact| fact.id == *id).cloned() else { return };
        let before = self.facts.clone();
        self.facts.retain(|other| other.id != fact.id);
        fact.id = self.take_id();
        *id = fact.id;
        change(&mut fact);
        self.facts.push(fact);
        self.seed(*id);
        self.flip(*id, &before);
    }

    fn take_id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    fn advance(&mut self, now: i64) -> bool {
        loop {
            if !self.run() {
                return false;
            }
            if self.clock > now {
                return true;
            }
            match self.waiting.first_deadline() {
                Some(deadline) if deadline <= now => {
                    self.clock = self.clock.max(deadline);
                    for entry in self.waiting.take_until(self.clock) {
                        let holds = self
                            .bound(&entry.facts)
                            .is_some_and(|bound| self.guards_hold(&self.rules[entry.rule], &bound));
                        if holds {
                            self.add(entry);
                        }
                    }
                }
                _ => {
                    self.clock = now;
                    return true;
                }
            }
        }
    }
}

/// Runs the engine's operations, whole or in pages of one firing and one notice. A paged engine allocates only between steps, and
/// each step that lacks room ends a call.
struct Driver {
    engine: Engine,
    is_paged: bool,
    fired: Vec<(String, Vec<u64>)>,
}

impl Driver {
    /// Runs a call with all its pages. Returns `None` if the limit on firings ended it.
    fn finish<T>(&mut self, mut call: impl FnMut(&mut Engine) -> Result<Option<T>, Error>) -> Option<T> {
        loop {
            if self.is_paged {
                self.engine.begin(Call::Fire, 0).unwrap();
            }
            let before = self.engine.counts().firings;
            let outcome = call(&mut self.engine);
            self.fired.extend(self.engine.record());
            let notices = self.engine.take_notices().len();
            let is_paused = match outcome {
                Ok(Some(value)) => return Some(value),
                Ok(None) => true,
                Err(error) if self.engine.lacks_room() => {
                    assert_eq!(error.kind, be_tree_rules::error::Kind::OutOfMemory);
                    self.engine.make_room().unwrap();
                    false
                }
                Err(error) => {
                    assert_eq!(error.kind, be_tree_rules::error::Kind::OutOfBounds, "{error}");
                    true
                }
            };
            // A rule has at most two `notify` actions.
            let fired = self.engine.counts().firings - before;
            assert!(!self.is_paged || fired <= 1 && notices <= 2, "a page of {fired} firings and {notices} notices");
            if is_paused && (!self.is_paged || self.fired.len() >= MAX_FIRINGS) {
                return None;
            }
        }
    }

    fn advance(&mut self, now: i64) -> bool {
        self.finish(|engine| engine.advance(EventTime::OfAll(now)).map(Some)).is_some()
    }

    fn run(&mut self) -> bool {
        self.finish(|engine| Ok(engine.run()?.pause.is_none().then_some(()))).is_some()
    }

    fn retract(&mut self, id: u64) {
        self.finish(|engine| engine.retract(id).map(Some)).unwrap();
    }

    /// Asserts a fact, and returns its number, if the limit allows it to be inserted.
    fn assert(&mut self, fact: &Fact) -> Option<u64> {
        self.finish(|engine| {
            let mut fields =
                vec![("a", Value::Integer(fact.a)), ("s", Value::String(STRINGS[fact.s as usize].as_bytes()))];
            fields.extend(fact.b.map(|b| ("b", Value::Integer(b))));
            let new = engine.types().fact(&format!("t{}", fact.ty), Some(fact.at), &fields).unwrap();
            engine.assert(&new).map(Some)
        })
    }
}

fn stored_facts(engine: &Engine) -> Vec<Fact> {
    let mut facts = Vec::new();
    for ty in 0..TYPES {
        for fact in engine.stored().facts(&format!("t{ty}")).unwrap() {
            let integer = |field: usize| match &fact.fields[field].1 {
                Some(Owned::Integer(integer)) => Some(*integer),
                _ => None,
            };
            let s = match &fact.fields[2].1 {
                Some(Owned::String(bytes)) => {
                    STRINGS.iter().position(|known| known.as_bytes() == bytes).unwrap() as i64
                }
                other => panic!("{other:?}"),
            };
            facts.push(Fact { id: fact.id, ty, at: fact.at, a: integer(0).unwrap(), b: integer(1), s });
        }
    }
    facts.sort_by_key(|fact| fact.id);
    facts
}

/// The most firings of an operation. Rules may fire one another without end.
const MAX_FIRINGS: usize = 30;

/// The form of a case.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    /// Rules only notify, and time clauses bound all uses of facts, so drops must not affect any firing.
    pub is_pure: bool,
    /// Single-fact conditions always use the index, however few they are.
    pub is_indexed: bool,
    /// Operations run in pages of one firing.
    pub is_paged: bool,
}

/// Runs a case in the engine and in the oracle, and returns the number of firings. `name` is its name in messages.
pub fn check(random: &mut Random, form: Form, name: &str) -> usize {
    let Form { is_pure, is_indexed, is_paged } = form;
    let written: Vec<Rule> =
        (0..1 + random.below(3) as usize).map(|number| Rule::random(random, number, is_pure)).collect();
    let texts: String = written.iter().map(Rule::text).collect();
    let rules: Vec<Rule> = written.into_iter().flat_map(Rule::variants).collect();
    let text = format!("{TYPES_TEXT}{texts}{}", if is_pure { "" } else { KEEPER });
    let limits = match is_paged {
        true => Limits { firings: 1, notices: 1, ..Limits::default() },
        false => Limits { firings: MAX_FIRINGS as u32, ..Limits::default() },
    };
    let make = if is_indexed { Engine::indexed } else { Engine::new };
    let mut engine = make(&text, limits).unwrap_or_else(|error| panic!("{error}\n{text}"));
    engine.record();
    if is_paged {
        engine.defer_memory();
    }
    let mut oracle = Oracle {
        rules,
        joins: engine.rules().join_order().into_iter().map(|(_, plans)| plans).collect(),
        facts: Vec::new(),
        next: 1,
        clock: i64::MIN,
        agenda: Vec::new(),
        waiting: Waiting::new(),
        fired: Vec::new(),
        left: 0,
    };
    let mut driver = Driver { engine, is_paged, fired: Vec::new() };
    let (mut time, mut total) = (1_000, 0);
    for step in 0..24 {
        driver.engine.begin(Call::Fire, 0).unwrap();
        oracle.left = MAX_FIRINGS;
        time += random.pick(&[0, 0, 1, 2, 5]);
        let operation = random.below(10);
        let going_on = if operation < 7 || is_pure {
            let late = if !is_pure && random.chance(15) { random.below(6) as i64 } else { 0 };
            let fact = Fact {
                id: 0,
                ty: random.below(TYPES as u64) as usize,
                at: time - late,
                a: random.below(4) as i64,
                b: random.chance(75).then(|| random.below(4) as i64),
                s: random.below(3) as i64,
            };
            let done = driver.assert(&fact);
            let advanced = oracle.advance(fact.at.max(oracle.clock));
            // At the limit the engine pauses even if the rest of its agenda turns out to match nothing.
            assert!(done.is_some() == advanced || oracle.left == 0, "{done:?}, {name}, step {step}\n{text}");
            done.is_some() && advanced && {
                let id = oracle.take_id();
                assert_eq!(done.unwrap(), id, "{name}\n{text}");
                oracle.insert(Fact { id, ..fact });
                let ran = driver.run();
                assert!(oracle.run() == ran || oracle.left == 0, "another pause, {name}\n{text}");
                ran
            }
        } else if operation < 9 && !oracle.facts.is_empty() {
            let id = oracle.facts[random.below(oracle.facts.len() as u64) as usize].id;
            driver.retract(id);
            oracle.retract(id);
            let ran = driver.run();
            assert!(oracle.run() == ran || oracle.left == 0, "{name}\n{text}");
            ran
        } else {
            time += random.below(12) as i64;
            let advanced = oracle.advance(time.max(oracle.clock));
            assert!(driver.advance(time) == advanced || oracle.left == 0, "{name}\n{text}");
            advanced
        };
        let fired = std::mem::take(&mut driver.fired);
        assert_eq!(fired, oracle.fired, "firings of step {step}, {name}\n{text}\n{:?}", oracle.facts);
        total += fired.len();
        oracle.fired.clear();
        if oracle.left == 0 || !going_on {
            // Rules that fire without end are compared up to the limit.
            return total;
        }
        if !is_pure {
            let mut facts = oracle.facts.clone();
            facts.sort_by_key(|fact| fact.id);
            assert_eq!(stored_facts(&driver.engine), facts, "facts of step {step}, {name}\n{text}");
        }
    }
    total
}

/// Returns the text of random rules over the types `t0`, `t1` and `t2`.
pub fn random_rules(random: &mut Random, is_pure: bool) -> String {
    let rules: Vec<Rule> =
        (0..1 + random.below(3) as usize).map(|number| Rule::random(random, number, is_pure)).collect();
    format!("{TYPES_TEXT}{}", rules.iter().map(Rule::text).collect::<String>())
}
