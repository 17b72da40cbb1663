//! Errors as objects of JavaScript: `kind`, `message`, `attribute`, `line`, `text`, `column` and `position`.

use be_tree_rules::Error;
use wasm_bindgen::JsValue;

use crate::values::{count, object, optional};

/// Returns an error as an object.
pub(crate) fn refusal(error: Error) -> JsValue {
    refusal_at(error, None)
}

/// Returns the error of the fact at a position of a list. `column` counts in `text`, the line of the rules, or in the JSON of
/// the fact.
pub(crate) fn refusal_at(error: Error, position: Option<usize>) -> JsValue {
    let column = error.place.as_ref().map(|place| place.column).or(error.column);
    object([
        ("kind", error.kind.name().into()),
        ("message", error.message.as_ref().into()),
        ("attribute", optional(error.name, JsValue::from)),
        ("line", optional(error.place.as_ref().map(|place| place.line), count)),
        ("text", optional(error.place.map(|place| place.text), JsValue::from)),
        ("column", optional(column, count)),
        ("position", optional(position, count)),
    ])
    .into()
}
