//! A snapshot: the memory and the mutable globals of an instance at one moment.

use std::io;
use std::sync::Arc;

use rustler::Resource;
use wasmtime::Val;

use crate::failure::{Failure, Kind};
use crate::memory::shared_bytes::{SharedBytes, SharedBytesBuilder};
use crate::system::background::DropLater;
use crate::system::quota::{self, Taken};

pub struct SnapshotResource(pub Arc<Snapshot>);

#[rustler::resource_impl]
impl Resource for SnapshotResource {}

pub struct Snapshot {
    memory: DropLater<MemoryFile>,
    /// The exported mutable globals, by name.
    globals: Vec<(String, Val)>,
    /// The number of log entries that the state contains.
    applied: u64,
}

struct MemoryFile {
    bytes: SharedBytes,
    _descriptor: Option<Taken>,
}

impl Snapshot {
    /// Copies the memory, so it is not for a normal scheduler.
    pub fn new(memory: &[u8], globals: Vec<(String, Val)>, applied: u64) -> Result<Self, Failure> {
        Ok(Self { memory: freeze(memory.len(), &[(0, memory)])?, globals, applied })
    }

    /// Begins a snapshot of a long memory, which `Growing::add` copies in chunks. Returns `None` for a short memory,
    /// which `new` copies at once.
    pub fn begin(length: usize, globals: &[(String, Val)], applied: u64) -> Result<Option<Growing>, Failure> {
        let Some(builder) = SharedBytesBuilder::new(length) else { return Ok(None) };
        let descriptor = quota::descriptors().take(1, "a snapshot")?;
        Ok(Some(Growing { builder, length, descriptor, globals: globals.to_vec(), applied }))
    }

    /// Returns a snapshot of `parts`, addresses and bytes, among `length` zeros.
    pub fn of(length: usize, parts: &[(usize, &[u8])]) -> Result<Self, Failure> {
        let outside = parts.iter().find(|(at, bytes)| at.checked_add(bytes.len()).is_none_or(|end| end > length));
        if let Some((at, bytes)) = outside {
            let part = bytes.len();
            return Err(Failure::bad_module(format!("{part} bytes at {at} are outside of a memory of {length} bytes")));
        }
        Ok(Self { memory: freeze(length, parts)?, globals: Vec::new(), applied: 0 })
    }

    pub fn memory(&self) -> &SharedBytes {
        &self.memory.bytes
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
        let read = self.memory.bytes.read(address, &mut bytes);
        read.map_err(|error| Failure::new(Kind::OutOfMemory, format!("the snapshot cannot be read: {error}")))?;
        Ok(bytes)
    }

    /// Returns the length of the memory.
    pub fn length(&self) -> usize {
        self.memory.bytes.length()
    }
}

/// A snapshot in the making.
pub struct Growing {
    builder: SharedBytesBuilder,
    length: usize,
    descriptor: Taken,
    globals: Vec<(String, Val)>,
    applied: u64,
}

impl Growing {
    /// Copies the next chunk of at most `max` bytes. The memory must be unchanged since `Snapshot::begin`. Returns
    /// whether this was the last chunk.
    pub fn add(&mut self, memory: &[u8], max: usize) -> Result<bool, Failure> {
        self.builder.add(memory, max).map_err(|error| no_room(self.length, &error))
    }

    pub fn finish(self) -> Result<Snapshot, Failure> {
        let Self { builder, length, descriptor, globals, applied } = self;
        let bytes = builder.finish().map_err(|error| no_room(length, &error))?;
        Ok(Snapshot { memory: DropLater::new(MemoryFile { bytes, _descriptor: Some(descriptor) }), globals, applied })
    }
}

fn freeze(length: usize, parts: &[(usize, &[u8])]) -> Result<DropLater<MemoryFile>, Failure> {
    let is_file = SharedBytes::is_file(length, parts);
    let descriptor = is_file.then(|| quota::descriptors().take(1, "a snapshot")).transpose()?;
    let bytes = SharedBytes::new(length, parts).map_err(|error| no_room(length, &error))?;
    Ok(DropLater::new(MemoryFile { bytes, _descriptor: descriptor }))
}

fn no_room(length: usize, error: &io::Error) -> Failure {
    Failure::new(Kind::OutOfMemory, format!("the host has no memory for a snapshot of {length} bytes: {error}"))
}
