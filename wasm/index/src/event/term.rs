//! Events as Erlang external terms.

use std::borrow::Cow;

use super::source::Source;
use crate::error::Error;
use crate::term::{Elements, Kind, Reader};

/// The names of an event that are still to be read.
pub(super) enum Names {
    /// So many pairs of a map.
    Map(usize),
    /// Those of a list of pairs.
    List(Elements),
}

impl Source for Reader<'_> {
    type Names = Names;
    type Elements = Elements;
    const EVENT: &'static str = "an event that is a map or a list of pairs";
    /// As in an Elixir keyword list.
    const LAST_COUNTS: bool = false;

    fn names(&mut self) -> Result<Option<Names>, Error> {
        Ok(match self.peek()? {
            Kind::Map => Some(Names::Map(self.map()?)),
            Kind::List => Some(Names::List(self.list()?)),
            _ => None,
        })
    }

    #[inline]
    fn name(&mut self, names: &mut Names) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match names {
            Names::Map(0) => return Ok(None),
            Names::Map(left) => *left -= 1,
            Names::List(list) => {
                if !self.next(list)? {
                    return Ok(None);
                }
                let given = self.clone();
                if self.peek()? != Kind::Tuple || self.tuple()? != 2 {
                    return Err(given.mismatch("a pair of a name and a value in an event that is a list"));
                }
            }
        }
        match self.peek()? {
            Kind::Atom => self.atom().map(Some),
            Kind::Binary => self.binary().map(|name| Some(Cow::Borrowed(name))),
            _ => Err(self.mismatch("an atom or a binary as the name of an attribute")),
        }
    }

    #[inline]
    fn undefined(&mut self) -> Result<bool, Error> {
        Ok(self.atom_if(|name| matches!(name, b"nil" | b"undefined").then_some(())).is_some())
    }

    #[inline]
    fn boolean(&mut self) -> Result<Option<bool>, Error> {
        Ok(self.boolean_if())
    }

    #[inline]
    fn integer(&mut self) -> Result<Option<i64>, Error> {
        match self.peek()? {
            Kind::Integer => Reader::integer(self).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn float(&mut self) -> Result<Option<f64>, Error> {
        match self.peek()? {
            Kind::Float | Kind::Integer => Reader::float(self).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn string(&mut self) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match self.peek()? {
            Kind::Binary => self.binary().map(|bytes| Some(Cow::Borrowed(bytes))),
            Kind::Atom => {
                let mut ahead = self.clone();
                // Such a value stands for itself: to take it for a string would hide a mistake.
                if ahead.undefined()? || ahead.boolean_if().is_some() {
                    return Ok(None);
                }
                self.atom().map(Some)
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Result<Option<Elements>, Error> {
        match self.peek()? {
            Kind::List => Reader::list(self).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn tuple(&mut self) -> Result<Option<Elements>, Error> {
        match self.peek()? {
            Kind::Tuple => Ok(Some(Elements::of_tuple(Reader::tuple(self)?))),
            _ => Ok(None),
        }
    }

    #[inline]
    fn next(&mut self, elements: &mut Elements) -> Result<bool, Error> {
        Reader::next(self, elements)
    }

    fn skip(&mut self) -> Result<(), Error> {
        Reader::skip(self)
    }

    fn finish(&mut self) -> Result<(), Error> {
        Reader::finish(self)
    }

    fn place(&self) -> usize {
        Reader::place(self)
    }

    fn back_to(&mut self, place: usize) {
        Reader::back_to(self, place);
    }

    fn given(&mut self) -> Result<String, Error> {
        self.describe()
    }

    fn locate(&self, error: Error) -> Error {
        error
    }
}
