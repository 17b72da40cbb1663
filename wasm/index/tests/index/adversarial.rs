//! Expressions and events of extreme size and depth give a correct result or an error.

use crate::support::make::{attribute, insertion, ALL_IDS};
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

fn index() -> Index {
    let attributes = vec![
        attribute("b", Type::Boolean),
        attribute("i", Type::Integer),
        attribute("s", Type::String),
        attribute("il", Type::IntegerList),
    ];
    Index::new(Schema::new(attributes).unwrap())
}

fn insert(index: &mut Index, id: u64, text: &str) {
    index.insert(&insertion(id, text)).unwrap();
}

fn search(index: &Index, json: &str) -> Vec<u64> {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    search.open(index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
    search.run(index).ids().to_vec()
}

#[test]
fn relations_at_the_ends_of_32_and_64_bits() {
    let narrow = [i32::MIN, -1, 0, i32::MAX].map(i64::from);
    let around = |end: i64| (-2..=2).filter_map(move |step| end.checked_add(step));
    let ends: Vec<i64> = [i64::MIN, i64::MAX].into_iter().chain(narrow).flat_map(around).collect();
    type Holds = fn(i64, i64) -> bool;
    let relations: [(&str, Holds); 6] = [
        ("<", |value, constant| value < constant),
        ("<=", |value, constant| value <= constant),
        (">", |value, constant| value > constant),
        (">=", |value, constant| value >= constant),
        ("=", |value, constant| value == constant),
        ("<>", |value, constant| value != constant),
    ];
    let mut index = index();
    let mut cases = Vec::new();
    for &constant in &ends {
        for (relation, holds) in relations {
            // An indexed expression, and one that every search evaluates.
            for text in [format!("i {relation} {constant}"), format!("i {relation} {constant} or not b")] {
                insert(&mut index, cases.len() as u64, &text);
                cases.push((constant, holds));
            }
        }
    }
    index.validate().unwrap();
    for &value in &ends {
        let matching = (0_u64..).zip(&cases).filter(|(_, (constant, holds))| holds(value, *constant));
        let expected: Vec<u64> = matching.map(|(id, _)| id).collect();
        assert_eq!(search(&index, &format!(r#"{{"i": {value}, "b": true}}"#)), expected, "{value}");
    }
    assert_eq!(search(&index, r#"{"b": true}"#), [0; 0]);
}

#[test]
fn nesting_of_a_million_levels() {
    let mut index = index();
    let levels = 1_000_000;
    insert(&mut index, 1, &format!("{}b{}", "(".repeat(levels), ")".repeat(levels)));
    insert(&mut index, 2, &format!("{}b", "not ".repeat(levels)));
    insert(&mut index, 3, &format!("{}b", "not ".repeat(levels + 1)));
    index.validate().unwrap();
    assert_eq!(search(&index, r#"{"b": true}"#), [1, 2]);
    assert_eq!(search(&index, r#"{"b": false}"#), [3]);
    assert_eq!(search(&index, "{}"), [3]);
}

/// Nests `and` and `or` alternately, so that no chain is flattened and the program has long jumps.
fn alternating(levels: i64) -> String {
    let open: String = (0..levels).map(|i| format!("(i <> {i} {} ", if i % 2 == 0 { "and" } else { "or" })).collect();
    format!("{open}i = {levels}{}", ")".repeat(levels as usize))
}

#[test]
fn programs_too_long_for_short_jumps() {
    let mut index = index();
    insert(&mut index, 1, &alternating(60_000));
    insert(&mut index, 2, &format!("not ({})", alternating(60_001)));
    index.validate().unwrap();
    // The first level is false, or the second is true, or the third and the fourth are.
    assert_eq!(search(&index, r#"{"i": 0}"#), [2]);
    assert_eq!(search(&index, r#"{"i": 1}"#), [1]);
    assert_eq!(search(&index, r#"{"i": 7}"#), [1]);
    assert_eq!(search(&index, "{}"), [2]);
}

#[test]
fn chains_and_lists_of_a_hundred_thousand() {
    let mut index = index();
    let numbers: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
    let equal: Vec<String> = numbers.iter().map(|i| format!("i = {i}")).collect();
    let unequal: Vec<String> = numbers.iter().map(|i| format!("i <> {i}")).collect();
    insert(&mut index, 1, &equal.join(" or "));
    insert(&mut index, 2, &unequal.join(" and "));
    insert(&mut index, 3, &format!("i in ({})", numbers.join(", ")));
    insert(&mut index, 4, &format!("il all of ({})", numbers.join(", ")));
    insert(&mut index, 5, &format!("({}) and ({})", equal.join(" or "), unequal[1..].join(" and ")));
    index.validate().unwrap();
    assert_eq!(search(&index, r#"{"i": 99999}"#), [1, 3]);
    assert_eq!(search(&index, r#"{"i": 0}"#), [1, 3, 5]);
    assert_eq!(search(&index, r#"{"i": 100000}"#), [2]);
    assert_eq!(search(&index, &format!(r#"{{"il": [{}]}}"#, numbers.join(", "))), [4]);
    for id in 1..=5 {
        index.delete(id).unwrap();
    }
    index.validate().unwrap();
}

#[test]
fn a_refused_insertion_changes_nothing() {
    let mut index = index();
    let known = [(1, "i = 1"), (2, "s = 'a' or b")];
    known.iter().for_each(|(id, text)| insert(&mut index, *id, text));
    let before = index.info();
    let refused: [(u64, &str, Kind); 4] = [
        (1, "i = 2", Kind::DuplicateId),
        (3, "s = 'new' and i =", Kind::Syntax),
        (3, "s = 'new' and x = 1", Kind::UnknownAttribute),
        (3, "s = 'new' and i = 'a'", Kind::Type),
    ];
    for (id, text, kind) in refused {
        let batch = [(10, "s = 'newer'"), (id, text)];
        let insertions = batch.map(|(id, text)| Ok(insertion(id, text)));
        let (position, error) = index.insert_all(insertions).unwrap_err();
        assert_eq!((position, error.kind), (1, kind));
        assert_eq!(index.info(), before);
        index.validate().unwrap();
    }
}

#[test]
fn results_ascend_for_ids_in_any_order() {
    let mut index = index();
    let ids: Vec<u64> = (0..5000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    ids.iter().for_each(|&id| insert(&mut index, id, "b or i > 0"));
    let mut expected = ids;
    expected.sort_unstable();
    assert_eq!(search(&index, r#"{"b": true}"#), expected);
}

/// Only the first 16,383 attributes have filters.
#[test]
fn lists_split_by_attributes_without_filters() {
    let attributes = (0..16_500).map(|i| Attribute {
        name: format!("s{i}"),
        ty: Type::String,
        optional: true,
        bounds: Bounds::Unbounded,
    });
    let mut index = Index::new(Schema::new(attributes.collect()).unwrap());
    for id in 0..400 {
        let attribute = if id % 2 == 0 { 16_499 } else { 3 };
        insert(&mut index, id, &format!("s{attribute} = 'x{id}'"));
    }
    index.validate().unwrap();
    assert!(index.info().nodes > 350, "{}", index.info().nodes);
    assert_eq!(search(&index, r#"{"s16499": "x240", "s3": "x7"}"#), [7, 240]);
}

#[test]
fn a_pattern_with_repeated_parts_is_found_once() {
    let mut index = index();
    insert(&mut index, 1, "s like '*aa?b*'");
    insert(&mut index, 2, "s like '*aa*c*'");
    insert(&mut index, 3, "s matches '(aa)+.*'");
    insert(&mut index, 4, "s matches '.*aab'");
    for len in [0, 10, 5000] {
        let json = format!(r#"{{"s": "{}xb"}}"#, "aa".repeat(len));
        let expected: &[u64] = if len > 0 { &[1, 3] } else { &[] };
        assert_eq!(search(&index, &json), expected);
    }
}
