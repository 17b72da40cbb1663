//! A job in the sandbox: the module of this package under wasmtime, with metered fuel.

use std::time::Duration;

use wasmtime::{Config, Engine, Instance, Memory, Module, OptLevel, Result, Store, TypedFunc};

use be_tree_rules_jobs::jobs::{Totals, NAMES};

use crate::{clock, pages};

/// More fuel than any call uses. wasmtime stores fuel in a signed number, so a larger value is refused.
const UNLIMITED_FUEL: u64 = u64::MAX / 2;

/// Reserved addresses of a memory.
const ADDRESSES: usize = 1 << 32;

/// The compiled module.
pub struct Guest {
    engine: Engine,
    module: Module,
}

impl Guest {
    pub fn read(path: &str) -> std::result::Result<Guest, String> {
        let load = || -> Result<Guest> {
            let mut config = Config::new();
            config.consume_fuel(true).cranelift_opt_level(OptLevel::Speed).wasm_simd(true);
            let engine = Engine::new(&config)?;
            let module = Module::new(&engine, std::fs::read(path)?)?;
            Ok(Guest { engine, module })
        };
        load().map_err(|error| format!("{path}: {error:#}"))
    }

    /// Starts a job in a new instance.
    pub fn start(&self, name: &str, size: u32) -> Result<Sandbox> {
        let mut store = Store::new(&self.engine, ());
        store.set_fuel(UNLIMITED_FUEL)?;
        let instance = Instance::new(&mut store, &self.module, &[])?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| wasmtime::Error::msg("the guest exports no memory"))?;
        pages::prefer_large(memory.data_ptr(&store), ADDRESSES);
        let number = NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len());
        let prepare = instance.get_typed_func::<(u32, u32), ()>(&mut store, "prepare")?;
        prepare.call(&mut store, (number as u32, size))?;
        Ok(Sandbox {
            fill: instance.get_typed_func(&mut store, "fill")?,
            run: instance.get_typed_func(&mut store, "run")?,
            total: instance.get_typed_func(&mut store, "total")?,
            memory,
            store,
        })
    }
}

/// A job that runs in an instance.
pub struct Sandbox {
    store: Store<()>,
    memory: Memory,
    fill: TypedFunc<(), ()>,
    run: TypedFunc<(), ()>,
    total: TypedFunc<u32, u64>,
}

impl Sandbox {
    /// Fills an input and handles it. Returns the time of handling and its fuel.
    pub fn turn(&mut self) -> Result<(Duration, u64)> {
        self.store.set_fuel(UNLIMITED_FUEL)?;
        self.fill.call(&mut self.store, ())?;
        self.store.set_fuel(UNLIMITED_FUEL)?;
        let started = clock::now();
        self.run.call(&mut self.store, ())?;
        let time = clock::now() - started;
        Ok((time, UNLIMITED_FUEL - self.store.get_fuel()?))
    }

    /// Returns the totals of these names.
    pub fn totals(&mut self, names: &Totals) -> Result<Totals> {
        let mut totals = Totals::new();
        for (position, (name, _)) in names.iter().enumerate() {
            totals.push((name, self.total.call(&mut self.store, position as u32)?));
        }
        Ok(totals)
    }

    /// Returns the size of the linear memory.
    pub fn memory_bytes(&self) -> usize {
        self.memory.data_size(&self.store)
    }
}
