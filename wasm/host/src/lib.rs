//! Runs any WebAssembly module inside the BEAM, in slices of fuel.
//!
//! A *module* is compiled once, on a thread of its own, or its code is loaded from a file. An *instance* has a store with a
//! memory of its own, and runs one call at a time. A *snapshot* is the state of an instance at one moment. A *pool* is an
//! instance with many replicas of a snapshot, which map its pages copy-on-write; it runs one call for each replica. A
//! *call* runs on a fiber. When the fuel of a slice is exhausted, the fiber is suspended, and the call becomes a term that
//! any scheduler can resume or cancel. Threads of the host free memory and finish abandoned calls, so that no scheduler and
//! no destructor does.
//!
//! The host knows one convention beyond WebAssembly itself. Its names are given at instantiation. An *inbox* export
//! `(length: i32) -> i32` returns the address of a buffer of at least that length. An *outbox* export `() -> i32` returns an
//! address, fixed for the life of the instance, of two `u32`: the address of the last result, and its length.
//!
//! Each folder uses those above it in this list, and none below (`tests/layers.rs`):
//!
//! | folder | holds |
//! | --- | --- |
//! | `failure` | failures, by kind, for Elixir |
//! | `system` | threads, quotas of the operating system's resources, counts |
//! | `terms` | conversions between Erlang terms and values of the host |
//! | `memory` | linear memories, stacks and snapshots |
//! | `compile` | compiling: bounds, inserted checks of the fuel, cache, files of code |
//! | `machine` | a machine: a store with its instance, which runs one call |
//! | `instance` | an instance or a pool: its machines, lent to callers in order |
//! | `output` | messages of many senders on their way to one sink, for `BeTree.Output` |
//! | `calls` | calls: slices, suspension, and the end of abandoned ones |
//! | `nifs` | the functions that Elixir calls |

mod calls;
mod compile;
mod failure;
mod instance;
mod machine;
mod memory;
mod nifs;
mod output;
mod system;
mod terms;

use calls::abandoned;
use system::background;

rustler::init!("Elixir.BeTree.Runtime.Native", load = load);

fn load(_env: rustler::Env, _info: rustler::Term) -> bool {
    background::start() && abandoned::start()
}
