//! Splits the text of an expression into tokens.

use crate::error::{is_marked, quoted, Error, Kind, MARKED};
use crate::model::arithmetic::Operator;
use crate::model::path;
use crate::model::predicate::{Borrowed, Relation};
use crate::support::bytes::{marked, zeros, ONES};
use crate::support::hash::out_of_memory;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    /// The name of an attribute in `lower(name)`. The parser makes this token.
    Lowered,
    Integer,
    Float,
    String {
        has_escapes: bool,
    },
    Boolean(bool),
    Relation(Relation),
    Operator(Operator),
    And,
    Or,
    Not,
    In,
    Open,
    Close,
    Comma,
    End,
}

/// A token: its kind, and its start and end in the text, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub kind: TokenKind,
    pub start: usize,
    pub end: usize,
}

impl Token {
    /// Returns the text of the token.
    pub fn of(self, text: &str) -> &str {
        &text[self.start..self.end]
    }

    /// Returns a description of the token for messages.
    pub fn describe(self, text: &str) -> String {
        let quoted = quote(self.of(text));
        match self.kind {
            TokenKind::End => "the end of the text".into(),
            TokenKind::Integer => format!("the integer {quoted}"),
            TokenKind::Float => format!("the float {quoted}"),
            TokenKind::String { .. } => format!("the string {quoted}"),
            TokenKind::Operator(Operator::Subtract) => {
                format!("{quoted}; it stands between numbers, or right before the digits")
            }
            TokenKind::Operator(Operator::Add) => format!("{quoted}; numbers are written without `+`"),
            TokenKind::Name => match lower_case_keyword(self.of(text)) {
                Some(keyword) => format!("{quoted}; keywords are lower case: write `{keyword}`"),
                None => quoted,
            },
            _ => quoted,
        }
    }
}

/// Returns the text in backticks unless it has some already, shortened if it is too long for a message.
pub(super) fn quote(text: &str) -> String {
    const MAX_QUOTED_CHARACTERS: usize = 40;
    match text.char_indices().nth(MAX_QUOTED_CHARACTERS) {
        Some((cut, _)) => quoted(&format!("{}…", &text[..cut])).into(),
        None => quoted(text).into(),
    }
}

/// Returns the keyword that differs from `word` only in case.
pub(super) fn lower_case_keyword(word: &str) -> Option<&'static str> {
    const KEYWORDS: [&str; 17] = [
        "and", "or", "not", "in", "true", "false", "one", "none", "all", "of", "is", "null", "empty", "like",
        "between", "matches", "any",
    ];
    KEYWORDS.into_iter().find(|keyword| word != *keyword && word.eq_ignore_ascii_case(keyword))
}

/// The tokens of a text, one at a time, and [`TokenKind::End`] after the last one.
#[derive(Clone)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    position: usize,
}

impl<'t> Lexer<'t> {
    pub fn new(text: &'t str) -> Self {
        Lexer { text, position: 0 }
    }

    /// Skips a comma, if one is next, without making a token of it: most tokens are in lists.
    #[inline(always)]
    pub fn skip_comma(&mut self) -> bool {
        let start = self.behind_blanks();
        let is_next = self.text.as_bytes().get(start) == Some(&b',');
        self.position = start + usize::from(is_next);
        is_next
    }

    /// Returns whether an opening parenthesis is next.
    pub fn is_at_open(&self) -> bool {
        self.text.as_bytes().get(self.behind_blanks()) == Some(&b'(')
    }

    /// Returns the start of the next token, or the end of the text.
    #[inline(always)]
    fn behind_blanks(&self) -> usize {
        let bytes = self.text.as_bytes();
        let mut start = self.position;
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = bytes.get(start) {
            start += 1;
        }
        start
    }

    /// Returns the next token.
    #[inline(always)]
    pub fn next(&mut self) -> Result<Token, Error> {
        let start = self.behind_blanks();
        let rest = &self.text.as_bytes()[start..];
        let (kind, length) = match rest {
            [] => (TokenKind::End, 0),
            [b'(', ..] => (TokenKind::Open, 1),
            [b')', ..] => (TokenKind::Close, 1),
            [b',', ..] => (TokenKind::Comma, 1),
            [b'&', b'&', ..] => (TokenKind::And, 2),
            [b'|', b'|', ..] => (TokenKind::Or, 2),
            [b'=', b'=', ..] => return Err(self.fault(start, "`==` is no operator; write `=`")),
            [b'!', b'=', ..] => return Err(self.fault(start, "`!=` is no operator; write `<>`")),
            [b'<', b'=', ..] => (TokenKind::Relation(Relation::LessOrEqual), 2),
            [b'>', b'=', ..] => (TokenKind::Relation(Relation::GreaterOrEqual), 2),
            [b'<', b'>', ..] => (TokenKind::Relation(Relation::NotEqual), 2),
            [b'<', ..] => (TokenKind::Relation(Relation::Less), 1),
            [b'>', ..] => (TokenKind::Relation(Relation::Greater), 1),
            [b'=', ..] => (TokenKind::Relation(Relation::Equal), 1),
            [b'"' | b'\'', ..] => self.string(start)?,
            [b'0'..=b'9', ..] | [b'-', b'0'..=b'9', ..] => self.number(start)?,
            [b'+', ..] => (TokenKind::Operator(Operator::Add), 1),
            [b'-', ..] => (TokenKind::Operator(Operator::Subtract), 1),
            [b'*', ..] => (TokenKind::Operator(Operator::Multiply), 1),
            [b'/', ..] => (TokenKind::Operator(Operator::Divide), 1),
            [b'a'..=b'z' | b'A'..=b'Z' | b'_', ..] => match word(rest) {
                (_, length) if rest.get(length) == Some(&b'.') => self.path(start)?,
                word => word,
            },
            [b'`', ..] => self.path(start)?,
            _ => return Err(self.stray(start)),
        };
        self.position = start + length;
        Ok(Token { kind, start, end: self.position })
    }

    /// Returns the kind and the length of the string whose opening quote is at `start`.
    fn string(&self, start: usize) -> Result<(TokenKind, usize), Error> {
        let bytes = self.text.as_bytes();
        let quote = bytes[start];
        let mut has_escapes = false;
        let mut at = start + 1;
        loop {
            at += plain(bytes.get(at..).unwrap_or_default(), quote);
            match bytes.get(at) {
                None => return Err(self.fault(start, "the string that starts here never ends; close its quote")),
                Some(b'\\') if bytes.get(at + 1).is_some_and(|&b| escaped(b).is_none()) => return Err(self.fault(
                    at,
                    r#"a `\` in a string comes before `\`, `'`, `"`, `n`, `r` or `t`; write `\\` for the `\` itself"#,
                )),
                Some(b'\\') => {
                    has_escapes = true;
                    at += 2;
                }
                Some(_) => return Ok((TokenKind::String { has_escapes }, at + 1 - start)),
            }
        }
    }

    /// Returns the kind and the length of the number at `start`.
    fn number(&self, start: usize) -> Result<(TokenKind, usize), Error> {
        let rest = &self.text.as_bytes()[start..];
        let mut kind = TokenKind::Integer;
        let mut length = behind_digits(rest, usize::from(rest[0] == b'-'));
        if rest.get(length) == Some(&b'.') {
            kind = TokenKind::Float;
            length = behind_digits(rest, length + 1);
        }
        if let Some(b'e' | b'E') = rest.get(length) {
            let sign = usize::from(matches!(rest.get(length + 1), Some(b'+' | b'-')));
            let exponent = length + 1 + sign;
            let end = behind_digits(rest, exponent);
            if end > exponent {
                kind = TokenKind::Float;
                length = end;
            }
        }
        match rest.get(length) {
            Some(&byte) if is_glued(byte) => Err(self.glued(start, length)),
            _ => Ok((kind, length)),
        }
    }

    /// Returns the error for text directly after a number of `length` bytes at `start`.
    #[cold]
    fn glued(&self, start: usize, length: usize) -> Error {
        let end = start + length + count(&self.text.as_bytes()[start + length..], is_glued);
        let all = quote(&self.text[start..end]);
        self.fault(start, format!("{all} is neither a number nor a name; put a space after the number"))
    }

    /// Returns the kind and the length of the path that begins at `start`.
    #[cold]
    fn path(&self, start: usize) -> Result<(TokenKind, usize), Error> {
        match path::length(&self.text[start..]) {
            Ok(length) => Ok((TokenKind::Name, length)),
            Err(fault) => Err(self.fault(start + fault.offset, fault.message)),
        }
    }

    /// Returns the error for a character that starts no token.
    fn stray(&self, start: usize) -> Error {
        if is_marked(&self.text.as_bytes()[start..]) {
            return self.fault(start, MARKED);
        }
        let character = self.text[start..].chars().next().map_or(String::new(), |c| format!("`{}`", c.escape_debug()));
        let mend = match self.text.as_bytes()[start] {
            b'[' | b']' | b'{' | b'}' => "; lists are in parentheses: `(1, 2)`",
            b'!' => "; write `not`",
            b'&' => "; write `and` or `&&`",
            b'|' => "; write `or` or `||`",
            b'.' => "; a number has a digit before the point, as in `0.5`, and a path has no blanks, as in `user.city`",
            _ => "; only strings may have it",
        };
        self.fault(start, format!("{character} starts nothing here{mend}"))
    }

    fn fault(&self, offset: usize, message: impl Into<String>) -> Error {
        Error::new(Kind::Syntax, message).at(self.text.as_bytes(), offset)
    }
}

/// Returns the string of `token`, without quotes and with its escapes resolved.
#[inline(always)]
pub(super) fn unquote(token: Token, text: &str) -> Result<Borrowed<'_>, Error> {
    let inner = &text.as_bytes()[token.start + 1..token.end - 1];
    if token.kind == (TokenKind::String { has_escapes: false }) {
        return Ok(Borrowed::Borrowed(inner));
    }
    resolve(inner).map(Borrowed::Owned)
}

/// Returns the bytes of `inner` with its escapes resolved.
fn resolve(inner: &[u8]) -> Result<Vec<u8>, Error> {
    let mut resolved = Vec::new();
    resolved.try_reserve_exact(inner.len()).map_err(out_of_memory)?;
    let mut parts = inner.split(|&b| b == b'\\');
    resolved.extend_from_slice(parts.next().unwrap_or_default());
    while let Some(part) = parts.next() {
        match part {
            [first, others @ ..] => {
                resolved.extend(escaped(*first));
                resolved.extend_from_slice(others);
            }
            // Two backslashes in a row: plain text follows the second one.
            [] => {
                resolved.push(b'\\');
                resolved.extend_from_slice(parts.next().unwrap_or_default());
            }
        }
    }
    Ok(resolved)
}

/// Returns the byte that a backslash and `byte` stand for.
fn escaped(byte: u8) -> Option<u8> {
    match byte {
        b'\\' | b'\'' | b'"' => Some(byte),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        _ => None,
    }
}

/// Returns the reserved word or name that starts `rest`, and its length.
#[inline(always)]
fn word(rest: &[u8]) -> (TokenKind, usize) {
    let length = count(rest, in_name);
    let kind = match &rest[..length] {
        b"and" => TokenKind::And,
        b"or" => TokenKind::Or,
        b"not" => TokenKind::Not,
        b"in" => TokenKind::In,
        b"true" => TokenKind::Boolean(true),
        b"false" => TokenKind::Boolean(false),
        _ => TokenKind::Name,
    };
    (kind, length)
}

fn in_name(byte: u8) -> bool {
    IN_NAME[usize::from(byte)]
}

/// The bytes allowed after the first byte of a name.
static IN_NAME: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        let character = byte as u8;
        table[byte] = character.is_ascii_alphanumeric() || character == b'_' || character == b'-';
        byte += 1;
    }
    table
};

/// Returns whether `byte` must not follow a number directly.
fn is_glued(byte: u8) -> bool {
    in_name(byte) || byte == b'.'
}

/// Returns the position after the digits of `bytes` that begin at `at`.
#[inline(always)]
fn behind_digits(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b'0'..=b'9') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Returns the number of bytes at the start of `bytes` that are neither `quote` nor a backslash.
fn plain(bytes: &[u8], quote: u8) -> usize {
    let (words, rest) = bytes.as_chunks();
    for (position, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let ends = zeros(word ^ (ONES * u64::from(quote))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if let Some(byte) = marked(ends) {
            return position * size_of::<u64>() + byte;
        }
    }
    size_of_val(words) + count(rest, |byte| byte != quote && byte != b'\\')
}

/// Returns the number of bytes at the start of `bytes` that are `wanted`.
fn count(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&b| !wanted(b)).unwrap_or(bytes.len())
}
