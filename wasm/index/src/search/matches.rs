//! The set of slots that match: one bit each, and one bit for each 32 of these, so that a sparse set is read quickly.
//!
//! A word has 32 bits and the number of the search that they are of, and counts as empty in any other. So a set is
//! emptied at no cost, whatever an earlier search left in it, and setting a bit twice is the same as once.

use super::{grow, in_order};
use crate::error::Error;
use crate::subscriptions::Slot;

const BITS: u32 = 32;

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    words: Vec<u64>,
    summary: Vec<u64>,
    search: u32,
}

impl SlotSet {
    /// Makes room for slots below `slots`.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        grow(&mut self.words, slots.div_ceil(BITS as usize))?;
        grow(&mut self.summary, slots.div_ceil((BITS * BITS) as usize))
    }

    /// Empties the set for the next search.
    pub fn begin(&mut self) {
        if self.search == u32::MAX {
            self.words.fill(0);
            self.summary.fill(0);
            in_order();
            self.search = 0;
        }
        self.search += 1;
    }

    pub fn insert(&mut self, slot: Slot) {
        let word = slot / BITS;
        set(&mut self.summary[(word / BITS) as usize], self.search, 1 << (word % BITS));
        set(&mut self.words[word as usize], self.search, 1 << (slot % BITS));
    }

    /// Inserts the slots of a whole word.
    pub fn insert_word(&mut self, word: u32, slots: u32) {
        if slots != 0 {
            set(&mut self.summary[(word / BITS) as usize], self.search, 1 << (word % BITS));
            set(&mut self.words[word as usize], self.search, slots);
        }
    }

    /// Inserts the slots whose bits are one in `bits`, the first of which stands for the slot `first`, a multiple of 64.
    pub fn insert_run(&mut self, first: Slot, bits: u64) {
        for (word, bits) in (first / BITS..).zip([bits as u32, (bits >> BITS) as u32]) {
            if bits != 0 {
                set(&mut self.summary[(word / BITS) as usize], self.search, 1 << (word % BITS));
                set(&mut self.words[word as usize], self.search, bits);
            }
        }
    }

    /// Gives the slots from the word `from` on, ascending, until there are about `limit`; answers the word to go on
    /// from, or none at the end.
    pub fn each(&self, from: u32, limit: u32, mut each: impl FnMut(Slot)) -> Option<u32> {
        let mut given = 0;
        let mut word = from;
        loop {
            let summary = bits(*self.summary.get((word / BITS) as usize)?, self.search);
            let rest = summary >> (word % BITS);
            if rest == 0 {
                word = (word / BITS + 1) * BITS;
                continue;
            }
            if given >= limit {
                return Some(word);
            }
            word += rest.trailing_zeros();
            let mut rest = bits(self.words[word as usize], self.search);
            while rest != 0 {
                each(word * BITS + rest.trailing_zeros());
                given += 1;
                rest &= rest - 1;
            }
            word += 1;
        }
    }
}

/// The bits of `word` that are of this search.
fn bits(word: u64, search: u32) -> u32 {
    if (word >> BITS) as u32 == search {
        word as u32
    } else {
        0
    }
}

fn set(word: &mut u64, search: u32, more: u32) {
    *word = u64::from(search) << BITS | u64::from(bits(*word, search) | more);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_ascending_and_in_pieces_and_are_gone_in_the_next_search() {
        let slots = [0, 1, 31, 32, 1023, 1024, 70_000, 99_999];
        let mut set = SlotSet::default();
        set.reserve(100_000).unwrap();
        for search in [0, u32::MAX - 1, u32::MAX] {
            set.search = search;
            set.begin();
            assert_eq!(set.each(0, 10, |slot| panic!("{slot}")), None);
            slots.iter().rev().chain(&slots).for_each(|&slot| set.insert(slot));
            for limit in [1, 3, 1000] {
                let mut given = Vec::new();
                let mut word = Some(0);
                while let Some(from) = word {
                    word = set.each(from, limit, |slot| given.push(slot));
                }
                assert_eq!(given, slots);
            }
        }
    }
}
