//! The state of an instance as it stood at one moment, as a resource.

use std::sync::Arc;

use rustler::Resource;
use wasmtime::Val;

use crate::failure::{Failure, Kind};
use crate::frozen::Frozen;
use crate::reaper::Reaped;

pub struct Held(pub Arc<Snapshot>);

#[rustler::resource_impl]
impl Resource for Held {}

pub struct Snapshot {
    memory: Reaped<Frozen>,
    /// The exported mutable globals, by name.
    globals: Vec<(String, Val)>,
}

impl Snapshot {
    /// Copies the memory: not for a normal scheduler.
    pub fn new(memory: &[u8], globals: Vec<(String, Val)>) -> Result<Self, Failure> {
        let memory = Frozen::new(memory).map_err(|error| {
            let message = format!("the host has no memory for a snapshot of {} bytes: {error}", memory.len());
            Failure::new(Kind::OutOfMemory, message)
        })?;
        Ok(Self { memory: Reaped::new(memory), globals })
    }

    pub fn memory(&self) -> &Frozen {
        &self.memory
    }

    pub fn globals(&self) -> &[(String, Val)] {
        &self.globals
    }

    /// A copy of `length` bytes from `address` on.
    pub fn read(&self, address: usize, length: usize) -> Result<Vec<u8>, Failure> {
        let within = address.checked_add(length).is_some_and(|end| end <= self.length());
        if !within {
            let size = self.length();
            let message = format!("the read is {length} bytes at {address}, outside of the snapshot of {size} bytes");
            return Err(Failure::bad_module(message));
        }
        let mut bytes = vec![0; length];
        let read = self.memory.read(address, &mut bytes);
        read.map_err(|error| Failure::new(Kind::OutOfMemory, format!("the snapshot cannot be read: {error}")))?;
        Ok(bytes)
    }

    /// How many bytes of memory it holds.
    pub fn length(&self) -> usize {
        self.memory.length()
    }
}
