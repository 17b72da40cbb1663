//! Errors as external terms.

use be_tree_index::error::{Error, Kind};
use be_tree_index::term::Writer;

/// The outcome of an operation.
pub type Outcome = Result<(), Refusal>;

/// An error, and the place in the input that it belongs to.
pub struct Refusal {
    /// The error.
    pub error: Error,
    /// The position of the faulty element in the input, from 0.
    pub position: Option<usize>,
    /// The line of a text of several lines, from 1, and its content. The error's column is in that line.
    pub line: Option<(usize, String)>,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Refusal { error, position: None, line: None }
    }
}

impl Refusal {
    /// Returns the error of the element at this position.
    pub fn of(position: usize, error: Error) -> Self {
        Refusal { error, position: Some(position), line: None }
    }

    /// Writes `{Kind, Message, Attribute, Column, Position}`, or, with a line, `{Kind, Message, Attribute, Column, Position,
    /// Line, Text}`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let Refusal { error, position, line } = self;
        let mut writer = Writer::new(out);
        writer.tuple(if line.is_some() { 7 } else { 5 });
        writer.atom(error.kind.name());
        writer.binary(error.message.as_bytes());
        match &error.attribute {
            Some(attribute) => writer.binary(attribute.as_bytes()),
            None => writer.atom("nil"),
        }
        for number in [error.column, *position] {
            match number {
                Some(number) => writer.unsigned(number as u64),
                None => writer.atom("nil"),
            }
        }
        if let Some((line, text)) = line {
            writer.unsigned(*line as u64);
            writer.binary(text.as_bytes());
        }
    }
}

/// Returns the error of an instance whose last change was interrupted.
pub fn damaged() -> Error {
    Error::new(Kind::Trap, "an earlier change was cut off half way and left the instance damaged; make a new one")
}
