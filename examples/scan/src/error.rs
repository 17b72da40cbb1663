//! The errors of operations.

use crate::term::Writer;

/// An error. It borrows its parts, because searches return errors and must not allocate.
#[derive(Clone, Copy)]
pub struct Error<'a> {
    pub kind: Kind,
    /// The fault and the fix.
    pub message: &'static str,
    /// The name of the attribute or the constant.
    pub name: Option<&'a [u8]>,
    /// The character of the fault in the expression or the JSON, from 1.
    pub column: Option<usize>,
    /// The position of the subscription in an insertion, from 0.
    pub position: Option<usize>,
}

/// The kinds of the ABI.
#[derive(Clone, Copy)]
pub enum Kind {
    Syntax,
    UnknownAttribute,
    Type,
    OutOfBounds,
    MissingAttribute,
    DuplicateId,
    NotFound,
    OutOfMemory,
}

impl<'a> Error<'a> {
    pub fn new(kind: Kind, message: &'static str) -> Self {
        Error { kind, message, name: None, column: None, position: None }
    }

    /// Returns this error with a name.
    pub fn about(self, name: &'a [u8]) -> Self {
        Error { name: Some(name), ..self }
    }

    /// Returns this error with the column of the character that starts at byte `offset` of `text`.
    pub fn at(self, text: &[u8], offset: usize) -> Self {
        // Every byte that does not continue a character starts one.
        let before = text[..offset].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        Error { column: Some(before + 1), ..self }
    }

    /// Writes `{Kind, Message, Attribute, Column, Position}`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out);
        writer.tuple(5);
        writer.atom(self.kind.name());
        match self.name {
            Some(name) => writer.binary(&[b"`", name, b"`: ", self.message.as_bytes()]),
            None => writer.binary(&[self.message.as_bytes()]),
        }
        match self.name {
            Some(name) => writer.binary(&[name]),
            None => writer.atom("nil"),
        }
        for number in [self.column, self.position] {
            match number {
                Some(number) => writer.integer(number as i64),
                None => writer.atom("nil"),
            }
        }
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Syntax => "syntax",
            Kind::UnknownAttribute => "unknown_attribute",
            Kind::Type => "type",
            Kind::OutOfBounds => "out_of_bounds",
            Kind::MissingAttribute => "missing_attribute",
            Kind::DuplicateId => "duplicate_id",
            Kind::NotFound => "not_found",
            Kind::OutOfMemory => "out_of_memory",
        }
    }
}

/// Appends `item` if memory allows. Every table that an insertion enlarges grows by this function.
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), Error<'static>> {
    reserve(list, 1)?;
    list.push(item);
    Ok(())
}

/// Makes room for `more` items if memory allows.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error<'static>> {
    let refused = |_| Error::new(Kind::OutOfMemory, "there is no more memory; give the tree a higher limit");
    list.try_reserve(more).map_err(refused)
}
