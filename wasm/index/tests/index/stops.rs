//! Refuse room to searches from some request on, as a host that gives up a change does. Each change must succeed or roll back.

use crate::support::encode;
use crate::support::generate::{self, expressions, insertions};
use crate::support::make::{attribute, insertion, ALL_IDS};
use crate::support::random::Random;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::room::{Extent, Searches};
use be_tree_index::search::{Batch, Search};

/// Searches that grant some requests and refuse all later ones.
struct Stopped<'a> {
    searches: (&'a mut Search, &'a mut Batch),
    granted: usize,
}

impl Searches for Stopped<'_> {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        if self.granted == 0 {
            return Err(Error::new(Kind::Timeout, "stopped"));
        }
        self.granted -= 1;
        self.searches.make_room(extent)
    }

    fn commit(&mut self) {
        self.granted = usize::MAX;
    }
}

struct Tested {
    index: Index,
    search: Search,
    batch: Batch,
    events: Vec<Vec<u8>>,
}

impl Tested {
    fn new(random: &mut Random, schema: &Schema, texts: &[String]) -> Self {
        let mut index = Index::new(schema.clone());
        let (mut search, mut batch) = (Search::default(), Batch::default());
        search.reserve(&index).unwrap();
        batch.reserve(&index).unwrap();
        index.insert_all_for(&mut (&mut search, &mut batch), insertions(0, texts).map(Ok)).unwrap();
        let events = (0..8).map(|_| {
            let event = generate::event(random, schema);
            encode::term_by_name(random, schema, &event)
        });
        Tested { index, search, batch, events: events.collect() }
    }

    /// Returns the ids of each event after checking the index.
    fn found(&mut self) -> Vec<Vec<u64>> {
        let Tested { index, search, events, .. } = self;
        index.validate().unwrap();
        let found = events.iter().map(|event| {
            search.open(index, Format::Term, event, ALL_IDS).unwrap();
            search.run(index).ids().to_vec()
        });
        found.collect()
    }

    /// Runs `change` with one more request granted each time until it succeeds. Returns how often it was stopped.
    fn sweep(&mut self, change: impl Fn(&mut Index, &mut Stopped) -> Result<(), Error>) -> usize {
        let before = (self.index.info(), self.found());
        for granted in 0.. {
            let Tested { index, search, batch, .. } = self;
            match change(index, &mut Stopped { searches: (search, batch), granted }) {
                Ok(()) => return granted,
                Err(error) => assert_eq!(error.kind, Kind::Timeout, "{}", error.message),
            }
            assert_eq!((self.index.info().expressions, self.found()), (before.0.expressions, before.1.clone()));
        }
        unreachable!("a change makes finitely many requests")
    }
}

#[test]
fn a_change_stopped_at_any_request_rolls_back() {
    let random = &mut Random::new(49);
    let mut stops = 0;
    for round in 0..12 {
        let schema = generate::schema(random);
        let texts = expressions(random, &schema, 90, 5);
        let mut tested = Tested::new(random, &schema, &texts[..30 * (round % 2)]);
        stops += tested.sweep(|index, searches| {
            index
                .insert_all_for(searches, insertions(1_000, &texts[30..60]).map(Ok))
                .map(drop)
                .map_err(|(_, error)| error)
        });
        for (position, insertion) in insertions(1_000, &texts[60..]).enumerate() {
            // Half of them replace a subscription.
            let insertion = Insertion { id: insertion.id + 30 * (position as u64 % 2), ..insertion };
            stops += tested.sweep(|index, searches| index.put_for(searches, &insertion));
        }
    }
    assert!(stops > 1_000, "{stops}");
}

/// Deletes and replaces in one transaction. The result must be that of an index filled at once.
#[test]
fn a_transaction_stopped_at_any_request_rolls_back() {
    let random = &mut Random::new(50);
    let mut stops = 0;
    for _round in 0..12 {
        let schema = generate::schema(random);
        let texts = expressions(random, &schema, 90, 5);
        let mut tested = Tested::new(random, &schema, &texts[..40]);
        // Of the ids 20 to 49, some are deleted, some replaced, and the last ones new.
        let deleted: Vec<u64> = (10..30).filter(|_| random.below(2) == 0).collect();
        let puts: Vec<Insertion> = insertions(20, &texts[40..70]).collect();
        stops += tested.sweep(|index, searches| {
            let changed = index.change_for(searches, &deleted, puts.iter().cloned().map(Ok));
            changed.map_err(|(_position, error)| error)
        });
        let mut expected = Tested::new(random, &schema, &[]);
        let kept = insertions(0, &texts[..40]).filter(|old| old.id < 20 && !deleted.contains(&old.id));
        expected.index.insert_all_for(&mut expected.search, kept.chain(puts.iter().cloned()).map(Ok)).unwrap();
        expected.events.clone_from(&tested.events);
        assert_eq!(tested.found(), expected.found());
        assert_eq!(tested.index.len(), expected.index.len());
    }
    assert!(stops > 500, "{stops}");
}

/// The ids of insertions may be those under which others stand in the meantime.
#[test]
fn a_transaction_replaces_under_any_ids() {
    let schema = Schema::new(vec![attribute("age", Type::Integer)]).unwrap();
    let mut index = Index::new(schema);
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    for ids in [[1, 2, 3, 4], [u64::MAX, u64::MAX - 1, u64::MAX - 2, 4], [4, 5, 6, u64::MAX], [5, u64::MAX, 4, 3]] {
        for (order, at) in [(0, 10), (1, 20), (2, 30)] {
            let mut ids = ids;
            ids.rotate_left(order);
            let texts = ids.map(|id| format!("age = {}", at + id % 7));
            let puts = ids.iter().zip(&texts).map(|(&id, text)| Ok(insertion(id, text)));
            index.change_for(&mut search, &[], puts).unwrap();
            index.validate().unwrap();
            for id in ids {
                let event = format!(r#"{{"age": {}}}"#, at + id % 7);
                search.open(&index, Format::Json, event.as_bytes(), ALL_IDS).unwrap();
                assert!(search.run(&index).ids().contains(&id));
            }
        }
    }
    let ids = [1, 2, 3, 4, 5, 6, u64::MAX, u64::MAX - 1, u64::MAX - 2];
    assert_eq!(index.len(), ids.len());
    let twice = [Ok(insertion(9, "age = 1")), Ok(insertion(9, "age = 2"))];
    let (position, error) = index.change_for(&mut search, &ids, twice).unwrap_err();
    assert_eq!((position, error.kind), (Some(1), Kind::DuplicateId));
    let (position, error) = index.change_for(&mut search, &[1, 2, 1], []).unwrap_err();
    assert_eq!((position, error.kind, index.len()), (None, Kind::NotFound, ids.len()));
    index.change_for(&mut search, &ids, []).unwrap();
    assert!(index.is_empty());
}
