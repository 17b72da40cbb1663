//! Profiles: the parts of a search and their counts, in the shapes of `docs/contributing/abi.md`. `js/profile.js` sums them up.

use be_tree_index::error::Error;
use be_tree_index::event::Encoding;
use be_tree_index::model::schema::AttributeId;
use be_tree_index::search::Counts;
use be_tree_module::memory;
use js_sys::Array;
use wasm_bindgen::JsValue;

use crate::engines::Engine;
use crate::values::id_to_js;

/// Returns the parts of the search for an event, each `[phase, counts]`.
pub(crate) fn parts(engine: &mut Engine, encoding: Encoding, event: &str) -> Result<Array, Error> {
    let parts = Array::new();
    engine.in_arena(|index, search| {
        search.open(index, encoding, event.as_bytes(), None::<std::iter::Empty<u64>>)?;
        while let Some(part) = search.next_part(index) {
            // The table of JavaScript's objects is on the heap.
            memory::use_heap();
            let counts = counts(&search.counts(index));
            parts.push(&row([part.code().into(), counts.into()]));
            memory::use_search_memory(false);
        }
        Ok(parts)
    })
}

fn counts(counts: &Counts) -> Array {
    match counts {
        Counts::None => Array::new(),
        Counts::Walk(levels) => levels
            .iter()
            .map(|level| row([attribute(level.attribute), number(level.lookups), number(level.nodes)]))
            .collect(),
        Counts::Scan(lists) => lists
            .iter()
            .map(|list| {
                let candidates: Array = list.candidates.iter().map(|&id| id_to_js(id)).collect();
                row([attribute(list.attribute), number(list.entries), number(list.proven), candidates.into()])
            })
            .collect(),
        Counts::Run(runs) => runs
            .iter()
            .map(|run| row([id_to_js(run.id), run.tests.into(), run.holds.into(), attribute(run.decided_by)]))
            .collect(),
    }
}

fn row<const N: usize>(fields: [JsValue; N]) -> JsValue {
    Array::of(&fields).into()
}

fn number(count: u64) -> JsValue {
    (count as f64).into()
}

/// Returns the position of an attribute in the schema, or `undefined` for none.
fn attribute(attribute: Option<AttributeId>) -> JsValue {
    attribute.map_or(JsValue::UNDEFINED, |attribute| (attribute.index() as f64).into())
}
