//! Decodes bytes of any format into an [`Event`], each value by the type of its attribute.

use crate::error::{Error, Kind};
use crate::event::errors::check_required;
use crate::event::filler::Filler;
use crate::event::formats::json::{in_characters, Json};
use crate::event::formats::prepared;
#[cfg(feature = "terms")]
use crate::event::formats::records::Records;
use crate::event::strict::check_names;
use crate::event::Event;
use crate::model::schema::Schema;
use crate::model::strings::Interner;
#[cfg(feature = "terms")]
use crate::term::Reader;

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
    /// Like `Term`, but unknown names are refused.
    StrictTerm,
    /// Like `Json`, but unknown names are refused.
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

/// The encoding of an event, and the treatment of misfit values, which do not fit their attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// The format of the bytes.
    pub format: Format,
    /// Whether misfit values of all optional attributes count as undefined. Otherwise only those of the attributes of
    /// [`Schema::forgive`] do.
    pub forgiving: bool,
}

impl Encoding {
    /// The bit of a code that makes an encoding forgiving.
    const FORGIVING: i32 = 16;

    /// Returns the encoding with the number `code`: the number of a format, plus 16 if it is forgiving.
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

/// Decodes `bytes` into `event`, which is emptied first. Known strings get their ids in `strings`.
///
/// - A misfit value is an error, or counts as undefined (see [`Encoding`]). In a list of objects that applies to each
///   value of an object; a list with an element that is no object is a misfit itself.
/// - Unknown names are skipped with their values, or refused in a strict format. Of repeated names, the last value counts
///   in JSON, and the first that is not undefined in terms.
/// - Only an integer token is an integer: `1.0` is none, in JSON and in terms. An integer may stand for a float.
/// - The bounds of an attribute apply to the constants of expressions. A value of an event may lie outside of them.
/// - Undefined stands for a whole value, or for the time of a frequency cap. A list with an undefined element is a misfit.
/// - An atom stands for the string that is its name, but `true`, `false`, `nil` and `undefined` are no strings.
/// - The attribute `user.city` is the field `city` of the map, or JSON object, in field `user`. If the map is missing or
///   undefined, so are its fields. Of repeated maps, the last counts in JSON, and the first in terms.
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
        // One copy of all bytes is faster than a copy per string.
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

/// Checks the names of an event in a strict format. Returns the format for reading its values.
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
