//! Refuses names of an event that the schema does not have.

use std::borrow::Cow;

use crate::error::{Error, Kind};
use crate::event::formats::source::{Read, Source};
use crate::language::{quote_path, suggestion};
use crate::model::fields::FieldId;
use crate::model::path;
use crate::model::schema::Schema;
use crate::support::hash::out_of_memory;

/// The bytes of a wrong name that an error may hold.
const LONGEST: usize = 256;

/// Reads the names of an event, and of the maps in which attributes are fields, in a pass of its own. Leaves faults of values to
/// the decoder.
///
/// Errors: [`Kind::UnknownAttribute`], with the attribute that the name may mean; those of the format.
pub(super) fn check_names<S: Source>(mut source: S, schema: &Schema) -> Read<()> {
    let fields = schema.fields();
    let Some(names) = source.names()? else { return Ok(()) };
    let mut open: Vec<(Option<FieldId>, S::Names)> = Vec::new();
    open.try_reserve(1).map_err(out_of_memory)?;
    open.push((None, names));
    while let Some((map, names)) = open.last_mut() {
        let map = *map;
        let known = source.name(names, |name| {
            let found = match map {
                None => fields.outer(name.hash, name.bytes),
                Some(map) => fields.inner(map, name.hash, name.bytes),
            };
            found.ok_or_else(|| String::from_utf8_lossy(&name.bytes[..name.bytes.len().min(LONGEST)]).into_owned())
        })?;
        match known {
            None => drop(open.pop()),
            Some(Err(name)) => return Err(source.locate(unknown(map, name, schema)).into()),
            Some(Ok(id)) if fields.attribute(id).is_some() => source.skip()?,
            Some(Ok(id)) => match source.names()? {
                Some(names) => {
                    open.try_reserve(1).map_err(out_of_memory)?;
                    open.push((Some(id), names));
                }
                None => source.skip()?,
            },
        }
    }
    Ok(())
}

fn unknown(map: Option<FieldId>, name: String, schema: &Schema) -> Error {
    let mut way = map.map_or(Vec::new(), |map| schema.fields().path(map));
    way.push(Cow::Owned(name));
    let name = path::canonical(&way);
    let mend = suggestion(&name, schema).unwrap_or("declare it there, or search without `strict`".into());
    Error::new(Kind::UnknownAttribute, format!("the schema has no attribute {}; {mend}", quote_path(&name))).about(name)
}
