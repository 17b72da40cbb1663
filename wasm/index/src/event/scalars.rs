//! A cursor over JSON objects of scalars, for callers that have names of their own.

use crate::error::{Error, Kind};
use crate::event::formats::json::{Items, Json};
use crate::event::formats::source::Source;

/// A value that is neither an object nor an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar<'a> {
    /// `null`.
    Undefined,
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// A finite number with a fraction or an exponent.
    Float(f64),
    /// A string, and its start in the text if that contains it unchanged.
    String(&'a [u8], Option<usize>),
}

/// The names of an object that are not read yet.
pub struct Names(Items);

/// A cursor over a JSON text.
///
/// ```
/// use be_tree_index::event::{Scalar, Scalars};
///
/// let mut json = Scalars::new(br#"{"age": 30}"#);
/// let mut names = json.object()?;
/// assert_eq!(json.name(&mut names, |name, place| (name.to_vec(), place))?, Some((b"age".to_vec(), Some(2))));
/// json.value(|value| assert_eq!(value, Scalar::Integer(30)))?;
/// assert!(json.name(&mut names, |_, _| ())?.is_none());
/// json.finish()?;
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
///
/// Errors of all methods: `syntax`, `type` and `out_of_bounds`, with the column in the text.
pub struct Scalars<'a>(Json<'a>);

impl<'a> Scalars<'a> {
    /// Returns a cursor at the start of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Scalars(Json::new(text))
    }

    /// Reads the head of an object.
    pub fn object(&mut self) -> Result<Names, Error> {
        match self.0.names().map_err(|error| *error)? {
            Some(names) => Ok(Names(names)),
            None => Err(self.mismatch("a JSON object")),
        }
    }

    /// Returns the result of `take` for the next name and the place of its first character in the text, or `None` after the last
    /// name. A name with escapes has no place.
    pub fn name<T>(
        &mut self,
        names: &mut Names,
        take: impl FnOnce(&[u8], Option<usize>) -> T,
    ) -> Result<Option<T>, Error> {
        let taken = self.0.name(&mut names.0, |name| take(name.bytes, name.end.map(|end| end - name.bytes.len())));
        taken.map_err(|error| *error)
    }

    /// Returns the result of `take` for the value that comes next.
    pub fn value<T>(&mut self, take: impl FnOnce(Scalar) -> T) -> Result<T, Error> {
        self.scalar(take).map_err(|error| *error)
    }

    fn scalar<T>(&mut self, take: impl FnOnce(Scalar) -> T) -> Result<T, Box<Error>> {
        let mut take = Some(take);
        let string = self.0.string(|string| {
            let start = string.end.map(|end| end - string.bytes.len());
            take.take().map(|take| take(Scalar::String(string.bytes, start)))
        })?;
        if let Some(Some(taken)) = string {
            return Ok(taken);
        }
        let scalar = if let Some(integer) = self.0.integer()? {
            Scalar::Integer(integer)
        } else if let Some(float) = self.0.float()? {
            Scalar::Float(float)
        } else if let Some(boolean) = self.0.boolean()? {
            Scalar::Boolean(boolean)
        } else if self.0.undefined()? {
            Scalar::Undefined
        } else {
            return Err(self.mismatch("a string, a number, a boolean or null").into());
        };
        match take {
            Some(take) => Ok(take(scalar)),
            None => Err(self.mismatch("a value").into()),
        }
    }

    /// Checks that nothing follows.
    pub fn finish(&mut self) -> Result<(), Error> {
        self.0.finish().map_err(|error| *error)
    }

    fn mismatch(&mut self, expected: &str) -> Error {
        match self.0.given() {
            Ok(given) => self.0.locate(Error::new(Kind::Type, format!("expected {expected}, but here is {given}"))),
            Err(error) => *error,
        }
    }
}
