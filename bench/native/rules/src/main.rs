//! The benchmark's program. Cargo builds it for the sandbox too, where only the library is used.

#[cfg(not(target_arch = "wasm32"))]
mod clock;
// Instances get large pages like the library's. No input here is so large that it needs small ones.
#[cfg(not(target_arch = "wasm32"))]
#[allow(unsafe_code, dead_code)]
#[path = "../../../../wasm/host/src/memory/pages.rs"]
mod pages;
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
