//! Converts values of other types to the type of their attribute, if the attribute allows it.
//!
//! | attribute | takes besides its own values |
//! | --- | --- |
//! | boolean | the strings `true` and `false` |
//! | integer, integer enum | a string of an optional `-` and digits; a float without a fraction |
//! | float | a string of a number as JSON writes it |
//! | string | an integer, as its digits; a boolean, as `true` or `false` |
//! | list of integers or of strings | elements that are converted so; a single such value, as a list of one |
//!
//! Nothing is trimmed. A number beyond 64 bits and any other value remain errors.

use std::str;

use crate::event::filler::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::tables::{push, since, sort_and_dedup};
use crate::event::{Place, Span, Text, Value, MAX_UNSORTED_STRINGS};
use crate::model::predicate::Float;
use crate::model::schema::{AttributeId, Type};
use crate::model::strings::StringId;
use crate::support::hash::hash_bytes;

impl<S: Source> Filler<'_, S> {
    /// Reads the value of attribute `id`, and converts it if its type differs.
    pub fn converted(&mut self, id: AttributeId) -> Read<()> {
        let ty = self.schema.attribute(id).ty;
        if self.source.undefined()? {
            self.set(id, Value::Undefined);
            return Ok(());
        }
        match ty {
            Type::Boolean => {
                let boolean = self.any_boolean()?;
                self.set(id, Value::Boolean(boolean));
            }
            Type::Integer | Type::IntegerEnum => {
                let integer = self.any_integer(ty)?;
                self.set(id, Value::Integer(integer));
            }
            Type::Float => {
                let float = self.any_float()?;
                self.set(id, Value::Float(Float::new(float).get()));
            }
            Type::String => {
                let (text, hash) = self.any_string(ty)?;
                self.set(id, Value::String(text));
                self.seek(hash, Place::Value(id))?;
            }
            Type::IntegerList => self.any_integers(id)?,
            Type::StringList => self.any_strings(id)?,
            Type::Segments | Type::FrequencyCaps | Type::Ip | Type::DateTime | Type::ObjectList => {
                unreachable!("a schema refuses to convert these")
            }
        }
        Ok(())
    }

    fn any_boolean(&mut self) -> Read<bool> {
        if let Some(boolean) = self.source.boolean()? {
            return Ok(boolean);
        }
        let word = |bytes: &[u8]| match bytes {
            b"true" => Some(true),
            b"false" => Some(false),
            _ => None,
        };
        self.parsed_string(Type::Boolean, word)
    }

    /// Reads an integer for an attribute or a list of type `ty`.
    fn any_integer(&mut self, ty: Type) -> Read<i64> {
        if let Some(integer) = self.source.integer()? {
            return Ok(integer);
        }
        let start = self.source.place();
        if let Some(float) = self.source.float()? {
            return match exact_integer(float) {
                Some(integer) => Ok(integer),
                None => {
                    self.source.back_to(start);
                    Err(self.mismatch_of(ty))
                }
            };
        }
        self.parsed_string(ty, integer)
    }

    fn any_float(&mut self) -> Read<f64> {
        if let Some(float) = self.source.float()? {
            return Ok(float);
        }
        self.parsed_string(Type::Float, float)
    }

    /// Returns the result of `read` for the next string, which is required.
    fn parsed_string<T>(&mut self, ty: Type, read: impl Fn(&[u8]) -> Option<T>) -> Read<T> {
        let start = self.source.place();
        match self.source.string(|string| read(string.bytes))? {
            Some(Some(value)) => Ok(value),
            _ => {
                self.source.back_to(start);
                Err(self.mismatch_of(ty))
            }
        }
    }

    /// Reads a string, an integer or a boolean as a string, and returns it with its hash.
    fn any_string(&mut self, ty: Type) -> Read<(Text, u64)> {
        if let Some(string) = self.string()? {
            return Ok(string);
        }
        if let Some(boolean) = self.source.boolean()? {
            return self.written(if boolean { b"true" } else { b"false" });
        }
        match self.source.integer()? {
            Some(integer) => self.written(integer.to_string().as_bytes()),
            None => Err(self.mismatch_of(ty)),
        }
    }

    /// Adds a string that the encoded event does not contain.
    fn written(&mut self, bytes: &[u8]) -> Read<(Text, u64)> {
        let hash = hash_bytes(bytes);
        let start = self.event.take_in(bytes)?;
        // A look-up that is queued later replaces this id.
        let id = self.strings.find(bytes).unwrap_or(StringId::UNKNOWN);
        Ok((Text { id, bytes: Span { start: start as u32, len: bytes.len() as u32 } }, hash))
    }

    fn any_integers(&mut self, id: AttributeId) -> Read<()> {
        let start = self.event.integers.len();
        match self.source.list()? {
            Some(mut list) => {
                while self.source.next(&mut list)? {
                    let integer = self.any_integer(Type::IntegerList)?;
                    push(&mut self.event.integers, integer)?;
                }
            }
            None => {
                let integer = self.any_integer(Type::IntegerList)?;
                push(&mut self.event.integers, integer)?;
            }
        }
        sort_and_dedup(&mut self.event.integers, start);
        self.set(id, Value::Integers(since(start, &self.event.integers)));
        Ok(())
    }

    fn any_strings(&mut self, id: AttributeId) -> Read<()> {
        let start = self.event.strings.len();
        match self.source.list()? {
            Some(mut list) => {
                while self.source.next(&mut list)? {
                    self.any_element()?;
                }
            }
            None => self.any_element()?,
        }
        if self.event.strings.len() - start > MAX_UNSORTED_STRINGS {
            // Strings are sorted by id, which queued look-ups do not have yet.
            self.event.find_sought(self.strings);
        }
        self.event.sort_strings(start);
        self.set(id, Value::Strings(since(start, &self.event.strings)));
        Ok(())
    }

    fn any_element(&mut self) -> Read<()> {
        let (text, hash) = self.any_string(Type::StringList)?;
        let place = Place::Element(self.event.strings.len() as u32);
        push(&mut self.event.strings, text)?;
        self.seek(hash, place)
    }
}

/// Returns `float` as an integer, if it has no fraction and fits 64 bits.
fn exact_integer(float: f64) -> Option<i64> {
    // 2^63 is a float, and the greatest integer is not.
    let fits = float >= i64::MIN as f64 && float < -(i64::MIN as f64);
    (fits && float.fract() == 0.0).then_some(float as i64)
}

/// Parses an integer: an optional `-` and digits.
fn integer(bytes: &[u8]) -> Option<i64> {
    let digits = bytes.strip_prefix(b"-").unwrap_or(bytes);
    match digits.iter().all(u8::is_ascii_digit) {
        true => str::from_utf8(bytes).ok()?.parse().ok(),
        false => None,
    }
}

/// Parses a finite float in the number syntax of JSON.
fn float(bytes: &[u8]) -> Option<f64> {
    let text = str::from_utf8(bytes).ok()?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((number, exponent)) => (number, Some(exponent)),
        None => (unsigned, None),
    };
    let (before, after) = match number.split_once('.') {
        Some((before, after)) => (before, Some(after)),
        None => (number, None),
    };
    let is_number = digits(before)
        && (before.len() == 1 || !before.starts_with('0'))
        && after.is_none_or(digits)
        && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)));
    let float: f64 = if is_number { text.parse().ok()? } else { return None };
    float.is_finite().then_some(float)
}

#[cfg(test)]
mod tests {
    use super::{exact_integer, float, integer};

    #[test]
    fn only_numbers_are_read() {
        assert_eq!(integer(b"-0042"), Some(-42));
        assert_eq!(integer(b"9223372036854775807"), Some(i64::MAX));
        for text in ["", "-", "+1", " 1", "1.0", "0x1", "9223372036854775808"] {
            assert_eq!(integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(float(b"-1.5e+3"), Some(-1500.0));
        assert_eq!(float(b"7"), Some(7.0));
        for text in ["", "1.", ".5", "01", "1e", "inf", "nan", "1e999", "1_0"] {
            assert_eq!(float(text.as_bytes()), None, "{text}");
        }
        assert_eq!(exact_integer(-9_223_372_036_854_775_808.0), Some(i64::MIN));
        assert_eq!(exact_integer(9_223_372_036_854_775_808.0), None);
        assert_eq!(exact_integer(0.5), None);
    }
}
