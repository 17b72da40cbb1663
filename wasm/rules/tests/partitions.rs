//! Rules that can be partitioned, and those that cannot.

use be_tree_rules::partitions::{By, Partitions};
use be_tree_rules::{Engine, Error, Kind, Limits, Value};

const FACTS: &str = "fact order(id: integer, user: string, total: float) fact payment(order: integer, amount: float)
fact paid(order: integer optional) fact trusted(user: string)
";

fn partitioned(rules: &str, by: &By) -> Result<Partitions, Error> {
    Engine::partitioned(&format!("{FACTS}{rules}"), Limits::default(), 4, by).map(|(_, partitions)| partitions)
}

fn by(keys: &[(&str, &str)]) -> By {
    let field = |field: &str| (field != "all").then(|| field.to_owned());
    By::Types(keys.iter().map(|(ty, key)| ((*ty).to_owned(), field(key))).collect())
}

fn orders() -> By {
    by(&[("order", "id"), ("payment", "order"), ("paid", "order"), ("trusted", "all")])
}

#[test]
fn rules_that_keep_to_a_key_are_taken() {
    let rules = [
        "rule r when o: order p: payment(order = o.id) then notify x, retract o, assert paid(order: o.id)",
        "rule r when o: order p: payment(o.id = p.order) q: payment(order = p.order) none paid(order = q.order) then retract q",
        "rule r when o: order none trusted(user = o.user) none payment(order = o.id) within 1 hours after o then notify x",
        "rule r when t: trusted o: order(user = t.user) n: count payment(order = o.id), n > 2 then modify o(total: 0)",
        "rule r when o: order(id = 5) p: payment(order = 5) then assert paid(order: 5), modify p(order: o.id)",
        "rule r when o: order either (p: payment(order = o.id)) or (q: paid(order = o.id)) then notify x",
        "rule r when o: order(total > 3) then notify x",
    ];
    for rules in rules {
        partitioned(rules, &orders()).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The rules of each case stand on the third line.
#[test]
fn rules_that_would_lose_matches_are_refused() {
    let cases = [
        ("rule r when o: order p: payment then notify x", 25, "add `order = o.id`"),
        ("rule r when o: order p: payment(order > o.id) then notify x", 25, "add `order = o.id`"),
        ("rule r when o: order p: payment(order = o.id or amount = 1) then notify x", 25, "add `order = o.id`"),
        ("rule r when o: order p: payment(order = o.id + 1) then notify x", 25, "add `order = o.id`"),
        ("rule r when o: order none payment(amount = o.total) then notify x", 27, "add `order = o.id`"),
        (
            "rule r when order p: payment then notify x",
            22,
            "add `order = x.id` after naming the condition on `order` as `x: order`",
        ),
        ("rule r when o: order s: sum payment.amount, s > 3 then notify x", 29, "add `order = o.id`"),
        ("rule r when o: order q: order(user = o.user) then notify x", 25, "add `id = o.id`"),
        ("rule r when o: order(id = 5) p: payment(order = 6) then notify x", 33, "add `order = o.id`"),
        ("rule r when o: order either (p: payment(order = o.id)) or (q: paid) then notify x", 63, "add `order = o.id`"),
        ("rule r when t: trusted then notify x", 6, "would fire in every partition"),
        ("rule r when o: order then assert paid(order: o.id + 1)", 34, "write `order: o.id`"),
        ("rule r when o: order then assert paid()", 34, "write `order: o.id`"),
        ("rule r when o: order then modify o(id: 7)", 34, "write `id: o.id`"),
        (
            "rule r when o: order then assert trusted(user: o.user)",
            34,
            "inserts a fact of `trusted`, whose facts are in every",
        ),
        ("rule r when o: order t: trusted(user = o.user) then retract t", 61, "retracts a fact of `trusted`"),
    ];
    let mut wrong = Vec::new();
    for (rules, column, message) in cases {
        let error = partitioned(rules, &orders()).expect_err(rules);
        let place = error.place.clone().unwrap();
        let is_right = error.kind == Kind::OutOfBounds && (place.line, place.column) == (3, column);
        if !is_right || !error.message.contains(message) {
            wrong.push(error.to_string());
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Constants of different kinds may have the same 64 bits.
#[test]
fn constants_of_different_kinds_are_different_keys() {
    let facts = "fact number(k: integer) fact text(k: string) fact flag(k: boolean)";
    for number in 0..2_000 {
        for other in ["t: text(k = 'ann')", "f: flag(k = true)"] {
            let rules = format!("{facts} rule r when n: number(k = {number}) {other} then notify x");
            let error =
                Engine::partitioned(&rules, Limits::default(), 4, &By::Field("k".into())).map(drop).unwrap_err();
            assert_eq!(error.kind, Kind::OutOfBounds, "{rules}: {error}");
        }
    }
}

#[test]
fn wrong_keys_are_refused() {
    let rule = "rule r when o: order then notify x";
    let cases = [
        (By::Field("user".into()), Kind::MissingAttribute, "`payment` has no field `user`"),
        (by(&[("ordr", "id")]), Kind::UnknownAttribute, "did you mean `order`?"),
        (by(&[("order", "ids")]), Kind::UnknownAttribute, "did you mean `id`?"),
        (by(&[("order", "total")]), Kind::Type, "a float, which is no key"),
        (by(&[("order", "id")]), Kind::MissingAttribute, "need the key of `payment`"),
        (
            by(&[("order", "all"), ("payment", "all"), ("paid", "all"), ("trusted", "all")]),
            Kind::MissingAttribute,
            "no fact type has a key",
        ),
    ];
    for (by, kind, message) in cases {
        let error = partitioned(rule, &by).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(message), "{error}");
    }
}

/// Folders on disk depend on these hashes.
#[test]
fn a_key_stays_in_its_partition() {
    let partitions = partitioned("rule r when o: order then notify x", &orders()).unwrap();
    let of = |id| partitions.of(0, &[Some(Value::Integer(id)), None, None]);
    let found: Vec<_> = (0..12).map(|id| of(id).unwrap()).collect();
    assert_eq!(found, FOUND);
    assert_eq!(partitions.of(3, &[Some(Value::String(b"ann"))]), None);
    assert_eq!(partitions.of(2, &[None]), Some(0));
    let mut counts = [0; 4];
    (0..4_000).for_each(|id| counts[of(id).unwrap() as usize] += 1);
    assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
}

const FOUND: [u32; 12] = [0, 1, 0, 3, 3, 2, 0, 2, 1, 2, 3, 2];
