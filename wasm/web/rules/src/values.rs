//! Values for JavaScript.

use be_tree_rules::Owned;
use js_sys::{Object, Reflect, Uint8Array, WebAssembly};
use wasm_bindgen::{JsCast, JsValue};

/// The greatest integer that a number of JavaScript holds exactly, as all below it.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// Returns an object with these fields.
pub(crate) fn object<'f>(fields: impl IntoIterator<Item = (&'f str, JsValue)>) -> Object {
    let object = Object::new();
    for (name, value) in fields {
        let Ok(true) = Reflect::set(&object, &name.into(), &value) else {
            unreachable!("a plain object takes any field")
        };
    }
    object
}

/// Returns a value, or `null` for `None`.
pub(crate) fn optional<T>(value: Option<T>, convert: impl FnOnce(T) -> JsValue) -> JsValue {
    value.map_or(JsValue::NULL, convert)
}

/// Returns a count that a number holds exactly.
pub(crate) fn count(count: usize) -> JsValue {
    (count as f64).into()
}

/// Returns the number of a fact, or a total, as a number, or as a bigint if no number holds it exactly.
pub(crate) fn total(number: u64) -> JsValue {
    match number <= MAX_SAFE {
        true => (number as f64).into(),
        false => number.into(),
    }
}

/// Returns milliseconds. The bounds of times lie below the greatest exact number.
pub(crate) fn time(time: i64) -> JsValue {
    (time as f64).into()
}

/// Returns the values of a fact or a notice by name, `null` for undefined.
pub(crate) fn by_name(values: &[(String, Option<Owned>)]) -> JsValue {
    object(values.iter().map(|(name, value)| (name.as_str(), optional(value.as_ref(), of_field)))).into()
}

fn of_field(value: &Owned) -> JsValue {
    match value {
        Owned::Integer(integer) if integer.unsigned_abs() <= MAX_SAFE => (*integer as f64).into(),
        Owned::Integer(integer) => (*integer).into(),
        Owned::Float(float) => (*float).into(),
        Owned::Boolean(boolean) => (*boolean).into(),
        Owned::String(bytes) => String::from_utf8_lossy(bytes).as_ref().into(),
    }
}

/// Returns the bytes of this module's memory.
pub(crate) fn memory_bytes() -> JsValue {
    let memory: WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    Uint8Array::new(&memory.buffer()).length().into()
}
