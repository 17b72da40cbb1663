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
    /// A place that starts no token. [`Lexer::error`] makes its error, so tokens stay small.
    Fault(Fault),
}

/// The reason why a place starts no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// `==`
    DoubleEqual,
    /// `!=`
    ExclamationEqual,
    /// A string lacks its closing quote.
    OpenString,
    /// A backslash in a string comes before an unexpected character. The token ends before the backslash.
    Escape,
    /// A letter or a point follows a number directly. The token ends before it.
    Glued,
    /// The path of a name breaks its grammar.
    Path,
    /// Any other character.
    Stray,
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

    /// Returns the bytes of the token. Unlike [`Token::of`], this checks no character boundaries.
    #[inline(always)]
    pub fn bytes(self, text: &str) -> &[u8] {
        &text.as_bytes()[self.start..self.end]
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

    /// Returns the next token. A [`TokenKind::Fault`] ends the reading.
    #[inline(always)]
    pub fn next(&mut self) -> Token {
        let bytes = self.text.as_bytes();
        let start = self.behind_blanks();
        let Some(&first) = bytes.get(start) else {
            self.position = start;
            return Token { kind: TokenKind::End, start, end: start };
        };
        let second = || bytes.get(start + 1).copied().unwrap_or_default();
        let one = |kind| (kind, start + 1);
        let two = |kind| (kind, start + 2);
        let (kind, end) = match first {
            b'(' => one(TokenKind::Open),
            b')' => one(TokenKind::Close),
            b',' => one(TokenKind::Comma),
            b'"' | b'\'' => string(bytes, start),
            b'0'..=b'9' => number(bytes, start + 1),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => match word(bytes, start) {
                (_, end) if bytes.get(end) == Some(&b'.') => self.path(start),
                word => word,
            },
            b'=' if second() == b'=' => one(TokenKind::Fault(Fault::DoubleEqual)),
            b'=' => one(TokenKind::Relation(Relation::Equal)),
            b'<' => match second() {
                b'=' => two(TokenKind::Relation(Relation::LessOrEqual)),
                b'>' => two(TokenKind::Relation(Relation::NotEqual)),
                _ => one(TokenKind::Relation(Relation::Less)),
            },
            b'>' if second() == b'=' => two(TokenKind::Relation(Relation::GreaterOrEqual)),
            b'>' => one(TokenKind::Relation(Relation::Greater)),
            b'-' if second().is_ascii_digit() => number(bytes, start + 2),
            b'-' => one(TokenKind::Operator(Operator::Subtract)),
            b'+' => one(TokenKind::Operator(Operator::Add)),
            b'*' => one(TokenKind::Operator(Operator::Multiply)),
            b'/' => one(TokenKind::Operator(Operator::Divide)),
            b'&' if second() == b'&' => two(TokenKind::And),
            b'|' if second() == b'|' => two(TokenKind::Or),
            b'!' if second() == b'=' => one(TokenKind::Fault(Fault::ExclamationEqual)),
            b'`' => self.path(start),
            _ => one(TokenKind::Fault(Fault::Stray)),
        };
        self.position = end;
        Token { kind, start, end }
    }

    /// Returns the kind and the end of the path that begins at `start`.
    #[cold]
    fn path(&self, start: usize) -> (TokenKind, usize) {
        match path::length(&self.text[start..]) {
            Ok(length) => (TokenKind::Name, start + length),
            Err(_) => (TokenKind::Fault(Fault::Path), start),
        }
    }

    /// Returns the error for `fault` at the token `at`.
    #[cold]
    pub fn error(&self, fault: Fault, at: Token) -> Error {
        let start = at.start;
        match fault {
            Fault::DoubleEqual => self.fault(start, "`==` is no operator; write `=`"),
            Fault::ExclamationEqual => self.fault(start, "`!=` is no operator; write `<>`"),
            Fault::OpenString => self.fault(start, "the string that starts here never ends; close its quote"),
            Fault::Escape => self.fault(
                at.end,
                r#"a `\` in a string comes before `\`, `'`, `"`, `n`, `r` or `t`; write `\\` for the `\` itself"#,
            ),
            Fault::Glued => {
                let end = at.end + count(&self.text.as_bytes()[at.end..], is_glued);
                let all = quote(&self.text[start..end]);
                self.fault(start, format!("{all} is neither a number nor a name; put a space after the number"))
            }
            Fault::Path => match path::length(&self.text[start..]) {
                Err(fault) => self.fault(start + fault.offset, fault.message),
                Ok(_) => unreachable!("the path broke its grammar before"),
            },
            Fault::Stray => self.stray(start),
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

/// Returns the kind and the end of the string whose opening quote is at `start`.
#[inline(always)]
fn string(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let quote = bytes[start];
    let mut has_escapes = false;
    let mut at = start + 1;
    loop {
        at = behind_plain(bytes, at, quote);
        match bytes.get(at) {
            Some(&byte) if byte == quote => return (TokenKind::String { has_escapes }, at + 1),
            None => return (TokenKind::Fault(Fault::OpenString), at),
            Some(_) => {
                if bytes.get(at + 1).is_some_and(|&b| escaped(b).is_none()) {
                    return (TokenKind::Fault(Fault::Escape), at);
                }
                has_escapes = true;
                at += 2;
            }
        }
    }
}

/// Returns the kind and the end of the number whose digits go on at `rest`.
#[inline(always)]
fn number(bytes: &[u8], rest: usize) -> (TokenKind, usize) {
    let end = behind_digits(bytes, rest);
    match bytes.get(end) {
        Some(&byte) if is_glued(byte) => fraction(bytes, end),
        _ => (TokenKind::Integer, end),
    }
}

/// Returns the kind and the end of the number whose leading digits end at `end`, where something follows directly.
fn fraction(bytes: &[u8], mut end: usize) -> (TokenKind, usize) {
    let mut kind = TokenKind::Integer;
    if bytes[end] == b'.' {
        kind = TokenKind::Float;
        end = behind_digits(bytes, end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = end + 1 + sign;
        let behind = behind_digits(bytes, exponent);
        if behind > exponent {
            kind = TokenKind::Float;
            end = behind;
        }
    }
    match bytes.get(end) {
        Some(&byte) if is_glued(byte) => (TokenKind::Fault(Fault::Glued), end),
        _ => (kind, end),
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

/// Returns the kind and the end of the reserved word or name that begins at `start`.
#[inline(always)]
fn word(bytes: &[u8], start: usize) -> (TokenKind, usize) {
    let mut end = start + 1;
    while bytes.get(end).is_some_and(|&byte| in_name(byte)) {
        end += 1;
    }
    let kind = match &bytes[start..end] {
        b"and" => TokenKind::And,
        b"or" => TokenKind::Or,
        b"not" => TokenKind::Not,
        b"in" => TokenKind::In,
        b"true" => TokenKind::Boolean(true),
        b"false" => TokenKind::Boolean(false),
        _ => TokenKind::Name,
    };
    (kind, end)
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

/// Returns the position of the first `quote` or backslash at `at` or after it, or the end of `bytes`.
#[inline(always)]
fn behind_plain(bytes: &[u8], mut at: usize, quote: u8) -> usize {
    while let Some(word) = bytes.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*word);
        let ends = zeros(word ^ (ONES * u64::from(quote))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if let Some(byte) = marked(ends) {
            return at + byte;
        }
        at += size_of::<u64>();
    }
    while bytes.get(at).is_some_and(|&byte| byte != quote && byte != b'\\') {
        at += 1;
    }
    at
}

/// Returns the number of bytes at the start of `bytes` that are `wanted`.
fn count(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> usize {
    bytes.iter().position(|&b| !wanted(b)).unwrap_or(bytes.len())
}
