//! What an instance holds, and its operations on it.

use std::cell::UnsafeCell;

use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Format;
use be_tree_index::explain::explain;
use be_tree_index::index::Index;
use be_tree_index::search::Search;

use crate::answer;
use crate::request;

/// The size of the inbox at first.
const INBOX: usize = 4096;
/// Events up to this size are decoded without an allocation: nearly all.
const EVENT: usize = 16 * 1024;

/// An index, one search of it, and the two buffers by which they are reached.
#[derive(Default)]
pub(crate) struct State {
    index: Option<Index>,
    search: Search,
    searching: bool,
    /// Whether a change began that did not end: a trap cut it off.
    changing: bool,
    inbox: Vec<u8>,
    answer: Vec<u8>,
    outbox: [u32; 2],
}

/// An error and, of an insertion of many, the position of the one concerned.
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

// SAFETY: the module is compiled for wasm32 without threads; where it is linked natively (its tests), one thread uses it.
unsafe impl Sync for Instance {}

static INSTANCE: Instance = Instance(UnsafeCell::new(None));

/// Lends the instance's state to `operation`.
pub(crate) fn with_state<T>(operation: impl FnOnce(&mut State) -> T) -> T {
    // SAFETY: every export calls this once and no operation calls an export, so there is one borrow at a time. A call
    // that a trap cut off left a borrow that nothing uses any more.
    let state = unsafe { &mut *INSTANCE.0.get() };
    operation(state.get_or_insert_with(State::default))
}

impl State {
    /// A buffer of at least `length` bytes, if memory allows. It moves only to grow.
    pub fn inbox(&mut self, length: usize) -> Option<*const u8> {
        let length = length.max(INBOX);
        let more = length.saturating_sub(self.inbox.len());
        self.inbox.try_reserve(more).ok()?;
        self.inbox.resize(length.max(self.inbox.len()), 0);
        Some(self.inbox.as_ptr())
    }

    /// Where the address and the length of the last answer stand.
    pub fn outbox(&self) -> *const u32 {
        self.outbox.as_ptr()
    }

    /// Runs an operation that changes the index, and notes if it does not come back.
    pub fn change(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        self.read(|state| {
            state.searching = false;
            state.changing = true;
            let outcome = operation(state);
            state.changing = false;
            outcome
        })
    }

    /// Runs an operation and answers its status; what it refused goes to the outbox.
    pub fn read(&mut self, operation: impl FnOnce(&mut Self) -> Outcome) -> i32 {
        self.answer.clear();
        self.outbox = [0, 0];
        let outcome = if self.changing { Err(damaged().into()) } else { operation(self) };
        match outcome {
            Ok(()) => 0,
            Err(refusal) => {
                answer::error(&refusal, &mut self.answer);
                self.send_answer();
                1
            }
        }
    }

    pub fn schema(&mut self, length: usize) -> Outcome {
        let index = Index::new(request::schema(message(&self.inbox, length)?)?);
        let mut search = Search::default();
        search.reserve(&index)?;
        search.reserve_event(&index, EVENT)?;
        self.search = search;
        self.index = Some(index);
        Ok(())
    }

    pub fn insert(&mut self, length: usize) -> Outcome {
        let State { index, search, inbox, .. } = self;
        let index = index.as_mut().ok_or_else(no_schema)?;
        let insertions = request::insertions(message(inbox, length)?)?;
        let inserted =
            index.insert_all(insertions).map_err(|(position, error)| Refusal { error, position: Some(position) })?;
        if let Err(error) = search.reserve(index) {
            for id in inserted {
                index.delete(id)?;
            }
            return Err(error.into());
        }
        Ok(())
    }

    pub fn delete(&mut self, id: u64) -> Outcome {
        Ok(self.index.as_mut().ok_or_else(no_schema)?.delete(id)?)
    }

    pub fn search(&mut self, format: Option<Format>, event: usize, only: Option<usize>) -> Outcome {
        let State { index, search, inbox, searching, .. } = self;
        *searching = false;
        let index = index.as_ref().ok_or_else(no_schema)?;
        let whole = message(inbox, event.saturating_add(only.unwrap_or(0)))?;
        let (event, ids) = whole.split_at(event);
        let ids = ids.chunks_exact(8).map(|id| u64::from_le_bytes(id.try_into().expect("a chunk of 8 bytes")));
        search.open(index, format.ok_or_else(no_format)?, event, only.map(|_| ids))?;
        *searching = true;
        self.resume()
    }

    pub fn resume(&mut self) -> Outcome {
        if !self.searching {
            return Err(Error::new(Kind::NotFound, "there is no search to go on with; start one").into());
        }
        let index = self.index.as_ref().ok_or_else(no_schema)?;
        let found = self.search.run(index).packed();
        self.outbox = [found.as_ptr() as usize as u32, size_of_val(found) as u32];
        self.searching = false;
        Ok(())
    }

    pub fn explain(&mut self, format: Option<Format>, event: usize, id: u64) -> Outcome {
        let State { index, inbox, answer, .. } = self;
        let index = index.as_ref().ok_or_else(no_schema)?;
        explain(index, format.ok_or_else(no_format)?, message(inbox, event)?, id, answer)?;
        self.send_answer();
        Ok(())
    }

    pub fn info(&mut self) -> Outcome {
        let index = self.index.as_ref().ok_or_else(no_schema)?;
        answer::info(&index.info(), &mut self.answer);
        self.send_answer();
        Ok(())
    }

    fn send_answer(&mut self) {
        self.outbox = [self.answer.as_ptr() as usize as u32, self.answer.len() as u32];
    }
}

/// The first `length` bytes of the inbox.
fn message(inbox: &[u8], length: usize) -> Result<&[u8], Error> {
    inbox.get(..length).ok_or_else(|| {
        let message = format!("{length} bytes are announced, but the inbox has {}; ask for a larger one", inbox.len());
        Error::new(Kind::OutOfBounds, message)
    })
}

fn no_schema() -> Error {
    Error::new(Kind::NotFound, "there is no schema yet; give one first")
}

fn no_format() -> Error {
    Error::new(Kind::Type, "an event's format is 0 (term), 1 (JSON) or 2 (record)")
}

fn damaged() -> Error {
    Error::new(Kind::Trap, "an earlier change was cut off half way and left the index damaged; make it anew")
}
