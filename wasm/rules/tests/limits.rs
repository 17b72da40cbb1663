//! Limits: an operation beyond a limit is refused and changes nothing, and freed memory is reused.

mod support;

use be_tree_rules::{Call, Engine, Fact, Kind, Limits, Pause, Turn, Value};
use support::waltzdb;

const CHAIN: &str = "
    fact step(number: integer, name: string)
    rule next when s: step(number > 0) then retract s, assert step(number: s.number - 1, name: s.name), notify at(number: s.number)
";

fn start(engine: &mut Engine, number: i64) {
    support::assert(engine, "step", &[("number", Value::Integer(number)), ("name", Value::String(b"a name"))]);
}

#[test]
fn a_run_pauses_at_its_limits_and_goes_on() {
    let limits = Limits { firings: 10, notices: 25, ..Limits::default() };
    let mut engine = Engine::new(CHAIN, limits).unwrap();
    start(&mut engine, 100);
    let mut pauses = Vec::new();
    let mut notices = 0;
    loop {
        engine.begin(Call::Fire, 0).unwrap();
        let run = engine.run().unwrap();
        match run.pause {
            None => break,
            Some(Pause::Notices) => notices += engine.take_notices().len(),
            Some(Pause::Firings) => assert_eq!(run.firings, 10),
        }
        pauses.push(run.pause.unwrap());
    }
    notices += engine.take_notices().len();
    assert_eq!((engine.counts().firings, notices), (100, 100));
    assert!(pauses.contains(&Pause::Notices) && pauses.contains(&Pause::Firings));
    assert_eq!(engine.stored().count("step").unwrap(), 1);
}

/// Rules that search in vain, wait for the ends of windows, and take facts from one another.
const WINDOWS: &str = "
    fact order(id: integer)
    fact payment(order: integer)
    fact late(id: integer)
    rule late
      when o: order
           none payment(order = o.id) within 10 milliseconds after o
      then retract o, assert late(id: o.id), notify late(id: o.id)
    rule far
      when l: late
           o: order(id > l.id + 4)
      then notify far(id: l.id)
    rule paid priority 1
      when o: order
           p: payment(order = o.id)
      then retract p
    rule alone
      when l: late
           none payment(order > l.id)
           o: order(id > l.id)
      then notify alone(id: l.id)
";

const WINDOWS_TYPES: [&str; 3] = ["order", "payment", "late"];

/// A list of facts, fired as the guest fires them: before each fact, the rules that its time makes due.
struct List {
    engine: Engine,
    inserted: i64,
}

impl List {
    const LENGTH: i64 = 30;

    fn new(firings: u32) -> Self {
        let mut engine = Engine::new(WINDOWS, Limits { firings, ..Limits::default() }).unwrap();
        engine.record();
        engine.begin(Call::Fire, 0).unwrap();
        List { engine, inserted: 0 }
    }

    /// Takes a turn, inserts the next fact, or, once `length` facts are inserted, moves time to `end`.
    fn turn(&mut self, length: i64, end: i64) -> Turn {
        let number = self.inserted;
        let is_open = number < length;
        match self.engine.turn_to(if is_open { 4 * number } else { end }).unwrap() {
            Turn::Done if is_open => {
                let (ty, field, value) =
                    if number % 3 == 2 { ("payment", "order", number - 1) } else { ("order", "id", number) };
                let fact = self.engine.types().fact(ty, Some(4 * number), &[(field, Value::Integer(value))]).unwrap();
                self.engine.assert(&fact).unwrap();
                self.inserted += 1;
                Turn::More
            }
            turn => turn,
        }
    }

    /// Runs to the end in calls of as many firings as the limit allows. Returns all facts, and the number of calls.
    fn finish(&mut self) -> (Vec<Vec<Fact>>, u32) {
        let mut calls = 1;
        loop {
            match self.turn(Self::LENGTH, 1_000) {
                Turn::More => {}
                Turn::Done => break,
                Turn::Paused(pause) => {
                    assert_eq!(pause, Pause::Firings);
                    // The pause changed nothing, and a rule fires at once.
                    assert_eq!(self.turn(Self::LENGTH, 1_000), Turn::Paused(pause));
                    self.engine.begin(Call::Fire, 0).unwrap();
                    assert_eq!(self.turn(Self::LENGTH, 1_000), Turn::More);
                    assert_eq!(self.engine.progress().firings, 1);
                    calls += 1;
                }
            }
        }
        (self.facts(), calls)
    }

    fn facts(&self) -> Vec<Vec<Fact>> {
        WINDOWS_TYPES.map(|ty| self.engine.stored().facts(ty).unwrap()).into()
    }
}

#[test]
fn a_call_pauses_only_where_a_rule_would_fire() {
    let mut whole = List::new(u32::MAX);
    let (facts, calls) = whole.finish();
    let record = whole.engine.record();
    let fired: std::collections::BTreeSet<&str> = record.iter().map(|(rule, _)| rule.as_str()).collect();
    assert_eq!(fired.len(), 4, "{fired:?}");
    assert_eq!(calls, 1);
    for firings in [1, 2, 3, 7] {
        let mut list = List::new(firings);
        let found = list.finish();
        assert_eq!(found, (facts.clone(), (record.len() as u32).div_ceil(firings)), "{firings} firings a call");
        assert_eq!(list.engine.record(), record, "{firings} firings a call");
    }
}

#[test]
fn the_same_number_of_firings_comes_as_far_as_a_cut() {
    let mut cut = List::new(u32::MAX);
    let (mut turns, mut while_time_moved) = (0, 0);
    loop {
        let (firings, now) = (cut.engine.progress().firings, cut.engine.clock().now());
        let mut again = List::new(firings);
        loop {
            match again.turn(cut.inserted, now) {
                Turn::More => {}
                Turn::Done | Turn::Paused(Pause::Firings) => break,
                Turn::Paused(pause) => panic!("{pause:?}"),
            }
        }
        assert_eq!((again.inserted, again.engine.clock().now()), (cut.inserted, now), "cut after {turns} turns");
        assert_eq!(again.facts(), cut.facts(), "cut after {turns} turns");
        let mut rest = List { engine: cut.engine.clone(), inserted: cut.inserted };
        for list in [&mut again, &mut rest] {
            list.engine.set_limits(Limits { firings: u32::MAX, ..Limits::default() });
            list.finish();
        }
        assert_eq!(again.facts(), rest.facts(), "cut after {turns} turns");
        assert_eq!(again.engine.record(), rest.engine.record(), "cut after {turns} turns");

        let (inserted, time) = (cut.inserted, cut.engine.clock().now());
        if cut.turn(List::LENGTH, 1_000) == Turn::Done {
            break;
        }
        turns += 1;
        while_time_moved += u32::from(cut.inserted == inserted && cut.engine.clock().now() > time);
    }
    assert!(turns > 100 && while_time_moved >= 15, "{turns} turns, {while_time_moved} while time moved");
}

#[test]
fn the_smallest_slices_have_the_same_totals() {
    let mut engine = waltzdb::engine(1, Limits { firings: 1, ..Limits::default() });
    loop {
        engine.begin(Call::Fire, 0).unwrap();
        if engine.run().unwrap().pause.is_none() {
            break;
        }
    }
    assert_eq!(engine.counts().firings, 1_593);
    assert_eq!(engine.stored().count("edge_label").unwrap(), 865);
}

#[test]
fn a_fact_beyond_the_limit_is_refused_and_changes_nothing() {
    let mut engine = Engine::new(CHAIN, Limits { facts: 3, ..Limits::default() }).unwrap();
    (0..3).for_each(|_| start(&mut engine, 0));
    let before = engine.stored().facts("step").unwrap();
    let fields = [("number", Value::Integer(0)), ("name", Value::String(b"other"))];
    let fact = engine.types().fact("step", None, &fields).unwrap();
    assert_eq!(engine.assert(&fact).unwrap_err().kind, Kind::OutOfBounds);
    assert_eq!(engine.stored().facts("step").unwrap(), before);
    engine.retract(before[1].id).unwrap();
    assert_eq!(engine.retract(before[1].id).unwrap_err().kind, Kind::NotFound);
    engine.assert(&fact).unwrap();
    assert_eq!(engine.counts().facts, 3);
}

#[test]
fn a_fact_that_does_not_fit_in_memory_is_refused_and_changes_nothing() {
    let mut engine = Engine::new(CHAIN, Limits { memory: 210_000, ..Limits::default() }).unwrap();
    let mut inserted = 0_u32;
    let long = vec![b'x'; 1_000];
    let error = loop {
        let name = [&long[..], inserted.to_string().as_bytes()].concat();
        let fields = [("number", Value::Integer(0)), ("name", Value::String(&name))];
        let fact = engine.types().fact("step", None, &fields).unwrap();
        match engine.assert(&fact) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, Kind::OutOfMemory);
    assert!(inserted > 20, "{inserted}");
    assert_eq!((engine.counts().facts, engine.stored().count("step").unwrap()), (inserted, inserted));
    assert!(engine.counts().memory_bytes <= 210_000);
    // Memory of retracted facts is reused. Numbers now begin within a page, so they take one page more, which fits too.
    for _ in 0..3 {
        for fact in engine.stored().facts("step").unwrap() {
            engine.retract(fact.id).unwrap();
        }
        for number in 0..inserted {
            let name = [&long[..], number.to_string().as_bytes()].concat();
            support::assert(&mut engine, "step", &[("number", Value::Integer(0)), ("name", Value::String(&name))]);
        }
        assert_eq!(engine.counts().facts, inserted);
    }
}

#[test]
fn a_firing_that_does_not_fit_stays_due() {
    let rules = "
        fact seed(number: integer)
        fact made(number: integer)
        rule make when s: seed then assert made(number: s.number), modify s(number: s.number + 1)
    ";
    let mut engine = Engine::new(rules, Limits { facts: 50, ..Limits::default() }).unwrap();
    support::assert(&mut engine, "seed", &[("number", Value::Integer(0))]);
    assert_eq!(engine.run().unwrap_err().kind, Kind::OutOfBounds);
    assert_eq!((engine.stored().count("made").unwrap(), engine.counts().firings), (49, 49));
    assert_eq!(engine.run().unwrap_err().kind, Kind::OutOfBounds);
    let seed = engine.stored().facts("seed").unwrap()[0].id;
    engine.retract(seed).unwrap();
    assert_eq!(engine.run().unwrap().pause, None);
    assert_eq!(engine.counts().firings, 49);
}

#[test]
fn memory_stays_flat_over_a_stream() {
    let rules = "
        fact order(id: integer, user: string)
        fact payment(order: integer)
        rule unpaid
          when o: order
               none payment(order = o.id) within 10 minutes after o
          then notify unpaid(order: o.id)
    ";
    let mut engine = Engine::new(rules, Limits::default()).unwrap();
    let (mut unpaid, mut memory) = (0, 0);
    for number in 0..60_000_i64 {
        engine.begin(Call::Fire, 0).unwrap();
        let at = number * 1_000;
        let user = format!("user {number}");
        let fields = [("id", Value::Integer(number)), ("user", Value::String(user.as_bytes()))];
        let order = engine.types().fact("order", Some(at), &fields).unwrap();
        engine.assert(&order).unwrap();
        if number % 3 == 0 {
            let payment =
                engine.types().fact("payment", Some(at + 500), &[("order", Value::Integer(number - 30))]).unwrap();
            engine.assert(&payment).unwrap();
        }
        unpaid += engine.take_notices().len();
        if number == 20_000 {
            memory = engine.counts().used_bytes;
        }
    }
    assert_eq!(engine.counts().used_bytes, memory);
    assert!(engine.counts().facts <= 600 + 200 + 2, "{}", engine.counts().facts);
    // Two of three orders stay unpaid, apart from those that are not due yet.
    assert_eq!(unpaid, 60_000 - 600 - (60_000 - 600) / 3);
}

#[test]
fn a_call_that_fires_too_many_rules_knows_their_cycle() {
    let text = "fact click(x: integer) fact session(x: integer) fact step(x: integer)
        rule first when s: step(x = 0) then modify s(x: 1)
        rule open when click none session then assert session(x: 1)
        rule close when s: session then retract s";
    let limits = Limits { firings: 1_000, ..Limits::default() };
    let mut engine = Engine::new(text, limits).unwrap();
    engine.begin_transaction().unwrap();
    engine.begin(Call::Fire, 0).unwrap();
    assert_eq!(engine.fired().cycle(), [""; 0]);
    support::assert(&mut engine, "step", &[("x", Value::Integer(0))]);
    support::assert(&mut engine, "click", &[("x", Value::Integer(0))]);
    assert_eq!(engine.run().unwrap().pause, Some(Pause::Firings));
    assert_eq!(engine.fired().cycle(), ["open", "close"]);
    // A transaction forgets the firings before it.
    engine.begin_transaction().unwrap();
    engine.begin(Call::Fire, 0).unwrap();
    assert_eq!(engine.fired().cycle(), [""; 0]);
}

#[test]
fn firings_without_a_repeated_sequence_name_the_most_frequent_rules() {
    let text = "fact t(x: integer)
        rule even when t: t(x mod 3 = 0) then notify n
        rule odd when t: t(x mod 3 <> 0) then notify n";
    let mut engine = Engine::new(text, Limits::default()).unwrap();
    engine.begin_transaction().unwrap();
    engine.begin(Call::Fire, 0).unwrap();
    for x in [1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 1] {
        support::assert(&mut engine, "t", &[("x", Value::Integer(x))]);
        engine.run().unwrap();
    }
    assert_eq!(engine.fired().cycle(), ["odd", "even"]);
}
