//! The bytes of sketches: integers of variable length (LEB128), signed ones in zigzag order, and little-endian words.

use crate::error::{Error, Kind};

/// The maximum number of bytes of an integer.
pub(crate) const MAX_INTEGER_BYTES: usize = 10;

/// Appends an unsigned integer. Small ones take one byte.
pub(crate) fn put(out: &mut Vec<u8>, mut integer: u64) {
    while integer >= 0x80 {
        out.push(integer as u8 | 0x80);
        integer >>= 7;
    }
    out.push(integer as u8);
}

/// Appends a signed integer. Those near 0 take one byte.
pub(crate) fn put_signed(out: &mut Vec<u8>, integer: i64) {
    put(out, (integer << 1 ^ integer >> 63) as u64);
}

/// Appends a string and its length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// A cursor over encoded sketches. Malformed bytes are a `syntax` error.
#[derive(Clone, Debug)]
pub(crate) struct Input<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Input { bytes, at: 0 }
    }

    /// Returns the number of unread bytes.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads an unsigned integer.
    #[inline]
    pub fn integer(&mut self) -> Result<u64, Error> {
        let mut integer = 0;
        for shift in (0..).step_by(7).take(MAX_INTEGER_BYTES) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            integer |= bits << shift;
            if byte < 0x80 {
                return Ok(integer);
            }
        }
        Err(self.malformed("an integer exceeds 64 bits"))
    }

    /// Reads a signed integer.
    pub fn signed(&mut self) -> Result<i64, Error> {
        let integer = self.integer()?;
        Ok((integer >> 1) as i64 ^ -((integer & 1) as i64))
    }

    /// Reads an integer that is at most `most`.
    pub fn at_most(&mut self, most: u64, what: &str) -> Result<u64, Error> {
        let integer = self.integer()?;
        if integer > most {
            return Err(self.malformed(&format!("{what} is {integer}, but at most {most}")));
        }
        Ok(integer)
    }

    /// Reads the number of elements that follow, each of at least `least` bytes.
    pub fn count(&mut self, least: usize) -> Result<usize, Error> {
        let count = self.integer()?;
        match usize::try_from(count).ok().and_then(|count| count.checked_mul(least)) {
            Some(bytes) if bytes <= self.left() => Ok(count as usize),
            _ => Err(self.malformed(&format!("{count} elements do not fit the bytes that follow"))),
        }
    }

    pub fn byte(&mut self) -> Result<u8, Error> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    /// Reads a little-endian word.
    pub fn word(&mut self) -> Result<u64, Error> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Reads a finite float.
    pub fn float(&mut self) -> Result<f64, Error> {
        let float = f64::from_bits(self.word()?);
        if !float.is_finite() {
            return Err(self.malformed("a float is not finite"));
        }
        Ok(float)
    }

    /// Reads a string behind its length.
    pub fn string(&mut self) -> Result<&'a [u8], Error> {
        let length = self.count(1)?;
        self.take(length)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        match self.bytes[self.at..].get(..length) {
            Some(taken) => {
                self.at += length;
                Ok(taken)
            }
            None => Err(self.malformed("the bytes end too early")),
        }
    }

    /// Checks that no bytes are left.
    pub fn finish(&self) -> Result<(), Error> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.malformed(&format!("{left} bytes follow the end"))),
        }
    }

    /// Returns the error that the bytes before the cursor are malformed.
    #[cold]
    pub fn malformed(&self, fault: &str) -> Error {
        let message = format!(
            "the statistics are malformed at byte {}: {fault}; give the bytes as they were written, of this or an earlier version",
            self.at
        );
        Error::new(Kind::Syntax, message)
    }
}
