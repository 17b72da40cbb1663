//! An index and the oracle side by side.

use std::collections::BTreeMap;

use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::read;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::model::schema::Schema;
use be_tree_index::search::Search;

use super::encode;
use super::generate::{self, CONSTANTS};
use super::naive::{self, NaiveEvent};
use super::random::Random;

/// An index, and the same subscriptions as the oracle holds them.
pub struct Twin {
    pub index: Index,
    search: Search,
    pub oracle: BTreeMap<u64, Postfix>,
}

impl Twin {
    pub fn new(schema: Schema) -> Self {
        Twin { index: Index::new(schema), search: Search::default(), oracle: BTreeMap::new() }
    }

    /// Returns a twin of fewer than `count` random expressions over a random schema.
    pub fn random(random: &mut Random, count: usize) -> Self {
        let mut twin = Twin::new(generate::schema(random));
        let schema = twin.index.schema().clone();
        for id in 0..random.below(count) as u64 {
            let depth = random.below(6);
            let text = generate::expression(random, &schema, depth);
            twin.insert(id, &text);
        }
        twin
    }

    /// Inserts an expression on both sides, if both accept it.
    pub fn insert(&mut self, id: u64, text: &str) {
        let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
        let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS);
        let expected = postfix.is_ok() && !self.oracle.contains_key(&id);
        // A bound on the number of values may refuse what the language allows.
        if self.index.insert(&insertion).is_ok() {
            assert!(expected, "{id} {text}");
            self.oracle.extend(postfix.map(|postfix| (id, postfix)));
        }
    }

    /// Inserts an expression on both sides, or replaces that with the id, if both accept it.
    pub fn put(&mut self, id: u64, text: &str) {
        let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
        if self.index.put_for(&mut self.search, &insertion).is_ok() {
            let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS).expect("what is put can be read");
            self.oracle.insert(id, postfix);
        }
    }

    pub fn delete(&mut self, id: u64) {
        assert_eq!(self.index.delete(id).is_ok(), self.oracle.remove(&id).is_some());
    }

    fn search(&mut self, format: Format, bytes: &[u8], only: Option<&[u64]>) -> Vec<u64> {
        self.search.reserve(&self.index).unwrap();
        self.search.open(&self.index, format, bytes, only.map(|ids| ids.iter().copied())).unwrap();
        self.search.run(&self.index).ids().to_vec()
    }

    /// Checks the matches of `event` in every format, among all ids and among some.
    pub fn check(&mut self, random: &mut Random, event: &NaiveEvent) {
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
