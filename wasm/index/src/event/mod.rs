//! An event: one value, or none, for each attribute of a schema.

mod decode;
pub(crate) mod digest;
pub(crate) mod formats;
pub(crate) mod key;
#[cfg(test)]
mod tests;

pub use decode::{decode, Format};

use crate::error::Error;
use crate::model::predicate::CapType;
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::support::hash::out_of_memory;

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
    /// Strings in [`Event::strings`], in the order of the event or, where they are many, of their ids.
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
    /// The encoded event, in which most strings are as they are, and behind it the others. Empty where no attribute has
    /// strings.
    pub bytes: Vec<u8>,
    /// The elements of integer lists.
    pub integers: Vec<i64>,
    /// The elements of string lists.
    pub strings: Vec<Text>,
    /// The elements of segment lists.
    pub segments: Vec<Segment>,
    /// The elements of frequency cap lists.
    pub caps: Vec<Cap>,
    /// The strings whose ids are still to be looked up.
    sought: Vec<Sought>,
}

/// A string of an event whose id is not known yet.
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

/// Lists of no more strings than this are in the order of the event, and looked through. Longer ones are sorted.
pub(crate) const FEW: usize = 16;

/// Whether one of `texts`, a list of an event, has this id.
#[inline]
pub(crate) fn has_string(texts: &[Text], id: StringId) -> bool {
    if texts.len() <= FEW {
        texts.iter().any(|text| text.id == id)
    } else {
        texts.binary_search_by_key(&id, |text| text.id).is_ok()
    }
}

/// So many strings are looked up at once, where they are many and far away.
const SOUGHT: usize = 32;

impl Event {
    /// Empties the event and makes room for `attributes` values, all undefined. Errors: out of memory.
    pub fn reset(&mut self, attributes: usize) -> Result<(), Error> {
        self.values.clear();
        reserve(&mut self.values, attributes)?;
        self.values.resize(attributes, Value::Undefined);
        self.bytes.clear();
        self.integers.clear();
        self.strings.clear();
        self.segments.clear();
        self.caps.clear();
        self.sought.clear();
        Ok(())
    }

    /// Makes room for an event of `bytes` bytes over `schema`, so that decoding one allocates nothing.
    pub fn reserve(&mut self, schema: &Schema, bytes: usize) -> Result<(), Error> {
        let has = |types: &[Type]| schema.attributes().iter().any(|attribute| types.contains(&attribute.ty));
        reserve(&mut self.values, schema.len())?;
        if schema.has_strings() {
            // The event itself, and as names of atoms in Latin-1 may be written, which double.
            reserve(&mut self.bytes, 3 * bytes)?;
            reserve(&mut self.sought, SOUGHT)?;
        }
        // The fewest bytes that an element takes in any format: an integer 1, a string 2, a segment 4, a cap 8.
        if has(&[Type::IntegerList]) {
            reserve(&mut self.integers, bytes)?;
        }
        if has(&[Type::StringList]) {
            reserve(&mut self.strings, bytes / 2)?;
        }
        if has(&[Type::Segments]) {
            reserve(&mut self.segments, bytes / 4)?;
        }
        if has(&[Type::FrequencyCaps]) {
            reserve(&mut self.caps, bytes / 8)?;
        }
        Ok(())
    }

    /// Sorts the list of strings from `start` on, whose ids are known, if it is long: expressions that ask for many strings
    /// then take time that is linear in what they ask for.
    #[inline]
    fn sort_strings(&mut self, start: usize) {
        if self.strings.len() - start > FEW {
            // Equal strings by their places, so that the order depends on the event alone.
            self.strings[start..].sort_unstable_by_key(|text| (text.id, text.bytes.start));
        }
    }

    /// Takes in bytes for strings, and answers where they start.
    fn take_in(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let start = self.bytes.len();
        self.bytes.try_reserve(bytes.len()).map_err(out_of_memory)?;
        self.bytes.extend_from_slice(bytes);
        Ok(start)
    }

    /// Has the string at `place`, which has this hash, looked up.
    fn seek(&mut self, hash: u64, place: Place, strings: &Interner) -> Result<(), Error> {
        if self.sought.len() == SOUGHT {
            self.find_sought(strings);
        }
        self.sought.try_reserve(1).map_err(out_of_memory)?;
        self.sought.push(Sought { hash, place });
        Ok(())
    }

    /// Looks up the strings that are sought.
    fn find_sought(&mut self, strings: &Interner) {
        strings.prefetch(self.sought.iter().map(|sought| sought.hash));
        for sought in &self.sought {
            let text = match sought.place {
                Place::Element(place) => &mut self.strings[place as usize],
                Place::Value(attribute) => match &mut self.values[attribute as usize] {
                    Value::String(text) => text,
                    // It was given again, as undefined.
                    _ => continue,
                },
            };
            // If it was given again, as another string, that has its turn later.
            let found = strings.find_hashed(sought.hash, text.bytes.of(&self.bytes));
            text.id = found.unwrap_or(StringId::UNKNOWN);
        }
        self.sought.clear();
    }

    /// The bytes of `text`.
    pub fn text(&self, text: Text) -> &[u8] {
        text.bytes.of(&self.bytes)
    }
}

fn reserve<T>(table: &mut Vec<T>, len: usize) -> Result<(), Error> {
    table.try_reserve(len.saturating_sub(table.len())).map_err(out_of_memory)
}
