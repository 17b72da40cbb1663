//! Workloads with known results, shared by tests and benchmarks.

#![allow(dead_code)]

pub mod manners;
pub mod waltzdb;

use be_tree_rules::{Engine, Owned, Value};

/// A fact: its type, and its fields by name.
pub type Row = (&'static str, Vec<(&'static str, Owned)>);

fn text(text: &str) -> Owned {
    Owned::String(text.as_bytes().to_vec())
}

/// Asserts facts.
pub fn assert_all(engine: &mut Engine, facts: &[Row]) {
    for (ty, fields) in facts {
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.borrowed())).collect();
        assert(engine, ty, &fields);
    }
}

/// Asserts a fact.
pub fn assert(engine: &mut Engine, ty: &str, fields: &[(&str, Value)]) {
    let fact = engine.types().fact(ty, None, fields).unwrap();
    engine.assert(&fact).unwrap();
}
