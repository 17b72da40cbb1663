//! Aggregates against a naive enumerator: random rules, facts, modifications, retractions and times.
//!
//! The enumerator keeps all facts and evaluates every guard over all of them after each change. It follows the engine firing by
//! firing: each firing must be of a due match, with the values that the enumerator expects, and when the engine stops, no match may
//! be due.

mod naive;

use be_tree_rules::{Call, Engine, Limits, Owned, Turn, Value};
use naive::random::Random;
use naive::{combinations, deadline, passes, related, Clause, Waiting};

/// The rule `keep` uses facts of any age, so none is dropped.
const TYPES: &str = "
fact t0(k: integer, v: integer, w: integer optional, f: float, n: integer)
fact t1(k: integer, v: integer, w: integer optional, f: float, n: integer)
rule keep when x: t0(k = -1) y: t1(k = -1) then notify never
";

#[derive(Clone, Debug, PartialEq)]
struct Fact {
    id: u64,
    ty: usize,
    at: i64,
    k: i64,
    v: i64,
    w: Option<i64>,
    f: f64,
    /// The number of its modifications so far; a limit ends them.
    n: i64,
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
    fn integer(&self, field: char) -> Option<i64> {
        match field {
            'k' => Some(self.k),
            'v' => Some(self.v),
            'w' => self.w,
            _ => Some(self.n),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i64),
    Float(f64),
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Integer(integer) => integer as f64,
            Number::Float(float) => float,
        }
    }
}

#[derive(Clone, Debug)]
enum Test {
    Constant(char, &'static str, i64),
    Other(char, &'static str, usize),
    Time(Clause),
}

impl Test {
    fn text(&self) -> String {
        match self {
            Test::Constant(field, relation, value) => format!(", {field} {relation} {value}"),
            Test::Other(field, relation, other) => format!(", {field} {relation} p{other}.{field}"),
            Test::Time(clause) => format!(", {}", clause.text()),
        }
    }
}

impl naive::Test for Test {
    type Fact = Fact;

    fn holds(&self, fact: &Fact, bound: &[&Fact]) -> bool {
        match self {
            Test::Constant(field, relation, value) => {
                fact.integer(*field).is_some_and(|own| related(relation, own as f64, *value as f64))
            }
            Test::Other(field, relation, other) => match (fact.integer(*field), bound[*other].integer(*field)) {
                (Some(own), Some(value)) => related(relation, own as f64, value as f64),
                _ => false,
            },
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
    aggregate: &'static str,
    field: char,
    tests: Vec<Test>,
    relation: &'static str,
    value: i64,
}

impl Guard {
    fn text(&self, number: usize) -> String {
        let tests: String = self.tests.iter().map(Test::text).collect();
        let Guard { ty, aggregate, field, relation, value, .. } = self;
        let value = if *aggregate != "count" && *field == 'f' { format!("{value}.0") } else { value.to_string() };
        match *aggregate {
            "none" => format!("  none t{ty}{tests}\n"),
            "count" => format!("  g{number}: count t{ty}{tests}, g{number} {relation} {value}\n"),
            _ => format!("  g{number}: {aggregate} t{ty}.{field}{tests}, g{number} {relation} {value}\n"),
        }
    }

    fn value<'f>(&self, facts: impl Iterator<Item = &'f Fact>, bound: &[&Fact]) -> Option<Number> {
        let facts: Vec<&Fact> = facts.filter(|fact| passes(self.ty, &self.tests, fact, bound)).collect();
        if self.aggregate == "count" || self.aggregate == "none" {
            return Some(Number::Integer(facts.len() as i64));
        }
        if self.field == 'f' {
            let floats = facts.iter().map(|fact| fact.f);
            return match self.aggregate {
                // All values are multiples of 2^-60.
                "sum" => {
                    let sum: i128 = floats.map(|float| (float * (1_u64 << 60) as f64) as i128).sum();
                    Some(Number::Float(sum as f64 / (1_u64 << 60) as f64))
                }
                "min" => floats.min_by(f64::total_cmp).map(Number::Float),
                _ => floats.max_by(f64::total_cmp).map(Number::Float),
            };
        }
        let integers = facts.iter().filter_map(|fact| fact.integer(self.field));
        let value = match self.aggregate {
            "sum" => Some(integers.sum()),
            "min" => integers.min(),
            _ => integers.max(),
        };
        value.map(Number::Integer)
    }

    fn holds<'f>(&self, facts: impl Iterator<Item = &'f Fact>, bound: &[&Fact]) -> bool {
        let value = self.value(facts, bound);
        match self.aggregate {
            "none" => value == Some(Number::Integer(0)),
            _ => value.is_some_and(|value| related(self.relation, value.float(), self.value as f64)),
        }
    }
}

#[derive(Clone, Debug)]
enum Action {
    /// Sets a field, and counts the modification.
    Modify(usize, char, i64),
    Retract(usize),
}

#[derive(Clone, Debug)]
struct Rule {
    slots: Vec<(usize, Vec<Test>)>,
    guards: Vec<Guard>,
    actions: Vec<Action>,
}

impl Rule {
    fn random(random: &mut Random) -> Rule {
        let mut slots: Vec<(usize, Vec<Test>)> = Vec::new();
        for slot in 0..1 + usize::from(random.chance(25)) {
            let mut tests = Vec::new();
            if random.chance(30) {
                tests.push(Test::Constant('v', random.pick(&["<", ">="]), random.below(4) as i64));
            }
            if slot > 0 {
                tests.push(Test::Other('k', "=", 0));
                tests.push(time(random, slot));
            }
            slots.push((random.below(2) as usize, tests));
        }
        let guards = (0..1 + usize::from(random.chance(40))).map(|_| {
            let anchors = slots.len();
            let mut tests = Vec::new();
            if random.chance(70) {
                tests.push(Test::Other('k', "=", random.below(anchors as u64) as usize));
            }
            if random.chance(25) {
                tests.push(Test::Constant('v', random.pick(&["<", ">=", "="]), random.below(4) as i64));
            }
            for _ in 0..random.pick(&[0, 1, 1, 1, 2]) {
                tests.push(time(random, anchors));
            }
            if random.chance(10) {
                tests.push(Test::Other('v', ">", random.below(anchors as u64) as usize));
            }
            let aggregate = random.pick(&["count", "count", "sum", "min", "max", "none"]);
            Guard {
                ty: random.below(2) as usize,
                aggregate,
                field: random.pick(&['v', 'w', 'f']),
                tests,
                relation: random.pick(&["=", "<", "<=", ">", ">=", ">="]),
                value: random.below(6) as i64,
            }
        });
        let guards = guards.collect();
        let mut actions = Vec::new();
        for _ in 0..random.pick(&[0, 1, 1, 2]) {
            let slot = random.below(slots.len() as u64) as usize;
            if random.chance(15) {
                actions.push(Action::Retract(slot));
                continue;
            }
            slots[slot].1.push(Test::Constant('n', "<", 2));
            actions.push(Action::Modify(slot, random.pick(&['k', 'v', 'v', 'w', 'f', 'n']), random.below(4) as i64));
        }
        Rule { slots, guards, actions }
    }

    fn text(&self, number: usize) -> String {
        let mut text = format!("rule r{number}\n when\n");
        for (slot, (ty, tests)) in self.slots.iter().enumerate() {
            text += &format!("  p{slot}: t{ty}{}\n", tests.iter().map(Test::text).collect::<String>());
        }
        for (number, guard) in self.guards.iter().enumerate() {
            text += &guard.text(number);
        }
        let values = self.guards.iter().enumerate().filter(|(_, guard)| guard.aggregate != "none");
        let values = values.map(|(number, _)| format!(", g{number}: g{number}")).collect::<String>();
        text += &format!(" then notify fired(k: p0.k{values})");
        for action in &self.actions {
            text += &match action {
                Action::Modify(slot, 'n', _) => format!(", modify p{slot}(n: p{slot}.n + 1)"),
                Action::Modify(slot, 'f', value) => format!(", modify p{slot}(f: {value}.1, n: p{slot}.n + 1)"),
                Action::Modify(slot, field, value) => {
                    format!(", modify p{slot}({field}: (p{slot}.v + {value}) mod 4, n: p{slot}.n + 1)")
                }
                Action::Retract(slot) => format!(", retract p{slot}"),
            };
        }
        text + "\n"
    }

    fn deadline(&self, bound: &[&Fact]) -> i64 {
        deadline(self.guards.iter().map(|guard| &guard.tests[..]), bound)
    }
}

fn time(random: &mut Random, anchors: usize) -> Test {
    let relation = random.pick(&["after", "before", "before", "of"]);
    let within = (relation == "of" || random.chance(80)).then(|| 1 + random.below(12) as i64);
    Test::Time(Clause { relation, slot: random.below(anchors as u64) as usize, within })
}

/// A match: its rule, and the numbers of its facts.
type Match = (usize, Vec<u64>);

struct Enumerator {
    rules: Vec<Rule>,
    facts: Vec<Fact>,
    next: u64,
    clock: i64,
    due: Vec<Match>,
    waiting: Waiting<Match>,
}

impl Enumerator {
    fn bound(&self, ids: &[u64]) -> Option<Vec<&Fact>> {
        naive::facts_of(&self.facts, ids)
    }

    fn is_valid(&self, (rule, ids): &Match) -> bool {
        let guards = &self.rules[*rule].guards;
        self.bound(ids).is_some_and(|bound| guards.iter().all(|guard| guard.holds(self.facts.iter(), &bound)))
    }

    fn add(&mut self, new: Match) {
        if !self.due.contains(&new) {
            self.due.push(new);
        }
    }

    /// Removes a fact, adds one, or replaces one.
    fn change(&mut self, gone: Option<u64>, new: Option<Fact>) {
        let gone = gone.map(|id| self.facts.remove(self.facts.iter().position(|fact| fact.id == id).unwrap()));
        let new_id = new.as_ref().map(|fact| fact.id);
        self.facts.extend(new);
        for number in 0..self.rules.len() {
            let rule = &self.rules[number];
            let mut added = Vec::new();
            for ids in combinations(&self.facts, &rule.slots) {
                let bound = self.bound(&ids).unwrap();
                let is_new = new_id.is_some_and(|id| ids.contains(&id));
                let turned = |guard: &Guard| {
                    let is_about = |fact: &Fact| passes(guard.ty, &guard.tests, fact, &bound);
                    let new = self.facts.iter().find(|fact| Some(fact.id) == new_id);
                    let before = self.facts.iter().filter(|fact| Some(fact.id) != new_id).chain(&gone);
                    (gone.as_ref().is_some_and(is_about) || new.is_some_and(is_about)) && !guard.holds(before, &bound)
                };
                if is_new || rule.guards.iter().any(turned) && self.is_valid(&(number, ids.clone())) {
                    added.push((number, ids));
                }
            }
            added.into_iter().for_each(|new| self.add(new));
        }
    }

    /// Removes the due matches that are invalid or must wait.
    fn settle(&mut self, what: &str) {
        for due in std::mem::take(&mut self.due) {
            if !self.is_valid(&due) {
                continue;
            }
            let deadline = self.rules[due.0].deadline(&self.bound(&due.1).unwrap());
            assert!(deadline > self.clock, "{due:?} did not fire, {what}\n{:?}", self.facts);
            self.waiting.add(deadline, due);
        }
    }

    fn advance(&mut self, time: i64, what: &str) {
        if time > self.clock {
            self.settle(what);
        }
        while let Some(deadline) = self.waiting.first_deadline() {
            if deadline > time {
                break;
            }
            if deadline > self.clock {
                self.settle(what);
                self.clock = deadline;
            }
            for due in self.waiting.take_until(deadline) {
                if self.is_valid(&due) {
                    self.add(due);
                }
            }
        }
        if time > self.clock {
            self.settle(what);
            self.clock = time;
        }
    }

    /// Fires a match, and returns the values of its aggregates.
    fn fire(&mut self, fired: &Match, what: &str) -> Vec<Option<Number>> {
        let due = self.due.iter().position(|due| due == fired);
        let due = due.unwrap_or_else(|| panic!("{fired:?} is not due, {what}\n{:?}\n{:?}", self.due, self.facts));
        assert!(self.is_valid(fired), "{fired:?} is not valid, {what}\n{:?}", self.facts);
        self.due.remove(due);
        let rule = self.rules[fired.0].clone();
        let bound: Vec<Fact> = self.bound(&fired.1).unwrap().into_iter().cloned().collect();
        let borrowed: Vec<&Fact> = bound.iter().collect();
        assert!(rule.deadline(&borrowed) <= self.clock, "{fired:?} fired too early, {what}");
        let named = rule.guards.iter().filter(|guard| guard.aggregate != "none");
        let values = named.map(|guard| guard.value(self.facts.iter(), &borrowed)).collect();
        let mut current = fired.1.clone();
        for action in &rule.actions {
            let (Action::Modify(slot, ..) | Action::Retract(slot)) = action;
            let Some(mut fact) = self.facts.iter().find(|fact| fact.id == current[*slot]).cloned() else { continue };
            let old = fact.id;
            match action {
                Action::Retract(_) => self.change(Some(old), None),
                Action::Modify(_, field, value) => {
                    let other = (bound[*slot].v + value) % 4;
                    match field {
                        'k' => fact.k = other,
                        'v' => fact.v = other,
                        'w' => fact.w = Some(other),
                        'f' => fact.f = format!("{value}.1").parse().unwrap(),
                        _ => {}
                    }
                    fact.n = bound[*slot].n + 1;
                    fact.id = self.next;
                    self.next += 1;
                    current[*slot] = fact.id;
                    self.change(Some(old), Some(fact));
                }
            }
        }
        values
    }
}

/// Fires in the engine and in the enumerator what is due up to a time. Returns the number of firings.
fn follow(engine: &mut Engine, enumerator: &mut Enumerator, time: i64, what: &str) -> usize {
    let mut fired = 0;
    loop {
        let turn = engine.turn_to(time).unwrap_or_else(|error| panic!("{error}, {what}"));
        for (rule, ids) in engine.record() {
            fired += 1;
            assert_ne!(rule, "keep");
            enumerator.advance(engine.clock().now(), what);
            let values = enumerator.fire(&(rule[1..].parse().unwrap(), ids), what);
            let notices = engine.take_notices();
            let found: Vec<Option<Number>> = notices[0].values[1..]
                .iter()
                .map(|(_, value)| match value {
                    Some(Owned::Integer(integer)) => Some(Number::Integer(*integer)),
                    Some(Owned::Float(float)) => Some(Number::Float(*float)),
                    None => None,
                    other => panic!("{other:?}"),
                })
                .collect();
            assert_eq!(found, values, "{what}\n{:?}", enumerator.facts);
        }
        if turn != Turn::More {
            assert_eq!(turn, Turn::Done, "{what}");
            break;
        }
    }
    enumerator.advance(time, what);
    enumerator.settle(what);
    fired
}

/// The form of a case.
struct Form {
    steps: u64,
    keys: u64,
    rules: u64,
    retractions: u64,
    /// Aggregates always use trees, however few their facts are.
    is_indexed: bool,
    /// The types have more conditions than fit in a word.
    is_many: bool,
}

fn check(seed: u64, form: &Form) -> usize {
    let mut random = Random::of_seed(seed);
    let rules: Vec<Rule> = (0..1 + random.below(form.rules)).map(|_| Rule::random(&mut random)).collect();
    let texts: String = rules.iter().enumerate().map(|(number, rule)| rule.text(number)).collect();
    let many = if form.is_many { 2..42 } else { 0..0 };
    let many = many.map(|k| format!("rule keep{k} when x: t0(k = -{k}) y: t1(k = -{k}) then notify never\n"));
    let text = format!("{TYPES}{}{texts}", many.collect::<String>());
    let make = if form.is_indexed { Engine::indexed } else { Engine::new };
    let mut engine = make(&text, Limits::default()).unwrap_or_else(|error| panic!("{error}\n{text}"));
    engine.record();
    let mut enumerator =
        Enumerator { rules, facts: vec![], next: 1, clock: i64::MIN, due: vec![], waiting: Waiting::new() };
    let (mut time, mut fired) = (1_000, 0);
    for step in 0..form.steps {
        let what = format!("step {step} of seed {seed}\n{text}");
        engine.begin(Call::Fire, 0).unwrap();
        time += random.pick(&[0, 0, 1, 2, 5]);
        if random.below(100) < form.retractions && !enumerator.facts.is_empty() {
            let id = enumerator.facts[random.below(enumerator.facts.len() as u64) as usize].id;
            engine.retract(id).unwrap();
            enumerator.change(Some(id), None);
        } else {
            let late = if random.chance(15) { random.below(10) as i64 } else { 0 };
            let mut fact = Fact {
                id: 0,
                ty: random.below(2) as usize,
                at: time - late,
                k: random.below(form.keys) as i64,
                v: random.below(4) as i64,
                w: random.chance(70).then(|| random.below(4) as i64),
                f: random.below(30) as f64 / 10.0,
                n: random.below(3) as i64,
            };
            let arrival = engine.clock().after_arrival(Some(fact.at), None);
            fired += follow(&mut engine, &mut enumerator, arrival, &what);
            fact.id = enumerator.next;
            let mut fields = vec![("k", Value::Integer(fact.k)), ("v", Value::Integer(fact.v))];
            fields.extend([("f", Value::Float(fact.f)), ("n", Value::Integer(fact.n))]);
            fields.extend(fact.w.map(|w| ("w", Value::Integer(w))));
            let new = engine.types().fact(&format!("t{}", fact.ty), Some(fact.at), &fields).unwrap();
            assert_eq!(engine.assert(&new).unwrap(), fact.id);
            enumerator.next += 1;
            enumerator.change(None, Some(fact));
        }
        let now = engine.clock().now();
        fired += follow(&mut engine, &mut enumerator, now, &what);
    }
    fired + follow(&mut engine, &mut enumerator, time + 100, &format!("end of seed {seed}\n{text}"))
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

fn run(default: u64, form: &Form) -> usize {
    let first = number("RULES_SEED").unwrap_or(0);
    (first..first + number("RULES_CASES").unwrap_or(default)).map(|seed| check(seed, form)).sum()
}

#[test]
fn firings_of_rules_with_aggregates_are_those_of_the_enumerator() {
    let form = Form { steps: 24, keys: 2, rules: 3, retractions: 15, is_indexed: false, is_many: false };
    let fired = run(1_500, &form);
    assert!(fired > 5_000, "the cases are too quiet: {fired} firings");
}

#[test]
fn aggregates_of_trees_are_those_of_the_enumerator() {
    let form = Form { steps: 40, keys: 2, rules: 3, retractions: 25, is_indexed: true, is_many: false };
    let fired = run(1_500, &form);
    assert!(fired > 5_000, "the cases are too quiet: {fired} firings");
}

#[test]
fn aggregates_of_long_lists_are_those_of_the_enumerator() {
    let form = Form { steps: 400, keys: 2, rules: 1, retractions: 20, is_indexed: false, is_many: false };
    let fired = run(60, &form);
    assert!(fired > 1_000, "the cases are too quiet: {fired} firings");
}

#[test]
fn aggregates_of_types_with_many_conditions_are_those_of_the_enumerator() {
    let form = Form { steps: 24, keys: 2, rules: 2, retractions: 20, is_indexed: true, is_many: true };
    let fired = run(200, &form);
    assert!(fired > 500, "the cases are too quiet: {fired} firings");
}

/// Asserts a fact, runs, and returns the rules that fired.
fn fired(engine: &mut Engine, ty: &str, at: i64, fields: &[(&str, i64)]) -> Vec<String> {
    let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, Value::Integer(*value))).collect();
    let fact = engine.types().fact(ty, Some(at), &fields).unwrap();
    engine.assert(&fact).unwrap();
    engine.run().unwrap();
    engine.record().into_iter().map(|(rule, _)| rule).collect()
}

const MODIFY: &str = "rule change priority 1 when c: change x: b(id = c.id) then retract c, modify x(v: c.v)\n";

fn counting(rule: &str) -> Engine {
    let facts = "fact a(id: integer) fact b(id: integer, v: integer) fact change(id: integer, v: integer)\n";
    let mut engine = Engine::new(&format!("{facts}{MODIFY}{rule}"), Limits::default()).unwrap();
    engine.record();
    engine
}

#[test]
fn a_modified_fact_that_counts_as_before_makes_no_match_new() {
    let rules = [
        ("rule r when p: a n: count b(v > 0), n >= 3 then notify hit", 0),
        ("rule r when p: a n: sum b.v, n >= 10 then notify hit", 0),
        ("rule r when p: a n: max b.v, n >= 5 then notify hit", 0),
        ("rule r when p: a n: min b.v, n >= 1 then notify hit", 0),
        ("rule r when p: a none b(v = 0) then notify hit", 0),
        // The aggregate is undefined before, and its value falls in between.
        ("rule r when p: a n: count b(v = 9), n >= 1 then notify hit", 1),
    ];
    for (rule, again) in rules {
        let mut engine = counting(rule);
        for id in 1..=3 {
            fired(&mut engine, "b", 0, &[("id", id), ("v", 5)]);
        }
        let first = fired(&mut engine, "a", 0, &[("id", 1)]);
        assert_eq!(first.len() + again, 1, "{rule}");
        let mut all = fired(&mut engine, "change", 1, &[("id", 2), ("v", 9)]);
        assert_eq!(all.remove(0), "change");
        assert_eq!(all.len(), again, "{rule}");
        // It falls, and rises again: the match is new.
        for id in 1..=3 {
            fired(&mut engine, "change", 2, &[("id", id), ("v", 0)]);
        }
        let mut new = Vec::new();
        for id in 1..=3 {
            new.extend(fired(&mut engine, "change", 3, &[("id", id), ("v", 9)]));
        }
        assert_eq!(new.iter().filter(|rule| *rule == "r").count(), 1, "{rule}");
    }
}

#[test]
fn a_fact_that_is_modified_twice_in_a_firing_counts_after_each_modification() {
    let facts = "fact a(id: integer) fact b(id: integer, v: integer) fact change(id: integer)\n";
    let twice =
        "rule change priority 1 when c: change x: b(id = c.id) then retract c, modify x(v: 0), modify x(v: 7)\n";
    let rule = "rule r when p: a n: count b(v > 0), n >= 2 then notify hit";
    let mut engine = Engine::new(&format!("{facts}{twice}{rule}"), Limits::default()).unwrap();
    engine.record();
    fired(&mut engine, "b", 0, &[("id", 1), ("v", 5)]);
    fired(&mut engine, "b", 0, &[("id", 2), ("v", 5)]);
    assert_eq!(fired(&mut engine, "a", 0, &[("id", 1)]), ["r"]);
    assert_eq!(fired(&mut engine, "change", 0, &[("id", 1)]), ["change", "r"]);
}

#[test]
fn a_modification_that_changes_the_order_of_facts_of_one_time_tells_guards_of_time() {
    // The modified fact has its time and a new number, so it is no longer before the other one.
    let cases = [
        ("none b(before p)", vec![], vec!["change", "r"]),
        ("n: count b(before p), n = 0", vec![], vec!["change", "r"]),
        ("n: count b(after p), n = 1", vec![], vec!["change", "r"]),
        ("n: count b(within 5 milliseconds of p), n >= 1", vec![], vec!["change"]),
    ];
    for (guard, first, then) in cases {
        let mut engine = counting(&format!("rule r when p: a {guard} then notify hit"));
        fired(&mut engine, "b", 0, &[("id", 1), ("v", 5)]);
        assert_eq!(fired(&mut engine, "a", 0, &[("id", 1)]), first as Vec<&str>, "{guard}");
        // Nothing but the number changes.
        assert_eq!(fired(&mut engine, "change", 0, &[("id", 1), ("v", 5)]), then, "{guard}");
    }
}

#[test]
fn memory_of_trees_goes_with_their_facts() {
    let rules = "
        fact login(user: integer, amount: float, risk: integer optional)
        rule r
          when p: login
               n: count login(user = p.user, within 200 milliseconds before p), n >= 150
               s: sum login.amount(user = p.user, within 200 milliseconds before p), s > 0
               m: max login.risk(user = p.user, within 200 milliseconds before p), m > 0
          then notify hit(n: n, s: s, m: m)
    ";
    let mut engine = Engine::new(rules, Limits::default()).unwrap();
    let stream = |engine: &mut Engine, first: i64| {
        for number in first..first + 4_000 {
            // The key changes, so trees are built and freed.
            let fields = [
                ("user", Value::Integer(number / 500)),
                ("amount", Value::Float(0.1)),
                ("risk", Value::Integer(number % 100)),
            ];
            engine.assert(&engine.types().fact("login", Some(number), &fields).unwrap()).unwrap();
            engine.run().unwrap();
            let notices = engine.take_notices();
            if let Some(notice) = notices.last() {
                let n = (number % 500).min(199);
                let least = (n as f64 / 10.0).to_bits().abs_diff(match notice.values[1].1 {
                    Some(Owned::Float(sum)) => sum.to_bits(),
                    ref other => panic!("{other:?}"),
                });
                assert!(least <= 1, "{notice:?}");
                assert_eq!(notice.values[0].1, Some(Owned::Integer(n)));
                // The window holds more than a hundred facts in a row.
                assert_eq!(notice.values[2].1, Some(Owned::Integer(99)));
            } else {
                assert!(number % 500 < 150);
            }
        }
        engine.counts().used_bytes
    };
    let first = stream(&mut engine, 1_000_000);
    for round in 1..4 {
        assert_eq!(stream(&mut engine, 1_000_000 + 4_000 * round), first);
    }
}
