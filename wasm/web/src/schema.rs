//! Reads the attributes of a schema.

use be_tree_index::error::{quoted, Error, Kind};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::time::Unit;
use js_sys::Array;
use wasm_bindgen::JsValue;

use crate::malformed;
use crate::values::integer;

/// Reads attributes, each `[name, type, optional, min, max, count, coerce, onMismatch, unit]`, `undefined` where there is none.
pub(crate) fn schema(attributes: &Array) -> Result<Schema, Error> {
    let given: Vec<_> = attributes.iter().map(|given| Array::from(&given)).collect();
    let attributes: Result<Vec<_>, _> = given.iter().map(attribute).collect();
    let mut schema = Schema::new(attributes?)?;
    for given in &given {
        let name = given.get(0).as_string().unwrap_or_default();
        if given.get(6).is_truthy() {
            schema.convert(&name)?;
        }
        match given.get(7).as_string().as_deref() {
            Some("undefined") => schema.forgive(&name)?,
            Some("error") | None => {}
            Some(_) => return Err(malformed("onMismatch is \"error\" or \"undefined\"").about(name)),
        }
        if let Some(unit) = given.get(8).as_string() {
            let Some(unit) = Unit::named(unit.as_bytes()) else {
                return Err(malformed("a unit is \"second\", \"millisecond\" or \"microsecond\"").about(name));
            };
            schema.set_unit(&name, unit)?;
        }
    }
    Ok(schema)
}

fn attribute(given: &Array) -> Result<Attribute, Error> {
    let name = given.get(0).as_string().ok_or_else(|| malformed("an attribute's name is a string"))?;
    let type_name = given.get(1).as_string().unwrap_or_default();
    let Some(&(_, ty)) = Type::NAMES.iter().find(|(known, _)| *known == type_name) else {
        let known: Vec<&str> = Type::NAMES.iter().map(|(known, _)| *known).collect();
        let message = format!("{} is not a type; the types are {}", quoted(&type_name), known.join(", "));
        return Err(Error::new(Kind::Type, message).about(name));
    };
    let optional = given.get(2).is_truthy();
    let bounds = bounds(given, ty).map_err(|error| error.about(&name))?;
    Ok(Attribute { name, ty, optional, bounds })
}

fn bounds(given: &Array, ty: Type) -> Result<Bounds, Error> {
    let [min, max, count] = [3, 4, 5].map(|place| Some(given.get(place)).filter(|bound| !bound.is_undefined()));
    if let Some(count) = count {
        if min.is_some() || max.is_some() {
            return Err(malformed("a count goes with no min or max; keep one of the two"));
        }
        let count = integer(&count).and_then(|count| u32::try_from(count).ok());
        return count.map(Bounds::Count).ok_or_else(|| malformed("a count is an integer from 1 to 4294967295"));
    }
    if min.is_none() && max.is_none() {
        return Ok(Bounds::Unbounded);
    }
    if ty == Type::Float {
        let float = |bound: Option<JsValue>, otherwise| match bound {
            None => Ok(otherwise),
            Some(bound) => bound.as_f64().ok_or_else(|| malformed("a bound of a float is a number")),
        };
        return Ok(Bounds::Float { min: float(min, f64::MIN)?, max: float(max, f64::MAX)? });
    }
    let whole = |bound: Option<JsValue>, otherwise| match bound {
        None => Ok(otherwise),
        Some(bound) => integer(&bound).ok_or_else(|| malformed("a bound of an integer is an integer of 64 bits")),
    };
    Ok(Bounds::Integer { min: whole(min, i64::MIN)?, max: whole(max, i64::MAX)? })
}
