//! The program of the benchmark. Cargo builds it for the sandbox too, where only the library is of use.

#[cfg(not(target_arch = "wasm32"))]
mod clock;
#[cfg(not(target_arch = "wasm32"))]
mod program;
#[cfg(not(target_arch = "wasm32"))]
mod sandbox;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    program::main()
}

#[cfg(target_arch = "wasm32")]
fn main() {}
