//! The wasmtime engine of the process, which compiles and runs every module.

use std::sync::{Arc, OnceLock};

use wasmtime::{Config, Engine, OptLevel};

use crate::compile::costs;
use crate::compile::self_test;
use crate::failure::{self, Failure};
use crate::memory::linear::{self, Memories};
use crate::memory::stacks::{self, Stacks};

/// The most bytes of its fiber's stack that a call may use before it traps.
const MAX_WASM_STACK_BYTES: usize = 512 << 10;

/// Returns the engine. It is made once, so a failure is final.
///
/// # Errors
///
/// `OutOfMemory` if the system refuses memory or addresses for it, and otherwise `BadModule`, with the reason why no module
/// can run on this machine.
///
/// A memory reserves 4 GiB of addresses with a guard after them, so compiled code has no bounds checks. The 47 bits of
/// addresses have room for some 30,000 instances.
pub fn get() -> Result<&'static Engine, Failure> {
    static ENGINE: OnceLock<Result<Engine, Failure>> = OnceLock::new();
    ENGINE.get_or_init(new_tested).as_ref().map_err(Clone::clone)
}

fn new_tested() -> Result<Engine, Failure> {
    let engine = Engine::new(&config()).map_err(|error| {
        let message = format!("wasmtime has no engine for it: {error:#}");
        if failure::lacks_memory(&error) {
            Failure::no_memory(message)
        } else {
            Failure::bad_module(message)
        }
    })?;
    self_test::run(&engine)?;
    Ok(engine)
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(costs::costs())
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_simd(true)
        .max_wasm_stack(MAX_WASM_STACK_BYTES)
        .async_stack_size(stacks::STACK_BYTES)
        .with_host_stack(Arc::new(Stacks))
        .memory_reservation(linear::MAX_MEMORY_BYTES as u64)
        .memory_guard_size(linear::GUARD_BYTES as u64)
        .memory_may_move(false)
        // Data segments are copied, because a mapped file would take one more mapping, and a descriptor for each
        // module.
        .memory_init_cow(false)
        .with_host_memory(Arc::new(Memories));
    config
}
