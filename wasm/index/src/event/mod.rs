//! An event: a value, or undefined, for each attribute of a schema.

mod convert;
mod decode;
pub(crate) mod digest;
mod errors;
mod filler;
pub(crate) mod formats;
pub(crate) mod key;
mod lowered;
mod map_log;
mod maps;
mod objects;
mod scalars;
mod strict;
mod tables;
#[cfg(test)]
mod tests;
mod unfit;

pub use decode::{decode, Encoding, Format};
pub use lowered::LoweredStrings;
pub use objects::Object;
pub use scalars::{Names, Scalar, Scalars};

use crate::error::Error;
use crate::model::address::Address;
use crate::model::predicate::CapType;
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::support::hash::out_of_memory;

/// A range of one of an [`Event`]'s tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The position of the first element.
    pub start: u32,
    /// The number of elements.
    pub len: u32,
}

impl Span {
    /// Returns the elements of `table` in this range.
    pub fn of<T>(self, table: &[T]) -> &[T] {
        &table[self.start as usize..][..self.len as usize]
    }
}

/// A string of an event: its id, if the index knows it, and its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// The id, or [`StringId::UNKNOWN`] if no expression contains the string.
    pub id: StringId,
    /// The bytes, in [`Event::bytes`].
    pub bytes: Span,
}

/// A segment and the time it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The segment's id.
    pub id: i64,
    /// The time, in microseconds since the epoch.
    pub micros: i64,
}

/// A counter that frequency caps read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The type of the thing that the counter belongs to.
    pub cap: CapType,
    /// The id of the flight, campaign or the like.
    pub id: i64,
    /// The counter's namespace.
    pub namespace: Text,
    /// The count.
    pub value: i64,
    /// The time of the last count in microseconds, if there was one.
    pub micros: Option<i64>,
}

/// The value of one attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// The event has no value for the attribute.
    Undefined,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer, an enum, or a time.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// A string.
    String(Text),
    /// Integers in [`Event::integers`], sorted and without duplicates.
    Integers(Span),
    /// Strings in [`Event::strings`], in the order of the event, or in the order of their ids if there are many.
    Strings(Span),
    /// Segments in [`Event::segments`], in the order of the event.
    Segments(Span),
    /// Caps in [`Event::caps`], in the order of the event.
    Caps(Span),
    /// Objects in [`Event::objects`], in the order of the event.
    Objects(Span),
    /// The position of an address in [`Event::addresses`].
    Address(u32),
    /// All of [`Event::patterns`]: the value of the index's own attribute.
    Patterns,
    /// Only while decoding: the value at this offset of the event's bytes is a misfit.
    Unfit(u32),
}

/// A decoded event. Searches reuse one event, so decoding allocates nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// One value for each attribute of the schema.
    pub values: Vec<Value>,
    /// The encoded event, which contains most strings unescaped, followed by the other strings. Empty if no attribute
    /// has strings.
    pub bytes: Vec<u8>,
    /// The elements of integer lists.
    pub integers: Vec<i64>,
    /// The elements of string lists.
    pub strings: Vec<Text>,
    /// The elements of segment lists.
    pub segments: Vec<Segment>,
    /// The elements of frequency cap lists.
    pub caps: Vec<Cap>,
    /// The objects of lists.
    pub objects: Vec<Object>,
    /// The defined values of objects.
    pub object_values: Vec<Value>,
    /// Internet addresses, at the place of their attribute or in the order of a prepared event, then those of objects.
    pub addresses: Vec<Address>,
    /// The lowercased strings of some attributes, once [`Event::lower`] has added them.
    pub lowered: LoweredStrings,
    /// The numbers of the patterns that match the event, once a search has found them.
    pub patterns: Vec<i64>,
    /// The number of misfit values that count as undefined.
    pub mismatches: u32,
    /// Strings whose ids are not looked up yet.
    sought: Vec<Sought>,
}

/// A string of an event whose id is not looked up yet.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sought {
    hash: u64,
    place: Place,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The value of an attribute.
    Value(AttributeId),
    /// An element of a list of strings.
    Element(u32),
}

/// The longest list of strings that is searched linearly, in the order of the event. Longer lists are sorted.
pub(crate) const MAX_UNSORTED_STRINGS: usize = 16;

/// Returns whether one of `texts`, a list of an event, has this id.
#[inline]
pub(crate) fn has_string(texts: &[Text], id: StringId) -> bool {
    if texts.len() <= MAX_UNSORTED_STRINGS {
        texts.iter().any(|text| text.id == id)
    } else {
        texts.binary_search_by_key(&id, |text| text.id).is_ok()
    }
}

/// The number of strings that are looked up together, if the string table exceeds the caches.
const STRINGS_AT_ONCE: usize = 32;

impl Event {
    /// Makes all attributes undefined. Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn reset(&mut self, schema: &Schema) -> Result<(), Error> {
        self.values.clear();
        // A search adds the values of the index's internal attributes.
        reserve(&mut self.values, schema.all_attributes().len())?;
        self.values.resize(schema.len(), Value::Undefined);
        self.bytes.clear();
        self.integers.clear();
        self.strings.clear();
        self.segments.clear();
        self.caps.clear();
        self.objects.clear();
        self.object_values.clear();
        self.addresses.clear();
        self.lowered.clear();
        self.patterns.clear();
        self.mismatches = 0;
        self.sought.clear();
        Ok(())
    }

    /// Reserves the tables for an event of `bytes` bytes over `schema`. Decoding such an event then allocates nothing.
    pub fn reserve(&mut self, schema: &Schema, bytes: usize) -> Result<(), Error> {
        let has = |types: &[Type]| schema.attributes().iter().any(|attribute| types.contains(&attribute.ty));
        let objects = || schema.lists().map(|(list, _)| schema.objects(list));
        let of_objects = |types: &[Type]| {
            objects().flat_map(|objects| objects.attributes()).any(|attribute| types.contains(&attribute.ty))
        };
        // While an object is read, its values follow those of the event.
        let longest = objects().map(|objects| objects.len()).max().unwrap_or(0);
        reserve(&mut self.values, schema.all_attributes().len().max(schema.len() + longest))?;
        if schema.has_strings() {
            // The event itself, and the names of atoms: Latin-1 takes twice the bytes in UTF-8.
            reserve(&mut self.bytes, 3 * bytes)?;
            reserve(&mut self.sought, STRINGS_AT_ONCE)?;
        }
        // The fewest bytes of an element in any format: an integer 1, a string 2, a segment 4, a cap 8. The values of objects come
        // once more in columns.
        const IN_COLUMNS: [Type; 5] =
            [Type::Boolean, Type::Integer, Type::IntegerEnum, Type::IntegerList, Type::DateTime];
        let columns = usize::from(of_objects(&IN_COLUMNS));
        reserve(&mut self.integers, bytes * (2 * columns).max(usize::from(has(&[Type::IntegerList]))))?;
        let columns = usize::from(of_objects(&[Type::String, Type::StringList]));
        reserve(&mut self.strings, bytes / 2 * (2 * columns).max(usize::from(has(&[Type::StringList]))))?;
        if has(&[Type::Segments]) {
            reserve(&mut self.segments, bytes / 4)?;
        }
        if has(&[Type::FrequencyCaps]) {
            reserve(&mut self.caps, bytes / 8)?;
        }
        if has(&[Type::ObjectList]) {
            // The fewest bytes of an object are 1, and of a value under a name 3.
            reserve(&mut self.objects, bytes)?;
            reserve(&mut self.object_values, bytes / 3)?;
        }
        let last = schema.attributes().iter().rposition(|attribute| attribute.ty == Type::Ip);
        let addresses = if of_objects(&[Type::Ip]) { schema.len() + bytes / 3 } else { 0 };
        reserve(&mut self.addresses, addresses.max(last.map_or(0, |last| last + 1)))
    }

    /// Reserves the lower case of `attributes` strings in an event of `bytes` bytes. Lowering them then allocates
    /// nothing. Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn reserve_lowered(&mut self, attributes: usize, bytes: usize) -> Result<(), Error> {
        self.lowered.reserve(attributes, bytes)
    }

    /// Adds the lower case of the strings of `attributes`, in ascending order. Call it once, after decoding.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub(crate) fn lower(&mut self, attributes: impl Iterator<Item = AttributeId>) -> Result<(), Error> {
        let Event { values, bytes, lowered, .. } = self;
        for attribute in attributes {
            if let Value::String(text) = values[attribute.index()] {
                lowered.push(attribute, text.bytes.of(bytes))?;
            }
        }
        Ok(())
    }

    /// Reserves the numbers of `patterns` patterns. Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn reserve_patterns(&mut self, patterns: usize) -> Result<(), Error> {
        reserve(&mut self.patterns, patterns)
    }

    /// Sorts the list of strings from `start` on if it is long. The ids are known. A predicate with many strings then takes
    /// time linear in their number.
    #[inline]
    fn sort_strings(&mut self, start: usize) {
        if self.strings.len() - start > MAX_UNSORTED_STRINGS {
            // Ties are broken by position, so the order depends on the event alone.
            self.strings[start..].sort_unstable_by_key(|text| (text.id, text.bytes.start));
        }
    }

    /// Appends bytes of strings, and returns their start.
    fn take_in(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let start = self.bytes.len();
        self.bytes.try_reserve(bytes.len()).map_err(out_of_memory)?;
        self.bytes.extend_from_slice(bytes);
        Ok(start)
    }

    /// Queues the look-up of the string at `place`, which has this hash.
    fn seek(&mut self, hash: u64, place: Place, strings: &Interner) -> Result<(), Error> {
        if self.sought.len() == STRINGS_AT_ONCE {
            self.find_sought(strings);
        }
        self.sought.try_reserve(1).map_err(out_of_memory)?;
        self.sought.push(Sought { hash, place });
        Ok(())
    }

    /// Looks up all queued strings.
    fn find_sought(&mut self, strings: &Interner) {
        strings.prefetch(self.sought.iter().map(|sought| sought.hash));
        for sought in &self.sought {
            let text = match sought.place {
                Place::Element(place) => &mut self.strings[place as usize],
                Place::Value(attribute) => match &mut self.values[attribute.index()] {
                    Value::String(text) => text,
                    // A later value of the same name is undefined.
                    _ => continue,
                },
            };
            // A later string of the same name has a look-up of its own.
            let found = strings.find_hashed(sought.hash, text.bytes.of(&self.bytes));
            text.id = found.unwrap_or(StringId::UNKNOWN);
        }
        self.sought.clear();
    }

    /// Returns the bytes of `text`.
    pub fn text(&self, text: Text) -> &[u8] {
        text.bytes.of(&self.bytes)
    }
}

fn reserve<T>(table: &mut Vec<T>, len: usize) -> Result<(), Error> {
    table.try_reserve(len.saturating_sub(table.len())).map_err(out_of_memory)
}
