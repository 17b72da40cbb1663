//! Any WebAssembly module, run in slices of fuel inside the BEAM.
//!
//! A *module* is compiled once, on a thread of its own. An *instance* is a store with a memory of its own; it runs one
//! call at a time, and callers wait their turn in order (`gate`). A *snapshot* is the memory of an instance as it stood
//! at one moment, and a *pool* a set of replicas of it, instances that begin with that memory and share what none of them
//! writes (`frozen`); it runs as many calls at a time, and is otherwise used like an instance. A *call* runs on a fiber; where the fuel of a slice
//! is exhausted the fiber is left where it stands, and the call becomes a term that can be resumed from any scheduler
//! or cancelled (`call`). What must be taken apart or freed is handed to one thread, and a call that lost its caller to
//! another, so that no scheduler and no destructor ever does either (`reaper`, `finisher`).
//!
//! The host knows one convention beyond WebAssembly itself, and its names are given at instantiation: an *inbox*
//! export `(length: i32) -> i32`, the address of a buffer of at least that length, and an *outbox* export `() -> i32`,
//! the address, fixed for the life of the instance, of two `u32`: where the last answer lies, and its length.

mod arena;
mod bounds;
mod bulk;
mod cache;
mod call;
mod carried;
mod census;
mod engine;
mod export;
mod failure;
mod finisher;
mod frozen;
mod gate;
mod input;
mod instance;
mod integers;
mod limits;
mod lists;
mod machine;
mod memories;
mod module;
mod nifs;
mod pages;
mod parts;
mod place;
mod quota;
mod reaper;
mod snapshot;
mod stacks;
mod stage;
mod terms;
mod trial;

rustler::init!("Elixir.BeTree.Engine.Native", load = load);

fn load(_env: rustler::Env, _info: rustler::Term) -> bool {
    reaper::start() && finisher::start()
}
