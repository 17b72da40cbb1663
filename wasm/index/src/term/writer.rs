//! Writes a term sequentially.

use std::collections::TryReserveError;

use crate::term::tag;

/// Appends one encoded term to a buffer.
///
/// Write the head of a list, tuple or map first, and then the announced number of terms. The term in the buffer is then
/// complete. Lengths are below 2^32, those of atoms below 2^16.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Returns a writer at the end of `out`, and appends the version byte.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        out.push(tag::VERSION);
        Writer { out }
    }

    /// Returns the number of bytes in the buffer.
    pub fn written(&self) -> usize {
        self.out.len()
    }

    /// Requests memory for this number of bytes, so that writing them cannot fail.
    ///
    /// # Errors
    ///
    /// The memory is refused.
    pub fn reserve(&mut self, bytes: usize) -> Result<(), TryReserveError> {
        self.out.try_reserve(bytes)
    }

    /// Writes a signed integer.
    pub fn integer(&mut self, integer: i64) {
        if let Ok(byte) = u8::try_from(integer) {
            self.out.extend([tag::SMALL_INTEGER, byte]);
        } else if let Ok(word) = i32::try_from(integer) {
            self.out.push(tag::INTEGER);
            self.out.extend(word.to_be_bytes());
        } else {
            self.big(integer < 0, integer.unsigned_abs().into());
        }
    }

    /// Writes an unsigned integer.
    pub fn unsigned(&mut self, integer: u64) {
        match i64::try_from(integer) {
            Ok(integer) => self.integer(integer),
            Err(_) => self.big(false, integer.into()),
        }
    }

    /// Writes a signed integer of 128 bits.
    pub fn wide(&mut self, integer: i128) {
        match i64::try_from(integer) {
            Ok(integer) => self.integer(integer),
            Err(_) => self.big(integer < 0, integer.unsigned_abs()),
        }
    }

    /// Writes a finite float.
    pub fn float(&mut self, float: f64) {
        self.out.push(tag::NEW_FLOAT);
        self.out.extend(float.to_be_bytes());
    }

    /// Writes an atom.
    pub fn atom(&mut self, name: &str) {
        match u8::try_from(name.len()) {
            Ok(length) => self.out.extend([tag::SMALL_ATOM_UTF8, length]),
            Err(_) => {
                let length = u16::try_from(name.len()).expect("an atom is shorter than 2^16 bytes");
                self.out.push(tag::ATOM_UTF8);
                self.out.extend(length.to_be_bytes());
            }
        }
        self.out.extend_from_slice(name.as_bytes());
    }

    /// Writes `true` or `false`.
    pub fn boolean(&mut self, boolean: bool) {
        self.atom(if boolean { "true" } else { "false" });
    }

    /// Writes a binary.
    pub fn binary(&mut self, bytes: &[u8]) {
        self.head(tag::BINARY, bytes.len());
        self.out.extend_from_slice(bytes);
    }

    /// Writes the head of a list of `length` elements. The elements follow, and then [`Writer::end_list`].
    pub fn list(&mut self, length: usize) {
        // The empty list has no head, only an end.
        if length > 0 {
            self.head(tag::LIST, length);
        }
    }

    /// Writes the end of a list.
    pub fn end_list(&mut self) {
        self.out.push(tag::NIL);
    }

    /// Writes the head of a tuple of `arity` elements, which follow.
    pub fn tuple(&mut self, arity: usize) {
        match u8::try_from(arity) {
            Ok(arity) => self.out.extend([tag::SMALL_TUPLE, arity]),
            Err(_) => self.head(tag::LARGE_TUPLE, arity),
        }
    }

    /// Writes the head of a map of `pairs` distinct keys. Each follows with its value.
    pub fn map(&mut self, pairs: usize) {
        self.head(tag::MAP, pairs);
    }

    fn big(&mut self, negative: bool, magnitude: u128) {
        let used = 16 - magnitude.leading_zeros() as usize / 8;
        self.out.extend([tag::SMALL_BIG, used as u8, negative.into()]);
        self.out.extend_from_slice(&magnitude.to_le_bytes()[..used]);
    }

    fn head(&mut self, tag: u8, length: usize) {
        let length = u32::try_from(length).expect("a term has fewer than 2^32 elements");
        self.out.push(tag);
        self.out.extend(length.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_written_as_erlang_writes_them() {
        // {255, 256, -1, 2147483648, -2147483649, 18446744073709551615, 1.5, "b", [], [1000], %{1 => {}}}
        let expected = b"\x83\x68\x0b\x61\xff\x62\0\0\x01\0\x62\xff\xff\xff\xff\x6e\x04\0\0\0\0\x80\
            \x6e\x04\x01\x01\0\0\x80\x6e\x08\0\xff\xff\xff\xff\xff\xff\xff\xff\x46\x3f\xf8\0\0\0\0\0\0\
            \x6d\0\0\0\x01b\x6a\x6c\0\0\0\x01\x62\0\0\x03\xe8\x6a\x74\0\0\0\x01\x61\x01\x68\0";
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.tuple(11);
        for integer in [255, 256, -1, 2147483648, -2147483649] {
            writer.integer(integer);
        }
        writer.unsigned(u64::MAX);
        writer.float(1.5);
        writer.binary(b"b");
        writer.list(0);
        writer.end_list();
        writer.list(1);
        writer.integer(1000);
        writer.end_list();
        writer.map(1);
        writer.integer(1);
        writer.tuple(0);
        assert_eq!(out, expected);
    }

    #[test]
    fn heads_grow_with_what_they_announce() {
        let mut out = Vec::new();
        Writer::new(&mut out).tuple(256);
        assert_eq!(out, [131, 105, 0, 0, 1, 0]);
        out.clear();
        Writer::new(&mut out).boolean(false);
        assert_eq!(out, b"\x83\x77\x05false");
        out.clear();
        Writer::new(&mut out).atom(&"a".repeat(256));
        assert_eq!(out[..4], [131, 118, 1, 0]);
    }
}
