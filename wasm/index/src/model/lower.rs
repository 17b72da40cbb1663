//! The lower case of strings.
//!
//! Each character is mapped by Unicode's `Lowercase_Mapping` without conditions. Language and neighboring characters do not
//! matter, so a final sigma is no exception. Invalid UTF-8 stays as it is.

/// Appends the lower case of `bytes` to `lowered`. With [`max_lowered_bytes`] bytes of spare capacity it allocates nothing.
///
/// ```
/// use be_tree_index::model::lower::lower;
///
/// let mut lowered = Vec::new();
/// lower("ÀB\u{130}Σ".as_bytes(), &mut lowered);
/// assert_eq!(lowered, "àbi\u{307}σ".as_bytes());
/// ```
pub fn lower(bytes: &[u8], lowered: &mut Vec<u8>) {
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            if character.is_ascii() {
                lowered.push((character as u8).to_ascii_lowercase());
                continue;
            }
            for lower in character.to_lowercase() {
                lowered.extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
            }
        }
        lowered.extend_from_slice(chunk.invalid());
    }
}

/// Returns an upper bound of the bytes of the lower case of a string of `len` bytes.
pub const fn max_lowered_bytes(len: usize) -> usize {
    len + len / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_lower_case_is_longer_than_the_most() {
        for character in '\0'..=char::MAX {
            let string = character.to_string();
            let mut lowered = Vec::new();
            lower(string.as_bytes(), &mut lowered);
            assert!(lowered.len() <= max_lowered_bytes(string.len()), "{character:?}");
            let again: String = character.to_lowercase().collect();
            assert_eq!(lowered, again.as_bytes());
            let mut twice = Vec::new();
            lower(&lowered, &mut twice);
            assert_eq!(twice, lowered, "{character:?}");
        }
        let mut lowered = Vec::new();
        lower(b"A\xff\xc3B", &mut lowered);
        assert_eq!(lowered, b"a\xff\xc3b");
    }
}
