//! The reasons of subscriptions that do not match, against the oracle.

use std::collections::BTreeMap;

use crate::support::encode;
use crate::support::generate::{self, CONSTANTS};
use crate::support::make::{insertion, ALL_IDS};
use crate::support::naive;
use crate::support::random::Random;
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::read;
use be_tree_index::model::predicate::{Postfix, Test};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// Searches for reasons. Returns the matching ids, and the other ids by reason.
fn search(index: &Index, bytes: &[u8], only: Option<&[u64]>) -> (Vec<u64>, Vec<Vec<u64>>) {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    search.open_reasons(index, Format::Term, bytes, only.map(|ids| ids.iter().copied())).unwrap();
    let found = search.run(index);
    let (ids, reasons) = (found.ids().to_vec(), found.reasons());
    let numbers = index.schema().len() + 3;
    let (missed, counts) = reasons.split_at(reasons.len() - numbers - 2);
    assert_eq!(counts[numbers + 1] == 1, counts[numbers - 1] > 0 && ids.is_empty());
    let mut missed = missed.to_vec();
    let groups = counts[..numbers].iter().map(|&count| {
        let mut group: Vec<u64> = missed.drain(..count as usize).collect();
        if counts[numbers] == 0 {
            group.sort_unstable();
        }
        group
    });
    let groups = groups.collect();
    assert!(missed.is_empty());
    (ids, groups)
}

fn expected(
    schema: &Schema,
    oracle: &BTreeMap<u64, Postfix>,
    event: &naive::NaiveEvent,
    only: Option<&[u64]>,
) -> (Vec<u64>, Vec<Vec<u64>>) {
    let mut ids = Vec::new();
    let mut groups = vec![Vec::new(); schema.len() + 3];
    for (&id, postfix) in oracle.iter().filter(|(id, _)| only.is_none_or(|only| only.contains(id))) {
        if naive::matches(postfix, event) {
            ids.push(id);
            continue;
        }
        let number = match naive::reason(postfix, event) {
            Some(predicate) if matches!(predicate.test, Test::GeoWithinRadius { .. }) => schema.len(),
            Some(predicate) => predicate.attribute.index(),
            None => schema.len() + 1,
        };
        groups[number].push(id);
    }
    (ids, groups)
}

/// Returns a schema of booleans, whose programs of reasons run interleaved.
fn booleans(random: &mut Random) -> Schema {
    let attribute = |i| {
        let name = format!("b{i}");
        Attribute { name, ty: Type::Boolean, optional: random.chance(50), bounds: Bounds::Unbounded }
    };
    Schema::new((0..20).map(attribute).collect()).unwrap()
}

#[test]
fn each_miss_has_the_reason_of_a_left_to_right_evaluation() {
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let schema = if seed % 2 == 0 { generate::schema(&mut random) } else { booleans(&mut random) };
        let mut index = Index::new(schema.clone());
        let mut oracle = BTreeMap::new();
        for round in 0..4 {
            for _ in 0..150 {
                let id = random.next() % 400;
                if random.chance(30) {
                    assert_eq!(index.delete(id).is_ok(), oracle.remove(&id).is_some());
                    continue;
                }
                let depth = random.below(7);
                let text = generate::expression(&mut random, &schema, depth);
                let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
                if index.insert(&insertion).is_ok() {
                    oracle.insert(id, read(text.as_bytes(), &schema, &CONSTANTS).unwrap());
                }
            }
            if round == 0 {
                index.keep_reasons().unwrap();
            }
            index.validate().unwrap();
            for _ in 0..4 {
                let event = generate::event(&mut random, &schema);
                let bytes = encode::term_by_name(&mut random, &schema, &event);
                assert_eq!(search(&index, &bytes, None), expected(&schema, &oracle, &event, None));
                let some: Vec<u64> = (0..400).filter(|_| random.chance(20)).collect();
                assert_eq!(search(&index, &bytes, Some(&some)), expected(&schema, &oracle, &event, Some(&some)));
            }
        }
    }
}

#[test]
fn a_constant_false_has_no_attribute_as_its_reason() {
    let attribute = Attribute { name: "a".into(), ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
    let mut index = Index::new(Schema::new(vec![attribute]).unwrap());
    index.keep_reasons().unwrap();
    for (id, text) in [(1, "false"), (2, "a and false"), (3, "not (a or true)")] {
        index.insert(&insertion(id, text)).unwrap();
    }
    let event = b"\x83j";
    assert_eq!(search(&index, event, None), (vec![], vec![vec![], vec![], vec![1, 2, 3], vec![]]));
}

#[test]
fn a_missing_required_attribute_is_the_reason_of_every_miss() {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Boolean, optional: false, bounds: Bounds::Unbounded };
    let mut index = Index::new(Schema::new(vec![attribute("a"), attribute("b")]).unwrap());
    index.keep_reasons().unwrap();
    for id in [5, 3, 70, 40] {
        index.insert(&Insertion { id, text: b"a or not b", constants: vec![] }).unwrap();
    }
    // [{a, true}]
    let event = b"\x83l\x00\x00\x00\x01h\x02w\x01aw\x04truej";
    assert_eq!(search(&index, event, None), (vec![], vec![vec![], vec![], vec![], vec![], vec![3, 5, 40, 70]]));
    assert_eq!(search(&index, event, Some(&[70, 6])), (vec![], vec![vec![], vec![], vec![], vec![], vec![70]]));

    let mut search = Search::default();
    let none = ALL_IDS;
    let error = search.open_reasons(&index, Format::Json, b"{", none.clone()).unwrap_err();
    assert_eq!(error.kind, Kind::Syntax);
    let index = Index::new(index.schema().clone());
    assert_eq!(search.open_reasons(&index, Format::Json, b"{}", none).unwrap_err().kind, Kind::NotFound);
}
