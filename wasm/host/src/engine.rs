//! The one engine of the process: how every module is compiled and run.

use std::sync::{Arc, OnceLock};

use wasmtime::{Config, Engine, OperatorCost, OptLevel};

use crate::memories::{self, Memories};
use crate::stacks::{self, Stacks};
use crate::trial;

/// What a wasm call may use of its fiber's stack; beyond it the call traps.
const WASM_STACK: usize = 512 << 10;

/// The engine, or why this machine cannot have one.
///
/// A memory has 4 GiB of reserved addresses with a guard behind them, so that compiled code has no bounds checks. Only
/// addresses are reserved: 47 bits of them hold some 30,000 instances.
pub fn get() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    ENGINE.get_or_init(tried).as_ref().map_err(Clone::clone)
}

fn tried() -> Result<Engine, String> {
    let engine = Engine::new(&config()).map_err(|error| format!("{error:#}"))?;
    trial::run(&engine)?;
    Ok(engine)
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(costs())
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_simd(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(stacks::LENGTH)
        .with_host_stack(Arc::new(Stacks))
        .memory_reservation(memories::LONGEST as u64)
        .memory_guard_size(memories::GUARD as u64)
        .memory_may_move(false)
        // Data segments are copied: a file that is mapped for them would be a mapping more, and a descriptor a module.
        .memory_init_cow(false)
        .with_host_memory(Arc::new(Memories));
    config
}

/// One unit for an instruction, and one for each byte or element of a bulk instruction: wasmtime's own costs. But what
/// grows a memory or a table has the host do something, for 30 nanoseconds where that is refused and for some 2,000
/// where it is granted, so it costs the most that the table holds.
fn costs() -> OperatorCost {
    OperatorCost { MemoryGrow: u8::MAX, TableGrow: u8::MAX, ..OperatorCost::new() }
}
