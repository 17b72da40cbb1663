//! A blob: the figures of one tenant on one day as bytes, which describe themselves.
//!
//! Integers have a variable length unless a width is given, see [`codec`](crate::sketch::codec).
//!
//! | bytes | content |
//! | --- | --- |
//! | `BTST`, 1 | a mark and the version |
//! | signed | the day, in days since 1970 in UTC |
//! | two integers | events, and events that matched at least one expression |
//! | count, descriptions | of each statistic the name, the attribute's name (each a length and bytes), the kind (1 byte), the parameter (`k` or the bound, else 0), the form of values (1 byte) |
//! | count, rows | ascending by id: the distance from the id before, the matches, the number of figures, and each figure |
//!
//! A figure is the position of its description and its sketch, whose encoding stands at `encode` of each sketch. An id may have
//! several rows, whose numbers add up: figures whose statistic is no longer declared have rows of their own, without matches.
//! Kinds: 0 uniques, 1 sum, 2 top, 3 quantiles, 4 members. Forms: 0 integers, 1 floats, 2 strings, 3 booleans, 4 addresses.

use std::sync::Arc;

use hashbrown::HashTable;

use crate::error::Error;
use crate::sketch::codec::{put, put_bytes, put_signed, Input, MAX_INTEGER_BYTES};
use crate::sketch::{ensure, push, request, reserve};
use crate::statistics::day::{Day, Part, Row};
use crate::statistics::declaration::{Form, Header, StatKind, MAX_NAME_BYTES};
use crate::statistics::figure::Figure;
use crate::support::hash::{hash_bytes, hash_of};
use crate::support::headroom::table_growth;

/// The mark and the version at the start of a blob.
const START: [u8; 5] = *b"BTST\x01";
/// The fewest bytes of a description.
const MIN_DESCRIPTION_BYTES: usize = 5;
/// The fewest bytes of a row.
const MIN_ROW_BYTES: usize = 3;

/// The descriptions of a blob in the order of their first figure.
#[derive(Default)]
struct Descriptions<'a> {
    all: Vec<&'a Arc<Header>>,
    /// Positions in `all`.
    table: HashTable<u32>,
}

fn hash(header: &Header) -> u64 {
    hash_of(&(hash_bytes(&header.name), hash_bytes(&header.attribute), header.kind.code(), header.kind.parameter()))
}

impl<'a> Descriptions<'a> {
    fn find(&self, header: &Header) -> Option<usize> {
        let found = self.table.find(hash(header), |&position| **self.all[position as usize] == *header);
        found.map(|&position| position as usize)
    }

    fn add(&mut self, header: &'a Arc<Header>) -> Result<(), Error> {
        if self.find(header).is_none() {
            ensure(table_growth(&self.table, 1) + request::<u8>(0))?;
            push(&mut self.all, header)?;
            let position = self.all.len() as u32 - 1;
            self.table.insert_unique(hash(header), position, |&position| hash(self.all[position as usize]));
        }
        Ok(())
    }
}

/// Appends the figures of a day. Errors: [`crate::error::Kind::OutOfMemory`], after which a part may have been appended.
pub(super) fn encode(day: &Day, out: &mut Vec<u8>) -> Result<(), Error> {
    let mut parts: Vec<Part> = Vec::new();
    reserve(&mut parts, day.parts())?;
    day.each_part(|part| parts.push(part));
    parts.sort_unstable_by_key(|part| (part.id, std::cmp::Reverse(part.matches)));
    let mut descriptions = Descriptions::default();
    for &part in &parts {
        day.figures_of(part).try_for_each(|(header, _)| descriptions.add(header))?;
    }
    reserve(out, START.len() + 4 * MAX_INTEGER_BYTES)?;
    out.extend(START);
    put_signed(out, day.day.into());
    put(out, day.events);
    put(out, day.matched);
    put(out, descriptions.all.len() as u64);
    for header in &descriptions.all {
        reserve(out, header.name.len() + header.attribute.len() + 3 * MAX_INTEGER_BYTES + 2)?;
        put_bytes(out, &header.name);
        put_bytes(out, &header.attribute);
        out.push(header.kind.code());
        put(out, header.kind.parameter().into());
        out.push(header.form.code());
    }
    reserve(out, MAX_INTEGER_BYTES)?;
    put(out, parts.len() as u64);
    let mut last = 0;
    for &part in &parts {
        reserve(out, 3 * MAX_INTEGER_BYTES)?;
        put(out, part.id - last);
        put(out, part.matches);
        put(out, day.figures_of(part).count() as u64);
        last = part.id;
        for (header, figure) in day.figures_of(part) {
            let Some(position) = descriptions.find(header) else { unreachable!("all descriptions were added") };
            reserve(out, MAX_INTEGER_BYTES + figure.max_encoded_bytes())?;
            put(out, position as u64);
            figure.encode(out);
        }
    }
    Ok(())
}

/// A reader of a blob, row by row.
pub(super) struct Blob<'a> {
    pub day: i32,
    pub events: u64,
    pub matched: u64,
    descriptions: Vec<Arc<Header>>,
    rows: usize,
    id: u64,
    input: Input<'a>,
}

impl<'a> Blob<'a> {
    /// Reads the beginning of a blob. Errors: malformed bytes or an unknown version; no memory.
    pub fn open(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut input = Input::new(bytes);
        let start: [u8; START.len()] = input.array()?;
        if start != START {
            return Err(input.malformed("the bytes do not begin as statistics of version 1"));
        }
        let day = input.signed()?;
        let Ok(day) = i32::try_from(day) else { return Err(input.malformed("the day does not fit 32 bits")) };
        let (events, matched) = (input.integer()?, input.integer()?);
        let mut descriptions = Vec::new();
        for _ in 0..input.count(MIN_DESCRIPTION_BYTES)? {
            let header = description(&mut input)?;
            ensure(request::<Header>(1))?;
            push(&mut descriptions, Arc::new(header))?;
        }
        let rows = input.count(MIN_ROW_BYTES)?;
        Ok(Blob { day, events, matched, descriptions, rows, id: 0, input })
    }

    /// Reads the next row. Returns `None` after the last one, once the bytes are found to end there.
    pub fn next(&mut self) -> Result<Option<Row>, Error> {
        if self.rows == 0 {
            return self.input.finish().map(|()| None);
        }
        self.rows -= 1;
        let input = &mut self.input;
        let distance = input.integer()?;
        let Some(id) = self.id.checked_add(distance) else { return Err(input.malformed("an id exceeds 64 bits")) };
        let matches = input.integer()?;
        let mut figures = Vec::new();
        for _ in 0..input.count(2)? {
            let position = input.integer()? as usize;
            let Some(header) = self.descriptions.get(position) else {
                return Err(input.malformed("a figure has no description"));
            };
            push(&mut figures, (header.clone(), Figure::decode(header.kind, header.form, input)?))?;
        }
        self.id = id;
        Ok(Some(Row { id, matches, figures }))
    }
}

fn description(input: &mut Input) -> Result<Header, Error> {
    let (name, attribute) = (input.string()?, input.string()?);
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(input.malformed("the name of a statistic has no bytes, or too many"));
    }
    let (code, parameter, form) = (input.byte()?, input.integer()?, input.byte()?);
    let (kind, form) = (StatKind::from_code(code, parameter), Form::from_code(form));
    let (Some(kind), Some(form)) = (kind, form) else {
        return Err(input.malformed("a statistic is of no known kind, or of no known form"));
    };
    if !kind.counts(form) {
        return Err(input.malformed("a statistic cannot count values of its form"));
    }
    ensure(request::<u8>(name.len()) + request::<u8>(attribute.len()))?;
    Ok(Header { name: name.into(), attribute: attribute.into(), kind, form })
}
