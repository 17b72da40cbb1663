//! Requests as external terms: a schema, subscriptions to insert, and changes of a tenant.

use be_tree_index::error::{quoted, Error, Kind};
use be_tree_index::index::Insertion;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::time::Unit;
use be_tree_index::shard::{Change, Put};
use be_tree_index::statistics::Declaration;
use be_tree_index::support::headroom::push;
use be_tree_index::term::{Kind as TermKind, Reader};
use be_tree_module::refusal::Refusal;

/// Reads a list of `{Name, Type, Optional, Bounds}`, `{…, Converts}` or `{…, Converts, Options}`.
pub(crate) fn schema(bytes: &[u8]) -> Result<Schema, Error> {
    let mut reader = Reader::new(bytes)?;
    let mut attributes = Vec::new();
    let mut treatments = Vec::new();
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        let (attribute, treatment) = attribute(&mut reader)?;
        if treatment != Treatment::default() {
            treatments.push((attribute.name.clone(), treatment));
        }
        attributes.push(attribute);
    }
    reader.finish()?;
    let mut schema = Schema::new(attributes)?;
    for (name, Treatment { converts, forgives, unit }) in treatments {
        if converts {
            schema.convert(&name)?;
        }
        if forgives {
            schema.forgive(&name)?;
        }
        if let Some(unit) = unit {
            schema.set_unit(&name, unit)?;
        }
    }
    Ok(schema)
}

/// The conversion of an attribute's values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Treatment {
    /// Whether values of other types are converted.
    converts: bool,
    /// Whether a misfit value counts as undefined.
    forgives: bool,
    /// The unit of numbers that are times.
    unit: Option<Unit>,
}

fn attribute(reader: &mut Reader) -> Result<(Attribute, Treatment), Error> {
    let arity = reader.tuple()?;
    if !matches!(arity, 4..=6) {
        let message = format!("an attribute is {{Name, Type, Optional, Bounds}}, but this tuple has {arity} elements");
        return Err(Error::new(Kind::Type, message));
    }
    let name = utf8(reader.binary()?)?;
    let type_name = reader.atom()?;
    let ty = Type::NAMES.iter().find(|(known, _)| known.as_bytes() == &*type_name);
    let Some(&(_, ty)) = ty else {
        let known: Vec<&str> = Type::NAMES.iter().map(|(known, _)| *known).collect();
        let given = String::from_utf8_lossy(&type_name);
        let message = format!("{} is not a type; the types are {}", quoted(&given), known.join(", "));
        return Err(Error::new(Kind::Type, message).about(name));
    };
    let optional = reader.boolean()?;
    let bounds = bounds(reader, ty)?;
    let converts = arity > 4 && reader.boolean()?;
    let mut treatment = Treatment { converts, ..Treatment::default() };
    if arity > 5 {
        options(reader, &name, &mut treatment)?;
    }
    Ok((Attribute { name, ty, optional, bounds }, treatment))
}

/// Reads a list of `{on_mismatch, undefined}` and `{unit, Unit}`.
fn options(reader: &mut Reader, name: &str, treatment: &mut Treatment) -> Result<(), Error> {
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        tuple_of(reader, 2, "an option is {Key, Value}")?;
        let (key, value) = (reader.atom()?, reader.atom()?);
        match (&*key, &*value) {
            (b"on_mismatch", b"undefined") => treatment.forgives = true,
            (b"unit", unit) if Unit::named(unit).is_some() => treatment.unit = Unit::named(unit),
            _ => {
                let [key, value] = [key, value].map(|atom| String::from_utf8_lossy(&atom).into_owned());
                let message = format!(
                    "`{name}` has the option {{{key}, {value}}}; the options are {{on_mismatch, undefined}} and {{unit, Unit}} \
                     with second, millisecond or microsecond"
                );
                return Err(Error::new(Kind::Type, message).about(name));
            }
        }
    }
    Ok(())
}

fn bounds(reader: &mut Reader, ty: Type) -> Result<Bounds, Error> {
    match reader.peek()? {
        TermKind::Atom => {
            reader.atom()?;
            Ok(Bounds::Unbounded)
        }
        TermKind::Tuple => {
            tuple_of(reader, 2, "bounds are {Min, Max}")?;
            if ty == Type::Float {
                let min = optional_bound(reader, Reader::float)?.unwrap_or(f64::MIN);
                let max = optional_bound(reader, Reader::float)?.unwrap_or(f64::MAX);
                Ok(Bounds::Float { min, max })
            } else {
                let min = optional_bound(reader, Reader::integer)?.unwrap_or(i64::MIN);
                let max = optional_bound(reader, Reader::integer)?.unwrap_or(i64::MAX);
                Ok(Bounds::Integer { min, max })
            }
        }
        _ => {
            let count = reader.unsigned()?;
            Ok(Bounds::Count(u32::try_from(count).unwrap_or(u32::MAX)))
        }
    }
}

fn optional_bound<'a, T>(
    reader: &mut Reader<'a>,
    bound: impl FnOnce(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    if reader.peek()? == TermKind::Atom {
        reader.atom()?;
        return Ok(None);
    }
    bound(reader).map(Some)
}

/// Reads a list of `{Id, Expression, Constants}`, one subscription at a time.
pub(crate) fn insertions(bytes: &[u8]) -> Result<impl Iterator<Item = Result<Insertion<'_>, Error>>, Error> {
    rest_insertions(Reader::new(bytes)?)
}

/// Reads the list of [`insertions`], which is the rest of a term.
fn rest_insertions<'a>(mut reader: Reader<'a>) -> Result<impl Iterator<Item = Result<Insertion<'a>, Error>>, Error> {
    let mut list = reader.list()?;
    let mut failed = false;
    Ok(std::iter::from_fn(move || {
        if failed {
            return None;
        }
        let next = match reader.next(&mut list) {
            Ok(true) => insertion(&mut reader),
            Ok(false) => match reader.finish() {
                Ok(()) => return None,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        failed = next.is_err();
        Some(next)
    }))
}

/// Reads `{[Id], [{Id, Expression, Constants}]}`: ids to delete, and subscriptions to put.
pub(crate) fn deletions_and_puts(
    bytes: &[u8],
) -> Result<(Vec<u64>, impl Iterator<Item = Result<Insertion<'_>, Error>>), Error> {
    let mut reader = Reader::new(bytes)?;
    tuple_of(&mut reader, 2, "a change is {Deleted, Put}")?;
    let deleted = ids(&mut reader)?;
    Ok((deleted, rest_insertions(reader)?))
}

fn ids(reader: &mut Reader) -> Result<Vec<u64>, Error> {
    let mut ids = Vec::new();
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        push(&mut ids, reader.unsigned()?)?;
    }
    Ok(ids)
}

/// Reads `{Day, Declaration, [Id], [{Id, Expression, Constants, Declaration}]}`.
pub(crate) fn change<'a>(bytes: &'a [u8], schema: &Schema) -> Result<Change<'a>, Refusal> {
    let mut reader = Reader::new(bytes)?;
    tuple_of(&mut reader, 4, "a change is {Day, Declaration, Deleted, Put}")?;
    let day = day(reader.integer()?)?;
    let declaration = Declaration::read(&mut reader, schema)?;
    let deleted = ids(&mut reader)?;
    let mut puts = Vec::new();
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        let put = put(&mut reader, schema).map_err(|error| Refusal::of(puts.len(), error))?;
        push(&mut puts, put)?;
    }
    reader.finish()?;
    Ok(Change { day, declaration, deleted, puts })
}

fn day(day: i64) -> Result<i32, Error> {
    i32::try_from(day).map_err(|_| Error::new(Kind::OutOfBounds, "a day is a number of days since 1970 in 32 bits"))
}

fn put<'a>(reader: &mut Reader<'a>, schema: &Schema) -> Result<Put<'a>, Error> {
    tuple_of(reader, 4, "a subscription is {Id, Expression, Constants, Declaration}")?;
    Ok(Put { insertion: subscription(reader)?, declaration: Declaration::read(reader, schema)? })
}

fn insertion<'a>(reader: &mut Reader<'a>) -> Result<Insertion<'a>, Error> {
    tuple_of(reader, 3, "a subscription is {Id, Expression, Constants}")?;
    subscription(reader)
}

/// Reads the elements `Id, Expression, Constants` of a tuple.
fn subscription<'a>(reader: &mut Reader<'a>) -> Result<Insertion<'a>, Error> {
    let id = reader.unsigned()?;
    let text = reader.binary()?;
    let mut constants = Vec::new();
    let mut list = reader.list()?;
    while reader.next(&mut list)? {
        tuple_of(reader, 2, "a constant is {Name, Value}")?;
        let name = reader.binary()?;
        constants.push((name, reader.integer()?));
    }
    Ok(Insertion { id, text, constants })
}

fn tuple_of(reader: &mut Reader, arity: usize, expected: &str) -> Result<(), Error> {
    match reader.tuple()? {
        given if given == arity => Ok(()),
        given => Err(Error::new(Kind::Type, format!("{expected}, but this tuple has {given} elements"))),
    }
}

fn utf8(bytes: &[u8]) -> Result<String, Error> {
    let text = std::str::from_utf8(bytes);
    text.map(str::to_owned).map_err(|_| Error::new(Kind::Syntax, "an attribute's name is not UTF-8"))
}
