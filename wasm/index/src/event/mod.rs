//! An event: one value, or none, for each attribute of a schema.

mod fill;
mod json;
mod source;
mod term;
#[cfg(test)]
mod tests;

pub use fill::{decode, Format};

use crate::interner::StringId;
use crate::predicate::CapType;

/// A part of one of an [`Event`]'s tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first element.
    pub start: u32,
    /// How many elements.
    pub len: u32,
}

impl Span {
    /// The elements of `table` that this span covers.
    pub fn of<T>(self, table: &[T]) -> &[T] {
        &table[self.start as usize..][..self.len as usize]
    }
}

/// A string of an event: its id where the index knows it, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Its id, or [`StringId::UNKNOWN`] where no expression mentions it.
    pub id: StringId,
    /// Its bytes, in [`Event::bytes`].
    pub bytes: Span,
}

/// A segment and the time it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which segment.
    pub id: i64,
    /// Microseconds since the epoch.
    pub micros: i64,
}

/// A counter, as frequency caps read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// What is counted for.
    pub cap: CapType,
    /// The id of the flight, campaign or the like.
    pub id: i64,
    /// The counter's namespace.
    pub namespace: Text,
    /// The count.
    pub value: i64,
    /// When it was last counted, in microseconds, if ever.
    pub micros: Option<i64>,
}

/// The value of one attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The event does not give it.
    Undefined,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer or an enum.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// A string.
    String(Text),
    /// Integers in [`Event::integers`], sorted and without duplicates.
    Integers(Span),
    /// Strings in [`Event::strings`], in the order of the event.
    Strings(Span),
    /// Segments in [`Event::segments`], in the order of the event.
    Segments(Span),
    /// Caps in [`Event::caps`], in the order of the event.
    Caps(Span),
}

/// A decoded event. It is filled again and again, so that a search allocates nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// One value for each attribute of the schema.
    pub values: Vec<Value>,
    /// The bytes of all strings.
    pub bytes: Vec<u8>,
    /// The elements of integer lists.
    pub integers: Vec<i64>,
    /// The elements of string lists.
    pub strings: Vec<Text>,
    /// The elements of segment lists.
    pub segments: Vec<Segment>,
    /// The elements of frequency cap lists.
    pub caps: Vec<Cap>,
}

impl Event {
    /// Empties the event and makes room for `attributes` values, all undefined.
    pub fn reset(&mut self, attributes: usize) {
        self.values.clear();
        self.values.resize(attributes, Value::Undefined);
        self.bytes.clear();
        self.integers.clear();
        self.strings.clear();
        self.segments.clear();
        self.caps.clear();
    }

    /// The bytes of `text`.
    pub fn text(&self, text: Text) -> &[u8] {
        text.bytes.of(&self.bytes)
    }
}
