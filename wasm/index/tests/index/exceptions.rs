//! Expressions that except a few values: filters prove most of them, and none for an excepted value.

use crate::support::make::{insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// The values of an event.
struct Event {
    r: i64,
    s: Option<i64>,
    t: Option<Vec<i64>>,
}

impl Event {
    fn json(&self) -> String {
        let s = self.s.map_or("null".to_owned(), |s| format!("\"v{s}\""));
        let t = self.t.as_ref().map_or("null".to_owned(), |t| {
            let elements: Vec<String> = t.iter().map(|element| format!("\"v{element}\"")).collect();
            format!("[{}]", elements.join(","))
        });
        format!(r#"{{"r": {}, "s": {s}, "t": {t}}}"#, self.r)
    }
}

/// Returns the text of expression `id`, and its meaning.
fn expression(id: i64) -> (String, impl Fn(&Event) -> bool) {
    // From one value to enough values to set all bits of a mask.
    let excepted: Vec<i64> = (0..1 + id % 13 * (id % 11)).map(|i| (id * 7 + i * 3) % 400).collect();
    let integers = excepted.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let strings = excepted.iter().map(|value| format!("'v{value}'")).collect::<Vec<_>>().join(", ");
    let text = match id % 6 {
        0 => format!("r <> {}", excepted[0]),
        1 => format!("r not in ({integers})"),
        2 => format!("s not in ({strings})"),
        3 => format!("t none of ({strings})"),
        4 => format!("r > {} and s <> 'v{}'", id % 300, excepted[0]),
        _ => format!("s not in ({strings}) and t none of ({strings}) or r = {}", excepted[0]),
    };
    let holds = move |event: &Event| {
        let is_in = |value: &i64| excepted.contains(value);
        let s_is_none = event.s.is_some_and(|s| !is_in(&s));
        let t_has_none = event.t.as_ref().is_some_and(|t| !t.iter().any(is_in));
        match id % 6 {
            0 => event.r != excepted[0],
            1 => !is_in(&event.r),
            2 => s_is_none,
            3 => t_has_none,
            4 => event.r > id % 300 && event.s.is_some_and(|s| s != excepted[0]),
            _ => s_is_none && t_has_none || event.r == excepted[0],
        }
    };
    (text, holds)
}

/// Returns an index of `texts` over attributes by name, type and whether they are optional, and a search.
fn index(attributes: &[(&str, Type, bool)], texts: impl Iterator<Item = String>) -> (Index, Search) {
    let attributes = attributes.iter().map(|&(name, ty, optional)| {
        let name = name.into();
        Attribute { name, ty, optional, bounds: Bounds::Unbounded }
    });
    let mut index = Index::new(Schema::new(attributes.collect()).unwrap());
    for (id, text) in (0..).zip(texts) {
        index.insert(&insertion(id, &text)).unwrap();
    }
    index.validate().unwrap();
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    (index, search)
}

#[test]
fn exceptions_are_proven_unless_the_event_may_fail_them() {
    let expressions: Vec<_> = (0..3000).map(expression).collect();
    let attributes = [("r", Type::Integer, false), ("s", Type::String, true), ("t", Type::StringList, true)];
    let (index, mut search) = index(&attributes, expressions.iter().map(|(text, _)| text.clone()));
    let (mut matched, mut evaluated) = (0, 0);
    for i in 0..400 {
        let s = (i % 5 > 0).then_some(i * 31 % 450);
        let t = (i % 7 > 0).then(|| (0..i % 4).map(|element| (i + element * 97) % 450).collect());
        let event = Event { r: i, s, t };
        search.open(&index, Format::Json, event.json().as_bytes(), ALL_IDS).unwrap();
        let found = search.run(&index);
        let expected = (0_u64..).zip(&expressions).filter(|(_, (_, holds))| holds(&event)).map(|(id, _)| id);
        assert_eq!(found.ids(), expected.collect::<Vec<_>>(), "{}", event.json());
        matched += found.ids().len() as u64;
        evaluated += found.evaluated();
    }
    assert!(evaluated < matched, "{evaluated} expressions were evaluated for {matched} that match");
}

#[test]
fn exceptions_of_two_values_are_proven_without_running_the_program() {
    let excepted = |id: i64| [id % 20, (id + 1 + id % 7) % 20];
    let texts = (0..300).map(|id| {
        let [first, second] = excepted(id);
        match id % 3 {
            0 => format!("a = 1 and r not in ({first}, {second})"),
            1 => format!("a = 1 and s not in ('v{first}', 'v{second}')"),
            _ => format!("a = 1 and not i in ({second}, {first})"),
        }
    });
    let [a, r] = [("a", Type::Integer, true), ("r", Type::Integer, false)];
    let [s, i] = [("s", Type::String, true), ("i", Type::Integer, true)];
    let (index, mut search) = index(&[a, r, s, i], texts);
    for value in 0..22 {
        let given = if value < 21 { format!(r#", "s": "v{value}", "i": {value}"#) } else { String::new() };
        let event = format!(r#"{{"a": 1, "r": {value}{given}}}"#);
        search.open(&index, Format::Json, event.as_bytes(), ALL_IDS).unwrap();
        let found = search.run(&index);
        let holds = |id: &u64| !excepted(*id as i64).contains(&value) && (value < 21 || id % 3 != 1);
        assert_eq!(found.ids(), (0..300).filter(holds).collect::<Vec<_>>(), "{event}");
        assert_eq!(found.evaluated(), 0);
    }
}
