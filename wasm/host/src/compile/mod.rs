//! Compiling: from the bytes of a module to code that runs in bounded slices.
//!
//! `cache` loads or compiles each module once, on threads of its own. `code_files` reads and writes files of compiled code, and
//! `code_folders` chooses the folder. `bounds` refuses modules that take too long to compile,
//! `rewrite` inserts checks of the fuel, and `costs` is the fuel of each instruction. `module` is the compiled module, and
//! `saved_globals` finds the globals that its snapshots contain. `engine` is wasmtime's engine, and `self_test` checks it.

pub mod bounds;
pub mod cache;
pub mod code_files;
pub mod code_folders;
pub mod costs;
pub mod engine;
pub mod module;
pub mod rewrite;
pub mod saved_globals;
pub mod self_test;
