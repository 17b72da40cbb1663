//! The state of an instance, and its operations.
//!
//! A host may stop a search at any instruction and then resume it, or abandon it and run another operation. So a search
//! never allocates, because an interrupted allocator is corrupt, and commits its progress by one store at a time. An
//! insertion allocates everything before it changes anything, so it is atomic.

use std::cell::UnsafeCell;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{push, reserve, Error, Kind};
use crate::evaluate::{depth, expression_holds};
use crate::event::{Event, MAX_EVENT_BYTES, PREPARED};
use crate::explain::explain;
use crate::expression::{self, Step};
use crate::schema::{self, Schema};
use crate::term::{Reader, Writer};
use crate::vocabulary::{is_counted, Vocabulary};

/// The first size of the inbox. It suffices for any event.
const INBOX: usize = MAX_EVENT_BYTES;
/// Upper bound on the bytes of a search's error, apart from the name in it.
const REFUSAL: usize = 1024;

#[derive(Default)]
pub struct State {
    index: Option<Index>,
    search: Search,
    inbox: Vec<u8>,
    result: Vec<u8>,
    outbox: Outbox,
}

/// The words shared with the host: address and length of the last result, and the progress of a search. Without a search
/// `progress` is 0. In a search its lower half is 1 plus the number of tested subscriptions, and its upper half counts matches.
#[derive(Default)]
#[repr(C)]
struct Outbox {
    result: [u32; 2],
    progress: AtomicU64,
}

const NONE: u32 = 0;
const NOTED: u32 = 1;
const FIRST: u32 = 2;

/// The subscriptions, by ascending ids.
struct Index {
    schema: Schema,
    subscriptions: Vec<Subscription>,
    /// The event of a search.
    event: Event,
}

struct Subscription {
    id: u64,
    steps: Vec<Step>,
}

/// The current search, or the batch that it belongs to. Its lists have room for all subscriptions.
#[derive(Default)]
struct Search {
    request: Request,
    batch: Option<Batch>,
    /// Whether the search considers each subscription.
    wanted: Vec<bool>,
    /// A result of two words and the matching ids.
    found: Vec<u64>,
    /// A result of two words and a bitmap of the matching ids.
    bitmap: Vec<u64>,
    /// The operand stack of the expression that is being evaluated.
    stack: Vec<bool>,
}

/// The request of a search. The event and the ids are ranges of the inbox.
#[derive(Clone, Default)]
struct Request {
    format: i32,
    event: Range<usize>,
    ids: Option<Range<usize>>,
    form: i32,
    /// In a batch, the position of the event, and the start of the next one.
    place: usize,
    next: usize,
}

/// A batch: its events are searched one after the other, each in a separate call.
#[derive(Clone)]
struct Batch {
    number: u64,
    count: usize,
    ids: Option<Range<usize>>,
    form: i32,
    /// The number of finished events, and the start of the next one.
    finished: usize,
    next: usize,
    /// The end of the events.
    end: usize,
}

/// The words before the ids.
const HEADER: usize = 2;
/// Minimum words of a bitmap.
const BITMAP: usize = 16_384;
/// The format and the length before each event of a batch.
const FRAME: usize = 8;

struct Instance(UnsafeCell<Option<State>>);

// SAFETY: the module is compiled for wasm32 without threads.
unsafe impl Sync for Instance {}

static INSTANCE: Instance = Instance(UnsafeCell::new(None));

/// Lends the instance's state to `operation`.
pub fn with_state<T>(operation: impl FnOnce(&mut State) -> T) -> T {
    // SAFETY: every export calls this once and no operation calls an export, so there is one borrow at a time. The borrow
    // of an interrupted call is never used again.
    let state = unsafe { &mut *INSTANCE.0.get() };
    operation(state.get_or_insert_with(State::default))
}

impl State {
    /// Returns the address of a buffer of at least `length` bytes, or 0. The buffer moves only when it grows.
    pub fn inbox(&mut self, length: usize) -> u32 {
        let length = length.max(INBOX).max(self.inbox.len());
        let more = length - self.inbox.len();
        if reserve(&mut self.inbox, more).is_err() {
            return 0;
        }
        self.inbox.resize(length, 0);
        self.inbox.as_ptr() as u32
    }

    pub fn outbox(&self) -> u32 {
        &raw const self.outbox as u32
    }

    pub fn schema(&mut self, length: usize) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        outbox.forget();
        *search = Search::default();
        let schema = match message(inbox, 0..length).and_then(schema::read) {
            Ok(schema) => schema,
            Err(error) => return outbox.refuse(error, result),
        };
        let longest = schema.iter().map(|attribute| attribute.name.len()).max().unwrap_or_default();
        result.clear();
        result.reserve(REFUSAL + 2 * longest + MAX_EVENT_BYTES);
        search.found.resize(HEADER, 0);
        search.bitmap.resize(HEADER + BITMAP, 0);
        *index = Some(Index { event: Event::new(&schema), schema, subscriptions: Vec::new() });
        outbox.accept(&[])
    }

    pub fn insert(&mut self, length: usize) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        search.forget(outbox);
        let inserted = known(index).and_then(|index| index.insert(message(inbox, 0..length)?, search));
        match inserted {
            Ok(()) => outbox.accept(&[]),
            Err(error) => outbox.refuse(error, result),
        }
    }

    pub fn delete(&mut self, id: u64) -> i32 {
        let State { index, search, result, outbox, .. } = self;
        search.forget(outbox);
        let deleted = known(index).and_then(|index| {
            let place = index.find(id)?;
            index.subscriptions.remove(place);
            Ok(())
        });
        match deleted {
            Ok(()) => outbox.accept(&[]),
            Err(error) => outbox.refuse(error, result),
        }
    }

    pub fn search(&mut self, format: i32, event: usize, ids: Option<usize>, form: i32) -> i32 {
        self.search.forget(&self.outbox);
        let ids = ids.map(|length| event..event.saturating_add(length));
        self.search.request = Request { format, event: 0..event, ids, form, place: 0, next: 0 };
        self.outbox.note();
        self.resume()
    }

    pub fn search_many(&mut self, number: u64, count: usize, events: usize, ids: Option<usize>, form: i32) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        search.forget(outbox);
        let ids = ids.map(|length| events..events.saturating_add(length));
        let batch = Batch { number, count, ids, form, finished: 0, next: 0, end: events };
        match known(index).and_then(|index| batch.check(index, inbox)) {
            Ok(()) => {
                search.batch = Some(batch);
                self.more(number)
            }
            Err(error) => outbox.refuse(error, result),
        }
    }

    pub fn more(&mut self, number: u64) -> i32 {
        let State { search, inbox, result, outbox, .. } = self;
        outbox.forget();
        let batch = search.batch.as_ref().filter(|batch| batch.number == number && batch.finished < batch.count);
        let none = || Error::new(Kind::NotFound, "this batch is not under way; start it again");
        match batch.ok_or_else(none).and_then(|batch| batch.next(inbox)) {
            Ok(request) => {
                search.request = request;
                outbox.note();
                self.resume()
            }
            Err(error) => outbox.refuse(error, result),
        }
    }

    pub fn resume(&mut self) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        let position = search.batch.as_ref().map(|_| search.request.place);
        let status = match known(index).and_then(|index| search.run(index, inbox, &outbox.progress)) {
            Ok(found) => {
                outbox.result = [found.as_ptr() as u32, size_of_val(found) as u32];
                0
            }
            Err(error) => outbox.refuse(Error { position, ..error }, result),
        };
        outbox.forget();
        status
    }

    pub fn prepare(&mut self, format: i32, event: usize) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        search.forget(outbox);
        let prepared = known(index).and_then(|Index { schema, event: decoded, .. }| {
            let bytes = message(inbox, 0..event)?;
            decoded.decode(format, bytes, schema)?;
            Ok(bytes)
        });
        match prepared {
            Ok(bytes) => {
                result.clear();
                if format != PREPARED {
                    result.extend_from_slice(&format.to_le_bytes());
                }
                result.extend_from_slice(bytes);
                outbox.accept(result)
            }
            Err(error) => outbox.refuse(error, result),
        }
    }

    pub fn explain(&mut self, format: i32, event: usize, id: u64) -> i32 {
        let State { index, search, inbox, result, outbox } = self;
        search.forget(outbox);
        result.clear();
        let explained = known(index).and_then(|index| {
            let place = index.find(id)?;
            index.event.decode(format, message(inbox, 0..event)?, &index.schema)?;
            explain(&index.subscriptions[place].steps, &index.event, &index.schema, result)
        });
        match explained {
            Ok(()) => outbox.accept(result),
            Err(error) => outbox.refuse(error, result),
        }
    }

    /// Writes the counts: 0 for parts that this module does not have.
    pub fn info(&mut self) -> i32 {
        let State { index, result, outbox, .. } = self;
        let index = match known(index) {
            Ok(index) => index,
            Err(error) => return outbox.refuse(error, result),
        };
        let expressions = index.subscriptions.len();
        let steps = || index.subscriptions.iter().flat_map(|subscription| &subscription.steps);
        let predicates = steps().filter(|step| matches!(step, Step::Predicate(_))).count();
        let pairs = [
            ("expressions", expressions),
            ("predicates", predicates),
            ("strings", 0),
            ("nodes", 0),
            ("entries", expressions),
            ("unindexed", expressions),
            ("depth", 0),
            ("code_bytes", steps().count() * size_of::<Step>()),
            ("memory_bytes", memory_bytes()),
        ];
        result.clear();
        let mut writer = Writer::new(result);
        writer.list(pairs.len());
        for (name, number) in pairs {
            writer.tuple(2);
            writer.atom(name);
            writer.integer(number as i64);
        }
        writer.end_list();
        outbox.accept(result)
    }
}

impl Index {
    fn find(&self, id: u64) -> Result<usize, Error<'static>> {
        let found = self.subscriptions.binary_search_by_key(&id, |subscription| subscription.id);
        found.map_err(|_| Error::new(Kind::NotFound, "no subscription has this id"))
    }

    /// Inserts the subscriptions in `bytes`, all of them or none.
    fn insert<'a>(&'a mut self, bytes: &'a [u8], search: &mut Search) -> Result<(), Error<'a>> {
        let Index { schema, subscriptions, .. } = self;
        let mut fresh = read(bytes, schema, subscriptions)?;
        let total = subscriptions.len() + fresh.len();
        let deepest = fresh.iter().map(|subscription| depth(&subscription.steps)).max().unwrap_or_default();
        reserve(subscriptions, fresh.len())?;
        reserve(&mut search.wanted, total)?;
        reserve(&mut search.found, HEADER + total)?;
        reserve(&mut search.bitmap, HEADER + total)?;
        search.stack.clear();
        reserve(&mut search.stack, deepest)?;
        // Nothing after this can fail.
        search.wanted.resize(total, false);
        search.found.resize(HEADER + total, 0);
        search.bitmap.resize(HEADER + total.max(BITMAP), 0);
        match fresh.pop() {
            Some(one) if fresh.is_empty() => {
                let place = subscriptions.partition_point(|subscription| subscription.id < one.id);
                subscriptions.insert(place, one);
            }
            last => {
                subscriptions.append(&mut fresh);
                subscriptions.extend(last);
                subscriptions.sort_unstable_by_key(|subscription| subscription.id);
            }
        }
        Ok(())
    }
}

/// Reads a list of `{Id, Expression, Constants}` to insert beside `present`.
fn read<'a>(bytes: &'a [u8], schema: &'a Schema, present: &[Subscription]) -> Result<Vec<Subscription>, Error<'a>> {
    let mut fresh = Vec::new();
    let mut ids = HashSet::new();
    let mut constants = Vec::new();
    let mut vocabulary = None;
    let mut reader = Reader::new(bytes)?;
    reader.list(|reader| {
        let position = fresh.len();
        let mut subscription = || {
            reader.tuple(3)?;
            let id = reader.number()?.unsigned()?;
            let text = reader.binary()?;
            constants.clear();
            reader.list(|reader| {
                reader.tuple(2)?;
                push(&mut constants, (reader.binary()?, reader.number()?.signed()?))
            })?;
            let no_memory = |_| Error::new(Kind::OutOfMemory, "there is no more memory");
            ids.try_reserve(1).map_err(no_memory)?;
            if !ids.insert(id) || present.binary_search_by_key(&id, |subscription| subscription.id).is_ok() {
                return Err(Error::new(Kind::DuplicateId, "a subscription has this id already; delete that first"));
            }
            let mut steps = expression::read(text, &constants, schema)?;
            steps.shrink_to_fit();
            if is_counted(&steps, schema) {
                if vocabulary.is_none() {
                    let mut known = Vocabulary::new();
                    present.iter().try_for_each(|subscription| known.add(&subscription.steps, schema))?;
                    fresh.iter().try_for_each(|subscription: &Subscription| known.add(&subscription.steps, schema))?;
                    vocabulary = Some(known);
                }
                vocabulary.iter_mut().try_for_each(|known| known.add(&steps, schema))?;
            }
            Ok(Subscription { id, steps })
        };
        let subscription = subscription().map_err(|error| Error { position: Some(position), ..error })?;
        push(&mut fresh, subscription)
    })?;
    reader.finish()?;
    Ok(fresh)
}

impl Search {
    /// Ends the batch and the search.
    fn forget(&mut self, outbox: &Outbox) {
        outbox.forget();
        self.batch = None;
    }

    /// Runs the search from its progress to its end. Returns the bytes for the outbox.
    fn run<'a>(&mut self, index: &'a mut Index, inbox: &'a [u8], progress: &AtomicU64) -> Result<&[u64], Error<'a>> {
        let Index { schema, subscriptions, event } = index;
        let Request { format, event: bytes, ids, form, .. } = self.request.clone();
        match progress.load(Ordering::Acquire) as u32 {
            NONE => return Err(Error::new(Kind::NotFound, "there is no search to go on with; start one")),
            NOTED => {
                event.decode(format, message(inbox, bytes)?, schema)?;
                let ids = ids.map(|ids| message(inbox, ids)).transpose()?;
                self.want(ids, subscriptions);
                progress.store(FIRST.into(), Ordering::Release);
            }
            _ => {}
        }
        let mut word = progress.load(Ordering::Acquire);
        while let Some(subscription) = subscriptions.get((word as u32 - FIRST) as usize) {
            let wanted = self.wanted[(word as u32 - FIRST) as usize];
            if wanted && expression_holds(&subscription.steps, event, &mut self.stack) {
                self.found[HEADER + (word >> 32) as usize] = subscription.id;
                word += 1 << 32;
            }
            word += 1;
            // The match is written before it is counted.
            progress.store(word, Ordering::Release);
        }
        let count = (word >> 32) as usize;
        let looked_at = self.wanted[..subscriptions.len()].iter().filter(|&&wanted| wanted).count();
        self.result(count, form, [subscriptions.len() as u64, looked_at as u64], subscriptions.len())
    }

    /// Returns the result in the requested form: behind the two counts, or in a batch behind its length.
    fn result(&mut self, count: usize, form: i32, counts: [u64; 2], most: usize) -> Result<&[u64], Error<'static>> {
        let (result, words) = match form {
            0 => (&mut self.found, count),
            1 => {
                let words = to_bitmap(&self.found[HEADER..][..count], &mut self.bitmap[HEADER..], most)?;
                (&mut self.bitmap, words)
            }
            _ => return Err(Error::new(Kind::Type, "an result's form is 0 or 1")),
        };
        let Some(batch) = &mut self.batch else {
            result[..HEADER].copy_from_slice(&counts);
            return Ok(&result[..HEADER + words]);
        };
        // Rewriting these after a resumption changes nothing.
        batch.finished = self.request.place + 1;
        batch.next = self.request.next;
        result[HEADER - 1] = words as u64;
        Ok(&result[HEADER - 1..HEADER + words])
    }

    /// Marks the subscriptions of the search: those in `ids`, or all.
    fn want(&mut self, ids: Option<&[u8]>, subscriptions: &[Subscription]) {
        self.wanted.fill(ids.is_none());
        for id in ids.unwrap_or_default().chunks_exact(8) {
            let id = u64::from_le_bytes(id.try_into().expect("a chunk of 8 bytes"));
            if let Ok(place) = subscriptions.binary_search_by_key(&id, |subscription| subscription.id) {
                self.wanted[place] = true;
            }
        }
    }
}

/// Sets the bits of the ids. Returns the number of words.
fn to_bitmap(ids: &[u64], bitmap: &mut [u64], most: usize) -> Result<usize, Error<'static>> {
    let words = ids.last().map_or(0, |id| id / 64 + 1);
    if words > most.max(BITMAP) as u64 {
        return Err(Error::new(Kind::OutOfBounds, "an id that matches is too large for a bitmap; ask for the ids"));
    }
    bitmap[..words as usize].fill(0);
    ids.iter().for_each(|id| bitmap[(id / 64) as usize] |= 1 << (id % 64));
    Ok(words as usize)
}

impl Batch {
    /// Checks all events. The error has the position of the first wrong one.
    fn check<'a>(&self, index: &'a mut Index, inbox: &'a [u8]) -> Result<(), Error<'a>> {
        let mut batch = self.clone();
        let Index { schema, event, .. } = index;
        for place in 0..self.count {
            let request = batch.next(inbox)?;
            let decoded = message(inbox, request.event).and_then(|bytes| event.decode(request.format, bytes, schema));
            decoded.map_err(|error| Error { position: Some(place), ..error })?;
            batch.next = request.next;
        }
        Ok(())
    }

    /// Returns the search for the next event.
    fn next<'a>(&self, inbox: &'a [u8]) -> Result<Request, Error<'a>> {
        let frame = message(inbox, self.next..self.next + FRAME)?;
        let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let (format, length) = (word(&frame[..4]) as i32, word(&frame[4..]) as usize);
        let start = self.next + FRAME;
        let next = start.saturating_add(length);
        if next > self.end {
            return Err(Error::new(Kind::OutOfBounds, "the events end within an event; give all of their bytes"));
        }
        Ok(Request { format, event: start..next, ids: self.ids.clone(), form: self.form, place: self.finished, next })
    }
}

impl Outbox {
    /// Records that the request is stored and a search has begun.
    fn note(&self) {
        self.progress.store(NOTED.into(), Ordering::Release);
    }

    fn forget(&self) {
        self.progress.store(NONE.into(), Ordering::Release);
    }

    fn accept(&mut self, result: &[u8]) -> i32 {
        self.result = [result.as_ptr() as u32, result.len() as u32];
        0
    }

    fn refuse(&mut self, error: Error, result: &mut Vec<u8>) -> i32 {
        result.clear();
        error.write(result);
        self.accept(result);
        1
    }
}

#[cfg(target_arch = "wasm32")]
fn memory_bytes() -> usize {
    const PAGE: usize = 64 * 1024;
    core::arch::wasm32::memory_size::<0>() * PAGE
}

/// The module is also linted natively.
#[cfg(not(target_arch = "wasm32"))]
fn memory_bytes() -> usize {
    0
}

fn known(index: &mut Option<Index>) -> Result<&mut Index, Error<'static>> {
    index.as_mut().ok_or(Error::new(Kind::NotFound, "there is no schema yet; give one first"))
}

/// Returns a range of the inbox.
fn message(inbox: &[u8], place: Range<usize>) -> Result<&[u8], Error<'_>> {
    inbox.get(place).ok_or(Error::new(Kind::OutOfBounds, "more bytes are announced than the inbox has"))
}
