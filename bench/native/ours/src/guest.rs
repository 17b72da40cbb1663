//! The sandboxed module, driven through its ABI (docs/abi.md) without the BEAM.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use be_tree_index::model::schema::{Attribute, Bounds};
use be_tree_index::term::Writer;
use wasmtime::{Config, Engine as Runtime, Instance, Memory, Module, OptLevel, Store, TypedFunc};

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Built;

/// The number of subscriptions of one insertion.
const CHUNK: usize = 1_000;
/// More fuel than any call uses. wasmtime stores fuel in a signed number, so a larger value is refused.
const UNLIMITED_FUEL: u64 = u64::MAX / 2;

/// The module, and the one index built with it. Every sandbox begins with a copy of its memory. Guests with different
/// slices share a sandbox, because the placement of a copy's pages affects times more than slices do.
pub struct Guests {
    wasm: Vec<u8>,
    built: Option<Image>,
    on_fibers: Option<Rc<RefCell<Sandbox>>>,
}

/// The memory of a built guest, and the time of building it.
struct Image {
    memory: Vec<u8>,
    inbox: usize,
    outbox: usize,
    build: Duration,
}

impl Guests {
    pub fn new(wasm: Vec<u8>) -> Self {
        Guests { wasm, built: None, on_fibers: None }
    }

    /// Returns a guest with metered fuel, called as a plain function.
    pub fn metered<'a>(&mut self, w: &Workload, events: &'a Events) -> Built<'a> {
        self.guest(w, events, true, Mode::Plain)
    }

    /// Returns a guest without metered fuel.
    pub fn unmetered<'a>(&mut self, w: &Workload, events: &'a Events) -> Built<'a> {
        self.guest(w, events, false, Mode::Plain)
    }

    /// Returns a guest on a fiber that yields after each `slice` of fuel, or never without one.
    pub fn on_a_fiber<'a>(&mut self, workload: &Workload, events: &'a Events, slice: Option<u64>) -> Built<'a> {
        self.guest(workload, events, true, Mode::Fiber(slice))
    }

    fn guest<'a>(&mut self, workload: &Workload, events: &'a Events, fuel: bool, mode: Mode) -> Built<'a> {
        if self.built.is_none() {
            self.built = Some(build(&self.wasm, workload).map_err(|error| format!("{error:#}"))?);
        }
        let image = self.built.as_ref().expect("it was built just now");
        let start = || match Sandbox::start(&self.wasm, image, fuel) {
            Ok(sandbox) => Ok(Rc::new(RefCell::new(sandbox))),
            Err(error) => Err(format!("{error:#}")),
        };
        let sandbox = match (mode, &self.on_fibers) {
            (Mode::Plain, _) => start()?,
            (Mode::Fiber(_), Some(sandbox)) => sandbox.clone(),
            (Mode::Fiber(_), None) => self.on_fibers.insert(start()?).clone(),
        };
        Ok((Box::new(Guest { sandbox, mode, events, length: 0 }), image.build))
    }
}

fn runtime(fuel: bool) -> wasmtime::Result<Runtime> {
    let mut config = Config::new();
    config.consume_fuel(fuel).cranelift_opt_level(OptLevel::Speed).wasm_simd(true);
    Runtime::new(&config)
}

/// Builds the workload's index in a guest, and returns its memory.
fn build(wasm: &[u8], workload: &Workload) -> wasmtime::Result<Image> {
    let runtime = runtime(true)?;
    let module = Module::new(&runtime, wasm)?;
    let mut store = Store::new(&runtime, ());
    store.set_fuel(UNLIMITED_FUEL)?;
    let instance = Instance::new(&mut store, &module, &[])?;
    let mut builder = Builder::find(&instance, store)?;
    let started = Instant::now();
    builder.call("be_tree_schema", &schema(&workload.attributes))?;
    for (chunk, texts) in workload.expressions.chunks(CHUNK).enumerate() {
        builder.call("be_tree_insert", &insertions(chunk * CHUNK + 1, texts))?;
    }
    let build = started.elapsed();
    let longest = workload.longest_event();
    builder.finish(longest, build)
}

struct Builder {
    store: Store<()>,
    instance: Instance,
    memory: Memory,
    inbox: TypedFunc<u32, u32>,
    outbox: TypedFunc<(), u32>,
}

impl Builder {
    fn find(instance: &Instance, mut store: Store<()>) -> wasmtime::Result<Self> {
        let memory = memory(instance, &mut store)?;
        let inbox = instance.get_typed_func(&mut store, "be_tree_inbox")?;
        let outbox = instance.get_typed_func(&mut store, "be_tree_outbox")?;
        Ok(Builder { store, instance: *instance, memory, inbox, outbox })
    }

    fn call(&mut self, function: &str, input: &[u8]) -> wasmtime::Result<()> {
        self.store.set_fuel(UNLIMITED_FUEL)?;
        let inbox = self.inbox.call(&mut self.store, input.len() as u32)?;
        self.memory.write(&mut self.store, inbox as usize, input)?;
        let function = self.instance.get_typed_func::<u32, u32>(&mut self.store, function)?;
        match function.call(&mut self.store, input.len() as u32)? {
            0 => Ok(()),
            status => Err(wasmtime::Error::msg(format!("the guest refuses the workload with status {status}"))),
        }
    }

    fn finish(mut self, longest_event: usize, build: Duration) -> wasmtime::Result<Image> {
        let inbox = self.inbox.call(&mut self.store, longest_event as u32)? as usize;
        let outbox = self.outbox.call(&mut self.store, ())? as usize;
        Ok(Image { memory: self.memory.data(&self.store).to_vec(), inbox, outbox, build })
    }
}

fn memory(instance: &Instance, store: &mut Store<()>) -> wasmtime::Result<Memory> {
    instance.get_memory(store, "memory").ok_or_else(|| wasmtime::Error::msg("the guest exports no memory"))
}

fn schema(attributes: &[Attribute]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.list(attributes.len());
    for attribute in attributes {
        writer.tuple(4);
        writer.binary(attribute.name.as_bytes());
        writer.atom(attribute.ty.name());
        writer.boolean(attribute.optional);
        match attribute.bounds {
            Bounds::Unbounded => writer.atom("nil"),
            Bounds::Count(count) => writer.unsigned(u64::from(count)),
            Bounds::Integer { min, max } => {
                writer.tuple(2);
                writer.integer(min);
                writer.integer(max);
            }
            Bounds::Float { min, max } => {
                writer.tuple(2);
                writer.float(min);
                writer.float(max);
            }
        }
    }
    writer.end_list();
    bytes
}

fn insertions(first: usize, texts: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.list(texts.len());
    for (id, text) in (first as u64..).zip(texts) {
        writer.tuple(3);
        writer.unsigned(id);
        writer.binary(text.as_bytes());
        writer.list(0);
        writer.end_list();
    }
    writer.end_list();
    bytes
}

#[derive(Clone, Copy)]
enum Mode {
    Plain,
    Fiber(Option<u64>),
}

struct Sandbox {
    store: Store<()>,
    memory: Memory,
    search: TypedFunc<(i32, u32, i32, i32), i32>,
    inbox: usize,
    outbox: usize,
    metered: bool,
}

impl Sandbox {
    fn start(wasm: &[u8], image: &Image, metered: bool) -> wasmtime::Result<Self> {
        let runtime = runtime(metered)?;
        let module = Module::new(&runtime, wasm)?;
        let mut store = Store::new(&runtime, ());
        if metered {
            store.set_fuel(UNLIMITED_FUEL)?;
        }
        let instance = Instance::new(&mut store, &module, &[])?;
        let memory = memory(&instance, &mut store)?;
        let missing = image.memory.len() - memory.data_size(&store);
        memory.grow(&mut store, (missing >> 16) as u64)?;
        memory.write(&mut store, 0, &image.memory)?;
        let search = instance.get_typed_func(&mut store, "be_tree_search")?;
        let Image { inbox, outbox, .. } = *image;
        Ok(Sandbox { store, memory, search, inbox, outbox, metered })
    }

    fn put(&mut self, event: &[u8]) {
        self.memory.data_mut(&mut self.store)[self.inbox..][..event.len()].copy_from_slice(event);
    }

    fn search(&mut self, format: i32, length: u32, mode: Mode) -> wasmtime::Result<i32> {
        let Sandbox { store, search, metered, .. } = self;
        if *metered {
            store.set_fuel(UNLIMITED_FUEL)?;
        }
        let arguments = (format, length, -1, 0);
        match mode {
            Mode::Plain => search.call(store, arguments),
            Mode::Fiber(slice) => {
                store.fuel_async_yield_interval(slice)?;
                finish(search.call_async(store, arguments))
            }
        }
    }

    fn result(&self) -> &[u8] {
        let data = self.memory.data(&self.store);
        let word = |at: usize| u32::from_le_bytes(*data[at..].first_chunk().expect("the outbox is within the memory"));
        let (address, length) = (word(self.outbox) as usize, word(self.outbox + 4) as usize);
        &data[address..address + length]
    }
}

struct Guest<'a> {
    sandbox: Rc<RefCell<Sandbox>>,
    mode: Mode,
    events: &'a Events,
    length: u32,
}

impl Engine for Guest<'_> {
    fn decode(&mut self, first: usize) {
        let event = &self.events.bytes[first];
        self.length = event.len() as u32;
        self.sandbox.borrow_mut().put(event);
    }

    fn search(&mut self) {
        let status = self.sandbox.borrow_mut().search(self.events.code, self.length, self.mode);
        assert_eq!(status.expect("a search does not trap"), 0, "the events of a workload are right");
    }

    /// The ids follow the result's two counts.
    fn ids(&mut self, _nth: usize) -> Vec<u64> {
        let sandbox = self.sandbox.borrow();
        let words = sandbox.result().chunks_exact(8).skip(2);
        words.map(|word| u64::from_le_bytes(word.try_into().expect("a chunk of 8 bytes"))).collect()
    }

    fn fuel(&mut self) -> Option<u64> {
        let left = self.sandbox.borrow().store.get_fuel().ok()?;
        Some(UNLIMITED_FUEL - left)
    }
}

/// Runs a future to its end, slice by slice.
fn finish<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
}
