//! Refuse memory to the search tables at random during insertions. Each insertion must succeed or change nothing, and searches
//! always have room for the index.

use std::collections::BTreeMap;

use crate::support::make::{attribute, insertion, ALL_IDS};
use crate::support::naive::{NaiveEvent, NaiveValue};
use crate::support::random::Random;
use crate::support::refused::Refused;
use crate::support::{encode, naive};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::language::read;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::search::{Batch, Search};

fn schema() -> Schema {
    let (string, integer) = (Type::String, Type::Integer);
    Schema::new(vec![
        attribute("i", integer),
        attribute("j", integer),
        attribute("s", string),
        attribute("b", Type::Boolean),
    ])
    .unwrap()
}

/// Returns an expression that grows the tree by values, buckets or nested levels, or not at all.
fn expression(random: &mut Random) -> String {
    let (value, width) = (random.below(400), random.below(9));
    match random.below(9) {
        0 => format!("i = {value} and s = 'x{width}'"),
        1..=4 => format!("i > {value} and i <= {} and j <> {width}", value + width),
        5 => format!("j in ({width}, {}, {value}) and i <> {value}", value + 1000),
        6 => format!("contains(s, 'x{width}') and j = {}", value % 20),
        7 => format!("lower(s) in ('X{width}', 'y{value}') and j < 300"),
        _ => format!("not b or i = {value}"),
    }
}

fn event(random: &mut Random) -> NaiveEvent {
    let mut some = |value: fn(&mut Random) -> NaiveValue| random.chance(80).then(|| value(random));
    vec![
        some(|random| NaiveValue::Integer(random.below(400) as i64)),
        some(|random| NaiveValue::Integer(random.below(20) as i64)),
        some(|random| NaiveValue::String(format!("x{}", random.below(9)).into_bytes())),
        some(|random| NaiveValue::Boolean(random.chance(50))),
    ]
}

fn search(random: &mut Random, index: &Index, search: &mut Search, oracle: &BTreeMap<u64, Postfix>) {
    let event = event(random);
    let bytes = encode::term_by_name(random, &index.schema().clone(), &event);
    search.open(index, Format::Term, &bytes, ALL_IDS).unwrap();
    let expected = oracle.iter().filter(|(_, postfix)| naive::matches(postfix, &event)).map(|(&id, _)| id);
    assert_eq!(search.run(index).ids(), expected.collect::<Vec<_>>());
}

#[test]
fn searches_have_room_after_insertions_that_are_refused_memory() {
    let mut refusals = 0;
    for seed in 0..20 {
        let random = &mut Random::new(seed);
        let mut index = Index::new(schema());
        let (mut searches, mut batch) = (Search::default(), Batch::default());
        searches.reserve(&index).unwrap();
        batch.reserve(&index).unwrap();
        let mut oracle = BTreeMap::new();
        for _ in 0..60 {
            let first = random.below(1 << 20) as u64;
            let texts: Vec<String> = (0..random.below(80)).map(|_| expression(random)).collect();
            let read_back: Vec<_> = texts.iter().map(|text| read(text.as_bytes(), index.schema(), &[])).collect();
            let insertions = (first..).zip(&texts).map(|(id, text)| Ok(insertion(id, text)));
            let seed = random.below(1 << 30) as u64;
            let mut refused = Refused::new(&mut searches, &mut batch, Random::new(seed), 3);
            if index.insert_all_for(&mut refused, insertions).is_ok() {
                oracle.extend((first..).zip(read_back).map(|(id, postfix)| (id, postfix.unwrap())));
            }
            refusals += refused.refusals;
            index.validate().unwrap();
            search(random, &index, &mut searches, &oracle);
            let gone: Vec<u64> = oracle.keys().copied().filter(|_| random.chance(20)).collect();
            gone.iter().for_each(|id| index.delete(*id).unwrap());
            oracle.retain(|id, _| !gone.contains(id));
            search(random, &index, &mut searches, &oracle);
        }
    }
    assert!(refusals > 100, "{refusals}");
}
