//! The indexes in this module's memory, and the reads of them.

use std::mem::{forget, take};

use be_tree_index::diagnostics::explain::explain;
use be_tree_index::diagnostics::trace::{trace, Trace};
use be_tree_index::error::Error;
use be_tree_index::event::Encoding;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::Schema;
use be_tree_index::search::{Batch, Form, Request, Search};
use be_tree_module::cell::Cell;
use be_tree_module::memory;

/// A read, with its events, and the ids to search among.
pub(crate) enum Read {
    Search { event: String, only: Option<Vec<u64>>, encoding: Encoding },
    Batch { message: Vec<u8> },
    Explanation { event: String, id: u64, encoding: Encoding },
}

/// An index, with the read that is in progress. Without a read, nothing of it is in the search arena.
pub(crate) struct Engine {
    pub index: Index,
    pub search: Search,
    pub batch: Batch,
    read: Option<Read>,
    /// Whether the read has run a part.
    has_begun: bool,
    /// The results of the read, in the search arena: an explanation, and an error with the position of its event.
    pub explanation: Vec<u8>,
    error: Option<(usize, Error)>,
}

/// The indexes by their places. `None` is a place that is free.
static ENGINES: Cell<Vec<Option<Box<Engine>>>> = Cell::new();

/// Adds an empty index. Returns its place.
pub(crate) fn add(schema: Schema) -> Result<usize, Error> {
    let engine = Box::new(Engine::new(Index::new(schema))?);
    Ok(ENGINES.with(|engines| match engines.iter().position(Option::is_none) {
        Some(free) => {
            engines[free] = Some(engine);
            free
        }
        None => {
            engines.push(Some(engine));
            engines.len() - 1
        }
    }))
}

/// Lends the index at a place to `operation`, which allocates on the heap.
pub(crate) fn with<R>(place: usize, operation: impl FnOnce(&mut Engine) -> R) -> R {
    ENGINES.with(|engines| {
        let Some(Some(engine)) = engines.get_mut(place) else {
            unreachable!("an engine has its place until it is dropped")
        };
        operation(engine)
    })
}

/// Frees the index at a place.
pub(crate) fn remove(place: usize) {
    ENGINES.with(|engines| {
        engines[place] = None;
    });
}

impl Engine {
    fn new(index: Index) -> Result<Engine, Error> {
        let (mut search, mut batch) = (Search::default(), Batch::default());
        search.reserve(&index).and_then(|()| search.reserve_event(&index))?;
        batch.reserve(&index)?;
        Ok(Engine { index, search, batch, read: None, has_begun: false, explanation: Vec::new(), error: None })
    }

    /// Inserts subscriptions, all or none. Returns an error with the position of its subscription.
    pub fn insert<'a>(
        &mut self,
        insertions: impl Iterator<Item = Result<Insertion<'a>, Error>> + Clone,
    ) -> Result<(), (usize, Error)> {
        memory::lend(true);
        let Engine { index, search, batch, .. } = self;
        index.insert_all_for(&mut (search, batch), insertions).map(drop)
    }

    /// Inserts a subscription, or replaces the one with its id.
    pub fn put(&mut self, insertion: &Insertion) -> Result<(), Error> {
        memory::lend(true);
        let Engine { index, search, batch, .. } = self;
        index.put_for(&mut (search, batch), insertion)
    }

    pub fn begin(&mut self, read: Read) {
        self.read = Some(read);
        self.has_begun = false;
    }

    /// Begins the batch of the events in `message`, framed.
    pub fn begin_batch(&mut self, events: u32, mut message: Vec<u8>, only: Option<Vec<u64>>) {
        let bytes = message.len();
        message.extend(only.iter().flatten().flat_map(|id| id.to_le_bytes()));
        let only = only.map(|ids| size_of::<u64>() * ids.len());
        self.batch.open(Request { events, bytes, only, form: Form::Ids });
        self.begin(Read::Batch { message });
    }

    /// Runs the read, or its next part, in the search arena.
    pub fn run(&mut self) {
        let Engine { index, search, batch, read, explanation, has_begun, .. } = self;
        memory::use_search_memory(!*has_begun);
        let of_event = |error| (0, error);
        let done = match read {
            None => Ok(()),
            Some(Read::Search { event, only, encoding }) => {
                let only = only.as_ref().map(|ids| ids.iter().copied());
                let opened = search.open(index, *encoding, event.as_bytes(), only);
                opened.map_err(of_event).map(|()| {
                    search.run(index);
                })
            }
            Some(Read::Batch { message }) => {
                batch.next_part();
                batch.run(index, search, message, || ()).map(drop)
            }
            Some(Read::Explanation { event, id, encoding }) => {
                explain(index, *encoding, event.as_bytes(), *id, explanation).map_err(of_event)
            }
        };
        *has_begun = true;
        self.error = done.err();
        memory::use_heap();
    }

    /// Returns the error of the read, with the position of its event.
    pub fn refused(&mut self) -> Result<(), (usize, Error)> {
        self.error.take().map_or(Ok(()), Err)
    }

    /// Ends the read, and forgets what is in the search arena. A read that JavaScript ended may have left it inconsistent.
    pub fn end(&mut self) {
        self.search.abandon();
        forget(take(&mut self.explanation));
        forget(self.error.take());
        self.read = None;
    }

    /// Returns the path of a search for an event. [`Engine::end`] comes behind it.
    pub fn trace(&mut self, encoding: Encoding, event: &str) -> Result<Trace, Error> {
        self.in_arena(|index, search| trace(index, search, encoding, event.as_bytes()))
    }

    /// Runs `work` of a new search in the search arena. [`Engine::end`] comes behind it.
    pub fn in_arena<R>(&mut self, work: impl FnOnce(&Index, &mut Search) -> R) -> R {
        memory::use_search_memory(true);
        let done = work(&self.index, &mut self.search);
        memory::use_heap();
        done
    }
}
