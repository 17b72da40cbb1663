//! Batches of insertions, and searches, at every limit of memory: each succeeds, or is refused and changes nothing. Expressions are
//! random; `memory.rs` has expensive ones.

// Left out in the sandbox for the reason in `memory.rs`.
#![cfg(not(target_arch = "wasm32"))]

use crate::heap::{alone, begin_anew, limited, taken, FREELY, PAGE};
use crate::support::encode;
use crate::support::generate::{self, expressions, insertions};
use crate::support::make::ALL_IDS;
use crate::support::naive::NaiveValue;
use crate::support::random::Random;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::{Batch, Form, Request, Search};

/// An index of random expressions, and events that show whether it changed.
struct Tested {
    index: Index,
    search: Search,
    batch: Batch,
    events: Vec<Vec<u8>>,
}

impl Tested {
    fn new(random: &mut Random, schema: &Schema, count: usize) -> Self {
        begin_anew();
        let texts = expressions(random, schema, count, 6);
        let events = (0..5).map(|_| {
            let event = generate::event(random, schema);
            encode::term_by_name(random, schema, &event)
        });
        let events = events.collect();
        let (schema, mut search, mut batch) = (schema.clone(), Search::default(), Batch::default());
        let index = limited(FREELY, FREELY, || {
            let index = Index::new(schema);
            search.reserve(&index).and_then(|()| batch.reserve(&index)).map(|()| index).unwrap()
        });
        let mut tested = Tested { index, search, batch, events };
        limited(FREELY, FREELY, || tested.insert_all(0, &texts)).unwrap();
        tested
    }

    /// Inserts all of `texts` and makes room for searches, or changes nothing, as the guest does.
    fn insert_all(&mut self, from: u64, texts: &[String]) -> Result<(), Error> {
        let Tested { index, search, batch, .. } = self;
        let inserted = index.insert_all_for(&mut (search, batch), insertions(from, texts).map(Ok));
        inserted.map(drop).map_err(|(_, error)| error)
    }

    /// Returns the counts of the index and its matches of the events.
    fn digest(&mut self) -> Vec<u64> {
        let Tested { index, search, .. } = self;
        index.validate().unwrap();
        let info = index.info();
        let mut digest = vec![info.expressions as u64, info.predicates as u64, info.strings as u64];
        for event in &self.events {
            search.open(index, Format::Term, event, ALL_IDS).unwrap();
            digest.extend(search.run(index).ids());
            digest.push(u64::MAX);
        }
        digest
    }

    /// Runs `operation` at rising limits of memory until it succeeds. Returns the number of refusals, each of which changed nothing.
    fn sweep(&mut self, by_requests: bool, mut operation: impl FnMut(&mut Self) -> Result<(), Error>) -> usize {
        let before = self.digest();
        let held = taken();
        let mut refusals = 0;
        for step in 0.. {
            // The limit counts granted requests for pages, or pages.
            let (limit, granted) = if by_requests { (FREELY, step) } else { (held + step * PAGE, FREELY) };
            match limited(limit, granted, || operation(self)) {
                Ok(()) => break,
                Err(error) => assert_eq!(error.kind, Kind::OutOfMemory, "{}", error.message),
            }
            assert_eq!(self.digest(), before, "{step}");
            refusals += 1;
        }
        refusals
    }

    /// Deletes all subscriptions without further memory.
    fn delete_all(mut self, ids: impl Iterator<Item = u64>) {
        let limit = taken();
        ids.for_each(|id| limited(limit, FREELY, || self.index.delete(id)).unwrap());
        assert!(self.index.is_empty());
        self.index.validate().unwrap();
    }
}

#[test]
fn batches_of_insertions_succeed_or_are_refused_and_change_nothing() {
    let _alone = alone();
    let random = &mut Random::new(27);
    let mut refusals = 0;
    for round in 0..40 {
        let schema = generate::schema(random);
        let texts = expressions(random, &schema, 300, 6);
        let mut tested = Tested::new(random, &schema, 24 * (round % 5));
        let before = tested.digest();
        refusals += tested.sweep(round % 2 == 1, |tested| tested.insert_all(1000, &texts));
        let limit = taken();
        (1000..1300).for_each(|id| limited(limit, FREELY, || tested.index.delete(id)).unwrap());
        assert_eq!(tested.digest(), before);
        tested.delete_all(0..24 * (round as u64 % 5));
    }
    assert!(refusals > 50, "{refusals}");
}

/// Lists of expressions with many values are split where memory allows it. Rolling back the insertion keeps the split.
#[test]
fn lists_that_split_into_many_nodes_are_searched_at_every_limit() {
    let _alone = alone();
    let random = &mut Random::new(29);
    let bounds = Bounds::Count(1_000_000);
    let attribute = Attribute { name: "s".into(), ty: Type::String, optional: true, bounds };
    let schema = Schema::new(vec![attribute]).unwrap();
    let text = |id| format!("s in ({})", (0..1000).map(|n| format!("'{id} {n}'")).collect::<Vec<_>>().join(", "));
    let texts: Vec<String> = (0..30).map(text).collect();
    for by_requests in [false, true] {
        let mut tested = Tested::new(random, &schema, 0);
        for (id, text) in texts.iter().enumerate() {
            tested.sweep(by_requests, |tested| tested.insert_all(id as u64, std::slice::from_ref(text)));
            let event = vec![Some(NaiveValue::String(format!("{id} 7").into_bytes()))];
            tested.events.push(encode::term_by_name(random, &schema, &event));
        }
        assert!(tested.index.info().nodes > 10_000, "{:?}", tested.index.info());
    }
}

/// Returns a JSON event over `schema` with many escaped strings, which take much memory.
fn large(random: &mut Random, schema: &Schema) -> String {
    let event = generate::event(random, schema);
    let mut json = encode::json(random, schema, &event);
    let list = (0..5_000).map(|number| format!(r#""\u0041 string {number}""#)).collect::<Vec<_>>().join(", ");
    json.truncate(json.rfind('}').unwrap());
    let comma = if json.contains(':') { "," } else { "" };
    let lists = schema.attributes().iter().filter(|attribute| attribute.ty == Type::StringList);
    let members: Vec<String> = lists.map(|attribute| format!(r#""{}": [{list}]"#, attribute.name)).collect();
    format!(
        r#"{json}{comma}"of no attribute": [{list}]{}{}}}"#,
        if members.is_empty() { "" } else { "," },
        members.join(",")
    )
}

#[test]
fn searches_succeed_or_are_refused_and_change_nothing() {
    let _alone = alone();
    let random = &mut Random::new(28);
    let mut refusals = 0;
    for round in 0..12 {
        let schema = generate::schema(random);
        let mut tested = Tested::new(random, &schema, 200);
        let event = large(random, &schema);
        let ids: Vec<u64> = (0..20_000).collect();
        let by_requests = round % 2 == 1;
        let mut found = vec![];
        // A new search each time, which has no memory yet.
        refusals += tested.sweep(by_requests, |Tested { index, .. }| {
            let mut search = Search::default();
            search.reserve(index)?;
            search.reserve_event(index)?;
            search.open(index, Format::Json, event.as_bytes(), ALL_IDS)?;
            found = search.run(index).ids().to_vec();
            Ok(())
        });
        refusals += tested.sweep(by_requests, |Tested { index, .. }| {
            let mut search = Search::default();
            search.reserve(index)?;
            search.open(index, Format::Json, event.as_bytes(), Some(ids.iter().copied()))?;
            assert_eq!(search.run(index).ids(), found);
            Ok(())
        });
        refusals += tested.sweep(by_requests, |Tested { index, .. }| {
            let (mut search, mut prepared) = (Search::default(), vec![]);
            search.reserve(index)?;
            search.prepare(index, Format::Json, event.as_bytes(), &mut prepared)?;
            search.open(index, Format::Prepared, &prepared, ALL_IDS)?;
            assert_eq!(search.run(index).ids(), found);
            Ok(())
        });
        let frame = [&1_u32.to_le_bytes()[..], &(event.len() as u32).to_le_bytes()[..], event.as_bytes()].concat();
        let message = frame.repeat(3);
        let answer = [&[found.len() as u64][..], &found].concat();
        refusals += tested.sweep(by_requests, |Tested { index, .. }| {
            let (mut search, mut batch) = (Search::default(), Batch::default());
            search.reserve(index)?;
            batch.reserve(index)?;
            batch.open(Request { events: 3, bytes: message.len(), only: None, form: Form::Ids });
            let part = batch.run(index, &mut search, &message, || ()).map_err(|(_, error)| error)?;
            assert_eq!(part, answer.repeat(3));
            Ok(())
        });
        tested.delete_all(0..200);
    }
    assert!(refusals > 50, "{refusals}");
}
