//! Attributes in expressions train the statistics that place later expressions, and never decide whether these match.

use crate::support::make::{insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// Searches for an event. Returns the ids found and the number of visited entries.
fn search(search: &mut Search, index: &Index, json: &str) -> (Vec<u64>, u64) {
    search.open(index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
    let found = search.run(index);
    (found.ids().to_vec(), found.visited())
}

fn insert(index: &mut Index, ids: std::ops::Range<u64>, text: impl Fn(u64) -> String) {
    for id in ids {
        index.insert(&insertion(id, &text(id))).unwrap();
    }
}

/// An optional attribute with values from 0 to `max`.
fn attribute(name: &str, max: i64) -> Attribute {
    Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Integer { min: 0, max } }
}

fn both(id: u64) -> String {
    format!("often = {} and seldom = {}", id % 10, id % 10)
}

/// Returns an index over two attributes. The one that events define often has more values, so it is the better access predicate
/// while the statistics know nothing else.
fn index() -> Index {
    Index::new(Schema::new(vec![attribute("often", 19), attribute("seldom", 9)]).unwrap())
}

#[test]
fn a_rare_attribute_counts_as_defined_by_few_events() {
    let mut index = index();
    let mut events = Search::default();
    insert(&mut index, 0..4000, |id| format!("often = {}", id % 20));
    insert(&mut index, 4000..4200, both);
    index.validate().unwrap();
    events.reserve(&index).unwrap();
    // No entry under the other attribute is visited.
    assert_eq!(search(&mut events, &index, r#"{"often": 3}"#).1, 200);
    let expected: Vec<u64> = (0..4200).filter(|id| id % if *id < 4000 { 20 } else { 10 } == 3).collect();
    assert_eq!(search(&mut events, &index, r#"{"often": 3, "seldom": 3}"#).0, expected);
}

/// A few expressions ask for each of many attributes. An event that does not define an attribute visits none of its expressions.
#[test]
fn a_search_skips_levels_of_undefined_attributes() {
    const RARE: u64 = 300;
    let rare = (0..RARE).map(|number| attribute(&format!("rare{number}"), 9));
    let attributes = rare.chain([attribute("often", 3)]).collect();
    let mut index = Index::new(Schema::new(attributes).unwrap());
    let mut events = Search::default();
    insert(&mut index, 0..12 * RARE, |id| format!("often = {} and rare{} = {}", id % 4, id % RARE, id / RARE % 10));
    index.validate().unwrap();
    events.reserve(&index).unwrap();
    let (none, visited) = search(&mut events, &index, r#"{"often": 3}"#);
    assert!(none.is_empty());
    assert!(visited < RARE, "{visited}");
    let expected: Vec<u64> = (0..12 * RARE).filter(|id| id % 4 == 3 && id % RARE == 7 && id / RARE % 10 == 1).collect();
    assert!(!expected.is_empty());
    assert_eq!(search(&mut events, &index, r#"{"often": 3, "rare7": 1}"#).0, expected);
}
