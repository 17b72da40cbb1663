//! Traces as objects of JavaScript.

use be_tree_index::diagnostics::trace::{Edge, Place, Step, Trace};
use js_sys::{Array, Object};
use wasm_bindgen::JsValue;

use crate::values::{id_to_js, ids_to_js, object};

/// The most ids of a step. The count is that of all.
const SHOWN: usize = 100;

/// Returns a trace as an object.
pub(crate) fn to_js(trace: &Trace) -> Object {
    let steps: Array = trace.steps.iter().map(step).collect();
    object([
        ("steps", steps.into()),
        ("visited", (trace.visited as f64).into()),
        ("evaluated", (trace.evaluated as f64).into()),
        ("ids", ids_to_js(&trace.ids)),
    ])
}

fn step(step: &Step) -> JsValue {
    let (node, edge) = match &step.place {
        Place::Every => (JsValue::NULL, JsValue::NULL),
        Place::Node(node, edge) => ((*node).into(), edge.as_ref().map_or(JsValue::NULL, edge_to_js)),
    };
    let matched: Array = step.matched.iter().take(SHOWN).map(|&id| id_to_js(id)).collect();
    object([
        ("node", node),
        ("edge", edge),
        ("visited", (step.visited as f64).into()),
        ("passed", (step.passed as f64).into()),
        ("evaluated", (step.evaluated as f64).into()),
        ("matches", (step.matched.len() as f64).into()),
        ("matched", matched.into()),
    ])
    .into()
}

fn edge_to_js(edge: &Edge) -> JsValue {
    object([
        ("above", edge.above.into()),
        ("level", edge.level.into()),
        ("attribute", edge.attribute.as_str().into()),
        ("label", edge.label.as_str().into()),
        ("siblings", (edge.siblings as f64).into()),
    ])
    .into()
}
