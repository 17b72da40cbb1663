//! The order in which the conditions of a rule are looked up.

use be_tree_rules::{Engine, Limits, Value};

const TAKEOVER: &str = "
    fact login(user: integer)
    fact change(user: integer)
    rule takeover
      when a: login
           b: login(user = a.user), after a within 5 minutes
           c: change(user = a.user), after b
      then notify takeover(user: a.user), retract a
";

fn assert(engine: &mut Engine, ty: &str, user: i64, at: i64) {
    let fact = engine.types().fact(ty, Some(at), &[("user", Value::Integer(user))]).unwrap();
    engine.assert(&fact).unwrap();
}

#[test]
fn a_condition_that_is_later_than_the_newest_fact_comes_first() {
    let engine = Engine::new(TAKEOVER, Limits::default()).unwrap();
    // With a login in `b`, the change comes first: its user is that of `b`, which two equalities imply.
    assert_eq!(engine.rules().join_order(), [("takeover".to_owned(), vec![vec![1, 2], vec![2, 0], vec![0, 1]])]);
}

#[test]
fn logins_are_not_joined_with_each_other_before_there_is_a_change() {
    let mut engine = Engine::new(TAKEOVER, Limits::default()).unwrap();
    assert(&mut engine, "change", 1, 0);
    for second in 1..1_000 {
        assert(&mut engine, "login", 1, second);
        assert!(!engine.is_busy(), "login {second} waits for a search");
    }
    assert(&mut engine, "change", 1, 1_000);
    assert_eq!(engine.run().unwrap().firings, 998);
}

#[test]
fn a_change_that_comes_late_is_found() {
    let mut engine = Engine::new(TAKEOVER, Limits::default()).unwrap();
    assert(&mut engine, "login", 1, 10);
    assert(&mut engine, "change", 1, 30);
    assert(&mut engine, "login", 2, 20);
    assert(&mut engine, "login", 1, 20);
    assert_eq!(engine.run().unwrap().firings, 1);
}
