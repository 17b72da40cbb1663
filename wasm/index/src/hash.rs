//! Hashing that is the same in every run and on every machine, so that fuel is, too.

use std::hash::{BuildHasher, Hash};

use crate::error::{Error, Kind};

/// The hasher of every table.
pub type State = foldhash::fast::FixedState;

/// The hash of any value.
pub fn hash_of<T: Hash + ?Sized>(value: &T) -> u64 {
    State::default().hash_one(value)
}

/// The hash of a string.
pub fn hash_bytes(bytes: &[u8]) -> u64 {
    hash_of(bytes)
}

/// The error for a table that could not grow.
pub fn out_of_memory<T>(_refused: T) -> Error {
    Error::new(Kind::OutOfMemory, "the memory limit does not allow this; raise the limit or delete subscriptions")
}
