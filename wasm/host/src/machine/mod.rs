//! A machine: a store, its one instance, and the host's data about them between calls.
//!
//! `make` makes machines and snapshots of them, `run` runs a call, and `replay` applies entries of a log. `convention`
//! has the inbox and the outbox, by which the host and the module exchange bytes, and `stop` is the word that asks a
//! change to give up. `export` finds and calls functions, and `phase` tells how far a call has come. The module may be
//! hostile: the host checks each address, length and type from the module at each use.

mod convention;
mod export;
mod make;
pub mod phase;
mod replay;
mod run;
pub mod stop;

use std::sync::atomic::AtomicUsize;
use std::sync::Arc;

use wasmtime::{Global, Instance, Memory, Store, Val};

use crate::failure::Failure;
use crate::machine::export::Export;
use crate::machine::phase::CurrentPhase;
use crate::machine::stop::StopWord;
use crate::memory::limits::Limits;
use crate::memory::stacks::Stack;
use crate::system::counts::Counted;
use crate::system::quota::Taken;

use convention::Inbox;
pub use replay::{LogEntry, Step};
pub use run::{Done, Order, Request, OPENING_SLICE};

/// The parameters of a new machine.
#[derive(PartialEq, Eq)]
pub struct Setup {
    /// The most bytes of all memories and tables together.
    pub memory: usize,
    pub inbox: Option<String>,
    pub outbox: Option<String>,
    /// The export that returns the address of the stop word. A module may lack it.
    pub stop: Option<String>,
}

pub struct Machine {
    store: Store<Limits>,
    instance: Instance,
    memory: Option<Memory>,
    inbox: Option<Inbox>,
    /// The address of the outbox, which stays inside the memory because a memory never shrinks.
    outbox: Option<usize>,
    stop: Option<StopWord>,
    stack_pointer: Option<(Global, Val)>,
    exports: Vec<Export>,
    params: Vec<Val>,
    results: Vec<Val>,
    /// The number of entries of the pool's log that the memory contains.
    applied: u64,
    /// The length of the log when a caller last borrowed this replica.
    used: u64,
    phase: CurrentPhase,
    /// The fuel of applied log entries that no process was charged for yet.
    uncharged_fuel: u64,
    /// Whether the memory maps pages of a snapshot.
    shares_pages: bool,
    /// Whether the memory now grows by small pages.
    has_small_pages: bool,
    // The store must be dropped before the following fields.
    stack: Arc<Stack>,
    mappings: Vec<Taken>,
    _counted: Counted,
}

impl Machine {
    /// Counts the machine's memories and tables in `charged` from now on.
    pub fn count_in(&mut self, charged: Arc<AtomicUsize>) {
        self.store.data_mut().count_in(charged);
    }

    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns the length of the log when a caller last borrowed this replica.
    pub fn used(&self) -> u64 {
        self.used
    }

    pub fn set_used(&mut self, length: u64) {
        self.used = length;
    }

    pub fn phase(&self) -> &CurrentPhase {
        &self.phase
    }

    pub fn results(&self) -> &[Val] {
        &self.results
    }

    pub fn read(&self, address: usize, length: usize) -> Result<&[u8], Failure> {
        let data = self.data();
        let end = address.checked_add(length).filter(|end| *end <= data.len());
        end.map(|end| &data[address..end]).ok_or_else(|| outside("the read", address, length, data.len()))
    }

    pub fn write(&mut self, address: usize, bytes: &[u8]) -> Result<(), Failure> {
        let data = match self.memory {
            Some(memory) => memory.data_mut(&mut self.store),
            None => &mut [],
        };
        let size = data.len();
        let end = address.checked_add(bytes.len()).filter(|end| *end <= size);
        let end = end.ok_or_else(|| outside("the write", address, bytes.len(), size))?;
        data[address..end].copy_from_slice(bytes);
        Ok(())
    }

    fn data(&self) -> &[u8] {
        self.memory.map_or(&[], |memory| memory.data(&self.store))
    }

    /// Restores the shadow stack after a call that did not return, and so did not pop its frames.
    pub fn restore_stack_pointer(&mut self) {
        if let Some((global, first)) = self.stack_pointer {
            // The global was found mutable and of this value's type, so this cannot fail.
            let _ = global.set(&mut self.store, first);
        }
    }
}

fn outside(what: &str, address: usize, length: usize, size: usize) -> Failure {
    let message = format!("{what} is {length} bytes at {address}, outside of the memory of {size} bytes");
    Failure::bad_module(message)
}
