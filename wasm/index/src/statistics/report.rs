//! A report: the merged figures of any days, expressions and tenants.
//!
//! A query asks for sections. A section groups by some of the dimensions day, tenant and id, and has an entry for each combination that
//! occurs. A section without dimensions has one entry, the totals. Statistics with the same name, kind and attribute merge within an
//! entry. The kinds' parameters may differ; the largest counts.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::error::{Error, Kind};
use crate::model::address::Address;
use crate::sketch::moments::Moments;
use crate::sketch::values::Value as Kept;
use crate::sketch::{ensure, push, request};
use crate::statistics::blob::Blob;
use crate::statistics::declaration::{Form, Header};
use crate::statistics::figure::{self, Figure};
use crate::support::hash::hash_of;
use crate::support::headroom::table_growth;

/// The maximum number of sections of a query.
pub const MAX_SECTIONS: usize = 8;
/// The maximum number of quantiles of a query.
pub const MAX_QUANTILES: usize = 100;

/// A query over blobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// The days that count.
    pub days: Days,
    /// The expressions that count, ascending, or `None` for all.
    pub ids: Option<Vec<u64>>,
    /// The dimensions by which each section groups.
    pub sections: Vec<Vec<Dimension>>,
    /// The quantiles, from 0 to 1, that the report tells of each statistic of that kind.
    pub quantiles: Vec<f64>,
}

/// Days since 1970 in UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Days {
    /// Every day.
    #[default]
    All,
    /// The days from the first to the last, both included.
    Range(i32, i32),
    /// These days, ascending.
    List(Vec<i32>),
}

/// A dimension by which a section groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dimension {
    /// The day.
    Day,
    /// The id of the expression.
    Id,
    /// The tenant, as the caller numbers it.
    Tenant,
}

/// The sections of a query, in its order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The sections.
    pub sections: Vec<Section>,
}

/// A section of a report.
#[derive(Clone, Debug, PartialEq)]
pub struct Section {
    /// The dimensions by which the section groups.
    pub dimensions: Vec<Dimension>,
    /// The entries, ascending by tenant, day and id.
    pub entries: Vec<Entry>,
}

/// The values of the dimensions of an entry, 0 where the section has no such dimension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The tenant.
    pub tenant: u32,
    /// The day.
    pub day: i32,
    /// The id of the expression.
    pub id: u64,
}

/// An entry of a section.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The values of the dimensions.
    pub key: Key,
    /// The events and those that matched at least one expression, whichever it was. `None` if the section groups by id.
    pub total: Option<Total>,
    /// The matches of all expressions that count.
    pub matches: u64,
    /// The merged statistics, in the order of name, kind and attribute.
    pub stats: Vec<StatResult>,
}

/// The events of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// All events that were matched against the tenants' expressions.
    pub events: u64,
    /// The events that matched at least one expression.
    pub matched: u64,
}

/// The result of a statistic.
#[derive(Clone, Debug, PartialEq)]
pub struct StatResult {
    /// The description.
    pub header: Arc<Header>,
    /// The result.
    pub value: StatValue,
}

/// The result of a kind of statistic.
#[derive(Clone, Debug, PartialEq)]
pub enum StatValue {
    /// The number of distinct values, and whether it is exact.
    Uniques {
        /// The number.
        count: u64,
        /// Whether it is exact.
        exact: bool,
    },
    /// The moments of integers.
    Integers {
        /// The number of values.
        count: u64,
        /// Their sum.
        sum: i128,
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// The moments of floats.
    Floats {
        /// The number of values.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// The most frequent values.
    Top {
        /// The number of all values.
        total: u64,
        /// The frequent ones, the most frequent first.
        values: Vec<Count>,
    },
    /// Quantiles.
    Quantiles {
        /// The number of values.
        count: u64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// The quantiles of the query, each with the value there.
        values: Vec<(f64, f64)>,
    },
    /// The distinct values.
    Members {
        /// The values, ascending.
        values: Vec<Value>,
        /// Whether there are more.
        more: bool,
    },
}

/// A frequent value.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The value.
    pub value: Value,
    /// An upper bound of its number.
    pub count: u64,
    /// The number is at least the count without this error.
    pub error: u64,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer.
    Integer(i64),
    /// A boolean.
    Boolean(bool),
    /// A string, or an address as text.
    Text(Vec<u8>),
}

/// Merges blobs, each with the number of its tenant, as a query asks for.
///
/// Errors: [`Kind::Syntax`] if a blob is malformed, [`Kind::OutOfMemory`].
pub fn report<'a>(query: &Query, blobs: impl Iterator<Item = (u32, &'a [u8])>) -> Result<Report, Error> {
    let mut groups = Vec::new();
    for dimensions in &query.sections {
        let mut group = Groups::new(dimensions);
        if dimensions.is_empty() {
            // Totals are there even if nothing was counted.
            group.sums(Key::default())?;
        }
        push(&mut groups, group)?;
    }
    for (tenant, bytes) in blobs {
        let mut blob = Blob::open(bytes)?;
        if !query.days.contain(blob.day) {
            continue;
        }
        let key = Key { tenant, day: blob.day, id: 0 };
        for group in groups.iter_mut().filter(|group| !group.has(Dimension::Id)) {
            let sums = group.sums(key)?;
            sums.total.events = sums.total.events.saturating_add(blob.events);
            sums.total.matched = sums.total.matched.saturating_add(blob.matched);
        }
        while let Some(row) = blob.next()? {
            if query.ids.as_ref().is_some_and(|ids| ids.binary_search(&row.id).is_err()) {
                continue;
            }
            for group in &mut groups {
                let sums = group.sums(Key { id: row.id, ..key })?;
                sums.matches = sums.matches.saturating_add(row.matches);
                row.figures.iter().try_for_each(|(header, figure)| figure::add(&mut sums.figures, header, figure))?;
            }
        }
    }
    let mut report = Report::default();
    for group in groups {
        push(&mut report.sections, group.section(&query.quantiles)?)?;
    }
    Ok(report)
}

impl Days {
    fn contain(&self, day: i32) -> bool {
        match self {
            Days::All => true,
            Days::Range(first, last) => (*first..=*last).contains(&day),
            Days::List(days) => days.binary_search(&day).is_ok(),
        }
    }
}

/// The sums of a section.
struct Groups<'a> {
    dimensions: &'a [Dimension],
    table: HashTable<Sums>,
}

/// The sums of an entry.
#[derive(Default)]
struct Sums {
    key: Key,
    total: Total,
    matches: u64,
    figures: Vec<(Arc<Header>, Figure)>,
}

impl<'a> Groups<'a> {
    fn new(dimensions: &'a [Dimension]) -> Self {
        Groups { dimensions, table: HashTable::new() }
    }

    fn has(&self, dimension: Dimension) -> bool {
        self.dimensions.contains(&dimension)
    }

    /// Returns the sums for a key, reduced to the dimensions.
    fn sums(&mut self, key: Key) -> Result<&mut Sums, Error> {
        let key = Key {
            tenant: if self.has(Dimension::Tenant) { key.tenant } else { 0 },
            day: if self.has(Dimension::Day) { key.day } else { 0 },
            id: if self.has(Dimension::Id) { key.id } else { 0 },
        };
        ensure(match table_growth(&self.table, 1) {
            0 => 0,
            bytes => bytes + request::<u8>(0),
        })?;
        let entry = self.table.entry(hash_of(&key), |sums| sums.key == key, |sums| hash_of(&sums.key));
        Ok(entry.or_insert_with(|| Sums { key, ..Sums::default() }).into_mut())
    }

    /// Returns the section.
    fn section(self, quantiles: &[f64]) -> Result<Section, Error> {
        let has_total = !self.has(Dimension::Id);
        let mut section = Section { dimensions: Vec::new(), entries: Vec::new() };
        self.dimensions.iter().try_for_each(|&dimension| push(&mut section.dimensions, dimension))?;
        for sums in self.table {
            push(&mut section.entries, sums.entry(has_total, quantiles)?)?;
        }
        section.entries.sort_unstable_by_key(|entry| entry.key);
        Ok(section)
    }
}

impl Sums {
    fn entry(mut self, has_total: bool, quantiles: &[f64]) -> Result<Entry, Error> {
        self.figures.sort_unstable_by(|(a, _), (b, _)| {
            (&a.name, a.kind.code(), &a.attribute).cmp(&(&b.name, b.kind.code(), &b.attribute))
        });
        let mut stats = Vec::new();
        for (header, figure) in self.figures {
            if let Some(value) = result(&figure, header.form, quantiles)? {
                push(&mut stats, StatResult { header, value })?;
            }
        }
        let total = has_total.then_some(self.total);
        Ok(Entry { key: self.key, total, matches: self.matches, stats })
    }
}

/// Returns the result of a figure, unless it has counted nothing.
fn result(figure: &Figure, form: Form, quantiles: &[f64]) -> Result<Option<StatValue>, Error> {
    Ok(Some(match figure {
        Figure::Nothing => return Ok(None),
        Figure::Uniques(uniques) => StatValue::Uniques { count: uniques.estimate(), exact: uniques.is_exact() },
        Figure::Moments(moments) => match **moments {
            Moments::Integers { count, sum, min, max } => StatValue::Integers { count, sum, min, max },
            Moments::Floats { count, sum, compensation, min, max } => {
                StatValue::Floats { count, sum: (sum + compensation).clamp(f64::MIN, f64::MAX), min, max }
            }
        },
        Figure::Top(top) => {
            let mut values = Vec::new();
            for (value, count, error) in top.frequent()? {
                push(&mut values, Count { value: shown(value, form)?, count, error })?;
            }
            StatValue::Top { total: top.total(), values }
        }
        Figure::Quantiles(sketch) => {
            let Some((min, max)) = sketch.range() else { return Ok(None) };
            let mut values = Vec::new();
            for &quantile in quantiles {
                if let Some(value) = sketch.quantile(quantile) {
                    push(&mut values, (quantile, value))?;
                }
            }
            StatValue::Quantiles { count: sketch.count(), min, max, values }
        }
        Figure::Members(members) => {
            let mut values = Vec::new();
            for value in members.sorted()? {
                push(&mut values, shown(value, form)?)?;
            }
            StatValue::Members { values, more: members.has_more() }
        }
    }))
}

/// The maximum number of bytes of an address as text.
const MAX_ADDRESS_BYTES: usize = 45;

/// Returns a kept value in the form of its attribute.
fn shown(value: &Kept, form: Form) -> Result<Value, Error> {
    ensure(request::<u8>(2 * MAX_ADDRESS_BYTES))?;
    Ok(match (value, form) {
        (&Kept::Integer(integer), Form::Booleans) => Value::Boolean(integer != 0),
        (&Kept::Integer(integer), _) => Value::Integer(integer),
        (Kept::Bytes(bytes), Form::Addresses) => {
            let address = match (bytes.first_chunk::<4>(), bytes.first_chunk::<16>()) {
                (_, Some(&v6)) => Address::v6(v6),
                (Some(&v4), None) => Address::v4(v4),
                (None, None) => return Err(Error::new(Kind::Syntax, "an address of the statistics has too few bytes")),
            };
            Value::Text(address.to_string().into_bytes())
        }
        (Kept::Bytes(bytes), _) => {
            ensure(request::<u8>(bytes.len()))?;
            Value::Text(bytes.to_vec())
        }
    })
}
