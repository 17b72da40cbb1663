//! Errors of expressions, events and operations.

use std::borrow::Cow;
use std::fmt;

/// The kind of an [`Error`]. The set is closed, so that a caller can handle each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The text of an expression, of JSON or of an external term breaks its grammar.
    Syntax,
    /// A name that the schema does not have.
    UnknownAttribute,
    /// A value or a predicate that does not fit the attribute's type.
    Type,
    /// A number or a count outside the range of the attribute or of 64 bits.
    OutOfBounds,
    /// A required attribute, or a constant that an expression needs, is missing.
    MissingAttribute,
    /// A subscription with this id exists.
    DuplicateId,
    /// No subscription has this id.
    NotFound,
    /// The memory limit does not allow the operation.
    OutOfMemory,
    /// A change used more fuel than its host allows.
    OutOfFuel,
    /// A change took longer than its host allows.
    Timeout,
    /// An earlier change was interrupted, so the index may be damaged.
    Trap,
}

impl Kind {
    /// Returns the name of this kind in other languages.
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
            Kind::OutOfFuel => "out_of_fuel",
            Kind::Timeout => "timeout",
            Kind::Trap => "trap",
        }
    }
}

/// An error: its kind, a sentence that names the fault and its remedy, and its position.
///
/// ```
/// use be_tree_index::error::Kind;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
///
/// let age = Attribute { name: "age".into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
/// let mut index = Index::new(Schema::new(vec![age])?);
/// let error = index.insert(&Insertion { id: 1, text: b"age = 3 or height = 4", constants: vec![] }).unwrap_err();
/// assert_eq!(error.kind, Kind::UnknownAttribute);
/// assert_eq!(error.attribute.as_deref(), Some("height"));
/// assert_eq!(error.column, Some(12));
/// assert!(error.to_string().starts_with("unknown_attribute at column 12: "));
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The kind, by which a caller handles it.
    pub kind: Kind,
    /// The fault and its remedy.
    pub message: String,
    /// The attribute or the constant at fault.
    pub attribute: Option<String>,
    /// The character, from 1, in the text of the expression or of the JSON.
    pub column: Option<usize>,
}

impl Error {
    /// Returns an error of `kind` with this message.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into(), attribute: None, column: None }
    }

    /// Returns the error with the name of its attribute.
    pub fn about(mut self, attribute: impl Into<String>) -> Self {
        self.attribute = Some(attribute.into());
        self
    }

    /// Returns the error with the column of the character at byte `offset` of `text`.
    ///
    /// ```
    /// use be_tree_index::error::{Error, Kind};
    ///
    /// // The first letter takes two bytes.
    /// let error = Error::new(Kind::Syntax, "write `=`").at("é == 3".as_bytes(), 3);
    /// assert_eq!(error.column, Some(3));
    /// ```
    pub fn at(mut self, text: &[u8], offset: usize) -> Self {
        let before = &text[..offset.min(text.len())];
        // Every byte that is not a UTF-8 continuation byte starts a character.
        let characters = before.iter().filter(|&&b| b & 0xc0 != 0x80).count();
        self.column = Some(characters + 1);
        self
    }
}

/// The message for a byte order mark in a text.
pub const MARKED: &str =
    "a byte order mark (U+FEFF) is here, which belongs to a file and not to its text; leave it out";

/// Returns whether a byte order mark is at the start of `text`.
pub fn is_marked(text: &[u8]) -> bool {
    text.starts_with("\u{feff}".as_bytes())
}

/// Returns a name in backticks for a message, or the name itself if it has some already.
///
/// ```
/// use be_tree_index::error::quoted;
///
/// assert_eq!(quoted("user.city"), "`user.city`");
/// assert_eq!(quoted("user.`first name`"), "user.`first name`");
/// ```
pub fn quoted(name: &str) -> Cow<'_, str> {
    match name.contains('`') {
        true => name.into(),
        false => format!("`{name}`").into(),
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
