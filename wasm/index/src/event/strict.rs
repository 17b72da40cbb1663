//! Refuses unknown names of an event.

use std::borrow::Cow;

use crate::error::{Error, Kind};
use crate::event::errors::{is_of_value, within};
use crate::event::formats::source::{Read, Source};
use crate::language::{quote_path, suggestion};
use crate::model::fields::FieldId;
use crate::model::path;
use crate::model::schema::{AttributeId, Schema, Type};
use crate::support::hash::out_of_memory;

/// The most bytes of an unknown name in an error.
const MAX_NAME_BYTES: usize = 256;

/// Checks the names of an event, of maps with attributes as fields, and of objects in lists, in a separate pass. Leaves
/// faulty values to the decoder.
///
/// Errors: [`Kind::UnknownAttribute`], with the attribute that the name may mean; those of the format.
pub(super) fn check_names<S: Source>(mut source: S, schema: &Schema) -> Read<()> {
    match source.names()? {
        Some(names) => check_members(&mut source, names, schema),
        None => Ok(()),
    }
}

/// Checks the names of an event or of an object, nested ones included.
fn check_members<S: Source>(source: &mut S, names: S::Names, schema: &Schema) -> Read<()> {
    let fields = schema.fields();
    let mut open: Vec<(Option<FieldId>, S::Names)> = Vec::new();
    open.try_reserve(1).map_err(out_of_memory)?;
    open.push((None, names));
    while let Some((map, names)) = open.last_mut() {
        let map = *map;
        let read = source.name(names, |name| {
            let found = match map {
                None => fields.outer(name.hash, name.bytes),
                Some(map) => fields.inner(map, name.hash, name.bytes),
            };
            found.ok_or_else(|| {
                String::from_utf8_lossy(&name.bytes[..name.bytes.len().min(MAX_NAME_BYTES)]).into_owned()
            })
        });
        let known = match read {
            Err(error) if is_of_value(&error) => {
                // The decoder decides whether this map is refused.
                source.skip_names(names)?;
                None
            }
            read => read?,
        };
        match known {
            None => drop(open.pop()),
            Some(Err(name)) => return Err(source.locate(unknown(map, name, schema)).into()),
            Some(Ok(id)) => match fields.attribute(id) {
                Some(list) if schema.attribute(list).ty == Type::ObjectList => check_objects(source, list, schema)?,
                Some(_) => source.skip()?,
                None => match source.names()? {
                    Some(names) => {
                        open.try_reserve(1).map_err(out_of_memory)?;
                        open.push((Some(id), names));
                    }
                    None => source.skip()?,
                },
            },
        }
    }
    Ok(())
}

/// Checks the names of the objects in a list.
fn check_objects<S: Source>(source: &mut S, list: AttributeId, schema: &Schema) -> Read<()> {
    let start = source.place();
    let Some(mut elements) = source.list()? else { return source.skip() };
    let mut number = 0;
    loop {
        match source.next(&mut elements) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) if is_of_value(&error) => {
                // The decoder decides whether an improper list is refused.
                source.back_to(start);
                return source.skip();
            }
            Err(error) => return Err(error),
        }
        number += 1;
        let checked = match source.names()? {
            Some(names) => check_members(source, names, schema.objects(list)),
            None => source.skip(),
        };
        checked.map_err(|error| within(&schema.attribute(list).name, number, *error))?;
    }
}

fn unknown(map: Option<FieldId>, name: String, schema: &Schema) -> Error {
    let mut way = map.map_or(Vec::new(), |map| schema.fields().path(map));
    way.push(Cow::Owned(name));
    let name = path::canonical(&way);
    let mend = suggestion(&name, schema).unwrap_or("declare it there, or search without `strict`".into());
    Error::new(Kind::UnknownAttribute, format!("the schema has no attribute {}; {mend}", quote_path(&name))).about(name)
}
