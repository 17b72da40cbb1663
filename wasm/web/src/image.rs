//! An index in an image: a module of its own, which is called through its interface (`docs/contributing/abi.md`).

use be_tree_index::error::Error;
use be_tree_index::term::{Kind, Reader, Writer};
use js_sys::{Array, Object, Uint32Array, Uint8Array, WebAssembly};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

use crate::refusal::{self, refusal};
use crate::values::{framed, ids_to_js, json_code, object, push_results, set, string, value, Subscriptions};
use crate::{explanation, malformed};

/// The version of the interface.
const VERSION: i32 = 1;
/// The code of lists among the forms of results.
const IDS: i32 = 0;
/// The words before the ids of a search.
const HEADER: usize = 2;
/// The phase of a part after the last one.
const NO_PART: u32 = u32::MAX;
/// The number of a batch. An image has one at a time, and runs it to its end.
const BATCH: u64 = 1;

#[wasm_bindgen]
extern "C" {
    /// The exports of an image's instance. They throw if the module traps.
    pub type Exports;
    #[wasm_bindgen(method, getter, structural)]
    fn memory(this: &Exports) -> WebAssembly::Memory;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_abi(this: &Exports) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_inbox(this: &Exports, length: u32) -> Result<u32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_outbox(this: &Exports) -> Result<u32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_insert(this: &Exports, length: u32) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_put(this: &Exports, length: u32) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_delete(this: &Exports, id: u64) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_search(this: &Exports, format: i32, event: u32, ids: i32, form: i32) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_search_many(
        this: &Exports,
        number: u64,
        count: u32,
        events: u32,
        ids: i32,
        form: i32,
    ) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_more(this: &Exports, number: u64) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_explain(this: &Exports, format: i32, event: u32, id: u64) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_profile(this: &Exports, format: i32, event: u32) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_profile_part(this: &Exports) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_profile_counts(this: &Exports) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_draw(this: &Exports) -> Result<i32, JsValue>;
    #[wasm_bindgen(method, structural, catch)]
    fn be_tree_info(this: &Exports) -> Result<i32, JsValue>;
}

/// An index in an image.
#[wasm_bindgen]
pub struct Image {
    exports: Exports,
    outbox: u32,
}

#[wasm_bindgen]
impl Image {
    /// Returns the index of an image's instance.
    #[wasm_bindgen(constructor)]
    pub fn new(exports: Exports) -> Result<Image, JsValue> {
        match exports.be_tree_abi()? {
            VERSION => Ok(Image { outbox: exports.be_tree_outbox()?, exports }),
            other => {
                Err(refusal(malformed(&format!("the image has interface version {other}, and this is for {VERSION}"))))
            }
        }
    }

    /// Inserts subscriptions, all or none. With `replaces`, inserts or replaces the only subscription of the lists.
    pub fn insert(&self, ids: &[u64], texts: &Array, constants: &Array, replaces: bool) -> Result<(), JsValue> {
        let mut request = Vec::new();
        let mut writer = Writer::new(&mut request);
        writer.list(ids.len());
        for subscription in Subscriptions::new(ids, texts, constants) {
            writer.tuple(3);
            writer.unsigned(subscription.id);
            writer.binary(&subscription.text);
            writer.list(subscription.constants.len());
            for (name, value) in subscription.constants {
                writer.tuple(2);
                writer.binary(name.as_bytes());
                writer.integer(value);
            }
            writer.end_list();
        }
        writer.end_list();
        let length = self.send(&request)?;
        let status = match replaces {
            true => self.exports.be_tree_put(length)?,
            false => self.exports.be_tree_insert(length)?,
        };
        self.result(status).map(drop)
    }

    /// Deletes a subscription.
    pub fn delete(&self, id: u64) -> Result<(), JsValue> {
        self.result(self.exports.be_tree_delete(id)?).map(drop)
    }

    /// Returns the ids of the subscriptions that the event makes true, among all or only among those with the given ids.
    pub fn search(&self, event: &str, only: Option<Vec<u64>>, forgiving: bool) -> Result<JsValue, JsValue> {
        let (event, ids) = self.send_with_ids(event.as_bytes().to_vec(), only)?;
        let found = words(&self.result(self.exports.be_tree_search(json_code(forgiving), event, ids, IDS)?)?);
        Ok(ids_to_js(found.get(HEADER..).unwrap_or_default()))
    }

    /// Returns the ids for each of the events.
    #[wasm_bindgen(js_name = searchMany)]
    pub fn search_many(&self, events: &Array, only: Option<Vec<u64>>, forgiving: bool) -> Result<Array, JsValue> {
        let (bytes, ids) = self.send_with_ids(framed(events, forgiving), only)?;
        let found = Array::new();
        let mut status = self.exports.be_tree_search_many(BATCH, events.length(), bytes, ids, IDS)?;
        loop {
            push_results(&words(&self.result(status)?), &found);
            if found.length() >= events.length() {
                return Ok(found);
            }
            status = self.exports.be_tree_more(BATCH)?;
        }
    }

    /// Returns the explanation of a subscription for the event.
    pub fn explain(&self, event: &str, id: u64, forgiving: bool) -> Result<Object, JsValue> {
        let event = self.send(event.as_bytes())?;
        let term = self.result(self.exports.be_tree_explain(json_code(forgiving), event, id)?)?;
        explanation::read(&term).map_err(refusal)
    }

    /// Returns the parts of the search for the event, each `[phase, counts]`.
    pub fn profile(&self, event: &str, forgiving: bool) -> Result<Array, JsValue> {
        let event = self.send(event.as_bytes())?;
        self.result(self.exports.be_tree_profile(json_code(forgiving), event)?)?;
        let parts = Array::new();
        loop {
            let part = self.result(self.exports.be_tree_profile_part()?)?;
            let phase = part.first_chunk().map_or(NO_PART, |&phase| u32::from_le_bytes(phase));
            if phase == NO_PART {
                return Ok(parts);
            }
            let counts = self.result(self.exports.be_tree_profile_counts()?)?;
            let counts = Reader::new(&counts).and_then(|mut reader| value(&mut reader)).map_err(refusal)?;
            parts.push(&Array::of(&[JsValue::from(phase), counts]));
        }
    }

    /// Returns a drawing of the tree in Graphviz's language.
    pub fn draw(&self) -> Result<String, JsValue> {
        let picture = self.result(self.exports.be_tree_draw()?)?;
        Ok(String::from_utf8_lossy(&picture).into_owned())
    }

    /// Returns counts and sizes.
    pub fn info(&self) -> Result<Object, JsValue> {
        counts(&self.result(self.exports.be_tree_info()?)?).map_err(refusal)
    }

    /// Writes a request to the inbox. Returns its length.
    fn send(&self, request: &[u8]) -> Result<u32, JsValue> {
        let length = request.len() as u32;
        let address = self.exports.be_tree_inbox(length)?;
        if address == 0 {
            let message = format!("the image has no memory for {length} bytes; give it less at once");
            return Err(refusal(Error::new(be_tree_index::error::Kind::OutOfMemory, message)));
        }
        self.memory().subarray(address, address + length).copy_from(request);
        Ok(length)
    }

    /// Writes events and the ids behind them to the inbox. Returns the bytes of both, -1 for no ids.
    fn send_with_ids(&self, mut request: Vec<u8>, only: Option<Vec<u64>>) -> Result<(u32, i32), JsValue> {
        let events = request.len() as u32;
        request.extend(only.iter().flatten().flat_map(|id| id.to_le_bytes()));
        self.send(&request)?;
        Ok((events, only.map_or(-1, |ids| (size_of::<u64>() * ids.len()) as i32)))
    }

    /// Returns the bytes of the result, or throws the error in them.
    fn result(&self, status: i32) -> Result<Vec<u8>, JsValue> {
        let outbox = Uint32Array::new_with_byte_offset_and_length(&self.exports.memory().buffer(), self.outbox, 2);
        let (address, length) = (outbox.get_index(0), outbox.get_index(1));
        let result = self.memory().subarray(address, address + length).to_vec();
        match status {
            0 => Ok(result),
            _ => Err(refusal::read(&result).unwrap_or_else(refusal)),
        }
    }

    /// Returns the memory. It has a new buffer when it has grown.
    fn memory(&self) -> Uint8Array {
        Uint8Array::new(&self.exports.memory().buffer())
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect()
}

/// Reads the counts of an image: a list of `{Name, Integer}`.
fn counts(term: &[u8]) -> Result<Object, Error> {
    let mut reader = Reader::new(term)?;
    let counts = object([]);
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        if reader.peek()? != Kind::Tuple || reader.tuple()? != 2 {
            return Err(malformed("a count is {Name, Integer}"));
        }
        let name = camel_case(&String::from_utf8_lossy(&reader.atom()?));
        set(&counts, &name, &value(&mut reader)?);
    }
    Ok(counts)
}

/// Returns a name of ASCII such as `memory_bytes` in the way of JavaScript.
fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |camel, word| {
        let (head, tail) = word.split_at(word.len().min(1));
        camel + &head.to_ascii_uppercase() + tail
    })
}

/// The bytes of an image's section before its schema: magic, versions, digest, length, memory, and the module's digest.
const BEFORE_SCHEMA: usize = 8 + 4 + 4 + 32 + 8 + 8 + 32;

/// Returns the attributes of an image's section, each `[name, type, optional, min, max, count, coerce, onMismatch, unit]`.
#[wasm_bindgen]
pub fn attributes(section: &[u8]) -> Result<Array, JsValue> {
    let schema = section.get(BEFORE_SCHEMA..).and_then(|rest| {
        let (length, rest) = rest.split_first_chunk()?;
        rest.get(..u32::from_le_bytes(*length) as usize)
    });
    let schema = schema.ok_or_else(|| refusal(malformed("the section of an image ends too early")))?;
    read_attributes(schema).map_err(refusal)
}

/// Reads a schema: a list of `{Name, Type, Optional, Bounds}`, with `Converts` and `Options` where they are given.
fn read_attributes(schema: &[u8]) -> Result<Array, Error> {
    let mut reader = Reader::new(schema)?;
    let attributes = Array::new();
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        let arity = if reader.peek()? == Kind::Tuple { reader.tuple()? } else { 0 };
        if !matches!(arity, 4..=6) {
            return Err(malformed("an attribute is {Name, Type, Optional, Bounds}"));
        }
        let name = string(reader.binary()?);
        let ty = string(&reader.atom()?);
        let optional = value(&mut reader)?;
        let none = JsValue::UNDEFINED;
        // `{Min, Max}`, each of which may be `nil`, or a count, or `nil`.
        let [min, max, count] = match reader.peek()? {
            Kind::Tuple => {
                reader.tuple()?;
                [value(&mut reader)?, value(&mut reader)?, none.clone()]
            }
            _ => [none.clone(), none.clone(), value(&mut reader)?],
        };
        let coerce = match arity > 4 && value(&mut reader)?.is_truthy() {
            true => JsValue::TRUE,
            false => JsValue::UNDEFINED,
        };
        let [on_mismatch, unit] = if arity > 5 { options(&mut reader)? } else { [none.clone(), none] };
        attributes.push(&Array::of(&[name, ty, optional, min, max, count, coerce, on_mismatch, unit]));
    }
    Ok(attributes)
}

/// Reads the options of an attribute, a list of `{on_mismatch, undefined}` and `{unit, Unit}`. Returns the two values.
fn options(reader: &mut Reader) -> Result<[JsValue; 2], Error> {
    let mut options = [JsValue::UNDEFINED, JsValue::UNDEFINED];
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        if reader.peek()? != Kind::Tuple || reader.tuple()? != 2 {
            return Err(malformed("an option is {Key, Value}"));
        }
        let position = match reader.atom()?.as_ref() {
            b"on_mismatch" => 0,
            b"unit" => 1,
            _ => return Err(malformed("the options of an attribute are on_mismatch and unit")),
        };
        options[position] = string(&reader.atom()?);
    }
    Ok(options)
}
