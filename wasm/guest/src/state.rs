//! The state of an instance, and its operations.
//!
//! An instance holds either one index or a shard, the indexes of many tenants. Both use the same tables of searches. The operations of
//! a shard are in [`tenants`].

mod contents;
mod tenants;

use std::sync::atomic::AtomicU32;

use be_tree_index::diagnostics::draw::draw;
use be_tree_index::diagnostics::explain::explain;
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Encoding;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::search::{self, packed, Batch, Counts, Form, Packed, Part, Search};
use be_tree_index::statistics::Work;
use be_tree_module::cell::Cell;
use be_tree_module::instance::Instance;
use be_tree_module::memory;
use be_tree_module::outbox::{NOTED, NOTHING};
use be_tree_module::port::Port;
use be_tree_module::refusal::{Outcome, Refusal};

use crate::state::contents::Contents;
use crate::stop::{Stop, Stoppable};
use crate::{reply, request};

pub(crate) use tenants::TenantRequest;

/// The phase of a profile after its last part.
const NO_PART: u32 = u32::MAX;

/// The result of a deletion that leaves the instance spent.
static SPENT: [u8; 1] = [1];

/// An index or a shard, its one search or batch, and the buffers of the ABI.
#[derive(Default)]
pub(crate) struct State {
    contents: Contents,
    /// The bytes of linear memory when the index or the shard was made.
    first_bytes: u64,
    search: Search,
    batch: Batch,
    /// The request of the current search.
    request: Request,
    /// The number of the batch that can be continued.
    unfinished: Option<u64>,
    /// Whether a profile is in progress.
    profiling: bool,
    /// The phase of the profile's last part, or [`NO_PART`].
    part: [u32; 1],
    /// The tables for the counting of one event.
    work: Work,
    /// The bytes of the index and of the statistics of the tenant that changed last.
    sizes: [u64; 2],
    stop: Stop,
    port: Port,
}

/// A request that may be interrupted: the lengths of its parts in the inbox, and the form of its result. If the search is limited
/// to some ids, their bytes follow the events.
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
    /// A search that runs in parts.
    Profile {
        format: i32,
        event: usize,
    },
    /// The next part of the profile.
    ProfilePart,
    /// The counts of the part that ran last.
    ProfileCounts,
    /// A request to a tenant of a shard.
    Tenant(TenantRequest),
}

/// The state of this module's instance.
pub(crate) static STATE: Cell<State> = Cell::new();

impl Instance for State {
    type Request = Request;

    fn port(&mut self) -> &mut Port {
        &mut self.port
    }

    fn abandon(&mut self) {
        self.search.abandon();
        self.unfinished = None;
        self.profiling = false;
        // The host may have asked an earlier change to abort after it was done.
        self.stop.clear();
    }

    fn begin_read(&mut self) {
        // The read overwrites the profile's event and lists.
        self.profiling = false;
        self.port.begin_read();
    }

    /// Clears the stop word, so that equal histories give identical memory images.
    fn after_change(&mut self) {
        self.stop.clear();
    }

    fn store(&mut self, request: Request) {
        self.request = request;
        self.unfinished = None;
        self.profiling = false;
    }

    fn advance(&mut self) -> Outcome {
        match self.request {
            Request::Nothing => Ok(()),
            Request::Search { format, event, only, form } => {
                self.advance_search(event, only, |search, index, event, ids| {
                    search.open_for(index, Encoding::from_code(format)?, event, ids, Form::from_code(form)?)
                })
            }
            Request::Reasons { format, event, only } => {
                self.advance_search(event, only, |search, index, event, ids| {
                    search.open_reasons(index, Encoding::from_code(format)?, event, ids)
                })
            }
            Request::Batch { number, events, bytes, only, form } => {
                if self.port.outbox.progress() == NOTED {
                    self.port.message(bytes.saturating_add(only.unwrap_or(0)))?;
                    self.batch.open(search::Request { events, bytes, only, form: Form::from_code(form)? });
                }
                self.advance_batch(number)
            }
            Request::More { number } => {
                if self.port.outbox.progress() == NOTED {
                    self.batch.next_part();
                }
                self.advance_batch(number)
            }
            Request::Prepare { format, event } => self.prepare(format, event),
            Request::Profile { format, event } => self.open_profile(format, event),
            Request::ProfilePart => self.profile_part(),
            Request::ProfileCounts => self.profile_counts(),
            Request::Tenant(request) => self.advance_tenant(request),
        }
    }
}

impl State {
    /// Returns the address of the word that the host sets to abort a change.
    pub fn stop(&self) -> *const AtomicU32 {
        self.stop.address()
    }

    pub fn schema(&mut self, length: usize) -> Outcome {
        let index = Index::new(request::schema(self.port.message(length)?)?);
        self.begin(Contents::Index(index))
    }

    /// Replaces what the instance holds.
    fn begin(&mut self, contents: Contents) -> Outcome {
        let mut search = Search::default();
        contents.reserve(&mut search)?;
        self.search.abandon();
        self.search = search;
        self.batch = Batch::default();
        self.contents = contents;
        self.first_bytes = memory::bytes();
        Ok(())
    }

    pub fn insert(&mut self, length: usize) -> Outcome {
        let State { contents, search, batch, stop, port, .. } = self;
        let index = contents.index_mut()?;
        let insertions = request::insertions(port.message(length)?)?;
        let inserted = index.insert_all_for(&mut Stoppable::new(stop, (search, batch)), insertions);
        inserted.map(drop).map_err(|(position, error)| match error.kind {
            // No subscription is at fault.
            Kind::Timeout | Kind::OutOfFuel => error.into(),
            _ => Refusal::of(position, error),
        })
    }

    pub fn put(&mut self, length: usize) -> Outcome {
        let State { contents, search, batch, stop, port, .. } = self;
        let index = contents.index_mut()?;
        let mut insertions = request::insertions(port.message(length)?)?;
        let (Some(insertion), None) = (insertions.next(), insertions.next()) else {
            return Err(Error::new(Kind::Type, "one subscription is put at a time").into());
        };
        Ok(index.put_for(&mut Stoppable::new(stop, (search, batch)), &insertion?)?)
    }

    pub fn delete(&mut self, id: u64) -> Outcome {
        self.contents.index_mut()?.delete(id)?;
        self.report_spent();
        Ok(())
    }

    /// Deletes and puts subscriptions, all of them or none.
    pub fn change_many(&mut self, length: usize) -> Outcome {
        let State { contents, search, batch, stop, port, .. } = self;
        let index = contents.index_mut()?;
        let (deleted, puts) = request::deletions_and_puts(port.message(length)?)?;
        let changed = index.change_for(&mut Stoppable::new(stop, (search, batch)), &deleted, puts);
        changed.map_err(|(position, error)| match (position, error.kind) {
            // No subscription is at fault.
            (None, _) | (_, Kind::Timeout | Kind::OutOfFuel) => error.into(),
            (Some(position), _) => Refusal::of(position, error),
        })?;
        self.report_spent();
        Ok(())
    }

    fn report_spent(&mut self) {
        if self.is_large_and_empty() {
            self.port.outbox.send(&SPENT);
        }
    }

    /// Returns whether the index is empty and undamaged, and a new instance would take much less memory.
    pub fn is_spent(&self) -> bool {
        !self.port.is_damaged() && self.is_large_and_empty()
    }

    /// Memory does not shrink. Growth of up to a quarter does not justify a new instance.
    fn is_large_and_empty(&self) -> bool {
        let is_empty = self.contents.index().is_ok_and(Index::is_empty);
        is_empty && 4 * memory::bytes() > 5 * self.first_bytes
    }

    pub fn keep_reasons(&mut self) -> Outcome {
        let State { contents, search, .. } = self;
        let index = contents.index_mut()?;
        search.reserve_for_reasons(index)?;
        Ok(index.keep_reasons()?)
    }

    /// Returns the next part of a batch, unless another operation has come in between.
    pub fn more(&mut self, number: u64) -> i32 {
        if self.unfinished != Some(number) {
            return self.refuse("this batch is not under way any more; start it again");
        }
        self.operate(Request::More { number })
    }

    /// Runs the next part of a profile or returns its counts, unless another operation has come in between.
    pub fn profile(&mut self, request: Request) -> i32 {
        if !self.profiling {
            return self.refuse("no profile is under way; start one");
        }
        self.port.outbox.advance_to(NOTHING);
        self.request = request;
        // The search arena holds the profile's event and lists, so it must not be reset.
        self.port.outbox.step();
        self.go_on()
    }

    /// Opens the search with `open`, unless it is open already, and runs it to its end.
    fn advance_search(
        &mut self,
        event: usize,
        only: Option<usize>,
        open: impl FnOnce(&mut Search, &Index, &[u8], Option<Packed>) -> Result<(), Error>,
    ) -> Outcome {
        let State { contents, search, port, .. } = self;
        let index = contents.index()?;
        let (message, outbox) = port.message_and_outbox(event.saturating_add(only.unwrap_or(0)))?;
        if outbox.progress() == NOTED {
            let (event, ids) = message.split_at(event);
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
        let State { contents, search, batch, port, unfinished, .. } = self;
        let index = contents.index()?;
        let (inbox, outbox) = port.inbox_and_outbox();
        // Only new work counts as progress; repeating an interrupted step does not.
        if outbox.progress() == NOTED {
            outbox.step();
        }
        let refused = |(position, error)| Refusal::of(position, error);
        outbox.send(batch.run(index, search, inbox, || outbox.step()).map_err(refused)?);
        *unfinished = (!batch.is_done()).then_some(number);
        Ok(())
    }

    /// Decodes the event in the inbox, so that later searches need not decode it.
    fn prepare(&mut self, format: i32, event: usize) -> Outcome {
        let State { contents, search, port, .. } = self;
        let index = contents.index()?;
        let encoding = Encoding::from_code(format)?;
        Ok(port.reply_to(event, |event, out| search.prepare(index, encoding, event, out))?)
    }

    /// Decodes the event in the inbox, and opens its search.
    fn open_profile(&mut self, format: i32, event: usize) -> Outcome {
        let State { contents, search, port, profiling, .. } = self;
        let index = contents.index()?;
        let event = port.message(event)?;
        search.open(index, Encoding::from_code(format)?, event, None::<std::iter::Empty<u64>>)?;
        *profiling = true;
        Ok(())
    }

    fn profile_part(&mut self) -> Outcome {
        let State { contents, search, part, port, .. } = self;
        *part = [search.next_part(contents.index()?).map_or(NO_PART, Part::code)];
        port.outbox.send(part);
        Ok(())
    }

    fn profile_counts(&mut self) -> Outcome {
        let counts: Counts = self.search.counts(self.contents.index()?);
        self.port.reply(|out| reply::counts(&counts, out));
        Ok(())
    }

    pub fn explain(&mut self, format: i32, event: usize, id: u64) -> Outcome {
        let index = self.contents.index()?;
        let encoding = Encoding::from_code(format)?;
        Ok(self.port.reply_to(event, |event, out| explain(index, encoding, event, id, out))?)
    }

    pub fn check(&mut self, length: usize) -> Outcome {
        self.check_each(length, Index::check)
    }

    pub fn check_as_erl(&mut self, length: usize) -> Outcome {
        self.check_each(length, Index::check_as_erl)
    }

    fn check_each(&mut self, length: usize, check: fn(&mut Index, &Insertion) -> Result<(), Error>) -> Outcome {
        let State { contents, port, .. } = self;
        let index = contents.index_mut()?;
        for (position, insertion) in request::insertions(port.message(length)?)?.enumerate() {
            let checked = insertion.and_then(|insertion| check(index, &insertion));
            checked.map_err(|error| Refusal::of(position, error))?;
        }
        Ok(())
    }

    pub fn draw(&mut self) -> Outcome {
        let index = self.contents.index()?;
        self.port.reply(|out| draw(index, out));
        Ok(())
    }

    /// Replies with one byte: 1 if a subscription has this id.
    pub fn has(&mut self, id: u64) -> Outcome {
        let has = self.contents.index()?.has(id);
        self.port.reply(|out| out.push(has.into()));
        Ok(())
    }

    /// Replies with the ids of all subscriptions.
    pub fn ids(&mut self) -> Outcome {
        let State { contents, port, .. } = self;
        let index = contents.index()?;
        Ok(port.reply_to(0, |_, out| {
            out.try_reserve_exact(size_of::<u64>() * index.len()).map_err(|_| no_room_for_ids())?;
            index.ids().for_each(|id| out.extend(id.to_le_bytes()));
            Ok(())
        })?)
    }

    pub fn info(&mut self) -> Outcome {
        let index = self.contents.index()?;
        self.port.reply(|out| reply::info(&index.info(), out));
        Ok(())
    }

    /// Drops all data of earlier requests except the index, which stays ready to be searched. If there is nothing to drop, no byte
    /// changes.
    pub fn forget(&mut self) -> Outcome {
        if !self.port.is_used() {
            return Ok(());
        }
        self.search.abandon();
        self.port.forget();
        let port = std::mem::take(&mut self.port);
        let contents = std::mem::take(&mut self.contents);
        *self = State { contents, first_bytes: self.first_bytes, port, ..State::default() };
        memory::wipe_searches();
        let State { contents, search, batch, .. } = self;
        contents.reserve(search)?;
        if let Contents::Index(index) = contents {
            batch.reserve(index)?;
        }
        Ok(())
    }
}

fn no_room_for_ids() -> Error {
    Error::new(Kind::OutOfMemory, "the memory limit does not allow to list the ids; raise the limit")
}
