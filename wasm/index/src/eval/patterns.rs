//! The values of an event for the internal attributes: columns of its lists of objects, and the patterns that are true of
//! it.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::eval::columns;
use crate::eval::memo::Memo;
use crate::event::{key, Event, LoweredStrings, Value};
use crate::handles::PredicateId;
use crate::model::address::Address;
use crate::model::predicate::Predicate;
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;
use crate::patterns::Source;
use crate::support::hash::out_of_memory;

/// Appends the values of the index's own attributes to those of `event`. The patterns found are all that are true of the
/// event, and perhaps others, which programs reject. The memo records the patterns known to be true.
///
/// Errors: [`crate::error::Kind::OutOfMemory`], if the event has no room for as many patterns as the catalog has.
#[inline(never)]
pub(crate) fn find(event: &mut Event, catalog: &Catalog, memo: &mut Memo) -> Result<(), Error> {
    debug_assert!(event.values.len() == catalog.schema.len() && event.patterns.is_empty(), "the event is new");
    columns::fill(event, catalog)?;
    let Event { values, bytes, lowered, addresses, patterns, .. } = event;
    values.push(Value::Undefined);
    let known = catalog.predicates.patterns();
    if known.len() == 0 {
        return Ok(());
    }
    patterns.try_reserve(known.len()).map_err(out_of_memory)?;
    let source = Values { catalog, values, bytes, lowered, addresses };
    known.each(&source, |pattern, found| {
        if memo.is_new(pattern, found) {
            patterns.push(key::of_predicate(pattern));
        }
    });
    debug_assert!(patterns.len() <= known.len(), "each pattern is listed once, so the list has room");
    if !patterns.is_empty() {
        values[catalog.schema.patterns().index()] = Value::Patterns;
    }
    Ok(())
}

/// The values of an event.
struct Values<'a, 'e> {
    catalog: &'a Catalog,
    values: &'e [Value],
    bytes: &'e [u8],
    lowered: &'e LoweredStrings,
    addresses: &'e [Address],
}

impl<'a> Source<'a> for Values<'a, '_> {
    #[inline(always)]
    fn predicate(&self, id: PredicateId) -> &'a Predicate<StringId> {
        self.catalog.predicates.get(id)
    }

    fn string(&self, attribute: AttributeId) -> Option<&[u8]> {
        match self.values[attribute.index()] {
            Value::String(text) => Some(text.bytes.of(self.bytes)),
            _ => None,
        }
    }

    fn lowered(&self, attribute: AttributeId) -> Option<&[u8]> {
        self.lowered.get(attribute)
    }

    fn address(&self, attribute: AttributeId) -> Option<Address> {
        match self.values[attribute.index()] {
            Value::Address(position) => Some(self.addresses[position as usize]),
            _ => None,
        }
    }

    fn float(&self, attribute: AttributeId) -> Option<f64> {
        match self.values[attribute.index()] {
            Value::Float(float) => Some(float),
            _ => None,
        }
    }
}
