//! What an operation refuses, and how it says so.

use crate::term::Writer;

/// One fault. It holds nothing of its own, since a search, which has to tell of faults too, does not allocate.
#[derive(Clone, Copy)]
pub struct Error<'a> {
    pub kind: Kind,
    /// What is wrong and how to mend it.
    pub message: &'static str,
    /// The attribute or the constant concerned.
    pub name: Option<&'a [u8]>,
    /// The character, from 1, of the expression or the JSON.
    pub column: Option<usize>,
    /// Which subscription of an insertion, from 0.
    pub position: Option<usize>,
}

/// The kinds that the ABI knows.
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

    /// The same error, about what is called `name`.
    pub fn about(self, name: &'a [u8]) -> Self {
        Error { name: Some(name), ..self }
    }

    /// The same error, at the character that starts at byte `offset` of `text`.
    pub fn at(self, text: &[u8], offset: usize) -> Self {
        // Every byte that does not continue a character starts one.
        let before = text[..offset].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        Error { column: Some(before + 1), ..self }
    }

    /// The answer `{Kind, Message, Attribute, Column, Position}`.
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

/// Appends `item` where memory allows. All that grows while subscriptions are inserted grows by this.
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), Error<'static>> {
    reserve(list, 1)?;
    list.push(item);
    Ok(())
}

/// Makes room for `more` items where memory allows.
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), Error<'static>> {
    let refused = |_| Error::new(Kind::OutOfMemory, "there is no more memory; give the tree a higher limit");
    list.try_reserve(more).map_err(refused)
}
