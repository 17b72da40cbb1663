//! Batches against the oracle: events of all formats, in groups of all sizes, over dense expressions and others.

use std::collections::BTreeMap;

use crate::support::encode;
use crate::support::generate::{self, CONSTANTS};
use crate::support::make::{insertion, ALL_IDS};
use crate::support::naive::{self, NaiveEvent};
use crate::support::random::Random;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::language::read;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::{Batch, Form, Request, Search};

/// The number of booleans: enough for expressions without an access predicate.
const BOOLEANS: usize = 12;

struct Fixture {
    index: Index,
    search: Search,
    batch: Batch,
    oracle: BTreeMap<u64, Postfix>,
}

impl Fixture {
    /// Returns an index in which `dense` percent of the expressions are dense.
    fn new(random: &mut Random, expressions: usize, dense: usize) -> Self {
        let mut attributes = generate::schema(random).attributes().to_vec();
        for number in 0..BOOLEANS {
            let (name, bounds) = (format!("d{number}"), Bounds::Unbounded);
            attributes.push(Attribute { name, ty: Type::Boolean, optional: random.chance(70), bounds });
        }
        let schema = Schema::new(attributes).unwrap();
        let texts: Vec<(u64, String)> = (0..expressions)
            .map(|_| {
                let id = random.next() % (4 * expressions as u64);
                let depth = random.below(7);
                let text = match random.chance(dense) {
                    true => booleans(random, depth),
                    false => generate::expression(random, &schema, depth),
                };
                (id, text)
            })
            .collect();
        Fixture::of(schema, &texts)
    }

    /// Returns an index of those `texts` that it accepts.
    fn of(schema: Schema, texts: &[(u64, String)]) -> Self {
        let mut index = Index::new(schema.clone());
        let mut oracle = BTreeMap::new();
        for &(id, ref text) in texts {
            let insertion = Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() };
            if index.insert(&insertion).is_ok() {
                oracle.insert(id, read(text.as_bytes(), &schema, &CONSTANTS).unwrap());
            }
        }
        let (mut search, mut batch) = (Search::default(), Batch::default());
        search.reserve(&index).unwrap();
        batch.reserve(&index).unwrap();
        Fixture { index, search, batch, oracle }
    }

    fn expected(&self, event: &NaiveEvent) -> Vec<u64> {
        let matching = self.oracle.iter().filter(|(_, postfix)| naive::matches(postfix, event));
        matching.map(|(&id, _)| id).collect()
    }

    fn encoded(&mut self, random: &mut Random, event: &NaiveEvent) -> (i32, Vec<u8>) {
        let schema = self.index.schema().clone();
        match random.below(4) {
            0 => (0, encode::term_by_name(random, &schema, event)),
            1 => (1, encode::json(random, &schema, event).into_bytes()),
            2 => (2, encode::term_by_position(random, &schema, event)),
            _ => {
                let record = encode::term_by_position(random, &schema, event);
                let mut prepared = Vec::new();
                self.search.prepare(&self.index, Format::Record, &record, &mut prepared).unwrap();
                (3, prepared)
            }
        }
    }

    /// Returns all parts of the result, event by event.
    fn search(
        &mut self,
        events: &[(i32, Vec<u8>)],
        only: Option<&[u64]>,
        form: Form,
    ) -> Result<Vec<Vec<u64>>, (usize, Error)> {
        let mut message = Vec::new();
        for (format, bytes) in events {
            message.extend(format.to_le_bytes());
            message.extend((bytes.len() as u32).to_le_bytes());
            message.extend(bytes);
        }
        let bytes = message.len();
        message.extend(only.unwrap_or_default().iter().flat_map(|id| id.to_le_bytes()));
        let only = only.map(|_| message.len() - bytes);
        self.batch.open(Request { events: events.len() as u32, bytes, only, form });
        let mut answers = Vec::new();
        while !self.batch.is_done() {
            self.batch.next_part();
            let mut part = self.batch.run(&self.index, &mut self.search, &message, || ())?;
            assert!(part.len() < 2 * 16_384 + self.index.len());
            while let Some((&length, rest)) = part.split_first() {
                let (words, rest) = rest.split_at(length as usize);
                answers.push(words.to_vec());
                part = rest;
            }
        }
        Ok(answers)
    }
}

/// An expression over booleans alone.
fn booleans(random: &mut Random, depth: usize) -> String {
    let negation = random.pick(&["", "", "", "not "]);
    if depth == 0 {
        return format!("{negation}d{}", random.below(BOOLEANS));
    }
    let operator = random.pick(&["and", "or"]);
    format!("{negation}({} {operator} {})", booleans(random, depth - 1), booleans(random, depth - 1))
}

/// Returns an expression of `leaves` leaves over `booleans` booleans.
fn tree(random: &mut Random, leaves: usize, booleans: usize) -> String {
    let negation = random.pick(&["", "", "", "not "]);
    if leaves == 1 {
        return format!("{negation}d{}", random.below(booleans));
    }
    let (left, right) = (tree(random, leaves / 2, booleans), tree(random, leaves - leaves / 2, booleans));
    format!("{negation}({left} {} {right})", random.pick(&["and", "or"]))
}

fn bits(words: &[u64]) -> Vec<u64> {
    assert_ne!(words.last(), Some(&0));
    (0..64 * words.len() as u64).filter(|id| words[*id as usize / 64] >> (id % 64) & 1 == 1).collect()
}

#[test]
fn events_of_a_batch_find_what_each_finds_alone() {
    let sizes = [0, 1, 15, 16, 17, 255, 256, 257, 300, 600];
    for (seed, size) in (0..).zip(sizes.iter().cycle().take(30)) {
        let random = &mut Random::new(seed);
        let expressions = 20 + random.below(700);
        let dense = random.pick(&[0, 20, 100]);
        let mut fixture = Fixture::new(random, expressions, dense);
        let schema = fixture.index.schema().clone();
        let events: Vec<NaiveEvent> = (0..*size).map(|_| generate::event(random, &schema)).collect();
        let expected: Vec<Vec<u64>> = events.iter().map(|event| fixture.expected(event)).collect();
        let encoded: Vec<(i32, Vec<u8>)> = events.iter().map(|event| fixture.encoded(random, event)).collect();

        assert_eq!(fixture.search(&encoded, None, Form::Ids).as_ref(), Ok(&expected), "seed {seed}");
        let bitmaps = fixture.search(&encoded, None, Form::Bitmap).unwrap();
        assert_eq!(bitmaps.iter().map(|words| bits(words)).collect::<Vec<_>>(), expected, "seed {seed}");

        let some: Vec<u64> = fixture.oracle.keys().copied().filter(|_| random.chance(30)).chain([u64::MAX]).collect();
        let among = |ids: &Vec<u64>| ids.iter().copied().filter(|id| some.contains(id)).collect::<Vec<_>>();
        let expected_among: Vec<Vec<u64>> = expected.iter().map(among).collect();
        assert_eq!(fixture.search(&encoded, Some(&some), Form::Ids), Ok(expected_among), "seed {seed}");
    }
}

#[test]
fn each_form_of_boolean_programs_finds_the_same_ids() {
    // Up to as many booleans as packed tests name, up to as many as operations do, and more.
    for (seed, booleans) in (0..).zip([128, 129, 1100]) {
        let random = &mut Random::new(seed);
        let attribute = |number| Attribute {
            name: format!("d{number}"),
            ty: Type::Boolean,
            optional: true,
            bounds: Bounds::Unbounded,
        };
        let schema = Schema::new((0..booleans).map(attribute).collect()).unwrap();
        let mut texts = Vec::new();
        // Up to as many tests as are packed, up to as many as are evaluated for many events at once, and more.
        for leaves in [2, 17, 64, 127, 253, 254, 255, 256, 509, 510, 511, 700] {
            for _ in 0..8 {
                let text = tree(random, leaves, booleans);
                // A literal that decides nothing has no test.
                let idle = if random.chance(10) { " and (d0 or true)" } else { "" };
                texts.push((texts.len() as u64, format!("({text}){idle}")));
            }
        }
        let mut fixture = Fixture::of(schema.clone(), &texts);
        fixture.index.validate().unwrap();
        let events: Vec<NaiveEvent> = (0..20).map(|_| generate::event(random, &schema)).collect();
        let expected: Vec<Vec<u64>> = events.iter().map(|event| fixture.expected(event)).collect();
        let encoded: Vec<(i32, Vec<u8>)> = events.iter().map(|event| fixture.encoded(random, event)).collect();
        assert_eq!(fixture.search(&encoded, None, Form::Ids).as_ref(), Ok(&expected));
        for (event, expected) in encoded.iter().zip(&expected) {
            assert_eq!(fixture.search(std::slice::from_ref(event), None, Form::Ids), Ok(vec![expected.clone()]));
            let all: Vec<u64> = (0..texts.len() as u64).collect();
            assert_eq!(fixture.search(std::slice::from_ref(event), Some(&all), Form::Ids), Ok(vec![expected.clone()]));
        }
    }
}

/// A part ends with 15,328 words, and the list has room to pick the ids of an event that begins one before.
#[test]
fn an_event_may_begin_where_a_part_nearly_ends() {
    let flag = Attribute { name: "d0".into(), ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
    let schema = Schema::new(vec![flag]).unwrap();
    // Words that an event takes: one more than ids.
    for words in [39, 117, 13 * 131, 39 * 131] {
        assert_eq!(15_327 % words, 0);
        let ids: Vec<u64> = (1..words).collect();
        let texts: Vec<(u64, String)> = ids.iter().map(|&id| (id, "not d0".to_owned())).collect();
        let events = vec![(1, b"{}".to_vec()); 16_384 / words as usize + 2];
        let answers = Fixture::of(schema.clone(), &texts).search(&events, None, Form::Ids).unwrap();
        assert!(answers.len() == events.len() && answers.iter().all(|answer| *answer == ids));
    }
}

#[test]
fn the_error_names_the_first_invalid_event() {
    for (size, dense) in [(3, 0), (3, 100), (100, 20), (300, 100), (600, 100)] {
        let random = &mut Random::new(size as u64);
        let mut fixture = Fixture::new(random, 300, dense);
        let schema = fixture.index.schema().clone();
        let events: Vec<NaiveEvent> = (0..size).map(|_| generate::event(random, &schema)).collect();
        let encoded: Vec<(i32, Vec<u8>)> = events.iter().map(|event| fixture.encoded(random, event)).collect();
        for wrong in [0, 1, size / 2, size - 1] {
            let mut spoilt = encoded.clone();
            for event in [wrong, (wrong + 1).min(size - 1)] {
                spoilt[event] = (1, b"{".to_vec());
            }
            let (position, error) = fixture.search(&spoilt, None, Form::Ids).unwrap_err();
            assert_eq!((position, error.kind), (wrong, Kind::Syntax));
            spoilt[wrong] = (7, b"{}".to_vec());
            let (position, error) = fixture.search(&spoilt, None, Form::Ids).unwrap_err();
            assert_eq!((position, error.kind), (wrong, Kind::Type));
        }
        assert_eq!(fixture.search(&encoded, None, Form::Ids).unwrap().len(), size);
    }
}

#[test]
fn a_truncated_event_is_refused() {
    let random = &mut Random::new(1);
    let mut fixture = Fixture::new(random, 10, 50);
    let message = [&1_u32.to_le_bytes()[..], &100_u32.to_le_bytes(), b"{}"].concat();
    for bytes in 0..message.len() {
        fixture.batch.open(Request { events: 1, bytes, only: None, form: Form::Ids });
        let answer = fixture.batch.run(&fixture.index, &mut fixture.search, &message, || ());
        assert_eq!(answer.unwrap_err().1.kind, Kind::OutOfBounds);
    }
}

#[test]
fn an_id_too_large_for_a_bitmap_is_refused_where_it_matches() {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
    let mut index = Index::new(Schema::new(vec![attribute("a"), attribute("b")]).unwrap());
    for (id, text) in [((1 << 20) - 1, "a"), (1 << 20, "b")] {
        index.insert(&insertion(id, text)).unwrap();
    }
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    let mut find = |event: &[u8]| {
        let all = ALL_IDS;
        search.open_for(&index, Format::Json, event, all, Form::Bitmap).unwrap();
        let ids = bits(search.run(&index).ids());
        search.refusal(&index).map_or(Ok(ids), |error| Err(error.kind))
    };
    assert_eq!(find(br#"{"a": true}"#), Ok(vec![(1 << 20) - 1]));
    assert_eq!(find(br#"{"a": true, "b": true}"#), Err(Kind::OutOfBounds));
    assert_eq!(find(br#"{}"#), Ok(vec![]));
}

#[test]
fn a_prepared_event_of_another_schema_or_truncated_is_refused() {
    let random = &mut Random::new(5);
    let mut fixture = Fixture::new(random, 50, 50);
    let schema = fixture.index.schema().clone();
    let event = generate::event(random, &schema);
    let term = encode::term_by_name(random, &schema, &event);
    let mut prepared = Vec::new();
    fixture.search.prepare(&fixture.index, Format::Term, &term, &mut prepared).unwrap();
    let mut again = Vec::new();
    fixture.search.prepare(&fixture.index, Format::Prepared, &prepared, &mut again).unwrap();
    assert_eq!(prepared, again);

    let mut other = Fixture::new(random, 50, 50);
    let refused = other.search(&[(3, prepared.clone())], None, Form::Ids).unwrap_err().1;
    assert_eq!(refused.kind, Kind::Type);

    // Any bytes are an event or an error.
    for end in 0..prepared.len() {
        let _ = fixture.search(&[(3, prepared[..end].to_vec())], None, Form::Ids);
    }
    for _ in 0..5_000 {
        let mut damaged = prepared.clone();
        for _ in 0..1 + random.below(4) {
            let at = 8 + random.below(damaged.len() - 8);
            damaged[at] = random.next() as u8;
        }
        let _ = fixture.search(&[(3, damaged)], None, Form::Ids);
    }
}
