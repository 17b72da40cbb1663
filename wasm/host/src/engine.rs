//! The one engine of the process: how every module is compiled and run.

use std::sync::OnceLock;

use wasmtime::{Config, Engine, OperatorCost, OptLevel};

/// What a wasm call may use of its fiber's stack; beyond it the call traps.
const WASM_STACK: usize = 512 << 10;
/// The whole stack of a fiber: the rest is for the host's own frames under the wasm frames.
const FIBER_STACK: usize = 2 << 20;

/// The engine, or why this machine cannot have one.
///
/// Memories keep wasmtime's default of 4 GiB of reserved addresses with guard pages behind them, so that compiled code
/// has no bounds checks. Only address space is reserved: 47 bits of it hold some 30,000 instances.
pub fn get() -> Result<&'static Engine, String> {
    static ENGINE: OnceLock<Result<Engine, String>> = OnceLock::new();
    ENGINE.get_or_init(|| Engine::new(&config()).map_err(|error| format!("{error:#}"))).as_ref().map_err(Clone::clone)
}

fn config() -> Config {
    let mut config = Config::new();
    config
        .consume_fuel(true)
        .operator_cost(costs())
        .cranelift_opt_level(OptLevel::Speed)
        .wasm_simd(true)
        .max_wasm_stack(WASM_STACK)
        .async_stack_size(FIBER_STACK);
    config
}

/// One unit for an instruction, and one for each byte or element of a bulk instruction: wasmtime's own costs. But what
/// grows a memory or a table has the host do something, for 30 nanoseconds where that is refused and for some 2,000
/// where it is granted, so it costs the most that the table holds.
fn costs() -> OperatorCost {
    OperatorCost { MemoryGrow: u8::MAX, TableGrow: u8::MAX, ..OperatorCost::new() }
}
