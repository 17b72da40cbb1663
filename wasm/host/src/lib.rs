//! Runs any WebAssembly module inside the BEAM, in slices of fuel.
//!
//! A *module* is compiled once, on a thread of its own, or its code is loaded from a file (`code`). An *instance* is a store with a memory of its own. It runs one call
//! at a time, and callers wait in order (`gate`). A *snapshot* is the memory of an instance at one moment. A *pool* is a set
//! of replicas of a snapshot: instances that begin with that memory and share the pages that none of them writes (`frozen`).
//! It runs one call for each replica, and is otherwise used like an instance. A *call* runs on a fiber. When the fuel of a
//! slice is exhausted, the fiber is suspended, and the call becomes a term that any scheduler can resume or cancel (`call`).
//! One thread frees memory and code, and another finishes calls that lost their caller, so that no scheduler and no
//! destructor does either (`reaper`, `finisher`).
//!
//! The host knows one convention beyond WebAssembly itself. Its names are given at instantiation. An *inbox* export
//! `(length: i32) -> i32` returns the address of a buffer of at least that length. An *outbox* export `() -> i32` returns an
//! address, fixed for the life of the instance, of two `u32`: the address of the last result, and its length.

mod arena;
mod bounds;
mod bulk;
mod cache;
mod call;
mod calls;
mod carried;
mod census;
mod code;
mod costs;
mod engine;
mod export;
mod failure;
mod finisher;
mod folders;
mod frozen;
mod gate;
mod input;
mod instance;
mod integers;
mod limits;
mod lists;
mod log;
mod machine;
mod memories;
mod module;
mod nifs;
mod pages;
mod parts;
mod paths;
mod place;
mod quota;
mod reaper;
mod snapshot;
mod stacks;
mod stage;
mod stop;
mod terms;
mod trial;

rustler::init!("Elixir.BeTree.Engine.Native", load = load);

fn load(_env: rustler::Env, _info: rustler::Term) -> bool {
    reaper::start() && finisher::start()
}
