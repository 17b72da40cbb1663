//! Reads events as JSON, strictly by RFC 8259.
//!
//! Libraries build a tree or recurse. This reader fills the event's tables directly, skips unknown values without
//! memory, does not recurse, and can go back to a value for its error. It suits searches, which allocate only in memory
//! that survives a trap at any instruction, and pay fuel for each instruction.

use std::str;

use crate::error::{is_marked, Error, Kind, MARKED};
use crate::event::formats::source::{Read, Source, Str};
use crate::support::bytes::{marked, zeros, HIGH_BITS, ONES};
use crate::support::hash::{out_of_memory, Words};

/// A cursor over a JSON text. No function recurses, so nesting is unlimited.
///
/// Columns of its errors count bytes: counting characters takes time linear in the text, and the error may be discarded
/// if the value counts as undefined. [`in_characters`] converts them.
pub(in crate::event) struct Json<'a> {
    text: &'a [u8],
    at: usize,
    /// Scratch: the last unescaped string, or the stack of open brackets while a value is skipped.
    scratch: Vec<u8>,
}

/// The unread elements of an array, or the unread names of an object.
pub(in crate::event) struct Items {
    any_read: bool,
}

impl<'a> Json<'a> {
    pub(in crate::event) fn new(text: &'a [u8]) -> Self {
        Json { text, at: 0, scratch: Vec::new() }
    }

    /// Moves to the next byte that is not white space, and returns it, or 0 at the end.
    #[inline]
    fn peek(&mut self) -> u8 {
        let (at, byte) = token(self.text, self.at);
        self.at = at;
        byte
    }

    /// Reads the separator between items of an array or an object. Returns whether another item follows.
    #[inline]
    fn another(&mut self, items: &mut Items, end: u8) -> Read<bool> {
        let (at, byte) = token(self.text, self.at);
        if byte == end {
            self.at = at + 1;
            return Ok(false);
        }
        if items.any_read && byte != b',' {
            return Err(self.no_end(at, end));
        }
        self.at = at + usize::from(items.any_read);
        items.any_read = true;
        Ok(true)
    }

    #[cold]
    fn no_end(&self, at: usize, end: u8) -> Box<Error> {
        self.missing(at, &format!("expected `,` or `{}` after a value", char::from(end)))
    }

    /// Reads a word such as `true` if it comes next.
    #[inline]
    fn word<const N: usize>(&mut self, word: &[u8; N]) -> bool {
        let (at, _) = token(self.text, self.at);
        let found = self.text[at..].first_chunk() == Some(word);
        self.at = if found { at + N } else { at };
        found
    }

    /// Returns the end of the number that starts here, and whether it has only digits and a sign.
    fn number(&self) -> Read<(usize, bool)> {
        let mut at = self.at + usize::from(self.text[self.at] == b'-');
        let first = at;
        at = self.digits(at)?;
        if self.text[first] == b'0' && at > first + 1 {
            return Err(self.syntax(first, "a number has no leading zeros; leave them out"));
        }
        let whole = at;
        if self.text.get(at) == Some(&b'.') {
            at = self.digits(at + 1)?;
        }
        if let Some(b'e' | b'E') = self.text.get(at) {
            at += 1;
            at += usize::from(matches!(self.text.get(at), Some(b'+' | b'-')));
            at = self.digits(at)?;
        }
        Ok((at, at == whole))
    }

    /// Returns the end of the digits that start at `at`. There must be at least one.
    #[inline]
    fn digits(&self, at: usize) -> Read<usize> {
        let count = self.text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.syntax(at, "expected a digit in a number"));
        }
        Ok(at + count)
    }

    /// Reads the string that starts here.
    #[inline(always)]
    fn text<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<T> {
        let start = self.at + 1;
        let run = plain(self.text, start);
        if self.text.get(run.end) != Some(&b'"') || !run.is_ascii {
            return self.unusual_text(start).map(take);
        }
        self.at = run.end + 1;
        let hash = run.words.of_bytes(run.end - start);
        Ok(take(Str { bytes: &self.text[start..run.end], hash, end: Some(run.end) }))
    }

    /// Returns the result of `take` for the next string, as [`Source::string`] does, and its offset if the text
    /// contains it unescaped. The string is not hashed.
    #[inline]
    pub(in crate::event) fn bytes<T>(&mut self, take: impl FnOnce(&[u8], Option<usize>) -> T) -> Read<Option<T>> {
        if self.peek() != b'"' {
            return Ok(None);
        }
        let start = self.at + 1;
        let (end, is_ascii) = plain_end(self.text, start);
        if self.text.get(end) != Some(&b'"') || !is_ascii {
            let string = self.unusual_text(start)?;
            return Ok(Some(take(string.bytes, string.end.map(|end| end - string.bytes.len()))));
        }
        self.at = end + 1;
        Ok(Some(take(&self.text[start..end], Some(start))))
    }

    /// Reads a string for [`Json::text`] that has escapes or characters beyond ASCII, or is malformed. A string with escapes
    /// goes into the scratch.
    #[inline(never)]
    fn unusual_text(&mut self, start: usize) -> Read<Str<'_>> {
        let end = self.run(start)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Str::within(&self.text[start..end], end));
        }
        self.escaped_text(start, end)?;
        Ok(Str::apart(&self.scratch))
    }

    /// Reads the string from `start`, whose first escape is at `end`, into the scratch.
    fn escaped_text(&mut self, mut start: usize, mut end: usize) -> Read<()> {
        self.scratch.clear();
        while self.text[end] != b'"' {
            let (character, next) = self.escape(end)?;
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8);
            self.scratch.try_reserve(end - start + utf8.len()).map_err(out_of_memory)?;
            self.scratch.extend_from_slice(&self.text[start..end]);
            self.scratch.extend_from_slice(utf8.as_bytes());
            start = next;
            end = self.run(start)?;
        }
        self.scratch.try_reserve(end - start).map_err(out_of_memory)?;
        self.scratch.extend_from_slice(&self.text[start..end]);
        self.at = end + 1;
        Ok(())
    }

    /// Skips the string that starts here.
    fn skip_text(&mut self) -> Read<()> {
        let mut end = self.run(self.at + 1)?;
        while self.text[end] != b'"' {
            let (_, next) = self.escape(end)?;
            end = self.run(next)?;
        }
        self.at = end + 1;
        Ok(())
    }

    /// Skips a value, but only up to the first item of an array or an object. Returns whether there is an item.
    fn skip_head(&mut self) -> Read<bool> {
        let end = match self.peek() {
            b'{' => b'}',
            b'[' => b']',
            b'"' => return self.skip_text().map(|()| false),
            b'-' | b'0'..=b'9' => {
                (self.at, _) = self.number()?;
                return Ok(false);
            }
            _ if self.word(b"true") || self.word(b"false") || self.word(b"null") => return Ok(false),
            _ => return Err(self.missing(self.at, "expected a value")),
        };
        self.at += 1;
        if !self.another(&mut Items { any_read: false }, end)? {
            return Ok(false);
        }
        self.scratch.try_reserve(1).map_err(out_of_memory)?;
        self.scratch.push(end);
        self.skip_name(end)?;
        Ok(true)
    }

    /// Skips the name before an item, if `end` closes an object.
    fn skip_name(&mut self, end: u8) -> Read<()> {
        if end == b'}' {
            self.quote()?;
            self.skip_text()?;
            self.colon()?;
        }
        Ok(())
    }

    /// Moves to the quote that must come next.
    #[inline]
    fn quote(&mut self) -> Read<()> {
        match self.peek() {
            b'"' => Ok(()),
            _ => Err(self.missing(self.at, "expected a name in double quotes")),
        }
    }

    /// Reads the colon that must come next.
    #[inline]
    fn colon(&mut self) -> Read<()> {
        let (at, byte) = token(self.text, self.at);
        if byte != b':' {
            return Err(self.missing(at, "expected `:` after a name"));
        }
        self.at = at + 1;
        Ok(())
    }

    /// Reads the bracket that opens an array or an object, if it comes next.
    #[inline]
    fn open(&mut self, bracket: u8) -> Read<Option<Items>> {
        let (at, byte) = token(self.text, self.at);
        let found = byte == bracket;
        self.at = at + usize::from(found);
        Ok(found.then_some(Items { any_read: false }))
    }

    /// Reads a number of any length for [`Source::integer`].
    #[inline(never)]
    fn long_integer(&mut self) -> Read<Option<i64>> {
        let (end, whole) = self.number()?;
        if !whole {
            return Ok(None);
        }
        match self.number_up_to(end).parse() {
            Ok(integer) => {
                self.at = end;
                Ok(Some(integer))
            }
            Err(_) => {
                let message = "the integer does not fit signed 64 bits";
                Err(self.locate(Error::new(Kind::OutOfBounds, message)).into())
            }
        }
    }

    /// Reads a number of any form for [`Source::float`].
    #[inline(never)]
    fn long_float(&mut self) -> Read<Option<f64>> {
        let (end, _) = self.number()?;
        match self.number_up_to(end).parse() {
            Ok(float) if f64::is_finite(float) => {
                self.at = end;
                Ok(Some(float))
            }
            _ => {
                let message = "the number does not fit a 64-bit float";
                Err(self.locate(Error::new(Kind::OutOfBounds, message)).into())
            }
        }
    }

    /// Returns the number from here to `end`.
    #[inline]
    fn number_up_to(&self, end: usize) -> &'a str {
        str::from_utf8(&self.text[self.at..end]).expect("a number is ASCII")
    }

    /// Returns the position of the quote or the backslash that ends the plain characters of a string from `start` on.
    fn run(&self, start: usize) -> Read<usize> {
        let run = plain(self.text, start);
        match self.text.get(run.end) {
            Some(b'"' | b'\\') => {}
            Some(_) => {
                let message = "a control character in a string; write it as an escape such as `\\n`";
                return Err(self.syntax(run.end, message));
            }
            None => return Err(self.syntax(run.end, "the JSON ends within a string; give all of it")),
        }
        if !run.is_ascii {
            if let Err(error) = str::from_utf8(&self.text[start..run.end]) {
                return Err(self.syntax(start + error.valid_up_to(), "a string is not UTF-8; encode it so"));
            }
        }
        Ok(run.end)
    }

    /// Returns the character that the escape at `at` stands for, and the end of the escape.
    fn escape(&self, at: usize) -> Read<(char, usize)> {
        let character = match self.text.get(at + 1) {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(at),
            _ => {
                let message = "no such escape; after `\\` comes one of `\" \\ / b f n r t u`";
                return Err(self.syntax(at, message));
            }
        };
        Ok((character, at + 2))
    }

    /// Parses `\uXXXX` likewise. A character beyond the first 65,536 takes two of these.
    fn unicode_escape(&self, at: usize) -> Read<(char, usize)> {
        let first = self.code_unit(at);
        let is_half = first.is_some_and(|unit| (0xd800..0xdc00).contains(&unit));
        let second = if is_half { self.code_unit(at + 6) } else { None };
        match char::decode_utf16([first, second].into_iter().flatten()).next() {
            Some(Ok(character)) => Ok((character, at + 6 * character.len_utf16())),
            Some(Err(_)) => Err(self.syntax(at, "half of a surrogate pair; write both halves")),
            None => Err(self.syntax(at, "after `\\u` come four hexadecimal digits")),
        }
    }

    fn code_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |unit, &digit| Some(unit << 4 | char::from(digit).to_digit(16)? as u16))
    }

    #[cold]
    fn syntax(&self, at: usize, message: impl Into<String>) -> Box<Error> {
        let message = if is_marked(&self.text[at..]) { MARKED.into() } else { message.into() };
        Error { column: Some(at + 1), ..Error::new(Kind::Syntax, message) }.into()
    }

    /// Returns the error `message` at `at`, or another one if the text ends there.
    #[cold]
    fn missing(&self, at: usize, message: &str) -> Box<Error> {
        let ends = at == self.text.len();
        self.syntax(at, if ends { "the JSON ends too early; give all of it" } else { message })
    }
}

impl Source for Json<'_> {
    type Names = Items;
    type Elements = Items;
    const EVENT: &'static str = "an event that is a JSON object";
    /// JavaScript and most parsers do the same.
    const MAP: &'static str = "a JSON object";
    const LAST_COUNTS: bool = true;

    fn names(&mut self) -> Read<Option<Items>> {
        self.open(b'{')
    }

    #[inline(always)]
    fn name<T>(&mut self, names: &mut Items, take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        if !self.another(names, b'}')? {
            return Ok(None);
        }
        self.quote()?;
        let taken = self.text(take)?;
        self.colon()?;
        Ok(Some(taken))
    }

    #[inline]
    fn undefined(&mut self) -> Read<bool> {
        Ok(self.word(b"null"))
    }

    #[inline]
    fn boolean(&mut self) -> Read<Option<bool>> {
        Ok(if self.word(b"true") { Some(true) } else { self.word(b"false").then_some(false) })
    }

    #[inline]
    fn integer(&mut self) -> Read<Option<i64>> {
        let (at, byte) = token(self.text, self.at);
        self.at = at;
        let negative = byte == b'-';
        match few_leading_digits(self.text, at + usize::from(negative)) {
            Some((integer, end)) if !matches!(self.text.get(end), Some(b'.' | b'e' | b'E')) => {
                self.at = end;
                Ok(Some(if negative { -integer } else { integer }))
            }
            _ if negative || byte.is_ascii_digit() => self.long_integer(),
            _ => Ok(None),
        }
    }

    #[inline]
    fn float(&mut self) -> Read<Option<f64>> {
        match self.peek() {
            b'-' | b'0'..=b'9' => {}
            _ => return Ok(None),
        }
        match few_decimals(self.text, self.at) {
            Some((float, end)) => {
                self.at = end;
                Ok(Some(float))
            }
            None => self.long_float(),
        }
    }

    #[inline(always)]
    fn string<T>(&mut self, take: impl FnOnce(Str) -> T) -> Read<Option<T>> {
        match self.peek() {
            b'"' => self.text(take).map(Some),
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Read<Option<Items>> {
        self.open(b'[')
    }

    fn tuple(&mut self) -> Read<Option<Items>> {
        self.list()
    }

    #[inline]
    fn next(&mut self, elements: &mut Items) -> Read<bool> {
        self.another(elements, b']')
    }

    fn skip(&mut self) -> Read<()> {
        self.scratch.clear();
        loop {
            if self.skip_head()? {
                continue;
            }
            // A value has ended here, and perhaps its parents too.
            loop {
                let Some(&end) = self.scratch.last() else { return Ok(()) };
                if self.another(&mut Items { any_read: true }, end)? {
                    self.skip_name(end)?;
                    break;
                }
                self.scratch.pop();
            }
        }
    }

    fn finish(&mut self) -> Read<()> {
        let rest = &self.text[self.at..];
        match rest.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            None => Ok(()),
            Some(more) => Err(self.syntax(self.at + more, "something follows the event; give one JSON object alone")),
        }
    }

    fn place(&self) -> usize {
        self.at
    }

    fn back_to(&mut self, place: usize) {
        self.at = place;
    }

    fn kind_of_next(&mut self) -> Read<String> {
        let first = self.peek();
        let start = self.at;
        self.skip()?;
        let number = &self.text[start..self.at];
        self.at = start;
        let kind = match first {
            b'"' => "a string",
            b'[' => "a list",
            b'{' => "an object",
            b't' | b'f' => "a boolean",
            b'n' => "null",
            _ if number.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) => "a float",
            _ => "an integer",
        };
        Ok(kind.to_string())
    }

    fn locate(&self, error: Error) -> Error {
        Error { column: Some(self.at + 1), ..error }
    }
}

/// Returns an error of a cursor over `text` with its column in characters.
#[cold]
#[inline(never)]
pub(in crate::event) fn in_characters(error: Box<Error>, text: &[u8]) -> Box<Error> {
    match error.column {
        Some(column) => error.at(text, column - 1).into(),
        None => error,
    }
}

/// Returns the position of the next byte of `text` from `at` on that is not white space, and the byte, or 0 at the end.
#[inline]
fn token(text: &[u8], at: usize) -> (usize, u8) {
    // Most programs write one space after a comma or a colon, or none. Both cases pass without a branch.
    let at = at + usize::from(text.get(at) == Some(&b' '));
    match text.get(at) {
        Some(&byte) if byte > b' ' => (at, byte),
        _ => token_behind_space(text, at),
    }
}

#[inline(never)]
fn token_behind_space(text: &[u8], mut at: usize) -> (usize, u8) {
    while let Some(b' ' | b'\t' | b'\n' | b'\r') = text.get(at) {
        at += 1;
    }
    (at, text.get(at).copied().unwrap_or(0))
}

/// Returns eight bytes of `text` from `at` on, the first in the lowest byte, and zeros beyond the end.
#[inline]
fn word_at(text: &[u8], at: usize) -> u64 {
    match text.get(at..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_le_bytes(*word),
        None => last_word_at(text, at),
    }
}

#[inline(never)]
fn last_word_at(text: &[u8], at: usize) -> u64 {
    text.iter().skip(at).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A run of plain characters in a string.
struct Run {
    /// The position of a quote, a backslash or a control character, or the end of the text.
    end: usize,
    words: Words,
    is_ascii: bool,
}

/// Returns the run of plain characters from `start` on, and hashes it.
#[inline]
fn plain(text: &[u8], start: usize) -> Run {
    let mut at = start;
    let mut seen = 0;
    let mut words = Words::default();
    loop {
        let word = word_at(text, at);
        // Bytes beyond the end of the text are zeros, which are control characters.
        if let Some(before) = marked(stops(word)) {
            let kept = word & !(u64::MAX << (8 * before));
            words = if before == 0 { words } else { words.add(kept) };
            return Run { end: at + before, words, is_ascii: (seen | kept) & HIGH_BITS == 0 };
        }
        words = words.add(word);
        seen |= word;
        at += 8;
    }
}

/// Returns the end of the run of plain characters from `start` on, as [`plain`] does, and whether they are ASCII. A long run takes
/// four words at a time.
#[inline]
fn plain_end(text: &[u8], start: usize) -> (usize, bool) {
    let mut at = start;
    let mut seen = 0;
    while let Some(part) = text.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        let words = [0, 8, 16, 24].map(|word| word_at(part, word));
        if words.iter().fold(0, |marks, word| marks | stops(*word)) & HIGH_BITS != 0 {
            break;
        }
        seen = words.iter().fold(seen, |seen, word| seen | word);
        at += 32;
    }
    loop {
        let word = word_at(text, at);
        if let Some(before) = marked(stops(word)) {
            let kept = word & !(u64::MAX << (8 * before));
            return (at + before, (seen | kept) & HIGH_BITS == 0);
        }
        seen |= word;
        at += 8;
    }
}

/// Reads one to seven digits from `at` on. Returns their number and their end, or `None` for any other count.
#[inline]
fn few_digits(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let digits = word_at(text, at) ^ (ONES * u64::from(b'0'));
    // A byte above 9 has its high bit set here. A carry from it may set the bit of a later byte, which does not matter.
    let others = (digits.wrapping_add(ONES * 0x76) | digits) & HIGH_BITS;
    let count = others.trailing_zeros() / 8;
    if !(1..8).contains(&count) {
        return None;
    }
    Some((number(digits << (64 - 8 * count)), at + count as usize))
}

/// Like [`few_digits`], but refuses leading zeros.
#[inline]
fn few_leading_digits(text: &[u8], at: usize) -> Option<(i64, usize)> {
    let (number, end) = few_digits(text, at)?;
    (text[at] != b'0' || end == at + 1).then_some((number, end))
}

/// Returns the number of eight digits, a byte each, the first in the lowest byte.
#[inline]
fn number(digits: u64) -> i64 {
    let pairs = (digits * 10 + (digits >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    ((fours * 10_000 + (fours >> 32)) & 0xffff_ffff) as i64
}

/// Reads a float of up to seven digits, or of up to seven digits, a point and up to seven more. Returns it with its end. All
/// digits together are exact as a float, and so is the power of ten, so their quotient is the nearest float.
#[inline]
fn few_decimals(text: &[u8], at: usize) -> Option<(f64, usize)> {
    const POWERS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];
    let negative = text.get(at) == Some(&b'-');
    let (whole, mut end) = few_leading_digits(text, at + usize::from(negative))?;
    let mut float = whole as f64;
    if text.get(end) == Some(&b'.') {
        let (digits, after) = few_digits(text, end + 1)?;
        let power = POWERS[after - end - 1];
        float = (float * power + digits as f64) / power;
        end = after;
    }
    match text.get(end) {
        Some(b'e' | b'E') => None,
        _ => Some((if negative { -float } else { float }, end)),
    }
}

/// Marks the bytes of `chunk` that end a run of plain characters: quotes, backslashes and control characters. As with
/// [`zeros`], only the first mark is reliable.
#[inline]
fn stops(chunk: u64) -> u64 {
    let quote = chunk ^ (ONES * b'"' as u64);
    let backslash = chunk ^ (ONES * b'\\' as u64);
    let control = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    zeros(quote) | zeros(backslash) | control
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::hash::hash_bytes;

    /// Skips `text`, which must be one value. Returns the column of an error.
    fn skip(text: &[u8]) -> Result<(), Option<usize>> {
        let mut json = Json::new(text);
        let whole = json.skip().and_then(|()| json.finish());
        whole.map_err(|error| {
            assert_eq!(error.kind, Kind::Syntax, "{error}");
            in_characters(error, text).column
        })
    }

    fn string(text: &str) -> Result<Vec<u8>, Option<usize>> {
        let mut json = Json::new(text.as_bytes());
        let read = json.string(|string| {
            assert_eq!(string.hash, hash_bytes(string.bytes));
            assert!(string.end.is_none_or(|end| text.as_bytes()[..end].ends_with(string.bytes)));
            string.bytes.to_vec()
        });
        let read = read.map(Option::unwrap).map_err(|error| in_characters(error, text.as_bytes()).column);
        // A text can be skipped if and only if it can be read.
        assert_eq!(skip(text.as_bytes()), read.as_ref().map(|_| ()).map_err(|column| *column));
        read
    }

    #[test]
    fn values_of_the_grammar_are_taken() {
        for text in [
            " \t\r\n{ } ",
            "[]",
            "[ [ ] , { } ]",
            r#"{"a":1,"a":[true,false,null,{"b":"c"}],"":{"":[]}}"#,
            "-0",
            "0.5e-7",
            "1E+400",
            "123456789012345678901234567890",
            r#""\"\\\/\b\f\n\r\t\u00e9\uD83D\uDE00""#,
            "\"\u{7f}é€😀\"",
        ] {
            assert_eq!(skip(text.as_bytes()), Ok(()), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused_where_it_goes_wrong() {
        for (text, column) in [
            ("", 1),
            ("  ", 3),
            ("{", 2),
            ("[1", 3),
            ("[1,]", 4),
            ("[,1]", 2),
            ("[1 2]", 4),
            ("[1}", 3),
            ("{]", 2),
            ("{\"a\"}", 5),
            ("{\"a\" 1}", 6),
            ("{\"a\":}", 6),
            ("{\"a\":1,}", 8),
            ("{a:1}", 2),
            ("{'a':1}", 2),
            ("[1] 2", 5),
            ("\u{feff}1", 1),
            ("01", 1),
            ("-01", 2),
            ("-", 2),
            ("+1", 1),
            (".5", 1),
            ("1.", 3),
            ("1.e1", 3),
            ("1e", 3),
            ("1e+", 4),
            ("0x1", 2),
            ("NaN", 1),
            ("-Infinity", 2),
            ("True", 1),
            ("nul", 1),
            ("truefalse", 5),
            ("\"é", 3),
            ("\"é\n\"", 3),
            ("\"12345678\u{1}\"", 10),
            ("\"\\x\"", 2),
            ("\"\\", 2),
            ("\"\\u12\"", 2),
            ("\"\\u+123\"", 2),
            ("\"é\\ud83d\"", 3),
            ("\"\\ud83dx\"", 2),
            ("\"\\ud83d\\u0041\"", 2),
            ("\"\\ude00\"", 2),
            ("// no\n1", 1),
        ] {
            assert_eq!(skip(text.as_bytes()), Err(Some(column)), "{text}");
        }
    }

    #[test]
    fn strings_are_utf_8() {
        for (bytes, column) in [
            (&b"\"ab\xff\""[..], 4),
            (b"\"\xc3\xa9\xc3\"", 3),
            // An overlong slash, a surrogate, and a code point that is too large.
            (b"\"\xc0\xaf\"", 2),
            (b"\"\xed\xa0\x80\"", 2),
            (b"\"\xf4\x90\x80\x80\"", 2),
            (b"\"0123456789\xff\"", 12),
        ] {
            assert_eq!(skip(bytes), Err(Some(column)), "{bytes:?}");
        }
    }

    #[test]
    fn escapes_become_the_characters_they_stand_for() {
        assert_eq!(string(r#""""#), Ok(b"".into()));
        assert_eq!(string(r#""plain and long enough""#), Ok(b"plain and long enough".into()));
        assert_eq!(string(r#""\"\\\/\b\f\n\r\t""#), Ok(b"\"\\/\x08\x0c\n\r\t".into()));
        assert_eq!(string(r#""a\u00e9b\u20ACc\uD83D\uDE00d""#), Ok("aéb€c😀d".into()));
        assert_eq!(string(r#""\u0000""#), Ok(b"\0".into()));
        assert_eq!(string(r#""\ud83d\n""#), Err(Some(2)));
    }

    #[test]
    fn every_position_of_a_stop_in_a_string_is_seen() {
        for length in 0..40 {
            let plain = "é".repeat(length / 2) + &"x".repeat(length % 2) + &"~".repeat(length);
            assert_eq!(string(&format!("\"{plain}\"")), Ok(plain.clone().into()));
            assert_eq!(string(&format!("\"{plain}\\n{plain}\"")), Ok(format!("{plain}\n{plain}").into()));
            let column = Some(plain.chars().count() + 2);
            assert_eq!(string(&format!("\"{plain}")), Err(column));
            assert_eq!(string(&format!("\"{plain}\u{1f}{plain}\"")), Err(column));
        }
    }

    #[test]
    fn numbers_are_those_that_the_standard_library_reads() {
        let wholes = ["0", "1", "7", "10", "99", "100", "1234567", "9999999", "12345678", "123456789012345678"];
        let wholes = wholes.into_iter().chain(["9223372036854775807", "9223372036854775808", "007", "00", ""]);
        let fractions =
            ["", ".", ".0", ".5", ".940", ".001", ".0000001", ".9999999", ".12345678", ".1e", ".3e5", "e-3"];
        for whole in wholes {
            for (sign, fraction) in ["", "-"].into_iter().flat_map(|sign| fractions.map(|fraction| (sign, fraction))) {
                let number = format!("{sign}{whole}{fraction}");
                let is_number = skip(number.as_bytes()).is_ok();
                for behind in ["", ",", "}", "]", ", 12345678", "/", ":"] {
                    let text = format!("{number}{behind}");
                    let mut json = Json::new(text.as_bytes());
                    let expected = number.parse::<i64>().ok().filter(|_| is_number);
                    assert_eq!(json.integer().ok().flatten(), expected, "{text}");
                    assert_eq!(json.at, if expected.is_some() { number.len() } else { 0 }, "{text}");
                    let mut json = Json::new(text.as_bytes());
                    let read = json.float().ok().flatten();
                    let expected = number.parse::<f64>().ok().filter(|_| is_number);
                    assert_eq!(read.map(f64::to_bits), expected.map(f64::to_bits), "{text}");
                    assert_eq!(json.at, if expected.is_some() { number.len() } else { 0 }, "{text}");
                }
            }
        }
    }

    #[test]
    fn every_few_decimals_are_the_nearest_float() {
        let mut state = 1_u64;
        for _ in 0..200_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (whole, digits, places) = (state >> 40, state >> 20 & 0xf_ffff, (state >> 8) as usize % 7 + 1);
            let whole = whole % 10_u64.pow((state as u32 >> 4) % 8);
            let text = format!("{whole}.{:0places$}", digits % 10_u64.pow(places as u32));
            let expected = text.parse::<f64>().unwrap();
            assert_eq!(few_decimals(text.as_bytes(), 0), Some((expected, text.len())), "{text}");
        }
    }

    #[test]
    fn a_million_nested_values_are_passed_over() {
        let depth = 500_000;
        let open = r#"[{"a":"#.repeat(depth);
        let nested = format!("{open}0{}", "}]".repeat(depth));
        assert_eq!(skip(nested.as_bytes()), Ok(()));
        assert_eq!(skip(open.as_bytes()), Err(Some(open.len() + 1)));
        assert_eq!(skip(&nested.as_bytes()[..nested.len() - 1]), Err(Some(nested.len())));
    }
}
