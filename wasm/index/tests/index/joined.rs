//! Expressions with one or two demands left below their path, and undefined attributes: filters prove them, and few programs run.

use std::cmp::Ordering;

use crate::support::make::{insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// The values of an event besides `a = 1`.
#[derive(Clone, Copy)]
struct Event {
    i: Option<i64>,
    f: Option<f64>,
    b: Option<bool>,
    s: Option<i64>,
}

impl Event {
    fn json(&self) -> String {
        let i = self.i.map_or("null".to_owned(), |i| i.to_string());
        let f = self.f.map_or("null".to_owned(), |f| format!("{f:e}"));
        let b = self.b.map_or("null".to_owned(), |b| b.to_string());
        let s = self.s.map_or("null".to_owned(), |s| format!("\"v{s}\""));
        format!(r#"{{"a": 1, "i": {i}, "f": {f}, "b": {b}, "s": {s}}}"#)
    }
}

/// Integers with an exact digest of 32 bits, and without.
const INTEGERS: [i64; 13] = [
    i64::MIN,
    i32::MIN as i64,
    i32::MIN as i64 + 1,
    i32::MIN as i64 + 2,
    -7,
    0,
    1,
    41,
    100,
    i32::MAX as i64 - 1,
    i32::MAX as i64,
    i32::MAX as i64 + 1,
    i64::MAX,
];

/// Floats; some share their upper 32 bits.
const FLOATS: [f64; 7] = [-2.5, 0.0, f64::MIN_POSITIVE, 0.25, 0.25 + f64::EPSILON, 0.3, 1e300];

type Relation = fn(Ordering) -> bool;

/// Returns the text of expression `id`, and its meaning.
fn expression(id: usize) -> (String, impl Fn(Event) -> bool) {
    let constant = INTEGERS[id % INTEGERS.len()];
    let relations: [(&str, Relation); 5] = [
        ("=", Ordering::is_eq),
        ("<", Ordering::is_lt),
        ("<=", Ordering::is_le),
        (">", Ordering::is_gt),
        (">=", Ordering::is_ge),
    ];
    let (sign, relation) = relations[id / 5 % relations.len()];
    // `=` is left out: floats that are equal, such as 0.0 and -0.0, may differ in the total order.
    let (float_sign, float_relation) = relations[1 + id / 5 % 4];
    let s = (id % 11) as i64;
    let first = format!("not (i {sign} {constant})");
    let float = FLOATS[id % FLOATS.len()];
    let text = match id % 6 {
        0 => format!("{first} and a = 1"),
        1 => format!("{first} and s <> 'v{s}' and a = 1"),
        2 => format!("a = 1 and s not in ('v{s}', 'v{}') and not b", s + 1),
        3 => format!("a = 1 and f {float_sign} {float:?} and not b"),
        4 => format!("a = 1 and i <> {constant} and not (s in ('v{s}', 'v{}'))", s + 1),
        _ => format!("a = 1 and not (f {float_sign} {float:?})"),
    };
    let holds = move |event: Event| {
        let first = !event.i.is_some_and(|i| relation(i.cmp(&constant)));
        let not_b = event.b != Some(true);
        let is_among = |last: i64| event.s.is_some_and(|value| (s..=last).contains(&value));
        match id % 6 {
            0 => first,
            1 => first && event.s.is_some() && !is_among(s),
            2 => event.s.is_some() && !is_among(s + 1) && not_b,
            3 => event.f.is_some_and(|f| float_relation(f.total_cmp(&float))) && not_b,
            4 => event.i.is_some_and(|i| i != constant) && !is_among(s + 1),
            _ => !event.f.is_some_and(|f| float_relation(f.total_cmp(&float))),
        }
    };
    (text, holds)
}

#[test]
fn filters_prove_expressions_with_one_or_two_demands_left() {
    let attribute = |name: &str, ty, optional| Attribute { name: name.into(), ty, optional, bounds: Bounds::Unbounded };
    let attributes = vec![
        attribute("a", Type::Integer, false),
        attribute("i", Type::Integer, true),
        attribute("f", Type::Float, true),
        attribute("b", Type::Boolean, true),
        attribute("s", Type::String, true),
    ];
    let mut index = Index::new(Schema::new(attributes).unwrap());
    // More entries than a step visits, so that a search pauses inside lists.
    let expressions: Vec<_> = (0..5000).map(expression).collect();
    for (id, (text, _)) in (0..).zip(&expressions) {
        index.insert(&insertion(id, text)).unwrap();
    }
    index.validate().unwrap();
    assert!(index.info().entries > expressions.len());
    let mut deleted = vec![false; expressions.len()];
    let mut search = Search::default();
    for round in 0..2 {
        search.reserve(&index).unwrap();
        let (mut matched, mut evaluated) = (0, 0);
        let integers = INTEGERS.iter().flat_map(|&i| [Some(i), i.checked_add(1), None]);
        for (nth, i) in integers.enumerate() {
            for b in [None, Some(false), Some(true)] {
                let f = FLOATS.get(nth % 8).map(|f| [f.next_down(), *f, f.next_up()][nth % 3]);
                let event = Event { i, f, b, s: (nth % 6 > 0).then_some(nth as i64 % 14) };
                search.open(&index, Format::Json, event.json().as_bytes(), ALL_IDS).unwrap();
                let found = search.run(&index);
                let holds = |id: &u64| !deleted[*id as usize] && expressions[*id as usize].1(event);
                let expected: Vec<u64> = (0..expressions.len() as u64).filter(holds).collect();
                assert_eq!(found.ids(), expected, "{} in round {round}", event.json());
                matched += found.ids().len() as u64;
                evaluated += found.evaluated();
            }
        }
        assert!(2 * evaluated < matched, "{evaluated} expressions were evaluated for {matched} that match");
        for id in (0..expressions.len()).filter(|id| id % 7 < 3 && round == 0) {
            index.delete(id as u64).unwrap();
            deleted[id] = true;
        }
        index.validate().unwrap();
    }
}
