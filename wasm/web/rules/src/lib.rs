//! Stateful rules for JavaScript. `../js/rules_library.js` makes the package's class of what is exported here.
//!
//! Facts are JSON. Each operation is a transaction: an error rolls all of it back. Errors are thrown as objects ([`refusal`]).

mod operation;
mod refusal;
mod results;
mod values;

use be_tree_rules::{EventTime, Limits};
use js_sys::{Array, Object};
use wasm_bindgen::prelude::wasm_bindgen;
use wasm_bindgen::JsValue;

use operation::{encode, operate, Change};
use refusal::refusal;

/// Rules and their facts.
#[wasm_bindgen]
pub struct Engine {
    engine: be_tree_rules::Engine,
}

#[wasm_bindgen]
impl Engine {
    /// Returns rules without facts. `memory` is in bytes, `lateness` in milliseconds.
    #[wasm_bindgen(constructor)]
    pub fn new(text: &str, memory: f64, facts: u32, firings: u32, lateness: f64) -> Result<Engine, JsValue> {
        // Notices count towards the memory, and leave the engine when an operation has succeeded.
        let limits = Limits { memory: memory as usize, facts, firings, notices: u32::MAX };
        let mut engine = be_tree_rules::Engine::new(text, limits).map_err(refusal)?;
        engine.set_lateness(lateness as i64).map_err(refusal)?;
        Ok(Engine { engine })
    }

    /// Inserts facts, each the text of a JSON object with the type as its name, and returns the results of the operation.
    pub fn assert(&mut self, facts: &Array, source: Option<String>) -> Result<Object, JsValue> {
        operate(&mut self.engine, Change::Assert(&encode(facts, source.as_deref())))
    }

    /// Retracts a fact.
    pub fn retract(&mut self, id: u64) -> Result<Object, JsValue> {
        operate(&mut self.engine, Change::Retract(id))
    }

    /// Moves the time of all sources, or of one, to `now` milliseconds.
    pub fn advance(&mut self, now: f64, source: Option<String>) -> Result<Object, JsValue> {
        let event_time = match &source {
            None => EventTime::OfAll(now as i64),
            Some(name) => EventTime::Of(Some(name.as_bytes()), now as i64),
        };
        operate(&mut self.engine, Change::Reach(event_time))
    }

    /// Forgets a source.
    #[wasm_bindgen(js_name = endSource)]
    pub fn end_source(&mut self, source: &str) -> Result<Object, JsValue> {
        operate(&mut self.engine, Change::Reach(EventTime::End(Some(source.as_bytes()))))
    }

    /// Returns `[name, time]` for each source; `null` is the name of the source of facts without one.
    pub fn sources(&self) -> Array {
        results::sources(&self.engine)
    }

    /// Returns at most `limit` facts of a type, newest first, those numbered below `before`.
    pub fn facts(&self, ty: &str, before: u64, limit: u32) -> Result<Array, JsValue> {
        results::facts(&self.engine, ty, before, limit as usize).map_err(refusal)
    }

    /// Explains a rule, once for each combination of its alternatives.
    pub fn explain(&mut self, rule: &str) -> Result<Array, JsValue> {
        Ok(results::explanations(&self.engine.explain(rule).map_err(refusal)?))
    }

    /// Returns the warnings about rules that can enable one another without end.
    pub fn warnings(&self) -> Array {
        results::strings(self.engine.rules().warnings())
    }

    /// Returns counts and sizes.
    pub fn info(&self) -> Object {
        results::info(&self.engine)
    }
}
