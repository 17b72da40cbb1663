//! Reads a term sequentially.

use std::borrow::Cow;

use crate::error::{self, Error};
use crate::term::tag;

/// The kind of a term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer of any size.
    Integer,
    /// A float.
    Float,
    /// An atom.
    Atom,
    /// A binary.
    Binary,
    /// A list, empty or not, string terms included.
    List,
    /// A tuple.
    Tuple,
    /// A map.
    Map,
    /// A term that can only be skipped: a pid, a reference, a fun, a bit string and the like.
    Other,
}

/// The unread elements of a list or a tuple, see [`Reader::next`].
#[derive(Debug)]
pub struct Elements {
    left: usize,
    has_tail: bool,
}

impl Elements {
    /// Returns the elements of a tuple, given the arity that its head returned.
    pub fn of_tuple(arity: usize) -> Self {
        Elements { left: arity, has_tail: false }
    }

    /// Returns the number of unread elements.
    pub fn left(&self) -> usize {
        self.left
    }
}

/// A cursor over one encoded term.
///
/// Each method reads the next term, or its head. A term of another kind is a `type` error and is left unread. Malformed
/// bytes are a `syntax` error, integers beyond 64 bits and non-finite floats are `out_of_bounds`. A length must not
/// exceed the bytes that follow it. No method recurses, so nesting is unlimited. Only [`Reader::atom`] allocates.
///
/// ```
/// use be_tree_index::error::Kind;
/// use be_tree_index::term::{Reader, Writer};
///
/// // {:ok, [1, 2]}
/// let mut bytes = Vec::new();
/// let mut writer = Writer::new(&mut bytes);
/// writer.tuple(2);
/// writer.atom("ok");
/// writer.list(2);
/// writer.integer(1);
/// writer.integer(2);
/// writer.end_list();
///
/// let mut reader = Reader::new(&bytes)?;
/// assert_eq!(reader.tuple()?, 2);
/// assert_eq!(reader.atom()?.as_ref(), b"ok");
/// assert_eq!(reader.integer().unwrap_err().kind, Kind::Type);
/// let mut elements = reader.list()?;
/// let mut sum = 0;
/// while reader.next(&mut elements)? {
///     sum += reader.integer()?;
/// }
/// reader.finish()?;
/// assert_eq!(sum, 3);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The start and the end of the elements of a string term. Each is a byte, an integer without a tag.
    string_start: usize,
    string_end: usize,
}

impl<'a> Reader<'a> {
    /// Returns a reader of `bytes`, which must start with the version byte 131 and contain an uncompressed term.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Error> {
        let reader = Reader { bytes, at: 1, string_start: 0, string_end: 0 };
        match bytes {
            [tag::VERSION, tag::COMPRESSED, ..] => {
                Err(reader.syntax("the term is compressed; encode it without the option `compressed`"))
            }
            [tag::VERSION, ..] => Ok(reader),
            _ => Err(Error::new(
                error::Kind::Syntax,
                "the bytes are no external term, which starts with 131; give what `:erlang.term_to_binary/1` returns",
            )),
        }
    }

    /// Returns the position of the next byte.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the kind of the next term.
    #[inline]
    pub fn peek(&self) -> Result<Kind, Error> {
        Ok(match self.peek_tag()? {
            tag::SMALL_INTEGER | tag::INTEGER | tag::SMALL_BIG | tag::LARGE_BIG => Kind::Integer,
            tag::NEW_FLOAT => Kind::Float,
            tag::ATOM | tag::SMALL_ATOM | tag::ATOM_UTF8 | tag::SMALL_ATOM_UTF8 => Kind::Atom,
            tag::BINARY => Kind::Binary,
            tag::NIL | tag::STRING | tag::LIST => Kind::List,
            tag::SMALL_TUPLE | tag::LARGE_TUPLE => Kind::Tuple,
            tag::MAP => Kind::Map,
            _ => Kind::Other,
        })
    }

    /// Reads a signed integer.
    #[inline]
    pub fn integer(&mut self) -> Result<i64, Error> {
        let start = self.at;
        match self.tag()? {
            tag::SMALL_INTEGER => Ok(self.u8()?.into()),
            tag::INTEGER => Ok(i32::from_be_bytes(self.array()?).into()),
            _ => {
                let integer = self.back_to(start).wide()?;
                let integer = integer.and_then(|integer| i64::try_from(integer).ok());
                integer.ok_or_else(|| Self::too_large("signed"))
            }
        }
    }

    /// Reads an unsigned integer.
    #[inline]
    pub fn unsigned(&mut self) -> Result<u64, Error> {
        let integer = self.wide()?;
        integer.and_then(|integer| u64::try_from(integer).ok()).ok_or_else(|| Self::too_large("unsigned"))
    }

    /// Reads a finite float, or an integer of at most 64 bits as the nearest float.
    #[inline]
    pub fn float(&mut self) -> Result<f64, Error> {
        match self.peek_tag()? {
            tag::NEW_FLOAT => {
                self.tag()?;
                let float = f64::from_be_bytes(self.array()?);
                if !float.is_finite() {
                    return Err(Error::new(error::Kind::OutOfBounds, "the float is not finite"));
                }
                Ok(float)
            }
            tag::SMALL_INTEGER | tag::INTEGER | tag::SMALL_BIG | tag::LARGE_BIG => {
                let integer = self.wide()?;
                integer.map(|integer| integer as f64).ok_or_else(|| Self::too_large("signed or unsigned"))
            }
            _ => Err(self.mismatch("a float")),
        }
    }

    /// Reads an atom. Returns its name in UTF-8, copied only if it is Latin-1 and not ASCII.
    #[inline]
    pub fn atom(&mut self) -> Result<Cow<'a, [u8]>, Error> {
        let Some((tag, name, end)) = self.peek_atom() else {
            let is_cut_short = self.peek()? == Kind::Atom;
            return Err(if is_cut_short { self.cut_short() } else { self.mismatch("an atom") });
        };
        self.at = end;
        if matches!(tag, tag::SMALL_ATOM | tag::ATOM) && !name.is_ascii() {
            let characters: String = name.iter().map(|&byte| char::from(byte)).collect();
            return Ok(Cow::Owned(characters.into_bytes()));
        }
        Ok(Cow::Borrowed(name))
    }

    /// Reads one of the atoms `true` and `false`.
    pub fn boolean(&mut self) -> Result<bool, Error> {
        self.boolean_if().ok_or_else(|| self.mismatch("true or false"))
    }

    /// Reads one of the atoms `true` and `false`, if it comes next.
    #[inline]
    pub(crate) fn boolean_if(&mut self) -> Option<bool> {
        self.atom_if(|name| match name {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        })
    }

    /// Reads a 1 or a 0 if one comes next.
    #[cfg(feature = "terms")]
    #[inline]
    pub(crate) fn bit_if(&mut self) -> Option<bool> {
        let (integer, length) = match self.bytes[self.at..] {
            [integer, ..] if self.at < self.string_end => (integer, 1),
            [tag::SMALL_INTEGER, integer, ..] => (integer, 2),
            [tag::INTEGER, 0, 0, 0, integer, ..] => (integer, 5),
            _ => return None,
        };
        if integer > 1 {
            return None;
        }
        self.at += length;
        Some(integer == 1)
    }

    /// Reads the next atom if `pick` returns a value for its name, which is passed as encoded.
    #[inline]
    pub(crate) fn atom_if<T>(&mut self, pick: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
        let (_, name, end) = self.peek_atom()?;
        let picked = pick(name)?;
        self.at = end;
        Some(picked)
    }

    /// Returns the tag of the next atom, its name as encoded, and its end.
    #[inline]
    fn peek_atom(&self) -> Option<(u8, &'a [u8], usize)> {
        let (tag, length, rest) = match self.bytes[self.at..] {
            _ if self.at < self.string_end => return None,
            [tag @ (tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8), length, ref rest @ ..] => (tag, length.into(), rest),
            [tag @ (tag::ATOM | tag::ATOM_UTF8), high, low, ref rest @ ..] => {
                (tag, u16::from_be_bytes([high, low]).into(), rest)
            }
            _ => return None,
        };
        let name = rest.get(..length)?;
        Some((tag, name, self.bytes.len() - rest.len() + length))
    }

    /// Reads the bytes of a binary.
    #[inline]
    pub fn binary(&mut self) -> Result<&'a [u8], Error> {
        let start = self.at;
        match self.tag()? {
            tag::BINARY => {
                let length = self.u32()?;
                self.take(length)
            }
            _ => Err(self.back_to(start).mismatch("a binary")),
        }
    }

    /// Reads the head of a list. [`Reader::next`] must precede the reading of each element.
    #[inline]
    pub fn list(&mut self) -> Result<Elements, Error> {
        let start = self.at;
        match self.tag()? {
            tag::NIL => Ok(Elements { left: 0, has_tail: false }),
            tag::LIST => Ok(Elements { left: self.count(1)?, has_tail: true }),
            tag::STRING => {
                let left = self.u16()? as usize;
                if left > self.left() {
                    return Err(self.cut_short());
                }
                self.string_start = self.at;
                self.string_end = self.at + left;
                Ok(Elements { left, has_tail: false })
            }
            _ => Err(self.back_to(start).mismatch("a list")),
        }
    }

    /// Returns whether `elements` has another one, which then comes next. After the last, consumes the end of the list.
    #[inline]
    pub fn next(&mut self, elements: &mut Elements) -> Result<bool, Error> {
        if elements.left > 0 {
            elements.left -= 1;
            return Ok(true);
        }
        if elements.has_tail {
            if self.peek_tag()? != tag::NIL {
                return Err(self.mismatch("the end of a proper list"));
            }
            self.at += 1;
            elements.has_tail = false;
        }
        Ok(false)
    }

    /// Skips the unread elements and the end of a list, which may be improper.
    #[cfg(feature = "terms")]
    pub(crate) fn skip_elements(&mut self, elements: &mut Elements) -> Result<(), Error> {
        let terms = elements.left + usize::from(elements.has_tail);
        *elements = Elements::of_tuple(0);
        (0..terms).try_for_each(|_| self.skip())
    }

    /// Reads the head of a tuple. Returns the number of elements that follow.
    #[inline]
    pub fn tuple(&mut self) -> Result<usize, Error> {
        let start = self.at;
        match self.tag()? {
            tag::SMALL_TUPLE => {
                let arity = self.u8()? as usize;
                if arity > self.left() {
                    return Err(self.cut_short());
                }
                Ok(arity)
            }
            tag::LARGE_TUPLE => self.count(1),
            _ => Err(self.back_to(start).mismatch("a tuple")),
        }
    }

    /// Reads the head of a map. Returns the number of pairs that follow, each a key and its value.
    #[inline]
    pub fn map(&mut self) -> Result<usize, Error> {
        let start = self.at;
        match self.tag()? {
            tag::MAP => self.count(2),
            _ => Err(self.back_to(start).mismatch("a map")),
        }
    }

    /// Skips one whole term.
    pub fn skip(&mut self) -> Result<(), Error> {
        // A counter of the terms still to come replaces a stack.
        let mut terms = 1;
        while terms > 0 {
            terms = terms - 1 + self.skip_head()?;
            if terms > self.left() {
                return Err(self.cut_short());
            }
        }
        Ok(())
    }

    /// Checks that the input is exhausted.
    pub fn finish(&self) -> Result<(), Error> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.syntax(format!("{left} bytes follow the end of the term; give one term alone"))),
        }
    }

    /// Returns the kind and the size of the next term for messages, without its content, because messages go to logs
    /// and the term may be of an event. Errors: no term comes next.
    pub fn describe(&self) -> Result<String, Error> {
        let mut ahead = self.clone();
        let kind = self.peek()?;
        Ok(match kind {
            Kind::List => format!("a list of {}", ahead.list()?.left),
            Kind::Tuple => format!("a tuple of {}", ahead.tuple()?),
            Kind::Map => format!("a map of {}", ahead.map()?),
            _ => {
                ahead.skip()?;
                let name = match kind {
                    Kind::Integer => "an integer",
                    Kind::Float => "a float",
                    Kind::Atom => "an atom",
                    Kind::Binary => "a binary",
                    _ => "a term that is neither number, atom, binary, list, tuple nor map",
                };
                name.to_string()
            }
        })
    }

    /// Skips the head of a term. Returns the number of terms inside it.
    fn skip_head(&mut self) -> Result<usize, Error> {
        let start = self.at;
        let (bytes, terms) = match self.tag()? {
            tag::NIL => (0, 0),
            tag::SMALL_INTEGER => (1, 0),
            tag::INTEGER => (4, 0),
            tag::NEW_FLOAT => (8, 0),
            tag::FLOAT => (31, 0),
            tag::SMALL_ATOM | tag::SMALL_ATOM_UTF8 => (self.u8()? as usize, 0),
            tag::ATOM | tag::ATOM_UTF8 | tag::STRING => (self.u16()? as usize, 0),
            tag::BINARY => (self.u32()?, 0),
            // One byte holds the number of bits, or the sign.
            tag::BIT_BINARY | tag::LARGE_BIG => (self.u32()?.saturating_add(1), 0),
            tag::SMALL_BIG => (self.u8()? as usize + 1, 0),
            tag::LIST => (0, self.count(1)? + 1),
            tag::SMALL_TUPLE => (0, self.u8()? as usize),
            tag::LARGE_TUPLE => (0, self.count(1)?),
            tag::MAP => (0, 2 * self.count(2)?),
            tag::PID => (self.after_node(9)?, 0),
            tag::NEW_PID => (self.after_node(12)?, 0),
            tag::PORT | tag::REFERENCE => (self.after_node(5)?, 0),
            tag::NEW_PORT => (self.after_node(8)?, 0),
            tag::V4_PORT => (self.after_node(12)?, 0),
            tag::NEW_REFERENCE => {
                let words = self.u16()? as usize;
                (self.after_node(1 + 4 * words)?, 0)
            }
            tag::NEWER_REFERENCE => {
                let words = self.u16()? as usize;
                (self.after_node(4 + 4 * words)?, 0)
            }
            // Module, function and arity.
            tag::EXPORT => (0, 3),
            // The size includes its own four bytes.
            tag::NEW_FUN => (self.u32()?.checked_sub(4).ok_or_else(|| self.cut_short())?, 0),
            // The process, the module, the index and a number, and the free variables.
            tag::FUN => (0, self.count(1)? + 4),
            unknown => {
                return Err(self.back_to(start).syntax(format!("no term that can be read has the tag {unknown}")))
            }
        };
        self.take(bytes)?;
        Ok(terms)
    }

    /// Skips the node name of a pid, a port or a reference. Returns `bytes`, the size of what follows it.
    fn after_node(&mut self, bytes: usize) -> Result<usize, Error> {
        self.atom()?;
        Ok(bytes)
    }

    /// Reads an integer. Returns `None` if its magnitude has more than 64 bits.
    fn wide(&mut self) -> Result<Option<i128>, Error> {
        let start = self.at;
        let length = match self.tag()? {
            tag::SMALL_INTEGER => return Ok(Some(self.u8()?.into())),
            tag::INTEGER => return Ok(Some(i32::from_be_bytes(self.array()?).into())),
            tag::SMALL_BIG => self.u8()? as usize,
            tag::LARGE_BIG => self.u32()?,
            _ => return Err(self.back_to(start).mismatch("an integer")),
        };
        let negative = self.u8()? != 0;
        let digits = self.take(length)?;
        let used = digits.iter().rposition(|&digit| digit != 0).map_or(0, |last| last + 1);
        let mut magnitude = [0; 8];
        let Some(low) = magnitude.get_mut(..used) else { return Ok(None) };
        low.copy_from_slice(&digits[..used]);
        let magnitude = i128::from(u64::from_le_bytes(magnitude));
        Ok(Some(if negative { -magnitude } else { magnitude }))
    }

    /// Reads the length of a list, tuple or map whose elements take at least `parts` bytes each.
    #[inline]
    fn count(&mut self, parts: usize) -> Result<usize, Error> {
        let count = self.u32()?;
        if count > self.left() / parts {
            return Err(self.cut_short());
        }
        Ok(count)
    }

    #[inline]
    fn peek_tag(&self) -> Result<u8, Error> {
        if self.at < self.string_end {
            return Ok(tag::SMALL_INTEGER);
        }
        self.bytes.get(self.at).copied().ok_or_else(|| self.cut_short())
    }

    #[inline]
    fn tag(&mut self) -> Result<u8, Error> {
        if self.at < self.string_end {
            return Ok(tag::SMALL_INTEGER);
        }
        self.u8()
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, Error> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, Error> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    #[inline]
    fn u32(&mut self) -> Result<usize, Error> {
        Ok(u32::from_be_bytes(self.array()?) as usize)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        match self.bytes[self.at..].first_chunk() {
            Some(&bytes) => {
                self.at += N;
                Ok(bytes)
            }
            None => Err(self.cut_short()),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        match self.bytes[self.at..].get(..length) {
            Some(bytes) => {
                self.at += length;
                Ok(bytes)
            }
            None => Err(self.cut_short()),
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Returns the start of the next term.
    #[cfg(feature = "terms")]
    pub(crate) fn place(&self) -> usize {
        self.at
    }

    /// Moves back to the start of a term.
    pub(crate) fn back_to(&mut self, start: usize) -> &mut Self {
        self.at = start;
        if start < self.string_start {
            self.string_end = 0;
        }
        self
    }

    /// Returns the error that the next term is not `expected`.
    #[cold]
    pub(crate) fn mismatch(&self, expected: &str) -> Error {
        match self.describe() {
            Ok(given) => Error::new(error::Kind::Type, format!("expected {expected}, given {given}")),
            Err(error) => error,
        }
    }

    #[cold]
    fn too_large(signedness: &str) -> Error {
        Error::new(error::Kind::OutOfBounds, format!("the integer does not fit {signedness} 64 bits"))
    }

    #[cold]
    fn cut_short(&self) -> Error {
        self.syntax("the term is cut short; give all that `:erlang.term_to_binary/1` returns")
    }

    #[cold]
    fn syntax(&self, message: impl Into<String>) -> Error {
        Error::new(error::Kind::Syntax, format!("at byte {}: {}", self.at, message.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::Writer;

    fn reader(bytes: &[u8]) -> Reader<'_> {
        Reader::new(bytes).unwrap()
    }

    fn written(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut Writer::new(&mut out));
        out
    }

    /// Returns the error of a read that must fail.
    fn error<T: std::fmt::Debug>(result: Result<T, Error>) -> (error::Kind, String) {
        let error = result.unwrap_err();
        (error.kind, error.message)
    }

    #[test]
    fn integers_keep_64_bits() {
        for integer in [0, 1, 255, 256, -1, i32::MAX as i64, i32::MIN as i64, 1 << 31, i64::MAX, i64::MIN] {
            let bytes = written(|writer| writer.integer(integer));
            assert_eq!(reader(&bytes).integer(), Ok(integer));
            assert_eq!(reader(&bytes).float(), Ok(integer as f64));
            assert_eq!(reader(&bytes).unsigned().ok(), u64::try_from(integer).ok());
        }
        let bytes = written(|writer| writer.unsigned(u64::MAX));
        assert_eq!(bytes, [131, 110, 8, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(reader(&bytes).unsigned(), Ok(u64::MAX));
        let message = "the integer does not fit signed 64 bits".to_string();
        assert_eq!(error(reader(&bytes).integer()), (error::Kind::OutOfBounds, message));
    }

    #[test]
    fn integers_beyond_64_bits_are_out_of_bounds() {
        let two_to_the_70th = [131, 110, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 64];
        let mut two_to_the_2100th = vec![0; 263];
        two_to_the_2100th[262] = 16;
        let two_to_the_2100th = [&[131, 111, 0, 0, 1, 7, 0][..], &two_to_the_2100th].concat();
        for bytes in [&two_to_the_70th[..], &two_to_the_2100th] {
            let (kind, message) = error(reader(bytes).integer());
            assert_eq!(kind, error::Kind::OutOfBounds);
            assert!(message.contains("does not fit"), "{message}");
            assert_eq!(error(reader(bytes).float()).0, error::Kind::OutOfBounds);
            let mut passed = reader(bytes);
            passed.skip().unwrap();
            passed.finish().unwrap();
        }
        // Leading zeros do not count.
        assert_eq!(reader(&[131, 110, 10, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0]).integer(), Ok(-7));
    }

    #[test]
    fn floats_are_finite() {
        for float in [0.0, -0.5, 1e308, f64::MIN_POSITIVE] {
            assert_eq!(reader(&written(|writer| writer.float(float))).float(), Ok(float));
        }
        for float in [f64::NAN, f64::INFINITY] {
            let bytes = written(|writer| writer.float(float));
            assert_eq!(error(reader(&bytes).float()).0, error::Kind::OutOfBounds);
        }
    }

    #[test]
    fn atoms_are_utf_8_however_they_are_written() {
        for bytes in [
            &[131, 100, 0, 3, 233, 116, 233][..],
            &[131, 115, 3, 233, 116, 233],
            &[131, 118, 0, 5, 195, 169, 116, 195, 169],
            &[131, 119, 5, 195, 169, 116, 195, 169],
        ] {
            assert_eq!(&*reader(bytes).atom().unwrap(), "été".as_bytes());
        }
        let long = "a".repeat(300);
        let bytes = written(|writer| writer.atom(&long));
        assert_eq!(&*reader(&bytes).atom().unwrap(), long.as_bytes());
    }

    #[test]
    fn a_batch_reads_top_to_bottom() {
        let bytes = written(|writer| {
            writer.list(2);
            for id in [7, u64::MAX] {
                writer.tuple(3);
                writer.unsigned(id);
                writer.binary(b"age > 3");
                writer.list(0);
                writer.end_list();
            }
            writer.end_list();
        });
        let mut reader = reader(&bytes);
        let mut ids = Vec::new();
        let mut batch = reader.list().unwrap();
        assert_eq!(batch.left(), 2);
        while reader.next(&mut batch).unwrap() {
            assert_eq!(reader.tuple(), Ok(3));
            ids.push(reader.unsigned().unwrap());
            assert_eq!(reader.binary(), Ok(&b"age > 3"[..]));
            let mut constants = reader.list().unwrap();
            assert_eq!(reader.next(&mut constants), Ok(false));
        }
        reader.finish().unwrap();
        assert_eq!(ids, [7, u64::MAX]);
    }

    #[test]
    fn a_string_term_is_a_list_of_integers() {
        let bytes = [131, 104, 2, 107, 0, 3, 1, 2, 131, 97, 9];
        let mut reader = reader(&bytes);
        assert_eq!(reader.tuple(), Ok(2));
        assert_eq!(reader.describe().unwrap(), "a list of 3");
        let mut list = reader.list().unwrap();
        assert_eq!(reader.next(&mut list), Ok(true));
        assert_eq!(reader.integer(), Ok(1));
        assert_eq!(reader.next(&mut list), Ok(true));
        assert_eq!(reader.peek(), Ok(Kind::Integer));
        reader.skip().unwrap();
        assert_eq!(reader.next(&mut list), Ok(true));
        assert_eq!(reader.float(), Ok(131.0));
        assert_eq!(reader.next(&mut list), Ok(false));
        assert_eq!(reader.integer(), Ok(9));
        reader.finish().unwrap();
    }

    #[test]
    fn another_kind_of_term_is_left_unread() {
        let bytes = [131, 119, 3, b'f', b'o', b'o'];
        let mut reader = reader(&bytes);
        let given = "given an atom";
        assert_eq!(error(reader.integer()), (error::Kind::Type, format!("expected an integer, {given}")));
        assert_eq!(error(reader.float()), (error::Kind::Type, format!("expected a float, {given}")));
        assert_eq!(error(reader.boolean()), (error::Kind::Type, format!("expected true or false, {given}")));
        assert_eq!(error(reader.binary()), (error::Kind::Type, format!("expected a binary, {given}")));
        assert_eq!(error(reader.list()), (error::Kind::Type, format!("expected a list, {given}")));
        assert_eq!(error(reader.tuple()), (error::Kind::Type, format!("expected a tuple, {given}")));
        assert_eq!(error(reader.map()), (error::Kind::Type, format!("expected a map, {given}")));
        assert_eq!(&*reader.atom().unwrap(), b"foo");
    }

    #[test]
    fn an_improper_list_is_refused_at_its_end() {
        let bytes = [131, 108, 0, 0, 0, 1, 97, 1, 97, 2];
        let mut reader = reader(&bytes);
        let mut list = reader.list().unwrap();
        assert_eq!(reader.next(&mut list), Ok(true));
        reader.skip().unwrap();
        let message = "expected the end of a proper list, given an integer".to_string();
        assert_eq!(error(reader.next(&mut list)), (error::Kind::Type, message));
    }

    /// Terms that no attribute accepts, as Erlang writes them: a pid, a reference, a port, a fun, an export, a bit string, a
    /// float of the old form, an improper list, and a map of lists of pairs.
    const UNREADABLE: [&[u8]; 9] = [
        b"\x83\x58\x64\0\x0dnonode@nohost\0\0\0\x60\0\0\0\0\0\0\0\0",
        b"\x83\x5a\0\x03\x64\0\x0dnonode@nohost\0\0\0\0\0\x02\x16\x27\xdb\x18\0\x01\xef\x85\x1f\xd8",
        b"\x83\x59\x64\0\x0dnonode@nohost\0\0\0\x05\0\0\0\0",
        b"\x83\x70\0\0\0\x55\0\xa2\x8c\xe7\x80\x49\xb7\x06\x97\x16\x2b\xd6\x31\x58\xc0\x1d\x69\0\0\0\0\0\0\0\0\x64\0\x11\
          elixir_compiler_0\x61\0\x62\x05\x14\x67\x3c\x58\x64\0\x0dnonode@nohost\0\0\0\x60\0\0\0\0\0\0\0\0",
        b"\x83\x71\x64\0\x0dElixir.String\x64\0\x06length\x61\x01",
        b"\x83\x4d\0\0\0\x01\x03\xa0",
        b"\x83\x631.50000000000000000000e+00\0\0\0\0\0",
        b"\x83\x6c\0\0\0\x01\x61\x01\x61\x02",
        b"\x83\x74\0\0\0\x02\x64\0\x01a\x61\x01\x6d\0\0\0\x01b\x6c\0\0\0\x01\x68\x02\x64\0\x01x\x46\x3f\xf8\0\0\0\0\0\0\x6a",
    ];

    #[test]
    fn any_term_is_passed_over_and_none_that_is_cut_short() {
        for bytes in UNREADABLE {
            let mut whole = reader(bytes);
            whole.describe().unwrap();
            whole.skip().unwrap();
            whole.finish().unwrap();
            for end in 1..bytes.len() {
                let (kind, message) = error(reader(&bytes[..end]).skip());
                assert_eq!(kind, error::Kind::Syntax);
                assert!(message.contains("cut short"), "{message}");
            }
        }
    }

    #[test]
    fn a_million_nested_lists_are_passed_over() {
        let depth = 1_000_000;
        let bytes = [&[131][..], &[108, 0, 0, 0, 1].repeat(depth), &[106].repeat(depth + 1)].concat();
        let mut nested = reader(&bytes);
        nested.skip().unwrap();
        nested.finish().unwrap();
        assert_eq!(error(reader(&bytes[..bytes.len() - 1]).skip()).0, error::Kind::Syntax);
    }

    #[test]
    fn a_length_without_the_bytes_behind_it_is_refused_at_once() {
        for tag in [tag::BINARY, tag::LIST, tag::LARGE_TUPLE, tag::MAP, tag::LARGE_BIG, tag::BIT_BINARY, tag::NEW_FUN] {
            let bytes = [131, tag, 255, 255, 255, 255, 106, 106];
            assert_eq!(error(reader(&bytes).skip()).0, error::Kind::Syntax);
            assert_eq!(error(reader(&bytes).describe()).0, error::Kind::Syntax);
        }
        assert_eq!(error(reader(&[131, 104, 9, 106]).tuple()).0, error::Kind::Syntax);
        assert_eq!(error(reader(&[131, 107, 0, 9, 106]).list()).0, error::Kind::Syntax);
    }

    #[test]
    fn what_is_no_term_is_a_syntax_error_that_says_how_to_mend_it() {
        let cases: [(&[u8], &str); 3] = [
            (b"", "`:erlang.term_to_binary/1`"),
            (b"{}", "`:erlang.term_to_binary/1`"),
            (&[131, 80, 0, 0, 0, 105], "without the option `compressed`"),
        ];
        for (bytes, mend) in cases {
            let (kind, message) = error(Reader::new(bytes));
            assert_eq!(kind, error::Kind::Syntax);
            assert!(message.contains(mend), "{message}");
        }
        assert_eq!(error(reader(&[131, 7]).skip()).1, "at byte 1: no term that can be read has the tag 7");
        assert_eq!(error(reader(&[131, 106, 106]).finish()).0, error::Kind::Syntax);
    }
}
