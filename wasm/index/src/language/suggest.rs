//! Finds what a misspelt name may have meant.

use crate::model::schema::Schema;

/// The name in the schema that is nearest to `name`: the same but for case, or else at most two letters off.
pub(super) fn nearest<'s>(name: &str, schema: &'s Schema) -> Option<&'s str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
        return None;
    }
    let candidates = schema.attributes().iter().map(|attribute| attribute.name.as_str());
    let near = candidates.filter(|candidate| candidate.len().abs_diff(name.len()) <= 2).filter_map(|candidate| {
        let distance = match candidate.eq_ignore_ascii_case(name) {
            true => 0,
            false => edit_distance(candidate.as_bytes(), name.as_bytes()),
        };
        (distance <= 2 && distance < name.len()).then_some((distance, candidate))
    });
    near.min_by_key(|(distance, _)| *distance).map(|(_, candidate)| candidate)
}

/// How many bytes must be added, taken away or replaced to make `a` of `b` (Levenshtein).
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
