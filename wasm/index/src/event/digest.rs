//! Value digests: the facts that filters read most about an event's values, in the same few bytes for every type, so
//! that reading them takes no branch on the type.

use crate::event::key::{self, Scale};
use crate::event::{Event, Value};
use crate::model::schema::{AttributeId, Schema};

/// A digest of an event's value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValueDigest {
    /// The first two words are a mask of 64 bits, lower half first: the [`bits`] of the value, or of each element of a
    /// list; zero if undefined. The third word is the value on the [`Scale`] of its type, 0 for a list, or
    /// [`UNDEFINED`]. The fourth is all ones, or zero if undefined.
    words: [u32; 4],
}

impl ValueDigest {
    pub fn new(mask: u64, value: i32) -> Self {
        let defined = if value == UNDEFINED { 0 } else { u32::MAX };
        ValueDigest { words: [mask as u32, (mask >> 32) as u32, value as u32, defined] }
    }

    /// Returns the two halves of the mask.
    #[inline(always)]
    pub fn mask(self) -> [u32; 2] {
        let [low, high, ..] = self.words;
        [low, high]
    }

    #[inline(always)]
    pub fn value(self) -> i32 {
        self.words[2] as i32
    }

    #[inline(always)]
    pub fn is_defined(self) -> bool {
        self.value() != UNDEFINED
    }

    /// Returns the lower and the upper half of the mask, the value, and all ones if it is defined.
    #[inline(always)]
    pub fn words(&self) -> &[u32; 4] {
        &self.words
    }
}

/// The digests of an event, by place.
pub(crate) trait Table {
    fn at(&self, place: usize) -> &ValueDigest;
}

/// The length of a table with room for the digests of most schemas. It is a power of two, so one instruction reduces a
/// place to this range, without a branch.
pub(crate) const USUAL_DIGESTS: usize = 1024;

impl Table for [ValueDigest; USUAL_DIGESTS] {
    #[inline(always)]
    fn at(&self, place: usize) -> &ValueDigest {
        &self[place % USUAL_DIGESTS]
    }
}

impl Table for [ValueDigest] {
    #[inline(always)]
    fn at(&self, place: usize) -> &ValueDigest {
        &self[place]
    }
}

/// The digest of an undefined value. No value has it.
pub(crate) const UNDEFINED: i32 = i32::MIN;

/// Returns the place of an attribute's digest. The first place belongs to no attribute.
pub(crate) const fn place(attribute: AttributeId) -> usize {
    attribute.index() + 1
}

/// The place of the first attribute's digest.
pub(crate) const FIRST: usize = place(AttributeId::from_index(0));

/// Returns the attribute of the digest at a place, if it belongs to one.
pub(crate) fn attribute(place: usize) -> Option<AttributeId> {
    place.checked_sub(1).map(AttributeId::from_index)
}

/// Returns the bits of a value, one in each half of a mask, as in a Bloom filter: a mask may contain the value only if
/// both bits are set. They come from the upper bits of a multiplicative hash, because neighboring values are common.
pub(crate) fn bits(key: i64) -> u64 {
    let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    1 << (hash >> 59) | 1 << (32 + (hash >> 54) % 32)
}

/// Writes the digests of `event` to `digests`: one that belongs to no attribute, then one for each attribute.
pub(crate) fn read(event: &Event, schema: &Schema, digests: &mut [ValueDigest]) {
    digests[0] = ValueDigest::new(0, 0);
    let values = event.values.iter().zip(schema.all_attributes());
    for (digest, (&value, attribute)) in digests[FIRST..].iter_mut().zip(values) {
        *digest = match value {
            Value::Undefined => ValueDigest::new(0, UNDEFINED),
            Value::Integers(span) => list(span.of(&event.integers).iter().copied()),
            Value::Strings(span) => list(span.of(&event.strings).iter().map(|text| key::of_string(text.id))),
            Value::Segments(span) => list(span.of(&event.segments).iter().map(|segment| segment.id)),
            Value::Caps(_) | Value::Objects(_) | Value::Address(_) => list(std::iter::empty()),
            Value::Patterns => list(event.patterns.iter().copied()),
            scalar => match key::of_value(scalar) {
                Some(key) => ValueDigest::new(bits(key), Scale::of(attribute.ty).digest(key)),
                None => unreachable!("{scalar:?} has a key"),
            },
        };
    }
}

fn list(keys: impl Iterator<Item = i64>) -> ValueDigest {
    ValueDigest::new(keys.fold(0, |mask, key| mask | bits(key)), 0)
}
