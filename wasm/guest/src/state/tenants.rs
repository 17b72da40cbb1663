//! The operations of a shard.
//!
//! A match searches a tenant's index, and then counts the event in the tenant's statistics. The search may be cut off anywhere. The
//! counting is a change of the heap, and the end of the operation: it runs once for each event, in whatever slices. Before it the
//! operation ends without counting if the host has asked it to stop.

use be_tree_index::error::{Error, Kind};
use be_tree_index::event::Encoding;
use be_tree_index::search::{self, Form, Packed, Search, Steps};
use be_tree_index::shard::{count, Shard};
use be_tree_index::statistics::{self, Statistics, Work};
use be_tree_module::instance::Instance;
use be_tree_module::outbox::{Outbox, NOTED};
use be_tree_module::port::HeapChange;
use be_tree_module::refusal::{Outcome, Refusal};

use super::contents::Contents;
use super::{Request, State};
use crate::stop::{Stop, Stoppable};
use crate::{reply, request};

/// A request to a tenant that may be interrupted, with the lengths of its parts in the inbox.
#[derive(Clone, Copy)]
pub(crate) enum TenantRequest {
    Search {
        tenant: u32,
        format: i32,
        event: usize,
        form: i32,
    },
    /// A search whose event is counted.
    Match {
        tenant: u32,
        day: i32,
        format: i32,
        event: usize,
        form: i32,
    },
    /// The result of a match whose event is counted.
    Counted,
    /// A batch whose events are counted.
    Batch {
        tenant: u32,
        day: i32,
        events: u32,
        bytes: usize,
        form: i32,
    },
}

impl State {
    pub fn shard(&mut self, length: usize) -> Outcome {
        let shard = Shard::new(request::schema(self.port.message(length)?)?);
        self.begin(Contents::Shard(shard))
    }

    pub fn change_tenant(&mut self, tenant: u32, length: usize) -> Outcome {
        let State { contents, search, batch, stop, port, sizes, .. } = self;
        let shard = contents.shard_mut()?;
        let change = request::change(port.message(length)?, shard.schema())?;
        // With the batch, as for an index: the code of insertions is then the same.
        let searches = &mut Stoppable::new(stop, (search, batch));
        let tenant = shard.change(searches, tenant as usize, change).map_err(refused)?;
        *sizes = [tenant.index().bytes() as u64, tenant.statistics().bytes() as u64];
        port.outbox.send(sizes);
        Ok(())
    }

    pub fn drop_tenant(&mut self, tenant: u32) -> Outcome {
        Ok(self.contents.shard_mut()?.drop_tenant(tenant as usize)?)
    }

    pub fn tenant_statistics(&mut self, tenant: u32) -> Outcome {
        let State { contents, port, .. } = self;
        let statistics = contents.shard()?.tenant(tenant as usize)?.statistics();
        Ok(port.reply_to(0, |_, out| statistics.encode(out))?)
    }

    /// Replies with the oldest sealed day and its blob, or with nothing.
    pub fn tenant_sealed(&mut self, tenant: u32) -> Outcome {
        let State { contents, port, .. } = self;
        let statistics = contents.shard()?.tenant(tenant as usize)?.statistics();
        let Some(day) = statistics.sealed() else { return Ok(()) };
        Ok(port.reply_to(0, |_, out| {
            out.extend(day.to_le_bytes());
            statistics.encode_sealed(day, out)
        })?)
    }

    pub fn freeze_tenant(&mut self, tenant: u32) -> Outcome {
        self.contents.shard_mut()?.tenant_mut(tenant as usize)?.freeze();
        Ok(())
    }

    pub fn release_day(&mut self, tenant: u32, day: i32) -> Outcome {
        self.contents.shard_mut()?.tenant_mut(tenant as usize)?.statistics_mut().release(day);
        Ok(())
    }

    pub fn restore_statistics(&mut self, tenant: u32, length: usize) -> Outcome {
        let State { contents, port, .. } = self;
        let statistics = contents.shard_mut()?.tenant_mut(tenant as usize)?.statistics_mut();
        Ok(statistics.restore(port.message(length)?)?)
    }

    pub fn report(&mut self, length: usize) -> Outcome {
        Ok(self.port.reply_to(length, statistics::answer)?)
    }

    pub fn merge(&mut self, length: usize) -> Outcome {
        let merge = |blobs: &[u8], out: &mut _| statistics::merge(statistics::read_blobs(blobs)?.into_iter(), out);
        Ok(self.port.reply_to(length, merge)?)
    }

    pub fn tenant_info(&mut self, tenant: u32) -> Outcome {
        let tenant = self.contents.shard()?.tenant(tenant as usize)?;
        self.port.reply(|out| reply::tenant(tenant, out));
        Ok(())
    }

    /// Starts a request to a tenant.
    pub fn operate_tenant(&mut self, request: TenantRequest) -> i32 {
        // The host may have asked an earlier operation to stop after it was done.
        self.stop.clear();
        self.operate(Request::Tenant(request))
    }

    pub(super) fn advance_tenant(&mut self, request: TenantRequest) -> Outcome {
        match request {
            TenantRequest::Search { tenant, format, event, form } => {
                self.search_tenant(tenant, format, event, Form::from_code(form)?)?;
                let index = self.contents.shard()?.tenant(tenant as usize)?.index();
                self.search.refusal(index).map_or(Ok(()), Err)?;
                self.send_found()
            }
            TenantRequest::Match { tenant, day, format, event, form } => {
                self.search_tenant(tenant, format, event, counted_form(form)?)?;
                self.count(tenant, day)?;
                self.send_found()
            }
            TenantRequest::Counted => self.send_found(),
            TenantRequest::Batch { tenant, day, events, bytes, form } => {
                if self.port.outbox.progress() == NOTED {
                    self.port.message(bytes)?;
                    self.batch.open(search::Request { events, bytes, only: None, form: counted_form(form)? });
                }
                self.advance_batch_of(tenant, day)
            }
        }
    }

    /// Searches a tenant's index, from the start or from the last step, unless the host asks it to stop.
    fn search_tenant(&mut self, tenant: u32, format: i32, event: usize, form: Form) -> Result<(), Error> {
        let State { contents, search, stop, port, .. } = self;
        let index = contents.shard()?.tenant(tenant as usize)?.index();
        let (message, outbox) = port.message_and_outbox(event)?;
        if outbox.progress() == NOTED {
            search.open_for(index, Encoding::from_code(format)?, message, None::<Packed>, form)?;
            outbox.step();
        }
        while !search.step(index) {
            outbox.step();
            stop.check_match()?;
        }
        Ok(())
    }

    /// Counts the event of the finished search. From then on the request is done, and repeats only its result.
    fn count(&mut self, tenant: u32, day: i32) -> Result<(), Error> {
        self.stop.check_match()?;
        let State { contents, search, work, request, port, .. } = self;
        let (_index, statistics) = contents.shard_mut()?.tenant_mut(tenant as usize)?.to_count()?;
        let (_inbox, _outbox, heap) = port.inbox_outbox_and_heap();
        let counted = heap.run(|| {
            let counted = count(statistics, work, day, search).is_ok();
            if counted {
                *request = Request::Tenant(TenantRequest::Counted);
            }
            counted
        });
        if counted {
            Ok(())
        } else {
            Err(not_counted())
        }
    }

    fn send_found(&mut self) -> Outcome {
        self.port.outbox.send(self.search.found().packed());
        Ok(())
    }

    /// Runs a batch of a tenant to the end of its first part, and counts each event after its search. A part ends before an event that
    /// is refused, so that its events are exactly those that are counted.
    fn advance_batch_of(&mut self, tenant: u32, day: i32) -> Outcome {
        let State { contents, search, work, batch, port, stop, .. } = self;
        let (index, statistics) = contents.shard_mut()?.tenant_mut(tenant as usize)?.to_count()?;
        let (inbox, outbox, heap) = port.inbox_outbox_and_heap();
        if outbox.progress() == NOTED {
            outbox.step();
        }
        let steps = CountedSteps { statistics, work, day, outbox, heap, stop };
        match batch.run(index, search, inbox, steps).map(|_part| ()) {
            Err((0, error)) => return Err(Refusal::of(0, error)),
            Err(_) | Ok(()) => outbox.send(batch.part(search)),
        }
        Ok(())
    }
}

/// The steps of a batch whose events are counted.
struct CountedSteps<'a> {
    statistics: &'a mut Statistics,
    work: &'a mut Work,
    day: i32,
    outbox: &'a Outbox,
    heap: &'a HeapChange,
    stop: &'a Stop,
}

impl Steps for CountedSteps<'_> {
    const READS_EVENTS: bool = true;

    fn committed(&mut self) -> Result<(), Error> {
        self.outbox.step();
        self.stop.check_match()
    }

    fn found(&mut self, search: &Search, commit: impl FnOnce()) -> Result<(), Error> {
        self.stop.check_match()?;
        let CountedSteps { statistics, work, day, heap, .. } = self;
        let counted = heap.run(|| {
            let counted = count(statistics, work, *day, search).is_ok();
            if counted {
                commit();
            }
            counted
        });
        if counted {
            Ok(())
        } else {
            Err(not_counted())
        }
    }
}

/// Returns the form of a result whose ids are counted.
fn counted_form(code: i32) -> Result<Form, Error> {
    match Form::from_code(code)? {
        form @ (Form::Ids | Form::CountedIds) => Ok(form),
        Form::Bitmap | Form::CountedBitmap => {
            Err(Error::new(Kind::Type, "a match returns ids; ask for the form 0 or 2"))
        }
    }
}

/// The error of statistics is made anew, because its text was on the heap.
fn not_counted() -> Error {
    Error::new(Kind::OutOfMemory, "the memory limit does not allow to count the event; raise the limit")
}

fn refused((position, error): (Option<usize>, Error)) -> Refusal {
    match (position, error.kind) {
        // No subscription is at fault.
        (None, _) | (_, Kind::Timeout | Kind::OutOfFuel) => error.into(),
        (Some(position), _) => Refusal::of(position, error),
    }
}
