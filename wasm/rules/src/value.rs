//! The values of fields: of new facts, and of stored facts and notices.

/// The value of a field of a new fact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer. Float fields accept it too.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    String(&'a [u8]),
}

/// The value of a field of a stored fact or of a notice.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    String(Vec<u8>),
}

impl Owned {
    /// Returns the value in the form of a new fact's.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Owned::Integer(integer) => Value::Integer(*integer),
            Owned::Float(float) => Value::Float(*float),
            Owned::Boolean(boolean) => Value::Boolean(*boolean),
            Owned::String(bytes) => Value::String(bytes),
        }
    }
}
