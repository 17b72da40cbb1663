//! Runs any WebAssembly module inside the BEAM, in slices of fuel.
//!
//! A *module* is compiled once, on a thread of its own. An *instance* is a store with a memory of its own. It runs one call
//! at a time, and callers wait in order (`instance::checkout`). A *snapshot* is the memory of an instance at one moment. A *pool* is a set
//! of replicas of a snapshot: instances that begin with that memory and share the pages that none of them writes (`memory::shared_bytes`).
//! It runs one call for each replica, and is otherwise used like an instance. A *call* runs on a fiber. When the fuel of a
//! slice is exhausted, the fiber is suspended, and the call becomes a term that any scheduler can resume or cancel (`calls`).
//! One thread frees memory and code, and another finishes calls that lost their caller, so that no scheduler and no
//! destructor does either (`system::background`, `calls::abandoned`).
//!
//! The host knows one convention beyond WebAssembly itself. Its names are given at instantiation. An *inbox* export
//! `(length: i32) -> i32` returns the address of a buffer of at least that length. An *outbox* export `() -> i32` returns an
//! address, fixed for the life of the instance, of two `u32`: the address of the last result, and its length.

mod calls;
mod compile;
mod failure;
mod instance;
mod machine;
mod memory;
mod nifs;
mod system;
mod terms;

use calls::abandoned;
use system::background;

rustler::init!("Elixir.BeTree.Runtime.Native", load = load);

fn load(_env: rustler::Env, _info: rustler::Term) -> bool {
    background::start() && abandoned::start()
}
