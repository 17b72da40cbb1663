//! A cursor over JSON objects of scalars, for callers with their own names.

use crate::error::{Error, Kind};
use crate::event::formats::json::{in_characters, Items, Json};
use crate::event::formats::source::{Read, Source};

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
    /// A string, and its offset in the text if it is unescaped there.
    String(&'a [u8], Option<usize>),
}

/// The unread names of an object.
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
pub struct Scalars<'a> {
    json: Json<'a>,
    text: &'a [u8],
}

impl<'a> Scalars<'a> {
    /// Returns a cursor at the start of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Scalars { json: Json::new(text), text }
    }

    /// Reads the head of an object.
    pub fn object(&mut self) -> Result<Names, Error> {
        let names = self.json.names().and_then(|names| match names {
            Some(names) => Ok(Names(names)),
            None => Err(self.mismatch("a JSON object")),
        });
        self.counted(names)
    }

    /// Returns the result of `take` for the next name and the place of its first character in the text, or `None` after the last
    /// name. A name with escapes has no place.
    pub fn name<T>(
        &mut self,
        names: &mut Names,
        take: impl FnOnce(&[u8], Option<usize>) -> T,
    ) -> Result<Option<T>, Error> {
        let taken = self.json.name(&mut names.0, |name| take(name.bytes, name.end.map(|end| end - name.bytes.len())));
        self.counted(taken)
    }

    /// Returns the result of `take` for the next value.
    pub fn value<T>(&mut self, take: impl FnOnce(Scalar) -> T) -> Result<T, Error> {
        let taken = self.scalar(take);
        self.counted(taken)
    }

    fn scalar<T>(&mut self, take: impl FnOnce(Scalar) -> T) -> Read<T> {
        let mut take = Some(take);
        let string = self.json.bytes(|bytes, start| take.take().map(|take| take(Scalar::String(bytes, start))))?;
        if let Some(Some(taken)) = string {
            return Ok(taken);
        }
        let scalar = if let Some(integer) = self.json.integer()? {
            Scalar::Integer(integer)
        } else if let Some(float) = self.json.float()? {
            Scalar::Float(float)
        } else if let Some(boolean) = self.json.boolean()? {
            Scalar::Boolean(boolean)
        } else if self.json.undefined()? {
            Scalar::Undefined
        } else {
            return Err(self.mismatch("a string, a number, a boolean or null"));
        };
        match take {
            Some(take) => Ok(take(scalar)),
            None => Err(self.mismatch("a value")),
        }
    }

    /// Skips the next value, of any kind.
    pub fn skip(&mut self) -> Result<(), Error> {
        let skipped = self.json.skip();
        self.counted(skipped)
    }

    /// Checks that nothing follows.
    pub fn finish(&mut self) -> Result<(), Error> {
        let finished = self.json.finish();
        self.counted(finished)
    }

    fn mismatch(&mut self, expected: &str) -> Box<Error> {
        match self.json.kind_of_next() {
            Ok(given) => {
                self.json.locate(Error::new(Kind::Type, format!("expected {expected}, but here is {given}"))).into()
            }
            Err(error) => error,
        }
    }

    /// Returns a result with the column of its error in characters.
    fn counted<T>(&self, read: Read<T>) -> Result<T, Error> {
        read.map_err(|error| *in_characters(error, self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first string of an object's value, and its start in the text, or the column of the error.
    fn string(value: &[u8]) -> Result<(Vec<u8>, Option<usize>), Option<usize>> {
        let text = [b"{\"a\": \"", value, b"\"}"].concat();
        let mut json = Scalars::new(&text);
        let read = |json: &mut Scalars| -> Result<_, Error> {
            let mut names = json.object()?;
            json.name(&mut names, |_, _| ())?;
            let read = json.value(|value| match value {
                Scalar::String(bytes, start) => (bytes.to_vec(), start),
                other => panic!("{other:?} is no string"),
            })?;
            json.name(&mut names, |_, _| ())?;
            json.finish()?;
            Ok(read)
        };
        read(&mut json).map_err(|error| error.column)
    }

    #[test]
    fn strings_of_every_length_are_read_with_a_stop_at_every_place() {
        for length in 0..140 {
            let plain: Vec<u8> = (0..length).map(|place| b'a' + (place % 26) as u8).collect();
            assert_eq!(string(&plain), Ok((plain.clone(), Some(7))), "{length}");
            for place in 0..length {
                let with = |stop: &[u8]| [&plain[..place], stop, &plain[place + 1..]].concat();
                assert_eq!(string(&with(b"\\n")), Ok((with(b"\n"), None)), "{length} {place}");
                assert_eq!(string(&with("ä".as_bytes())), Ok((with("ä".as_bytes()), Some(7))), "{length} {place}");
                assert_eq!(string(&with(b"\x01")), Err(Some(place + 8)), "{length} {place}");
                assert_eq!(string(&with(b"\xff")), Err(Some(place + 8)), "{length} {place}");
                assert!(string(&with(b"\"")).is_err(), "{length} {place}");
            }
        }
    }
}
