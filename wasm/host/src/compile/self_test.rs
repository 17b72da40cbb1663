//! Tests, when the engine is made, how wasmtime uses the memories and stacks that the host provides. With a wrong
//! assumption a module could read the memory of others, or the node could crash.

use std::fmt::Display;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::{future::Future, pin::pin, thread};

use wasmtime::{Engine, Instance, Memory, Module, Store, Trap, TypedFunc};

use crate::failure::Failure;
use crate::memory::limits::Limits;
use crate::memory::linear::MAX_MEMORY_BYTES;
use crate::memory::shared_bytes::SharedBytes;
use crate::memory::stacks::{block_on, Stack};

/// A module with a memory of one page, and three functions of `(i32) -> i32`. `load` returns the byte at an address, `far`
/// the byte at the address plus the largest offset without a bounds check, and `spin` never ends.
#[rustfmt::skip]
const MODULE: &[u8] = &[
    0, b'a', b's', b'm', 1, 0, 0, 0,
    1, 6, 1, 0x60, 1, 0x7f, 1, 0x7f,
    3, 4, 3, 0, 0, 0,
    5, 3, 1, 0, 1,
    7, 30, 4,
    6, b'm', b'e', b'm', b'o', b'r', b'y', 2, 0,
    4, b'l', b'o', b'a', b'd', 0, 0,
    3, b'f', b'a', b'r', 0, 1,
    4, b's', b'p', b'i', b'n', 0, 2,
    10, 30, 3,
    7, 0, 0x20, 0, 0x2d, 0, 0, 0x0b,
    10, 0, 0x20, 0, 0x2d, 0, 0xff, 0xff, 0xff, 0x0f, 0x0b,
    9, 0, 0x03, 0x40, 0x0c, 0, 0x0b, 0x20, 0, 0x0b,
];
const PAGE: usize = 64 << 10;
const FUEL: u64 = 100_000;

/// Runs the tests, on a thread of their own.
///
/// # Errors
///
/// `BadModule`, with the assumption that is wrong; `OutOfMemory` if the system refuses memory or addresses.
pub fn run(engine: &Engine) -> Result<(), Failure> {
    let engine = engine.clone();
    // Compiling may take more stack than a scheduler's thread has.
    let test = thread::Builder::new().name("be_tree_self_test".into()).stack_size(16 << 20).spawn(move || {
        let module = Module::from_binary(&engine, MODULE).map_err(|error| Failure::from_compiler(&error))?;
        memories(&module)?;
        slots(&module)?;
        stacks(&module)
    });
    let outcome = test.map_err(|error| no_memory("thread", error))?.join();
    outcome.unwrap_or_else(|_| Err(Failure::bad_module("its self-test panicked")))
}

/// Every access beyond a memory traps, and a memory grows in place.
fn memories(module: &Module) -> Result<(), Failure> {
    let mut subject = Subject::new(module)?;
    let start = subject.memory.data_ptr(&subject.store);
    expect(start.addr().is_multiple_of(2 << 20), "a memory begins its slot")?;
    let beyond = [PAGE, MAX_MEMORY_BYTES / 2, MAX_MEMORY_BYTES - 1];
    expect(beyond.iter().all(|address| subject.traps("load", *address)), "an access beyond a memory traps")?;
    expect(subject.traps("far", MAX_MEMORY_BYTES - 1), "an access to the guard after a memory traps")?;
    expect(subject.load(PAGE - 1) == Some(0), "a memory begins with zeros")?;
    expect(subject.memory.grow(&mut subject.store, 1).is_ok(), "a memory grows")?;
    expect(
        subject.load(PAGE) == Some(0) && subject.traps("load", 2 * PAGE),
        "a memory grows by the requested pages and no more",
    )?;
    expect(subject.memory.data_ptr(&subject.store) == start, "a memory stays where it is")
}

/// A snapshot maps over a memory, and nothing of it survives when the slot is reused.
fn slots(module: &Module) -> Result<(), Failure> {
    let mut subject = Subject::new(module)?;
    let content = vec![7; 8 * PAGE];
    let bytes = SharedBytes::new(content.len(), &[(0, &content)]).map_err(|error| no_memory("snapshot", error))?;
    expect(subject.memory.grow(&mut subject.store, 8).is_ok(), "a memory grows")?;
    let start = subject.memory.data_ptr(&subject.store);
    // SAFETY: the memory has nine pages, the snapshot eight, and no code of the store is running; see `Machine::begin_with`.
    let mapped = unsafe { bytes.map_over(start) };
    if !mapped.map_err(|error| no_memory("mapping", error))? {
        // Without files in memory the host copies snapshots instead.
        return Ok(());
    }
    expect(
        subject.load(8 * PAGE - 1) == Some(7) && subject.load(8 * PAGE) == Some(0),
        "a memory has the bytes of the snapshot that is mapped over it",
    )?;
    expect(subject.memory.grow(&mut subject.store, 1).is_ok(), "a memory grows")?;
    expect(subject.load(0) == Some(7) && subject.load(9 * PAGE) == Some(0), "a memory grows after a snapshot")?;
    drop(subject);
    let mut next = Subject::new(module)?;
    expect(next.traps("load", PAGE), "a slot keeps no memory of its former owner")?;
    expect(next.memory.grow(&mut next.store, 9).is_ok(), "a memory grows")?;
    expect([0, 8 * PAGE - 1, 9 * PAGE].iter().all(|address| next.load(*address) == Some(0)), "a slot begins with zeros")
}

/// A store keeps one stack, also after a call was cut off, and needs it open only while a call runs.
fn stacks(module: &Module) -> Result<(), Failure> {
    let mut subject = Subject::new(module)?;
    for _ in 0..2 {
        let in_use = subject.stack.enter()?;
        let Subject { store, instance, .. } = &mut subject;
        let _ = store.fuel_async_yield_interval(Some(FUEL / 10));
        let _ = store.set_fuel(FUEL);
        let spin = instance.get_typed_func::<u32, u32>(&mut *store, "spin");
        let spin = spin.map_err(|error| Failure::bad_module(format!("its self-test has no function: {error:#}")))?;
        let mut context = Context::from_waker(Waker::noop());
        let pending = {
            let mut call = pin!(spin.call_async(&mut *store, 0));
            matches!(call.as_mut().poll(&mut context), Poll::Pending)
        };
        expect(pending, "a call is suspended when the fuel of a slice is exhausted")?;
        let _ = store.fuel_async_yield_interval(None);
        drop(in_use);
        subject.stack.forget();
        expect(subject.load(0) == Some(0), "a store keeps its stack after a call was cut off")?;
    }
    Ok(())
}

fn expect(holds: bool, assumption: &str) -> Result<(), Failure> {
    match holds {
        true => Ok(()),
        false => Err(Failure::bad_module(format!(
            "with this wasmtime, processor and system it does not hold that {assumption}"
        ))),
    }
}

fn no_memory(what: &str, error: impl Display) -> Failure {
    Failure::no_memory(format!("its self-test has no {what}: {error:#}"))
}

/// An instance of `MODULE`.
struct Subject {
    store: Store<Limits>,
    instance: Instance,
    memory: Memory,
    // Dropped after the store.
    stack: Arc<Stack>,
}

impl Subject {
    fn new(module: &Module) -> Result<Self, Failure> {
        let mut store = Store::new(module.engine(), Limits::new(16 * PAGE, Arc::new(AtomicUsize::new(0))));
        store.limiter(|limits| limits);
        let _ = store.set_fuel(FUEL);
        let stack = Stack::new()?;
        let in_use = stack.enter()?;
        let instance = stack.instantiate(&mut store, module);
        drop(in_use);
        // Its instantiation cannot trap, so the system has refused memory or addresses.
        let instance = instance.map_err(|error| no_memory("instance", error))?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| Failure::bad_module("its self-test exports no memory"))?;
        Ok(Self { store, instance, memory, stack })
    }

    fn call(&mut self, name: &str, address: usize) -> wasmtime::Result<u32> {
        let _in_use = self.stack.enter().map_err(|failure| wasmtime::Error::msg(failure.message))?;
        let _ = self.store.set_fuel(FUEL);
        let function: TypedFunc<u32, u32> = self.instance.get_typed_func(&mut self.store, name)?;
        block_on(function.call_async(&mut self.store, address as u32))
    }

    fn load(&mut self, address: usize) -> Option<u32> {
        self.call("load", address).ok()
    }

    fn traps(&mut self, name: &str, address: usize) -> bool {
        let outcome = self.call(name, address);
        outcome.is_err_and(|error| error.downcast_ref() == Some(&Trap::MemoryOutOfBounds))
    }
}
