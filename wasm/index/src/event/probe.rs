//! Probes: what is asked most often of an event's values, in the same few bytes for an attribute of any type, so that
//! asking takes no branch on the type.

use super::key::{self, Scale};
use super::{Event, Value};
use crate::schema::{AttributeId, Schema};

/// What is known of an event's value without a look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// A bit for each value, or for each element of a list; none where it is undefined.
    pub mask: u64,
    /// The value on the [`Scale`] of its type, of a list 0, or [`UNDEFINED`].
    pub value: i32,
}

/// The probe of an undefined value: no value has it.
pub(crate) const UNDEFINED: i32 = i32::MIN;

/// Where the probe of an attribute is: the first one is of none.
pub(crate) const fn place(attribute: AttributeId) -> usize {
    attribute as usize + 1
}

/// The bit of a value: the upper bits of a multiplicative hash, since neighbouring values are common.
pub(crate) fn bit(key: i64) -> u64 {
    1 << ((key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// Puts the probes of `event` into `probes`: one for none, then one for each attribute.
pub(crate) fn read(event: &Event, schema: &Schema, probes: &mut Vec<Probe>) {
    probes.clear();
    probes.push(Probe::default());
    let values = event.values.iter().zip(schema.attributes());
    probes.extend(values.map(|(&value, attribute)| match value {
        Value::Undefined => Probe { mask: 0, value: UNDEFINED },
        Value::Integers(span) => list(span.of(&event.integers).iter().copied()),
        Value::Strings(span) => list(span.of(&event.strings).iter().map(|text| i64::from(text.id.0))),
        Value::Segments(span) => list(span.of(&event.segments).iter().map(|segment| segment.id)),
        Value::Caps(_) => list(std::iter::empty()),
        scalar => match key::of_value(scalar) {
            Some(key) => Probe { mask: bit(key), value: Scale::of(attribute.ty).probe(key) },
            None => unreachable!("{scalar:?} has a key"),
        },
    }));
}

fn list(keys: impl Iterator<Item = i64>) -> Probe {
    Probe { mask: keys.fold(0, |bits, key| bits | bit(key)), value: 0 }
}
