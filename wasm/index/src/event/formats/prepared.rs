//! Prepared events: decoded events in a binary form, without names or text, that decodes quickly.
//!
//! A prepared event starts with the fingerprint of the one schema that it belongs to. The defined attributes follow in
//! order. Each has a head of 32 bits, its number above the code of its value, and then its value. All numbers are
//! little-endian. Integers and floats have 64 bits, lengths 32. Strings are bytes, because ids differ between indexes.
//! An object of a list is its number of defined attributes, and these in the same form. If misfit values of the event
//! counted as undefined, their number follows like an integer of an attribute behind the last one.

use crate::error::{Error, Kind};
use crate::event::errors::check_required;
use crate::event::{Cap, Event, Segment, Span, Text, Value};
use crate::model::address::Address;
use crate::model::predicate::{CapType, Entity, Float};
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::support::hash::out_of_memory;

const FALSE: u32 = 0;
const TRUE: u32 = 1;
const INTEGER: u32 = 2;
const FLOAT: u32 = 3;
const STRING: u32 = 4;
const INTEGERS: u32 = 5;
const STRINGS: u32 = 6;
const SEGMENTS: u32 = 7;
const CAPS: u32 = 8;
const ADDRESS: u32 = 9;
const OBJECTS: u32 = 10;

const CODE_BITS: u32 = 4;
const CODE: u32 = (1 << CODE_BITS) - 1;

/// Appends `event`, decoded under `schema`, to `out`.
///
/// Errors: [`Kind::OutOfMemory`].
pub(crate) fn write(event: &Event, schema: &Schema, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut writer = Writer { out };
    writer.put(schema.fingerprint().to_le_bytes())?;
    for (attribute, &value) in schema.ids().zip(&event.values) {
        if let Some(code) = code(value) {
            writer.number(head(attribute, code))?;
            writer.value(value, event)?;
        }
    }
    if event.mismatches > 0 {
        writer.number(head(AttributeId::from_index(schema.len()), INTEGER))?;
        writer.integer(event.mismatches.into())?;
    }
    Ok(())
}

/// Reads bytes of [`write()`] into `event`, which is empty. Known strings get their ids in `strings`.
///
/// # Errors
///
/// `type` if the event was written under another schema; `syntax` for bytes that [`write()`] never produces, such as a
/// misfit value; and `out_of_memory`.
pub(in crate::event) fn read(
    bytes: &[u8],
    schema: &Schema,
    strings: &Interner,
    event: &mut Event,
) -> Result<(), Error> {
    let mut reader = Reader { rest: bytes, all: bytes };
    if reader.take().map(u64::from_le_bytes) != Some(schema.fingerprint()) {
        let message = "the event was prepared for other attributes than this index has; prepare it for this one";
        return Err(Error::new(Kind::Type, message));
    }
    let mut next = 0;
    while !reader.rest.is_empty() {
        let (attribute, code) = split(reader.number().ok_or_else(damaged)?);
        // Each attribute comes once, in the order of the schema.
        if attribute.index() < next || attribute.index() >= schema.len() {
            event.mismatches = reader.mismatches(attribute, code, schema).ok_or_else(damaged)?;
            return Ok(());
        }
        next = attribute.index() + 1;
        if !fits(code, schema.attribute(attribute).ty) {
            return Err(damaged());
        }
        let value = match code {
            OBJECTS => reader.objects(schema.objects(attribute), strings, event)?,
            _ => reader.value(code, strings, event)?,
        };
        let value = value.ok_or_else(damaged)?;
        event.values[attribute.index()] = value;
    }
    Ok(())
}

/// Returns the number in front of a value: its attribute and its code.
fn head(attribute: AttributeId, code: u32) -> u32 {
    attribute.word() << CODE_BITS | code
}

/// Returns the attribute and the code in a number that [`head`] made.
#[inline]
fn split(head: u32) -> (AttributeId, u32) {
    (AttributeId::from_word(head >> CODE_BITS), head & CODE)
}

/// Returns whether an attribute of type `ty` has values with this code.
#[inline]
fn fits(code: u32, ty: Type) -> bool {
    match ty {
        Type::Boolean => code <= TRUE,
        Type::Integer | Type::IntegerEnum | Type::DateTime => code == INTEGER,
        Type::Float => code == FLOAT,
        Type::String => code == STRING,
        Type::IntegerList => code == INTEGERS,
        Type::StringList => code == STRINGS,
        Type::Segments => code == SEGMENTS,
        Type::FrequencyCaps => code == CAPS,
        Type::Ip => code == ADDRESS,
        Type::ObjectList => code == OBJECTS,
    }
}

/// Returns the float with these bytes if it is finite. It has one zero, as in an event.
fn finite(bytes: [u8; 8]) -> Option<f64> {
    let float = f64::from_le_bytes(bytes);
    float.is_finite().then(|| Float::new(float).get())
}

fn code(value: Value) -> Option<u32> {
    Some(match value {
        // The next search may have other patterns.
        Value::Undefined | Value::Patterns | Value::Unfit(_) => return None,
        Value::Boolean(false) => FALSE,
        Value::Boolean(true) => TRUE,
        Value::Integer(_) => INTEGER,
        Value::Float(_) => FLOAT,
        Value::String(_) => STRING,
        Value::Integers(_) => INTEGERS,
        Value::Strings(_) => STRINGS,
        Value::Segments(_) => SEGMENTS,
        Value::Caps(_) => CAPS,
        Value::Address(_) => ADDRESS,
        Value::Objects(_) => OBJECTS,
    })
}

#[cold]
fn damaged() -> Error {
    Error::new(Kind::Syntax, "these bytes are no prepared event; prepare it again")
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), Error> {
        self.bytes(&bytes)
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.try_reserve(bytes.len()).map_err(out_of_memory)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    fn number(&mut self, number: u32) -> Result<(), Error> {
        self.put(number.to_le_bytes())
    }

    fn integer(&mut self, integer: i64) -> Result<(), Error> {
        self.put(integer.to_le_bytes())
    }

    fn text(&mut self, text: Text, event: &Event) -> Result<(), Error> {
        self.number(text.bytes.len)?;
        self.bytes(event.text(text))
    }

    fn value(&mut self, value: Value, event: &Event) -> Result<(), Error> {
        match value {
            Value::Undefined | Value::Patterns | Value::Unfit(_) | Value::Boolean(_) => Ok(()),
            Value::Integer(integer) => self.integer(integer),
            Value::Float(float) => self.put(float.to_le_bytes()),
            Value::String(text) => self.text(text, event),
            Value::Integers(span) => {
                self.number(span.len)?;
                span.of(&event.integers).iter().try_for_each(|&integer| self.integer(integer))
            }
            Value::Strings(span) => {
                self.number(span.len)?;
                span.of(&event.strings).iter().try_for_each(|&text| self.text(text, event))
            }
            Value::Segments(span) => {
                self.number(span.len)?;
                span.of(&event.segments).iter().try_for_each(|segment| {
                    self.integer(segment.id)?;
                    self.integer(segment.micros)
                })
            }
            Value::Caps(span) => {
                self.number(span.len)?;
                span.of(&event.caps).iter().try_for_each(|cap| self.cap(cap, event))
            }
            Value::Address(position) => {
                let (is_v6, bytes) = event.addresses[position as usize].parts();
                self.put([u8::from(is_v6)])?;
                self.put(bytes)
            }
            Value::Objects(span) => {
                self.number(span.len)?;
                span.of(&event.objects).iter().try_for_each(|object| {
                    self.number(object.defined.count_ones())?;
                    object.values(event).try_for_each(|(attribute, value)| {
                        self.number(head(attribute, code(value).unwrap_or(0)))?;
                        self.value(value, event)
                    })
                })
            }
        }
    }

    fn cap(&mut self, cap: &Cap, event: &Event) -> Result<(), Error> {
        let CapType { entity, by_ip } = cap.cap;
        let entity = Entity::NAMES.iter().position(|(_, _, known)| *known == entity).unwrap_or(0);
        self.put([entity as u8, u8::from(by_ip), u8::from(cap.micros.is_some())])?;
        self.integer(cap.id)?;
        self.integer(cap.value)?;
        self.integer(cap.micros.unwrap_or(0))?;
        self.text(cap.namespace, event)
    }
}

/// A cursor. Its methods return `None` if the bytes end too early.
struct Reader<'a> {
    rest: &'a [u8],
    all: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*bytes)
    }

    #[inline]
    fn number(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn integer(&mut self) -> Option<i64> {
        self.take().map(i64::from_le_bytes)
    }

    /// Reads the number of misfit values, after its head. Nothing may follow.
    #[cold]
    #[inline(never)]
    fn mismatches(&mut self, attribute: AttributeId, code: u32, schema: &Schema) -> Option<u32> {
        let is_head = attribute.index() == schema.len() && code == INTEGER;
        let count = u32::try_from(self.integer()?).ok()?;
        (is_head && count > 0 && self.rest.is_empty()).then_some(count)
    }

    /// Reads the number of elements that follow, each of at least `bytes` bytes.
    fn count(&mut self, bytes: usize) -> Option<usize> {
        let count = self.number()? as usize;
        (count <= self.rest.len() / bytes).then_some(count)
    }

    fn value(&mut self, code: u32, strings: &Interner, event: &mut Event) -> Result<Option<Value>, Error> {
        Ok(match code {
            FALSE => Some(Value::Boolean(false)),
            TRUE => Some(Value::Boolean(true)),
            INTEGER => self.integer().map(Value::Integer),
            FLOAT => self.take().and_then(finite).map(Value::Float),
            STRING => self.text(strings, event)?.map(Value::String),
            INTEGERS => self
                .list(8, |event| &mut event.integers, event, |reader, _| Ok(reader.integer()))?
                // Predicates require this order.
                .filter(|span| span.of(&event.integers).is_sorted_by(|a, b| a < b))
                .map(Value::Integers),
            STRINGS => {
                let start = event.strings.len();
                let list =
                    self.list(4, |event| &mut event.strings, event, |reader, event| reader.text(strings, event))?;
                event.sort_strings(start);
                list.map(Value::Strings)
            }
            SEGMENTS => self
                .list(16, |event| &mut event.segments, event, |reader, _| Ok(reader.segment()))?
                .map(Value::Segments),
            CAPS => self
                .list(31, |event| &mut event.caps, event, |reader, event| reader.cap(strings, event))?
                .map(Value::Caps),
            ADDRESS => match self.address() {
                Some(address) => {
                    event.addresses.try_reserve(1).map_err(out_of_memory)?;
                    event.addresses.push(address);
                    Some(Value::Address(event.addresses.len() as u32 - 1))
                }
                None => None,
            },
            _ => None,
        })
    }

    /// Reads a list of objects over the attributes of `schema`.
    fn objects(&mut self, schema: &Schema, strings: &Interner, event: &mut Event) -> Result<Option<Value>, Error> {
        let Some(count) = self.count(4) else { return Ok(None) };
        let (start, base) = (event.objects.len(), event.values.len());
        for _ in 0..count {
            if !self.object(schema, base, strings, event)? {
                return Ok(None);
            }
        }
        event.values.truncate(base);
        Ok(Some(Value::Objects(Span { start: start as u32, len: count as u32 })))
    }

    /// Reads an object, and returns whether it is well-formed.
    fn object(&mut self, schema: &Schema, base: usize, strings: &Interner, event: &mut Event) -> Result<bool, Error> {
        event.begin_object(schema, base)?;
        let Some(count) = self.count(4) else { return Ok(false) };
        let mut next = 0;
        for _ in 0..count {
            let Some((attribute, code)) = self.number().map(split) else { return Ok(false) };
            let is_next = (next..schema.len()).contains(&attribute.index());
            if !is_next || !fits(code, schema.attribute(attribute).ty) {
                return Ok(false);
            }
            next = attribute.index() + 1;
            let Some(value) = self.value(code, strings, event)? else { return Ok(false) };
            event.values[base + attribute.index()] = value;
        }
        if check_required(schema, &event.values[base..], "").is_err() {
            return Ok(false);
        }
        event.end_object(base)?;
        Ok(true)
    }

    fn text(&mut self, strings: &Interner, event: &mut Event) -> Result<Option<Text>, Error> {
        let Some(len) = self.count(1) else { return Ok(None) };
        if event.bytes.is_empty() {
            // One copy of all bytes is faster than a copy per string.
            event.take_in(self.all)?;
        }
        let start = self.all.len() - self.rest.len();
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest;
        let id = strings.find(bytes).unwrap_or(StringId::UNKNOWN);
        Ok(Some(Text { id, bytes: Span { start: start as u32, len: len as u32 } }))
    }

    fn segment(&mut self) -> Option<Segment> {
        Some(Segment { id: self.integer()?, micros: self.integer()? })
    }

    fn cap(&mut self, strings: &Interner, event: &mut Event) -> Result<Option<Cap>, Error> {
        let Some(([entity, by_ip, has_micros], id, value, micros)) = self.cap_numbers() else { return Ok(None) };
        let Some(&(_, _, entity)) = Entity::NAMES.get(entity as usize) else { return Ok(None) };
        let cap = CapType { entity, by_ip: by_ip != 0 };
        let micros = (has_micros != 0).then_some(micros);
        Ok(self.text(strings, event)?.map(|namespace| Cap { cap, id, namespace, value, micros }))
    }

    fn address(&mut self) -> Option<Address> {
        let [is_v6] = self.take()?;
        Address::from_parts(is_v6 != 0, self.take()?).filter(|_| is_v6 <= 1)
    }

    fn cap_numbers(&mut self) -> Option<([u8; 3], i64, i64, i64)> {
        Some((self.take()?, self.integer()?, self.integer()?, self.integer()?))
    }

    /// Reads a list of elements of at least `bytes` bytes each into a table of the event.
    fn list<T>(
        &mut self,
        bytes: usize,
        table: impl Fn(&mut Event) -> &mut Vec<T>,
        event: &mut Event,
        mut element: impl FnMut(&mut Self, &mut Event) -> Result<Option<T>, Error>,
    ) -> Result<Option<Span>, Error> {
        let Some(count) = self.count(bytes) else { return Ok(None) };
        let start = table(event).len();
        table(event).try_reserve(count).map_err(out_of_memory)?;
        for _ in 0..count {
            match element(self, event)? {
                Some(element) => table(event).push(element),
                None => return Ok(None),
            }
        }
        Ok(Some(Span { start: start as u32, len: count as u32 }))
    }
}
