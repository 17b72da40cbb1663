//! Strings in words. Equal strings are one block, so they are equal if their addresses are.
//!
//! A block has a link, the number of its owners, the hash, the length in bytes, and the bytes. The last owner frees it.

use crate::memory::{mix, Address, Full, Table, Words};

#[derive(Clone, Copy, Debug)]
pub(crate) struct StringTable(pub Table);

const OWNERS: u32 = 1;
const HASH: u32 = 2;
const LENGTH: u32 = 3;
const BYTES: u32 = 4;

impl StringTable {
    /// Returns the address of the string with these bytes, if it exists.
    pub fn find(self, words: &Words, bytes: &[u8]) -> Option<Address> {
        let found = self.0.find(words, hash_bytes(bytes), |block| is(words, block, bytes));
        found.map(|(_, block)| block)
    }

    /// Returns the address of the string with these bytes, which is made without an owner if it does not exist.
    pub fn intern(self, words: &mut Words, bytes: &[u8]) -> Result<Address, Full> {
        if let Some(block) = self.find(words, bytes) {
            return Ok(block);
        }
        let block = words.allocate(size(bytes.len()))?;
        words.raw(block + OWNERS, 0);
        words.raw(block + HASH, hash_bytes(bytes));
        words.raw(block + LENGTH, bytes.len() as u32);
        for (address, chunk) in (block + BYTES..).zip(bytes.chunks(4)) {
            words.raw(address, word(chunk));
        }
        self.0.insert(words, hash_bytes(bytes), block)?;
        Ok(block)
    }

    /// Adds an owner.
    #[inline]
    pub fn retain(self, words: &mut Words, block: Address) -> Result<(), Full> {
        words.set(block + OWNERS, words.get(block + OWNERS) + 1)
    }

    /// Removes an owner, and frees the string without owners. It keeps its bytes until the step ends.
    pub fn release(self, words: &mut Words, block: Address) -> Result<(), Full> {
        let owners = words.get(block + OWNERS) - 1;
        words.set(block + OWNERS, owners)?;
        if owners > 0 {
            return Ok(());
        }
        if let Some((at, _)) = self.0.find(words, words.get(block + HASH), |found| found == block) {
            self.0.remove(words, at)?;
        }
        words.free(block, size(words.get(block + LENGTH) as usize))
    }

    /// Returns the length of a string, in bytes.
    pub fn length(words: &Words, block: Address) -> usize {
        words.get(block + LENGTH) as usize
    }

    /// Returns four bytes of a string.
    pub fn word(words: &Words, block: Address, number: u32) -> u32 {
        words.get(block + BYTES + number)
    }

    /// Returns the bytes of a string.
    pub fn bytes(words: &Words, block: Address) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(StringTable::length(words, block) + 4);
        StringTable::append(words, block, &mut bytes);
        bytes
    }

    /// Appends the bytes of a string to `bytes`, which has room for them and three more.
    pub fn append(words: &Words, block: Address, bytes: &mut Vec<u8>) {
        let (start, length) = (bytes.len(), StringTable::length(words, block));
        for word in 0..length.div_ceil(4) as u32 {
            bytes.extend_from_slice(&StringTable::word(words, block, word).to_le_bytes());
        }
        bytes.truncate(start + length);
    }
}

fn size(bytes: usize) -> u32 {
    BYTES + bytes.div_ceil(4) as u32
}

fn is(words: &Words, block: Address, bytes: &[u8]) -> bool {
    words.get(block + LENGTH) as usize == bytes.len()
        && (block + BYTES..).zip(bytes.chunks(4)).all(|(address, chunk)| words.get(address) == word(chunk))
}

/// Returns up to four bytes as a word. A copy of so few bytes would be a call of the host in the sandbox.
fn word(chunk: &[u8]) -> u32 {
    match *chunk {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
    }
}

/// Returns the hash of a string.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    let mut pairs = bytes.chunks_exact(8);
    let mut hash = mix(1, bytes.len() as u64);
    for pair in pairs.by_ref() {
        hash = mix(hash, u64::from(word(&pair[..4])) | u64::from(word(&pair[4..])) << 32);
    }
    pairs.remainder().chunks(4).fold(hash, |hash, chunk| mix(hash, word(chunk).into())) as u32
}
