//! Workloads whose exact results agree with two other implementations.

mod support;

use be_tree_rules::{Engine, Limits, Owned, Value};
use support::{manners, waltzdb};

fn run(engine: &mut Engine) {
    let run = engine.run().unwrap();
    assert_eq!(run.pause, None);
}

#[test]
fn manners_has_the_known_totals() {
    let expected = [(8, 59, 110), (16, 183, 286), (32, 623, 833), (64, 2271, 2694), (128, 8639, 9589)];
    for (guests, firings, asserted) in expected {
        let mut engine = manners::engine(guests, Limits::default());
        run(&mut engine);
        let n = guests as u32;
        assert_eq!(engine.counts().firings, firings, "firings of {guests}");
        assert_eq!(engine.stored().count("seating").unwrap(), n);
        assert_eq!(engine.stored().count("path").unwrap(), n * (n + 1) / 2 - n);
        assert_eq!(engine.stored().count("chosen").unwrap(), n - 1);
        assert_eq!(engine.counts().asserted, asserted, "facts of {guests}");
    }
}

#[test]
fn manners_seats_the_guests_in_the_known_rows() {
    let expected = [(8, "8 6 3 7 2 5 1 4"), (16, "16 13 15 11 14 12 9 10 8 6 7 5 2 4 1 3")];
    for (guests, row) in expected {
        let mut engine = manners::engine(guests, Limits::default());
        run(&mut engine);
        let mut seats: Vec<(i64, String)> = Vec::new();
        for notice in engine.take_notices() {
            if let [(_, Some(Owned::String(name))), (_, Some(Owned::Integer(seat)))] = &notice.values[..] {
                seats.push((*seat, String::from_utf8(name.clone()).unwrap()));
            }
        }
        seats.sort();
        let names: Vec<String> = seats.into_iter().map(|(_, name)| name).collect();
        assert_eq!(names.join(" "), row);
    }
}

#[test]
fn waltzdb_has_the_known_totals() {
    for regions in [1, 4, 8, 12, 16, 50] {
        check_waltzdb(regions);
    }
}

fn check_waltzdb(regions: i64) {
    let r = regions as usize;
    let mut engine = waltzdb::engine(regions, Limits::default());
    run(&mut engine);
    assert_eq!(engine.counts().firings, 803 * r as u64 + 790, "firings of {regions}");
    let count = |ty: &str, field: &str, value: &str| {
        let is = |fact: &be_tree_rules::Fact| {
            fact.fields
                .iter()
                .any(|(name, given)| name == field && *given == Some(Owned::String(value.as_bytes().to_vec())))
        };
        engine.stored().facts(ty).unwrap().iter().filter(|fact| is(fact)).count()
    };
    assert_eq!(engine.stored().count("line").unwrap(), 0);
    assert_eq!(engine.stored().count("edge").unwrap() as usize, 2 * (76 * r + 72));
    assert_eq!(engine.stored().count("junction").unwrap() as usize, 60 * (r + 1));
    assert_eq!(engine.stored().count("illegal").unwrap(), 0);
    assert_eq!(count("junction", "visited", "yes"), 60 * (r + 1));
    let junctions = ["L", "fork", "tee", "arrow"].map(|name| count("junction", "name", name));
    assert_eq!(junctions, [28 * r + 36, 4 * (r + 1), 16 * r + 8, 12 * (r + 1)]);
    let labels = ["B", "+", "-"].map(|name| count("edge_label", "name", name));
    assert_eq!(labels, [261 * r + 252, 87 * r + 100, 74 * r + 91]);
}

/// Thirty rules, each for one subject, as in the article on durable_rules.
fn messages(actions: &str) -> Engine {
    let mut rules = String::from("fact message(subject: string, amount: integer, padding: string optional)\n");
    rules += "fact done(amount: integer)\n";
    for number in 0..30 {
        rules += &format!("rule r{number} when m: message(subject = 's{number}', amount < 10) then {actions}\n");
    }
    Engine::new(&rules, Limits::default()).unwrap()
}

fn send(engine: &mut Engine, subject: &str, amount: i64) {
    let padding = [b'x'; 100];
    let fields = [
        ("subject", Value::String(subject.as_bytes())),
        ("amount", Value::Integer(amount)),
        ("padding", Value::String(&padding)),
    ];
    support::assert(engine, "message", &fields);
    run(engine);
}

#[test]
fn messages_that_match_no_rule_fire_none() {
    let mut engine = messages("notify hit(amount: m.amount)");
    for number in 0..300 {
        send(&mut engine, &format!("other{number}"), number % 20);
    }
    assert_eq!(engine.counts().firings, 0);
    assert_eq!(engine.stored().count("message").unwrap(), 300);
}

#[test]
fn messages_that_match_a_rule_fire_it_once() {
    let mut engine = messages("notify hit(amount: m.amount)");
    for number in 0..300 {
        send(&mut engine, &format!("s{}", number % 30), number % 20);
    }
    // Half of the amounts are below 10.
    assert_eq!(engine.counts().firings, 150);
    let notices = engine.take_notices();
    assert_eq!(notices.len(), 150);
    assert_eq!(notices[0].rule, "r0");
    assert_eq!(notices[11].values, [("amount".to_owned(), Some(Owned::Integer(1)))]);
}

#[test]
fn of_many_rules_those_fire_that_a_fact_is_about() {
    let mut rules = String::from("fact event(kind: integer, level: integer, name: string)\n");
    for number in 0..3_000 {
        rules += &format!(
            "rule r{number} when e: event(kind = {}, level >= {}, name <> 'it\\'s') then notify hit\n",
            number / 10,
            number % 10
        );
    }
    let mut engine = Engine::new(&rules, Limits::default()).unwrap();
    for (kind, level, name, hits) in [(17, 9, "a", 10), (299, 3, "b", 4), (300, 9, "c", 0), (17, 9, "it's", 0)] {
        let fields = [
            ("kind", Value::Integer(kind)),
            ("level", Value::Integer(level)),
            ("name", Value::String(name.as_bytes())),
        ];
        support::assert(&mut engine, "event", &fields);
        run(&mut engine);
        let fired: Vec<String> = engine.take_notices().into_iter().map(|notice| notice.rule).collect();
        let expected: Vec<String> = (0..hits).map(|level| format!("r{}", 10 * kind + level)).collect();
        assert_eq!(fired, expected);
    }
}

#[test]
fn a_full_cycle_leaves_the_new_state() {
    let mut engine = messages("retract m, assert done(amount: m.amount)");
    for number in 0..300 {
        send(&mut engine, &format!("s{}", number % 30), number % 10);
    }
    assert_eq!(engine.counts().firings, 300);
    assert_eq!(engine.stored().count("message").unwrap(), 0);
    assert_eq!(engine.stored().count("done").unwrap(), 300);
}
