//! Refuse room to searches from some request on, as a host that gives up a change does. Each change must succeed or roll back.

use crate::support::encode;
use crate::support::generate::{self, expressions, insertions};
use crate::support::make::ALL_IDS;
use crate::support::random::Random;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::Schema;
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
