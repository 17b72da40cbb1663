//! Values of JavaScript: what goes in, and what comes out.

use be_tree_index::error::Error;
use be_tree_index::event::{Encoding, Format};
use be_tree_index::index::Insertion;
use be_tree_index::term::{Kind, Reader};
use js_sys::{Array, BigInt, BigUint64Array, Float64Array, Object, Reflect, Uint8Array, WebAssembly};
use wasm_bindgen::{JsCast, JsValue};

/// The greatest integer that a number holds exactly, as all below it.
const MAX_SAFE: u64 = (1 << 53) - 1;

/// Returns JSON as the encoding of an event: one in which values that do not fit count as undefined, or another.
pub(crate) fn json(forgiving: bool) -> Encoding {
    Encoding { format: Format::Json, forgiving }
}

/// Returns the code of that encoding (`docs/contributing/abi.md`).
pub(crate) fn json_code(forgiving: bool) -> i32 {
    const JSON: i32 = 1;
    const FORGIVING: i32 = 16;
    JSON + if forgiving { FORGIVING } else { 0 }
}

/// A subscription to insert.
pub(crate) struct Subscription {
    pub id: u64,
    pub text: Vec<u8>,
    pub constants: Vec<(String, i64)>,
}

impl Subscription {
    pub fn as_insertion(&self) -> Insertion<'_> {
        let constants = self.constants.iter().map(|(name, value)| (name.as_bytes(), *value));
        Insertion { id: self.id, text: &self.text, constants: constants.collect() }
    }
}

/// Subscriptions to insert, in three lists of the same length.
pub(crate) struct Subscriptions<'a> {
    ids: &'a [u64],
    texts: &'a Array,
    constants: &'a Array,
    next: u32,
}

impl<'a> Subscriptions<'a> {
    pub fn new(ids: &'a [u64], texts: &'a Array, constants: &'a Array) -> Self {
        Subscriptions { ids, texts, constants, next: 0 }
    }
}

impl Iterator for Subscriptions<'_> {
    type Item = Subscription;

    fn next(&mut self) -> Option<Subscription> {
        let &id = self.ids.get(self.next as usize)?;
        let text = self.texts.get(self.next);
        let constants = self.constants.get(self.next);
        self.next += 1;
        // A text that is no UTF-8 comes as bytes.
        let text = match text.as_string() {
            Some(text) => text.into_bytes(),
            None => Uint8Array::from(text).to_vec(),
        };
        let constants = match constants.is_undefined() {
            true => Vec::new(),
            false => Array::from(&constants).iter().filter_map(|pair| constant(&Array::from(&pair))).collect(),
        };
        Some(Subscription { id, text, constants })
    }
}

/// Reads a constant, `[name, value]`. `index.js` has checked it.
fn constant(pair: &Array) -> Option<(String, i64)> {
    Some((pair.get(0).as_string()?, integer(&pair.get(1))?))
}

/// Returns the integer of a number or a bigint, if it is one of 64 bits.
pub(crate) fn integer(value: &JsValue) -> Option<i64> {
    if let Some(number) = value.as_f64() {
        return (number.fract() == 0.0 && number.abs() <= MAX_SAFE as f64).then_some(number as i64);
    }
    i64::try_from(value.dyn_ref::<BigInt>()?.clone()).ok()
}

/// Returns events one behind the other, each after its encoding and its length.
pub(crate) fn framed(events: &Array, forgiving: bool) -> Vec<u8> {
    let mut message = Vec::new();
    for event in events.iter().filter_map(|event| event.as_string()) {
        message.extend(json_code(forgiving).to_le_bytes());
        message.extend((event.len() as u32).to_le_bytes());
        message.extend(event.as_bytes());
    }
    message
}

/// Returns ids, which ascend, as a `Float64Array` if numbers hold them exactly, and otherwise as a `BigUint64Array`.
pub(crate) fn ids_to_js(ids: &[u64]) -> JsValue {
    if ids.last().is_none_or(|&last| last <= MAX_SAFE) {
        let numbers: Vec<f64> = ids.iter().map(|&id| id as f64).collect();
        Float64Array::from(numbers.as_slice()).into()
    } else {
        BigUint64Array::from(ids).into()
    }
}

/// Appends the results of a part of a batch to `found`: the number of ids of each event, and then its ids.
pub(crate) fn push_results(part: &[u64], found: &Array) {
    let mut rest = part;
    while let Some((&count, behind)) = rest.split_first() {
        let (ids, behind) = behind.split_at(count as usize);
        found.push(&ids_to_js(ids));
        rest = behind;
    }
}

/// Returns an id as a number, or as a bigint if no number holds it exactly.
pub(crate) fn id_to_js(id: u64) -> JsValue {
    match id <= MAX_SAFE {
        true => (id as f64).into(),
        false => id.into(),
    }
}

/// Returns an object with these fields.
pub(crate) fn object<'a>(fields: impl IntoIterator<Item = (&'a str, JsValue)>) -> Object {
    let object = Object::new();
    for (name, value) in fields {
        set(&object, name, &value);
    }
    object
}

/// Sets a field of an object that was made here.
pub(crate) fn set(object: &Object, name: &str, value: &JsValue) {
    let Ok(true) = Reflect::set(object, &name.into(), value) else { unreachable!("a plain object takes any field") };
}

/// Returns bytes as a string.
pub(crate) fn string(bytes: &[u8]) -> JsValue {
    String::from_utf8_lossy(bytes).as_ref().into()
}

/// Reads the value of an attribute: `undefined`, a boolean, a number, a bigint, a string, an object, or an array of these. A value that was
/// left out is `{omitted: count}`.
pub(crate) fn value(reader: &mut Reader) -> Result<JsValue, Error> {
    match reader.peek()? {
        Kind::Integer => {
            let start = reader.clone();
            match reader.integer() {
                Ok(safe) if safe.unsigned_abs() <= MAX_SAFE => Ok(JsValue::from_f64(safe as f64)),
                Ok(wide) => Ok(wide.into()),
                Err(_) => {
                    *reader = start;
                    reader.unsigned().map(id_to_js)
                }
            }
        }
        Kind::Float => Ok(reader.float()?.into()),
        Kind::Binary => Ok(string(reader.binary()?)),
        Kind::List => {
            let array = Array::new();
            let mut elements = reader.list()?;
            while reader.next(&mut elements)? {
                array.push(&value(reader)?);
            }
            Ok(array.into())
        }
        Kind::Map => {
            let fields = object([]);
            for _ in 0..reader.map()? {
                let name = String::from_utf8_lossy(reader.binary()?).into_owned();
                set(&fields, &name, &value(reader)?);
            }
            Ok(fields.into())
        }
        Kind::Tuple => tuple(reader),
        _ => Ok(match reader.atom()?.as_ref() {
            b"true" => JsValue::TRUE,
            b"false" => JsValue::FALSE,
            _ => JsValue::UNDEFINED,
        }),
    }
}

/// Reads `{omitted, Count}`, or a tuple of values as an array. No value has more than three levels.
fn tuple(reader: &mut Reader) -> Result<JsValue, Error> {
    let arity = reader.tuple()?;
    if arity == 2 && reader.peek()? == Kind::Atom {
        reader.atom()?;
        return Ok(object([("omitted", value(reader)?)]).into());
    }
    let array = Array::new();
    for _ in 0..arity {
        array.push(&value(reader)?);
    }
    Ok(array.into())
}

/// Returns the bytes of this module's memory.
pub(crate) fn memory_bytes() -> f64 {
    let memory: WebAssembly::Memory = wasm_bindgen::memory().unchecked_into();
    Uint8Array::new(&memory.buffer()).length().into()
}
