//! The undo log of a transaction: all steps since it began.
//!
//! Only the first old value of a word is logged; a bit per word records whether the log has one. So the log is never longer than
//! the block was at the start, regardless of the number of steps.

use crate::error::Error;
use crate::memory::barrier::in_order;
use crate::memory::full::refused;
use crate::memory::{Address, Full, Room};

#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    /// The address and the start value of each changed word.
    pub entries: Room<[u32; 2]>,
    /// A bit for each word of the block at the start: whether it is in the log.
    is_logged: Vec<u32>,
    /// The end of the block at the start.
    end: Address,
    /// The end for the next transaction, while it begins.
    next_end: Option<Address>,
}

impl Transaction {
    pub fn bytes(&self) -> usize {
        8 * self.entries.capacity() + 4 * self.is_logged.capacity()
    }

    /// Begins with a block that ends at `end`. After an interruption, [`Transaction::finish`] completes it.
    pub fn begin(&mut self, end: Address) {
        self.next_end = Some(end);
        in_order();
        self.finish();
    }

    /// Completes an interrupted begin.
    pub fn finish(&mut self) {
        let Some(end) = self.next_end else { return };
        while let Some([address, _]) = self.entries.last() {
            self.is_logged[*address as usize / 32] = 0;
            in_order();
            self.entries.pop();
        }
        self.end = end;
        in_order();
        self.next_end = None;
        in_order();
    }

    /// Reserves the bits for a block of `length` words, and some entries, within `left` more words of memory.
    pub fn cover(&mut self, length: usize, left: usize) -> Result<(), Error> {
        let bits = length.div_ceil(32);
        let more = bits.saturating_sub(self.is_logged.len());
        if more > left {
            return Err(refused());
        }
        self.is_logged.try_reserve_exact(more).map_err(|_| refused())?;
        self.is_logged.resize(bits.max(self.is_logged.len()), 0);
        if self.entries.capacity() == 0 {
            self.grow(left - more)?;
        }
        Ok(())
    }

    /// Appends the log of a step before its commit. After an interruption, leftover entries are harmless.
    #[inline]
    pub fn add(&mut self, log: &[[u32; 2]]) -> Result<(), Full> {
        log.iter().try_for_each(|[address, old]| self.add_word(*address, *old))
    }

    /// Logs the content of a block that a step frees, after the log of the step.
    pub fn add_block(&mut self, words: &[u32], block: Address, size: u32) -> Result<(), Full> {
        (block..block + size).try_for_each(|address| self.add_word(address, words[address as usize]))
    }

    #[inline]
    fn add_word(&mut self, address: Address, old: u32) -> Result<(), Full> {
        let (word, bit) = (address as usize / 32, 1 << (address % 32));
        if address >= self.end || self.is_logged[word] & bit != 0 {
            return Ok(());
        }
        if self.entries.is_full() {
            return Err(Full::Transaction);
        }
        self.entries.push([address, old]);
        in_order();
        self.is_logged[word] |= bit;
        Ok(())
    }

    /// Restores the values that all words had at the start.
    pub fn undo(&mut self, words: &mut [u32]) {
        while let Some([address, old]) = self.entries.pop() {
            words[address as usize] = old;
            self.is_logged[address as usize / 32] = 0;
        }
    }

    /// Reserves more entries, within `left` more words of memory.
    pub fn grow(&mut self, left: usize) -> Result<(), Error> {
        let more = self.entries.capacity().max(MIN_ENTRIES);
        if 2 * more > left {
            return Err(refused());
        }
        self.entries.try_reserve_exact(more).map_err(|_| refused())
    }
}

/// The initial capacity for entries.
const MIN_ENTRIES: usize = 512;
