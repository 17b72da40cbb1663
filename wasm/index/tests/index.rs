//! The index against the oracle: random schemas, expressions and events, with insertions and deletions in between.

mod support;

use std::collections::BTreeMap;

use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::read;
use be_tree_index::predicate::Postfix;
use be_tree_index::search::Search;
use proptest::prelude::*;
use support::encode;
use support::generate::{self, CONSTANTS};
use support::naive::{self, NaiveValue};
use support::random::Random;

type NaiveEvent = Vec<Option<NaiveValue>>;

/// An index, and the same subscriptions as the oracle holds them.
struct Twin {
    index: Index,
    search: Search,
    oracle: BTreeMap<u64, Postfix>,
}

impl Twin {
    fn new(schema: be_tree_index::schema::Schema) -> Self {
        Twin { index: Index::new(schema), search: Search::default(), oracle: BTreeMap::new() }
    }

    fn insert(&mut self, id: u64, text: &str) {
        let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
        let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS);
        let expected = postfix.is_ok() && !self.oracle.contains_key(&id);
        // A bound on the number of values may refuse what the language allows.
        if self.index.insert(&insertion).is_ok() {
            assert!(expected, "{id} {text}");
            self.oracle.extend(postfix.map(|postfix| (id, postfix)));
        }
    }

    fn delete(&mut self, id: u64) {
        assert_eq!(self.index.delete(id).is_ok(), self.oracle.remove(&id).is_some());
    }

    fn search(&mut self, format: Format, bytes: &[u8], only: Option<&[u64]>) -> Vec<u64> {
        self.search.reserve(&self.index).unwrap();
        self.search.open(&self.index, format, bytes, only.map(|ids| ids.iter().copied())).unwrap();
        self.search.run(&self.index).ids().to_vec()
    }

    fn check(&mut self, random: &mut Random, event: &NaiveEvent) {
        let matching = self.oracle.iter().filter(|(_, postfix)| naive::matches(postfix, event));
        let expected: Vec<u64> = matching.map(|(&id, _)| id).collect();
        let schema = self.index.schema().clone();
        let by_name = encode::term_by_name(random, &schema, event);
        assert_eq!(self.search(Format::Term, &by_name, None), expected);
        let by_position = encode::term_by_position(random, &schema, event);
        assert_eq!(self.search(Format::Record, &by_position, None), expected);
        let json = encode::json(random, &schema, event);
        assert_eq!(self.search(Format::Json, json.as_bytes(), None), expected);

        let some: Vec<u64> = self.oracle.keys().copied().filter(|_| random.chance(30)).chain([u64::MAX]).collect();
        let expected: Vec<u64> = expected.into_iter().filter(|id| some.contains(id)).collect();
        assert_eq!(self.search(Format::Term, &by_name, Some(&some)), expected);
    }
}

fn rehearse(seed: u64, subscriptions: usize, rounds: usize) {
    let mut random = Random::new(seed);
    let mut twin = Twin::new(generate::schema(&mut random));
    let schema = twin.index.schema().clone();
    for _ in 0..rounds {
        for _ in 0..subscriptions {
            let id = random.next() % (4 * subscriptions as u64);
            if random.chance(40) {
                twin.delete(id);
            } else {
                let depth = random.below(6);
                let text = generate::expression(&mut random, &schema, depth);
                twin.insert(id, &text);
            }
        }
        twin.index.validate().unwrap();
        for _ in 0..4 {
            let event = generate::event(&mut random, &schema);
            twin.check(&mut random, &event);
        }
    }
    let ids: Vec<u64> = twin.oracle.keys().copied().collect();
    ids.into_iter().for_each(|id| twin.delete(id));
    twin.index.validate().unwrap();
    let info = twin.index.info();
    assert_eq!((info.expressions, info.predicates, info.strings, info.entries, info.nodes), (0, 0, 0, 0, 1));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_match_is_lost_and_none_is_made_up(seed: u64) {
        rehearse(seed, 60, 6);
    }
}

#[test]
fn nor_in_an_index_large_enough_to_split_and_merge() {
    for seed in 0..6 {
        rehearse(seed, 1500, 4);
    }
}
