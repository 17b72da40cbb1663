//! Finds the name that a misspelt one may mean.

/// Returns the nearest of `names`: equal except for case, or else at most two letters away.
pub(crate) fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    const LONGEST: usize = 64;
    if name.len() > LONGEST {
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

/// Returns the Levenshtein distance.
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
