//! The labels of the edges from a value level to its nodes: a value, an interval of values, or any value.

use crate::diagnostics;
use crate::event::key;
use crate::handles::NodeId;
use crate::index::Index;
use crate::model::schema::{AttributeId, Type};
use crate::model::time;
use crate::tree::level::{Level, Place};

/// The label of an edge for every defined value.
pub(super) const DEFINED: &str = "any";

/// Returns the label of the edge from `level` to `node`, which is at `place` below it.
pub(super) fn edge(index: &Index, level: &Level, node: NodeId, place: Place) -> String {
    match place {
        Place::Point(key) => point(index, level.attribute, key),
        Place::Bucket => {
            let position = level.buckets.position(node);
            position.map_or_else(String::new, |at| bucket(index, level.attribute, level.buckets.range(at)))
        }
        Place::Defined => DEFINED.to_owned(),
    }
}

/// Returns the text of the value of `attribute` with this key.
pub(super) fn point(index: &Index, attribute: AttributeId, key: i64) -> String {
    if attribute == index.schema().patterns() {
        return pattern(index, key);
    }
    match index.schema().attribute(attribute).ty {
        Type::Boolean => (key == 1).to_string(),
        Type::Float => key::to_float(key).to_string(),
        Type::DateTime => time::text(key),
        Type::String | Type::StringList => {
            String::from_utf8_lossy(index.strings().get(key::to_string(key))).into_owned()
        }
        _ => key.to_string(),
    }
}

/// Returns the text of the pattern with this key, as a predicate.
fn pattern(index: &Index, key: i64) -> String {
    diagnostics::text(index.catalog().predicates.get(key::to_predicate(key)), index)
}

/// Returns the label of a bucket from its least and its greatest key.
pub(super) fn bucket(index: &Index, attribute: AttributeId, range: (i64, i64)) -> String {
    let value = |key| point(index, attribute, key);
    match range {
        (i64::MIN, i64::MAX) => "all".to_owned(),
        (i64::MIN, high) => format!("to {}", value(high)),
        (low, i64::MAX) => format!("from {}", value(low)),
        (low, high) => format!("{} to {}", value(low), value(high)),
    }
}
