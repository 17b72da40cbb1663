//! Suggests the name that a misspelt name may mean.

use std::borrow::Cow;

use crate::language::lexer::quote;
use crate::model::path;
use crate::model::schema::Schema;

/// Returns the remedy for `name`, which no attribute has.
pub(crate) fn suggestion(name: &str, schema: &Schema) -> Option<String> {
    let way = path::fields(name).ok().and_then(|fields| by_way(&fields, schema));
    let names = schema.attributes().iter().map(|attribute| attribute.name.as_str());
    way.or_else(|| nearest(name, names).map(|near| format!("did you mean {}?", quote_path(near))))
}

/// Returns the remedy for the name of a map, or of a field without its path.
fn by_way(fields: &[Cow<'_, str>], schema: &Schema) -> Option<String> {
    let is = |test: &dyn Fn(&[Cow<'_, str>]) -> bool| {
        let mut attributes = schema.attributes().iter();
        attributes
            .find(|attribute| path::fields(&attribute.name).is_ok_and(|path| path.len() > fields.len() && test(&path)))
    };
    if let Some(map) = schema.fields().map(fields) {
        let below = is(&|path| path.starts_with(fields))?;
        let map = path::canonical(&schema.fields().path(map));
        return Some(format!("{} is a map: name a field of it, such as {}", quote_path(&map), quote_path(&below.name)));
    }
    is(&|path| path.ends_with(fields)).map(|attribute| format!("did you mean {}?", quote_path(&attribute.name)))
}

/// Returns the path in backticks, unless it has some already.
pub(crate) fn quote_path(path: &str) -> String {
    quote(path)
}

/// Returns the nearest of `names`: equal except for case, or else at most two letters away.
///
/// ```
/// use be_tree_index::language::suggest::nearest;
///
/// assert_eq!(nearest("contry", ["city", "country"].into_iter()), Some("country"));
/// assert_eq!(nearest("plan", ["city", "country"].into_iter()), None);
/// ```
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const MAX_SUGGESTED_BYTES: usize = 64;
    if name.len() > MAX_SUGGESTED_BYTES {
        return None;
    }
    let near = names.filter(|other| other.len().abs_diff(name.len()) <= 2).filter_map(|other| {
        let distance = match other.eq_ignore_ascii_case(name) {
            true => 0,
            false => edit_distance(other.as_bytes(), name.as_bytes()),
        };
        (distance <= 2 && distance < name.len()).then_some((distance, other))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, other)| other)
}

/// Returns the Levenshtein distance: the bytes to add, remove or replace to turn `b` into `a`.
fn edit_distance(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::edit_distance;

    #[test]
    fn distances() {
        assert_eq!(edit_distance(b"", b""), 0);
        assert_eq!(edit_distance(b"abc", b""), 3);
        assert_eq!(edit_distance(b"", b"ab"), 2);
        assert_eq!(edit_distance(b"kitten", b"sitting"), 3);
        assert_eq!(edit_distance(b"contry", b"country"), 1);
    }
}
