//! The order of ids: searches return ascending ids, and have room for them, in whatever order subscriptions are inserted, deleted
//! and replaced.

use std::collections::BTreeMap;

use crate::support::make::{attribute, insertion, ALL_IDS};
use crate::support::random::Random;
use crate::support::refused::Refused;
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::search::{Batch, Form, Request, Search};

const VALUES: u64 = 40;
/// The number of subscriptions.
const LIVE: usize = 3_000;

/// An index, its searches, and the value in the expression of each id.
struct Churned {
    index: Index,
    search: Search,
    batch: Batch,
    held: BTreeMap<u64, u64>,
    next: u64,
    /// The percentage of requests of room that are refused.
    refused: usize,
    /// The number of insertions that were refused.
    refusals: usize,
}

/// Returns an expression; the value chooses its kind.
fn text(value: u64) -> String {
    match value % 8 {
        0 | 1 => format!("a = {value}"),
        2 => format!("a >= {value} and a < {}", value + 5),
        3 => format!("not b or a = {value}"),
        4 => "b or not c".to_owned(),
        5 => format!("contains(s, 'x{value:02}')"),
        6 => "true".to_owned(),
        _ => {
            (0..40).map(|i| format!("(b or a <> {})", 100 + i)).collect::<Vec<_>>().join(" and ")
                + &format!(" and a = {value}")
        }
    }
}

/// Whether an event makes the expression of `value` true.
fn holds(value: u64, Event { a, b, c }: Event) -> bool {
    match value % 8 {
        2 => (value..value + 5).contains(&a),
        3 => !b || value == a,
        4 => b || !c,
        6 => true,
        _ => value == a,
    }
}

#[derive(Clone, Copy)]
struct Event {
    a: u64,
    b: bool,
    c: bool,
}

impl Event {
    fn any(random: &mut Random) -> Event {
        Event { a: random.below(VALUES as usize) as u64, b: random.chance(50), c: random.chance(50) }
    }

    fn json(self) -> Vec<u8> {
        let Event { a, b, c } = self;
        format!(r#"{{"a": {a}, "b": {b}, "c": {c}, "s": "an x{a:02}"}}"#).into_bytes()
    }
}

impl Churned {
    fn new() -> Self {
        let schema = Schema::new(vec![
            attribute("a", Type::Integer),
            attribute("b", Type::Boolean),
            attribute("c", Type::Boolean),
            attribute("s", Type::String),
        ]);
        let schema = schema.unwrap();
        let mut churned = Churned {
            index: Index::new(schema),
            search: Search::default(),
            batch: Batch::default(),
            held: BTreeMap::new(),
            next: 0,
            refused: 0,
            refusals: 0,
        };
        churned.index.keep_reasons().unwrap();
        churned.search.reserve_for_reasons(&churned.index).unwrap();
        churned.batch.reserve(&churned.index).unwrap();
        churned
    }

    fn insert(&mut self, id: u64, value: u64) {
        let text = text(value);
        let insertion = insertion(id, &text);
        let random = Random::new(id ^ value << 32 ^ self.held.len() as u64);
        let mut searches = Refused::new(&mut self.search, &mut self.batch, random, self.refused);
        let inserted = if self.held.contains_key(&id) {
            self.index.put_for(&mut searches, &insertion)
        } else {
            self.index.insert_all_for(&mut searches, [Ok(insertion)]).map(drop).map_err(|(_, error)| error)
        };
        match inserted {
            Ok(()) => drop(self.held.insert(id, value)),
            Err(error) => {
                assert!(error.kind == Kind::OutOfMemory && self.refused > 0, "{error}");
                self.refusals += 1;
            }
        }
    }

    fn delete(&mut self, id: u64) {
        self.index.delete(id).unwrap();
        self.held.remove(&id);
    }

    fn any(&self, random: &mut Random) -> u64 {
        let from = random.below(self.held.len());
        *self.held.keys().nth(from).unwrap()
    }

    fn check(&mut self, random: &mut Random) {
        self.index.validate().unwrap();
        let events: Vec<Event> = (0..3).map(|_| Event::any(random)).collect();
        let expected =
            |event: Event| self.held.iter().filter(move |(_, value)| holds(**value, event)).map(|(&id, _)| id);
        let (mut message, mut all) = (Vec::new(), Vec::new());
        for &event in &events {
            let ids: Vec<u64> = expected(event).collect();
            let event = event.json();
            self.search.open(&self.index, Format::Json, &event, ALL_IDS).unwrap();
            assert_eq!(self.search.run(&self.index).ids(), ids);

            self.search.open_reasons(&self.index, Format::Json, &event, ALL_IDS).unwrap();
            let found = self.search.run(&self.index);
            assert_eq!(found.ids(), ids);
            let mut missed = found.reasons()[..self.held.len() - ids.len()].to_vec();
            missed.sort_unstable();
            assert!(missed.iter().eq(self.held.keys().filter(|id| ids.binary_search(id).is_err())));

            let asked: Vec<u64> = self.held.keys().copied().filter(|id| id % 3 == 0).collect();
            self.search.open(&self.index, Format::Json, &event, Some(asked.iter().rev().copied())).unwrap();
            let among: Vec<u64> = ids.iter().copied().filter(|id| id % 3 == 0).collect();
            assert_eq!(self.search.run(&self.index).ids(), among);

            self.search.open_for(&self.index, Format::Json, &event, ALL_IDS, Form::Bitmap).unwrap();
            let words = self.search.run(&self.index).ids().to_vec();
            match self.search.refusal(&self.index) {
                None => assert!(bits(&words).eq(ids.iter().copied())),
                Some(_too_large) => assert!(*ids.last().unwrap() > 1 << 19),
            }

            message.extend(1_u32.to_le_bytes());
            message.extend((event.len() as u32).to_le_bytes());
            message.extend(&event);
            all.push(ids.len() as u64);
            all.extend(ids);
        }
        self.batch.open(Request { events: 3, bytes: message.len(), only: None, form: Form::Ids });
        let mut found = Vec::new();
        while !self.batch.is_done() {
            self.batch.next_part();
            found.extend_from_slice(self.batch.run(&self.index, &mut self.search, &message, || ()).unwrap());
        }
        assert_eq!(found, all);
    }

    /// Inserts subscriptions with the ids that `id` returns, and deletes others, which `gone` chooses.
    fn churn(
        &mut self,
        random: &mut Random,
        changes: usize,
        mut id: impl FnMut(&mut Churned, &mut Random) -> u64,
        gone: impl Fn(&Churned, &mut Random) -> u64,
    ) {
        for change in 0..changes {
            let id = id(self, random);
            self.insert(id, random.below(VALUES as usize) as u64);
            if self.held.len() > LIVE {
                let gone = gone(self, random);
                self.delete(gone);
            }
            if change % 700 == 0 {
                self.check(random);
            }
        }
        self.check(random);
    }
}

fn bits(words: &[u64]) -> impl Iterator<Item = u64> + '_ {
    (0..64 * words.len() as u64).filter(|&bit| words[bit as usize / 64] >> (bit % 64) & 1 == 1)
}

fn ascending(churned: &mut Churned, _random: &mut Random) -> u64 {
    churned.next += 1;
    churned.next
}

fn scattered(_churned: &mut Churned, random: &mut Random) -> u64 {
    random.next() >> 1
}

fn oldest(churned: &Churned, _random: &mut Random) -> u64 {
    *churned.held.keys().next().unwrap()
}

fn any(churned: &Churned, random: &mut Random) -> u64 {
    churned.any(random)
}

#[test]
fn ascending_ids_while_the_oldest_are_deleted() {
    Churned::new().churn(&mut Random::new(1), 5 * LIVE, ascending, oldest);
}

#[test]
fn ascending_ids_while_random_ones_are_deleted() {
    Churned::new().churn(&mut Random::new(2), 5 * LIVE, ascending, any);
}

#[test]
fn random_insertions_and_deletions() {
    Churned::new().churn(&mut Random::new(3), 3 * LIVE, scattered, any);
}

#[test]
fn insertions_of_deleted_ids_and_replacements() {
    let again = |_: &mut Churned, random: &mut Random| random.below(2 * LIVE) as u64;
    Churned::new().churn(&mut Random::new(4), 4 * LIVE, again, any);
}

#[test]
fn searches_are_right_after_an_arrangement_is_refused_memory() {
    let random = &mut Random::new(7);
    let mut churned = Churned { refused: 30, ..Churned::new() };
    churned.churn(random, 2 * LIVE, ascending, any);
    churned.churn(random, LIVE, scattered, any);
    churned.churn(random, LIVE, |_, random| random.below(2 * LIVE) as u64, any);
    assert!(churned.refusals > 1_000);
}

#[test]
fn a_replacement_leaves_no_stale_id_in_a_free_slot() {
    let mut churned = Churned::new();
    (0..1_000).for_each(|i| churned.insert(10 * i, 1));
    // The slot of 10 is freed last, and more slots are free than ascending ids leave.
    (0..1_000).rev().filter(|i| i % 2 == 1).for_each(|i| churned.delete(10 * i));
    churned.insert(0, 1);
    churned.delete(0);
    churned.insert(25, 1);
    churned.check(&mut Random::new(6));
    churned.search.open(&churned.index, Format::Json, br#"{"a": 1, "b": true}"#, ALL_IDS).unwrap();
    assert!(churned.search.run(&churned.index).ids().is_sorted());
}

#[test]
fn insertions_whose_order_changes() {
    let random = &mut Random::new(5);
    let mut churned = Churned::new();
    let replaced = |churned: &mut Churned, random: &mut Random| churned.any(random);
    for _ in 0..3 {
        churned.churn(random, LIVE, ascending, oldest);
        churned.churn(random, LIVE / 2, replaced, any);
        churned.churn(random, LIVE, ascending, any);
        churned.churn(random, LIVE / 3, scattered, any);
        churned.churn(random, LIVE / 3, |_, random| random.below(5 * LIVE) as u64, oldest);
    }
    while let Some((&id, _)) = churned.held.last_key_value() {
        churned.delete(id);
    }
    churned.churn(random, LIVE, ascending, oldest);
}
