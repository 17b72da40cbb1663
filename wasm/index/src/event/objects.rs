//! Reads the lists of objects of an event, and the objects in them.
//!
//! An object stores only its defined attributes, so a list takes memory linear in its bytes, regardless of the schema.

use std::mem;

use crate::error::Error;
use crate::event::errors::{check_required, within};
use crate::event::filler::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::tables::{push, since, sort_and_dedup};
use crate::event::{Event, Span, Value};
use crate::model::schema::{AttributeId, Schema};
use crate::support::hash::out_of_memory;

/// An object in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The position of its first value in [`Event::object_values`].
    pub start: u32,
    /// A bit for each defined attribute, the first attribute in the lowest bit.
    pub defined: u64,
}

impl Object {
    /// Returns the defined attributes in order, each with its value.
    pub fn values(self, event: &Event) -> impl Iterator<Item = (AttributeId, Value)> + '_ {
        let mut left = self.defined;
        let values = &event.object_values[self.start as usize..][..self.defined.count_ones() as usize];
        values.iter().map(move |&value| {
            let attribute = AttributeId::from_index(left.trailing_zeros() as usize);
            left &= left - 1;
            (attribute, value)
        })
    }

    /// Returns the value of `attribute`, if it has one.
    pub fn value(self, attribute: AttributeId, event: &Event) -> Option<Value> {
        let bit = 1 << attribute.index();
        let position = (self.defined & (bit - 1)).count_ones();
        (self.defined & bit != 0).then(|| event.object_values[(self.start + position) as usize])
    }
}

impl Event {
    /// Begins an object over `objects`: its values follow those of the event from `base` on, and are undefined.
    pub(super) fn begin_object(&mut self, objects: &Schema, base: usize) -> Result<(), Error> {
        self.values.truncate(base);
        self.values.try_reserve(objects.len()).map_err(out_of_memory)?;
        self.values.resize(base + objects.len(), Value::Undefined);
        Ok(())
    }

    /// Adds the current object.
    pub(super) fn end_object(&mut self, base: usize) -> Result<(), Error> {
        let Event { values, objects, object_values, .. } = self;
        let start = object_values.len() as u32;
        let mut defined = 0;
        for (position, &value) in values[base..].iter().enumerate() {
            if value != Value::Undefined {
                defined |= 1 << position;
                push(object_values, value)?;
            }
        }
        push(objects, Object { start, defined })
    }

    /// Returns the column of `attribute`: the list of its values in the objects of `list`, strings or integers
    /// (booleans as 0 and 1). Undefined if there is no such value.
    pub(crate) fn column(
        &mut self,
        list: AttributeId,
        attribute: AttributeId,
        is_of_strings: bool,
    ) -> Result<Value, Error> {
        let Value::Objects(span) = self.values[list.index()] else { return Ok(Value::Undefined) };
        let (integers, strings) = (self.integers.len(), self.strings.len());
        for position in span.start..span.start + span.len {
            match self.objects[position as usize].value(attribute, self) {
                Some(Value::Boolean(boolean)) => push(&mut self.integers, boolean.into())?,
                Some(Value::Integer(integer)) => push(&mut self.integers, integer)?,
                Some(Value::Integers(span)) => append(&mut self.integers, span)?,
                Some(Value::String(text)) => push(&mut self.strings, text)?,
                Some(Value::Strings(span)) => append(&mut self.strings, span)?,
                _ => {}
            }
        }
        sort_and_dedup(&mut self.integers, integers);
        self.sort_strings(strings);
        let value = match is_of_strings {
            true => Value::Strings(since(strings, &self.strings)),
            false => Value::Integers(since(integers, &self.integers)),
        };
        let is_empty = self.integers.len() == integers && self.strings.len() == strings;
        Ok(if is_empty { Value::Undefined } else { value })
    }
}

/// Appends a part of `table` to it.
fn append<T: Copy>(table: &mut Vec<T>, part: Span) -> Result<(), Error> {
    table.try_reserve(part.len as usize).map_err(out_of_memory)?;
    table.extend_from_within(part.start as usize..(part.start + part.len) as usize);
    Ok(())
}

impl<S: Source> Filler<'_, S> {
    /// Reads the objects of the list `id`.
    #[inline(never)]
    pub fn objects(&mut self, id: AttributeId, mut list: S::Elements) -> Read<()> {
        let outer = self.schema;
        let start = self.event.objects.len();
        // A queued look-up refers to a place among the event's own values, so those of objects are not queued.
        self.event.find_sought(self.strings);
        let is_far = mem::take(&mut self.is_far);
        let maps = self.maps.take();
        let any_unfit = mem::take(&mut self.any_unfit);
        let mismatches = self.event.mismatches;
        self.schema = outer.objects(id);
        self.base = outer.len();
        let read = self.each_object(&mut list);
        self.event.values.truncate(self.base);
        self.base = 0;
        self.schema = outer;
        self.maps = maps;
        self.is_far = is_far;
        self.any_unfit = any_unfit;
        read.map_err(|error| {
            // A misfit list counts once, without the misfits in it.
            self.event.mismatches = mismatches;
            let number = self.event.objects.len() - start + 1;
            within(&outer.attribute(id).name, number, *error)
        })?;
        self.set(id, Value::Objects(since(start, &self.event.objects)));
        Ok(())
    }

    fn each_object(&mut self, list: &mut S::Elements) -> Read<()> {
        while self.source.next(list)? {
            if let Some(maps) = &mut self.maps {
                maps.forget();
            }
            self.event.begin_object(self.schema, self.base)?;
            let names = self.source.names()?;
            let names = self.expect(names, S::MAP)?;
            self.members(names)?;
            self.settle_unfit()?;
            check_required(self.schema, &self.event.values[self.base..], "it")?;
            self.event.end_object(self.base)?;
        }
        Ok(())
    }
}
