//! The values of an event that statistics count: read and hashed once for all expressions that match.
//!
//! The work belongs to a search rather than to a tenant, so tenants need no memory for it.

use crate::error::Error;
use crate::event::{Event, Span, Value};
use crate::model::attribute::AttributeId;
use crate::sketch::hash;
use crate::sketch::moments::Number;
use crate::sketch::values::{Borrowed, Hashed, CUT, MAX_VALUE_BYTES};
use crate::sketch::{push, reserve};

/// A table of more elements than this is freed after its event.
const MAX_KEPT: usize = 4096;

/// The tables for the counting of one event.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// For each id that matched, its slot in the rows of the day.
    pub(super) rows: Vec<u32>,
    /// The number of ids without a row.
    pub(super) new_rows: usize,
    /// The number of ids that need an entry.
    pub(super) new_entries: usize,
    /// The elements of each attribute, if it was read.
    columns: Vec<Option<Span>>,
    /// The attributes that were read.
    read: Vec<AttributeId>,
    elements: Vec<Element>,
    /// Addresses, and strings that are cut.
    bytes: Vec<u8>,
}

/// A value, or an element of a list.
#[derive(Clone, Copy, Debug)]
struct Element {
    hash: u64,
    value: ElementValue,
}

#[derive(Clone, Copy, Debug)]
enum ElementValue {
    Integer(i64),
    Float(f64),
    /// Bytes of the event.
    Text(Span),
    /// Bytes of the work, with their hash.
    Copied(Span, u32),
}

/// The elements of an attribute's value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Elements<'a> {
    elements: &'a [Element],
    event: &'a [u8],
    copied: &'a [u8],
}

impl Work {
    /// Forgets the last event.
    pub(super) fn begin(&mut self) {
        for attribute in self.read.drain(..) {
            self.columns[attribute.index()] = None;
        }
        self.rows.clear();
        self.elements.clear();
        self.bytes.clear();
        if self.rows.capacity() > MAX_KEPT {
            self.rows = Vec::new();
        }
        if self.elements.capacity() > MAX_KEPT {
            self.elements = Vec::new();
        }
        if self.bytes.capacity() > MAX_KEPT {
            self.bytes = Vec::new();
        }
    }

    /// Requests memory for the rows of this number of ids.
    pub(super) fn reserve_rows(&mut self, ids: usize) -> Result<(), Error> {
        reserve(&mut self.rows, ids)
    }

    /// Reads the value of an attribute, once for each event. Errors: [`crate::error::Kind::OutOfMemory`].
    #[inline]
    pub(super) fn read(&mut self, attribute: AttributeId, event: &Event) -> Result<(), Error> {
        match self.columns.get(attribute.index()) {
            Some(Some(_)) => Ok(()),
            _ => self.read_new(attribute, event),
        }
    }

    fn read_new(&mut self, attribute: AttributeId, event: &Event) -> Result<(), Error> {
        let lacking = (attribute.index() + 1).saturating_sub(self.columns.len());
        reserve(&mut self.columns, lacking)?;
        reserve(&mut self.read, 1)?;
        let start = self.elements.len();
        self.take(event.values[attribute.index()], event)?;
        let span = Span { start: start as u32, len: (self.elements.len() - start) as u32 };
        self.columns.resize(self.columns.len() + lacking, None);
        self.columns[attribute.index()] = Some(span);
        self.read.push(attribute);
        Ok(())
    }

    /// Appends the elements of a value.
    fn take(&mut self, value: Value, event: &Event) -> Result<(), Error> {
        match value {
            Value::Boolean(boolean) => self.integer(boolean.into()),
            Value::Integer(integer) => self.integer(integer),
            Value::Float(float) => {
                push(&mut self.elements, Element { hash: hash::of_float(float), value: ElementValue::Float(float) })
            }
            Value::String(text) => self.text(text.bytes, event),
            Value::Integers(span) => span.of(&event.integers).iter().try_for_each(|&integer| self.integer(integer)),
            Value::Strings(span) => span.of(&event.strings).iter().try_for_each(|text| self.text(text.bytes, event)),
            Value::Segments(span) => span.of(&event.segments).iter().try_for_each(|segment| self.integer(segment.id)),
            Value::Address(position) => {
                let (is_v6, bytes) = event.addresses[position as usize].parts();
                let address = if is_v6 { &bytes[..] } else { &bytes[..4] };
                self.copied(hash::of_bytes(address), &[address])
            }
            // Declarations name no attribute of such values.
            Value::Undefined | Value::Caps(_) | Value::Objects(_) | Value::Patterns | Value::Unfit(_) => Ok(()),
        }
    }

    fn integer(&mut self, integer: i64) -> Result<(), Error> {
        push(&mut self.elements, Element { hash: hash::of_integer(integer), value: ElementValue::Integer(integer) })
    }

    fn text(&mut self, span: Span, event: &Event) -> Result<(), Error> {
        let text = span.of(&event.bytes);
        let hash = hash::of_bytes(text);
        if text.len() > MAX_VALUE_BYTES {
            return self.copied(hash, &[cut(text), CUT.as_bytes()]);
        }
        push(&mut self.elements, Element { hash, value: ElementValue::Text(span) })
    }

    /// Appends an element with bytes of its own. `hash` is that of the whole value.
    fn copied(&mut self, hash: u64, parts: &[&[u8]]) -> Result<(), Error> {
        let start = self.bytes.len();
        for part in parts {
            reserve(&mut self.bytes, part.len())?;
            self.bytes.extend_from_slice(part);
        }
        let tag = hash::of_bytes(&self.bytes[start..]) as u32;
        let span = Span { start: start as u32, len: (self.bytes.len() - start) as u32 };
        push(&mut self.elements, Element { hash, value: ElementValue::Copied(span, tag) })
    }

    /// Returns the elements of an attribute that was [read](Work::read).
    #[inline]
    pub(super) fn elements<'a>(&'a self, attribute: AttributeId, event: &'a Event) -> Elements<'a> {
        let span = self.columns[attribute.index()].unwrap_or(Span { start: 0, len: 0 });
        Elements { elements: span.of(&self.elements), event: &event.bytes, copied: &self.bytes }
    }
}

/// Returns the beginning of a string that is too long, without a part of a character at its end.
fn cut(text: &[u8]) -> &[u8] {
    let mut end = MAX_VALUE_BYTES;
    while end > MAX_VALUE_BYTES - 4 && text[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &text[..end]
}

impl<'a> Elements<'a> {
    pub fn len(self) -> usize {
        self.elements.len()
    }

    pub fn is_empty(self) -> bool {
        self.elements.is_empty()
    }

    #[inline]
    pub fn hashes(self) -> impl Iterator<Item = u64> + 'a {
        self.elements.iter().map(|element| element.hash)
    }

    /// Returns the elements as numbers.
    #[inline]
    pub fn numbers(self) -> impl Iterator<Item = Number> + 'a {
        self.elements.iter().filter_map(|element| match element.value {
            ElementValue::Integer(integer) => Some(Number::Integer(integer)),
            ElementValue::Float(float) => Some(Number::Float(float)),
            ElementValue::Text(_) | ElementValue::Copied(..) => None,
        })
    }

    #[inline]
    pub fn floats(self) -> impl Iterator<Item = f64> + 'a {
        self.numbers().map(Number::float)
    }

    /// Returns the elements as values that a sketch may keep.
    #[inline]
    pub fn values(self) -> impl Iterator<Item = Hashed<'a>> + 'a {
        self.elements.iter().filter_map(move |element| {
            let (value, tag) = match element.value {
                ElementValue::Integer(integer) => (Borrowed::Integer(integer), element.hash as u32),
                ElementValue::Float(_) => return None,
                ElementValue::Text(span) => (Borrowed::Bytes(span.of(self.event)), element.hash as u32),
                ElementValue::Copied(span, tag) => (Borrowed::Bytes(span.of(self.copied)), tag),
            };
            Some(Hashed { tag, value })
        })
    }
}
