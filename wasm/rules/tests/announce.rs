//! Announcing facts before their insertion changes no result.

#[path = "naive/random.rs"]
mod random;

use be_tree_rules::{Arrival, Call, Engine, Fact, Limits, Value, GROUP};
use random::Random;

const RULES: &str = "
fact login(user: integer, ok: boolean optional)
fact change(user: integer, weight: float optional, name: string optional)
fact order(id: float, who: string)
fact payment(order: float optional, who: string)

rule takeover
  when a: login(not ok)
       b: login(not ok, user = a.user), after a within 5 seconds
       c: change(user = a.user), after b within 5 seconds
  then notify takeover(user: a.user), retract a

rule unpaid
  when o: order
       none payment(order = o.id, who = o.who) within 10 seconds after o
  then notify unpaid(order: o.id), retract o

rule weighed
  when c: change
       d: change(user = c.user, weight = c.weight, name = c.name), within 3 seconds of c
  then notify weighed(user: c.user), retract d

rule same
  when l: login
       p: payment(order = l.user), within 2 seconds of l
  then notify same(user: l.user), retract p
";

const NAMES: [&[u8]; 3] = [b"ann", b"bob", b"a name that is longer than a few words of the memory, and then some more"];

type Row = (usize, Option<i64>, Vec<Option<Value<'static>>>);

fn row(random: &mut Random, now: i64) -> Row {
    let ty = random.below(4) as usize;
    let key = random.below(6) as i64;
    let name = Some(Value::String(NAMES[random.below(3) as usize]));
    let optional = |value, random: &mut Random| (random.below(4) > 0).then_some(value);
    let time = match random.below(8) {
        0 => None,
        1 => Some(now - 4_000),
        _ => Some(now),
    };
    // An integer may stand for a float.
    let number = if random.below(2) == 0 { Value::Integer(key) } else { Value::Float(key as f64) };
    let values = match ty {
        0 => vec![Some(Value::Integer(key)), optional(Value::Boolean(random.below(3) == 0), random)],
        1 => vec![Some(Value::Integer(key)), optional(number, random), name.filter(|_| key > 1)],
        2 => vec![Some(number), name],
        _ => vec![optional(number, random), name],
    };
    (ty, time, values)
}

fn facts(engine: &Engine) -> Vec<Vec<Fact>> {
    ["login", "change", "order", "payment"].map(|ty| engine.stored().facts(ty).unwrap()).into()
}

#[test]
fn announced_facts_fire_the_same_rules() {
    for seed in 0..20 {
        let engine = || {
            let mut engine = Engine::new(RULES, Limits::default()).unwrap();
            engine.record();
            engine
        };
        let (mut plain, mut announced) = (engine(), engine());
        let mut random = Random::of_seed(seed);
        let mut now = 0;
        for _ in 0..60 {
            let rows: Vec<Row> = (0..1 + random.below(2 * GROUP as u64))
                .map(|_| {
                    now += random.below(900) as i64;
                    row(&mut random, now)
                })
                .collect();
            // Beyond the group, facts are not announced; now and then a fact is announced that does not come.
            let announce = |(ty, time, values): Row| (ty, time, move |field: usize| values[field]);
            match random.below(4) {
                0 => announced.announce(std::iter::once(row(&mut random, now)).map(announce)),
                1 => {}
                _ => announced.announce(rows.iter().cloned().map(announce)),
            }
            for (ty, time, values) in &rows {
                for engine in [&mut plain, &mut announced] {
                    engine.assert(Arrival::new(*ty, *time, values)).unwrap();
                    engine.run().unwrap();
                    engine.take_notices();
                    engine.begin(Call::Fire, 0).unwrap();
                }
                assert_eq!(plain.record(), announced.record());
            }
            assert_eq!(facts(&plain), facts(&announced));
        }
        assert!(plain.counts().firings > 20, "{}", plain.counts().firings);
        assert_eq!(plain.counts().used_bytes, announced.counts().used_bytes);
    }
}
