//! What can be wrong with an expression, an event or an operation.

use std::fmt;

/// The kind of an [`Error`], closed: what a caller may act upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The text of an expression, of JSON or of an external term breaks its grammar.
    Syntax,
    /// A name that the schema does not have.
    UnknownAttribute,
    /// A value or a predicate that does not fit the attribute's type.
    Type,
    /// A number or a count outside what the attribute, or 64 bits, can hold.
    OutOfBounds,
    /// A required attribute, or a constant that an expression needs, is not given.
    MissingAttribute,
    /// A subscription with this id exists.
    DuplicateId,
    /// No subscription has this id.
    NotFound,
    /// The memory limit does not allow the operation.
    OutOfMemory,
    /// An earlier change was cut off half way, so the index can no longer be trusted.
    Trap,
}

impl Kind {
    /// The name by which other languages know this kind.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Syntax => "syntax",
            Kind::UnknownAttribute => "unknown_attribute",
            Kind::Type => "type",
            Kind::OutOfBounds => "out_of_bounds",
            Kind::MissingAttribute => "missing_attribute",
            Kind::DuplicateId => "duplicate_id",
            Kind::NotFound => "not_found",
            Kind::OutOfMemory => "out_of_memory",
            Kind::Trap => "trap",
        }
    }
}

/// One fault: its kind, a sentence that names the fault and the mend, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What a caller may act upon.
    pub kind: Kind,
    /// What is wrong and how to mend it.
    pub message: String,
    /// The attribute (or constant) concerned.
    pub attribute: Option<String>,
    /// The character, counted from 1, in the text of the expression or of the JSON.
    pub column: Option<usize>,
}

impl Error {
    /// An error of `kind` that says `message`.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), attribute: None, column: None }
    }

    /// The same error, naming `attribute`.
    pub fn about(mut self, attribute: impl Into<String>) -> Self {
        self.attribute = Some(attribute.into());
        self
    }

    /// The same error at the character that starts at byte `offset` of `text`.
    pub fn at(mut self, text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        // Every byte that is not a UTF-8 continuation byte starts a character.
        let characters = before.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        self.column = Some(characters + 1);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{} at column {column}: {}", self.kind.name(), self.message),
            None => write!(f, "{}: {}", self.kind.name(), self.message),
        }
    }
}

impl std::error::Error for Error {}
