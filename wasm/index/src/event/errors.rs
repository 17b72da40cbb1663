//! Attributes the errors of an event to an attribute and an object.

use crate::error::{quoted, Error, Kind};
use crate::event::Value;
use crate::model::attribute::Attribute;
use crate::model::schema::Schema;

/// Returns whether `error` concerns one value only: the event's bytes are well-formed, and memory suffices.
pub(super) fn is_of_value(error: &Error) -> bool {
    matches!(error.kind, Kind::Type | Kind::OutOfBounds | Kind::MissingAttribute)
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

/// Returns the error with the attribute whose value is wrong.
pub(super) fn about(attribute: &Attribute, error: Error) -> Error {
    match error.kind {
        // An attribute of an object in a list is already named.
        Kind::Type | Kind::OutOfBounds if error.attribute.is_none() => {
            let Attribute { name, ty, .. } = attribute;
            let message = format!("attribute {} of type {}: {}", quoted(name), ty.name(), error.message);
            Error { message, ..error }.about(name)
        }
        _ => error,
    }
}

/// Returns the error of the object with this number in a list.
#[cold]
pub(super) fn within(list: &str, number: usize, error: Error) -> Box<Error> {
    if !matches!(error.kind, Kind::Type | Kind::OutOfBounds | Kind::MissingAttribute | Kind::UnknownAttribute) {
        return error.into();
    }
    let message = format!("object {number} of {}: {}", quoted(list), error.message);
    let name = match &error.attribute {
        Some(attribute) => format!("{list}.{attribute}"),
        None => list.to_owned(),
    };
    Error { message, ..error }.about(name).into()
}
