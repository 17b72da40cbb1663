//! Whatever the bytes: rules, or an error with a place in the text. Facts of every type are then asserted, retracted and timed.

#![no_main]

use be_tree_rules::{Arrival, Call, Engine, EventTime, Limits, Value};
use libfuzzer_sys::fuzz_target;

const FACTS: &str = "
fact order(id: integer 0..99, user: string, total: float optional, paid: boolean)
fact payment(order: integer, user: string optional)
";

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let limits = Limits { memory: 1 << 24, facts: 200, firings: 200, notices: 50 };
    let mut engine = match Engine::new(&format!("{FACTS}{text}"), limits) {
        Ok(engine) => engine,
        Err(error) => {
            assert!(error.place.is_some(), "{error} has no place");
            return;
        }
    };
    for number in 0..40_i64 {
        let user = [b'a' + (number % 3) as u8];
        let (user, at) = (Value::String(&user), Some(1_000 * number));
        let total = (number % 4 > 0).then_some(Value::Float(number as f64 / 2.0));
        let order = [Some(Value::Integer(number)), Some(user), total, Some(Value::Boolean(number % 2 == 0))];
        let payment = [Some(Value::Integer(number - 3)), (number % 5 > 0).then_some(user)];
        let _ = engine.begin(Call::Fire, 0);
        // Rules may fire until a limit refuses more.
        let (ty, values) = if number % 3 == 2 { (1, &payment[..]) } else { (0, &order[..]) };
        let _ = engine.assert(Arrival::new(ty, at, values));
        let _ = engine.run();
        engine.take_notices();
        if let Some(fact) = engine.stored().facts("order").ok().and_then(|facts| facts.into_iter().nth(3)) {
            if number % 7 == 6 {
                engine.retract(fact.id).expect("the fact exists");
            }
        }
    }
    let _ = engine.begin(Call::Fire, 0);
    let _ = engine.advance(EventTime::OfAll(1_000_000));
    let facts = engine.stored().facts("order").map_or(0, |facts| facts.len()) as u32;
    assert_eq!(engine.stored().count("order").ok(), Some(facts));
});
