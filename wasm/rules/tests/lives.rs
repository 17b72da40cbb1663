//! Lives of facts: the time during which a rule can use them, including the wait of a match for the end of a window.

use be_tree_rules::{Engine, EventTime, Limits, Notice, Value};

const MINUTE: i64 = 60_000;

fn engine(conditions: &str) -> Engine {
    let text =
        format!("fact a(x: integer) fact b(x: integer) fact c(x: integer)\nrule r when {conditions} then notify r");
    Engine::new(&text, Limits::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Asserts facts at times in minutes, moves time to `end`, and returns the notices.
fn run(engine: &mut Engine, facts: &[(&str, i64)], end: i64) -> Vec<Notice> {
    for (ty, at) in facts {
        let fact = engine.types().fact(ty, Some(MINUTE * at), &[("x", Value::Integer(*at))]).unwrap();
        engine.assert(&fact).unwrap();
        engine.run().unwrap();
    }
    engine.advance(EventTime::OfAll(MINUTE * end)).unwrap();
    engine.take_notices()
}

/// Returns the lives of `a`, `b` and `c` in minutes.
fn lives(conditions: &str) -> [Option<i64>; 3] {
    let engine = engine(conditions);
    ["a", "b", "c"].map(|ty| engine.types().life(engine.types().find(ty).unwrap()).map(|life| life / MINUTE))
}

#[test]
fn a_fact_before_its_anchor_is_counted_at_the_end_of_the_window() {
    let mut engine = engine("p: a n: count b(within 10 minutes of p), n >= 2");
    assert_eq!(run(&mut engine, &[("b", 0), ("a", 5), ("b", 6)], 15).len(), 1);
    assert_eq!((engine.stored().count("a").unwrap(), engine.stored().count("b").unwrap()), (0, 2));
    engine.advance(EventTime::OfAll(20 * MINUTE)).unwrap();
    assert_eq!(engine.stored().count("b").unwrap(), 1);
    engine.advance(EventTime::OfAll(26 * MINUTE)).unwrap();
    assert_eq!(engine.stored().count("b").unwrap(), 0);
}

#[test]
fn a_fact_before_its_anchor_blocks_at_the_end_of_the_window() {
    let mut engine = engine("p: a none b(within 10 minutes of p)");
    assert!(run(&mut engine, &[("b", 0), ("a", 9)], 30).is_empty());
}

#[test]
fn a_fact_lives_while_a_match_of_it_waits_for_the_window_of_another() {
    // `q` is joined with `p` at once, and is named in the notice when the window of `p` ends.
    let mut engine = engine("q: c p: a, within 2 minutes of q none b within 10 minutes after p");
    assert_eq!(run(&mut engine, &[("c", 0), ("a", 1)], 11).len(), 1);
}

#[test]
fn a_life_is_the_longest_use_and_the_wait_after_it() {
    for (conditions, expected) in [
        // The match waits from `p` on.
        ("p: a none b within 10 minutes after p", [Some(10), Some(10), None]),
        ("p: a none b(within 10 minutes of p)", [Some(10), Some(20), None]),
        // It is tested at once.
        ("p: a none b within 10 minutes before p", [Some(10), Some(10), None]),
        // The earliest end counts.
        (
            "p: a q: c, within 1 minutes of p n: count b(within 10 minutes of p, within 30 minutes of q), n > 1",
            [Some(10), Some(20), Some(11)],
        ),
        // The latest window counts, also for the facts of another one.
        ("p: a none b within 5 minutes before p none c within 60 minutes after p", [Some(60), Some(65), Some(65)]),
        // Facts that no window bounds are kept.
        ("p: a none b(within 10 minutes of p) none c", [None, None, None]),
    ] {
        assert_eq!(lives(conditions), expected, "{conditions}");
    }
}
