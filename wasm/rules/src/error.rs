//! Errors of rules, facts and operations.

use std::borrow::Cow;
use std::fmt;

pub use be_tree_index::error::Kind;
pub(crate) use be_tree_index::error::{is_marked, quoted, MARKED};

/// A place in the text of rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The line's text.
    pub text: String,
}

/// An error: its kind, a sentence that names the fault and its remedy, and its place in the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind, by which a caller handles it.
    pub kind: Kind,
    /// The fault and its remedy.
    pub message: Cow<'static, str>,
    /// The name that the error concerns.
    pub name: Option<String>,
    /// The place in the text of the rules. Errors of facts have none.
    pub place: Option<Box<Place>>,
    /// The column in the JSON of a fact, from 1.
    pub column: Option<usize>,
}

impl Error {
    /// Returns an error without a place.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Error { kind, message: message.into(), name: None, place: None, column: None }
    }

    /// Returns the error with the name that it concerns.
    pub(crate) fn about(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Returns the error with the place of the byte `offset` of `text`.
    pub(crate) fn at(mut self, text: &str, offset: usize) -> Self {
        let offset = offset.min(text.len());
        let start = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
        let end = text[offset..].find('\n').map_or(text.len(), |newline| offset + newline);
        self.place = Some(Box::new(Place {
            line: text[..offset].matches('\n').count() + 1,
            column: text[start..offset].chars().count() + 1,
            text: text[start..end].to_owned(),
        }));
        self
    }
}

impl From<be_tree_index::error::Error> for Error {
    fn from(error: be_tree_index::error::Error) -> Self {
        Error {
            kind: error.kind,
            message: error.message.into(),
            name: error.attribute,
            place: None,
            column: error.column,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Place { line, column, text }) = self.place.as_deref() else {
            return write!(f, "{}: {}", self.kind.name(), self.message);
        };
        writeln!(f, "{} at line {line}, column {column}: {}", self.kind.name(), self.message)?;
        write!(f, "  {text}\n  {}^", " ".repeat(column - 1))
    }
}

impl std::error::Error for Error {}
