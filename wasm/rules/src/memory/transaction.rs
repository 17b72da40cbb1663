//! The way back of all steps since a transaction began.
//!
//! The first old value of each word counts, so a bit for each word says whether the log has one. The log is no longer than the block
//! was at the begin, however many steps there are.

use crate::error::Error;
use crate::memory::barrier::in_order;
use crate::memory::full::refused;
use crate::memory::{Address, Full, Room};

#[derive(Clone, Debug, Default)]
pub(super) struct Transaction {
    /// The address and the value at the begin of each word that has changed.
    pub entries: Room<[u32; 2]>,
    /// A bit for each word of the block at the begin: whether it is in the log.
    is_logged: Vec<u32>,
    /// The end of the block at the begin.
    end: Address,
    /// That of the transaction that begins, if one does.
    next_end: Option<Address>,
}

impl Transaction {
    pub fn bytes(&self) -> usize {
        8 * self.entries.capacity() + 4 * self.is_logged.capacity()
    }

    /// Begins with a block that ends at `end`. A cut leaves the rest to [`Transaction::finish`].
    pub fn begin(&mut self, end: Address) {
        self.next_end = Some(end);
        in_order();
        self.finish();
    }

    /// Ends a begin that was cut off.
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

    /// Makes room for the bits of a block of `length` words, and for some entries, with at most `left` more words of memory.
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

    /// Adds the log of a step that is to be final. A cut leaves entries of a step that is undone, which do no harm.
    #[inline]
    pub fn add(&mut self, log: &[[u32; 2]]) -> Result<(), Full> {
        log.iter().try_for_each(|[address, old]| self.add_word(*address, *old))
    }

    /// Adds a block that a step frees, with the content that it has, after the log of the step.
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

    /// Gives all words the values that they had at the begin.
    pub fn undo(&mut self, words: &mut [u32]) {
        while let Some([address, old]) = self.entries.pop() {
            words[address as usize] = old;
            self.is_logged[address as usize / 32] = 0;
        }
    }

    /// Makes room for more entries, with at most `left` more words of memory.
    pub fn grow(&mut self, left: usize) -> Result<(), Error> {
        let more = self.entries.capacity().max(LEAST);
        if 2 * more > left {
            return Err(refused());
        }
        self.entries.try_reserve_exact(more).map_err(|_| refused())
    }
}

/// The first room for entries.
const LEAST: usize = 512;
