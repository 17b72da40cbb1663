//! Lists of constants in programs: sorted integers that a digest represents exactly, two to a word if all are less than
//! 2^16.
//!
//! The first word of a list is its head, with the count. In a narrow list of odd length the last half word repeats the last
//! constant.

use crate::compile::words::{Words, AHEAD};
use crate::event::key::Scale;
use crate::model::strings::StringId;
use crate::support::simd::{Fastest, Vector};

/// Marks the head of a list with two constants in a word.
const NARROW: u32 = 1 << 31;
/// The greatest number of constants in a program's list. Longer lists are in the table of predicates.
const MAX_LIST_CONSTANTS: usize = 256;
/// Lists of at most this many words are compared whole; longer lists take a binary search.
const MAX_COMPARED_WORDS: usize = AHEAD;

/// A list in a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List<W> {
    words: W,
    /// The position of its first word.
    start: usize,
    len: usize,
    is_narrow: bool,
}

/// Returns the constant that represents a string in a program.
#[inline(always)]
pub(crate) fn of_string(id: StringId) -> i32 {
    id.word() as i32
}

/// Returns the string that a constant represents.
#[inline(always)]
pub(crate) fn to_string(constant: i32) -> StringId {
    StringId::from_word(constant as u32)
}

/// Appends `constants`, which are sorted. Returns false if they do not fit a program.
pub(crate) fn push(constants: impl ExactSizeIterator<Item = i64>, words: &mut Vec<u32>) -> bool {
    let len = constants.len();
    if len > MAX_LIST_CONSTANTS {
        return false;
    }
    let head = words.len();
    words.push(len as u32);
    let mut is_narrow = true;
    for constant in constants {
        if !Scale::Clamp.is_exact_at(constant) {
            return false;
        }
        is_narrow &= u16::try_from(constant).is_ok();
        words.push(constant as u32);
    }
    if is_narrow {
        words[head] |= NARROW;
        narrow(head + 1, words);
    }
    true
}

/// Packs the words from `start` on, two constants in a word.
fn narrow(start: usize, words: &mut Vec<u32>) {
    let len = words.len() - start;
    for pair in 0..len.div_ceil(2) {
        let first = words[start + 2 * pair];
        let second = if 2 * pair + 1 < len { words[start + 2 * pair + 1] } else { first };
        words[start + pair] = first | second << 16;
    }
    words.truncate(start + len.div_ceil(2));
}

/// Returns the number of words of the list with this head, its head included.
pub(crate) fn words(head: u32) -> usize {
    1 + packed((head & !NARROW) as usize, head & NARROW != 0)
}

/// Returns the number of words that `len` constants take.
#[inline(always)]
fn packed(len: usize, is_narrow: bool) -> usize {
    if is_narrow {
        len.div_ceil(2)
    } else {
        len
    }
}

/// Returns whether `value` is one of the first `count` words, or of their halves if the list is narrow. All words are
/// compared, whatever `count` is: the end of a shorter loop would be mispredicted.
#[inline(always)]
fn is_among<V: Vector>(value: u32, words: &[u32; MAX_COMPARED_WORDS], count: usize, is_narrow: bool) -> bool {
    let (mask, shift) = if is_narrow { (0xffff, 16) } else { (u32::MAX, 0) };
    let (value, count) = (V::splat_u32(value), V::splat_u32(count as u32));
    let found = |four: [u32; 4], places: [u32; 4]| {
        let four = V::of_u32(&four);
        let low = (four & V::splat_u32(mask)).eq_u32(value);
        let high = four.shr_u32(shift).eq_u32(value);
        (low | high) & !count.le_u32(V::of_u32(&places))
    };
    let [a, b, c, d, e, f, g, h] = *words;
    !(found([a, b, c, d], [0, 1, 2, 3]) | found([e, f, g, h], [4, 5, 6, 7])).is_zero()
}

impl<W: Words> List<W> {
    /// Returns the list whose head is the word `at`.
    #[inline(always)]
    pub fn at(words: W, at: usize) -> Self {
        let head = words.word(at);
        List { words, start: at + 1, len: (head & !NARROW) as usize, is_narrow: head & NARROW != 0 }
    }

    pub fn len(self) -> usize {
        self.len
    }

    pub fn iter(self) -> impl Iterator<Item = i32> {
        (0..self.len).map(move |position| self.get(position))
    }

    fn get(self, position: usize) -> i32 {
        if self.is_narrow {
            (self.words.word(self.start + position / 2) >> (16 * (position % 2)) & 0xffff) as i32
        } else {
            self.words.word(self.start + position) as i32
        }
    }

    #[inline(always)]
    pub fn contains(self, value: i32) -> bool {
        let count = packed(self.len, self.is_narrow);
        if count > MAX_COMPARED_WORDS {
            return self.finds(value);
        }
        is_among::<Fastest>(value as u32, &self.words.ahead(self.start), count, self.is_narrow)
    }

    /// Binary search without a branch on the values.
    fn finds(self, value: i32) -> bool {
        let (mut from, mut left) = (0, self.len);
        while left > 1 {
            let half = left / 2;
            from = if self.get(from + half) <= value { from + half } else { from };
            left -= half;
        }
        self.get(from) == value
    }
}

#[cfg(test)]
mod tests {
    use std::array::from_fn;

    use super::*;
    use crate::oracle::random::Random;
    use crate::support::simd::Portable;

    #[test]
    fn lists_of_any_length_and_width_come_back_and_find_what_they_have() {
        // The list ends a chunk of programs, or other words follow it.
        for (len, behind) in
            [0, 1, 2, 3, 15, 16, 17, 33, 256].into_iter().flat_map(|len| [(len, 1), (len, MAX_COMPARED_WORDS)])
        {
            for (first, step) in [(0, 1), (7, 255), (-40_000, 300), (65_000, 100)] {
                let constants: Vec<i64> = (0..len).map(|i| first + step * i).collect();
                let mut written = vec![99];
                assert!(push(constants.iter().copied(), &mut written));
                assert_eq!(words(written[1]), written.len() - 1);
                written.extend(std::iter::repeat_n(5, behind));
                let list = List::at(&written[..], 1);
                assert_eq!(list.iter().map(i64::from).collect::<Vec<_>>(), constants);
                for value in constants.iter().flat_map(|&constant| [constant - 1, constant, constant + 1]) {
                    assert_eq!(list.contains(value as i32), constants.contains(&value), "{value} in {constants:?}");
                }
                assert!(!list.contains(-1) || constants.contains(&-1));
            }
        }
    }

    #[test]
    fn a_value_is_found_among_the_words_that_count() {
        let (mut random, mut found) = (Random::new(1), 0);
        for _ in 0..4000 {
            let words: [u32; MAX_COMPARED_WORDS] = from_fn(|_| (random.below(6) | random.below(6) << 16) as u32);
            let (count, is_narrow) = (random.below(MAX_COMPARED_WORDS + 1), random.chance(50));
            let value = match random.chance(50) {
                true => random.below(6) as u32,
                false => words[random.below(MAX_COMPARED_WORDS)],
            };
            let expected = words[..count].iter().any(|&word| match is_narrow {
                true => [word & 0xffff, word >> 16].contains(&value),
                false => word == value,
            });
            let of_vectors = [
                is_among::<Portable>(value, &words, count, is_narrow),
                is_among::<Fastest>(value, &words, count, is_narrow),
            ];
            assert_eq!(of_vectors, [expected; 2], "{value} in {count} of {words:?}");
            found += usize::from(expected);
        }
        assert!((1000..3000).contains(&found), "{found}");
    }

    #[test]
    fn what_is_too_long_or_too_large_is_refused() {
        assert!(!push((0..257).collect::<Vec<_>>().into_iter(), &mut Vec::new()));
        assert!(!push([1 << 31].into_iter(), &mut Vec::new()));
    }
}
