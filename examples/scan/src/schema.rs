//! The attributes of events and expressions.

use crate::error::{push, Error, Kind};
use crate::term::Reader;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Boolean,
    Integer,
    Float,
    Text,
    IntegerEnum,
    IntegerList,
    TextList,
    Segments,
    FrequencyCaps,
}

/// The bounds of an attribute's constants in expressions.
#[derive(Clone, Copy)]
pub enum Bounds {
    None,
    Integers(i64, i64),
    Floats(f64, f64),
    /// Maximum number of distinct constants.
    Count(u64),
}

pub struct Attribute {
    pub name: Vec<u8>,
    pub ty: Type,
    pub optional: bool,
    pub bounds: Bounds,
}

pub type Schema = Vec<Attribute>;

impl Attribute {
    /// Returns whether values are lists of integers or strings.
    pub fn is_list(&self) -> bool {
        matches!(self.ty, Type::IntegerList | Type::TextList)
    }
}

/// Returns the position of the attribute `name`.
pub fn find(schema: &Schema, name: &[u8]) -> Option<usize> {
    schema.iter().position(|attribute| attribute.name == name)
}

/// Reads a list of `{Name, Type, Optional, Bounds}`.
pub fn read(bytes: &[u8]) -> Result<Schema, Error<'_>> {
    let mut reader = Reader::new(bytes)?;
    let mut schema = Schema::new();
    reader.list(|reader| {
        reader.tuple(4)?;
        let name = reader.binary()?;
        let about = |message| Error::new(Kind::Type, message).about(name);
        if find(&schema, name).is_some() {
            return Err(about("it is declared twice; keep one declaration"));
        }
        let ty = type_called(reader.atom()?).ok_or_else(|| about("its type is not one of the nine"))?;
        let optional = reader.atom()? == b"true";
        let bounds = read_bounds(reader, ty)?;
        if !fit(bounds, ty) {
            return Err(about("its type takes no such bounds; give a min that is not above the max, or a count"));
        }
        push(&mut schema, Attribute { name: name.to_vec(), ty, optional, bounds })
    })?;
    reader.finish()?;
    Ok(schema)
}

fn type_called(name: &[u8]) -> Option<Type> {
    Some(match name {
        b"boolean" => Type::Boolean,
        b"integer" => Type::Integer,
        b"float" => Type::Float,
        b"string" => Type::Text,
        b"integer_enum" => Type::IntegerEnum,
        b"integer_list" => Type::IntegerList,
        b"string_list" => Type::TextList,
        b"segments" => Type::Segments,
        b"frequency_caps" => Type::FrequencyCaps,
        _ => return None,
    })
}

fn read_bounds<'a>(reader: &mut Reader<'a>, ty: Type) -> Result<Bounds, Error<'a>> {
    if reader.is_atom() {
        reader.atom()?;
        return Ok(Bounds::None);
    }
    if !reader.is_tuple() {
        return Ok(Bounds::Count(reader.number()?.unsigned()?));
    }
    reader.tuple(2)?;
    let mut bound = || match reader.is_atom() {
        true => reader.atom().map(|_| None),
        false => reader.number().map(Some),
    };
    let (min, max) = (bound()?, bound()?);
    Ok(match ty {
        Type::Float => {
            Bounds::Floats(min.map_or(Ok(f64::MIN), |min| min.float())?, max.map_or(Ok(f64::MAX), |max| max.float())?)
        }
        _ => Bounds::Integers(
            min.map_or(Ok(i64::MIN), |min| min.signed())?,
            max.map_or(Ok(i64::MAX), |max| max.signed())?,
        ),
    })
}

fn fit(bounds: Bounds, ty: Type) -> bool {
    match bounds {
        Bounds::None => true,
        Bounds::Integers(min, max) => matches!(ty, Type::Integer | Type::IntegerList) && min <= max,
        Bounds::Floats(min, max) => ty == Type::Float && min <= max,
        Bounds::Count(count) => matches!(ty, Type::Text | Type::IntegerEnum | Type::TextList) && count > 0,
    }
}
