//! The patterns that are true of an event, which are its value for the index's own attribute.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::event::{key, Event, Value};
use crate::handles::PredicateId;
use crate::model::schema::AttributeId;
use crate::support::hash::out_of_memory;

/// Finds the patterns that are true of `event`, which has no value for the index's own attribute yet. `is_new` returns whether
/// it is called with a pattern for the first time.
///
/// Errors: [`crate::error::Kind::OutOfMemory`], if the event has no room for as many patterns as the catalog has.
pub(crate) fn find(
    event: &mut Event,
    catalog: &Catalog,
    mut is_new: impl FnMut(PredicateId) -> bool,
) -> Result<(), Error> {
    let Event { values, bytes, patterns, .. } = event;
    debug_assert!(values.len() == catalog.schema.len() && patterns.is_empty(), "the event is new");
    values.push(Value::Undefined);
    let known = catalog.predicates.patterns();
    if known.len() == 0 {
        return Ok(());
    }
    patterns.try_reserve(known.len()).map_err(out_of_memory)?;
    let string = |attribute: AttributeId| match values[attribute.index()] {
        Value::String(text) => Some(text.bytes.of(bytes)),
        _ => None,
    };
    let found = |pattern| {
        if is_new(pattern) {
            patterns.push(key::of_predicate(pattern));
        }
    };
    known.each(|id| catalog.predicates.get(id), string, found);
    if !patterns.is_empty() {
        values[catalog.schema.patterns().index()] = Value::Patterns;
    }
    Ok(())
}
