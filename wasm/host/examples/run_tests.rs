//! Runs a program of the index's tests, compiled to WebAssembly, under wasmtime: cargo's runner for such programs.
//!
//! The program is for `wasm32-unknown-unknown`, as the sandboxed module is, so it can print nothing. Its panics are reported
//! by an import (`index/tests/support/report.rs`) and abort it; the backtrace names the test.

use std::error::Error;
use std::process::ExitCode;

use wasmtime::{Caller, Engine, Extern, Linker, Module, Store};

fn main() -> ExitCode {
    let Some(path) = std::env::args().nth(1) else {
        eprintln!("usage: run_tests <program>.wasm");
        return ExitCode::FAILURE;
    };
    match run(&path) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(status) => {
            eprintln!("{path}: exit status {status}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{path}: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the program without arguments. Returns its exit status.
fn run(path: &str) -> Result<i32, Box<dyn Error>> {
    let engine = Engine::default();
    let module = Module::new(&engine, std::fs::read(path)?)?;
    let mut store = Store::new(&engine, ());
    let mut linker = Linker::new(&engine);
    linker.func_wrap("tests", "report", report)?;
    let instance = linker.instantiate(&mut store, &module)?;
    let main = instance.get_typed_func::<(i32, i32), i32>(&mut store, "main")?;
    Ok(main.call(&mut store, (0, 0))?)
}

/// Prints a text in the program's memory.
fn report(mut caller: Caller<'_, ()>, start: u32, length: u32) {
    let memory = caller.get_export("memory").and_then(Extern::into_memory);
    let bytes = memory.and_then(|memory| memory.data(&caller).get(start as usize..)?.get(..length as usize));
    match bytes {
        Some(text) => eprintln!("{}", String::from_utf8_lossy(text)),
        None => eprintln!("a report that lies outside of the memory"),
    }
}
