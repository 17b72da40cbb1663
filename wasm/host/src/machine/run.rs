//! Runs a call: writes its input, calls the function, and copies its output.

use std::future::poll_fn;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;

use rustler::{Binary, Decoder, NifResult, OwnedBinary, Term};

use super::{LogEntry, Machine};
use crate::compile::rewrite::MAX_BULK_BYTES;
use crate::failure::Failure;
use crate::machine::export::Export;
use crate::machine::phase::Phase;
use crate::machine::stop::StopWord;
use crate::memory::linear::{GUARD_BYTES, MAX_MEMORY_BYTES};
use crate::memory::pages;
use crate::system::quota;
use crate::terms::input::Input;
use crate::terms::{Fuel, Output};

/// The fuel of a slice while the module allocates room for input on a normal scheduler: that of a whole time slice.
pub const OPENING_SLICE: u64 = 300_000;
/// The bytes of input or output that are copied between two yields.
const COPY_CHUNK: usize = MAX_BULK_BYTES as usize;
/// The most bytes of an input whose room may have large pages: two of them. A list of events or facts is rarely longer.
const MAX_INPUT_IN_LARGE_PAGES: usize = 4 << 20;

/// A call as Elixir requests it, in a tuple of these fields.
pub struct Request<'a> {
    pub export: Binary<'a>,
    pub arguments: Term<'a>,
    pub input: Option<Binary<'a>>,
    pub output: Output,
    pub fuel: Fuel,
    pub slice: Fuel,
    /// Whether the call must not be cut off.
    pub is_change: bool,
}

impl<'a> Decoder<'a> for Request<'a> {
    fn decode(term: Term<'a>) -> NifResult<Self> {
        let (export, arguments, input, output, fuel, slice, is_change) = term.decode()?;
        Ok(Self { export, arguments, input, output, fuel, slice, is_change })
    }
}

/// A prepared call: see `Machine::prepare`.
pub struct Order {
    /// The function to call, or `None` to apply only the missing entries.
    pub export: Option<usize>,
    /// The log entries to apply before the call.
    pub missing: Vec<Arc<LogEntry>>,
    /// The input, unless it is in the inbox already.
    pub input: Option<Input>,
    /// The number of bytes of the input.
    pub length: usize,
    /// Whether the caller wants the output.
    pub has_output: bool,
    pub fuel: u64,
    pub slice: Option<u64>,
    /// Whether the call must not be cut off.
    pub is_change: bool,
    /// The stop word, for a change of a module that has one.
    pub stop: Option<StopWord>,
}

impl Order {
    /// Returns an order that only applies entries of the log.
    pub fn replay_only(missing: Vec<Arc<LogEntry>>) -> Self {
        let slice = Some(OPENING_SLICE);
        Self {
            export: None,
            missing,
            input: None,
            length: 0,
            has_output: false,
            fuel: u64::MAX,
            slice,
            is_change: false,
            stop: None,
        }
    }
}

/// The result of a call.
pub struct Done {
    pub fuel: u64,
    /// The output, if it was too long to be copied at once. A short output is still in the memory.
    pub output: Option<OwnedBinary>,
}

impl Machine {
    /// Finds the export, reads the arguments, and writes the input to the inbox if no wasm has to run for that.
    pub fn prepare(&mut self, missing: Vec<Arc<LogEntry>>, request: &Request) -> Result<Order, Failure> {
        let export = self.export(&request.export)?;
        self.exports[export].prepare(request.arguments, &mut self.params, &mut self.results)?;
        let input = match request.input {
            // The missing entries use the inbox before the call does.
            Some(bytes) if !missing.is_empty() => Some(self.keep(bytes)?),
            Some(bytes) => self.offer(bytes)?,
            None => None,
        };
        Ok(Order {
            export: Some(export),
            missing,
            input,
            length: request.input.map_or(0, |input| input.len()),
            has_output: request.output != Output::None,
            fuel: request.fuel.0.unwrap_or(u64::MAX),
            slice: request.slice.0,
            is_change: request.is_change,
            stop: self.stop.filter(|_| request.is_change),
        })
    }

    pub(super) fn export(&mut self, name: &[u8]) -> Result<usize, Failure> {
        if let Some(known) = self.exports.iter().position(|export| export.is(name)) {
            return Ok(known);
        }
        self.exports.push(Export::find(&self.instance, &mut self.store, name)?);
        Ok(self.exports.len() - 1)
    }

    /// Writes a short input that fits the inbox. Returns any other input for `run` to write.
    fn offer(&mut self, input: Binary) -> Result<Option<Input>, Failure> {
        let inbox = self.inbox.as_ref().ok_or_else(no_inbox)?;
        if input.len() > inbox.capacity.min(COPY_CHUNK) {
            return Ok(Some(Input::new(input)));
        }
        let address = inbox.address;
        self.write(address, &input)?;
        Ok(None)
    }

    fn keep(&self, input: Binary) -> Result<Input, Failure> {
        self.inbox.as_ref().map(|_| Input::new(input)).ok_or_else(no_inbox)
    }

    /// Runs an order to its end. The result counts only the fuel of the function, from its call to its return, so it
    /// does not depend on the slice.
    pub async fn run(&mut self, order: Order) -> Result<Done, Failure> {
        // Dropped after the call, also after one that is cut off.
        let mut in_use = self.stack.enter()?;
        self.store.data_mut().forget_refusal();
        let is_change = order.is_change;
        let outcome = self.try_run(order).await;
        if is_change || !matches!(&outcome, Ok(done) if done.fuel < OPENING_SLICE) {
            in_use.drain_at_end();
        }
        if outcome.is_err() {
            self.restore_stack_pointer();
        }
        outcome
    }

    async fn try_run(&mut self, order: Order) -> Result<Done, Failure> {
        if !order.missing.is_empty() {
            let slice = order.slice.map(|slice| if order.is_change { slice } else { OPENING_SLICE });
            self.replay_all(&order.missing, slice).await?;
        }
        let Some(export) = order.export else {
            self.results.clear();
            return Ok(Done { fuel: 0, output: None });
        };
        if let Some(input) = order.input {
            let slice = order.slice.map(|slice| if order.is_change { slice } else { OPENING_SLICE });
            let _ = self.store.fuel_async_yield_interval(slice);
            self.copy_in(input, slice.is_some()).await?;
        }
        let _ = self.store.fuel_async_yield_interval(order.slice);
        let Self { store, exports, params, results, phase, .. } = self;
        let _ = store.set_fuel(order.fuel);
        phase.set(Phase::Running);
        let outcome = exports[export].call(store, params, results).await;
        outcome.map_err(|error| Failure::from_call(&error, store.data().refused()))?;
        let fuel = order.fuel - store.get_fuel().unwrap_or(0);
        self.leave_large_inbox(order.is_change || order.slice.is_none()).await?;
        let output = if order.has_output && order.slice.is_some() { self.copy_out().await? } else { None };
        Ok(Done { fuel, output })
    }

    /// Copies the input to the inbox, chunk by chunk.
    async fn copy_in(&mut self, input: Input, yields: bool) -> Result<(), Failure> {
        if input.length() > MAX_INPUT_IN_LARGE_PAGES {
            self.grow_by_small_pages();
        }
        if self.inbox.as_ref().is_none_or(|inbox| input.length() > inbox.capacity) {
            self.open_inbox(input.length()).await?;
        }
        let address = self.inbox.as_ref().map_or(0, |inbox| inbox.address);
        self.phase.set(Phase::Copying);
        for part in parts(input.length()) {
            input.with(part.clone(), |bytes| self.write(address + part.start, bytes))?;
            if yields && part.end < input.length() {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Makes the memory grow by small pages from now on, so that no first write takes long. Called once for each
    /// machine, because each boundary between large and small pages takes a mapping.
    fn grow_by_small_pages(&mut self) {
        let Some(memory) = self.memory.filter(|_| !self.has_small_pages) else { return };
        // Without a mapping left the pages stay large, and the first writes take longer.
        let Ok(mapping) = quota::mappings().take_for_call(1) else { return };
        let size = memory.data_size(&self.store);
        pages::prefer_small(memory.data_ptr(&self.store).wrapping_add(size), MAX_MEMORY_BYTES + GUARD_BYTES - size);
        self.mappings.push(mapping);
        self.has_small_pages = true;
    }

    /// Copies an output that is longer than a chunk. Returns `None` for a shorter one.
    async fn copy_out(&mut self) -> Result<Option<OwnedBinary>, Failure> {
        let (address, length) = self.find_output()?;
        if length <= COPY_CHUNK {
            return Ok(None);
        }
        self.phase.set(Phase::Copying);
        let mut output = OwnedBinary::new(length);
        for part in parts(length) {
            output[part.clone()].copy_from_slice(self.read(address + part.start, part.len())?);
            yield_now().await;
        }
        Ok(Some(output))
    }
}

pub(super) fn no_inbox() -> Failure {
    Failure::bad_module("the instance has no inbox for the input")
}

/// Returns the ranges of the chunks of `length` bytes.
fn parts(length: usize) -> impl Iterator<Item = Range<usize>> + Send {
    (0..length).step_by(COPY_CHUNK).map(move |start| start..length.min(start + COPY_CHUNK))
}

/// Ends the slice.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|_| if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}
