//! A negated alternative of an `or` that nearly every event makes true: a filter proves the expression by it, and programs run only
//! for the other events.

use crate::support::make::{insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// The values of an event besides `a`. They are small integers; `f` is an eighth of its integer.
#[derive(Clone, Copy)]
struct Event {
    a: i64,
    r: i64,
    i: Option<i64>,
    f: Option<i64>,
    s: Option<i64>,
    /// The first of two consecutive elements.
    t: Option<i64>,
}

impl Event {
    fn json(&self) -> String {
        let or_null = |value: Option<String>| value.unwrap_or("null".into());
        let i = or_null(self.i.map(|i| i.to_string()));
        let f = or_null(self.f.map(|f| format!("{:?}", f as f64 / 8.0)));
        let s = or_null(self.s.map(|s| format!("\"v{s}\"")));
        let t = or_null(self.t.map(|t| format!("[\"v{t}\", \"v{}\"]", t + 1)));
        format!(r#"{{"q": "", "a": {}, "r": {}, "i": {i}, "f": {f}, "s": {s}, "t": {t}}}"#, self.a, self.r)
    }
}

/// Returns whether an event meets the likely alternative, and whether it meets the other one.
type Meets = Box<dyn Fn(&Event) -> [bool; 2]>;

/// Returns the alternatives of expression `id`, and a function that tells which of them an event meets.
fn expression(id: i64) -> (String, Meets) {
    let (x, y) = (id * 7 % 40, id % 20);
    match id / 2 % 6 {
        0 => (format!("(not (s = 'v{x}') or r = {y})"), Box::new(move |event| [event.s != Some(x), event.r == y])),
        1 => (
            format!("(r = {y} or not (i > {x}) or i = {})", x + 1),
            Box::new(move |event| [event.i.is_none_or(|i| i <= x), event.r == y || event.i == Some(x + 1)]),
        ),
        2 => (
            format!("(r = {y} and a >= 0 or not (i <= {x}))"),
            Box::new(move |event| [event.i.is_none_or(|i| i > x), event.r == y]),
        ),
        3 => (
            format!("(not (f >= {:?}) or r = {y})", x as f64 / 8.0),
            Box::new(move |event| [event.f.is_none_or(|f| f < x), event.r == y]),
        ),
        4 => (
            format!("(s = 'v{x}' or not (t one of ('v{x}', 'v{y}')))"),
            Box::new(move |event| {
                let has = |value| event.t.is_some_and(|t| (t..=t + 1).contains(&value));
                [!has(x) && !has(y), event.s == Some(x)]
            }),
        ),
        _ => (
            format!("(not (s in ('v{x}', 'v{y}', 'v7')) or r = {y})"),
            Box::new(move |event| {
                let is_one = event.s.is_some_and(|s| [x, y, 7].contains(&s));
                [!is_one, event.r == y]
            }),
        ),
    }
}

fn index(texts: impl Iterator<Item = String>) -> Index {
    let attributes = [
        ("a", Type::Integer, true),
        ("r", Type::Integer, false),
        ("q", Type::String, false),
        ("i", Type::Integer, true),
        ("f", Type::Float, true),
        ("s", Type::String, true),
        ("t", Type::StringList, true),
    ];
    let attributes = attributes.map(|(name, ty, optional)| {
        let name = name.into();
        Attribute { name, ty, optional, bounds: Bounds::Unbounded }
    });
    let mut index = Index::new(Schema::new(attributes.into()).unwrap());
    for (id, text) in (0..).zip(texts) {
        index.insert(&insertion(id, &text)).unwrap();
    }
    index
}

fn events() -> impl Iterator<Item = Event> {
    let value = |step: i64, of: i64| (step * of % 11 < 7).then_some(step * of % 43);
    (0..400).map(move |step| Event {
        a: step % 3,
        r: step % 23,
        i: value(step, 3),
        f: value(step, 5),
        s: value(step, 7),
        t: value(step, 9),
    })
}

/// Checks that a search finds the true expressions among `ids`. Returns the numbers of evaluated expressions and of those whose likely
/// alternative is false.
fn check(index: &Index, ids: &[i64], event: &Event) -> (u64, u64) {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    let json = event.json();
    search.open(index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
    let found = search.run(index);
    let mut expected = Vec::new();
    let mut unlikely = 0;
    for &id in ids.iter().filter(|id| is_beside_another(**id) <= (event.a == 1)) {
        let [likely, other] = expression(id).1(event);
        unlikely += u64::from(!likely);
        if likely || other {
            expected.push(id as u64);
        }
    }
    assert_eq!(found.ids(), expected, "{json}");
    (found.evaluated(), unlikely)
}

/// Every second expression has a demand beside its alternatives.
fn is_beside_another(id: i64) -> bool {
    id % 2 == 1
}

#[test]
fn an_expression_that_one_alternative_proves_is_not_run() {
    let text = |id: i64| match (expression(id), is_beside_another(id)) {
        ((alternatives, _), false) => alternatives,
        ((alternatives, _), true) => format!("a = 1 and {alternatives}"),
    };
    let ids: Vec<i64> = (0..2800).collect();
    let mut index = index(ids.iter().map(|id| text(*id)));
    index.validate().unwrap();
    let (mut evaluated, mut unlikely) = (0, 0);
    for event in events() {
        let counts = check(&index, &ids, &event);
        evaluated += counts.0;
        unlikely += counts.1;
    }
    assert_eq!(index.info().unindexed, 1400);
    // A few run because digests of different strings or floats collide.
    assert!(
        evaluated <= unlikely + unlikely / 16,
        "{evaluated} were looked at, {unlikely} fail the likely alternative"
    );
    let (gone, left): (Vec<i64>, Vec<i64>) = ids.iter().partition(|id| *id % 3 == 0);
    gone.iter().for_each(|id| index.delete(*id as u64).unwrap());
    index.validate().unwrap();
    for event in events() {
        check(&index, &left, &event);
    }
}

#[test]
fn an_alternative_beside_a_demand_proves_with_a_required_attribute() {
    let text = |id: i64| format!("a = {} and (not (q = 'v{}') or contains(s, 'w'))", id % 2, id % 5);
    let index = index((0..100).map(text));
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    let event = br#"{"a": 1, "r": 0, "q": "v3"}"#;
    search.open(&index, Format::Json, event, ALL_IDS).unwrap();
    let found = search.run(&index);
    assert_eq!(found.ids(), (0..100).filter(|id| id % 2 == 1 && id % 5 != 3).collect::<Vec<_>>());
    assert_eq!(found.evaluated(), 10);
}
