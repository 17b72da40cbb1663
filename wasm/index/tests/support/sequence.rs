//! Operations on an index and on the oracle, in any order.

use std::collections::BTreeMap;

use super::encode;
use super::generate::{self, CONSTANTS};
use super::make::ALL_IDS;
use super::naive::{self, NaiveEvent};
use super::random::Random;
use be_tree_index::diagnostics::explain::explain;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::read;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::search::{Batch, Form, Request, Search};

/// The number of ids: few, so that they are reused.
const IDS: usize = 60;

/// The memory that the index may have.
pub trait Memory {
    /// Runs a change of the index in it.
    fn run<T>(&self, change: impl FnOnce() -> T) -> T;

    /// Whether a lack of memory may refuse changes.
    const IS_LIMITED: bool = true;
}

/// The memory of the system.
pub struct All;

impl Memory for All {
    fn run<T>(&self, change: impl FnOnce() -> T) -> T {
        change()
    }

    const IS_LIMITED: bool = false;
}

/// An index and the oracle, which make the same changes. A change that is refused memory leaves both as they are.
pub struct Sequence<M: Memory = All> {
    memory: M,
    index: Index,
    search: Search,
    batch: Batch,
    oracle: BTreeMap<u64, Postfix>,
    refusals: usize,
}

impl Sequence {
    pub fn new(random: &mut Random) -> Self {
        Sequence::within(All, random)
    }
}

impl<M: Memory> Sequence<M> {
    /// In `memory`, which has room for the empty index and its searches.
    pub fn within(memory: M, random: &mut Random) -> Self {
        let schema = generate::schema(random);
        let (mut search, mut batch) = (Search::default(), Batch::default());
        let index = memory.run(|| {
            let index = Index::new(schema);
            search.reserve(&index).unwrap();
            batch.reserve(&index).unwrap();
            index
        });
        Sequence { memory, index, search, batch, oracle: BTreeMap::new(), refusals: 0 }
    }

    /// Inserts all of these or none, and makes room to search for them.
    fn change<'a>(&mut self, insertions: impl IntoIterator<Item = Insertion<'a>>) -> Result<(), (usize, Error)> {
        let Sequence { memory, index, search, batch, .. } = self;
        let inserted =
            memory.run(|| index.insert_all_for(&mut (search, batch), insertions.into_iter().map(Ok)).map(drop));
        self.refusals += usize::from(inserted.as_ref().is_err_and(|refusal| Self::is_limit(refusal)));
        inserted
    }

    fn is_limit((_, error): &(usize, Error)) -> bool {
        M::IS_LIMITED && error.kind == Kind::OutOfMemory
    }

    fn subscription(&self, random: &mut Random) -> (u64, String) {
        let depth = random.below(6);
        (random.below(IDS) as u64, generate::expression(random, self.index.schema(), depth))
    }

    fn expected(&self, event: &NaiveEvent) -> Vec<u64> {
        let matching = self.oracle.iter().filter(|(_, postfix)| naive::matches(postfix, event));
        matching.map(|(&id, _)| id).collect()
    }

    fn insert(&mut self, random: &mut Random) {
        let (id, text) = self.subscription(random);
        let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
        let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS);
        let free = !self.oracle.contains_key(&id);
        match self.change([insertion]) {
            Ok(()) => {
                assert!(free, "{id} was there");
                self.oracle.insert(id, postfix.expect("what is inserted can be read"));
            }
            Err(refusal) => assert!(Self::is_limit(&refusal) || !free || postfix.is_err(), "{text}: {}", refusal.1),
        }
    }

    /// Inserts a list of subscriptions or none of them: a repeated or existing id is refused.
    fn insert_all(&mut self, random: &mut Random) {
        let many = 1 + random.below(8);
        let subscriptions: Vec<(u64, String)> = (0..many).map(|_| self.subscription(random)).collect();
        let mut after = self.oracle.clone();
        let mut fits = true;
        for (id, text) in &subscriptions {
            let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS);
            fits &= postfix.is_ok() && !after.contains_key(id);
            after.extend(postfix.map(|postfix| (*id, postfix)));
        }
        let insertions = subscriptions.iter().map(|(id, text)| Insertion {
            id: *id,
            text: text.as_bytes(),
            constants: CONSTANTS.to_vec(),
        });
        match self.change(insertions) {
            Ok(()) => {
                assert!(fits);
                self.oracle = after;
            }
            Err(refusal) => {
                assert!(refusal.0 < many);
                assert!(Self::is_limit(&refusal) || !fits, "{}", refusal.1);
            }
        }
    }

    /// Replaces a subscription. A refused one leaves the old one.
    fn put(&mut self, random: &mut Random) {
        let (id, text) = self.subscription(random);
        let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
        let postfix = read(text.as_bytes(), self.index.schema(), &CONSTANTS);
        let Sequence { memory, index, search, batch, .. } = self;
        match memory.run(|| index.put_for(&mut (search, batch), &insertion)) {
            Ok(()) => drop(self.oracle.insert(id, postfix.expect("what is put can be read"))),
            Err(error) => {
                let is_limit = Self::is_limit(&(0, error));
                self.refusals += usize::from(is_limit);
                assert!(is_limit || postfix.is_err(), "{text}");
            }
        }
    }

    fn delete(&mut self, random: &mut Random) {
        let id = random.below(IDS) as u64;
        let Sequence { memory, index, .. } = self;
        let deleted = memory.run(|| index.delete(id));
        assert_eq!(deleted.is_ok(), self.oracle.remove(&id).is_some());
    }

    fn search(&mut self, random: &mut Random) {
        let event = generate::event(random, self.index.schema());
        let bytes = encode::term_by_name(random, &self.index.schema().clone(), &event);
        self.search.open(&self.index, Format::Term, &bytes, ALL_IDS).unwrap();
        // Some searches are abandoned between steps.
        if random.chance(20) {
            self.search.step(&self.index);
            self.search.abandon();
            return;
        }
        let found = self.search.run(&self.index).ids().to_vec();
        assert_eq!(found, self.expected(&event));
    }

    fn explain(&mut self, random: &mut Random) {
        let id = random.below(IDS) as u64;
        let event = generate::event(random, self.index.schema());
        let bytes = encode::term_by_name(random, &self.index.schema().clone(), &event);
        let mut out = Vec::new();
        let explained = explain(&self.index, Format::Term, &bytes, id, &mut out);
        assert_eq!(explained.is_ok(), self.oracle.contains_key(&id));
        assert_eq!(out.is_empty(), explained.is_err());
    }

    fn batch(&mut self, random: &mut Random) {
        let schema = self.index.schema().clone();
        let many = 1 + random.below(20);
        let events: Vec<NaiveEvent> = (0..many).map(|_| generate::event(random, &schema)).collect();
        let mut message = Vec::new();
        for event in &events {
            let bytes = encode::term_by_position(random, &schema, event);
            message.extend(2_i32.to_le_bytes());
            message.extend((bytes.len() as u32).to_le_bytes());
            message.extend(bytes);
        }
        let bytes = message.len();
        self.batch.open(Request { events: many as u32, bytes, only: None, form: Form::Ids });
        let mut answers = Vec::new();
        while !self.batch.is_done() {
            self.batch.next_part();
            let mut part = self.batch.run(&self.index, &mut self.search, &message, || ()).unwrap();
            while let Some((&length, rest)) = part.split_first() {
                let (words, rest) = rest.split_at(length as usize);
                answers.push(words.to_vec());
                part = rest;
            }
        }
        let expected: Vec<Vec<u64>> = events.iter().map(|event| self.expected(event)).collect();
        assert_eq!(answers, expected);
    }

    /// Does one operation on both sides, and checks that the index is whole.
    pub fn step(&mut self, random: &mut Random) {
        match random.below(14) {
            12 | 13 => self.put(random),
            0..=3 => self.insert(random),
            4 => self.insert_all(random),
            5..=7 => self.delete(random),
            8 | 9 => self.search(random),
            10 => self.explain(random),
            _ => self.batch(random),
        }
        self.index.validate().unwrap();
        assert_eq!(self.index.len(), self.oracle.len());
    }

    /// Deletes all subscriptions, and checks that nothing is left. Returns the number of refusals.
    pub fn end(mut self) -> usize {
        let ids: Vec<u64> = self.oracle.keys().copied().collect();
        let Sequence { memory, index, .. } = &mut self;
        ids.into_iter().for_each(|id| memory.run(|| index.delete(id)).unwrap());
        self.index.validate().unwrap();
        let info = self.index.info();
        assert_eq!((info.expressions, info.predicates, info.strings, info.entries, info.code_bytes), (0, 0, 0, 0, 0));
        self.refusals
    }
}
