//! Interned strings: equal strings share one block, so equality is equality of addresses.
//!
//! A block has a link, its number of owners, the hash, the length in bytes, and the bytes. The last release frees it.

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

    /// Returns the address of the string with these bytes. A new string has no owner yet.
    pub fn intern(self, words: &mut Words, bytes: &[u8]) -> Result<Address, Full> {
        let hash = hash_bytes(bytes);
        if let Some((_, block)) = self.0.find(words, hash, |block| is(words, block, bytes)) {
            return Ok(block);
        }
        let block = words.allocate(size(bytes.len()))?;
        words.raw(block + OWNERS, 0);
        words.raw(block + HASH, hash);
        words.raw(block + LENGTH, bytes.len() as u32);
        for (address, chunk) in (block + BYTES..).zip(bytes.chunks(4)) {
            words.raw(address, word(chunk));
        }
        self.0.insert(words, hash, block)?;
        Ok(block)
    }

    /// Adds an owner.
    #[inline]
    pub fn retain(self, words: &mut Words, block: Address) -> Result<(), Full> {
        words.set(block + OWNERS, words.get(block + OWNERS) + 1)
    }

    /// Removes an owner. A string without owners is freed; it keeps its bytes until the step ends.
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

    /// Returns the word `number` of a string's bytes.
    pub fn word(words: &Words, block: Address, number: u32) -> u32 {
        words.get(block + BYTES + number)
    }

    /// Returns the bytes of a string.
    pub fn bytes(words: &Words, block: Address) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(StringTable::length(words, block) + 4);
        StringTable::append(words, block, &mut bytes);
        bytes
    }

    /// Appends the bytes of a string to `bytes`, which must have capacity for them and three more.
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
    if words.get(block + LENGTH) as usize != bytes.len() {
        return false;
    }
    if bytes.len() < MAX_WORDWISE_BYTES {
        return (block + BYTES..).zip(bytes.chunks(4)).all(|(address, chunk)| words.get(address) == word(chunk));
    }
    let (stored, mut eights) = (words.part(block + BYTES, bytes.len().div_ceil(4)), bytes.chunks_exact(8));
    let mut pairs = stored.chunks_exact(2);
    let are_equal = eights.by_ref().zip(pairs.by_ref()).all(|(eight, pair)| eight_of(eight) == pair_of(pair));
    let rest = &stored[2 * (bytes.len() / 8)..];
    are_equal && eights.remainder().chunks(4).zip(rest).all(|(chunk, stored)| word(chunk) == *stored)
}

/// Packs up to four bytes into a word. A copy of so few bytes would call the host from the sandbox.
fn word(chunk: &[u8]) -> u32 {
    match *chunk {
        [a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
        _ => chunk.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)),
    }
}

#[inline(always)]
fn eight_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

#[inline(always)]
fn pair_of(words: &[u32]) -> u64 {
    u64::from(words[0]) | u64::from(words[1]) << 32
}

/// The length up to which a string is compared word by word.
const MAX_WORDWISE_BYTES: usize = 16;

/// The length from which on a string is hashed in four lanes, whose multiplications overlap.
const MIN_LANED_BYTES: usize = 64;

/// Returns the hash of a string.
pub(crate) fn hash_bytes(bytes: &[u8]) -> u32 {
    let mut hash = mix(1, bytes.len() as u64);
    let mut rest = bytes;
    if bytes.len() >= MIN_LANED_BYTES {
        let mut lanes = [hash; 4];
        let mut parts = bytes.chunks_exact(32);
        for part in parts.by_ref() {
            for (lane, eight) in lanes.iter_mut().zip(part.chunks_exact(8)) {
                *lane = mix(*lane, eight_of(eight));
            }
        }
        hash = lanes.into_iter().fold(hash, mix);
        rest = parts.remainder();
    }
    let mut eights = rest.chunks_exact(8);
    let hash = eights.by_ref().fold(hash, |hash, eight| mix(hash, eight_of(eight)));
    eights.remainder().chunks(4).fold(hash, |hash, chunk| mix(hash, word(chunk).into())) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_every_length_are_told_apart_by_every_byte() {
        let mut words = Words::new(1 << 24).unwrap();
        let strings = StringTable(Table(words.reserve(Table::SIZE).unwrap()));
        let mut known = std::collections::HashMap::new();
        for length in 0..150 {
            let plain: Vec<u8> = (0..length).map(|byte| (byte * 7 % 251) as u8).collect();
            let changed = (0..length).map(|byte| {
                let mut other = plain.clone();
                other[byte] ^= 1;
                other
            });
            for bytes in std::iter::once(plain.clone()).chain(changed) {
                let block = loop {
                    match strings.intern(&mut words, &bytes) {
                        Ok(block) => break block,
                        Err(full) => {
                            words.undo();
                            words.grow(full).unwrap();
                        }
                    }
                };
                words.commit().unwrap();
                assert_eq!(StringTable::bytes(&words, block), bytes);
                assert_eq!(known.insert(block, bytes), None);
            }
        }
        for (block, bytes) in known {
            assert_eq!(strings.find(&words, &bytes), Some(block));
        }
    }

    #[test]
    fn the_hash_depends_on_every_byte() {
        for length in [1, 7, 8, 31, 63, 64, 65, 96, 127, 200] {
            let plain = vec![b'p'; length];
            for byte in 0..length {
                let mut other = plain.clone();
                other[byte] = b'q';
                assert_ne!(hash_bytes(&plain), hash_bytes(&other), "{length} {byte}");
            }
        }
    }
}
