//! The convention of a module and the host: an inbox for input, an outbox for output, and a stop word.

use wasmtime::{FuncType, Instance, Memory, Store, TypedFunc};

use super::{outside, Machine, Setup};
use crate::failure::{Failure, Kind};
use crate::machine::stop::StopWord;
use crate::memory::limits::Limits;
use crate::memory::stacks::block_on;

/// The most bytes of an inbox that is kept for the next input.
const MAX_KEPT_INBOX_BYTES: usize = 1 << 20;
/// The most fuel of a start function, and of each call of an inbox or outbox export: about 0.2 seconds.
pub(super) const MAX_CONVENTION_FUEL: u64 = 1_000_000_000;
/// The most fuel of a question to the module: about 0.2 milliseconds.
const MAX_QUESTION_FUEL: u64 = 1_000_000;

/// The export that allocates room for input, and its last allocation.
pub(super) struct Inbox {
    open: TypedFunc<u32, u32>,
    pub address: usize,
    pub capacity: usize,
}

impl Machine {
    /// Finds the addresses of the outbox and of the stop word.
    pub(super) fn open_convention(&mut self, setup: &Setup) -> Result<(), Failure> {
        let _in_use = self.stack.enter()?;
        let Self { store, instance, memory, .. } = self;
        self.outbox = setup.outbox.as_ref().map(|name| find_outbox(instance, store, *memory, name)).transpose()?;
        let stop = setup.stop.as_ref().filter(|name| instance.get_func(&mut *store, name).is_some());
        self.stop = stop.map(|name| find_stop(instance, store, *memory, name)).transpose()?;
        Ok(())
    }

    /// Calls the module to make room for `length` bytes of input.
    pub(super) async fn open_inbox(&mut self, length: usize) -> Result<(), Failure> {
        let Self { store, inbox, memory, .. } = self;
        let inbox = inbox.as_mut().expect("prepare and replay refuse input without an inbox");
        let wanted = u32::try_from(length)
            .map_err(|_| Failure::new(Kind::OutOfMemory, format!("an input of {length} bytes is over 4 GiB")))?;
        // Reset it before the call, because a call that is cut off may have moved the buffer.
        inbox.capacity = 0;
        let _ = store.set_fuel(MAX_CONVENTION_FUEL);
        let address = inbox
            .open
            .call_async(&mut *store, wanted)
            .await
            .map_err(|error| Failure::from_call(&error, store.data().refused()))? as usize;
        if address == 0 {
            let message = format!("the module has no room for an input of {length} bytes");
            return Err(Failure::new(Kind::OutOfMemory, message));
        }
        let size = memory.map_or(0, |memory| memory.data_size(&*store));
        if address + length > size {
            return Err(outside("the inbox", address, length, size));
        }
        inbox.address = address;
        inbox.capacity = length;
        Ok(())
    }

    /// Lets the module free a large inbox. Requests an empty inbox at once if nothing can cut off the call, and
    /// otherwise with the next input.
    pub(super) async fn leave_large_inbox(&mut self, is_whole: bool) -> Result<(), Failure> {
        match &mut self.inbox {
            Some(inbox) if inbox.capacity > MAX_KEPT_INBOX_BYTES => inbox.capacity = 0,
            _ => return Ok(()),
        }
        if is_whole {
            self.open_inbox(0).await?;
        }
        Ok(())
    }

    /// Calls the export `name`, `() -> (i32)`, between two calls. Returns whether its result differs from 0.
    pub fn says_yes(&mut self, name: &str) -> Result<bool, Failure> {
        let _in_use = self.stack.enter()?;
        let Self { store, instance, .. } = self;
        let _ = store.fuel_async_yield_interval(None);
        let reply = ask(instance, store, name, MAX_QUESTION_FUEL);
        if reply.is_err() {
            self.restore_stack_pointer();
        }
        Ok(reply? != 0)
    }

    /// Returns the bytes that the outbox points to.
    pub fn output(&self) -> Result<&[u8], Failure> {
        let (address, length) = self.find_output()?;
        self.read(address, length)
    }

    /// Returns the address and the length of the bytes that the outbox points to.
    pub(super) fn find_output(&self) -> Result<(usize, usize), Failure> {
        let outbox = self.outbox.ok_or_else(|| Failure::bad_module("the instance has no outbox for an output"))?;
        let data = self.data();
        let word = |address: usize| {
            let bytes = data.get(address..address + 4).and_then(|bytes| bytes.first_chunk::<4>());
            bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes) as usize)
        };
        let (address, length) = (word(outbox), word(outbox + 4));
        if address + length > data.len() {
            return Err(outside("the outbox", address, length, data.len()));
        }
        Ok((address, length))
    }
}

impl Inbox {
    pub(super) fn find(instance: &Instance, store: &mut Store<Limits>, name: &str) -> Result<Self, Failure> {
        Ok(Self { open: convention_export(instance, store, name, "(i32) -> (i32)")?, address: 0, capacity: 0 })
    }
}

fn find_outbox(
    instance: &Instance,
    store: &mut Store<Limits>,
    memory: Option<Memory>,
    name: &str,
) -> Result<usize, Failure> {
    let address = ask(instance, store, name, MAX_CONVENTION_FUEL)? as usize;
    let size = memory.map_or(0, |memory| memory.data_size(&*store));
    if address + 8 > size {
        return Err(outside("the outbox", address, 8, size));
    }
    Ok(address)
}

fn find_stop(
    instance: &Instance,
    store: &mut Store<Limits>,
    memory: Option<Memory>,
    name: &str,
) -> Result<StopWord, Failure> {
    let address = ask(instance, store, name, MAX_CONVENTION_FUEL)? as usize;
    match memory {
        Some(memory) => StopWord::new(memory.data_ptr(&*store), memory.data_size(&*store), address),
        None => Err(outside("the stop word", address, 4, 0)),
    }
}

/// Calls an export without parameters to its end.
fn ask(instance: &Instance, store: &mut Store<Limits>, name: &str, fuel: u64) -> Result<u32, Failure> {
    let export: TypedFunc<(), u32> = convention_export(instance, store, name, "() -> (i32)")?;
    let _ = store.set_fuel(fuel);
    let reply = block_on(export.call_async(&mut *store, ()));
    reply.map_err(|error| Failure::from_call(&error, store.data().refused()))
}

fn convention_export<P, R>(
    instance: &Instance,
    store: &mut Store<Limits>,
    name: &str,
    expected: &str,
) -> Result<TypedFunc<P, R>, Failure>
where
    P: wasmtime::WasmParams,
    R: wasmtime::WasmResults,
{
    let func = instance
        .get_func(&mut *store, name)
        .ok_or_else(|| Failure::bad_module(format!("the module exports no function {name}")))?;
    func.typed(&*store).map_err(|_| {
        let found = signature(&func.ty(&*store));
        Failure::bad_module(format!("the function {name} has the type {found}, and must have {expected}"))
    })
}

/// Returns a function's type in the form `(i32, i64) -> (i32)`.
fn signature(function: &FuncType) -> String {
    let join = |types: Vec<String>| types.join(", ");
    format!(
        "({}) -> ({})",
        join(function.params().map(|ty| ty.to_string()).collect()),
        join(function.results().map(|ty| ty.to_string()).collect())
    )
}
