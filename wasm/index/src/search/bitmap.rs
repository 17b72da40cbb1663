//! A bitmap has the ids of matches: bit i of word j stands for the id 64 j + i.

use crate::catalog::ids::{Row, ROW};
use crate::support::bits::ones;

/// A bitmap under construction.
pub(super) struct Bitmap<'a> {
    /// The words that the bitmap may use.
    pub words: &'a mut [u64],
    /// The number of words up to that of the greatest id. Later words are not cleared yet.
    pub len: usize,
    /// An id for which there is no room.
    pub too_large: Option<u64>,
}

impl Bitmap<'_> {
    /// Inserts the ids of a row whose bits are one.
    #[inline]
    pub fn insert_row(&mut self, row: &Row, bits: u32) {
        match *row {
            Row::From(first) if first <= u64::MAX - ROW as u64 => self.insert_run(first, bits),
            _ => ones(u64::from(bits)).for_each(|place| self.insert_run(row.id(place), 1)),
        }
    }

    /// Inserts the ids `first + i` for each bit `i` that is one.
    fn insert_run(&mut self, first: u64, bits: u32) {
        if bits == 0 {
            return;
        }
        let last = first + u64::from(bits.ilog2());
        if last / 64 >= self.words.len() as u64 {
            self.too_large = Some(last);
            return;
        }
        let (word, last_word) = ((first / 64) as usize, (last / 64) as usize);
        if last_word >= self.len {
            self.words[self.len..=last_word].fill(0);
            self.len = last_word + 1;
        }
        let run = u128::from(bits) << (first % 64);
        self.words[word] |= run as u64;
        if last_word > word {
            self.words[last_word] |= (run >> 64) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bitmap_has_the_bits_of_the_ids_and_ends_with_the_greatest() {
        let listed = |first: u64| Row::Listed(Box::new(std::array::from_fn(|place| first + 7 * place as u64)));
        let rows = [Row::From(0), Row::From(63), Row::From(40), Row::From(200), listed(3), listed(500), Row::From(1)];
        for bits in [0, 1, 1 << 31, 0x8000_0001, 0x0f0f_3333, u32::MAX] {
            let mut expected = [0_u64; 16];
            let mut words = [u64::MAX; 16];
            let mut bitmap = Bitmap { words: &mut words, len: 0, too_large: None };
            for row in &rows {
                bitmap.insert_row(row, bits);
                for id in ones(u64::from(bits)).map(|place| row.id(place)) {
                    expected[id as usize / 64] |= 1 << (id % 64);
                }
                assert_eq!(bitmap.words[..bitmap.len], expected[..bitmap.len]);
                assert!(bitmap.len == 0 || expected[bitmap.len - 1] > 0);
                assert!(expected[bitmap.len..].iter().all(|word| *word == 0));
            }
            assert_eq!(bitmap.too_large, None);
        }
    }

    #[test]
    fn an_id_for_which_there_is_no_room_is_told() {
        let last = u64::MAX - 40;
        for (row, bits, expected) in [
            (Row::From(120), 1 << 8, Some(128)),
            (Row::From(120), 1 << 7, None),
            (Row::From(last), 1 << 31, Some(last + 31)),
            (Row::From(u64::MAX - 3), 0b1001, Some(u64::MAX)),
            (Row::From(u64::MAX - 3), 0b1_0000, None),
        ] {
            let mut bitmap = Bitmap { words: &mut [0; 2], len: 0, too_large: None };
            bitmap.insert_row(&row, bits);
            assert_eq!(bitmap.too_large, expected);
        }
    }
}
