//! Errors as objects of JavaScript: `kind`, `message`, `attribute`, `column` and `position`.

use be_tree_index::error::Error;
use be_tree_index::term::{Kind, Reader};
use wasm_bindgen::JsValue;

use crate::values::{object, string};

/// Returns an error as an object.
pub(crate) fn refusal(error: Error) -> JsValue {
    to_object(&error, None)
}

/// Returns the error of the subscription or the event at `position` of a list.
pub(crate) fn refusal_at(error: Error, position: usize) -> JsValue {
    to_object(&error, Some(position))
}

fn to_object(error: &Error, position: Option<usize>) -> JsValue {
    let number = |number: Option<usize>| number.map_or(JsValue::NULL, |number| JsValue::from_f64(number as f64));
    object([
        ("kind", error.kind.name().into()),
        ("message", error.message.as_str().into()),
        ("attribute", error.attribute.as_deref().map_or(JsValue::NULL, JsValue::from_str)),
        ("column", number(error.column)),
        ("position", number(position)),
    ])
    .into()
}

/// Reads the error of an image: `{Kind, Message, Attribute, Column, Position}`.
pub(crate) fn read(term: &[u8]) -> Result<JsValue, Error> {
    let mut reader = Reader::new(term)?;
    reader.tuple()?;
    let kind = string(&reader.atom()?);
    let message = string(reader.binary()?);
    let attribute = match reader.peek()? {
        Kind::Binary => string(reader.binary()?),
        _ => nil(&mut reader)?,
    };
    let mut number = || match reader.peek()? {
        Kind::Integer => reader.unsigned().map(|number| JsValue::from_f64(number as f64)),
        _ => nil(&mut reader),
    };
    let (column, position) = (number()?, number()?);
    let fields = [("kind", kind), ("message", message), ("attribute", attribute), ("column", column)];
    Ok(object(fields.into_iter().chain([("position", position)])).into())
}

fn nil(reader: &mut Reader) -> Result<JsValue, Error> {
    reader.atom().map(|_| JsValue::NULL)
}
