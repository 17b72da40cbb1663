//! A machine: a store, its one instance, and the host's data about them between calls.

use std::future::{poll_fn, Future};
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use rustler::{Binary, OwnedBinary, Term};
use wasmtime::{Func, Global, Instance, Memory, Mutability, Store, TypedFunc, Val};

use crate::bulk::PART;
use crate::census::{self, Counted};
use crate::export::Export;
use crate::failure::{Failure, Kind};
use crate::input::Input;
use crate::instance::Home;
use crate::limits::Limits;
use crate::memories::{GUARD, LONGEST};
use crate::module::{signature, Compiled};
use crate::pages;
use crate::quota::{self, Taken};
use crate::snapshot::Snapshot;
use crate::stacks::Stack;
use crate::stage::Stage;

/// The largest inbox in bytes that is kept for the next input.
const LARGE_INBOX: usize = 1 << 20;
/// The mappings of a memory: its bytes, and the reserved addresses after them.
const MEMORY_MAPPINGS: usize = 2;
/// The most fuel that a start function may use, and each call of the inbox or outbox export: about 0.2 seconds.
const CONVENTION_FUEL: u64 = 1_000_000_000;

/// The fuel of a slice while the module makes room for input on a normal scheduler. It is the fuel of a time slice.
pub const OPENING_SLICE: u64 = 300_000;
/// The number of bytes of input or output that are copied at a time.
const COPIED: usize = PART as usize;

/// The most fuel that a question to the module may use: about 0.2 milliseconds.
const QUESTION_FUEL: u64 = 1_000_000;

/// The parameters of a new machine.
#[derive(PartialEq, Eq)]
pub struct Setup {
    /// The most bytes that its memories and tables may take.
    pub memory: usize,
    pub inbox: Option<String>,
    pub outbox: Option<String>,
}

pub struct Machine {
    store: Store<Limits>,
    instance: Instance,
    memory: Option<Memory>,
    inbox: Option<Inbox>,
    /// The address of the outbox. It stays inside the memory, which never shrinks.
    outbox: Option<usize>,
    stack_pointer: Option<(Global, Val)>,
    exports: Vec<Export>,
    params: Vec<Val>,
    results: Vec<Val>,
    // The store must be dropped before the following fields.
    stack: Arc<Stack>,
    mappings: Vec<Taken>,
    _counted: Counted,
}

struct Inbox {
    open: TypedFunc<u32, u32>,
    address: usize,
    capacity: usize,
}

/// A prepared call: see `Machine::prepare`.
pub struct Order {
    pub export: usize,
    /// Input that is not in the inbox yet.
    pub input: Option<Input>,
    /// The number of bytes of the input.
    pub length: usize,
    /// Whether the caller wants the output.
    pub has_output: bool,
    pub fuel: u64,
    pub slice: Option<u64>,
    /// Whether the call must not be cut off.
    pub is_change: bool,
}

/// The result of a call.
pub struct Done {
    pub fuel: u64,
    /// The output, if it is too long to be copied at once. Otherwise it is in the memory.
    pub output: Option<OwnedBinary>,
}

impl Machine {
    /// Instantiates a module, runs its start function to the end, and finds the exports of the convention. Takes about a
    /// millisecond if the module has much data or a long start function, so it is not for a normal scheduler.
    pub fn new(module: &Compiled, setup: &Setup, charged: Arc<AtomicUsize>) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?;
        if let Some(memory) = machine.memory {
            // For the whole reservation: a boundary between advised and other addresses would take one more mapping.
            pages::prefer_large(memory.data_ptr(&machine.store), LONGEST + GUARD);
        }
        machine.open_outbox(setup)?;
        Ok(machine)
    }

    /// Returns a machine with the state of `snapshot`, which replaces the effects of data segments and of the start
    /// function.
    pub fn restored(
        module: &Compiled,
        setup: &Setup,
        snapshot: &Snapshot,
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?.begin_with(snapshot)?;
        machine.open_outbox(setup)?;
        Ok(machine)
    }

    /// Returns such a machine as one of many that share the unchanged pages of the snapshot.
    pub fn replica(
        module: &Compiled,
        setup: &Setup,
        snapshot: &Snapshot,
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?.begin_with(snapshot)?;
        machine.store.data_mut().share();
        machine.open_outbox(setup)?;
        Ok(machine)
    }

    fn instantiate(module: &Compiled, setup: &Setup, charged: Arc<AtomicUsize>) -> Result<Self, Failure> {
        let module = module.module();
        if let Some(import) = module.imports().next() {
            let message = format!(
                "the module imports {}.{}; a module that runs here imports nothing",
                import.module(),
                import.name()
            );
            return Err(Failure::bad_module(message));
        }
        let memories = module.resources_required().num_memories as usize;
        let mappings = quota::mappings().take(memories * MEMORY_MAPPINGS, "an instance")?;
        let stack = Stack::new()?;
        let _in_use = stack.enter()?;
        let mut store = Store::new(module.engine(), Limits::new(setup.memory, charged));
        store.limiter(|limits| limits);
        let _ = store.set_fuel(CONVENTION_FUEL);
        let instance = stack
            .provide(|| {
                have_stack(&mut store)?;
                finish(Instance::new_async(&mut store, module, &[]))
            })
            .map_err(|error| instantiation_failure(&error, store.data().refused()))?;
        let memory = instance.get_memory(&mut store, "memory");
        let inbox = setup.inbox.as_ref().map(|name| Inbox::find(&instance, &mut store, name)).transpose()?;
        let stack_pointer = find_stack_pointer(&instance, &mut store);
        Ok(Self {
            store,
            instance,
            memory,
            inbox,
            outbox: None,
            stack_pointer,
            exports: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            stack,
            mappings: vec![mappings],
            _counted: Counted::new(&census::INSTANCES),
        })
    }

    /// Replaces the state by a snapshot, before anything but the start function has run.
    fn begin_with(mut self, snapshot: &Snapshot) -> Result<Self, Failure> {
        self.grow_to(snapshot.length())?;
        if let Some(memory) = self.memory {
            let start = memory.data_ptr(&self.store);
            let mapping = quota::mappings().take(1, "a replica")?;
            // SAFETY: the memory has as many bytes as the snapshot (`grow_to`), from `start` on, and nothing refers to them:
            // the store is ours alone, and none of its code is running. They lie in a slot of `memories`, as private memory,
            // and closing the slot replaces mappings of any kind. Growing changes only the protection of addresses after
            // these bytes.
            match unsafe { snapshot.memory().map_over(start) } {
                Ok(true) => self.mappings.push(mapping),
                Ok(false) => {
                    let copied = snapshot.memory().read(0, memory.data_mut(&mut self.store));
                    copied.map_err(|error| host_failure(&error))?;
                }
                Err(error) => {
                    // The memory must neither be used nor unmapped again.
                    std::mem::forget(self);
                    return Err(host_failure(&error));
                }
            }
        }
        for (name, value) in snapshot.globals() {
            let global = self.instance.get_global(&mut self.store, name);
            global.and_then(|global| global.set(&mut self.store, *value).ok()).ok_or_else(|| {
                Failure::bad_module(format!("the module has no mutable global {name} as the snapshot has"))
            })?;
        }
        Ok(self)
    }

    fn grow_to(&mut self, length: usize) -> Result<(), Failure> {
        let size = self.data().len();
        let grown = match (length.checked_sub(size), self.memory) {
            (Some(0), _) => return Ok(()),
            (Some(more), Some(memory)) => {
                let page = memory.page_size(&self.store) as usize;
                more.is_multiple_of(page).then(|| memory.grow(&mut self.store, (more / page) as u64))
            }
            _ => None,
        };
        match grown {
            Some(Ok(_)) => Ok(()),
            Some(Err(_)) => Err(Failure::new(
                Kind::OutOfMemory,
                format!(
                    "the memory of the snapshot, {length} bytes, is more than the limit or than the module may have"
                ),
            )),
            None => Err(Failure::bad_module(format!(
                "a snapshot of {length} bytes is not of this module, whose memory starts with {size}"
            ))),
        }
    }

    /// Returns the present state with the values of `globals`. Copies the memory, about 2 GB a second.
    pub fn snapshot(&mut self, globals: &[String]) -> Result<Snapshot, Failure> {
        let mut carried = Vec::with_capacity(globals.len());
        for name in globals {
            if let Some(global) = self.instance.get_global(&mut self.store, name) {
                carried.push((name.clone(), global.get(&mut self.store)));
            }
        }
        Snapshot::new(self.data(), carried)
    }

    fn open_outbox(&mut self, setup: &Setup) -> Result<(), Failure> {
        let _in_use = self.stack.enter()?;
        let Self { store, instance, memory, .. } = self;
        self.outbox = setup.outbox.as_ref().map(|name| find_outbox(instance, store, *memory, name)).transpose()?;
        Ok(())
    }

    /// Finds the export, reads the arguments, and writes the input to the inbox if no wasm has to run for that.
    #[allow(clippy::too_many_arguments)]
    pub fn prepare(
        &mut self,
        export: &[u8],
        arguments: Term,
        input: Option<Binary>,
        has_output: bool,
        fuel: u64,
        slice: Option<u64>,
        is_change: bool,
    ) -> Result<Order, Failure> {
        let export = self.export(export)?;
        self.exports[export].prepare(arguments, &mut self.params, &mut self.results)?;
        let length = input.map_or(0, |input| input.len());
        let input = match input {
            Some(bytes) => self.offer(bytes)?,
            None => None,
        };
        Ok(Order { export, input, length, has_output, fuel, slice, is_change })
    }

    fn export(&mut self, name: &[u8]) -> Result<usize, Failure> {
        if let Some(known) = self.exports.iter().position(|export| export.is(name)) {
            return Ok(known);
        }
        self.exports.push(Export::find(&self.instance, &mut self.store, name)?);
        Ok(self.exports.len() - 1)
    }

    /// Writes a short input that fits the inbox. Any other input is returned, and `run` writes it.
    fn offer(&mut self, input: Binary) -> Result<Option<Input>, Failure> {
        let inbox =
            self.inbox.as_ref().ok_or_else(|| Failure::bad_module("the instance has no inbox for the input"))?;
        if input.len() > inbox.capacity.min(COPIED) {
            return Ok(Some(Input::new(input)));
        }
        let address = inbox.address;
        self.write(address, &input)?;
        Ok(None)
    }

    /// Runs an order to its end. Its fuel is the fuel of its function, from the time when the input is in place until the
    /// function returns. So it is the same for every slice. Each stage is recorded in `home`.
    pub async fn run(&mut self, order: Order, home: &Home) -> Result<Done, Failure> {
        // Dropped after the call, also if that is cut off.
        let _in_use = self.stack.enter()?;
        self.store.data_mut().forget_refusal();
        let outcome = self.try_run(order, home).await;
        if outcome.is_err() {
            self.restore_stack_pointer();
        }
        outcome
    }

    async fn try_run(&mut self, order: Order, home: &Home) -> Result<Done, Failure> {
        if let Some(input) = order.input {
            let slice = order.slice.map(|slice| if order.is_change { slice } else { OPENING_SLICE });
            let _ = self.store.fuel_async_yield_interval(slice);
            self.copy_in(input, slice.is_some(), home).await?;
        }
        let _ = self.store.fuel_async_yield_interval(order.slice);
        let Self { store, exports, params, results, .. } = self;
        let _ = store.set_fuel(order.fuel);
        home.enter(Stage::Running);
        let outcome = exports[order.export].call(store, params, results).await;
        outcome.map_err(|error| Failure::from_call(&error, store.data().refused()))?;
        let fuel = order.fuel - store.get_fuel().unwrap_or(0);
        self.leave_large_inbox(order.is_change || order.slice.is_none()).await?;
        let output = if order.has_output && order.slice.is_some() { self.copy_out(home).await? } else { None };
        Ok(Done { fuel, output })
    }

    /// Copies the input to the inbox, part by part.
    async fn copy_in(&mut self, input: Input, yields: bool, home: &Home) -> Result<(), Failure> {
        if self.inbox.as_ref().is_none_or(|inbox| input.length() > inbox.capacity) {
            self.open_inbox(input.length()).await?;
        }
        let address = self.inbox.as_ref().map_or(0, |inbox| inbox.address);
        home.enter(Stage::Copying);
        for part in parts(input.length()) {
            input.with(part.clone(), |bytes| self.write(address + part.start, bytes))?;
            if yields && part.end < input.length() {
                yield_now().await;
            }
        }
        Ok(())
    }

    /// Returns the output, copied part by part, if it is longer than a part.
    async fn copy_out(&mut self, home: &Home) -> Result<Option<OwnedBinary>, Failure> {
        let (address, length) = self.find_output()?;
        if length <= COPIED {
            return Ok(None);
        }
        home.enter(Stage::Copying);
        let mut output = OwnedBinary::new(length);
        for part in parts(length) {
            output[part.clone()].copy_from_slice(self.read(address + part.start, part.len())?);
            yield_now().await;
        }
        Ok(Some(output))
    }

    /// Calls the module to make room for `length` bytes of input.
    async fn open_inbox(&mut self, length: usize) -> Result<(), Failure> {
        let Self { store, inbox, memory, .. } = self;
        let inbox = inbox.as_mut().expect("offer refuses input where there is no inbox");
        let wanted = u32::try_from(length)
            .map_err(|_| Failure::new(Kind::OutOfMemory, format!("an input of {length} bytes is over 4 GiB")))?;
        // Before the call: a call that is cut off may have moved the buffer.
        inbox.capacity = 0;
        let _ = store.set_fuel(CONVENTION_FUEL);
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

    /// Returns a large inbox to the module, which can then free the room. It is called for a small inbox at once if nothing
    /// can cut the call off, and otherwise with the next input.
    async fn leave_large_inbox(&mut self, is_whole: bool) -> Result<(), Failure> {
        match &mut self.inbox {
            Some(inbox) if inbox.capacity > LARGE_INBOX => inbox.capacity = 0,
            _ => return Ok(()),
        }
        if is_whole {
            self.open_inbox(0).await?;
        }
        Ok(())
    }

    /// Calls the export `name`, `() -> (i32)`, between two calls. Returns whether its result is not 0.
    pub fn says_yes(&mut self, name: &str) -> Result<bool, Failure> {
        let _in_use = self.stack.enter()?;
        let Self { store, instance, .. } = self;
        let _ = store.fuel_async_yield_interval(None);
        let answer = ask(instance, store, name, QUESTION_FUEL);
        if answer.is_err() {
            self.restore_stack_pointer();
        }
        Ok(answer? != 0)
    }

    /// Counts the machine's memories and tables in `charged` from now on.
    pub fn count_in(&mut self, charged: Arc<AtomicUsize>) {
        self.store.data_mut().count_in(charged);
    }

    pub fn results(&self) -> &[Val] {
        &self.results
    }

    /// Returns the bytes that the outbox points to.
    pub fn output(&self) -> Result<&[u8], Failure> {
        let (address, length) = self.find_output()?;
        self.read(address, length)
    }

    /// Returns the address and the length of the bytes that the outbox points to.
    fn find_output(&self) -> Result<(usize, usize), Failure> {
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

    pub fn read(&self, address: usize, length: usize) -> Result<&[u8], Failure> {
        let data = self.data();
        let end = address.checked_add(length).filter(|end| *end <= data.len());
        end.map(|end| &data[address..end]).ok_or_else(|| outside("the read", address, length, data.len()))
    }

    pub fn write(&mut self, address: usize, bytes: &[u8]) -> Result<(), Failure> {
        let data = match self.memory {
            Some(memory) => memory.data_mut(&mut self.store),
            None => &mut [],
        };
        let size = data.len();
        let end = address.checked_add(bytes.len()).filter(|end| *end <= size);
        let end = end.ok_or_else(|| outside("the write", address, bytes.len(), size))?;
        data[address..end].copy_from_slice(bytes);
        Ok(())
    }

    fn data(&self) -> &[u8] {
        self.memory.map_or(&[], |memory| memory.data(&self.store))
    }

    /// Restores the shadow stack, which a call that did not return has not freed.
    pub fn restore_stack_pointer(&mut self) {
        if let Some((global, first)) = self.stack_pointer {
            // The global was found mutable and of this value's type, so this cannot fail.
            let _ = global.set(&mut self.store, first);
        }
    }
}

/// Returns the ranges of `length` bytes that are copied at a time.
fn parts(length: usize) -> impl Iterator<Item = Range<usize>> + Send {
    (0..length).step_by(COPIED).map(move |start| start..length.min(start + COPIED))
}

/// Ends the slice.
async fn yield_now() {
    let mut has_yielded = false;
    poll_fn(|_| if std::mem::replace(&mut has_yielded, true) { Poll::Ready(()) } else { Poll::Pending }).await;
}

impl Inbox {
    fn find(instance: &Instance, store: &mut Store<Limits>, name: &str) -> Result<Self, Failure> {
        Ok(Self { open: convention_export(instance, store, name, "(i32) -> (i32)")?, address: 0, capacity: 0 })
    }
}

fn find_outbox(
    instance: &Instance,
    store: &mut Store<Limits>,
    memory: Option<Memory>,
    name: &str,
) -> Result<usize, Failure> {
    let address = ask(instance, store, name, CONVENTION_FUEL)? as usize;
    let size = memory.map_or(0, |memory| memory.data_size(&*store));
    if address + 8 > size {
        return Err(outside("the outbox", address, 8, size));
    }
    Ok(address)
}

/// Calls an export without parameters, to its end.
fn ask(instance: &Instance, store: &mut Store<Limits>, name: &str, fuel: u64) -> Result<u32, Failure> {
    let export: TypedFunc<(), u32> = convention_export(instance, store, name, "() -> (i32)")?;
    let _ = store.set_fuel(fuel);
    let answer = finish(export.call_async(&mut *store, ()));
    answer.map_err(|error| Failure::from_call(&error, store.data().refused()))
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

fn find_stack_pointer(instance: &Instance, store: &mut Store<Limits>) -> Option<(Global, Val)> {
    let global = instance.get_global(&mut *store, "__stack_pointer")?;
    let mutable = global.ty(&*store).mutability() == Mutability::Var;
    match global.get(&mut *store) {
        first @ (Val::I32(_) | Val::I64(_)) if mutable => Some((global, first)),
        _ => None,
    }
}

/// Makes the store take its stack, by a call of an empty function.
pub fn have_stack(store: &mut Store<Limits>) -> wasmtime::Result<()> {
    let nothing = Func::wrap(&mut *store, || {});
    let nothing: TypedFunc<(), ()> = nothing.typed(&*store)?;
    finish(nothing.call_async(store, ()))
}

fn instantiation_failure(error: &wasmtime::Error, refused: bool) -> Failure {
    if error.is::<wasmtime::Trap>() {
        Failure::from_call(error, refused)
    } else if refused {
        Failure::new(Kind::OutOfMemory, format!("the module starts with more memory than its limit: {error:#}"))
    } else {
        Failure::new(Kind::OutOfMemory, format!("the host could not instantiate the module: {error:#}"))
    }
}

fn host_failure(error: &std::io::Error) -> Failure {
    Failure::new(Kind::OutOfMemory, format!("the host could not give a replica its memory: {error}"))
}

fn outside(what: &str, address: usize, length: usize, size: usize) -> Failure {
    let message = format!("{what} is {length} bytes at {address}, outside of the memory of {size} bytes");
    Failure::bad_module(message)
}

/// Runs a future of a store that does not yield, so it is ready at the first poll.
pub fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
