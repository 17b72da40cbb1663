//! The source of an event: the part of decoding that depends on the format.

use crate::error::Error;
use crate::support::hash::hash_bytes;

/// The result of a read. The error is boxed, because most values then fit into registers.
pub(in crate::event) type Read<T> = Result<T, Box<Error>>;

/// A string of an event, or a name.
#[derive(Clone, Copy)]
pub(in crate::event) struct Str<'a> {
    pub bytes: &'a [u8],
    /// The hash that [`hash_bytes`] returns.
    pub hash: u64,
    /// The offset of the string's end in the encoded event, if the event contains it unescaped.
    pub end: Option<usize>,
}

impl<'a> Str<'a> {
    /// Returns a string that ends at `end` in the encoded event.
    #[inline]
    pub fn within(bytes: &'a [u8], end: usize) -> Self {
        Str { bytes, hash: hash_bytes(bytes), end: Some(end) }
    }

    /// Returns a string that the encoded event does not contain.
    pub fn apart(bytes: &'a [u8]) -> Self {
        Str { bytes, hash: hash_bytes(bytes), end: None }
    }
}

/// A cursor over an encoded event.
///
/// A method that reads one kind of value returns `None` if a value of another kind comes next, and leaves it unread.
///
/// Errors: the bytes are malformed, or a number is too large.
pub(in crate::event) trait Source {
    /// The unread names.
    type Names;
    /// The unread elements of a list or a tuple.
    type Elements;
    /// The description of an event in this format, for errors.
    const EVENT: &'static str;
    /// The description of a map of fields in this format, for errors.
    const MAP: &'static str = "a map or a list of pairs";
    /// Whether the last value of repeated names counts; otherwise the first does.
    const LAST_COUNTS: bool;
    /// The description of a float in this format, for errors.
    const FLOAT: &'static str = "a float or an integer";
    /// The description of a time in this format, for errors.
    const TIME: &'static str = "a time as a string by ISO 8601, or as an integer of microseconds";
    /// The description of an internet address in this format, for errors.
    const ADDRESS: &'static str = "an address as a string, or as a tuple of 4 or 8 integers as of `:inet`";

    /// Reads the head of an event with named values.
    fn names(&mut self) -> Read<Option<Self::Names>>;
    /// Returns the result of `take` for the next name, whose value then comes next. After a `type` error,
    /// [`Source::skip_names`] can skip the others.
    fn name<T>(&mut self, names: &mut Self::Names, take: impl FnOnce(Str) -> T) -> Read<Option<T>>;
    /// Skips the unread names with their values, after a `type` error. Formats without such errors skip nothing.
    fn skip_names(&mut self, _names: &mut Self::Names) -> Read<()> {
        Ok(())
    }

    /// Reads undefined if it comes next, and returns whether it did.
    fn undefined(&mut self) -> Read<bool>;
    /// Reads a boolean.
    fn boolean(&mut self) -> Read<Option<bool>>;
    /// Reads an integer.
    fn integer(&mut self) -> Read<Option<i64>>;
    /// Reads a finite float, or a value that the format converts to one.
    fn float(&mut self) -> Read<Option<f64>>;
    /// Returns the result of `take` for a string.
    fn string<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<Option<T>>;
    /// Reads the head of a list.
    fn list(&mut self) -> Read<Option<Self::Elements>>;
    /// Reads the head of a tuple.
    fn tuple(&mut self) -> Read<Option<Self::Elements>>;
    /// Returns whether another element comes next.
    fn next(&mut self, elements: &mut Self::Elements) -> Read<bool>;

    /// Reads a time in the format's own form. Returns `None` for any other value, which may then be read already.
    fn time(&mut self) -> Read<Option<i64>> {
        Ok(None)
    }

    /// Skips a value.
    fn skip(&mut self) -> Read<()>;
    /// Checks that nothing follows the event.
    fn finish(&mut self) -> Read<()>;

    /// Returns the position of the cursor.
    fn place(&self) -> usize;
    /// Moves the cursor back to an earlier position.
    fn back_to(&mut self, place: usize);
    /// Returns the kind of the next value for an error message, without its content: messages go to logs. Errors: the
    /// value is malformed.
    fn kind_of_next(&mut self) -> Read<String>;
    /// Returns the error with this position, if the format has columns.
    fn locate(&self, error: Error) -> Error;
}
