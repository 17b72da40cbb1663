//! Fills an [`Event`] from bytes: each value by the type of its attribute, in any format.

use crate::error::{quoted, Error, Kind};
use crate::event::formats::json::{in_characters, Json};
use crate::event::formats::prepared;
#[cfg(feature = "terms")]
use crate::event::formats::records::Records;
use crate::event::formats::source::{Read, Source};
use crate::event::maps::Maps;
use crate::event::strict::check_names;
use crate::event::{Cap, Event, Place, Segment, Span, Text, Value, FEW};
use crate::model::address::Address;
use crate::model::fields::FieldId;
use crate::model::predicate::{CapType, Entity, Float};
use crate::model::schema::{Attribute, AttributeId, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::model::time::{self, Unit};
use crate::support::hash::out_of_memory;
#[cfg(feature = "terms")]
use crate::term::{self, Elements, Reader};

/// The encoding of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An Erlang term: a map or a list of pairs from names to values.
    Term,
    /// A JSON object.
    Json,
    /// An Erlang term: a list or a tuple of values, in the order of the schema. `1` and `0` may stand for booleans.
    Record,
    /// An event of another format, decoded under a schema: see `prepared`.
    Prepared,
    /// An Erlang term: a list of records, tuples whose first element is skipped. The other elements are the values in the
    /// order of the schema, record after record. Missing values at the end are undefined, and values beyond the schema must
    /// be undefined. Nothing is converted: only a boolean is a boolean, an integer is no float, an atom is no string, and
    /// only `undefined` stands for undefined.
    Records,
    /// Like `Term`, but a name that the schema does not have is refused.
    StrictTerm,
    /// Like `Json`, but a name that the schema does not have is refused.
    StrictJson,
}

impl Format {
    /// Returns the format with the number `code`.
    ///
    /// Errors: [`Kind::Type`].
    #[inline]
    pub fn from_code(code: i32) -> Result<Format, Error> {
        match code {
            0 => Ok(Format::Term),
            1 => Ok(Format::Json),
            2 => Ok(Format::Record),
            3 => Ok(Format::Prepared),
            4 => Ok(Format::Records),
            5 => Ok(Format::StrictTerm),
            6 => Ok(Format::StrictJson),
            _ => {
                let message =
                    "an event's format is 0 (term), 1 (JSON), 2 (record), 3 (prepared), 4 (records), 5 (strict \
                               term) or 6 (strict JSON), each also plus 16";
                Err(Error::new(Kind::Type, message))
            }
        }
    }
}

/// The encoding of an event, and what is done with a value in it that does not fit its attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The format of the bytes.
    pub format: Format,
    /// Whether values that do not fit count as undefined, unless their attribute is required. Otherwise that holds for the
    /// attributes of [`Schema::forgive`].
    pub forgiving: bool,
}

impl Encoding {
    /// The bit of a code that makes an encoding forgiving.
    const FORGIVING: i32 = 16;

    /// Returns the encoding with the number `code`: that of a format, plus 16 if it is forgiving.
    ///
    /// Errors: [`Kind::Type`].
    #[inline]
    pub fn from_code(code: i32) -> Result<Encoding, Error> {
        let format = Format::from_code(code & !Self::FORGIVING)?;
        Ok(Encoding { format, forgiving: code & Self::FORGIVING != 0 })
    }
}

impl From<Format> for Encoding {
    fn from(format: Format) -> Self {
        Encoding { format, forgiving: false }
    }
}

/// Reads `bytes` into `event`, which is emptied first. Known strings get their ids in `strings`.
///
/// - A value that does not fit its attribute is an error, or counts as undefined (see [`Encoding`]). In a list of objects that
///   goes for the values of each object; a list with an element that is no such object does not fit itself.
/// - Names that the schema does not have are skipped with their values, or refused in a strict format. If a name is given more than
///   once, JSON's last value counts, and in terms the first value that is not undefined.
/// - Only an integer token is an integer: `1.0` is none, in JSON and in terms. An integer may stand for a float.
/// - The bounds of an attribute apply to the constants of expressions. A value of an event may lie outside of them.
/// - Undefined stands for a whole value, or for the time of a frequency cap. A list with an undefined element does not fit.
/// - An atom stands for the string that is its name, but `true`, `false`, `nil` and `undefined` are no strings.
/// - The attribute `user.city` is the field `city` of the map, or JSON object, in field `user`. If the map is missing or
///   undefined, so are its fields. Of several maps of one name JSON's last counts, and in terms the first.
/// - An attribute may convert values of other types: see `convert`.
///
/// Takes time and memory linear in the input, for any nesting, and time linear in the schema.
///
/// ```
/// use be_tree_index::event::{decode, Event, Format, Value};
/// use be_tree_index::model::strings::Interner;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut event = Event::default();
/// decode(Format::Json, br#"{"age": 30, "other": [1]}"#, &schema, &Interner::default(), &mut event)?;
/// assert_eq!(event.values, [Value::Integer(30), Value::Undefined]);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
///
/// # Errors
///
/// `syntax` if the bytes are not of the format, `type` if a value does not fit its attribute, `out_of_bounds` for numbers
/// beyond 64 bits and for input of 2 GiB or more, `missing_attribute` if a required attribute is undefined, and
/// `out_of_memory`. The content of the event is unspecified after an error.
#[inline]
pub fn decode(
    encoding: impl Into<Encoding>,
    bytes: &[u8],
    schema: &Schema,
    strings: &Interner,
    event: &mut Event,
) -> Result<(), Error> {
    decode_as(encoding.into(), bytes, schema, strings, event)
}

fn decode_as(
    Encoding { format, forgiving }: Encoding,
    bytes: &[u8],
    schema: &Schema,
    strings: &Interner,
    event: &mut Event,
) -> Result<(), Error> {
    // Spans have 32 bits, and Latin-1 atoms take twice the bytes in UTF-8.
    if bytes.len() > i32::MAX as usize {
        return Err(Error::new(Kind::OutOfBounds, "the event has 2 GiB or more; leave out what no expression reads"));
    }
    let format = check_names_of(format, bytes, schema)?;
    event.reset(schema)?;
    if schema.has_strings() && format != Format::Prepared {
        // All bytes at once, because copying string by string takes longer.
        event.take_in(bytes)?;
    }
    match format {
        #[cfg(feature = "terms")]
        Format::Term => Filler::new(Reader::new(bytes)?, schema, strings, event, forgiving).named(),
        Format::Json => Filler::new(Json::new(bytes), schema, strings, event, forgiving)
            .named()
            .map_err(|error| in_characters(error, bytes)),
        #[cfg(feature = "terms")]
        Format::Record => Filler::new(Reader::new(bytes)?, schema, strings, event, forgiving).record(),
        Format::Prepared => {
            prepared::read(bytes, schema, strings, event)?;
            return check_required(schema, &event.values, "the event");
        }
        #[cfg(feature = "terms")]
        Format::Records => Filler::new(Records(Reader::new(bytes)?), schema, strings, event, forgiving).records(),
        Format::StrictTerm | Format::StrictJson => unreachable!("their names were checked"),
        #[cfg(not(feature = "terms"))]
        Format::Term | Format::Record | Format::Records => {
            return Err(Error::new(Kind::Type, "this index reads no terms; give the event as JSON"));
        }
    }
    .map_err(|error| *error)?;
    event.find_sought(strings);
    check_required(schema, &event.values, "the event")
}

/// Checks the names of an event in a strict format. Returns the format in which its values are read.
fn check_names_of(format: Format, bytes: &[u8], schema: &Schema) -> Result<Format, Error> {
    match format {
        Format::StrictTerm => {
            #[cfg(feature = "terms")]
            check_names(Reader::new(bytes)?, schema).map_err(|error| *error)?;
            Ok(Format::Term)
        }
        Format::StrictJson => {
            check_names(Json::new(bytes), schema).map_err(|error| *in_characters(error, bytes))?;
            Ok(Format::Json)
        }
        other => Ok(other),
    }
}

/// Checks that each required attribute has a value. A message calls the event or the object `subject`.
pub(super) fn check_required(schema: &Schema, values: &[Value], subject: &str) -> Result<(), Error> {
    match schema.required().iter().find(|&&id| values[id.index()] == Value::Undefined) {
        None => Ok(()),
        Some(&id) => {
            let name = &schema.attribute(id).name;
            let message = format!("{subject} lacks attribute {}; give it a value or declare it optional", quoted(name));
            Err(Error::new(Kind::MissingAttribute, message).about(name))
        }
    }
}

/// Fills an event from a source.
pub(super) struct Filler<'a, S> {
    pub source: S,
    pub schema: &'a Schema,
    pub strings: &'a Interner,
    pub event: &'a mut Event,
    /// Whether ids of strings are looked up many at a time.
    pub is_far: bool,
    /// The maps that were read, once there is one.
    pub maps: Option<Box<Maps>>,
    /// Whether all optional attributes are forgiven a value that does not fit.
    pub forgiving: bool,
    /// Whether a value of the event, or of the object that is read, is [`Value::Unfit`], or a map may be unfit.
    pub any_unfit: bool,
    /// The position of the first value in the event's values: that of an object's values behind them, and otherwise 0.
    pub base: usize,
}

impl<'a, S> Filler<'a, S> {
    fn new(source: S, schema: &'a Schema, strings: &'a Interner, event: &'a mut Event, forgiving: bool) -> Self {
        let is_far = strings.is_far();
        Filler { source, schema, strings, event, is_far, maps: None, forgiving, any_unfit: false, base: 0 }
    }
}

#[cfg(feature = "terms")]
impl Filler<'_, Reader<'_>> {
    /// Reads values in the order of the schema.
    fn record(&mut self) -> Read<()> {
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
    fn records(&mut self) -> Read<()> {
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
    fn named(&mut self) -> Read<()> {
        let names = self.source.names()?;
        let names = self.expect(names, S::EVENT)?;
        self.members(names)?;
        self.source.finish()?;
        self.settle_unfit()
    }

    /// Reads the values under the names of the event itself, or of an object in a list. It is inlined into the loop over objects
    /// too, because a flat event would take longer with a call.
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

    /// Returns whether nothing was read for the field `id` yet. Of a map that is always so.
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

    /// Reads the value of a field. In the loop over the names of a flat event a call for each would take long.
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

    /// Reads a map, or a value that is converted.
    #[inline(never)]
    fn unusual_field(&mut self, id: FieldId) -> Read<()> {
        let Some(id) = self.schema.fields().attribute(id) else { return self.map(id) };
        let start = self.source.place();
        self.converted(id).or_else(|error| self.unfit(id, start, error))
    }

    /// Reads the value of attribute `id`, whose type is `ty`.
    #[inline(always)]
    pub fn value(&mut self, id: AttributeId, ty: Type) -> Read<()> {
        // Each arm stores its value, because returning the value takes longer than reading it.
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

    /// Returns the error for the next value, which is not of type `ty`.
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
        if self.event.strings.len() - start > FEW {
            // Strings are sorted by their ids, which queued look-ups do not have yet.
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

    /// Reads a time as a number of `unit`, as a string by ISO 8601, or as the format has times.
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
        // Each attribute of the event has a place of its own, so repeated names take no more room.
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

    /// Returns the error for the next value, which is not `expected`.
    #[cold]
    pub fn mismatch(&mut self, expected: &str) -> Box<Error> {
        match self.source.given() {
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

/// Returns the error with the attribute whose value is wrong.
pub(super) fn about(attribute: &Attribute, error: Error) -> Error {
    match error.kind {
        // An attribute of an object in a list is named already.
        Kind::Type | Kind::OutOfBounds if error.attribute.is_none() => {
            let Attribute { name, ty, .. } = attribute;
            let message = format!("attribute {} of type {}: {}", quoted(name), ty.name(), error.message);
            Error { message, ..error }.about(name)
        }
        _ => error,
    }
}

/// Appends `item` to `table`. Decoding an event must not abort.
#[inline]
pub(super) fn push<T>(table: &mut Vec<T>, item: T) -> Result<(), Error> {
    if table.len() == table.capacity() {
        table.try_reserve(1).map_err(out_of_memory)?;
    }
    table.push(item);
    Ok(())
}

/// Returns the range of `table` from `start` to its end.
pub(super) fn since<T>(start: usize, table: &[T]) -> Span {
    Span { start: start as u32, len: (table.len() - start) as u32 }
}

/// Sorts the elements from `start` on and removes duplicates.
pub(super) fn sort_and_dedup(table: &mut Vec<i64>, start: usize) {
    let added = &mut table[start..];
    if added.is_sorted_by(|a, b| a < b) {
        return;
    }
    added.sort_unstable();
    let mut distinct = 0;
    for i in 0..added.len() {
        if i == 0 || added[i] != added[distinct - 1] {
            added[distinct] = added[i];
            distinct += 1;
        }
    }
    table.truncate(start + distinct);
}
