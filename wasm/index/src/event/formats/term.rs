//! Events as Erlang external terms.

use std::borrow::Cow;

use crate::error::Error;
use crate::event::formats::source::{Read, Source, Str};
use crate::model::time::of_parts;
use crate::term::{Elements, Kind, Reader};

/// The unread names of an event.
pub(in crate::event) enum Names {
    /// The number of pairs left in a map.
    Map(usize),
    /// The elements left of a list of pairs.
    List(Elements),
}

impl Source for Reader<'_> {
    type Names = Names;
    type Elements = Elements;
    const EVENT: &'static str = "an event that is a map or a list of pairs";
    const TIME: &'static str =
        "a time as a DateTime or NaiveDateTime, a string by ISO 8601, or an integer of microseconds";
    /// Elixir keyword lists do the same.
    const LAST_COUNTS: bool = false;

    fn names(&mut self) -> Read<Option<Names>> {
        Ok(match self.peek()? {
            Kind::Map => Some(Names::Map(self.map()?)),
            Kind::List => Some(Names::List(self.list()?)),
            _ => None,
        })
    }

    #[inline]
    fn name<T>(&mut self, names: &mut Names, take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        match names {
            Names::Map(0) => return Ok(None),
            Names::Map(left) => *left -= 1,
            Names::List(list) => {
                if !self.next(list)? {
                    return Ok(None);
                }
                let start = self.place();
                if self.peek()? != Kind::Tuple || self.tuple()? != 2 {
                    return Err(no_pair(self, start));
                }
            }
        }
        match self.peek()? {
            Kind::Atom => atom(self, take).map(Some),
            Kind::Binary => binary(self, take).map(Some),
            _ => Err(no_name(self)),
        }
    }

    fn skip_names(&mut self, names: &mut Names) -> Read<()> {
        match names {
            Names::Map(left) => (0..2 * *left).try_for_each(|_| Source::skip(self)),
            Names::List(list) => Ok(self.skip_elements(list)?),
        }
    }

    #[inline]
    fn undefined(&mut self) -> Read<bool> {
        Ok(self.atom_if(|name| matches!(name, b"nil" | b"undefined").then_some(())).is_some())
    }

    #[inline]
    fn boolean(&mut self) -> Read<Option<bool>> {
        Ok(self.boolean_if())
    }

    #[inline]
    fn integer(&mut self) -> Read<Option<i64>> {
        match self.peek()? {
            Kind::Integer => Ok(Some(Reader::integer(self)?)),
            _ => Ok(None),
        }
    }

    #[inline]
    fn float(&mut self) -> Read<Option<f64>> {
        match self.peek()? {
            Kind::Float | Kind::Integer => Ok(Some(Reader::float(self)?)),
            _ => Ok(None),
        }
    }

    #[inline]
    fn string<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        match self.peek()? {
            Kind::Binary => binary(self, take).map(Some),
            Kind::Atom => {
                let mut ahead = self.clone();
                // Such an atom is a value of its own. Reading it as a string would hide a mistake.
                if ahead.undefined()? || ahead.boolean_if().is_some() {
                    return Ok(None);
                }
                atom(self, take).map(Some)
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Read<Option<Elements>> {
        match self.peek()? {
            Kind::List => Ok(Some(Reader::list(self)?)),
            _ => Ok(None),
        }
    }

    #[inline]
    fn tuple(&mut self) -> Read<Option<Elements>> {
        match self.peek()? {
            Kind::Tuple => Ok(Some(Elements::of_tuple(Reader::tuple(self)?))),
            _ => Ok(None),
        }
    }

    #[inline]
    fn next(&mut self, elements: &mut Elements) -> Read<bool> {
        Ok(Reader::next(self, elements)?)
    }

    /// Reads a struct of Elixir, `DateTime` or `NaiveDateTime`.
    fn time(&mut self) -> Read<Option<i64>> {
        match self.peek()? {
            Kind::Map => time(self),
            _ => Ok(None),
        }
    }

    fn skip(&mut self) -> Read<()> {
        Ok(Reader::skip(self)?)
    }

    fn finish(&mut self) -> Read<()> {
        Ok(Reader::finish(self)?)
    }

    fn place(&self) -> usize {
        Reader::place(self)
    }

    fn back_to(&mut self, place: usize) {
        Reader::back_to(self, place);
    }

    fn kind_of_next(&mut self) -> Read<String> {
        Ok(self.describe()?)
    }

    fn locate(&self, error: Error) -> Error {
        error
    }
}

/// Skips an element, at `start`, of a list of pairs, and returns the error that it is no pair.
#[cold]
fn no_pair(reader: &mut Reader, start: usize) -> Box<Error> {
    let error = reader.back_to(start).mismatch("a pair of a name and a value in an event that is a list");
    skipped(reader, 1, error)
}

/// Skips a name and its value, and returns the error that the name is invalid.
#[cold]
fn no_name(reader: &mut Reader) -> Box<Error> {
    let error = reader.mismatch("an atom or a binary as the name of an attribute");
    skipped(reader, 2, error)
}

/// Skips `terms` terms. Returns `error`, or that of a malformed term.
fn skipped(reader: &mut Reader, terms: usize, error: Error) -> Box<Error> {
    let skipped = (0..terms).try_for_each(|_| Reader::skip(reader));
    skipped.err().unwrap_or(error).into()
}

/// Reads the next map as a struct of Elixir, and returns its time.
fn time(reader: &mut Reader) -> Read<Option<i64>> {
    const PARTS: [&[u8]; 8] = [b"year", b"month", b"day", b"hour", b"minute", b"second", b"utc_offset", b"std_offset"];
    let mut parts = [None; PARTS.len()];
    let mut micros = None;
    let (mut is_time, mut is_iso) = (false, false);
    for _ in 0..reader.map()? {
        if reader.peek()? != Kind::Atom {
            return Ok(None);
        }
        let name = reader.atom()?;
        match &*name {
            b"__struct__" => {
                let is = |name: &[u8]| matches!(name, b"Elixir.DateTime" | b"Elixir.NaiveDateTime").then_some(());
                is_time = reader.atom_if(is).is_some();
                if !is_time {
                    return Ok(None);
                }
            }
            b"calendar" => {
                is_iso = reader.atom_if(|name| (name == b"Elixir.Calendar.ISO").then_some(())).is_some();
                if !is_iso {
                    return Ok(None);
                }
            }
            b"microsecond" => {
                if reader.peek()? != Kind::Tuple || Reader::tuple(reader)? != 2 {
                    return Ok(None);
                }
                micros = Source::integer(reader)?;
                if micros.is_none() {
                    return Ok(None);
                }
                Reader::skip(reader)?;
            }
            name => match PARTS.iter().position(|part| *part == name) {
                Some(place) => {
                    parts[place] = Source::integer(reader)?;
                    if parts[place].is_none() {
                        return Ok(None);
                    }
                }
                None => Reader::skip(reader)?,
            },
        }
    }
    let [Some(year), Some(month), Some(day), Some(hour), Some(minute), Some(second), zone, saving] = parts else {
        return Ok(None);
    };
    // A `NaiveDateTime` has no offsets and counts as UTC.
    let offset = zone.unwrap_or(0).saturating_add(saving.unwrap_or(0));
    let time = micros.filter(|_| is_time && is_iso);
    Ok(time.and_then(|micros| of_parts([year, month, day], [hour, minute, second], micros, offset)))
}

/// Reads the binary that comes next.
#[inline]
pub(in crate::event) fn binary<T>(reader: &mut Reader, take: impl FnOnce(Str) -> T) -> Read<T> {
    let bytes = reader.binary()?;
    Ok(take(Str::within(bytes, reader.place())))
}

/// Reads the name of the atom that comes next.
#[inline]
fn atom<T>(reader: &mut Reader, take: impl FnOnce(Str) -> T) -> Read<T> {
    Ok(take(match reader.atom()? {
        Cow::Borrowed(name) => Str::within(name, reader.place()),
        Cow::Owned(ref name) => Str::apart(name),
    }))
}
