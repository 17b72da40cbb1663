//! Rolls operations back, and compares the engine with a copy that never began them.

#[path = "naive/random.rs"]
mod random;
mod support;

use be_tree_rules::{Call, Engine, EventTime, Fact, Limits, Notice, Pause, Value};
use random::Random;
use support::manners;

/// Windows, aggregates, strings, and rules that insert, modify and retract.
const RULES: &str = "
    fact order(id: integer, user: string)
    fact payment(order: integer)
    fact late(id: integer, user: string)
    rule unpaid
      when o: order
           none payment(order = o.id) within 10 milliseconds after o
      then assert late(id: o.id, user: o.user), notify unpaid(order: o.id, user: o.user)
    rule busy
      when o: order
           n: count order(user = o.user, within 20 milliseconds before o), n >= 3
      then modify o(id: o.id + 100), notify busy(user: o.user, orders: n)
    rule paid priority 1
      when o: order
           p: payment(order = o.id)
      then retract p, retract o, notify paid(order: o.id)
    rule forget
      when l: late
           none payment(order < 0) within 40 milliseconds after l
      then retract l
";
const TYPES: [&str; 3] = ["order", "payment", "late"];

/// An operation, by random numbers.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Order(i64, u64, i64),
    Payment(i64),
    Retract(u64),
    Advance(i64),
}

fn operation(random: &mut Random, now: &mut i64) -> Operation {
    *now += random.below(4) as i64;
    match random.below(10) {
        0..=4 => Operation::Order(random.below(30) as i64, random.below(5), *now - random.below(3) as i64),
        5 | 6 => Operation::Payment(random.below(30) as i64),
        7 => Operation::Retract(random.below(40)),
        _ => {
            *now += random.below(30) as i64;
            Operation::Advance(*now)
        }
    }
}

/// Runs an operation as far as its limit on firings allows.
fn make(engine: &mut Engine, operation: Operation) {
    engine.begin(Call::Fire, 0).unwrap();
    match operation {
        Operation::Order(id, user, at) => {
            let user = format!("user {user} with a name that is long enough to be a string of its own");
            let fields = [("id", Value::Integer(id)), ("user", Value::String(user.as_bytes()))];
            let _limit = engine.assert(&engine.types().fact("order", Some(at), &fields).unwrap());
        }
        Operation::Payment(order) => {
            let _limit =
                engine.assert(&engine.types().fact("payment", None, &[("order", Value::Integer(order))]).unwrap());
        }
        Operation::Retract(back) => {
            let _not_found = engine.retract(engine.counts().asserted.saturating_sub(back));
        }
        Operation::Advance(now) => {
            let _limit = engine.advance(EventTime::OfAll(now));
        }
    }
    engine.run().unwrap();
}

/// The observable state of an engine.
type State = (Vec<Vec<Fact>>, Vec<Notice>, [u64; 4], i64, Option<i64>, bool);

fn state(engine: &Engine) -> State {
    let facts = TYPES.iter().map(|ty| engine.stored().facts(ty).unwrap()).collect();
    let counts = [
        engine.counts().firings,
        engine.counts().asserted,
        engine.counts().facts.into(),
        engine.counts().notices.into(),
    ];
    (facts, engine.fired().notices(), counts, engine.clock().now(), engine.clock().next_due(), engine.is_busy())
}

#[test]
fn a_transaction_that_is_rolled_back_never_was() {
    let mut rolled_back = 0;
    for seed in 1..=60 {
        let mut random = Random::of_seed(seed);
        // Small limits, so that operations stop in their middle.
        let limits = Limits { firings: 3, notices: 5, ..Limits::default() };
        // An engine made by `indexed` also reads aggregates of few facts from trees.
        let new = if seed % 2 == 0 { Engine::indexed } else { Engine::new };
        let mut engine = new(RULES, limits).unwrap();
        let mut twin = engine.clone();
        let mut now = 0;
        for step in 0..120 {
            engine.begin_transaction().unwrap();
            let is_kept = random.below(3) > 0;
            let mut time = now;
            for _ in 0..1 + random.below(4) {
                let operation = operation(&mut random, &mut time);
                make(&mut engine, operation);
                if is_kept {
                    make(&mut twin, operation);
                }
            }
            if is_kept {
                now = time;
                if random.below(3) == 0 {
                    assert!(engine.take_notices() == twin.take_notices(), "seed {seed}, step {step}");
                }
            } else {
                if random.below(2) == 0 {
                    engine.take_notices();
                }
                engine.roll_back();
                rolled_back += 1;
            }
            assert!(state(&engine) == state(&twin), "seed {seed}, step {step}");
        }
    }
    assert!(rolled_back > 1_000);
}

#[test]
fn a_loop_of_rules_is_rolled_back_with_little_memory() {
    let rules = "
        fact click(id: integer)
        fact session(id: integer)
        rule open when c: click none session then assert session(id: c.id)
        rule close when s: session then retract s
    ";
    let mut engine = Engine::new(rules, Limits { firings: 100_000, ..Limits::default() }).unwrap();
    support::assert(&mut engine, "session", &[("id", Value::Integer(0))]);
    let memory = engine.counts().memory_bytes;
    engine.begin_transaction().unwrap();
    engine.begin(Call::Fire, 0).unwrap();
    support::assert(&mut engine, "click", &[("id", Value::Integer(1))]);
    assert_eq!(engine.run().unwrap().pause, Some(Pause::Firings));
    assert!(engine.counts().memory_bytes < memory + 100_000, "{memory} bytes, then {}", engine.counts().memory_bytes);
    engine.roll_back();
    assert_eq!(
        (engine.stored().count("click").unwrap(), engine.stored().count("session").unwrap(), engine.counts().firings),
        (0, 1, 0)
    );
    engine.begin(Call::Fire, 0).unwrap();
    assert_eq!(engine.run().unwrap().pause, None);
}

/// Returns an engine with 8,000 orders that become late, and are forgotten, while time advances.
fn with_unpaid_orders() -> Engine {
    let rules = "
        fact order(id: integer, user: string)
        fact payment(order: integer)
        fact late(id: integer, user: string)
        rule unpaid
          when o: order
               none payment(order = o.id) within 1 hours after o
          then assert late(id: o.id, user: o.user)
        rule forget
          when l: late
               none payment(order < 0) within 1 hours after l
          then retract l
    ";
    let mut engine = Engine::new(rules, Limits::default()).unwrap();
    for id in 0..8_000 {
        let fields = [("id", Value::Integer(id)), ("user", Value::String(b"ann"))];
        engine.assert(&engine.types().fact("order", Some(10 * id), &fields).unwrap()).unwrap();
    }
    engine.run().unwrap();
    engine
}

#[test]
fn an_advance_saves_its_time_where_nothing_is_due() {
    let mut engine = with_unpaid_orders();
    let mut twin = engine.clone();
    for turns in [0, 20_000, 20_000] {
        let before = engine.clock().now();
        engine.begin_transaction().unwrap();
        for _ in 0..turns {
            assert_eq!(engine.turn_to(1 << 40).unwrap(), be_tree_rules::Turn::More);
            engine.save_time();
        }
        engine.roll_back();
        assert_eq!(engine.clock().now() > before, turns > 0, "{before}");
        twin.advance(EventTime::OfAll(engine.clock().now())).unwrap();
        assert!(state(&engine) == state(&twin), "{turns}");
    }
}

#[test]
fn an_advance_after_an_asserted_or_retracted_fact_is_rolled_back_with_it() {
    for is_asserted in [true, false] {
        let mut engine = with_unpaid_orders();
        let before = state(&engine);
        engine.begin_transaction().unwrap();
        if is_asserted {
            let fields = [("id", Value::Integer(8_000)), ("user", Value::String(b"bob"))];
            engine.assert(&engine.types().fact("order", Some(90_000), &fields).unwrap()).unwrap();
        } else {
            let id = engine.stored().facts("order").unwrap()[0].id;
            engine.retract(id).unwrap();
        }
        for _ in 0..40_000 {
            engine.turn_to(1 << 40).unwrap();
            engine.save_time();
        }
        assert_eq!(engine.roll_back(), None);
        assert!(state(&engine) == before);
    }
}

#[test]
fn a_run_of_manners_is_rolled_back_and_made_again() {
    let mut engine = manners::engine(16, Limits::default());
    let mut twin = engine.clone();
    let firings = twin.run().unwrap().firings;
    for _ in 0..3 {
        engine.begin_transaction().unwrap();
        engine.begin(Call::Fire, 0).unwrap();
        assert_eq!(engine.run().unwrap().firings, firings);
        engine.roll_back();
    }
    engine.begin(Call::Fire, 0).unwrap();
    assert_eq!(engine.run().unwrap().firings, firings);
    assert_eq!(engine.stored().facts("seating").unwrap(), twin.stored().facts("seating").unwrap());
}
