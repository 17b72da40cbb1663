//! The language: every fault is reported at its place, with its remedy.

use be_tree_rules::{Engine, Error, Kind, Limits, Owned, Value};

const FACTS: &str = "fact login(user: string, ok: boolean, tries: integer 0..9 optional)
fact order(id: integer, total: float, state: string in ('open', 'paid'))
";

fn compile(rules: &str) -> Result<Engine, Error> {
    Engine::new(&format!("{FACTS}{rules}"), Limits::default())
}

/// The rules of each case stand on the third line.
#[test]
fn faults_have_their_place_and_their_remedy() {
    use Kind::*;
    let cases = [
        ("ruel r when a: login then retract a", Syntax, 1, "did you mean `rule`?"),
        ("rule r when a: logn then retract a", UnknownAttribute, 16, "did you mean `login`?"),
        ("rule r when a: login(usr = 'x') then retract a", UnknownAttribute, 22, "did you mean `user`?"),
        ("rule r when a: login, b.ok then retract a", UnknownAttribute, 23, "`b` is no name of a condition"),
        ("rule r when a: login(user = 3) then retract a", Type, 27, "need the same type"),
        ("rule r when a: login(user < 'x') then retract a", Type, 27, "a string has no order"),
        ("rule r when a: login(user) then retract a", Type, 22, "this is no condition"),
        ("rule r when a: order(state = 'opn') then retract a", OutOfBounds, 28, "did you mean 'open'?"),
        ("rule r when a: login(tries = 10) then retract a", OutOfBounds, 28, "outside the domain of `tries`"),
        ("rule r when a: login then retract b", UnknownAttribute, 35, "known: a"),
        ("rule r when none login then notify x", OutOfBounds, 6, "needs a condition that binds a fact"),
        ("rule r when a: login then assert order(id: 1, total: 2)", MissingAttribute, 34, "needs `state`"),
        ("rule r when a: login then assert order(id: 1.5)", Type, 44, "`id` is an integer, but this is a float"),
        ("rule r when a: login then assert login(tries: 12)", OutOfBounds, 47, "outside the domain"),
        ("rule r when a: login, within 5 parsecs after a then retract a", Syntax, 32, "`minutes`"),
        ("rule r when a: login, within 5 minuets after a then retract a", Syntax, 32, "did you mean `minutes`?"),
        ("rule r when a: login, within 5 minutes then retract a", Syntax, 40, "the name of a condition"),
        ("rule r when a: login a: order then retract a", DuplicateId, 22, "`a` is bound already"),
        ("rule r when a: login(user = 'x) then retract a", Syntax, 29, "this string has no end"),
        ("rule r when a: login then modify a(user: 'x', user: 'y')", Type, 47, "given twice"),
        ("rule r when a: login then retract a rule r when a: login then retract a", DuplicateId, 42, "declared twice"),
        ("fact login(x: integer)", Type, 6, "declared twice"),
        ("fact f(x: integr)", Type, 11, "did you mean `integer`?"),
        ("fact f(x: integer 5..1)", Type, 19, "the least first"),
        ("fact f(at: integer)", Type, 8, "`at` is the time of every fact"),
        ("rule when a: login then retract a", Syntax, 6, "is a word of the language"),
        ("rule r when a: login(tries + user > 2) then retract a", Type, 30, "this is a string, not a number"),
        ("rule r when a: login n: count order, id > n then retract a", Type, 41, "reads this value"),
        ("rule r when a: login(ok = true) then notify x(y: max(1))", Type, 50, "takes 2 arguments"),
        ("rule r when a: login(tries = 99999999999999999999) then retract a", OutOfBounds, 30, "64 bits"),
        ("rule r when a: login % then retract a", Syntax, 22, "`%` has no meaning"),
        ("rule r when a: login(at == 1) then retract a", Syntax, 25, "`==` is no operator; write `=`"),
        ("rule r when a: login(at != 1) then retract a", Syntax, 25, "`!=` is no operator; write `<>`"),
    ];
    let mut wrong = Vec::new();
    for (rules, kind, column, message) in cases {
        let error = compile(rules).expect_err(rules);
        let place = error.place.clone().unwrap();
        let text = error.to_string();
        let is_right = error.kind == kind
            && error.message.contains(message)
            && (place.line, place.column, place.text.as_str()) == (3, column, rules)
            && text.ends_with(&format!("\n  {rules}\n  {}^", " ".repeat(column - 1)));
        if !is_right {
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn deep_and_long_texts_are_refused_or_read() {
    let nested =
        |depth: usize| format!("rule r when a: login({}ok{}) then retract a", "(".repeat(depth), ")".repeat(depth));
    assert!(compile(&nested(20)).is_ok());
    assert_eq!(compile(&nested(100_000)).unwrap_err().kind, Kind::OutOfBounds);
    let long = |length: usize| format!("rule r when a: login({}ok) then retract a", "ok or ".repeat(length));
    assert!(compile(&long(100)).is_ok());
    assert_eq!(compile(&long(100_000)).unwrap_err().kind, Kind::OutOfBounds);
    let nots = format!("rule r when a: login({}ok) then retract a", "not ".repeat(100_000));
    assert_eq!(compile(&nots).unwrap_err().kind, Kind::OutOfBounds);
    let alternatives = "either (a: login) or (a: login) ".repeat(7);
    assert_eq!(compile(&format!("rule r when {alternatives} then notify x")).unwrap_err().kind, Kind::OutOfBounds);
}

fn login(engine: &mut Engine, user: &str, ok: bool, at: i64) -> u64 {
    let fields = [("user", Value::String(user.as_bytes())), ("ok", Value::Boolean(ok))];
    let fact = engine.types().fact("login", Some(at), &fields).unwrap();
    let id = engine.assert(&fact).unwrap();
    engine.run().unwrap();
    id
}

#[test]
fn facts_are_checked() {
    use Kind::*;
    let engine = compile("").unwrap();
    let (user, ok) = (("user", Value::String(b"u")), ("ok", Value::Boolean(true)));
    type Fields<'a> = Vec<(&'a str, Value<'a>)>;
    let cases: [(&str, Fields, Kind); 7] = [
        ("logn", vec![], UnknownAttribute),
        ("login", vec![("usr", Value::Integer(1))], UnknownAttribute),
        ("login", vec![user], MissingAttribute),
        ("login", vec![("user", Value::Integer(1)), ok], Type),
        ("login", vec![user, ok, ("tries", Value::Integer(10))], OutOfBounds),
        ("order", vec![("id", Value::Integer(1)), ("total", Value::Float(f64::NAN))], Type),
        (
            "order",
            vec![("id", Value::Integer(1)), ("total", Value::Integer(2)), ("state", Value::String(b"closed"))],
            OutOfBounds,
        ),
    ];
    for (ty, fields, kind) in cases {
        assert_eq!(engine.types().fact(ty, None, &fields).unwrap_err().kind, kind, "{ty} {fields:?}");
    }
    assert_eq!(engine.types().fact("login", Some(i64::MAX), &[user, ok]).unwrap_err().kind, OutOfBounds);
}

#[test]
fn undefined_fields_behave_as_in_expressions() {
    let mut engine = compile(
        "rule low when a: login(tries < 3) then notify low
         rule other when a: login(tries <> 3) then notify other
         rule outside when a: login(tries not in (3)) then notify outside
         rule not_low when a: login(not tries < 3) then notify not_low
         rule missing when a: login(tries is null) then notify missing",
    )
    .unwrap();
    login(&mut engine, "u", true, 0);
    let rules: Vec<String> = engine.take_notices().into_iter().map(|notice| notice.rule).collect();
    assert_eq!(rules, ["not_low", "missing"]);
}

#[test]
fn alternatives_are_matches_of_their_own() {
    let mut engine = compile(
        "rule r
           when either (a: login(ok) b: login(user = a.user, not ok)) or (a: login(user = 'root'))
                none order
           then notify seen(user: a.user)",
    )
    .unwrap();
    login(&mut engine, "u", true, 0);
    assert_eq!(engine.take_notices().len(), 0);
    login(&mut engine, "u", false, 1);
    login(&mut engine, "root", false, 2);
    let notices = engine.take_notices();
    let users: Vec<_> = notices.iter().map(|notice| notice.values[0].1.clone().unwrap()).collect();
    assert_eq!(users, [Owned::String(b"u".to_vec()), Owned::String(b"root".to_vec())]);
}

#[test]
fn a_firing_that_does_not_fit_a_domain_changes_nothing_and_reports() {
    let mut engine =
        compile("rule r when a: login then notify early, modify a(tries: 5 + 7), assert login(user: 'v', ok: true)");
    let engine = engine.as_mut().unwrap();
    login(engine, "u", true, 0);
    let notices = engine.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].rule.as_str(), &notices[0].name), ("r", &None));
    assert_eq!(notices[0].values[1], ("field".to_owned(), Some(Owned::String(b"tries".to_vec()))));
    assert_eq!(engine.counts().facts, 1);
}

#[test]
fn aggregates_count_over_windows() {
    let mut engine = compile(
        "rule r
           when a: login(not ok)
                n: count login(user = a.user, not ok) within 10 milliseconds before a, n >= 2
           then notify guessing(user: a.user, earlier: n)",
    )
    .unwrap();
    for at in [0, 4, 8, 30] {
        login(&mut engine, "u", false, at);
    }
    let notices = engine.take_notices();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].values[1].1, Some(Owned::Integer(2)));
    // Facts that no window can reach are dropped.
    assert!(engine.counts().facts <= 2, "{}", engine.counts().facts);
}
