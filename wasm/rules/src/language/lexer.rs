//! Splits the text of rules into tokens.

use crate::error::{is_marked, quoted, Error, Kind, MARKED};
use crate::language::{Constant, Offset};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Word(String),
    Constant(Constant),
    Symbol(&'static str),
    End,
}

/// The most bytes of the text of rules.
const MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 19] =
    ["..", "<=", ">=", "<>", "!=", "(", ")", ",", ":", ".", "=", "<", ">", "+", "-", "*", "/", ";", "|"];

pub(super) fn tokens(text: &str) -> Result<Vec<(Token, Offset)>, Error> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(Error::new(Kind::OutOfBounds, "the rules have more than 64 MiB; split them"));
    }
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b' ' | b'\t' | b'\r' | b'\n' => at += 1,
            b'#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                at += bytes[at..].iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
                tokens.push((Token::Word(text[start..at].to_owned()), start));
            }
            b'0'..=b'9' => {
                let (constant, end) = number(text, start)?;
                at = end;
                tokens.push((Token::Constant(constant), start));
            }
            quote @ (b'\'' | b'"') => {
                let (string, end) = string(text, start, quote)?;
                at = end;
                tokens.push((Token::Constant(Constant::String(string)), start));
            }
            b'=' if text[at..].starts_with("==") => {
                return Err(Error::new(Kind::Syntax, "`==` is no operator; write `=`").at(text, start));
            }
            b'!' if text[at..].starts_with("!=") => {
                return Err(Error::new(Kind::Syntax, "`!=` is no operator; write `<>`").at(text, start));
            }
            _ => match SYMBOLS.iter().find(|symbol| text[at..].starts_with(**symbol)) {
                Some(symbol) => {
                    at += symbol.len();
                    tokens.push((Token::Symbol(symbol), start));
                }
                None => {
                    let character = text[at..].chars().next().unwrap_or('?').to_string();
                    let message = match is_marked(&bytes[at..]) {
                        true => MARKED.into(),
                        false => {
                            format!("{} has no meaning here; quote it if it belongs to a string", quoted(&character))
                        }
                    };
                    return Err(Error::new(Kind::Syntax, message).at(text, start));
                }
            },
        }
    }
    tokens.push((Token::End, text.len()));
    Ok(tokens)
}

fn number(text: &str, start: Offset) -> Result<(Constant, Offset), Error> {
    let bytes = text.as_bytes();
    let digits = |from: usize| from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = digits(start);
    let mut is_float = false;
    // `1..5` is a range, not a float.
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1).is_some_and(u8::is_ascii_digit) {
        is_float = true;
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        if bytes.get(end + 1 + sign).is_some_and(u8::is_ascii_digit) {
            is_float = true;
            end = digits(end + 1 + sign);
        }
    }
    let beyond = || Error::new(Kind::OutOfBounds, "this number does not fit in 64 bits; write a smaller one");
    let constant = if is_float {
        let float: f64 = text[start..end].parse().map_err(|_| beyond().at(text, start))?;
        if !float.is_finite() {
            return Err(beyond().at(text, start));
        }
        Constant::Float(float)
    } else {
        Constant::Integer(text[start..end].parse().map_err(|_| beyond().at(text, start))?)
    };
    Ok((constant, end))
}

fn string(text: &str, start: Offset, quote: u8) -> Result<(String, Offset), Error> {
    let mut string = String::new();
    let mut characters = text[start + 1..].char_indices();
    while let Some((offset, character)) = characters.next() {
        if character == quote as char {
            return Ok((string, start + 1 + offset + 1));
        }
        if character != '\\' {
            string.push(character);
            continue;
        }
        match characters.next() {
            Some((_, 'n')) => string.push('\n'),
            Some((_, 'r')) => string.push('\r'),
            Some((_, 't')) => string.push('\t'),
            Some((_, escaped @ ('\\' | '\'' | '"'))) => string.push(escaped),
            _ => {
                let message = "after a backslash comes \\ ' \" n r or t; double the backslash for one in the string";
                return Err(Error::new(Kind::Syntax, message).at(text, start + 1 + offset));
            }
        }
    }
    Err(Error::new(Kind::Syntax, "this string has no end; close it with the same quote").at(text, start))
}
