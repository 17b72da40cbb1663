//! Queries and reports as external terms.

use crate::error::{Error, Kind};
use crate::sketch::push;
use crate::statistics::declaration::Header;
use crate::statistics::report::{
    report, Days, Dimension, Entry, Query, Report, StatValue, Value, MAX_QUANTILES, MAX_SECTIONS,
};
use crate::support::hash::out_of_memory;
use crate::term::{self, Reader, Writer};

/// The names of the dimensions.
const DIMENSIONS: [(&str, Dimension); 3] =
    [("day", Dimension::Day), ("id", Dimension::Id), ("tenant", Dimension::Tenant)];

/// A blob and the number of its tenant.
pub type Labelled<'a> = (u32, &'a [u8]);

/// Reads `{Days, Ids, Sections, Quantiles, Blobs}`:
///
///   - `Days`: the atom `all`, `{First, Last}` or a list of days since 1970 in UTC;
///   - `Ids`: the atom `all` or a list of ids;
///   - `Sections`: a list of lists of the atoms `day`, `id` and `tenant`;
///   - `Quantiles`: a list of numbers from 0 to 1;
///   - `Blobs`: a list of `{Tenant, Blob}`. `Tenant` is a number below 2^32, by which the caller tells tenants apart.
///
/// Errors: another term; more than [`MAX_SECTIONS`] sections or [`MAX_QUANTILES`] quantiles; [`Kind::OutOfMemory`].
pub fn read_query(bytes: &[u8]) -> Result<(Query, Vec<Labelled<'_>>), Error> {
    let mut reader = Reader::new(bytes)?;
    tuple_of(&mut reader, 5, "a query is {Days, Ids, Sections, Quantiles, Blobs}")?;
    let query = Query {
        days: days(&mut reader)?,
        ids: ids(&mut reader)?,
        sections: sections(&mut reader)?,
        quantiles: quantiles(&mut reader)?,
    };
    let blobs = list(&mut reader, |reader| {
        tuple_of(reader, 2, "a blob is {Tenant, Blob}")?;
        let tenant = reader.unsigned()?;
        let Ok(tenant) = u32::try_from(tenant) else {
            return Err(Error::new(Kind::OutOfBounds, format!("the tenant {tenant} is not below 2^32")));
        };
        Ok((tenant, reader.binary()?))
    })?;
    reader.finish()?;
    Ok((query, blobs))
}

/// Reads a list of blobs. Errors: another term; [`Kind::OutOfMemory`].
pub fn read_blobs(bytes: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let mut reader = Reader::new(bytes)?;
    let blobs = list(&mut reader, Reader::binary)?;
    reader.finish()?;
    Ok(blobs)
}

/// Reads the query in `bytes` ([`read_query`]), and appends its report to `out` ([`write_report`]).
///
/// Errors: those of [`read_query`] and [`report()`].
pub fn answer(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let (query, blobs) = read_query(bytes)?;
    write_report(&report(&query, blobs.into_iter())?, out)
}

/// Appends a report: a list of sections in the order of the query, each a list of `{Key, Events, Matched, Matches, Stats}`.
///
///   - `Key`: the values of the section's dimensions, in its order: a list of integers;
///   - `Events`, `Matched`: integers, or `nil` if the section groups by id;
///   - `Stats`: a list of `{Name, Kind, Attribute, Value}`, where `Value` is, by kind,
///     - `uniques`: `{Count, Exact}`;
///     - `sum`: `{Count, Sum, Min, Max}`;
///     - `top`: `{Total, [{Value, Count, Error}]}`;
///     - `quantiles`: `{Count, Min, Max, [{Quantile, Value}]}`;
///     - `members`: `{[Value], More}`.
///
/// Errors: [`Kind::OutOfMemory`].
pub fn write_report(report: &Report, out: &mut Vec<u8>) -> Result<(), Error> {
    reserve(out, HEAD_BYTES)?;
    let mut writer = Writer::new(out);
    writer.list(report.sections.len());
    for section in &report.sections {
        writer.reserve(HEAD_BYTES).map_err(out_of_memory)?;
        writer.list(section.entries.len());
        for entry in &section.entries {
            write_entry(entry, &section.dimensions, &mut writer)?;
        }
        writer.end_list();
    }
    writer.end_list();
    Ok(())
}

/// More bytes than the fixed parts of an entry or a statistic have.
const HEAD_BYTES: usize = 256;
/// More bytes than a value of a list has besides its text.
const VALUE_BYTES: usize = 64;

fn reserve(out: &mut Vec<u8>, bytes: usize) -> Result<(), Error> {
    out.try_reserve(bytes).map_err(out_of_memory)
}

fn write_entry(entry: &Entry, dimensions: &[Dimension], writer: &mut Writer) -> Result<(), Error> {
    writer.reserve(HEAD_BYTES).map_err(out_of_memory)?;
    writer.tuple(5);
    writer.list(dimensions.len());
    for dimension in dimensions {
        match dimension {
            Dimension::Day => writer.integer(entry.key.day.into()),
            Dimension::Id => writer.unsigned(entry.key.id),
            Dimension::Tenant => writer.unsigned(entry.key.tenant.into()),
        }
    }
    writer.end_list();
    match entry.total {
        Some(total) => [total.events, total.matched].into_iter().for_each(|count| writer.unsigned(count)),
        None => (0..2).for_each(|_| writer.atom("nil")),
    }
    writer.unsigned(entry.matches);
    writer.list(entry.stats.len());
    for stat in &entry.stats {
        let Header { name, attribute, kind, .. } = &*stat.header;
        writer.reserve(HEAD_BYTES + name.len() + attribute.len()).map_err(out_of_memory)?;
        writer.tuple(4);
        writer.binary(name);
        writer.atom(kind.name());
        writer.binary(attribute);
        write_value(&stat.value, writer)?;
    }
    writer.end_list();
    Ok(())
}

fn write_value(value: &StatValue, writer: &mut Writer) -> Result<(), Error> {
    match value {
        StatValue::Uniques { count, exact } => {
            writer.tuple(2);
            writer.unsigned(*count);
            writer.boolean(*exact);
        }
        StatValue::Integers { count, sum, min, max } => {
            writer.tuple(4);
            writer.unsigned(*count);
            writer.wide(*sum);
            writer.integer(*min);
            writer.integer(*max);
        }
        StatValue::Floats { count, sum, min, max } => {
            writer.tuple(4);
            writer.unsigned(*count);
            [sum, min, max].into_iter().for_each(|float| writer.float(*float));
        }
        StatValue::Top { total, values } => {
            writer.tuple(2);
            writer.unsigned(*total);
            writer.list(values.len());
            for counted in values {
                writer.reserve(VALUE_BYTES).map_err(out_of_memory)?;
                writer.tuple(3);
                write_kept(&counted.value, writer)?;
                writer.unsigned(counted.count);
                writer.unsigned(counted.error);
            }
            writer.end_list();
        }
        StatValue::Quantiles { count, min, max, values } => {
            writer.tuple(4);
            writer.unsigned(*count);
            writer.float(*min);
            writer.float(*max);
            writer.list(values.len());
            for (quantile, value) in values {
                writer.reserve(VALUE_BYTES).map_err(out_of_memory)?;
                writer.tuple(2);
                writer.float(*quantile);
                writer.float(*value);
            }
            writer.end_list();
        }
        StatValue::Members { values, more } => {
            writer.tuple(2);
            writer.list(values.len());
            values.iter().try_for_each(|value| write_kept(value, writer))?;
            writer.end_list();
            writer.boolean(*more);
        }
    }
    Ok(())
}

fn write_kept(value: &Value, writer: &mut Writer) -> Result<(), Error> {
    writer.reserve(VALUE_BYTES).map_err(out_of_memory)?;
    match value {
        Value::Integer(integer) => writer.integer(*integer),
        Value::Boolean(boolean) => writer.boolean(*boolean),
        Value::Text(text) => {
            writer.reserve(VALUE_BYTES + text.len()).map_err(out_of_memory)?;
            writer.binary(text);
        }
    }
    Ok(())
}

fn days(reader: &mut Reader) -> Result<Days, Error> {
    if is_all(reader)? {
        return Ok(Days::All);
    }
    if reader.peek()? == term::Kind::Tuple {
        tuple_of(reader, 2, "a range of days is {First, Last}")?;
        return Ok(Days::Range(day(reader)?, day(reader)?));
    }
    let mut days = list(reader, day)?;
    days.sort_unstable();
    Ok(Days::List(days))
}

fn day(reader: &mut Reader) -> Result<i32, Error> {
    let day = reader.integer()?;
    i32::try_from(day).map_err(|_| Error::new(Kind::OutOfBounds, format!("the day {day} does not fit 32 bits")))
}

fn ids(reader: &mut Reader) -> Result<Option<Vec<u64>>, Error> {
    if is_all(reader)? {
        return Ok(None);
    }
    let mut ids = list(reader, Reader::unsigned)?;
    ids.sort_unstable();
    Ok(Some(ids))
}

fn sections(reader: &mut Reader) -> Result<Vec<Vec<Dimension>>, Error> {
    let sections = list(reader, |reader| list(reader, dimension))?;
    bounded(sections, MAX_SECTIONS, "sections")
}

fn dimension(reader: &mut Reader) -> Result<Dimension, Error> {
    let name = reader.atom()?;
    match DIMENSIONS.iter().find(|(known, _)| known.as_bytes() == &*name) {
        Some((_, dimension)) => Ok(*dimension),
        None => Err(Error::new(Kind::Type, "a section groups by some of `day`, `id` and `tenant`")),
    }
}

fn quantiles(reader: &mut Reader) -> Result<Vec<f64>, Error> {
    let quantiles = list(reader, Reader::float)?;
    if quantiles.iter().any(|quantile| !(0.0..=1.0).contains(quantile)) {
        return Err(Error::new(Kind::OutOfBounds, "a quantile is not between 0 and 1"));
    }
    bounded(quantiles, MAX_QUANTILES, "quantiles")
}

fn bounded<T>(elements: Vec<T>, most: usize, what: &str) -> Result<Vec<T>, Error> {
    match elements.len() <= most {
        true => Ok(elements),
        false => {
            let message = format!("a query has {} {what}; ask for at most {most} at once", elements.len());
            Err(Error::new(Kind::OutOfBounds, message))
        }
    }
}

/// Reads the atom `all`, if an atom comes next.
fn is_all(reader: &mut Reader) -> Result<bool, Error> {
    if reader.peek()? != term::Kind::Atom {
        return Ok(false);
    }
    match &*reader.atom()? {
        b"all" => Ok(true),
        _ => Err(Error::new(Kind::Type, "days and ids are a list, days also {First, Last}, or `all`")),
    }
}

fn list<'a, T>(
    reader: &mut Reader<'a>,
    mut element: impl FnMut(&mut Reader<'a>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    let mut left = reader.list()?;
    while reader.next(&mut left)? {
        push(&mut elements, element(reader)?)?;
    }
    Ok(elements)
}

fn tuple_of(reader: &mut Reader, arity: usize, expected: &str) -> Result<(), Error> {
    match reader.tuple()? {
        given if given == arity => Ok(()),
        given => Err(Error::new(Kind::Type, format!("{expected}, but this tuple has {given} elements"))),
    }
}
