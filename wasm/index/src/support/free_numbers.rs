//! The free numbers of a table. The lowest is reused first, so the numbers in use stay dense and the end of the table
//! becomes free.

use crate::support::footprint::of_table;
use crate::support::headroom::{growth, trim};

const BITS: usize = u64::BITS as usize;

/// A set of numbers below a bound, as a bitmap with a summary.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeNumbers {
    /// One bit for each number below the bound, set if it is free.
    words: Vec<u64>,
    /// One bit for each word, set if any of its numbers is free.
    summary: Vec<u64>,
}

impl FreeNumbers {
    /// Raises the bound to at least `bound`. The new numbers are not free.
    pub fn extend_to(&mut self, bound: usize) {
        let words = bound.div_ceil(BITS);
        if self.words.len() < words {
            self.words.resize(words, 0);
            self.summary.resize(words.div_ceil(BITS), 0);
        }
    }

    /// Returns the heap bytes of the set.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.words) + of_table(&self.summary)
    }

    /// Returns the bytes that raising the bound may allocate.
    pub fn growth(&self, bound: usize) -> usize {
        let words = bound.div_ceil(BITS);
        let more = |table: &Vec<u64>, len: usize| growth(table, len.saturating_sub(table.len()));
        more(&self.words, words) + more(&self.summary, words.div_ceil(BITS))
    }

    /// Adds `number`, which is below the bound. Takes no memory.
    pub fn insert(&mut self, number: usize) {
        debug_assert!(!self.contains(number), "{number} is freed twice");
        let word = number / BITS;
        self.words[word] |= 1 << (number % BITS);
        self.summary[word / BITS] |= 1 << (word % BITS);
    }

    /// Removes the lowest number and returns it.
    pub fn take_lowest(&mut self) -> Option<usize> {
        let place = self.summary.iter().position(|&words| words != 0)?;
        let word = place * BITS + self.summary[place].trailing_zeros() as usize;
        let number = word * BITS + self.words[word].trailing_zeros() as usize;
        self.words[word] &= self.words[word] - 1;
        if self.words[word] == 0 {
            self.summary[place] &= self.summary[place] - 1;
        }
        Some(number)
    }

    pub fn contains(&self, number: usize) -> bool {
        self.words.get(number / BITS).is_some_and(|word| word >> (number % BITS) & 1 == 1)
    }

    /// Returns the number of free numbers directly below `bound`.
    pub fn free_below(&self, bound: usize) -> usize {
        let mut start = bound;
        while start > 0 {
            let word = (start - 1) / BITS;
            let below = start - word * BITS;
            let free = ((self.words[word] << (BITS - below)).leading_ones() as usize).min(below);
            start -= free;
            if free < below {
                break;
            }
        }
        bound - start
    }

    /// Lowers the bound to `bound`. Frees the memory of the numbers from there on.
    pub fn truncate(&mut self, bound: usize) {
        self.words.truncate(bound.div_ceil(BITS));
        self.summary.truncate(self.words.len().div_ceil(BITS));
        if let Some(last) = self.words.get_mut(bound / BITS) {
            *last &= (1 << (bound % BITS)) - 1;
        }
        if let Some(last) = self.summary.last_mut() {
            let place = (self.words.len() - 1) % BITS;
            *last &= u64::MAX >> (BITS - 1 - place);
            if self.words.last() == Some(&0) {
                *last &= !(1 << place);
            }
        }
        trim(&mut self.words);
        trim(&mut self.summary);
    }

    /// Returns the number of free numbers.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_plain_set_holds(changes in prop::collection::vec((0..4_u8, 0..10_000_usize), 0..400)) {
            let mut free = FreeNumbers::default();
            let mut plain = BTreeSet::new();
            let mut bound = 0;
            for (kind, number) in changes {
                match kind {
                    0 => {
                        bound = bound.max(number);
                        free.extend_to(bound);
                    }
                    1 if bound > 0 => {
                        // Runs, because a truncation removes whole words.
                        for number in (number % bound..bound).take(150) {
                            if plain.insert(number) {
                                free.insert(number);
                            }
                        }
                    }
                    2 => prop_assert_eq!(free.take_lowest(), plain.pop_first()),
                    _ => {
                        let below = free.free_below(bound);
                        prop_assert_eq!(below, (0..bound).rev().take_while(|number| plain.contains(number)).count());
                        bound -= below;
                        free.truncate(bound);
                        plain.split_off(&bound);
                    }
                }
                prop_assert_eq!(free.len(), plain.len());
                prop_assert!(free.contains(number) == plain.contains(&number));
            }
            while let Some(lowest) = plain.pop_first() {
                prop_assert_eq!(free.take_lowest(), Some(lowest));
            }
            prop_assert_eq!(free.take_lowest(), None);
        }
    }

    #[test]
    fn growth_covers_what_extending_takes() {
        for start in [0, 1, 64, 65, 5000] {
            for bound in [0, 1, 64, 65, 4096, 4097, 100_000] {
                let mut free = FreeNumbers::default();
                free.extend_to(start);
                let (expected, before) = (free.growth(bound), free.words.capacity());
                free.extend_to(bound);
                let took = if free.words.capacity() > before { 8 * free.words.capacity() } else { 0 };
                // The first four words are within the headroom of every change.
                assert!(took <= expected.max(32), "{start} to {bound}: {took} of {expected}");
            }
        }
    }
}
