//! What an event is read from: the part of the work that depends on the format.

use std::borrow::Cow;

use crate::error::Error;

/// A cursor over an encoded event.
///
/// A method that reads one kind of value answers `None` where a value of another kind comes next, and leaves it
/// unread. Errors say that the bytes are malformed, or that a number is too large.
pub(super) trait Source {
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
    fn names(&mut self) -> Result<Option<Self::Names>, Error>;
    /// The next name, whose value then comes next.
    fn name(&mut self, names: &mut Self::Names) -> Result<Option<Cow<'_, [u8]>>, Error>;

    /// Whether undefined comes next, which is then read.
    fn undefined(&mut self) -> Result<bool, Error>;
    /// A boolean.
    fn boolean(&mut self) -> Result<Option<bool>, Error>;
    /// An integer.
    fn integer(&mut self) -> Result<Option<i64>, Error>;
    /// A finite float, or what stands in its place.
    fn float(&mut self) -> Result<Option<f64>, Error>;
    /// A string.
    fn string(&mut self) -> Result<Option<Cow<'_, [u8]>>, Error>;
    /// The head of a list.
    fn list(&mut self) -> Result<Option<Self::Elements>, Error>;
    /// The head of a tuple.
    fn tuple(&mut self) -> Result<Option<Self::Elements>, Error>;
    /// Whether there is another element, which then comes next.
    fn next(&mut self, elements: &mut Self::Elements) -> Result<bool, Error>;

    /// Passes over a value.
    fn skip(&mut self) -> Result<(), Error>;
    /// Checks that nothing follows the event.
    fn finish(&mut self) -> Result<(), Error>;

    /// Where the cursor stands.
    fn place(&self) -> usize;
    /// Goes back to where the cursor stood before.
    fn back_to(&mut self, place: usize);
    /// The value that comes next, as an error message shows it; an error where it is malformed.
    fn given(&mut self) -> Result<String, Error>;
    /// The same error at this place, where places have a name.
    fn locate(&self, error: Error) -> Error;
}
