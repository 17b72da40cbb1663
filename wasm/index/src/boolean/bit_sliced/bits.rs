//! A set of events has a bit for each of 256 events.

use std::array::from_fn;

/// The number of events in a group. It is twice the bits of a vector: dependent operations leave the processor idle, so the
/// second half costs little.
pub(crate) const EVENTS: usize = WORD * WORDS;

const WORD: usize = 64;
pub(super) const WORDS: usize = 4;

/// A bit for each event, the first in the lowest bit of the first word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bits([u64; WORDS]);

impl Bits {
    pub const NONE: Bits = Bits([0; WORDS]);

    /// Returns the bits of the first `events` events.
    pub fn of_first(events: usize) -> Bits {
        Bits(from_fn(|word| match events.saturating_sub(WORD * word) {
            all if all >= WORD => u64::MAX,
            some => (1 << some) - 1,
        }))
    }

    pub fn of_words(words: [u64; WORDS]) -> Bits {
        Bits(words)
    }

    pub fn words(self) -> [u64; WORDS] {
        self.0
    }

    pub fn set(&mut self, event: usize) {
        self.0[event / WORD] |= 1 << (event % WORD);
    }

    /// Returns the bits of the 32 events in the half word number `half`.
    #[inline]
    pub fn half_word(&self, half: usize) -> u32 {
        (self.0[half / 2 % WORDS] >> (32 * (half % 2))) as u32
    }
}

/// Transposes a square of bits: bit j of row i becomes bit i of row j.
///
/// It works by halves (Warren, Hacker's Delight, 7-3): the two off-diagonal quarters are exchanged, then those within each
/// quarter, and so on; whole words first, then parts of words.
pub(crate) fn transpose(square: &mut [Bits; EVENTS]) {
    for distance in [WORDS / 2, WORDS / 4] {
        each_pair(square, distance * WORD, |above, below| {
            for word in (0..WORDS).filter(|word| word & distance == 0) {
                std::mem::swap(&mut above.0[word + distance], &mut below.0[word]);
            }
        });
    }
    let mut distance = WORD / 2;
    let mut mask = u64::MAX >> distance;
    while distance > 0 {
        each_pair(square, distance, |above, below| {
            for word in 0..WORDS {
                let changed = (above.0[word] >> distance ^ below.0[word]) & mask;
                above.0[word] ^= changed << distance;
                below.0[word] ^= changed;
            }
        });
        distance /= 2;
        mask ^= mask << distance;
    }
}

/// Calls `exchange` for each two rows that are `distance` apart and in the two halves of the same quarter.
fn each_pair(square: &mut [Bits], distance: usize, exchange: impl Fn(&mut Bits, &mut Bits)) {
    for quarter in square.chunks_exact_mut(2 * distance) {
        let (upper, lower) = quarter.split_at_mut(distance);
        upper.iter_mut().zip(lower).for_each(|(above, below)| exchange(above, below));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(bits: Bits, event: usize) -> bool {
        bits.half_word(event / 32) >> (event % 32) & 1 == 1
    }

    #[test]
    fn a_transposed_square_has_rows_for_columns() {
        let mut square = [Bits::NONE; EVENTS];
        let is_set = |row: usize, column: usize| (row * 31 + column * 17 + row * column) % 7 < 3;
        for (row, bits) in square.iter_mut().enumerate() {
            (0..EVENTS).filter(|&column| is_set(row, column)).for_each(|column| bits.set(column));
        }
        transpose(&mut square);
        for (row, &bits) in square.iter().enumerate() {
            for column in 0..EVENTS {
                assert_eq!(has(bits, column), is_set(column, row), "{row} {column}");
            }
        }
    }

    #[test]
    fn the_first_events_are_those_of_the_lowest_bits() {
        for events in [0, 1, 63, 64, 65, 127, 128, 129, 200, 255, 256] {
            let bits = Bits::of_first(events);
            assert!((0..EVENTS).all(|event| has(bits, event) == (event < events)));
        }
    }
}
