//! Events as Erlang records: a list of records, whose values follow in the order of the schema.
//!
//! Nothing is converted: only `true` and `false` are booleans, only floats are floats, only binaries are strings, and only
//! `undefined` stands for undefined.

use crate::error::Error;
use crate::event::formats::source::{Read, Source, Str};
use crate::event::formats::term;
use crate::term::{Elements, Kind, Reader};

/// A reader without conversions: each value must have its own type.
pub(in crate::event) struct Records<'a>(pub Reader<'a>);

impl Source for Records<'_> {
    type Names = ();
    type Elements = Elements;
    const EVENT: &'static str = "a list of records";
    const LAST_COUNTS: bool = false;
    const FLOAT: &'static str = "a float";

    /// Records have no names.
    fn names(&mut self) -> Read<Option<()>> {
        Ok(None)
    }

    fn name<T>(&mut self, (): &mut (), _take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        Ok(None)
    }

    #[inline]
    fn undefined(&mut self) -> Read<bool> {
        Ok(self.0.atom_if(|name| (name == b"undefined").then_some(())).is_some())
    }

    #[inline]
    fn boolean(&mut self) -> Read<Option<bool>> {
        Ok(self.0.boolean_if())
    }

    #[inline]
    fn integer(&mut self) -> Read<Option<i64>> {
        Source::integer(&mut self.0)
    }

    #[inline]
    fn float(&mut self) -> Read<Option<f64>> {
        match self.0.peek()? {
            Kind::Float => Ok(Some(self.0.float()?)),
            _ => Ok(None),
        }
    }

    #[inline]
    fn string<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        match self.0.peek()? {
            Kind::Binary => term::binary(&mut self.0, take).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Read<Option<Elements>> {
        Source::list(&mut self.0)
    }

    #[inline]
    fn tuple(&mut self) -> Read<Option<Elements>> {
        Source::tuple(&mut self.0)
    }

    #[inline]
    fn next(&mut self, elements: &mut Elements) -> Read<bool> {
        Ok(self.0.next(elements)?)
    }

    fn time(&mut self) -> Read<Option<i64>> {
        Source::time(&mut self.0)
    }

    fn skip(&mut self) -> Read<()> {
        Ok(self.0.skip()?)
    }

    fn finish(&mut self) -> Read<()> {
        Ok(self.0.finish()?)
    }

    fn place(&self) -> usize {
        self.0.place()
    }

    fn back_to(&mut self, place: usize) {
        self.0.back_to(place);
    }

    fn kind_of_next(&mut self) -> Read<String> {
        Ok(self.0.describe()?)
    }

    fn locate(&self, error: Error) -> Error {
        error
    }
}
