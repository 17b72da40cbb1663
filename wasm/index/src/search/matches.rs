//! The set of slots that match: one bit each, and one bit for each 64 of these, so that a sparse set is read quickly.

use super::grow;
use crate::error::Error;
use crate::subscriptions::Slot;

/// A set of slots. Inserting is idempotent, bit by bit.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
    summary: Vec<u64>,
}

impl SlotSet {
    /// Makes room for slots below `slots`.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        grow(&mut self.words, slots.div_ceil(64))?;
        grow(&mut self.summary, slots.div_ceil(64 * 64))
    }

    pub fn insert(&mut self, slot: Slot) {
        let word = slot as usize / 64;
        // The summary first: a bit that it does not tell of would never be cleared.
        self.summary[word / 64] |= 1 << (word % 64);
        self.words[word] |= 1 << (slot % 64);
    }

    pub fn clear(&mut self) {
        for (i, summary) in self.summary.iter_mut().enumerate() {
            let mut rest = *summary;
            while rest != 0 {
                self.words[i * 64 + rest.trailing_zeros() as usize] = 0;
                rest &= rest - 1;
            }
            *summary = 0;
        }
    }

    /// Gives the slots from the word `from` on, ascending, until there are about `limit`; answers the word to go on
    /// from, or none at the end.
    pub fn each(&self, from: u32, limit: u32, mut each: impl FnMut(Slot)) -> Option<u32> {
        let mut given = 0;
        let mut word = from as usize;
        loop {
            let summary = self.summary.get(word / 64)?;
            let rest = summary >> (word % 64);
            if rest == 0 {
                word = (word / 64 + 1) * 64;
                continue;
            }
            if given >= limit {
                return Some(word as u32);
            }
            word += rest.trailing_zeros() as usize;
            let mut bits = self.words[word];
            while bits != 0 {
                each(word as Slot * 64 + bits.trailing_zeros());
                given += 1;
                bits &= bits - 1;
            }
            word += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_ascending_and_in_pieces() {
        let slots = [0, 1, 63, 64, 4095, 4096, 70_000, 99_999];
        let mut set = SlotSet::default();
        set.reserve(100_000).unwrap();
        slots.iter().rev().for_each(|&slot| set.insert(slot));
        for limit in [1, 3, 1000] {
            let mut given = Vec::new();
            let mut word = Some(0);
            while let Some(from) = word {
                word = set.each(from, limit, |slot| given.push(slot));
            }
            assert_eq!(given, slots);
        }
        set.clear();
        assert_eq!(set.each(0, 10, |slot| panic!("{slot}")), None);
        assert!(set.words.iter().all(|&word| word == 0));
    }
}
