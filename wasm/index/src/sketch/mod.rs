//! Sketches: summaries of many values in bounded memory, which can be merged and written to bytes.
//!
//! | sketch | tells | memory |
//! | --- | --- | --- |
//! | [`uniques`] | the number of distinct values, exact up to 500 | 9 to 14 bytes a value, then 3 KB |
//! | [`moments`] | count, sum, minimum and maximum | 64 bytes |
//! | [`top`] | the most frequent values | four counters for each value asked for |
//! | [`quantiles`] | quantiles with a relative error of 1 % | 2 bytes a bucket, at most 2,048 of each sign |
//! | [`members`] | the distinct values, up to a bound | the values |
//!
//! A sketch does not fail while it counts. `growth` returns an upper bound of the bytes that the next updates request. The caller
//! ensures that they are available ([`headroom`](crate::support::headroom)), and then makes the updates.
//!
//! Encoded sketches lie on disks for months. So the hashes ([`hash`]) and the encoding ([`codec`]) never change. A new encoding
//! gets a new version number of the blob that contains it.

pub(crate) mod codec;
pub(crate) mod hash;
pub(crate) mod members;
pub(crate) mod moments;
pub(crate) mod quantiles;
#[cfg(test)]
mod tests;
pub(crate) mod top;
pub(crate) mod uniques;
pub(crate) mod values;

use crate::error::Error;
use crate::support::headroom::{self, AROUND};

/// Memory that stays free for the message of a later refusal.
const MESSAGE_BYTES: usize = 1024;

/// Returns the bytes that a request for `len` elements takes, with the allocator's overhead.
pub(crate) fn request<T>(len: usize) -> usize {
    len * size_of::<T>() + AROUND
}

/// Returns the bytes that `table.reserve(more)` requests.
pub(crate) fn growth<T>(table: &Vec<T>, more: usize) -> usize {
    /// The standard library begins with this number of small elements.
    const MIN_CAPACITY: usize = 4;
    match table.len() + more <= table.capacity() {
        true => 0,
        false => request::<T>((table.len() + more).max(2 * table.capacity()).max(MIN_CAPACITY)),
    }
}

/// Checks that `bytes` bytes are available, and then enough for the message of a later error.
///
/// Errors: [`crate::error::Kind::OutOfMemory`].
pub(crate) fn ensure(bytes: usize) -> Result<(), Error> {
    match bytes {
        0 => Ok(()),
        _ => headroom::ensure(bytes + MESSAGE_BYTES),
    }
}

/// Reserves room for `more` elements. Errors: those of [`ensure`].
pub(crate) fn reserve<T>(table: &mut Vec<T>, more: usize) -> Result<(), Error> {
    ensure(growth(table, more))?;
    table.reserve(more);
    Ok(())
}

/// Appends to a table. Errors: those of [`ensure`].
#[inline]
pub(crate) fn push<T>(table: &mut Vec<T>, element: T) -> Result<(), Error> {
    if table.len() == table.capacity() {
        reserve(table, 1)?;
    }
    table.push(element);
    Ok(())
}
