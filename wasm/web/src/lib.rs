//! The index for JavaScript. `js/index.js` makes the package's class of what is exported here.
//!
//! An [`Engine`] is an index in this module's memory, an [`Image`](image::Image) one in the memory of an image. Both have the
//! same functions. Events are JSON. Errors are thrown as objects ([`refusal`]).

mod explanation;
mod image;
mod profile;
mod refusal;
mod schema;
mod trace;
mod values;

use be_tree_index::diagnostics::draw::draw;
use be_tree_index::diagnostics::explain::explain;
use be_tree_index::diagnostics::trace::trace;
use be_tree_index::error::{Error, Kind};
use be_tree_index::index::Index;
use be_tree_index::search::{Batch, Form, Request, Search};
use js_sys::{Array, Object};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

use refusal::{refusal, refusal_at};
use values::{ids_to_js, json, object, Subscription, Subscriptions};

/// An index and its searches.
#[wasm_bindgen]
pub struct Engine {
    index: Index,
    search: Search,
    batch: Batch,
}

#[wasm_bindgen]
impl Engine {
    /// Returns an empty index over attributes, as [`schema::schema`] reads them.
    #[wasm_bindgen(constructor)]
    pub fn new(attributes: &Array) -> Result<Engine, JsValue> {
        let index = Index::new(schema::schema(attributes).map_err(refusal)?);
        let (mut search, mut batch) = (Search::default(), Batch::default());
        search.reserve(&index).and_then(|()| search.reserve_event(&index)).map_err(refusal)?;
        batch.reserve(&index).map_err(refusal)?;
        Ok(Engine { index, search, batch })
    }

    /// Inserts subscriptions, all or none. `constants` has the names and the values of each, or `undefined`.
    pub fn insert(&mut self, ids: &[u64], texts: &Array, constants: &Array) -> Result<(), JsValue> {
        let Engine { index, search, batch } = self;
        let subscriptions: Vec<Subscription> = Subscriptions::new(ids, texts, constants).collect();
        let insertions = subscriptions.iter().map(|subscription| Ok(subscription.as_insertion()));
        let inserted = index.insert_all_for(&mut (search, batch), insertions);
        inserted.map(drop).map_err(|(position, error)| refusal_at(error, position))
    }

    /// Deletes a subscription.
    pub fn delete(&mut self, id: u64) -> Result<(), JsValue> {
        self.index.delete(id).map_err(refusal)
    }

    /// Returns the ids of the subscriptions that the event makes true, among all or only among those with the given ids. If `forgiving`,
    /// values that do not fit count as undefined, here and below.
    pub fn search(&mut self, event: &str, only: Option<Vec<u64>>, forgiving: bool) -> Result<JsValue, JsValue> {
        let Engine { index, search, .. } = self;
        let only = only.map(Vec::into_iter);
        search.open(index, json(forgiving), event.as_bytes(), only).map_err(refusal)?;
        Ok(ids_to_js(search.run(index).ids()))
    }

    /// Returns the ids for each of the events.
    #[wasm_bindgen(js_name = searchMany)]
    pub fn search_many(&mut self, events: &Array, only: Option<Vec<u64>>, forgiving: bool) -> Result<Array, JsValue> {
        let Engine { index, search, batch } = self;
        let mut message = values::framed(events, forgiving);
        let bytes = message.len();
        message.extend(only.iter().flatten().flat_map(|id| id.to_le_bytes()));
        let only = only.map(|ids| size_of::<u64>() * ids.len());
        batch.open(Request { events: events.length(), bytes, only, form: Form::Ids });
        let found = Array::new();
        while !batch.is_done() {
            batch.next_part();
            let part = batch.run(index, search, &message, || ());
            values::push_results(part.map_err(|(position, error)| refusal_at(error, position))?, &found);
        }
        Ok(found)
    }

    /// Returns the explanation of a subscription for the event.
    pub fn explain(&self, event: &str, id: u64, forgiving: bool) -> Result<Object, JsValue> {
        let mut term = Vec::new();
        explain(&self.index, json(forgiving), event.as_bytes(), id, &mut term).map_err(refusal)?;
        explanation::read(&term).map_err(refusal)
    }

    /// Returns the path of a search through the tree.
    pub fn trace(&mut self, event: &str, forgiving: bool) -> Result<Object, JsValue> {
        let Engine { index, search, .. } = self;
        Ok(trace::to_js(&trace(index, search, json(forgiving), event.as_bytes()).map_err(refusal)?))
    }

    /// Returns the parts of the search for the event, each `[phase, counts]`.
    pub fn profile(&mut self, event: &str, forgiving: bool) -> Result<Array, JsValue> {
        let Engine { index, search, .. } = self;
        profile::parts(index, search, json(forgiving), event).map_err(refusal)
    }

    /// Returns a drawing of the tree in Graphviz's language.
    pub fn draw(&self) -> Result<String, JsValue> {
        let mut picture = Vec::new();
        draw(&self.index, &mut picture);
        Ok(String::from_utf8_lossy(&picture).into_owned())
    }

    /// Returns counts and sizes.
    pub fn info(&self) -> Result<Object, JsValue> {
        let info = self.index.info();
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

#[wasm_bindgen(raw_module = "./steps.js")]
extern "C" {
    #[wasm_bindgen(js_name = moreSteps)]
    fn more_steps() -> u32;
}

/// Returns whether the allocator has, or can get, this many bytes.
#[wasm_bindgen(js_name = hasRoom)]
pub fn has_room(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let has_room = room.try_reserve_exact(bytes).is_ok();
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
