//! Words, the undo log of a step, and the block allocator.
//!
//! A step changes words and then commits. Before it overwrites a word, it logs the word's address and value. The commit is one
//! store, which empties the log. So if a step ends early (no memory, or a trap at any instruction), the log restores the state
//! before it, and the step can run again. Words outside of committed blocks and the content of blocks that were free when the step
//! began are not logged, so most of a new fact costs plain stores.
//!
//! A transaction rolls several steps back together. While one is open, each commit first copies the old values of words that the
//! transaction had not changed. Words beyond the end of the block at its start need no log.
//!
//! A step allocates nothing outside of the block. If the block or the log is too small, the step ends with [`Full`], is rolled
//! back, and runs again after [`Words::grow`].

use crate::error::{Error, Kind};
use crate::layout::{Address, FIRST, FREE, SMALL_BLOCK, TOP};
use crate::memory::barrier::in_order;
use crate::memory::full::{refused, Full};
use crate::memory::transaction::Transaction;
use crate::memory::Room;

/// The fraction of memory, as a divisor, that is reserved for the logs and the notices.
const SPARE: usize = 8;

#[derive(Clone, Debug)]
pub(crate) struct Words {
    words: Vec<u32>,
    /// The address and the old value of each word that this step changed. The capacity is the length of the vector.
    log: Vec<[u32; 2]>,
    /// The number of valid entries of the log. Zero between steps.
    logged: usize,
    /// Words from here on are new in this step.
    fresh: Address,
    /// Blocks that this step frees: the address, the head of their list, and the size. They keep their content until the step ends.
    freed: Room<[u32; 3]>,
    /// The log of the open transaction.
    transaction: Option<Transaction>,
    /// The limit on words.
    limit: usize,
    /// The number of stores after which a test interrupts the step.
    #[cfg(test)]
    pub cut_after: Option<u64>,
}

impl Words {
    /// Returns words that take at most `limit` bytes.
    pub fn new(limit: usize) -> Result<Self, Error> {
        let mut words = Words {
            words: Vec::new(),
            log: Vec::new(),
            logged: 0,
            fresh: FIRST,
            freed: Room::default(),
            transaction: None,
            limit: limit / 4,
            #[cfg(test)]
            cut_after: None,
        };
        words.grow(Full::Words(4096))?;
        words.grow(Full::Log)?;
        words.grow(Full::Freed)?;
        words.words[TOP as usize] = FIRST;
        Ok(words)
    }

    /// Returns the number of bytes that the block, the log and the list take.
    pub fn bytes(&self) -> usize {
        4 * self.words.capacity()
            + 8 * self.log.capacity()
            + 12 * self.freed.capacity()
            + self.transaction.as_ref().map_or(0, Transaction::bytes)
    }

    /// Sets the most bytes.
    pub fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes / 4;
    }

    /// Returns the number of bytes that are allocated, free blocks included.
    pub fn used(&self) -> usize {
        4 * self.get(TOP) as usize
    }

    #[inline(always)]
    pub fn get(&self, address: Address) -> u32 {
        self.words[address as usize]
    }

    #[inline(always)]
    pub fn get64(&self, address: Address) -> u64 {
        let pair = &self.words[address as usize..][..2];
        u64::from(pair[0]) | u64::from(pair[1]) << 32
    }

    /// Returns a few consecutive words.
    #[inline(always)]
    pub fn get_part<const N: usize>(&self, address: Address) -> [u32; N] {
        let part = self.part(address, N);
        std::array::from_fn(|word| part[word])
    }

    /// Returns consecutive words.
    #[inline(always)]
    pub fn part(&self, address: Address, length: usize) -> &[u32] {
        &self.words[address as usize..][..length]
    }

    /// Stores a word, and logs its old value if a committed block may contain it.
    #[inline(always)]
    pub fn set(&mut self, address: Address, value: u32) -> Result<(), Full> {
        let word = &mut self.words[address as usize];
        if address < self.fresh {
            let logged = self.logged;
            let Some(entry) = self.log.get_mut(logged) else { return Err(Full::Log) };
            *entry = [address, *word];
            in_order();
            self.logged = logged + 1;
            in_order();
        }
        #[cfg(test)]
        count_down(&mut self.cut_after);
        *word = value;
        Ok(())
    }

    /// Stores consecutive words as [`Words::set`] does.
    #[inline(always)]
    pub fn set_part<const N: usize>(&mut self, address: Address, values: [u32; N]) -> Result<(), Full> {
        let words = &mut self.words[address as usize..][..N];
        if address < self.fresh {
            let logged = self.logged;
            let entries = self.log.get_mut(logged..).and_then(|entries| entries.get_mut(..N));
            let Some(entries) = entries else { return Err(Full::Log) };
            for ((entry, address), word) in entries.iter_mut().zip(address..).zip(&*words) {
                *entry = [address, *word];
            }
            in_order();
            self.logged = logged + N;
            in_order();
        }
        for (word, value) in words.iter_mut().zip(values) {
            #[cfg(test)]
            count_down(&mut self.cut_after);
            *word = value;
        }
        Ok(())
    }

    #[inline(always)]
    pub fn set64(&mut self, address: Address, value: u64) -> Result<(), Full> {
        self.set(address, value as u32)?;
        // The high half of a counter hardly ever changes.
        if self.get(address + 1) != (value >> 32) as u32 {
            self.set(address + 1, (value >> 32) as u32)?;
        }
        Ok(())
    }

    /// Stores a word of a block that this step allocated.
    #[inline(always)]
    pub fn raw(&mut self, address: Address, value: u32) {
        #[cfg(test)]
        count_down(&mut self.cut_after);
        self.words[address as usize] = value;
    }

    #[inline(always)]
    pub fn raw64(&mut self, address: Address, value: u64) {
        self.raw_part(address, [value as u32, (value >> 32) as u32]);
    }

    /// Sets consecutive words of a block that this step allocated to 0.
    pub fn clear(&mut self, address: Address, length: u32) {
        #[cfg(test)]
        count_down(&mut self.cut_after);
        self.words[address as usize..][..length as usize].fill(0);
    }

    /// Stores consecutive words of a block that this step allocated.
    #[inline(always)]
    pub fn raw_part<const N: usize>(&mut self, address: Address, values: [u32; N]) {
        for (word, value) in self.words[address as usize..][..N].iter_mut().zip(values) {
            #[cfg(test)]
            count_down(&mut self.cut_after);
            *word = value;
        }
    }

    /// Commits the step.
    #[inline]
    pub fn commit(&mut self) -> Result<(), Full> {
        for position in 0..self.freed.len() {
            let [address, list, _] = self.freed[position];
            let next = self.get(list);
            self.set(address, next)?;
            self.set(list, address)?;
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.add(&self.log[..self.logged])?;
            // Later steps overwrite these blocks without logging them.
            for position in 0..self.freed.len() {
                let [block, _, size] = self.freed[position];
                transaction.add_block(&self.words, block, size)?;
            }
        }
        in_order();
        #[cfg(test)]
        count_down(&mut self.cut_after);
        self.logged = 0;
        in_order();
        #[cfg(test)]
        count_down(&mut self.cut_after);
        // If interrupted here, steps log more words than necessary until `undo` runs.
        self.fresh = self.get(TOP);
        self.freed.clear();
        Ok(())
    }

    /// Rolls the step back. After an interruption it can run again.
    pub fn undo(&mut self) {
        if let Some(transaction) = &mut self.transaction {
            transaction.finish();
        }
        while self.logged > 0 {
            let [address, old] = self.log[self.logged - 1];
            self.words[address as usize] = old;
            in_order();
            self.logged -= 1;
            in_order();
        }
        self.fresh = self.get(TOP);
        self.freed.clear();
    }

    /// Begins a transaction, and commits the previous one.
    ///
    /// Errors: [`Kind::OutOfMemory`], only for the first.
    pub fn begin_transaction(&mut self) -> Result<(), Error> {
        if self.transaction.is_none() {
            let mut transaction = Transaction::default();
            transaction.cover(self.words.len(), self.left())?;
            self.transaction = Some(transaction);
        }
        self.begin_next_transaction();
        Ok(())
    }

    /// Begins a transaction if one is open. After an interruption it can run again.
    pub fn begin_next_transaction(&mut self) {
        let end = self.get(TOP);
        if let Some(transaction) = &mut self.transaction {
            transaction.begin(end);
        }
    }

    /// Rolls back all steps since the transaction began. It must not be interrupted.
    pub fn roll_back(&mut self) {
        self.undo();
        if let Some(transaction) = &mut self.transaction {
            transaction.undo(&mut self.words);
        }
        self.fresh = self.get(TOP);
    }

    /// Returns the number of words in the transaction's log.
    pub fn changed_in_transaction(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.entries.len())
    }

    /// Returns the number of words that may still be taken.
    fn left(&self) -> usize {
        self.limit.saturating_sub(self.bytes() / 4)
    }

    /// Makes the room that a step lacked. This is not logged.
    ///
    /// Errors: [`Kind::OutOfMemory`].
    #[cold]
    pub fn grow(&mut self, full: Full) -> Result<(), Error> {
        debug_assert_eq!(self.logged, 0);
        // Reserves a part of the memory, so that a full engine has room to retract facts and to report.
        let left = self.left();
        let left_for_words = left.saturating_sub(self.limit / SPARE);
        match full {
            Full::Words(words) => {
                let least = words as usize;
                let more = least.max(self.words.len() / 2).min(left_for_words.max(least));
                if least > left_for_words || self.words.len() + more > u32::MAX as usize / 4 {
                    return Err(refused());
                }
                if let Some(transaction) = &mut self.transaction {
                    transaction.cover(self.words.len() + more, left - more)?;
                }
                self.words.try_reserve_exact(more).map_err(|_| refused())?;
                self.words.resize(self.words.len() + more, 0);
            }
            Full::Log => {
                let more = self.log.len().max(1024);
                if 2 * more > left {
                    return Err(refused());
                }
                self.log.try_reserve_exact(more).map_err(|_| refused())?;
                self.log.resize(self.log.len() + more, [0; 2]);
            }
            Full::Freed => {
                let more = (2 * self.freed.capacity()).max(256);
                if 3 * more > left {
                    return Err(refused());
                }
                self.freed.try_reserve_exact(more).map_err(|_| refused())?;
            }
            Full::Transaction => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.grow(left)?;
                }
            }
            Full::Search => return Err(refused()),
            // The engine makes room for these.
            Full::Notices(_) | Full::Released => {}
            Full::Facts => {
                let message = "there are as many facts as the limit allows; retract some, or allow more";
                return Err(Error::new(Kind::OutOfBounds, message));
            }
        }
        Ok(())
    }

    /// Allocates uninitialized words at the end of the block.
    fn extend(&mut self, size: u32) -> Result<Address, Full> {
        let start = self.get(TOP);
        if size as usize > self.words.len() - start as usize {
            return Err(Full::Words(size));
        }
        self.set(TOP, start + size)?;
        Ok(start)
    }

    /// Allocates `size` zeroed words for good.
    pub fn reserve(&mut self, size: u32) -> Result<Address, Full> {
        let start = self.extend(size)?;
        self.clear(start, size);
        Ok(start)
    }

    /// Allocates an uninitialized block of `size` words from the free list at `list`, or at the end.
    #[inline]
    pub fn allocate_from(&mut self, list: Address, size: u32) -> Result<Address, Full> {
        let block = self.get(list);
        if block == 0 {
            return self.extend(size);
        }
        let next = self.get(block);
        self.set(list, next)?;
        // Logs the link, so that rolling back restores the free list.
        self.set(block, 0)?;
        Ok(block)
    }

    /// Frees a block of `size` words to the free list at `list` when the step ends. Until then it keeps its content.
    #[inline]
    pub fn free_to(&mut self, list: Address, block: Address, size: u32) -> Result<(), Full> {
        if self.freed.is_full() {
            return Err(Full::Freed);
        }
        self.freed.push([block, list, size]);
        Ok(())
    }

    /// Allocates an uninitialized block of at least `size` words.
    #[inline]
    pub fn allocate(&mut self, size: u32) -> Result<Address, Full> {
        let (class, size) = class(size);
        self.allocate_from(FREE + class, size)
    }

    /// Frees a block of [`Words::allocate`].
    #[inline]
    pub fn free(&mut self, block: Address, size: u32) -> Result<(), Full> {
        let (class, size) = class(size);
        self.free_to(FREE + class, block, size)
    }
}

/// Returns the size class of blocks of `size` words, and the block size of that class.
fn class(size: u32) -> (u32, u32) {
    if size < SMALL_BLOCK {
        return (size.max(1), size.max(1));
    }
    let bits = (size - 1).ilog2() + 1;
    (SMALL_BLOCK + bits, 1 << bits)
}

/// Interrupts a test after the requested number of stores.
#[cfg(test)]
fn count_down(cut_after: &mut Option<u64>) {
    if let Some(left) = cut_after {
        if *left == 0 {
            *cut_after = None;
            std::panic::resume_unwind(Box::new("cut off"));
        }
        *left -= 1;
    }
}

/// Combines a hash with a word.
#[inline(always)]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ mixed >> 32
}
