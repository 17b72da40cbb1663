//! Events as Erlang programs write them: a list of records, whose values follow in the order of the schema.
//!
//! Nothing stands for anything else here: booleans are `true` and `false` alone, floats are floats, strings are binaries,
//! and `undefined` is what is not defined.

use std::borrow::Cow;

use super::source::Source;
use crate::error::Error;
use crate::term::{Elements, Kind, Reader};

/// A reader that takes every value as what it is.
pub(super) struct Records<'a>(pub Reader<'a>);

impl Source for Records<'_> {
    type Names = ();
    type Elements = Elements;
    const EVENT: &'static str = "a list of records";
    const LAST_COUNTS: bool = false;
    const FLOAT: &'static str = "a float";

    /// There are none.
    fn names(&mut self) -> Result<Option<()>, Error> {
        Ok(None)
    }

    fn name(&mut self, (): &mut ()) -> Result<Option<Cow<'_, [u8]>>, Error> {
        Ok(None)
    }

    #[inline]
    fn undefined(&mut self) -> Result<bool, Error> {
        Ok(self.0.atom_if(|name| (name == b"undefined").then_some(())).is_some())
    }

    #[inline]
    fn boolean(&mut self) -> Result<Option<bool>, Error> {
        Ok(self.0.boolean_if())
    }

    #[inline]
    fn integer(&mut self) -> Result<Option<i64>, Error> {
        Source::integer(&mut self.0)
    }

    #[inline]
    fn float(&mut self) -> Result<Option<f64>, Error> {
        match self.0.peek()? {
            Kind::Float => self.0.float().map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn string(&mut self) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match self.0.peek()? {
            Kind::Binary => self.0.binary().map(|bytes| Some(Cow::Borrowed(bytes))),
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Result<Option<Elements>, Error> {
        Source::list(&mut self.0)
    }

    #[inline]
    fn tuple(&mut self) -> Result<Option<Elements>, Error> {
        Source::tuple(&mut self.0)
    }

    #[inline]
    fn next(&mut self, elements: &mut Elements) -> Result<bool, Error> {
        self.0.next(elements)
    }

    fn skip(&mut self) -> Result<(), Error> {
        self.0.skip()
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.0.finish()
    }

    fn place(&self) -> usize {
        self.0.place()
    }

    fn back_to(&mut self, place: usize) {
        self.0.back_to(place);
    }

    fn given(&mut self) -> Result<String, Error> {
        self.0.describe()
    }

    fn locate(&self, error: Error) -> Error {
        error
    }
}
