//! A snapshot: the state of an instance at one moment, as a resource.

use std::io;
use std::sync::Arc;

use rustler::Resource;
use wasmtime::Val;

use crate::failure::{Failure, Kind};
use crate::memory::shared_bytes::{Freezing, Frozen};
use crate::system::background::Reaped;
use crate::system::quota::{self, Taken};

pub struct Held(pub Arc<Snapshot>);

#[rustler::resource_impl]
impl Resource for Held {}

pub struct Snapshot {
    memory: Reaped<Memory>,
    /// The exported mutable globals, by name.
    globals: Vec<(String, Val)>,
    /// The number of entries of its pool's log that it contains.
    applied: u64,
}

struct Memory {
    frozen: Frozen,
    _descriptor: Option<Taken>,
}

impl Snapshot {
    /// Copies the memory, so it is not for a normal scheduler.
    pub fn new(memory: &[u8], globals: Vec<(String, Val)>, applied: u64) -> Result<Self, Failure> {
        Ok(Self { memory: freeze(memory.len(), &[(0, memory)])?, globals, applied })
    }

    /// Begins a snapshot of a long memory, which `Growing::add` copies part by part. Returns `None` for a short one, which `new`
    /// copies at once.
    pub fn begin(length: usize, globals: &[(String, Val)], applied: u64) -> Result<Option<Growing>, Failure> {
        let Some(freezing) = Freezing::of(length) else { return Ok(None) };
        let descriptor = quota::descriptors().take(1, "a snapshot")?;
        Ok(Some(Growing { freezing, length, descriptor, globals: globals.to_vec(), applied }))
    }

    /// Returns a snapshot of `length` zero bytes with `parts` in them: their positions and their bytes.
    pub fn of(length: usize, parts: &[(usize, &[u8])]) -> Result<Self, Failure> {
        let outside = parts.iter().find(|(at, bytes)| at.checked_add(bytes.len()).is_none_or(|end| end > length));
        if let Some((at, bytes)) = outside {
            let part = bytes.len();
            return Err(Failure::bad_module(format!("{part} bytes at {at} are outside of a memory of {length} bytes")));
        }
        Ok(Self { memory: freeze(length, parts)?, globals: Vec::new(), applied: 0 })
    }

    pub fn memory(&self) -> &Frozen {
        &self.memory.frozen
    }

    pub fn globals(&self) -> &[(String, Val)] {
        &self.globals
    }

    pub fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns a copy of `length` bytes from `address` on.
    pub fn read(&self, address: usize, length: usize) -> Result<Vec<u8>, Failure> {
        let within = address.checked_add(length).is_some_and(|end| end <= self.length());
        if !within {
            let size = self.length();
            let message = format!("the read is {length} bytes at {address}, outside of the snapshot of {size} bytes");
            return Err(Failure::bad_module(message));
        }
        let mut bytes = vec![0; length];
        let read = self.memory.frozen.read(address, &mut bytes);
        read.map_err(|error| Failure::new(Kind::OutOfMemory, format!("the snapshot cannot be read: {error}")))?;
        Ok(bytes)
    }

    /// Returns the number of bytes of its memory.
    pub fn length(&self) -> usize {
        self.memory.frozen.length()
    }
}

/// A snapshot that is being made.
pub struct Growing {
    freezing: Freezing,
    length: usize,
    descriptor: Taken,
    globals: Vec<(String, Val)>,
    applied: u64,
}

impl Growing {
    /// Copies at most `most` more bytes of the memory, which has not changed since `Snapshot::begin`. Returns whether these were
    /// the last.
    pub fn add(&mut self, memory: &[u8], most: usize) -> Result<bool, Failure> {
        self.freezing.add(memory, most).map_err(|error| no_room(self.length, &error))
    }

    pub fn finish(self) -> Result<Snapshot, Failure> {
        let Self { freezing, length, descriptor, globals, applied } = self;
        let frozen = freezing.finish().map_err(|error| no_room(length, &error))?;
        Ok(Snapshot { memory: Reaped::new(Memory { frozen, _descriptor: Some(descriptor) }), globals, applied })
    }
}

fn freeze(length: usize, parts: &[(usize, &[u8])]) -> Result<Reaped<Memory>, Failure> {
    let is_file = Frozen::is_file(length, parts);
    let descriptor = is_file.then(|| quota::descriptors().take(1, "a snapshot")).transpose()?;
    let frozen = Frozen::of(length, parts).map_err(|error| no_room(length, &error))?;
    Ok(Reaped::new(Memory { frozen, _descriptor: descriptor }))
}

fn no_room(length: usize, error: &io::Error) -> Failure {
    Failure::new(Kind::OutOfMemory, format!("the host has no memory for a snapshot of {length} bytes: {error}"))
}
