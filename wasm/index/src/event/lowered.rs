//! The lowercased strings of an event, cached because patterns and predicates read them repeatedly.

use crate::error::Error;
use crate::event::Span;
use crate::model::lower::{lower, max_lowered_bytes};
use crate::model::schema::AttributeId;
use crate::support::hash::out_of_memory;

/// The lowercased strings of some attributes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoweredStrings {
    bytes: Vec<u8>,
    /// The attributes, in order, and the range of each.
    ranges: Vec<(AttributeId, Span)>,
}

/// Returns an upper bound of the bytes of all lowercased strings in an event of `bytes` bytes. Latin-1 atoms take twice
/// their bytes in UTF-8.
const fn max_bytes(bytes: usize) -> usize {
    max_lowered_bytes(2 * bytes)
}

impl LoweredStrings {
    /// Reserves capacity for `attributes` strings of an event of `bytes` bytes. Adding them then allocates nothing.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub(super) fn reserve(&mut self, attributes: usize, bytes: usize) -> Result<(), Error> {
        super::reserve(&mut self.ranges, attributes)?;
        super::reserve(&mut self.bytes, max_bytes(bytes))
    }

    /// Returns whether there is [capacity](LoweredStrings::reserve).
    pub(crate) fn has_room(&self, attributes: usize, bytes: usize) -> bool {
        self.ranges.capacity() >= attributes && self.bytes.capacity() >= max_bytes(bytes)
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ranges.clear();
    }

    /// Adds the lower case of `string`, the value of `attribute`. Attributes are added in ascending order.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub(super) fn push(&mut self, attribute: AttributeId, string: &[u8]) -> Result<(), Error> {
        let start = self.bytes.len();
        self.bytes.try_reserve(max_lowered_bytes(string.len())).map_err(out_of_memory)?;
        self.ranges.try_reserve(1).map_err(out_of_memory)?;
        lower(string, &mut self.bytes);
        let len = (self.bytes.len() - start) as u32;
        self.ranges.push((attribute, Span { start: start as u32, len }));
        Ok(())
    }

    /// Returns the lower case of the string of `attribute`, if it was added.
    pub(crate) fn get(&self, attribute: AttributeId) -> Option<&[u8]> {
        let position = self.ranges.binary_search_by_key(&attribute, |(of, _)| *of).ok()?;
        Some(self.ranges[position].1.of(&self.bytes))
    }
}
