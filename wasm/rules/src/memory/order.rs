//! A binary heap of blocks by time. Each block stores its place in the heap, so any block can be removed.
//!
//! The first word of a block is free for its owner. Then come its place in the heap, its time and its number. Blocks are ordered by
//! time, then by number.

use crate::memory::{Address, Full, Heap, Words};

const PLACE: u32 = 1;
/// The offset of the time of a block.
pub(crate) const AT: u32 = 2;
/// The offset of the number of a block.
pub(crate) const ID: u32 = 4;
/// The offset of the words after the header, which belong to the owner.
pub(crate) const REST: u32 = 6;

/// A heap, given by the address of its three words, laid out as in a [`Heap`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Order(pub Address);

impl Order {
    pub fn len(self, words: &Words) -> u32 {
        Heap(self.0).len(words)
    }

    /// Returns the block at a place of the heap, or `None` beyond its end.
    pub fn at(self, words: &Words, place: u32) -> Option<Address> {
        (place < self.len(words)).then(|| words.get(words.get(self.0 + 2) + place))
    }

    /// Returns the earliest block.
    #[inline]
    pub fn first(self, words: &Words) -> Option<Address> {
        self.at(words, 0)
    }

    /// Returns the earliest time among the other blocks.
    pub fn first_time_without(self, words: &Words, block: Address) -> Option<i64> {
        let places = if self.first(words) == Some(block) { 1..3 } else { 0..1 };
        places.filter_map(|place| self.at(words, place)).map(|block| time(words, block)).min()
    }

    /// Adds a block.
    pub fn push(self, words: &mut Words, block: Address) -> Result<(), Full> {
        let length = self.len(words);
        if length == words.get(self.0) {
            Heap(self.0).enlarge(words)?;
        }
        words.set(self.0 + 1, length + 1)?;
        self.settle(words, length, block)
    }

    /// Removes a block.
    pub fn remove(self, words: &mut Words, block: Address) -> Result<(), Full> {
        let (place, last_place) = (words.get(block + PLACE), self.len(words) - 1);
        let last = words.get(words.get(self.0 + 2) + last_place);
        words.set(self.0 + 1, last_place)?;
        if place == last_place {
            return Ok(());
        }
        self.settle(words, place, last)
    }

    /// Changes the time of a block.
    pub fn set_time(self, words: &mut Words, block: Address, time: i64) -> Result<(), Full> {
        words.set64(block + AT, time as u64)?;
        self.settle(words, words.get(block + PLACE), block)
    }

    /// Moves a block up or down from a free place, or from its own, to its place in the heap.
    fn settle(self, words: &mut Words, mut place: u32, block: Address) -> Result<(), Full> {
        let (base, length) = (words.get(self.0 + 2), self.len(words));
        let own = key(words, block);
        while place > 0 {
            let parent = words.get(base + (place - 1) / 2);
            if key(words, parent) < own {
                break;
            }
            self.put(words, place, parent)?;
            place = (place - 1) / 2;
        }
        loop {
            let mut child = 2 * place + 1;
            if child >= length {
                break;
            }
            let mut earlier = words.get(base + child);
            if child + 1 < length {
                let second = words.get(base + child + 1);
                if key(words, second) < key(words, earlier) {
                    (child, earlier) = (child + 1, second);
                }
            }
            if own < key(words, earlier) {
                break;
            }
            self.put(words, place, earlier)?;
            place = child;
        }
        if words.get(base + place) == block && words.get(block + PLACE) == place {
            return Ok(());
        }
        self.put(words, place, block)
    }

    fn put(self, words: &mut Words, place: u32, block: Address) -> Result<(), Full> {
        words.set(words.get(self.0 + 2) + place, block)?;
        words.set(block + PLACE, place)
    }
}

/// Returns the time of a block.
#[inline]
pub(crate) fn time(words: &Words, block: Address) -> i64 {
    words.get64(block + AT) as i64
}

fn key(words: &Words, block: Address) -> (i64, u64) {
    (time(words, block), words.get64(block + ID))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_go_and_move_like_those_of_a_sorted_list() {
        let mut words = Words::new(1 << 24).unwrap();
        let order = Order(words.reserve(3).unwrap());
        let mut list: Vec<(i64, u64, Address)> = Vec::new();
        let mut random = 7_u64;
        for round in 1..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (random >> 40) as i64 % 97 - 48;
            let picked = (random >> 20) as usize % list.len().max(1);
            if random >> 63 == 0 || list.len() < 20 {
                let block = loop {
                    let block = words.reserve(REST).and_then(|block| {
                        words.set64(block + AT, at as u64)?;
                        words.set64(block + ID, round)?;
                        order.push(&mut words, block).map(|()| block)
                    });
                    match block {
                        Ok(block) => break block,
                        Err(full) => {
                            words.undo();
                            words.grow(full).unwrap();
                        }
                    }
                };
                list.push((at, round, block));
            } else if random >> 62 == 3 {
                list[picked].0 = at;
                order.set_time(&mut words, list[picked].2, at).unwrap();
            } else {
                let (_, _, block) = list.swap_remove(picked);
                order.remove(&mut words, block).unwrap();
            }
            words.commit().unwrap();
            let mut sorted = list.clone();
            sorted.sort_unstable();
            let first = order.first(&words).unwrap();
            assert_eq!(Some(first), sorted.first().map(|entry| entry.2));
            assert_eq!(order.first_time_without(&words, first), sorted.get(1).map(|entry| entry.0));
            assert_eq!(order.len(&words) as usize, list.len());
        }
    }
}
