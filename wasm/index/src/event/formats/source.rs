//! What an event is read from: the part of the work that depends on the format.

use crate::error::Error;
use crate::support::hash::hash_bytes;

/// What was read, or why not. An error lies apart, as what is read mostly fits into registers then.
pub(in crate::event) type Read<T> = Result<T, Box<Error>>;

/// A string of an event, or a name.
#[derive(Clone, Copy)]
pub(in crate::event) struct Str<'a> {
    pub bytes: &'a [u8],
    /// As [`hash_bytes`] has it.
    pub hash: u64,
    /// Where it ends in the encoded event, if it stands there as it is.
    pub end: Option<usize>,
}

impl<'a> Str<'a> {
    /// A string that stands in the encoded event up to `end`.
    #[inline]
    pub fn within(bytes: &'a [u8], end: usize) -> Self {
        Str { bytes, hash: hash_bytes(bytes), end: Some(end) }
    }

    /// A string that does not stand there.
    pub fn apart(bytes: &'a [u8]) -> Self {
        Str { bytes, hash: hash_bytes(bytes), end: None }
    }
}

/// A cursor over an encoded event.
///
/// A method that reads one kind of value answers `None` where a value of another kind comes next, and leaves it
/// unread. Errors say that the bytes are malformed, or that a number is too large.
pub(in crate::event) trait Source {
    /// The names that are still to be read.
    type Names;
    /// The elements of a list or a tuple that are still to be read.
    type Elements;
    /// What an event is in this format.
    const EVENT: &'static str;
    /// Which of several values under the same name counts: the last, or the first.
    const LAST_COUNTS: bool;
    /// What a float is in this format.
    const FLOAT: &'static str = "a float or an integer";

    /// The head of an event: of values under names.
    fn names(&mut self) -> Read<Option<Self::Names>>;
    /// What `take` makes of the next name, whose value then comes next.
    fn name<T>(&mut self, names: &mut Self::Names, take: impl FnOnce(Str) -> T) -> Read<Option<T>>;

    /// Whether undefined comes next, which is then read.
    fn undefined(&mut self) -> Read<bool>;
    /// A boolean.
    fn boolean(&mut self) -> Read<Option<bool>>;
    /// An integer.
    fn integer(&mut self) -> Read<Option<i64>>;
    /// A finite float, or what stands in its place.
    fn float(&mut self) -> Read<Option<f64>>;
    /// What `take` makes of a string.
    fn string<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<Option<T>>;
    /// The head of a list.
    fn list(&mut self) -> Read<Option<Self::Elements>>;
    /// The head of a tuple.
    fn tuple(&mut self) -> Read<Option<Self::Elements>>;
    /// Whether there is another element, which then comes next.
    fn next(&mut self, elements: &mut Self::Elements) -> Read<bool>;

    /// Passes over a value.
    fn skip(&mut self) -> Read<()>;
    /// Checks that nothing follows the event.
    fn finish(&mut self) -> Read<()>;

    /// Where the cursor stands.
    fn place(&self) -> usize;
    /// Goes back to where the cursor stood before.
    fn back_to(&mut self, place: usize);
    /// The value that comes next, as an error message shows it; an error where it is malformed.
    fn given(&mut self) -> Read<String>;
    /// The same error at this place, where places have a name.
    fn locate(&self, error: Error) -> Error;
}
