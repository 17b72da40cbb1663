//! Facts out of time order, from several sources, with a lateness: rules must fire as for facts in time order.
//!
//! The first oracle has no watermark: it sorts the facts by time and runs an engine without a lateness, which `oracle.rs` compares
//! with a naive one. The second oracle, for rules that join, miss and count within windows, computes the notices from the set of
//! all facts.
//!
//! `LATENESS_CASES` is the number of cases of each test, and `LATENESS_SEED` the seed of the first.

mod differential;

use differential::{random_rules, Random};

use be_tree_rules::{Arrival, Call, Engine, EventTime, Fact, Kind, Limits, Notice, Owned, Value, MAX_SOURCES};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|number| number.parse().ok())
}

fn seeds(default: u64) -> std::ops::Range<u64> {
    let first = number("LATENESS_SEED").unwrap_or(0);
    first..first + number("LATENESS_CASES").unwrap_or(default)
}

/// A fact of the types of `random_rules`, and its source.
#[derive(Clone, Debug)]
struct Event {
    ty: usize,
    at: i64,
    a: i64,
    b: Option<i64>,
    s: &'static str,
    source: Option<&'static str>,
}

impl Event {
    fn random(random: &mut Random, at: i64, sources: &[&'static str]) -> Event {
        Event {
            ty: random.below(3) as usize,
            at,
            a: random.below(4) as i64,
            b: random.chance(75).then(|| random.below(4) as i64),
            s: random.pick(&["x", "y", "z"]),
            source: (!sources.is_empty()).then(|| random.pick(sources)),
        }
    }

    /// Returns the number of the fact, or `None` if rules fire without end.
    fn assert_in(&self, engine: &mut Engine, source: Option<&'static str>) -> Option<u64> {
        let mut fields = vec![("a", Value::Integer(self.a)), ("s", Value::String(self.s.as_bytes()))];
        fields.extend(self.b.map(|b| ("b", Value::Integer(b))));
        let fact = engine.types().fact(&format!("t{}", self.ty), Some(self.at), &fields).unwrap();
        match engine.assert(Arrival { source: source.map(str::as_bytes), ..Arrival::from(&fact) }) {
            Ok(id) => Some(id),
            Err(error) if error.kind == Kind::OutOfBounds => None,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The limit on the firings of a case. Cases beyond it are skipped.
const MAX_FIRINGS: u32 = 60;

fn engine(text: &str, lateness: i64) -> Engine {
    let mut engine = Engine::new(text, Limits { firings: MAX_FIRINGS, ..Limits::default() }).unwrap();
    engine.set_lateness(lateness).unwrap();
    engine.begin(Call::Fire, 0).unwrap();
    engine
}

/// The final state of an engine, without the numbers of facts.
#[derive(Debug, PartialEq)]
struct End {
    notices: Vec<Notice>,
    facts: Vec<Vec<Fact>>,
    firings: u64,
    asserted: u64,
    waiting: u32,
    late: u64,
    now: i64,
}

/// Inserts the waiting facts and closes all windows. Returns `None` if rules fire without end.
fn end(mut engine: Engine, now: i64) -> Option<End> {
    let is_done = engine.advance(EventTime::OfAll(now + engine.clock().lateness())).is_ok()
        && engine.run().unwrap().pause.is_none();
    let without_id = |fact: Fact| Fact { id: 0, ..fact };
    let facts = |ty| engine.stored().facts(&format!("t{ty}")).unwrap().into_iter().map(without_id).collect();
    is_done.then(|| End {
        facts: (0..3).map(facts).collect(),
        firings: engine.counts().firings,
        asserted: engine.counts().asserted,
        waiting: engine.counts().waiting,
        late: engine.counts().late,
        now: engine.clock().now(),
        notices: engine.fired().notices(),
    })
}

/// Permutes events so that each is late by at most the lateness.
fn disordered(random: &mut Random, events: &[Event], lateness: i64) -> Vec<Event> {
    let mut left: Vec<Event> = events.to_vec();
    let mut order = Vec::new();
    let mut latest = i64::MIN;
    while !left.is_empty() {
        let earliest = left.iter().map(|event| event.at).min().unwrap();
        // Events of equal times keep their order, because arrival breaks ties.
        let is_allowed = |position: &usize| {
            let at = left[*position].at;
            at.max(latest) <= earliest + lateness && left[..*position].iter().all(|other| other.at != at)
        };
        let allowed: Vec<usize> = (0..left.len()).filter(is_allowed).collect();
        let event = left.remove(random.pick(&allowed));
        latest = latest.max(event.at);
        order.push(event);
    }
    order
}

fn events(random: &mut Random, count: usize, sources: &[&'static str]) -> Vec<Event> {
    let mut at = 1_000;
    let mut one = |random: &mut Random| {
        at += random.pick(&[0, 1, 1, 2, 4]);
        Event::random(random, at, sources)
    };
    (0..count).map(|_| one(random)).collect()
}

#[test]
fn facts_that_are_late_by_at_most_the_lateness_fire_what_facts_in_order_fire() {
    let (mut fired, mut disorder, mut left_out) = (0, 0, 0);
    for seed in seeds(3_000) {
        let random = &mut Random::of_seed(seed);
        let text = random_rules(random, seed % 3 == 0);
        let lateness = random.pick(&[1, 3, 10, 1_000]);
        let sorted = events(random, 16, &[]);
        let shuffled = disordered(random, &sorted, lateness);
        disorder += usize::from(shuffled.windows(2).any(|pair| pair[0].at > pair[1].at));
        let (mut expected, mut found) = (engine(&text, 0), engine(&text, lateness));
        let in_order = sorted.iter().try_for_each(|event| event.assert_in(&mut expected, None).map(|_| ()));
        let out_of_order = shuffled.iter().try_for_each(|event| event.assert_in(&mut found, None).map(|_| ()));
        let ends = (in_order.and_then(|()| end(expected, 3_000)), out_of_order.and_then(|()| end(found, 3_000)));
        assert_eq!(ends.1, ends.0, "seed {seed}, lateness {lateness}\n{text}\n{shuffled:#?}");
        match ends.0 {
            Some(end) => fired += end.firings,
            None => left_out += 1,
        }
    }
    let cases = seeds(3_000).count();
    assert!(
        fired as usize > cases / 2 && disorder > cases / 2 && left_out < cases / 4,
        "{fired} {disorder} {left_out}"
    );
}

#[test]
fn facts_of_sources_in_order_fire_what_all_facts_in_order_fire() {
    const NAMES: [&str; 3] = ["web", "mobile", "shop"];
    let mut fired = 0;
    for seed in seeds(2_000) {
        let random = &mut Random::of_seed(seed);
        let text = random_rules(random, seed % 3 == 0);
        let lateness = random.pick(&[0, 0, 2]);
        let mut sorted = events(random, 16, &NAMES);
        // Arrival breaks ties and differs here, so all times are made distinct.
        sorted.iter_mut().enumerate().for_each(|(number, event)| event.at = event.at * 20 + number as i64);
        let mut queues: Vec<Vec<Event>> = NAMES
            .iter()
            .map(|name| {
                let own: Vec<Event> = sorted.iter().filter(|event| event.source == Some(name)).cloned().collect();
                disordered(random, &own, lateness)
            })
            .collect();
        let (mut expected, mut found) = (engine(&text, 0), engine(&text, lateness));
        for name in NAMES {
            found.advance(EventTime::Of(Some(name.as_bytes()), 0)).unwrap();
        }
        expected.advance(EventTime::OfAll(-lateness)).unwrap();
        let in_order = sorted.iter().try_for_each(|event| event.assert_in(&mut expected, None).map(|_| ()));
        let mut out_of_order = Some(());
        while out_of_order.is_some() && queues.iter().any(|queue| !queue.is_empty()) {
            let queue = random.below(3) as usize;
            if queues[queue].is_empty() {
                continue;
            }
            let event = queues[queue].remove(0);
            out_of_order = event.assert_in(&mut found, event.source).map(|_| ());
            if queues[queue].is_empty() {
                let name = NAMES[queue].as_bytes();
                let ended = if random.chance(50) {
                    found.advance(EventTime::End(Some(name)))
                } else {
                    found.advance(EventTime::Of(Some(name), 60_000))
                };
                out_of_order = out_of_order.filter(|()| ended.is_ok());
            }
        }
        let ends = (in_order.and_then(|()| end(expected, 60_000)), out_of_order.and_then(|()| end(found, 60_000)));
        assert_eq!(ends.1, ends.0, "seed {seed}, lateness {lateness}\n{text}\n{sorted:#?}");
        fired += ends.0.map_or(0, |end| end.firings);
    }
    assert!(fired as usize > seeds(2_000).count() / 2, "{fired}");
}

const SHOP: &str = "
    fact order(id: integer)
    fact payment(order: integer)
    fact refund(order: integer)
    rule unpaid
      when o: order
           none payment(order = o.id) within 20 milliseconds after o
      then notify unpaid(order: o.id)
    rule paid
      when o: order
           p: payment(order = o.id), after o within 20 milliseconds
           none refund(order = o.id)
      then notify paid(order: o.id, at: p.at)
    rule busy
      when o: order
           n: count order(id < 1000, within 15 milliseconds before o), n >= 2
      then notify busy(order: o.id, n: n)
";

/// Returns the notices that the definition of the rules of `SHOP` requires for facts with distinct times, each `(type, number of
/// the order, time)`.
fn demanded(facts: &[(&str, i64, i64)]) -> Vec<(String, Vec<i64>)> {
    let of = |ty: &'static str| facts.iter().filter(move |fact| fact.0 == ty);
    let mut demanded = Vec::new();
    for (_, id, at) in of("order") {
        let payments = || of("payment").filter(|(_, order, paid)| order == id && (*at..*at + 20).contains(paid));
        if payments().count() == 0 {
            demanded.push(("unpaid".to_owned(), vec![*id]));
        }
        for (_, _, paid) in payments() {
            // A refund counts only if it is earlier than the payment that completes the match.
            if !of("refund").any(|(_, order, refunded)| order == id && refunded < paid) {
                demanded.push(("paid".to_owned(), vec![*id, *paid]));
            }
        }
        let before = of("order").filter(|(_, _, other)| other < at && at - other < 15).count() as i64;
        if before >= 2 {
            demanded.push(("busy".to_owned(), vec![*id, before]));
        }
    }
    demanded.sort();
    demanded
}

fn shop_fact(engine: &mut Engine, (ty, id, at): (&str, i64, i64), source: Option<&[u8]>) -> u64 {
    let field = if ty == "order" { "id" } else { "order" };
    let fact = engine.types().fact(ty, Some(at), &[(field, Value::Integer(id))]).unwrap();
    let id = engine.assert(Arrival { source, ..Arrival::from(&fact) }).unwrap();
    engine.run().unwrap();
    id
}

fn told(notices: &[Notice]) -> Vec<(String, Vec<i64>)> {
    let integer = |value: &Option<Owned>| match value {
        Some(Owned::Integer(integer)) => *integer,
        other => panic!("{other:?}"),
    };
    let values = |notice: &Notice| notice.values.iter().map(|(_, value)| integer(value)).collect();
    let mut told: Vec<_> = notices.iter().map(|notice| (notice.rule.clone(), values(notice))).collect();
    told.sort();
    told
}

#[test]
fn notices_are_those_that_the_set_of_facts_demands() {
    let mut total = 0;
    for seed in seeds(2_000) {
        let random = &mut Random::of_seed(seed);
        let lateness = random.pick(&[5, 20, 60]);
        let mut at = 0;
        let mut sorted = Vec::new();
        for id in 0..24 {
            at += 1 + random.below(9) as i64;
            let other = random.below(id as u64 + 1) as i64;
            sorted.push(match random.below(5) {
                0..=2 => ("order", id, at),
                3 => ("payment", other, at),
                _ => ("refund", other, at),
            });
        }
        let mut engine = engine(SHOP, lateness);
        let mut left = sorted.clone();
        let mut latest = i64::MIN;
        while !left.is_empty() {
            let allowed = (0..left.len()).filter(|fact| left[*fact].2.max(latest) <= left[0].2 + lateness);
            let fact = left.remove(random.pick(&allowed.collect::<Vec<_>>()));
            latest = latest.max(fact.2);
            shop_fact(&mut engine, fact, None);
        }
        engine.advance(EventTime::OfAll(10_000)).unwrap();
        engine.run().unwrap();
        assert_eq!(engine.counts().late, 0);
        let expected = demanded(&sorted);
        assert_eq!(told(&engine.take_notices()), expected, "seed {seed}, lateness {lateness}\n{sorted:?}");
        total += expected.len();
    }
    assert!(total > seeds(2_000).count() * 4, "{total}");
}

#[test]
fn an_order_and_its_payment_that_arrive_late_together_raise_no_alarm() {
    for (lateness, alarms) in [(0, 1), (60, 0)] {
        let mut engine = engine(SHOP, lateness);
        shop_fact(&mut engine, ("order", 1, 100), None);
        shop_fact(&mut engine, ("order", 2, 150), None);
        // Its own window has closed when the order comes, and its payment comes after it.
        shop_fact(&mut engine, ("order", 3, 110), None);
        shop_fact(&mut engine, ("payment", 3, 115), None);
        shop_fact(&mut engine, ("payment", 1, 119), None);
        shop_fact(&mut engine, ("payment", 2, 151), None);
        engine.advance(EventTime::OfAll(1_000)).unwrap();
        engine.run().unwrap();
        let unpaid = told(&engine.take_notices()).into_iter().filter(|(rule, _)| rule == "unpaid").count();
        assert_eq!(unpaid > 0, alarms > 0, "lateness {lateness}");
        assert_eq!(engine.counts().late > 0, lateness == 0);
    }
}

#[test]
fn a_fact_that_is_too_late_is_inserted_and_counted() {
    let mut engine = engine(SHOP, 10);
    shop_fact(&mut engine, ("order", 1, 100), None);
    assert_eq!((engine.clock().now(), engine.counts().late, engine.counts().waiting), (90, 0, 1));
    shop_fact(&mut engine, ("order", 2, 90), None);
    assert_eq!((engine.counts().late, engine.counts().facts), (0, 1));
    engine.begin(Call::Fire, 0).unwrap();
    shop_fact(&mut engine, ("order", 3, 89), None);
    assert_eq!(
        (engine.counts().late, engine.progress().late, engine.counts().facts, engine.counts().waiting),
        (1, 1, 2, 1)
    );
    engine.begin(Call::Fire, 0).unwrap();
    assert_eq!((engine.counts().late, engine.progress().late), (1, 0));
}

#[test]
fn next_due_is_the_time_to_which_advance_has_to_move() {
    let mut engine = engine(SHOP, 10);
    shop_fact(&mut engine, ("order", 1, 100), None);
    // The order waits until time is 100, and then its window until 120.
    for due in [110, 130] {
        assert_eq!(engine.clock().next_due(), Some(due));
        engine.advance(EventTime::OfAll(due - 1)).unwrap();
        assert_eq!(engine.clock().next_due(), Some(due));
        engine.advance(EventTime::OfAll(due)).unwrap();
    }
    engine.run().unwrap();
    assert_eq!(told(&engine.take_notices()), [("unpaid".to_owned(), vec![1])]);
    assert_eq!(engine.clock().next_due(), None);
}

#[test]
fn a_fact_that_waited_keeps_its_number_until_it_goes() {
    let mut engine = engine(SHOP, 10);
    let ids = [("order", 1, 100), ("order", 2, 95), ("order", 3, 99)].map(|fact| shop_fact(&mut engine, fact, None));
    // One goes while it waits, one after it has waited.
    engine.retract(ids[2]).unwrap();
    assert_eq!(engine.retract(ids[2]).unwrap_err().kind, Kind::NotFound);
    engine.advance(EventTime::OfAll(110)).unwrap();
    let numbers =
        |engine: &Engine| engine.stored().facts("order").unwrap().iter().map(|fact| fact.id).collect::<Vec<_>>();
    assert_eq!(numbers(&engine), [ids[0], ids[1]]);
    assert_eq!(engine.stored().page(0, ids[0], 10, usize::MAX).2.map(|fact| fact.id).collect::<Vec<_>>(), [ids[1]]);
    assert_eq!((engine.counts().facts, engine.counts().waiting, engine.counts().asserted), (2, 0, 3));
    engine.retract(ids[1]).unwrap();
    assert_eq!(engine.retract(ids[1]).unwrap_err().kind, Kind::NotFound);
    engine.retract(ids[0]).unwrap();
    assert_eq!((engine.counts().facts, numbers(&engine).len()), (0, 0));
}

#[test]
fn facts_that_wait_count_to_the_limit_of_facts() {
    let mut engine = Engine::new(SHOP, Limits { facts: 3, ..Limits::default() }).unwrap();
    engine.set_lateness(10).unwrap();
    for (number, at) in [100, 95, 105].into_iter().enumerate() {
        shop_fact(&mut engine, ("refund", number as i64, at), None);
    }
    let fact = engine.types().fact("refund", Some(99), &[("order", Value::Integer(9))]).unwrap();
    assert_eq!(engine.assert(&fact).unwrap_err().kind, Kind::OutOfBounds);
    engine.advance(EventTime::OfAll(200)).unwrap();
    assert_eq!(engine.counts().facts, 3);
}

#[test]
fn memory_stays_flat_over_a_stream_that_waits() {
    let windows = "
        fact order(id: integer)
        fact refund(order: integer)
        rule kept
          when o: order
               none refund(order = o.id) within 20 milliseconds after o
          then notify kept(order: o.id)
    ";
    let mut engine = engine(windows, 50);
    let mut memory = 0;
    for number in 0..30_000_i64 {
        engine.begin(Call::Fire, 0).unwrap();
        let source = ["a", "b", "a longer name"][number as usize % 3];
        let at = 3 * (number - number % 7);
        shop_fact(&mut engine, ("order", number, at), Some(source.as_bytes()));
        if number % 100 == 99 {
            engine.advance(EventTime::End(Some(source.as_bytes()))).unwrap();
        }
        let refund = shop_fact(&mut engine, ("refund", number, at + 5), Some(b"a"));
        engine.retract(refund).unwrap();
        engine.take_notices();
        if number == 10_000 {
            memory = engine.counts().used_bytes;
        }
    }
    assert_eq!(engine.counts().used_bytes, memory);
    assert_eq!(engine.counts().late, 0);
}

#[test]
fn sources_have_a_limit_and_end() {
    let mut engine = engine(SHOP, 0);
    for number in 0..MAX_SOURCES {
        engine.advance(EventTime::Of(Some(format!("s{number}").as_bytes()), i64::from(number))).unwrap();
    }
    assert_eq!(engine.clock().now(), 0);
    let error = engine.advance(EventTime::Of(Some(b"another"), 7)).unwrap_err();
    assert_eq!(error.kind, Kind::OutOfBounds);
    assert!(error.message.contains("10000"), "{}", error.message);
    engine.advance(EventTime::Of(Some(b"s5"), 9)).unwrap();
    engine.advance(EventTime::End(Some(b"s0"))).unwrap();
    assert_eq!(engine.clock().now(), 1);
    engine.advance(EventTime::Of(Some(b"another"), 7)).unwrap();
    for number in 1..5 {
        engine.advance(EventTime::End(Some(format!("s{number}").as_bytes()))).unwrap();
    }
    assert_eq!((engine.clock().now(), engine.clock().latest()), (6, Some(9_999)));
    for name in [&b""[..], &[b'x'; 256]] {
        assert_eq!(engine.advance(EventTime::Of(Some(name), 7)).unwrap_err().kind, Kind::OutOfBounds);
    }
    engine.advance(EventTime::OfAll(20_000)).unwrap();
    assert_eq!(engine.clock().now(), 20_000);
}
