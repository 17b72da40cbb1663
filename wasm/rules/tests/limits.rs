//! Limits: an operation beyond one is refused and changes nothing, and memory is used again.

mod support;

use be_tree_rules::{Engine, Kind, Limits, Pause, Value};
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
        engine.begin().unwrap();
        let run = engine.run().unwrap();
        match run.pause {
            None => break,
            Some(Pause::Notices) => notices += engine.take_notices().len(),
            Some(Pause::Firings) => assert_eq!(run.firings, 10),
        }
        pauses.push(run.pause.unwrap());
    }
    notices += engine.take_notices().len();
    assert_eq!((engine.firings(), notices), (100, 100));
    assert!(pauses.contains(&Pause::Notices) && pauses.contains(&Pause::Firings));
    assert_eq!(engine.count("step").unwrap(), 1);
}

#[test]
fn the_smallest_slices_have_the_same_totals() {
    let mut engine = waltzdb::engine(1, Limits { firings: 1, ..Limits::default() });
    loop {
        engine.begin().unwrap();
        if engine.run().unwrap().pause.is_none() {
            break;
        }
    }
    assert_eq!(engine.firings(), 1_593);
    assert_eq!(engine.count("edge_label").unwrap(), 865);
}

#[test]
fn a_fact_beyond_the_limit_is_refused_and_changes_nothing() {
    let mut engine = Engine::new(CHAIN, Limits { facts: 3, ..Limits::default() }).unwrap();
    (0..3).for_each(|_| start(&mut engine, 0));
    let before = engine.facts("step").unwrap();
    let fields = [("number", Value::Integer(0)), ("name", Value::String(b"other"))];
    let fact = engine.fact("step", None, &fields).unwrap();
    assert_eq!(engine.assert(&fact).unwrap_err().kind, Kind::OutOfBounds);
    assert_eq!(engine.facts("step").unwrap(), before);
    engine.retract(before[1].id).unwrap();
    assert_eq!(engine.retract(before[1].id).unwrap_err().kind, Kind::NotFound);
    engine.assert(&fact).unwrap();
    assert_eq!(engine.len(), 3);
}

#[test]
fn a_fact_that_does_not_fit_in_memory_is_refused_and_changes_nothing() {
    let mut engine = Engine::new(CHAIN, Limits { memory: 200_000, ..Limits::default() }).unwrap();
    let mut inserted = 0_u32;
    let long = vec![b'x'; 1_000];
    let error = loop {
        let name = [&long[..], inserted.to_string().as_bytes()].concat();
        let fields = [("number", Value::Integer(0)), ("name", Value::String(&name))];
        let fact = engine.fact("step", None, &fields).unwrap();
        match engine.assert(&fact) {
            Ok(_) => inserted += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind, Kind::OutOfMemory);
    assert!(inserted > 20, "{inserted}");
    assert_eq!((engine.len(), engine.count("step").unwrap()), (inserted, inserted));
    assert!(engine.memory_bytes() <= 200_000);
    // The room of retracted facts serves again.
    for _ in 0..3 {
        for fact in engine.facts("step").unwrap() {
            engine.retract(fact.id).unwrap();
        }
        for number in 0..inserted {
            let name = [&long[..], number.to_string().as_bytes()].concat();
            support::assert(&mut engine, "step", &[("number", Value::Integer(0)), ("name", Value::String(&name))]);
        }
        assert_eq!(engine.len(), inserted);
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
    assert_eq!((engine.count("made").unwrap(), engine.firings()), (49, 49));
    assert_eq!(engine.run().unwrap_err().kind, Kind::OutOfBounds);
    let seed = engine.facts("seed").unwrap()[0].id;
    engine.retract(seed).unwrap();
    assert_eq!(engine.run().unwrap().pause, None);
    assert_eq!(engine.firings(), 49);
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
        engine.begin().unwrap();
        let at = number * 1_000;
        let user = format!("user {number}");
        let fields = [("id", Value::Integer(number)), ("user", Value::String(user.as_bytes()))];
        let order = engine.fact("order", Some(at), &fields).unwrap();
        engine.assert(&order).unwrap();
        if number % 3 == 0 {
            let payment = engine.fact("payment", Some(at + 500), &[("order", Value::Integer(number - 30))]).unwrap();
            engine.assert(&payment).unwrap();
        }
        unpaid += engine.take_notices().len();
        if number == 20_000 {
            memory = engine.used_bytes();
        }
    }
    assert_eq!(engine.used_bytes(), memory);
    assert!(engine.len() <= 600 + 200 + 2, "{}", engine.len());
    // Two of three orders stay unpaid, apart from those that are not due yet.
    assert_eq!(unpaid, 60_000 - 600 - (60_000 - 600) / 3);
}
