//! Makes machines of modules and snapshots, and snapshots of machines.

use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use wasmtime::{Global, Instance, Mutability, Store, Val};

use super::convention::{Inbox, MAX_CONVENTION_FUEL};
use super::phase::CurrentPhase;
use super::{Machine, Setup};
use crate::compile::module::Compiled;
use crate::failure::{Failure, Kind};
use crate::memory::limits::Limits;
use crate::memory::linear::{GUARD_BYTES, MAX_MEMORY_BYTES};
use crate::memory::pages;
use crate::memory::snapshot::{Growing, Snapshot};
use crate::memory::stacks::Stack;
use crate::system::counts::{self, Counted};
use crate::system::quota;

/// The mappings of a memory: its bytes, and the reserved addresses after them.
const MEMORY_MAPPINGS: usize = 2;

impl Machine {
    /// Instantiates a module, runs its start function to the end, and finds the exports of the convention. Takes about a
    /// millisecond if the module has much data or a long start function, so it is not for a normal scheduler.
    pub fn new(module: &Compiled, setup: &Setup, charged: Arc<AtomicUsize>) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?;
        if let Some(memory) = machine.memory {
            // Advise the whole reservation, because a boundary inside it would take one more mapping.
            pages::prefer_large(memory.data_ptr(&machine.store), MAX_MEMORY_BYTES + GUARD_BYTES);
        }
        machine.open_convention(setup)?;
        Ok(machine)
    }

    /// Returns a machine with the state of `snapshot`, which overwrites the effects of data segments and of the start
    /// function.
    pub fn restored(
        module: &Compiled,
        setup: &Setup,
        snapshot: &Snapshot,
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?.begin_with(snapshot)?;
        machine.open_convention(setup)?;
        Ok(machine)
    }

    /// Returns a replica: a machine that maps the pages of `snapshot` copy-on-write. It contains `applied` log entries.
    pub fn replica(
        module: &Compiled,
        setup: &Setup,
        snapshot: &Snapshot,
        applied: u64,
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?.begin_with(snapshot)?;
        machine.store.data_mut().share();
        machine.open_convention(setup)?;
        machine.applied = applied;
        Ok(machine)
    }

    /// Returns a replica that copies `snapshot` to large pages instead of mapping it.
    pub fn copied(
        module: &Compiled,
        setup: &Setup,
        snapshot: &Snapshot,
        applied: u64,
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut machine = Self::instantiate(module, setup, charged)?;
        let memory = machine.grow_to_large(snapshot.length())?;
        snapshot.memory().read(0, memory).map_err(|error| host_failure(&error))?;
        machine.set_globals(snapshot.globals())?;
        machine.open_convention(setup)?;
        machine.applied = applied;
        Ok(machine)
    }

    /// Returns a machine with the present state of this one, including `globals`, that maps no pages of a snapshot.
    pub fn unshared_copy(
        &mut self,
        module: &Compiled,
        setup: &Setup,
        globals: &[String],
        charged: Arc<AtomicUsize>,
    ) -> Result<Self, Failure> {
        let mut copy = Self::instantiate(module, setup, charged)?;
        copy.grow_to_large(self.data().len())?.copy_from_slice(self.data());
        copy.set_globals(&self.read_globals(globals))?;
        copy.open_convention(setup)?;
        copy.applied = self.applied;
        Ok(copy)
    }

    /// Returns whether the memory maps pages of a snapshot.
    pub fn shares_pages(&self) -> bool {
        self.shares_pages
    }

    /// Grows the memory to `length` bytes in large pages. Returns all of its bytes.
    fn grow_to_large(&mut self, length: usize) -> Result<&mut [u8], Failure> {
        self.grow_to(length)?;
        Ok(match self.memory {
            Some(memory) => {
                pages::prefer_large(memory.data_ptr(&self.store), MAX_MEMORY_BYTES + GUARD_BYTES);
                memory.data_mut(&mut self.store)
            }
            None => &mut [],
        })
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
        let _ = store.set_fuel(MAX_CONVENTION_FUEL);
        let instance = stack
            .instantiate(&mut store, module)
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
            stop: None,
            stack_pointer,
            exports: Vec::new(),
            params: Vec::new(),
            results: Vec::new(),
            applied: 0,
            used: 0,
            phase: CurrentPhase::default(),
            uncharged_fuel: 0,
            shares_pages: false,
            has_small_pages: false,
            stack,
            mappings: vec![mappings],
            _counted: Counted::new(&counts::INSTANCES),
        })
    }

    /// Replaces the initial state by a snapshot, before the first call.
    fn begin_with(mut self, snapshot: &Snapshot) -> Result<Self, Failure> {
        self.grow_to(snapshot.length())?;
        if let Some(memory) = self.memory {
            let start = memory.data_ptr(&self.store);
            let mapping = quota::mappings().take(1, "a replica")?;
            // SAFETY: the memory has as many bytes as the snapshot (`grow_to`), from `start` on, and nothing refers to them:
            // the store is ours alone, and none of its code is running. They lie in a slot of `memory::linear`, as private memory,
            // and closing the slot replaces mappings of any kind. Growing changes only the protection of addresses after
            // these bytes.
            match unsafe { snapshot.memory().map_over(start) } {
                Ok(true) => {
                    self.mappings.push(mapping);
                    self.shares_pages = true;
                }
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
        self.set_globals(snapshot.globals())?;
        Ok(self)
    }

    fn set_globals(&mut self, globals: &[(String, Val)]) -> Result<(), Failure> {
        for (name, value) in globals {
            let global = self.instance.get_global(&mut self.store, name);
            global.and_then(|global| global.set(&mut self.store, *value).ok()).ok_or_else(|| {
                Failure::bad_module(format!("the module has no mutable global {name} as the snapshot has"))
            })?;
        }
        Ok(())
    }

    fn read_globals(&mut self, globals: &[String]) -> Vec<(String, Val)> {
        let mut read_globals = Vec::with_capacity(globals.len());
        for name in globals {
            if let Some(global) = self.instance.get_global(&mut self.store, name) {
                read_globals.push((name.clone(), global.get(&mut self.store)));
            }
        }
        read_globals
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

    /// Returns a snapshot of the memory and `globals`. Copies about 2 GB a second.
    pub fn snapshot(&mut self, globals: &[String]) -> Result<Snapshot, Failure> {
        let read_globals = self.read_globals(globals);
        Snapshot::new(self.data(), read_globals, self.applied)
    }

    /// Begins a snapshot of a long memory, which `grow_snapshot` copies in chunks. Returns `None` for a short memory.
    pub fn begin_snapshot(&mut self, globals: &[String]) -> Result<Option<Growing>, Failure> {
        let read_globals = self.read_globals(globals);
        Snapshot::begin(self.data().len(), &read_globals, self.applied)
    }

    /// Copies the next chunk of at most `max` bytes. Returns whether it was the last.
    pub fn grow_snapshot(&self, growing: &mut Growing, max: usize) -> Result<bool, Failure> {
        growing.add(self.data(), max)
    }
}

fn find_stack_pointer(instance: &Instance, store: &mut Store<Limits>) -> Option<(Global, Val)> {
    let global = instance.get_global(&mut *store, "__stack_pointer")?;
    let mutable = global.ty(&*store).mutability() == Mutability::Var;
    match global.get(&mut *store) {
        first @ (Val::I32(_) | Val::I64(_)) if mutable => Some((global, first)),
        _ => None,
    }
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
