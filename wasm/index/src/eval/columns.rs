//! The columns of an event's lists of objects. A column has the values of one attribute in all objects of a list.
//!
//! If an object meets a condition such as `sku = 'x' and qty > 2`, the column of `sku` contains `'x'`. So that value leads a
//! search to the expression, as if `sku` were a list of strings.

use crate::catalog::Catalog;
use crate::error::Error;
use crate::event::{Event, Value};
use crate::model::schema::{AttributeId, Type};

/// Appends the columns to the values of `event`, after those of its own attributes. A column that no expression uses is
/// undefined and costs nothing.
///
/// Errors: [`crate::error::Kind::OutOfMemory`].
pub(crate) fn fill(event: &mut Event, catalog: &Catalog) -> Result<(), Error> {
    let schema = &catalog.schema;
    for (list, columns) in schema.lists() {
        let objects = schema.objects(list);
        for (position, attribute) in objects.attributes().iter().enumerate() {
            let column = AttributeId::from_index(columns.index() + position);
            let value = match catalog.statistics.is_asked(column) {
                true => event.column(list, AttributeId::from_index(position), is_of_strings(attribute.ty))?,
                false => Value::Undefined,
            };
            event.values.push(value);
        }
    }
    Ok(())
}

fn is_of_strings(ty: Type) -> bool {
    matches!(ty, Type::String | Type::StringList)
}
