//! Reads the values of an event, of any format, into the tables of the event.

use crate::error::{Error, Kind};
#[cfg(feature = "terms")]
use crate::event::formats::records::Records;
use crate::event::formats::source::{Read, Source};
use crate::event::map_log::Maps;
use crate::event::tables::{push, since, sort_and_dedup};
use crate::event::{Cap, Event, Place, Segment, Span, Text, Value, MAX_UNSORTED_STRINGS};
use crate::model::address::Address;
use crate::model::fields::FieldId;
use crate::model::predicate::{CapType, Entity, Float};
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::model::time::{self, Unit};
use crate::support::hash::out_of_memory;
#[cfg(feature = "terms")]
use crate::term::{self, Elements, Reader};

/// Fills an event from a source.
pub(super) struct Filler<'a, S> {
    pub source: S,
    pub schema: &'a Schema,
    pub strings: &'a Interner,
    pub event: &'a mut Event,
    /// Whether look-ups of string ids are queued and run in batches.
    pub is_far: bool,
    /// The maps read so far; empty until the first one.
    pub maps: Option<Box<Maps>>,
    /// Whether misfit values of all optional attributes count as undefined.
    pub forgiving: bool,
    /// Whether some value of the event or the current object is [`Value::Unfit`], or a map may be.
    pub any_unfit: bool,
    /// The offset of the current values: 0 for the event; an object's values follow those of the event.
    pub base: usize,
}

impl<'a, S> Filler<'a, S> {
    pub fn new(source: S, schema: &'a Schema, strings: &'a Interner, event: &'a mut Event, forgiving: bool) -> Self {
        let is_far = strings.is_far();
        Filler { source, schema, strings, event, is_far, maps: None, forgiving, any_unfit: false, base: 0 }
    }
}

#[cfg(feature = "terms")]
impl Filler<'_, Reader<'_>> {
    /// Reads values in the order of the schema.
    pub fn record(&mut self) -> Read<()> {
        let mut values = match self.source.peek()? {
            term::Kind::List => self.source.list()?,
            term::Kind::Tuple => Elements::of_tuple(self.source.tuple()?),
            _ => return Err(self.source.mismatch("an event that is a list or a tuple of values").into()),
        };
        let (given, expected) = (values.left(), self.schema.len());
        if given != expected {
            let message = format!("the event has {given} values for {expected} attributes; give one for each");
            return Err(Error::new(Kind::Type, message).into());
        }
        let mut position = 0;
        while self.source.next(&mut values)? {
            let id = AttributeId::from_index(position);
            match self.bit(id) {
                Some(boolean) => self.set(id, Value::Boolean(boolean)),
                None => self.attribute(id)?,
            }
            position += 1;
        }
        Ok(self.source.finish()?)
    }

    /// Reads a `1` or `0` that stands for the boolean of attribute `id`.
    #[inline]
    fn bit(&mut self, id: AttributeId) -> Option<bool> {
        if self.schema.attribute(id).ty == Type::Boolean {
            self.source.bit_if()
        } else {
            None
        }
    }
}

#[cfg(feature = "terms")]
impl Filler<'_, Records<'_>> {
    /// Reads the values of all records in the order of the schema.
    pub fn records(&mut self) -> Read<()> {
        let records = self.source.list()?;
        let mut records = self.expect(records, Records::EVENT)?;
        let mut position = 0;
        while self.source.next(&mut records)? {
            let mut values = self.tuple("a record, a tuple with its name in front")?;
            self.field(&mut values)?;
            self.source.skip()?;
            while self.source.next(&mut values.elements)? {
                if position == self.schema.len() {
                    if self.source.undefined()? {
                        continue;
                    }
                    let message = format!("the event has more values than there are attributes, which are {position}");
                    return Err(Error::new(Kind::Type, message).into());
                }
                self.attribute(AttributeId::from_index(position))?;
                position += 1;
            }
        }
        self.source.finish()
    }
}

impl<S: Source> Filler<'_, S> {
    /// Reads values under names.
    pub fn named(&mut self) -> Read<()> {
        let names = self.source.names()?;
        let names = self.expect(names, S::EVENT)?;
        self.members(names)?;
        self.source.finish()?;
        self.settle_unfit()
    }

    /// Reads the names and values of the event, or of an object in a list. Inlined into the loop over objects too,
    /// because a call would slow flat events down.
    #[cfg_attr(feature = "terms", inline(always))]
    pub fn members(&mut self, mut names: S::Names) -> Read<()> {
        let schema = self.schema;
        let fields = schema.fields();
        while let Some(known) = self.source.name(&mut names, |name| fields.outer(name.hash, name.bytes))? {
            match known {
                Some(id) if S::LAST_COUNTS || self.is_missing(id) => self.read_field(id)?,
                _ => self.source.skip()?,
            }
        }
        Ok(())
    }

    /// Returns whether field `id` has not been read yet. Always true for a map.
    #[inline]
    pub fn is_missing(&self, id: FieldId) -> bool {
        self.event.values.get(self.base + id.index()).is_none_or(|value| *value == Value::Undefined)
    }

    /// Reads the value of attribute `id`.
    #[cfg(feature = "terms")]
    #[inline]
    fn attribute(&mut self, id: AttributeId) -> Read<()> {
        self.read_field(FieldId::from_index(id.index()))
    }

    /// Reads the value of a field. A call per name would slow flat events down.
    #[inline(always)]
    pub fn read_field(&mut self, id: FieldId) -> Read<()> {
        match self.schema.fields().plain(id) {
            Some(ty) => {
                let id = AttributeId::from_index(id.index());
                let start = self.source.place();
                match self.value(id, ty) {
                    Ok(()) => Ok(()),
                    Err(error) => self.unfit(id, start, error),
                }
            }
            None => self.unusual_field(id),
        }
    }

    /// Reads a map, or a value that needs conversion.
    #[inline(never)]
    fn unusual_field(&mut self, id: FieldId) -> Read<()> {
        let Some(id) = self.schema.fields().attribute(id) else { return self.map(id) };
        let start = self.source.place();
        self.converted(id).or_else(|error| self.unfit(id, start, error))
    }

    /// Reads the value of attribute `id`, whose type is `ty`.
    #[inline(always)]
    pub fn value(&mut self, id: AttributeId, ty: Type) -> Read<()> {
        // Each arm stores its value: returning it would take longer than reading it.
        let is_found = match ty {
            Type::Boolean => self.source.boolean()?.map(|boolean| self.set(id, Value::Boolean(boolean))),
            Type::Integer | Type::IntegerEnum => {
                self.source.integer()?.map(|integer| self.set(id, Value::Integer(integer)))
            }
            // `Float` has one zero, as constants do.
            Type::Float => self.source.float()?.map(|float| self.set(id, Value::Float(Float::new(float).get()))),
            Type::String => match self.string()? {
                Some((text, hash)) => {
                    self.set(id, Value::String(text));
                    Some(self.seek(hash, Place::Value(id))?)
                }
                None => None,
            },
            Type::IntegerList => match self.source.list()? {
                Some(list) => Some(self.integers(id, list)?),
                None => None,
            },
            Type::StringList => match self.source.list()? {
                Some(list) => Some(self.strings(id, list)?),
                None => None,
            },
            Type::Segments => match self.source.list()? {
                Some(list) => Some(self.segments(id, list)?),
                None => None,
            },
            Type::FrequencyCaps => match self.source.list()? {
                Some(list) => Some(self.caps(id, list)?),
                None => None,
            },
            Type::ObjectList => match self.source.list()? {
                Some(list) => Some(self.objects(id, list)?),
                None => None,
            },
            Type::Ip => self.address(id)?,
            Type::DateTime => self.time(self.schema.unit(id))?.map(|micros| self.set(id, Value::Integer(micros))),
        };
        // Undefined comes last, because most values are defined.
        if is_found.is_some() {
            return Ok(());
        }
        if self.source.undefined()? {
            self.set(id, Value::Undefined);
            return Ok(());
        }
        Err(self.mismatch_of(ty))
    }

    /// Returns the error that the next value is not of type `ty`.
    #[cold]
    pub fn mismatch_of(&mut self, ty: Type) -> Box<Error> {
        self.mismatch(match ty {
            Type::Boolean => "true or false",
            Type::Integer | Type::IntegerEnum => "an integer",
            Type::Float => S::FLOAT,
            Type::String => "a string",
            Type::IntegerList => "a list of integers",
            Type::StringList => "a list of strings",
            Type::Segments => "a list of segments",
            Type::FrequencyCaps => "a list of frequency caps",
            Type::ObjectList => "a list of objects",
            Type::Ip => S::ADDRESS,
            Type::DateTime => S::TIME,
        })
    }

    #[inline]
    pub fn set(&mut self, id: AttributeId, value: Value) {
        self.event.values[self.base + id.index()] = value;
    }

    /// Reads a string, and returns it with its hash. Its id is looked up later if look-ups are queued.
    #[inline]
    pub fn string(&mut self) -> Read<Option<(Text, u64)>> {
        let Filler { source, strings, event, is_far, .. } = self;
        let text = source.string(|string| {
            let known = if *is_far { None } else { strings.find_hashed(string.hash, string.bytes) };
            let len = string.bytes.len();
            let start = match string.end {
                Some(end) => end - len,
                None => event.take_in(string.bytes)?,
            };
            let bytes = Span { start: start as u32, len: len as u32 };
            Ok((Text { id: known.unwrap_or(StringId::UNKNOWN), bytes }, string.hash))
        })?;
        text.transpose()
    }

    /// Queues the look-up of the string at `place`, if look-ups are queued.
    #[inline]
    pub fn seek(&mut self, hash: u64, place: Place) -> Read<()> {
        if self.is_far {
            self.event.seek(hash, place, self.strings)?;
        }
        Ok(())
    }

    fn integers(&mut self, id: AttributeId, mut list: S::Elements) -> Read<()> {
        let start = self.event.integers.len();
        while self.source.next(&mut list)? {
            let integer = self.integer("an integer in the list")?;
            push(&mut self.event.integers, integer)?;
        }
        sort_and_dedup(&mut self.event.integers, start);
        self.set(id, Value::Integers(since(start, &self.event.integers)));
        Ok(())
    }

    fn strings(&mut self, id: AttributeId, mut list: S::Elements) -> Read<()> {
        let start = self.event.strings.len();
        while self.source.next(&mut list)? {
            let (text, hash) = self.text("a string in the list")?;
            let place = Place::Element(self.event.strings.len() as u32);
            push(&mut self.event.strings, text)?;
            self.seek(hash, place)?;
        }
        if self.event.strings.len() - start > MAX_UNSORTED_STRINGS {
            // Strings are sorted by id, which queued look-ups do not have yet.
            self.event.find_sought(self.strings);
        }
        self.event.sort_strings(start);
        self.set(id, Value::Strings(since(start, &self.event.strings)));
        Ok(())
    }

    fn segments(&mut self, id: AttributeId, mut list: S::Elements) -> Read<()> {
        let start = self.event.segments.len();
        while self.source.next(&mut list)? {
            let mut fields = self.tuple("a segment as a pair of its id and microseconds")?;
            self.field(&mut fields)?;
            let id = self.integer("an integer as a segment's id")?;
            self.field(&mut fields)?;
            let micros = self.integer("an integer as a segment's microseconds")?;
            self.end(&mut fields)?;
            push(&mut self.event.segments, Segment { id, micros })?;
        }
        self.set(id, Value::Segments(since(start, &self.event.segments)));
        Ok(())
    }

    fn caps(&mut self, id: AttributeId, mut list: S::Elements) -> Read<()> {
        let start = self.event.caps.len();
        while self.source.next(&mut list)? {
            let cap = self.frequency_cap()?;
            push(&mut self.event.caps, cap)?;
        }
        self.set(id, Value::Caps(since(start, &self.event.caps)));
        Ok(())
    }

    /// Reads a time: a number of `unit`, an ISO 8601 string, or the format's own form.
    fn time(&mut self, unit: Unit) -> Read<Option<i64>> {
        let start = self.source.place();
        if let Some(integer) = self.source.integer()? {
            return match unit.of_integer(integer) {
                Some(micros) => Ok(Some(micros)),
                None => Err(self.late(start)),
            };
        }
        if unit != Unit::Microsecond {
            if let Some(float) = self.source.float()? {
                return match unit.of_float(float) {
                    Some(micros) => Ok(Some(micros)),
                    None => Err(self.late(start)),
                };
            }
        }
        let read = match self.source.string(|text| time::parse(text.bytes))? {
            Some(read) => read,
            None => self.source.time()?,
        };
        if read.is_none() {
            self.source.back_to(start);
        }
        Ok(read)
    }

    /// Returns the error for the time at `start`.
    #[cold]
    fn late(&mut self, start: usize) -> Box<Error> {
        self.source.back_to(start);
        let message = "the time does not fit 64 bits of microseconds; is its unit another one?";
        self.source.locate(Error::new(Kind::OutOfBounds, message)).into()
    }

    /// Reads an address as a string, or as a tuple of 4 or 8 integers. Returns `None` if no address comes next.
    fn address(&mut self, id: AttributeId) -> Read<Option<()>> {
        let start = self.source.place();
        let read = match self.source.string(|text| Address::parse(text.bytes))? {
            Some(read) => read,
            None => self.numbered_address()?,
        };
        let Some(address) = read else {
            self.source.back_to(start);
            return Ok(None);
        };
        let addresses = &mut self.event.addresses;
        // Each attribute of the event has a fixed place, so repeated names take no more memory.
        let position = if self.base == 0 { id.index() } else { addresses.len().max(self.base) };
        if position >= addresses.len() {
            addresses.try_reserve(position + 1 - addresses.len()).map_err(out_of_memory)?;
            addresses.resize(position + 1, address);
        }
        addresses[position] = address;
        self.set(id, Value::Address(position as u32));
        Ok(Some(()))
    }

    /// Reads an address as a tuple of numbers, four bytes or eight pairs of bytes.
    fn numbered_address(&mut self) -> Read<Option<Address>> {
        let Some(mut elements) = self.source.tuple()? else { return Ok(None) };
        let mut numbers = [0; 8];
        let mut count = 0;
        while self.source.next(&mut elements)? {
            let number = self.source.integer()?.and_then(|number| u16::try_from(number).ok());
            let (Some(number), Some(place)) = (number, numbers.get_mut(count)) else { return Ok(None) };
            *place = number;
            count += 1;
        }
        Ok(match (count, numbers) {
            (4, [a, b, c, d, ..]) => {
                let [a, b, c, d] = [a, b, c, d].map(u8::try_from);
                match (a, b, c, d) {
                    (Ok(a), Ok(b), Ok(c), Ok(d)) => Some(Address::v4([a, b, c, d])),
                    _ => None,
                }
            }
            (8, numbers) => {
                let mut bytes = [0; 16];
                for (pair, number) in bytes.chunks_exact_mut(2).zip(numbers) {
                    pair.copy_from_slice(&number.to_be_bytes());
                }
                Some(Address::v6(bytes))
            }
            _ => None,
        })
    }

    fn frequency_cap(&mut self) -> Read<Cap> {
        let mut fields = self.tuple("a frequency cap as a triple of its key, value and microseconds")?;
        self.field(&mut fields)?;
        let mut key = self.tuple("a frequency cap's key as a triple of its type, id and namespace")?;
        self.field(&mut key)?;
        let cap = self.cap_type()?;
        self.field(&mut key)?;
        let id = self.integer("an integer as a frequency cap's id")?;
        self.field(&mut key)?;
        let (text, hash) = self.text("a string as a frequency cap's namespace")?;
        let found = self.strings.find_hashed(hash, self.event.text(text));
        let namespace = Text { id: found.unwrap_or(StringId::UNKNOWN), ..text };
        self.end(&mut key)?;
        self.field(&mut fields)?;
        let value = self.integer("an integer as a frequency cap's value")?;
        self.field(&mut fields)?;
        let micros = match self.source.undefined()? {
            true => None,
            false => Some(self.integer("an integer as a frequency cap's microseconds")?),
        };
        self.end(&mut fields)?;
        Ok(Cap { cap, id, namespace, value, micros })
    }

    fn cap_type(&mut self) -> Read<CapType> {
        let start = self.source.place();
        let cap = self.source.string(|name| CapType::parse(name.bytes))?;
        match cap.flatten() {
            Some(cap) => Ok(cap),
            None => {
                self.source.back_to(start);
                let names = Entity::NAMES.map(|(name, _, _)| name).join(", ");
                Err(self.mismatch(&format!("a frequency cap's type, one of {names}, each also with `:ip`")))
            }
        }
    }

    fn integer(&mut self, expected: &str) -> Read<i64> {
        let integer = self.source.integer()?;
        self.expect(integer, expected)
    }

    fn text(&mut self, expected: &str) -> Read<(Text, u64)> {
        let text = self.string()?;
        self.expect(text, expected)
    }

    fn tuple(&mut self, expected: &'static str) -> Read<Tuple<S::Elements>> {
        let start = self.source.place();
        let tuple = self.source.tuple()?;
        let elements = self.expect(tuple, expected)?;
        Ok(Tuple { elements, start, expected })
    }

    /// Moves to the next field of `tuple`, which must have one more.
    fn field(&mut self, tuple: &mut Tuple<S::Elements>) -> Read<()> {
        match self.source.next(&mut tuple.elements)? {
            true => Ok(()),
            false => Err(self.wrong_arity(tuple)),
        }
    }

    /// Moves to the end of `tuple`, which must have no more fields.
    fn end(&mut self, tuple: &mut Tuple<S::Elements>) -> Read<()> {
        match self.source.next(&mut tuple.elements)? {
            true => Err(self.wrong_arity(tuple)),
            false => Ok(()),
        }
    }

    #[cold]
    fn wrong_arity(&mut self, tuple: &Tuple<S::Elements>) -> Box<Error> {
        self.source.back_to(tuple.start);
        self.mismatch(tuple.expected)
    }

    pub fn expect<T>(&mut self, found: Option<T>, expected: &str) -> Read<T> {
        found.ok_or_else(|| self.mismatch(expected))
    }

    /// Returns the error that the next value is not `expected`.
    #[cold]
    pub fn mismatch(&mut self, expected: &str) -> Box<Error> {
        match self.source.kind_of_next() {
            Ok(given) => {
                self.source.locate(Error::new(Kind::Type, format!("expected {expected}, given {given}"))).into()
            }
            Err(error) => error,
        }
    }
}

/// A tuple that is being read.
struct Tuple<E> {
    elements: E,
    /// The start of the tuple, for an error about the number of its fields.
    start: usize,
    expected: &'static str,
}
