//! Pages: the map from fact numbers to facts.
//!
//! Numbers ascend, so facts that come and go together share a page: a block with the page's number, its number of facts, and a
//! place for each fact number. A table finds the page. So look-ups of close numbers share cache lines.

use crate::memory::{mix, Address, Full, Table, Words};

/// The pages: their table, and the address of the word that holds the page added last, or 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub table: Table,
    pub last: Address,
}

/// The number of places in a page, as a power of two.
const BITS: u32 = 5;
const COUNT: u32 = 2;
const PLACES: u32 = 3;
const SIZE: u32 = PLACES + (1 << BITS);

impl Pages {
    /// Returns the fact with this number.
    #[inline]
    pub fn find(self, words: &Words, number: u64) -> Option<Address> {
        let block = self.page(words, number)?;
        Some(words.get(place(block, number))).filter(|fact| *fact != 0)
    }

    /// Adds a fact.
    #[inline]
    pub fn insert(self, words: &mut Words, number: u64, fact: Address) -> Result<(), Full> {
        let block = match self.page(words, number) {
            Some(block) => block,
            None => self.add_page(words, number)?,
        };
        words.set(block + COUNT, words.get(block + COUNT) + 1)?;
        words.set(place(block, number), fact)
    }

    /// Removes the fact with this number.
    #[inline]
    pub fn remove(self, words: &mut Words, number: u64) -> Result<(), Full> {
        let Some(block) = self.page(words, number) else { return Ok(()) };
        let count = words.get(block + COUNT) - 1;
        words.set(block + COUNT, count)?;
        words.set(place(block, number), 0)?;
        if count > 0 {
            return Ok(());
        }
        if words.get(self.last) == block {
            words.set(self.last, 0)?;
        }
        if let Some((at, _)) = self.table.find(words, hash(number), |found| found == block) {
            self.table.remove(words, at)?;
        }
        words.free(block, SIZE)
    }

    /// Returns the page of a number.
    #[inline]
    fn page(self, words: &Words, number: u64) -> Option<Address> {
        let last = words.get(self.last);
        if last != 0 && words.get64(last) == number >> BITS {
            return Some(last);
        }
        let found = self.table.find(words, hash(number), |block| words.get64(block) == number >> BITS);
        found.map(|(_, block)| block)
    }

    fn add_page(self, words: &mut Words, number: u64) -> Result<Address, Full> {
        let block = words.allocate(SIZE)?;
        words.raw64(block, number >> BITS);
        words.clear(block + COUNT, SIZE - COUNT);
        self.table.insert(words, hash(number), block)?;
        words.set(self.last, block)?;
        Ok(block)
    }
}

fn place(block: Address, number: u64) -> Address {
    block + PLACES + (number as u32 & ((1 << BITS) - 1))
}

fn hash(number: u64) -> u32 {
    mix(1, number >> BITS) as u32
}
