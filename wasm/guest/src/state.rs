//! The state of an instance, and its operations.

use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use be_tree_index::diagnostics::draw::draw;
use be_tree_index::diagnostics::explain::explain;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::search::{self, packed, Batch, Counts, Form, Packed, Part, Search};

use crate::memory::{self, in_order};
use crate::outbox::{Outbox, NOTED, NOTHING};
use crate::{reply, request, sizes};

/// The first size of the inbox.
const INBOX: u32 = 4096;

/// A larger inbox is freed when the host next asks for a small one.
const LARGE: u32 = 1 << 20;

/// The phase of a profile whose search is finished.
const NO_PART: u32 = u32::MAX;

/// The result of a deletion after which the instance is spent.
static SPENT: [u8; 1] = [1];

/// An index, its one search or batch of searches, and the buffers of the ABI.
#[derive(Default)]
pub(crate) struct State {
    index: Option<Index>,
    /// The bytes of linear memory when the index was made.
    first_bytes: u64,
    search: Search,
    batch: Batch,
    /// The request of the search that is under way.
    request: Request,
    /// The number of the batch that can be continued.
    unfinished: Option<u64>,
    /// A profile is under way.
    profiling: bool,
    /// The phase of the profile's last part, or [`NO_PART`].
    part: [u32; 1],
    /// Whether a change of the heap began and did not end, because a trap cut it off. The heap is not used from then on.
    changing: AtomicBool,
    inbox: Vec<u8>,
    /// The error of a change that was refused.
    change_error: Vec<u8>,
    /// The result of a read, and any result of a search that is no list of ids, in the memory of searches.
    transient: Vec<u8>,
    outbox: Outbox,
}

/// A request that can be cut off: the lengths of its parts in the inbox, and the form of its result. The bytes of the ids to
/// which the search is limited, if there are any, follow the events.
#[derive(Clone, Copy, Default)]
pub(crate) enum Request {
    #[default]
    Nothing,
    Search {
        format: i32,
        event: usize,
        only: Option<usize>,
        form: i32,
    },
    /// A search that also returns the reasons of subscriptions that do not match.
    Reasons {
        format: i32,
        event: usize,
        only: Option<usize>,
    },
    Batch {
        number: u64,
        events: u32,
        bytes: usize,
        only: Option<usize>,
        form: i32,
    },
    /// The next part of the result of a batch.
    More {
        number: u64,
    },
    Prepare {
        format: i32,
        event: usize,
    },
    /// A search that is run part by part.
    Profile {
        format: i32,
        event: usize,
    },
    /// The next part of the profile.
    ProfilePart,
    /// The counts of the part that ran last.
    ProfileCounts,
}

/// An error, and the position of the insertion or the event that it belongs to.
pub(crate) struct Refusal {
    pub error: Error,
    pub position: Option<usize>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { error, position: None }
    }
}

type Outcome = Result<(), Refusal>;

struct Instance(UnsafeCell<Option<State>>);

// SAFETY: the module is compiled for wasm32 without threads; a native build (its tests) uses it from one thread.
unsafe impl Sync for Instance {}

static INSTANCE: Instance = Instance(UnsafeCell::new(None));

/// Lends the instance's state to `operation`, which allocates on the heap unless it says otherwise.
pub(crate) fn with_state<T>(operation: impl FnOnce(&mut State) -> T) -> T {
    memory::of_all_else();
    // SAFETY: every export calls this once and no operation calls an export, so there is one borrow at a time. A call that a
    // trap cut off left a borrow that nothing uses any more.
    let state = unsafe { &mut *INSTANCE.0.get() };
    operation(state.get_or_insert_with(State::default))
}

impl State {
    /// Returns a buffer of at least `length` bytes, if memory allows. Frees a large buffer that is no longer needed.
    ///
    /// If a change was cut off, the buffer is in the memory of searches, so that the next operation can return that error.
    pub fn inbox(&mut self, length: u32) -> Option<*const u8> {
        let length = length.max(INBOX);
        let room = sizes::room_for(length)? as usize;
        let is_large = self.inbox.len() > LARGE as usize && length <= LARGE;
        if !is_large && length as usize <= self.inbox.len() {
            return Some(self.inbox.as_ptr());
        }
        if self.changing.load(Relaxed) {
            memory::of_search(true);
            let mut inbox = Vec::<u8>::new();
            inbox.try_reserve_exact(room).ok()?;
            return Some(ManuallyDrop::new(inbox).as_ptr());
        }
        self.begin_change();
        self.unfinished = None;
        self.profiling = false;
        // A large inbox is freed first, without a copy of its content, so that its room may serve the next one. A small one
        // stays until there is another, so that a refusal changes nothing.
        if self.inbox.len() > LARGE as usize {
            self.inbox = Vec::new();
        }
        let mut inbox = Vec::new();
        let is_there = self.with_memory_of_searches(|_| inbox.try_reserve_exact(room)).is_ok();
        if is_there {
            inbox.resize(inbox.capacity(), 0);
            self.inbox = inbox;
        }
        self.end_change();
        is_there.then_some(self.inbox.as_ptr())
    }

    /// Records that the heap changes until [`State::end_change`].
    fn begin_change(&self) {
        self.changing.store(true, Relaxed);
        in_order();
    }

    fn end_change(&self) {
        in_order();
        self.changing.store(false, Relaxed);
        in_order();
    }

    /// Returns the address of the outbox.
    pub fn outbox(&self) -> *const Outbox {
        &raw const self.outbox
    }

    /// Runs an operation that changes the index, and records that it ended. Returns its status.
    pub fn change(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        if self.changing.load(Relaxed) {
            return self.read(|_| Err(damaged().into()));
        }
        self.outbox.advance_to(NOTHING);
        self.begin_change();
        self.unfinished = None;
        self.profiling = false;
        self.change_error.clear();
        self.outbox.clear();
        let outcome = self.with_memory_of_searches(operation);
        if let Err(refusal) = &outcome {
            reply::error(refusal, &mut self.change_error);
            self.outbox.send(&self.change_error);
        }
        self.end_change();
        i32::from(outcome.is_err())
    }

    /// Runs an operation after which no search can be continued. If the system refuses memory to the heap, the heap takes
    /// that of searches.
    fn with_memory_of_searches<T>(&mut self, operation: impl FnOnce(&mut Self) -> T) -> T {
        self.abandon();
        memory::lend(true);
        let result = operation(self);
        memory::lend(false);
        result
    }

    /// Ends the last search, whose memory the next one uses.
    fn abandon(&mut self) {
        self.search.abandon();
        // It lies in the memory of searches, and an operation that was cut off may have left it half enlarged.
        std::mem::forget(std::mem::take(&mut self.transient));
    }

    /// Runs an operation that changes nothing, and returns its status. An error goes to the outbox. The operation allocates
    /// only in the memory of searches. So it may be cut off anywhere, and can report that an earlier change was.
    pub fn read(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        self.outbox.advance_to(NOTHING);
        self.profiling = false;
        memory::of_search(true);
        self.transient = Vec::new();
        self.outbox.clear();
        let outcome = if self.changing.load(Relaxed) { Err(damaged().into()) } else { operation(self) };
        let status = i32::from(outcome.is_err());
        if let Err(refusal) = outcome {
            self.refuse(refusal);
        }
        status
    }

    pub fn schema(&mut self, length: usize) -> Outcome {
        let index = Index::new(request::schema(message(&self.inbox, length)?)?);
        let mut search = Search::default();
        search.reserve(&index)?;
        search.reserve_event(&index)?;
        self.search.abandon();
        self.search = search;
        self.batch = Batch::default();
        self.index = Some(index);
        self.first_bytes = memory::bytes();
        Ok(())
    }

    pub fn insert(&mut self, length: usize) -> Outcome {
        let State { index, search, batch, inbox, .. } = self;
        let index = index.as_mut().ok_or_else(no_schema)?;
        let insertions = request::insertions(message(inbox, length)?)?;
        let inserted = index.insert_all_for(&mut (search, batch), insertions);
        inserted.map(drop).map_err(|(position, error)| Refusal { error, position: Some(position) })
    }

    pub fn put(&mut self, length: usize) -> Outcome {
        let State { index, search, batch, inbox, .. } = self;
        let index = index.as_mut().ok_or_else(no_schema)?;
        let mut insertions = request::insertions(message(inbox, length)?)?;
        let (Some(insertion), None) = (insertions.next(), insertions.next()) else {
            return Err(Error::new(Kind::Type, "one subscription is put at a time").into());
        };
        Ok(index.put_for(&mut (search, batch), &insertion?)?)
    }

    pub fn delete(&mut self, id: u64) -> Outcome {
        self.index.as_mut().ok_or_else(no_schema)?.delete(id)?;
        if self.is_large_and_empty() {
            self.outbox.send(&SPENT);
        }
        Ok(())
    }

    /// Returns whether the index is empty and undamaged, and a new instance would take much less memory.
    pub fn is_spent(&self) -> bool {
        !self.changing.load(Relaxed) && self.is_large_and_empty()
    }

    /// Memory does not shrink. A quarter more than at first does not justify a new instance.
    fn is_large_and_empty(&self) -> bool {
        let is_empty = self.index.as_ref().is_some_and(Index::is_empty);
        is_empty && 4 * memory::bytes() > 5 * self.first_bytes
    }

    pub fn keep_reasons(&mut self) -> Outcome {
        let State { index, search, .. } = self;
        let index = index.as_mut().ok_or_else(no_schema)?;
        search.reserve_for_reasons(index)?;
        Ok(index.keep_reasons()?)
    }

    /// Stores the request, then searches. It may be cut off anywhere. `resume` continues it once the request is stored.
    pub fn search(&mut self, request: Request) -> i32 {
        self.outbox.advance_to(NOTHING);
        self.request = request;
        self.unfinished = None;
        self.profiling = false;
        self.outbox.advance_to(NOTED);
        self.go_on()
    }

    /// Returns the next part of a batch, unless another operation came in between.
    pub fn more(&mut self, number: u64) -> i32 {
        if self.unfinished != Some(number) {
            return self.refuse_at_once("this batch is not under way any more; start it again");
        }
        self.search(Request::More { number })
    }

    /// Runs the next part of a profile or counts the last one, unless another operation came in between.
    pub fn profile(&mut self, request: Request) -> i32 {
        if !self.profiling {
            return self.refuse_at_once("no profile is under way; start one");
        }
        self.outbox.advance_to(NOTHING);
        self.request = request;
        // The memory of searches has the profile's event and lists, so it must not begin anew.
        self.outbox.step();
        self.go_on()
    }

    /// Continues a search that was cut off.
    pub fn resume(&mut self) -> i32 {
        if self.outbox.progress() == NOTHING {
            return self.refuse_at_once("there is no search to resume; start one");
        }
        self.go_on()
    }

    fn refuse_at_once(&mut self, message: &str) -> i32 {
        self.profiling = false;
        memory::of_search(true);
        self.refuse(Error::new(Kind::NotFound, message).into());
        1
    }

    fn go_on(&mut self) -> i32 {
        memory::of_search(self.outbox.progress() == NOTED);
        self.outbox.clear();
        let status = match self.advance() {
            Ok(()) => 0,
            Err(refusal) => {
                self.refuse(refusal);
                1
            }
        };
        // The last store: the search cannot be continued after it.
        self.outbox.advance_to(NOTHING);
        status
    }

    fn advance(&mut self) -> Outcome {
        if self.changing.load(Relaxed) {
            return Err(damaged().into());
        }
        match self.request {
            Request::Nothing => Ok(()),
            Request::Search { format, event, only, form } => {
                self.advance_search(event, only, |search, index, event, ids| {
                    search.open_for(index, Format::from_code(format)?, event, ids, Form::from_code(form)?)
                })
            }
            Request::Reasons { format, event, only } => {
                self.advance_search(event, only, |search, index, event, ids| {
                    search.open_reasons(index, Format::from_code(format)?, event, ids)
                })
            }
            Request::Batch { number, events, bytes, only, form } => {
                if self.outbox.progress() == NOTED {
                    message(&self.inbox, bytes.saturating_add(only.unwrap_or(0)))?;
                    self.batch.open(search::Request { events, bytes, only, form: Form::from_code(form)? });
                }
                self.advance_batch(number)
            }
            Request::More { number } => {
                if self.outbox.progress() == NOTED {
                    self.batch.next_part();
                }
                self.advance_batch(number)
            }
            Request::Prepare { format, event } => self.prepare(format, event),
            Request::Profile { format, event } => self.open_profile(format, event),
            Request::ProfilePart => self.profile_part(),
            Request::ProfileCounts => self.profile_counts(),
        }
    }

    /// Opens the search by `open`, unless that is done, and runs it to its end.
    fn advance_search(
        &mut self,
        event: usize,
        only: Option<usize>,
        open: impl FnOnce(&mut Search, &Index, &[u8], Option<Packed>) -> Result<(), Error>,
    ) -> Outcome {
        let State { index, search, inbox, outbox, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        if outbox.progress() == NOTED {
            let whole = message(inbox, event.saturating_add(only.unwrap_or(0)))?;
            let (event, ids) = whole.split_at(event);
            open(search, index, event, only.map(|_| packed(ids)))?;
            outbox.step();
        }
        while !search.step(index) {
            outbox.step();
        }
        outbox.send(search.found().packed());
        search.refusal(index).map_or(Ok(()), |error| Err(error.into()))
    }

    /// Runs the batch to the end of a part.
    fn advance_batch(&mut self, number: u64) -> Outcome {
        let State { index, search, batch, inbox, outbox, unfinished, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        // Only new work counts as progress. A second run of the same step does not.
        if outbox.progress() == NOTED {
            outbox.step();
        }
        let refused = |(position, error)| Refusal { error, position: Some(position) };
        outbox.send(batch.run(index, search, inbox, || outbox.step()).map_err(refused)?);
        *unfinished = (!batch.is_done()).then_some(number);
        Ok(())
    }

    /// Decodes the event in the inbox, so that later searches need not decode it.
    fn prepare(&mut self, format: i32, event: usize) -> Outcome {
        let State { index, search, inbox, transient, outbox, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        *transient = Vec::new();
        search.prepare(index, Format::from_code(format)?, message(inbox, event)?, transient)?;
        outbox.send(transient);
        Ok(())
    }

    /// Decodes the event in the inbox, and opens its search.
    fn open_profile(&mut self, format: i32, event: usize) -> Outcome {
        let State { index, search, inbox, profiling, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        let event = message(inbox, event)?;
        search.open(index, Format::from_code(format)?, event, None::<std::iter::Empty<u64>>)?;
        *profiling = true;
        Ok(())
    }

    fn profile_part(&mut self) -> Outcome {
        let State { index, search, part, outbox, .. } = self;
        *part = [search.next_part(index.as_ref().ok_or_else(no_schema)?).map_or(NO_PART, Part::code)];
        outbox.send(part);
        Ok(())
    }

    fn profile_counts(&mut self) -> Outcome {
        let State { index, search, transient, .. } = self;
        let counts: Counts = search.counts(index.as_ref().ok_or_else(no_schema)?);
        *transient = Vec::new();
        reply::counts(&counts, transient);
        self.outbox.send(&self.transient);
        Ok(())
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.transient = Vec::new();
        reply::error(&refusal, &mut self.transient);
        self.outbox.send(&self.transient);
    }

    pub fn explain(&mut self, format: i32, event: usize, id: u64) -> Outcome {
        let State { index, inbox, transient, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        explain(index, Format::from_code(format)?, message(inbox, event)?, id, transient)?;
        self.outbox.send(&self.transient);
        Ok(())
    }

    pub fn check(&mut self, length: usize) -> Outcome {
        let State { index, inbox, .. } = self;
        let index = index.as_mut().ok_or_else(no_schema)?;
        for (position, insertion) in request::insertions(message(inbox, length)?)?.enumerate() {
            let checked = insertion.and_then(|insertion| index.check(&insertion));
            checked.map_err(|error| Refusal { error, position: Some(position) })?;
        }
        Ok(())
    }

    pub fn draw(&mut self) -> Outcome {
        let State { index, transient, .. } = self;
        draw(index.as_ref().ok_or_else(no_schema)?, transient);
        self.outbox.send(&self.transient);
        Ok(())
    }

    pub fn info(&mut self) -> Outcome {
        let index = self.index.as_ref().ok_or_else(no_schema)?;
        reply::info(&index.info(), &mut self.transient);
        self.outbox.send(&self.transient);
        Ok(())
    }

    /// Drops everything of earlier requests except the index, which is then ready to be searched. If there is nothing to
    /// drop, no byte changes.
    pub fn forget(&mut self) -> Outcome {
        if self.inbox.capacity() == 0 && self.change_error.capacity() == 0 && !memory::has_searches() {
            return Ok(());
        }
        self.abandon();
        *self = State {
            index: self.index.take(),
            first_bytes: self.first_bytes,
            changing: AtomicBool::new(true),
            ..State::default()
        };
        memory::wipe_searches();
        if let State { index: Some(index), search, batch, .. } = self {
            search.reserve(index)?;
            search.reserve_event(index)?;
            batch.reserve(index)?;
        }
        Ok(())
    }
}

/// Returns the first `length` bytes of the inbox.
fn message(inbox: &[u8], length: usize) -> Result<&[u8], Error> {
    inbox.get(..length).ok_or_else(|| {
        let message = format!("{length} bytes are announced, but the inbox has {}; ask for a larger one", inbox.len());
        Error::new(Kind::OutOfBounds, message)
    })
}

fn no_schema() -> Error {
    Error::new(Kind::NotFound, "there is no schema yet; give one first")
}

fn damaged() -> Error {
    Error::new(Kind::Trap, "an earlier change was cut off half way and left the index damaged; make a new one")
}
