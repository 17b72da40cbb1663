//! Interrupts operations after any number of stores, as a trap does, and resumes them: steps, firings, facts and notices must be
//! the same.
//!
//! A part of the unit tests.

use std::panic::{catch_unwind, AssertUnwindSafe};

#[path = "../support/mod.rs"]
mod support;

use crate::{Arrival, Call, Engine, EventTime, Fact, Limits, Notice, Value};

/// More stores than any test makes in one run.
const ENOUGH: u64 = 1 << 40;

/// The final state of an engine.
#[derive(Debug, PartialEq)]
struct End {
    record: Vec<(String, Vec<u64>)>,
    facts: Vec<Vec<Fact>>,
    notices: Vec<Notice>,
    firings: u64,
    asserted: u64,
    now: i64,
}

/// Runs `operate`, interrupts it after each number of stores in `cuts`, resumes it, and returns the final state.
fn end(engine: &Engine, types: &[&str], cuts: &[u64], operate: impl Fn(&mut Engine)) -> End {
    let mut engine = engine.clone();
    engine.record();
    for cut in cuts {
        engine.cut_after(Some(*cut));
        if catch_unwind(AssertUnwindSafe(|| operate(&mut engine))).is_ok() {
            break;
        }
    }
    engine.cut_after(None);
    operate(&mut engine);
    End {
        record: engine.record(),
        facts: types.iter().map(|ty| engine.stored().facts(ty).unwrap()).collect(),
        firings: engine.counts().firings,
        asserted: engine.counts().asserted,
        now: engine.clock().now(),
        notices: engine.take_notices(),
    }
}

/// Returns the number of stores of `operate`.
fn stores(engine: &Engine, operate: impl Fn(&mut Engine)) -> u64 {
    let mut engine = engine.clone();
    engine.cut_after(Some(ENOUGH));
    operate(&mut engine);
    ENOUGH - engine.cuts_left()
}

fn check(engine: &Engine, types: &[&str], runs: u64, operate: impl Fn(&mut Engine)) {
    let whole = end(engine, types, &[], &operate);
    assert!(whole.firings > 0);
    let all = stores(engine, &operate);
    for cut in (0..all).step_by((all / runs + 1) as usize) {
        assert_same(end(engine, types, &[cut], &operate), &whole, 1, &format!("cut off after {cut} stores"));
    }
    // Repeatedly, each time a little later.
    for width in [1, 50, 1_000] {
        let cuts: Vec<u64> = (0..1_000).map(|number| number + number % 4 * width).collect();
        assert_same(end(engine, types, &cuts, &operate), &whole, cuts.len(), "cut off often");
    }
}

/// Checks that an interrupted run ends like an uninterrupted one. The record of firings is not part of the state: it may lack a
/// firing that was interrupted after its commit.
fn assert_same(mut end: End, whole: &End, cuts: usize, what: &str) {
    let record = std::mem::replace(&mut end.record, whole.record.clone());
    assert_eq!(end, *whole, "{what}");
    assert!(record.len() + cuts >= whole.record.len(), "{what}");
    let mut all = whole.record.iter();
    assert!(record.iter().all(|firing| all.any(|other| other == firing)), "{what}");
}

#[test]
fn a_run_goes_on_after_any_store() {
    let engine = support::manners::engine(8, Limits::default());
    let types = ["guest", "seating", "path", "chosen", "counter", "context"];
    check(&engine, &types, 20_000, |engine| {
        engine.run().unwrap();
    });
}

#[test]
fn a_run_with_many_conditions_goes_on_after_any_store() {
    let engine = support::waltzdb::engine(0, Limits::default());
    check(&engine, &["edge", "junction", "edge_label", "stage"], 300, |engine| {
        engine.run().unwrap();
    });
}

const STREAM: &str = "
    fact order(id: integer, user: string)
    fact payment(order: integer)
    rule unpaid
      when o: order
           none payment(order = o.id) within 10 milliseconds after o
      then notify unpaid(order: o.id, user: o.user)
    rule busy
      when o: order
           n: count order(user = o.user, within 5 milliseconds before o), n >= 2
      then notify busy(user: o.user, orders: n), retract o
";

#[test]
fn a_stream_goes_on_after_any_store() {
    let engine = Engine::new(STREAM, Limits::default()).unwrap();
    check(&engine, &["order", "payment"], 2_000, stream);
}

/// Inserts the stream, or resumes it at the engine's position.
fn stream(engine: &mut Engine) {
    // An interrupted step may have set the position.
    engine.recover();
    for number in engine.progress().position as i64..24 {
        let user = format!("user{}", number * number % 5);
        let fields = [("id", Value::Integer(number)), ("user", Value::String(user.as_bytes()))];
        let paid = [("order", Value::Integer(number - 4))];
        let fact = match number % 3 {
            0 => engine.types().fact("payment", Some(2 * number), &paid),
            _ => engine.types().fact("order", Some(2 * number), &fields),
        };
        engine.run().unwrap();
        engine.assert(Arrival { position: number as u32 + 1, ..Arrival::from(&fact.unwrap()) }).unwrap();
    }
    engine.run().unwrap();
    engine.advance(EventTime::OfAll(1_000)).unwrap();
    engine.run().unwrap();
}

#[test]
fn a_transaction_is_rolled_back_after_any_store() {
    let mut engine = Engine::new(STREAM, Limits::default()).unwrap();
    let whole = end(&engine, &["order", "payment"], &[], stream);
    // Keeps a prefix of the stream, and repeats the whole stream several times.
    let stores = stores(&engine, stream);
    for kept in [0, 0, stores / 3, 2 * stores / 3] {
        engine.cut_after(Some(kept));
        let _cut = catch_unwind(AssertUnwindSafe(|| stream(&mut engine)));
        engine.cut_after(None);
        for cut in (0..stores).step_by(7) {
            engine.begin_transaction().unwrap();
            engine.cut_after(Some(cut));
            let _cut = catch_unwind(AssertUnwindSafe(|| stream(&mut engine)));
            engine.cut_after(None);
            engine.roll_back();
        }
        let last = end(&engine, &["order", "payment"], &[], stream);
        assert_eq!(End { record: whole.record.clone(), ..last }, whole, "after {kept} stores");
    }
}

#[test]
fn a_stream_whose_aggregates_have_trees_goes_on_after_any_store() {
    let rules = "
        fact login(id: integer, user: string, amount: float, risk: integer)
        fact check(id: integer)
        rule often
          when p: login
               n: count login(user = p.user, within 9 milliseconds before p), n >= 5
               s: sum login.amount(user = p.user, within 9 milliseconds before p), s > 1.0
          then notify often(id: p.id, logins: n, amount: s)
        rule risky
          when p: login
               m: max login.risk(user = p.user, within 6 milliseconds after p), m >= 9
          then notify risky(id: p.id, risk: m)
        rule checked priority 1
          when c: check
               p: login(id = c.id, within 90 milliseconds before c)
          then retract c, modify p(risk: p.risk + 3, amount: p.amount * 2.0)
    ";
    let engine = Engine::indexed(rules, Limits::default()).unwrap();
    check(&engine, &["login", "check"], 2_000, |engine| {
        // An interrupted step may have set the position.
        engine.recover();
        for number in engine.progress().position as i64..30 {
            let user = format!("user{}", number % 2);
            let late = if number % 7 == 3 { 4 } else { 0 };
            let login = [
                ("id", Value::Integer(number)),
                ("user", Value::String(user.as_bytes())),
                ("amount", Value::Float(number as f64 / 10.0)),
                ("risk", Value::Integer(number * 5 % 9)),
            ];
            let checked = [("id", Value::Integer(number - 3))];
            let fact = match number % 5 {
                4 => engine.types().fact("check", Some(2 * number), &checked),
                _ => engine.types().fact("login", Some(2 * number - late), &login),
            };
            engine.run().unwrap();
            engine.assert(Arrival { position: number as u32 + 1, ..Arrival::from(&fact.unwrap()) }).unwrap();
        }
        engine.run().unwrap();
        if let Some(login) = engine.stored().facts("login").unwrap().iter().find(|login| login.at == 54) {
            engine.retract(login.id).unwrap();
        }
        engine.run().unwrap();
        engine.advance(EventTime::OfAll(1_000)).unwrap();
        engine.run().unwrap();
        assert_eq!(engine.stored().count("login").unwrap(), 0);
    });
}

#[test]
fn a_stream_of_late_facts_goes_on_after_any_store() {
    let rules = "
        fact order(id: integer, user: string)
        fact payment(order: integer)
        rule unpaid
          when o: order(user <> 'gone')
               none payment(order = o.id) within 10 milliseconds after o
          then notify unpaid(order: o.id, user: o.user), modify o(user: 'gone')
    ";
    let mut engine = Engine::new(rules, Limits::default()).unwrap();
    engine.set_lateness(9).unwrap();
    check(&engine, &["order", "payment"], 2_000, |engine| {
        engine.recover();
        for number in engine.progress().position as i64..24 {
            let user = format!("user{}", number * number % 5);
            let fields = [("id", Value::Integer(number)), ("user", Value::String(user.as_bytes()))];
            let at = 2 * (number + number % 4);
            let fact = match number % 3 {
                0 => engine.types().fact("payment", Some(at), &[("order", Value::Integer(number - 4))]),
                _ => engine.types().fact("order", Some(at), &fields),
            };
            let source = [None, Some(&b"web"[..]), Some(&b"shop"[..])][number as usize % 3];
            engine.run().unwrap();
            let (fact, next) = (fact.unwrap(), number as u32 + 1);
            engine.assert(Arrival { source, position: next, ..Arrival::from(&fact) }).unwrap();
        }
        // The operations go on one by one, each as a whole.
        if engine.progress().position == 24 {
            engine.run().unwrap();
            // A waiting fact, and one that has waited, by number.
            for id in [6, 20] {
                let _gone_before_the_cut = engine.retract(id);
            }
            engine.begin(Call::Fire, 25).unwrap();
        }
        if engine.progress().position == 25 {
            engine.advance(EventTime::End(Some(b"shop"))).unwrap();
            engine.begin(Call::Fire, 26).unwrap();
        }
        if engine.progress().position == 26 {
            engine.advance(EventTime::Of(Some(b"web"), 500)).unwrap();
            engine.begin(Call::Fire, 27).unwrap();
        }
        engine.advance(EventTime::OfAll(1_000)).unwrap();
        engine.run().unwrap();
    });
}
