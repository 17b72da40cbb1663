//! The index for JavaScript. `js/index.js` makes the package's class of what is exported here.
//!
//! An [`Engine`] is an index in this module's memory, an [`Image`](image::Image) one in the memory of an image. Events are JSON. Errors
//! are thrown as objects ([`refusal`]).
//!
//! A read of an engine is several calls, because JavaScript may end a search at any step: [`begin_search`] and the like take what it
//! needs, [`run_read`] searches, [`found_ids`] and the like return its result, and [`end_read`] ends it. Only the search itself is ended,
//! which allocates in the search arena alone and so leaves the heap as it is (`be_tree_module::memory`). None of these calls is a method,
//! since `wasm_bindgen` would keep an object borrowed whose method never returned.

mod engines;
mod explanation;
mod image;
mod profile;
mod refusal;
mod schema;
mod trace;
mod values;

use be_tree_index::diagnostics::draw::draw;
use be_tree_index::error::{Error, Kind};
use be_tree_module::memory;
use js_sys::{Array, Object};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

use engines::Read;
use refusal::{refusal, refusal_at};
use values::{ids_to_js, json, object, Subscription, Subscriptions};

/// An index and its searches.
#[wasm_bindgen]
pub struct Engine {
    place: usize,
}

#[wasm_bindgen]
impl Engine {
    /// Returns an empty index over attributes, as [`schema::schema`] reads them.
    #[wasm_bindgen(constructor)]
    pub fn new(attributes: &Array) -> Result<Engine, JsValue> {
        let place = schema::schema(attributes).and_then(engines::add).map_err(refusal)?;
        Ok(Engine { place })
    }

    /// The number by which reads name the index.
    #[wasm_bindgen(getter)]
    pub fn place(&self) -> usize {
        self.place
    }

    /// Inserts subscriptions, all or none. `constants` has the names and the values of each, or `undefined`. With `replaces`, the lists
    /// have one subscription, which replaces the present one of its id, if there is one.
    pub fn insert(&mut self, ids: &[u64], texts: &Array, constants: &Array, replaces: bool) -> Result<(), JsValue> {
        let subscriptions: Vec<Subscription> = Subscriptions::new(ids, texts, constants).collect();
        let mut insertions = subscriptions.iter().map(Subscription::as_insertion);
        let inserted = engines::with(self.place, |engine| match replaces {
            true => insertions.try_for_each(|insertion| engine.put(&insertion)).map_err(|error| (0, error)),
            false => engine.insert(insertions.map(Ok)),
        });
        inserted.map_err(|(position, error)| refusal_at(error, position))
    }

    /// Deletes a subscription.
    pub fn delete(&mut self, id: u64) -> Result<(), JsValue> {
        engines::with(self.place, |engine| engine.index.delete(id)).map_err(refusal)
    }

    /// Returns the path of a search through the tree. If `forgiving`, values that do not fit count as undefined, here and below.
    pub fn trace(&mut self, event: &str, forgiving: bool) -> Result<Object, JsValue> {
        engines::with(self.place, |engine| match engine.trace(json(forgiving), event) {
            Ok(trace) => Ok(trace::to_js(&trace)),
            Err(error) => Err(refusal(error)),
        })
    }

    /// Returns the parts of the search for the event, each `[phase, counts]`.
    pub fn profile(&mut self, event: &str, forgiving: bool) -> Result<Array, JsValue> {
        engines::with(self.place, |engine| profile::parts(engine, json(forgiving), event)).map_err(refusal)
    }

    /// Returns a drawing of the tree in Graphviz's language.
    pub fn draw(&self) -> Result<String, JsValue> {
        let mut picture = Vec::new();
        engines::with(self.place, |engine| draw(&engine.index, &mut picture));
        Ok(String::from_utf8_lossy(&picture).into_owned())
    }

    /// Returns counts and sizes.
    pub fn info(&self) -> Result<Object, JsValue> {
        let info = engines::with(self.place, |engine| engine.index.info());
        let memory = values::memory_bytes();
        Ok(object([
            ("expressions", (info.expressions as f64).into()),
            ("predicates", (info.predicates as f64).into()),
            ("strings", (info.strings as f64).into()),
            ("nodes", (info.nodes as f64).into()),
            ("entries", (info.entries as f64).into()),
            ("unindexed", (info.unindexed as f64).into()),
            ("depth", (info.depth as f64).into()),
            ("codeBytes", (info.code_bytes as f64).into()),
            ("memoryBytes", memory.into()),
        ]))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        engines::remove(self.place);
    }
}

/// Begins a search of the index at `place` for the event, among all subscriptions or only among those with the given ids.
#[wasm_bindgen(js_name = beginSearch)]
pub fn begin_search(place: usize, event: String, only: Option<Vec<u64>>, forgiving: bool) {
    engines::with(place, |engine| engine.begin(Read::Search { event, only, encoding: json(forgiving) }));
}

/// Begins a search for each of the events.
#[wasm_bindgen(js_name = beginBatch)]
pub fn begin_batch(place: usize, events: &Array, only: Option<Vec<u64>>, forgiving: bool) {
    let message = values::framed(events, forgiving);
    engines::with(place, |engine| engine.begin_batch(events.length(), message, only));
}

/// Begins the explanation of a subscription for the event.
#[wasm_bindgen(js_name = beginExplanation)]
pub fn begin_explanation(place: usize, event: String, id: u64, forgiving: bool) {
    engines::with(place, |engine| engine.begin(Read::Explanation { event, id, encoding: json(forgiving) }));
}

/// Runs the read that was begun, or its next part. JavaScript may end this call, and no other one of a read, at any step. The next call is
/// then [`end_read`].
#[wasm_bindgen(js_name = runRead)]
pub fn run_read(place: usize) {
    engines::with(place, |engine| engine.run());
}

/// Returns the ids of a search.
#[wasm_bindgen(js_name = foundIds)]
pub fn found_ids(place: usize) -> Result<JsValue, JsValue> {
    engines::with(place, |engine| {
        engine.refused().map_err(|(_position, error)| refusal(error))?;
        Ok(ids_to_js(engine.search.found().ids()))
    })
}

/// Appends the ids for each of the events in a part of a batch to `found`. Returns whether it was the last part.
#[wasm_bindgen(js_name = takePart)]
pub fn take_part(place: usize, found: &Array) -> Result<bool, JsValue> {
    engines::with(place, |engine| {
        engine.refused().map_err(|(position, error)| refusal_at(error, position))?;
        values::push_results(engine.batch.part(&engine.search), found);
        Ok(engine.batch.is_done())
    })
}

/// Returns an explanation.
#[wasm_bindgen(js_name = explained)]
pub fn explained(place: usize) -> Result<Object, JsValue> {
    engines::with(place, |engine| {
        engine.refused().map_err(|(_position, error)| refusal(error))?;
        explanation::read(&engine.explanation).map_err(refusal)
    })
}

/// Ends a read, also one that JavaScript ended.
#[wasm_bindgen(js_name = endRead)]
pub fn end_read(place: usize) {
    engines::with(place, |engine| engine.end());
}

#[wasm_bindgen(raw_module = "./steps.js")]
extern "C" {
    #[wasm_bindgen(js_name = moreSteps)]
    fn more_steps() -> u32;
}

/// Returns whether the allocator has, or can get, this many bytes.
#[wasm_bindgen(js_name = hasRoom)]
pub fn has_room(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    memory::lend(true);
    let has_room = room.try_reserve_exact(bytes).is_ok();
    memory::lend(false);
    // Otherwise the compiler would leave the allocation out.
    std::hint::black_box(&room);
    has_room
}

/// Returns the next steps of the running call, or throws if it has reached a bound. The build inserts the calls of this function
/// (`bindgen`).
#[wasm_bindgen]
pub fn steps_are_spent() -> u32 {
    more_steps()
}

fn malformed(message: &str) -> Error {
    Error::new(Kind::Type, message)
}
