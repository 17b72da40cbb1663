//! Events as JSON, read strictly by RFC 8259.

use std::borrow::Cow;
use std::str;

use super::source::Source;
use crate::error::{Error, Kind};
use crate::hash::out_of_memory;

/// How much of a value an error message shows, in characters.
const SHOWN: usize = 40;

const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// A cursor over a JSON text. Nothing here calls itself, so no nesting is too deep.
pub(super) struct Json<'a> {
    text: &'a [u8],
    at: usize,
    /// Holds the last string that had escapes, or the brackets around a value that is passed over.
    scratch: Vec<u8>,
}

/// The elements of an array, or the names of an object, that are still to be read.
pub(super) struct Items {
    any_read: bool,
}

impl<'a> Json<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Json { text, at: 0, scratch: Vec::new() }
    }

    /// Goes to the next byte that is not white space.
    #[inline]
    fn peek(&mut self) -> Result<u8, Error> {
        while let Some(&byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(self.syntax(self.at, "the JSON ends too early; give all of it"))
    }

    /// Reads a bracket, comma or colon if it comes next.
    #[inline]
    fn punctuation(&mut self, byte: u8) -> Result<bool, Error> {
        let found = self.peek()? == byte;
        self.at += usize::from(found);
        Ok(found)
    }

    /// Reads what stands between the items of an array or an object; answers whether another item comes.
    #[inline]
    fn another(&mut self, items: &mut Items, end: u8) -> Result<bool, Error> {
        if self.punctuation(end)? {
            return Ok(false);
        }
        if items.any_read && !self.punctuation(b',')? {
            let message = format!("expected `,` or `{}` after a value", char::from(end));
            return Err(self.syntax(self.at, message));
        }
        items.any_read = true;
        Ok(true)
    }

    /// Reads a word such as `true` if it comes next.
    #[inline]
    fn word(&mut self, word: &[u8]) -> Result<bool, Error> {
        self.peek()?;
        let found = self.text[self.at..].starts_with(word);
        if found {
            self.at += word.len();
        }
        Ok(found)
    }

    /// Where the number ends that starts here, and whether digits and a sign are all it has.
    fn number(&self) -> Result<(usize, bool), Error> {
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

    /// Where the digits end that start at `at`; there must be one.
    #[inline]
    fn digits(&self, at: usize) -> Result<usize, Error> {
        let count = self.text[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.syntax(at, "expected a digit in a number"));
        }
        Ok(at + count)
    }

    /// Reads the string that starts here: its bytes where they stand in the text; with escapes, into the scratch.
    #[inline]
    fn text(&mut self) -> Result<Option<&'a [u8]>, Error> {
        let start = self.at + 1;
        let end = self.plain(start)?;
        if self.text[end] == b'"' {
            self.at = end + 1;
            return Ok(Some(&self.text[start..end]));
        }
        self.escaped_text(start, end)?;
        Ok(None)
    }

    /// Reads the string that starts at `start`, whose first escape stands at `end`, into the scratch.
    fn escaped_text(&mut self, mut start: usize, mut end: usize) -> Result<(), Error> {
        self.scratch.clear();
        while self.text[end] != b'"' {
            let (character, next) = self.escape(end)?;
            let mut utf8 = [0; 4];
            let utf8 = character.encode_utf8(&mut utf8);
            self.scratch.try_reserve(end - start + utf8.len()).map_err(out_of_memory)?;
            self.scratch.extend_from_slice(&self.text[start..end]);
            self.scratch.extend_from_slice(utf8.as_bytes());
            start = next;
            end = self.plain(start)?;
        }
        self.scratch.try_reserve(end - start).map_err(out_of_memory)?;
        self.scratch.extend_from_slice(&self.text[start..end]);
        self.at = end + 1;
        Ok(())
    }

    /// Passes over the string that starts here.
    fn skip_text(&mut self) -> Result<(), Error> {
        let mut end = self.plain(self.at + 1)?;
        while self.text[end] != b'"' {
            let (_, next) = self.escape(end)?;
            end = self.plain(next)?;
        }
        self.at = end + 1;
        Ok(())
    }

    /// Passes over a value, of an array or an object only up to its first item; answers whether there is one.
    fn skip_head(&mut self) -> Result<bool, Error> {
        let end = match self.peek()? {
            b'{' => b'}',
            b'[' => b']',
            b'"' => return self.skip_text().map(|()| false),
            b'-' | b'0'..=b'9' => {
                (self.at, _) = self.number()?;
                return Ok(false);
            }
            _ if self.word(b"true")? || self.word(b"false")? || self.word(b"null")? => return Ok(false),
            _ => return Err(self.syntax(self.at, "expected a value")),
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

    /// Passes over the name before an item of what `end` closes, if that is an object.
    fn skip_name(&mut self, end: u8) -> Result<(), Error> {
        if end == b'}' {
            self.quote()?;
            self.skip_text()?;
            self.colon()?;
        }
        Ok(())
    }

    /// Goes to the quote that must come next.
    #[inline]
    fn quote(&mut self) -> Result<(), Error> {
        match self.peek()? {
            b'"' => Ok(()),
            _ => Err(self.syntax(self.at, "expected a name in double quotes")),
        }
    }

    /// Reads the colon that must come next.
    #[inline]
    fn colon(&mut self) -> Result<(), Error> {
        match self.punctuation(b':')? {
            true => Ok(()),
            false => Err(self.syntax(self.at, "expected `:` after a name")),
        }
    }

    /// The number that starts here and ends at `end`.
    #[inline]
    fn number_up_to(&self, end: usize) -> &'a str {
        str::from_utf8(&self.text[self.at..end]).expect("a number is ASCII")
    }

    /// Where the quote or the backslash stands that ends the plain characters of a string from `start` on.
    #[inline]
    fn plain(&self, start: usize) -> Result<usize, Error> {
        let mut at = start;
        let mut seen = 0;
        while let Some(&chunk) = self.text[at..].first_chunk() {
            let chunk = u64::from_le_bytes(chunk);
            let stops = stops(chunk);
            if stops != 0 {
                let before = stops.trailing_zeros() / 8;
                seen |= chunk & !(u64::MAX << (8 * before));
                at += before as usize;
                break;
            }
            seen |= chunk;
            at += 8;
        }
        loop {
            match self.text.get(at) {
                Some(b'"' | b'\\') => break,
                Some(..0x20) => {
                    let message = "a control character in a string; write it as an escape such as `\\n`";
                    return Err(self.syntax(at, message));
                }
                Some(&byte) => seen |= u64::from(byte),
                None => return Err(self.syntax(at, "the JSON ends within a string; give all of it")),
            }
            at += 1;
        }
        if seen & HIGH_BITS != 0 {
            if let Err(error) = str::from_utf8(&self.text[start..at]) {
                return Err(self.syntax(start + error.valid_up_to(), "a string is not UTF-8; encode it so"));
            }
        }
        Ok(at)
    }

    /// The character that the escape at `at` stands for, and where the escape ends.
    fn escape(&self, at: usize) -> Result<(char, usize), Error> {
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

    /// [`Json::escape`] for `\uXXXX`, of which it takes two to make a character beyond the first 65,536.
    fn unicode_escape(&self, at: usize) -> Result<(char, usize), Error> {
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
    fn syntax(&self, at: usize, message: impl Into<String>) -> Error {
        Error::new(Kind::Syntax, message).at(self.text, at)
    }
}

impl Source for Json<'_> {
    type Names = Items;
    type Elements = Items;
    const EVENT: &'static str = "an event that is a JSON object";
    /// As in JavaScript and in most parsers.
    const LAST_COUNTS: bool = true;

    fn names(&mut self) -> Result<Option<Items>, Error> {
        Ok(self.punctuation(b'{')?.then_some(Items { any_read: false }))
    }

    #[inline]
    fn name(&mut self, names: &mut Items) -> Result<Option<Cow<'_, [u8]>>, Error> {
        if !self.another(names, b'}')? {
            return Ok(None);
        }
        self.quote()?;
        let name = self.text()?;
        self.colon()?;
        Ok(Some(Cow::Borrowed(name.unwrap_or(&self.scratch))))
    }

    #[inline]
    fn undefined(&mut self) -> Result<bool, Error> {
        self.word(b"null")
    }

    #[inline]
    fn boolean(&mut self) -> Result<Option<bool>, Error> {
        if self.word(b"true")? {
            return Ok(Some(true));
        }
        Ok(self.word(b"false")?.then_some(false))
    }

    #[inline]
    fn integer(&mut self) -> Result<Option<i64>, Error> {
        if !matches!(self.peek()?, b'-' | b'0'..=b'9') {
            return Ok(None);
        }
        let (end, whole) = self.number()?;
        if !whole {
            return Ok(None);
        }
        let integer = match &self.text[self.at..end] {
            // So many digits cannot overflow.
            [b'-', digits @ ..] if digits.len() <= 18 => Some(-small_integer(digits)),
            digits if digits.len() <= 18 => Some(small_integer(digits)),
            _ => self.number_up_to(end).parse().ok(),
        };
        if integer.is_none() {
            let message = format!("{} does not fit signed 64 bits", self.given()?);
            return Err(self.locate(Error::new(Kind::OutOfBounds, message)));
        }
        self.at = end;
        Ok(integer)
    }

    #[inline]
    fn float(&mut self) -> Result<Option<f64>, Error> {
        if !matches!(self.peek()?, b'-' | b'0'..=b'9') {
            return Ok(None);
        }
        let (end, _) = self.number()?;
        match self.number_up_to(end).parse() {
            Ok(float) if f64::is_finite(float) => {
                self.at = end;
                Ok(Some(float))
            }
            _ => {
                let message = format!("{} does not fit a 64-bit float", self.given()?);
                Err(self.locate(Error::new(Kind::OutOfBounds, message)))
            }
        }
    }

    #[inline]
    fn string(&mut self) -> Result<Option<Cow<'_, [u8]>>, Error> {
        match self.peek()? {
            b'"' => {
                let text = self.text()?;
                Ok(Some(Cow::Borrowed(text.unwrap_or(&self.scratch))))
            }
            _ => Ok(None),
        }
    }

    #[inline]
    fn list(&mut self) -> Result<Option<Items>, Error> {
        Ok(self.punctuation(b'[')?.then_some(Items { any_read: false }))
    }

    fn tuple(&mut self) -> Result<Option<Items>, Error> {
        self.list()
    }

    #[inline]
    fn next(&mut self, elements: &mut Items) -> Result<bool, Error> {
        self.another(elements, b']')
    }

    fn skip(&mut self) -> Result<(), Error> {
        self.scratch.clear();
        loop {
            if self.skip_head()? {
                continue;
            }
            // A value has ended here, and with it perhaps the values around it.
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

    fn finish(&mut self) -> Result<(), Error> {
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

    fn given(&mut self) -> Result<String, Error> {
        self.peek()?;
        let start = self.at;
        self.skip()?;
        let given = &self.text[start..self.at];
        self.at = start;
        // Of the first characters none takes more than four bytes.
        let given = String::from_utf8_lossy(&given[..given.len().min(4 * SHOWN + 4)]);
        Ok(match given.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("`{}...`", &given[..end]),
            None => format!("`{given}`"),
        })
    }

    fn locate(&self, error: Error) -> Error {
        error.at(self.text, self.at)
    }
}

/// The number that at most 18 `digits` say.
#[inline]
fn small_integer(digits: &[u8]) -> i64 {
    digits.iter().fold(0, |integer, digit| 10 * integer + i64::from(digit - b'0'))
}

/// Marks, by their high bits, the bytes of `chunk` that end a run of plain characters: quotes, backslashes and
/// control characters. The lowest mark is right; a higher one may be wrong, for a borrow may have come from below.
#[inline]
fn stops(chunk: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let quote = chunk ^ (ONES * b'"' as u64);
    let backslash = chunk ^ (ONES * b'\\' as u64);
    let zero = |bytes: u64| bytes.wrapping_sub(ONES) & !bytes;
    let control = chunk.wrapping_sub(ONES * 0x20) & !chunk;
    (zero(quote) | zero(backslash) | control) & HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes over `text`, which must be one value; the column of the fault if it is not.
    fn skip(text: &[u8]) -> Result<(), Option<usize>> {
        let mut json = Json::new(text);
        let whole = json.skip().and_then(|()| json.finish());
        whole.map_err(|error| {
            assert_eq!(error.kind, Kind::Syntax, "{error}");
            error.column
        })
    }

    fn string(text: &str) -> Result<Vec<u8>, Option<usize>> {
        let read = Json::new(text.as_bytes()).string().map(|string| string.unwrap().into_owned());
        // What can be read can be passed over, and the other way round.
        assert_eq!(skip(text.as_bytes()), read.as_ref().map(|_| ()).map_err(|error| error.column));
        read.map_err(|error| error.column)
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
    fn a_million_nested_values_are_passed_over() {
        let depth = 500_000;
        let open = r#"[{"a":"#.repeat(depth);
        let nested = format!("{open}0{}", "}]".repeat(depth));
        assert_eq!(skip(nested.as_bytes()), Ok(()));
        assert_eq!(skip(open.as_bytes()), Err(Some(open.len() + 1)));
        assert_eq!(skip(&nested.as_bytes()[..nested.len() - 1]), Err(Some(nested.len())));
    }
}
