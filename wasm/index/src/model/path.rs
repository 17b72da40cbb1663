//! The names of attributes: paths to fields of nested maps, as expressions spell them.
//!
//! `user.address.city` names the field `city` of the map in field `address` of the map in field `user`. A field name that is
//! not an identifier is quoted: ``user.`first name` ``. In quotes a backtick is doubled.

use std::borrow::Cow;

/// The words that name an attribute only in backticks.
const RESERVED: [&str; 6] = ["and", "or", "not", "in", "true", "false"];

/// A fault in a path and its offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The position of the fault.
    pub offset: usize,
    /// The fault and its remedy.
    pub message: &'static str,
}

/// Returns the length in bytes of the longest path at the start of `text`. Errors: no path starts there, or one of its
/// fields is malformed.
pub fn length(text: &str) -> Result<usize, Fault> {
    let mut end = field(text, 0)?;
    while text.as_bytes().get(end) == Some(&b'.') {
        end = field(text, end + 1)?;
    }
    Ok(end)
}

/// Returns the unquoted names of the fields of `path`, from the outermost one. Errors: `path` is malformed.
///
/// ```
/// use be_tree_index::model::path::fields;
///
/// assert_eq!(fields("user.`first name`.x-1")?, ["user", "first name", "x-1"]);
/// assert_eq!(fields("`a``b`")?, ["a`b"]);
/// assert_eq!(fields("first name").unwrap_err().offset, 5);
/// # Ok::<(), be_tree_index::model::path::Fault>(())
/// ```
pub fn fields(path: &str) -> Result<Vec<Cow<'_, str>>, Fault> {
    let mut fields = Vec::new();
    let mut start = 0;
    loop {
        let end = field(path, start)?;
        fields.push(unquoted(&path[start..end]));
        match path.as_bytes().get(end) {
            None => break,
            Some(b'.') => start = end + 1,
            Some(_) => {
                let message = "a name has only ASCII letters, digits, `_` and `-`, and begins with a letter or `_`; \
                               put any other name between backticks";
                return Err(Fault { offset: end, message });
            }
        }
    }
    if RESERVED.contains(&path) {
        let message = "the word is an operator or a constant; put it between backticks to make it a name";
        return Err(Fault { offset: 0, message });
    }
    Ok(fields)
}

/// Returns the canonical spelling of a path: with backticks only where they are needed.
pub fn canonical(fields: &[Cow<'_, str>]) -> String {
    let mut path = String::new();
    for (i, name) in fields.iter().enumerate() {
        if i > 0 {
            path.push('.');
        }
        if is_plain(name) && !(fields.len() == 1 && RESERVED.contains(&&**name)) {
            path.push_str(name);
        } else {
            path.push('`');
            path.push_str(&name.replace('`', "``"));
            path.push('`');
        }
    }
    path
}

/// Returns the end of the field at `start`.
fn field(text: &str, start: usize) -> Result<usize, Fault> {
    let bytes = text.as_bytes();
    match bytes.get(start) {
        Some(b'`') => quoted(bytes, start),
        Some(byte) if byte.is_ascii_alphabetic() || *byte == b'_' => {
            let rest = &bytes[start..];
            Ok(start + rest.iter().position(|&byte| !in_name(byte)).unwrap_or(rest.len()))
        }
        _ => {
            let message = "the name of a field begins with a letter or `_`; put any other name between backticks";
            Err(Fault { offset: start, message })
        }
    }
}

/// Returns the end of the field whose opening backtick is at `start`.
fn quoted(bytes: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start + 1;
    loop {
        match (bytes.get(at), bytes.get(at + 1)) {
            (None, _) => {
                let message = "the name that starts here never ends; close its backtick";
                return Err(Fault { offset: start, message });
            }
            (Some(b'`'), Some(b'`')) => at += 2,
            (Some(b'`'), _) => return Ok(at + 1),
            (Some(_), _) => at += 1,
        }
    }
}

fn unquoted(field: &str) -> Cow<'_, str> {
    match field.strip_prefix('`').and_then(|field| field.strip_suffix('`')) {
        None => Cow::Borrowed(field),
        Some(inner) if inner.contains('`') => Cow::Owned(inner.replace("``", "`")),
        Some(inner) => Cow::Borrowed(inner),
    }
}

fn is_plain(name: &str) -> bool {
    let begins = name.as_bytes().first().is_some_and(|&byte| byte.is_ascii_alphabetic() || byte == b'_');
    begins && name.bytes().all(in_name)
}

fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

#[cfg(test)]
mod tests {
    use super::{canonical, fields, length};

    #[test]
    fn paths_have_one_canonical_spelling() {
        for (path, expected) in [
            ("a", "a"),
            ("`a`", "a"),
            ("a.`b`.c", "a.b.c"),
            ("`a.b`", "`a.b`"),
            ("`and`", "`and`"),
            ("x.and", "x.and"),
            ("x.`and`", "x.and"),
            ("`1`", "`1`"),
            ("`a``b`.c", "`a``b`.c"),
            ("`é`", "`é`"),
            ("````", "````"),
            ("``.a", "``.a"),
        ] {
            let read = fields(path).unwrap();
            assert_eq!(canonical(&read), expected);
            assert_eq!(fields(expected).unwrap(), read, "the canonical spelling has the same fields");
            assert_eq!(length(path).unwrap(), path.len());
        }
    }

    #[test]
    fn what_is_no_path_has_a_place() {
        for (path, offset) in
            [("", 0), ("1a", 0), ("a b", 1), ("a.", 2), (".a", 0), ("a..b", 2), ("a.`b", 2), ("a`b`", 1)]
        {
            assert_eq!(fields(path).unwrap_err().offset, offset, "{path}");
        }
        assert!(fields("not").unwrap_err().message.contains("backticks"));
        assert_eq!(length("a.b and c"), Ok(3));
    }
}
