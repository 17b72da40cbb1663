//! Reads events and checks them against the schema.

use crate::error::{Error, Kind};
use crate::expression::cap_constant;
use crate::json::Json;
use crate::schema::{find, Attribute, Schema, Type};
use crate::term::Reader;
use crate::value::{Shape, Value, Values};

/// Maximum bytes of an event. Creating the schema allocates the memory, so that searches allocate none.
pub const MAX_EVENT_BYTES: usize = 64 * 1024;

/// The format of a prepared event: the number of the original format, then the event.
pub const PREPARED: i32 = 3;

/// The values of one event, by attribute.
pub struct Event {
    pub attributes: Vec<Value>,
    pub values: Values,
}

impl Event {
    pub fn new(schema: &Schema) -> Self {
        Event { attributes: vec![Value::Undefined; schema.len()], values: Values::with_capacity(MAX_EVENT_BYTES) }
    }

    pub fn decode<'a>(&mut self, format: i32, bytes: &'a [u8], schema: &'a Schema) -> Result<(), Error<'a>> {
        let (format, bytes) = match bytes.split_first_chunk() {
            Some((inner, bytes)) if format == PREPARED => (i32::from_le_bytes(*inner), bytes),
            _ => (format, bytes),
        };
        if bytes.len() > MAX_EVENT_BYTES {
            return Err(Error::new(
                Kind::OutOfBounds,
                "the event has more than 65,536 bytes; this module reads no more",
            ));
        }
        self.values.clear();
        self.attributes.fill(Value::Undefined);
        match format {
            0 | 2 => {
                let mut reader = Reader::new(bytes)?;
                let event = reader.value(&mut self.values, 0)?;
                reader.finish()?;
                match format {
                    0 => self.named(event, schema, Shape::Tuple)?,
                    _ => self.record(event, schema)?,
                }
            }
            1 => {
                let mut json = Json::new(bytes)?;
                let event = json.value(&mut self.values, 0)?;
                json.finish()?;
                self.named(event, schema, Shape::List)?;
            }
            _ => return Err(Error::new(Kind::Type, "an event has a format from 0 to 3, and was prepared once")),
        }
        let lacks =
            |(attribute, value): &(&Attribute, &Value)| !attribute.optional && matches!(value, Value::Undefined);
        match schema.iter().zip(&self.attributes).find(lacks) {
            None => Ok(()),
            Some((attribute, _)) => {
                let message = "the event lacks it; give it a value or declare it optional";
                Err(Error::new(Kind::MissingAttribute, message).about(&attribute.name))
            }
        }
    }

    /// Reads the values of a map, an object, or a list of pairs. Pairs and triples are sequences of `shape`.
    fn named<'a>(&mut self, event: Value, schema: &'a Schema, shape: Shape) -> Result<(), Error<'a>> {
        let Event { attributes, values } = self;
        let json = shape == Shape::List;
        let mut take = |name: Value, value: Value| {
            let Value::Text(name) = name else { return Err(mismatch("an attribute's name is an atom or a binary")) };
            match find(schema, values.bytes(name)) {
                // Of a repeated name the last value counts in JSON, and the first defined one in a term.
                Some(place) if json || matches!(attributes[place], Value::Undefined) => {
                    attributes[place] = checked(value, &schema[place], shape, values)?;
                    Ok(())
                }
                _ => Ok(()),
            }
        };
        match event {
            Value::Sequence(map) if map.shape == Shape::Map => {
                let mut parts = values.each(map);
                while let (Some(name), Some(value)) = (parts.next(), parts.next()) {
                    take(name, value)?;
                }
                Ok(())
            }
            Value::Sequence(list) if list.shape == Shape::List && !json => values.each(list).try_for_each(|pair| {
                let [name, value] = fields(pair, Shape::Tuple, values).ok_or_else(|| mismatch("a pair is expected"))?;
                take(name, value)
            }),
            _ => Err(mismatch("an event is a map or a list of pairs, or in JSON an object")),
        }
    }

    /// Reads values in the order of the schema.
    fn record<'a>(&mut self, event: Value, schema: &'a Schema) -> Result<(), Error<'a>> {
        let Event { attributes, values } = self;
        let given = match event {
            Value::Sequence(given) if given.shape != Shape::Map && given.length as usize == schema.len() => given,
            _ => return Err(mismatch("a record is a list or a tuple of one value for each attribute")),
        };
        for ((attribute, place), value) in schema.iter().zip(attributes).zip(values.each(given)) {
            *place = match (attribute.ty, value) {
                (Type::Boolean, Value::Integer(bit @ 0..=1)) => Value::Boolean(bit == 1),
                _ => checked(value, attribute, Shape::Tuple, values)?,
            };
        }
        Ok(())
    }
}

/// Returns the `N` values of a sequence of `shape`, if it has as many.
pub fn fields<const N: usize>(value: Value, shape: Shape, values: &Values) -> Option<[Value; N]> {
    match value {
        Value::Sequence(sequence) if sequence.shape == shape && sequence.length as usize == N => {
            let mut each = values.each(sequence);
            Some(std::array::from_fn(|_| each.next().expect("there are as many")))
        }
        _ => None,
    }
}

/// Converts a value to its attribute's type.
fn checked<'a>(value: Value, attribute: &'a Attribute, shape: Shape, values: &Values) -> Result<Value, Error<'a>> {
    let checked = match (attribute.ty, value) {
        (_, Value::Undefined) => Ok(Value::Undefined),
        (Type::Boolean, Value::Boolean(_)) | (Type::Text, Value::Text(_)) => Ok(value),
        (Type::Integer | Type::IntegerEnum, _) => value.signed().map(Value::Integer),
        (Type::Float, _) => value.float().map(Value::Float),
        (Type::IntegerList, _) => elements(value, values, |element| element.signed().map(drop)),
        (Type::TextList, _) => elements(value, values, text),
        (Type::Segments, _) => elements(value, values, |segment| {
            let [id, micros] = fields(segment, shape, values).ok_or_else(|| mismatch("a segment is a pair"))?;
            id.signed().and(micros.signed()).map(drop)
        }),
        (Type::FrequencyCaps, _) => elements(value, values, |cap| {
            let message = "a frequency cap is a triple of a triple, a value and microseconds";
            let [key, value, micros] = fields(cap, shape, values).ok_or_else(|| mismatch(message))?;
            let [kind, id, namespace] = fields(key, shape, values).ok_or_else(|| mismatch(message))?;
            let known = |kind| cap_constant(values.bytes(kind)).is_some();
            if !matches!(kind, Value::Text(kind) if known(kind)) {
                return Err(mismatch("it is no type of a frequency cap"));
            }
            text(namespace)?;
            id.signed().and(value.signed())?;
            if !matches!(micros, Value::Undefined) {
                micros.signed()?;
            }
            Ok(())
        }),
        _ => Err(mismatch("the value is not of the attribute's type")),
    };
    checked.map_err(|error: Error| error.about(&attribute.name))
}

fn elements(
    value: Value,
    values: &Values,
    check: impl Fn(Value) -> Result<(), Error<'static>>,
) -> Result<Value, Error<'static>> {
    match value {
        Value::Sequence(list) if list.shape == Shape::List => {
            values.each(list).try_for_each(check)?;
            Ok(value)
        }
        _ => Err(mismatch("a list is expected")),
    }
}

fn text(value: Value) -> Result<(), Error<'static>> {
    match value {
        Value::Text(_) => Ok(()),
        _ => Err(mismatch("a string is expected")),
    }
}

fn mismatch(message: &'static str) -> Error<'static> {
    Error::new(Kind::Type, message)
}
