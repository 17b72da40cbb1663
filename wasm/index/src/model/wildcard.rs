//! Patterns of `like`: text in which `*` stands for any number of characters and `?` for one.
//!
//! A pattern is stored as its text with the bytes [`ANY`] and [`ONE`] for the wildcards. Neither byte occurs in UTF-8, so
//! the parts between them need no escapes.
//!
//! Matching takes time linear in the string. A part without `?` takes a substring search. A part with `?` has at most
//! [`MAX_PART_BYTES`] bytes, so a word of bits holds all its partial matches (Baeza-Yates and Gonnet, "A new approach to
//! text searching", 1992).

use memchr::memmem;

/// Any number of characters.
pub const ANY: u8 = 0xff;
/// One character: a byte and the UTF-8 continuation bytes after it.
pub const ONE: u8 = 0xfe;

/// The maximum number of bytes of a part between `*`s that contains a `?`.
pub const MAX_PART_BYTES: usize = 128;

/// The reason why a text is not a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The position of a `\` that no `*`, `?` or `\` follows.
    Escape(usize),
    /// A part with `?` is longer than [`MAX_PART_BYTES`].
    TooLong,
}

/// Parses a pattern. `\*`, `\?` and `\\` stand for the characters themselves.
///
/// # Errors
///
/// The [`Refusal`] has the reason.
pub fn parse(text: &[u8]) -> Result<Vec<u8>, Refusal> {
    let mut pattern = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match (byte, text.get(at + 1)) {
            // Consecutive `*`s are one.
            (b'*', _) if pattern.last() == Some(&ANY) => {}
            (b'*', _) => pattern.push(ANY),
            (b'?', _) => pattern.push(ONE),
            (b'\\', Some(&escaped @ (b'*' | b'?' | b'\\'))) => {
                pattern.push(escaped);
                at += 1;
            }
            (b'\\', _) => return Err(Refusal::Escape(at)),
            _ => pattern.push(byte),
        }
        at += 1;
    }
    let is_too_long = |part: &[u8]| part.len() > MAX_PART_BYTES && part.contains(&ONE);
    match pattern.split(|&byte| byte == ANY).any(is_too_long) {
        true => Err(Refusal::TooLong),
        false => Ok(pattern),
    }
}

/// Returns the text that [`parse`] reads as `pattern`.
pub fn text(pattern: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(pattern.len());
    for &byte in pattern {
        match byte {
            ANY => text.push(b'*'),
            ONE => text.push(b'?'),
            b'*' | b'?' | b'\\' => text.extend([b'\\', byte]),
            _ => text.push(byte),
        }
    }
    text
}

/// Returns whether a byte of a pattern is a wildcard.
#[inline]
pub fn is_wild(byte: u8) -> bool {
    byte >= ONE
}

/// Returns whether the whole string `bytes` fits `pattern`.
///
/// ```
/// use be_tree_index::model::wildcard::{matches, parse};
///
/// let pattern = parse(br"a*b?c\*").unwrap();
/// assert!(matches(&pattern, "a, then bäc*".as_bytes()));
/// assert!(!matches(&pattern, b"abc*"));
/// ```
pub fn matches(pattern: &[u8], bytes: &[u8]) -> bool {
    let mut parts = pattern.split(|&byte| byte == ANY);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = without_start(first, bytes) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts {
        match behind_first(part, rest) {
            Some(behind) => rest = behind,
            None => return false,
        }
    }
    ends_with(last, rest)
}

/// Returns the rest of `bytes` after a part at their start.
fn without_start<'a>(part: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let mut at = 0;
    for &byte in part {
        let &found = bytes.get(at)?;
        at += 1;
        if byte == ONE {
            at += continuations(&bytes[at..]);
        } else if byte != found {
            return None;
        }
    }
    Some(&bytes[at..])
}

fn continuations(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| byte & 0xc0 != 0x80).unwrap_or(bytes.len())
}

/// Returns whether `bytes` end with a part.
fn ends_with(part: &[u8], bytes: &[u8]) -> bool {
    if !part.contains(&ONE) {
        return bytes.ends_with(part);
    }
    scan(part, bytes, |end| end == bytes.len()).is_some()
}

/// Returns the rest of `bytes` after the first occurrence of a part.
fn behind_first<'a>(part: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    if !part.contains(&ONE) {
        return memmem::find(bytes, part).map(|at| &bytes[at + part.len()..]);
    }
    scan(part, bytes, |_| true).map(|end| &bytes[end..])
}

/// Returns the first end of a part in `bytes` that `takes` accepts. The part has at most [`MAX_PART_BYTES`] bytes.
fn scan(part: &[u8], bytes: &[u8], takes: impl Fn(usize) -> bool) -> Option<usize> {
    // Bit i of an element is set if that byte may be the part's byte i.
    let mut places = [0_u128; 256];
    let mut ones = 0_u128;
    for (i, &byte) in part.iter().take(MAX_PART_BYTES).enumerate() {
        if byte == ONE {
            ones |= 1 << i;
        } else {
            places[usize::from(byte)] |= 1 << i;
        }
    }
    let last = 1_u128.checked_shl(part.len() as u32 - 1).unwrap_or(0);
    // Bit i is set if the part's first i + 1 bytes match and end at the current position.
    let mut begun = 0_u128;
    for (at, &byte) in bytes.iter().enumerate() {
        // A continuation byte belongs to the character that a `?` has matched.
        let is_continuation = byte & 0xc0 == 0x80;
        let taken = if is_continuation { begun & ones } else { 0 };
        begun = (((begun ^ taken) << 1 | 1) & (places[usize::from(byte)] | ones)) | taken;
        let is_whole = bytes.get(at + 1).is_none_or(|next| next & 0xc0 != 0x80) || part.last() != Some(&ONE);
        if begun & last != 0 && is_whole && takes(at + 1) {
            return Some(at + 1);
        }
    }
    None
}

/// Returns the literals of a pattern with their positions.
pub fn literals(pattern: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    pattern.split(|&byte| is_wild(byte)).filter_map(move |literal| {
        let start = at;
        at += literal.len() + 1;
        (!literal.is_empty()).then_some((start, literal))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    /// Matches character by character, by definition.
    fn naive(pattern: &[char], string: &[char]) -> bool {
        match (pattern, string) {
            ([], _) => string.is_empty(),
            ([ANY_CHAR, rest @ ..], _) => (0..=string.len()).any(|at| naive(rest, &string[at..])),
            ([ONE_CHAR, rest @ ..], [_, string @ ..]) => naive(rest, string),
            ([wanted, rest @ ..], [found, string @ ..]) => wanted == found && naive(rest, string),
            _ => false,
        }
    }

    const ANY_CHAR: char = '\u{e000}';
    const ONE_CHAR: char = '\u{e001}';

    #[test]
    fn strings_fit_as_they_do_character_by_character() {
        let mut random = Random::new(1);
        let letters = ['a', 'a', 'b', 'é', 'è', '日', '*', '?', '\\'];
        let mut fits = 0;
        for _ in 0..200_000 {
            let pattern: Vec<char> = random.several(9, |random| match random.below(3) {
                0 => ANY_CHAR,
                1 => ONE_CHAR,
                _ => random.pick(&letters),
            });
            let string: Vec<char> = random.several(9, |random| random.pick(&letters));
            let written: String = pattern
                .iter()
                .map(|&c| match c {
                    ANY_CHAR => "*".into(),
                    ONE_CHAR => "?".into(),
                    '*' | '?' | '\\' => format!("\\{c}"),
                    c => c.to_string(),
                })
                .collect();
            let parsed = parse(written.as_bytes()).unwrap();
            let bytes: String = string.iter().collect();
            let expected = naive(&pattern, &string);
            assert_eq!(matches(&parsed, bytes.as_bytes()), expected, "{written} {bytes}");
            assert_eq!(parse(&text(&parsed)), Ok(parsed));
            fits += usize::from(expected);
        }
        assert!(fits > 5_000, "{fits}");
    }

    #[test]
    fn a_part_that_ends_the_pattern_may_overlap_earlier_ones_nowhere() {
        let fits = |pattern: &str, string: &str| matches(&parse(pattern.as_bytes()).unwrap(), string.as_bytes());
        assert!(!fits("ab*ba", "aba") && fits("ab*ba", "abba"));
        assert!(!fits("a*a", "a") && fits("*", "") && fits("", "") && !fits("?", ""));
        assert!(fits("*?é?", "xxéé") && !fits("*?é?", "éx"));
        let long = format!("*{}?{}*", "a".repeat(63), "b".repeat(64));
        let string = format!("{}c{}", "a".repeat(5000), "b".repeat(5000));
        assert!(fits(&long, &string));
        assert_eq!(parse(format!("{}?", "a".repeat(MAX_PART_BYTES)).as_bytes()), Err(Refusal::TooLong));
        assert_eq!(parse(br"a\b"), Err(Refusal::Escape(1)));
        assert_eq!(parse(br"a\"), Err(Refusal::Escape(1)));
    }

    #[test]
    fn strings_that_are_no_utf_8_are_matched_too() {
        let mut random = Random::new(3);
        for _ in 0..20_000 {
            let bytes = random.several(12, |random| random.pick(&[b'a', 0x80, 0xbf, 0xc3, 0xff, 0xfe]));
            let pattern = parse(random.pick(&["*", "a*", "*?*", "?*?", "*a?a*"]).as_bytes()).unwrap();
            matches(&pattern, &bytes);
        }
    }

    #[test]
    fn literals_are_the_parts_without_wildcards() {
        let pattern = parse(b"ab*?c**d?").unwrap();
        let found: Vec<_> = literals(&pattern).collect();
        assert_eq!(found, [(0, &b"ab"[..]), (4, b"c"), (6, b"d")]);
    }
}
