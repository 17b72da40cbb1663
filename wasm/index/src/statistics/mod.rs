//! The statistics of a tenant: for each expression the matches of each day, and the statistics that it declares.
//!
//! An event counts in two steps. [`Statistics::prepare`] reads the event's values, and ensures the memory of the counting.
//! [`Statistics::count`] then cannot fail. So an event counts wholly or not at all.
//!
//! A tenant has a current day. An event of a later day seals the figures so far: they stay, apart, until the caller has stored them
//! ([`Statistics::encode_sealed`]) and releases them. An event of an earlier day counts on the current day, so a clock that goes back
//! opens no day anew.
//!
//! Stored figures are blobs (`blob.rs`), which only this module reads: [`report`] merges the blobs of any days, expressions and
//! tenants, [`merge`] those of one day, and [`Statistics::restore`] adds one to a tenant.

mod blob;
mod day;
mod declaration;
mod declarations;
mod figure;
mod id_map;
mod report;
mod terms;
#[cfg(test)]
mod tests;
mod work;

pub use declaration::{Declaration, Form, Header, Stat, StatKind, MAX_NAME_BYTES, MAX_STATS};
pub use report::{
    report, Count, Days, Dimension, Entry, Key, Query, Report, Section, StatResult, StatValue, Total, Value,
};
pub use terms::{answer, read_blobs, read_query, write_report};
pub use work::Work;

use blob::Blob;
use day::{Day, Row};
use declarations::Declarations;

use crate::error::{Error, Kind};
use crate::event::Event;
use crate::sketch::{ensure, push, request, reserve};
use crate::support::headroom::Reserve;

/// The statistics of one tenant.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    today: Day,
    /// Days that are over, ascending.
    sealed: Vec<Day>,
    declarations: Declarations,
}

/// Memory that is held for declarations until it is dropped.
#[derive(Debug)]
pub struct Held {
    _reserve: Reserve,
}

/// An upper bound of what declarations add.
struct Growth {
    /// Entries of the current day.
    entries: usize,
    /// Expressions with their own declaration.
    own: usize,
    /// The bytes requested, for entries and expressions too.
    bytes: usize,
}

impl Statistics {
    /// Returns empty statistics. `day` is the current day, in days since 1970 in UTC.
    pub fn new(day: i32) -> Self {
        Statistics { today: Day::new(day), ..Statistics::default() }
    }

    /// Returns the current day.
    pub fn day(&self) -> i32 {
        self.today.day
    }

    /// Returns the events that were counted on the current day.
    pub fn events(&self) -> u64 {
        self.today.events
    }

    /// Declares the statistics of all expressions without their own. Figures of the current day go on where a statistic has the same
    /// name, kind and attribute as before. The others stay for reports.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing has changed then.
    pub fn declare(&mut self, default: Declaration) -> Result<(), Error> {
        ensure(self.declarations_growth(Some(&default), std::iter::empty()).bytes)?;
        let entries = self.declarations_growth(Some(&default), std::iter::empty()).entries;
        self.today.reserve_entries(entries);
        self.declarations.set_default(default);
        let declarations = &self.declarations;
        let mut ids = Vec::with_capacity(self.today.rows_len());
        ids.extend(self.today.ids().filter(|&id| !declarations.has_own(id)));
        for id in ids {
            self.today.redeclare(id, declarations.of_others());
        }
        Ok(())
    }

    /// Declares the statistics of an expression, or with `None` that it has those of [`Statistics::declare`]. Call it for each
    /// expression that is inserted.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing has changed then.
    pub fn declare_for(&mut self, id: u64, declaration: Option<Declaration>) -> Result<(), Error> {
        let growth = self.declarations_growth(None, [(id, declaration.as_ref())].into_iter());
        ensure(growth.bytes)?;
        self.today.reserve_entries(growth.entries);
        if declaration.is_some() || self.declarations.has_own(id) {
            self.declarations.set(id, declaration);
        }
        self.today.redeclare(id, self.declarations.of(id));
        Ok(())
    }

    /// Forgets the declaration of an expression that is deleted. Its figures of the current day stay for reports.
    pub fn remove(&mut self, id: u64) {
        self.declarations.set(id, None);
    }

    /// Holds the memory for these declarations. Once it is dropped, [`Statistics::declare`] and [`Statistics::declare_for`] succeed
    /// with them, provided that only removals come in between.
    ///
    /// Errors: [`Kind::OutOfMemory`].
    pub fn hold_declarations<'a>(
        &mut self,
        default: Option<&'a Declaration>,
        declared: impl Iterator<Item = (u64, Option<&'a Declaration>)>,
    ) -> Result<Held, Error> {
        let growth = self.declarations_growth(default, declared);
        ensure(growth.bytes)?;
        // Tables that grow at once request less than those that grow by and by.
        self.today.reserve_entries(growth.entries);
        if growth.own > 0 {
            self.declarations.reserve(growth.own);
        }
        let mut reserve = Reserve::default();
        reserve.hold(growth.bytes)?;
        Ok(Held { _reserve: reserve })
    }

    /// Returns what these declarations add, at most.
    fn declarations_growth<'a>(
        &self,
        default: Option<&'a Declaration>,
        declared: impl Iterator<Item = (u64, Option<&'a Declaration>)>,
    ) -> Growth {
        let known = self.declarations.of_others().map(|default| &**default);
        let mut own = 0;
        let single = declared.map(|(id, declaration)| {
            own += usize::from(declaration.is_some());
            (id, declaration.or(default).or(known))
        });
        let (mut entries, mut bytes) = self.today.redeclare_growth(single);
        bytes += self.declarations.growth(own);
        if default.is_some() {
            let ids = self.today.ids().filter(|&id| !self.declarations.has_own(id)).map(|id| (id, default));
            let (more, besides) = self.today.redeclare_growth(ids);
            entries += more;
            bytes += besides + Declarations::SHARED_BYTES + request::<u64>(self.today.rows_len());
        }
        Growth { entries, own, bytes: bytes + self.today.entries_growth(entries) }
    }

    /// Ensures the memory for counting an event that matched these ids, and reads the event's values into `work`. If `day` is later
    /// than the current day, the current day is sealed.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing has been counted then, and a day may have been sealed.
    pub fn prepare(&mut self, work: &mut Work, day: i32, ids: &[u64], event: &Event) -> Result<(), Error> {
        if day > self.today.day {
            self.advance(day)?;
        }
        work.begin();
        work.reserve_rows(ids.len())?;
        match self.today.prepare(ids, &self.declarations, event, work)? {
            0 => Ok(()),
            bytes => ensure(bytes),
        }
    }

    /// Counts an event that matched these ids, after [`Statistics::prepare`] with the same ids and event.
    pub fn count(&mut self, work: &Work, ids: &[u64], event: &Event) {
        self.today.count(ids, &self.declarations, event, work);
    }

    /// Begins a later day, and seals the current one unless it is empty.
    fn advance(&mut self, day: i32) -> Result<(), Error> {
        if self.today.is_empty() {
            self.today.day = day;
            return Ok(());
        }
        reserve(&mut self.sealed, 1)?;
        self.sealed.push(std::mem::replace(&mut self.today, Day::new(day)));
        Ok(())
    }

    /// Returns the oldest sealed day.
    pub fn sealed(&self) -> Option<i32> {
        self.sealed.first().map(|day| day.day)
    }

    /// Returns the number of sealed days.
    pub fn sealed_days(&self) -> usize {
        self.sealed.len()
    }

    /// Appends the blob of a sealed day to `out`. Errors: [`Kind::NotFound`], [`Kind::OutOfMemory`].
    pub fn encode_sealed(&self, day: i32, out: &mut Vec<u8>) -> Result<(), Error> {
        match self.sealed.iter().find(|sealed| sealed.day == day) {
            Some(sealed) => encode(sealed, out),
            None => Err(Error::new(Kind::NotFound, format!("day {day} is not sealed; ask which days are"))),
        }
    }

    /// Forgets a sealed day, once its blob is stored. A day that is not sealed is ignored.
    pub fn release(&mut self, day: i32) {
        self.sealed.retain(|sealed| sealed.day != day);
    }

    /// Appends the blob of the current day to `out`. Errors: [`Kind::OutOfMemory`].
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), Error> {
        encode(&self.today, out)
    }

    /// Adds the counts of a blob to those of its day. A blob of a later day seals the current day. One of an earlier day becomes, or
    /// joins, a sealed day.
    ///
    /// Errors: [`Kind::Syntax`] if the blob is malformed, [`Kind::OutOfMemory`]; no counts have been added then.
    pub fn restore(&mut self, blob: &[u8]) -> Result<(), Error> {
        let mut blob = Blob::open(blob)?;
        let rows = rows(&mut blob)?;
        if blob.day > self.today.day {
            self.advance(blob.day)?;
        }
        let declarations = &self.declarations;
        if blob.day == self.today.day {
            return absorb(&mut self.today, &blob, &rows, declarations);
        }
        match self.sealed.binary_search_by_key(&blob.day, |sealed| sealed.day) {
            Ok(position) => absorb(&mut self.sealed[position], &blob, &rows, declarations),
            Err(position) => {
                let mut day = Day::new(blob.day);
                reserve(&mut self.sealed, 1)?;
                absorb(&mut day, &blob, &rows, &Declarations::default())?;
                self.sealed.insert(position, day);
                Ok(())
            }
        }
    }

    /// Returns the bytes of all figures and declarations.
    pub fn bytes(&self) -> usize {
        let sealed = self.sealed.capacity() * size_of::<Day>() + self.sealed.iter().map(Day::bytes).sum::<usize>();
        self.today.bytes() + sealed + self.declarations.bytes()
    }
}

/// Appends the blob of a day, or nothing if memory is refused.
fn encode(day: &Day, out: &mut Vec<u8>) -> Result<(), Error> {
    let start = out.len();
    blob::encode(day, out).inspect_err(|_| out.truncate(start))
}

/// Reads all rows of a blob, and joins those of one id. So no two figures of the result merge.
fn rows(blob: &mut Blob) -> Result<Vec<Row>, Error> {
    let mut rows: Vec<Row> = Vec::new();
    while let Some(Row { id, matches, figures }) = blob.next()? {
        if rows.last().is_none_or(|last| last.id != id) {
            push(&mut rows, Row { id, matches: 0, figures: Vec::new() })?;
        }
        let Some(row) = rows.last_mut() else { unreachable!("a row was added") };
        row.matches = row.matches.saturating_add(matches);
        for (header, figure) in figures {
            figure::add(&mut row.figures, &header, &figure)?;
        }
    }
    Ok(rows)
}

/// Adds the rows of a blob to a day.
fn absorb(day: &mut Day, blob: &Blob, rows: &[Row], declarations: &Declarations) -> Result<(), Error> {
    ensure(day.absorb_growth(rows, declarations))?;
    day.absorb(blob.events, blob.matched, rows, declarations);
    Ok(())
}

/// Merges blobs of one day, and appends the blob of all of them to `out`.
///
/// Errors: [`Kind::Syntax`] if a blob is malformed, [`Kind::Type`] if there is none or their days differ, [`Kind::OutOfMemory`].
pub fn merge<'a>(blobs: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut merged: Option<Day> = None;
    for bytes in blobs {
        let mut blob = Blob::open(bytes)?;
        let rows = rows(&mut blob)?;
        let day = merged.get_or_insert_with(|| Day::new(blob.day));
        if day.day != blob.day {
            let message =
                format!("one blob is of day {}, another of day {}; merge those of one day", day.day, blob.day);
            return Err(Error::new(Kind::Type, message));
        }
        absorb(day, &blob, &rows, &Declarations::default())?;
    }
    match merged {
        Some(day) => encode(&day, out),
        None => Err(Error::new(Kind::Type, "there is no blob to merge; give at least one")),
    }
}
