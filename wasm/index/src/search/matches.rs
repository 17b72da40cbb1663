//! A slot set has one bit for each matching slot. A summary bit for each 32 of these makes sparse sets fast to read.
//!
//! A word has 32 bits of slots and, above them, the number of the search that wrote it. Every other search reads it as empty, so
//! clearing the set is free. Search numbers ascend, so the value of a word in the present search is the maximum of the word and
//! the present empty word. That takes no branch, and setting a bit is idempotent.

use crate::error::Error;
use crate::handles::Slot;
use crate::support::bits::ones;
use crate::support::checkpoint::in_order;
use crate::support::headroom::grow;

const BITS: u32 = Slot::IN_WORD;

/// The empty word of the first search, and the increment for each further search.
const SEARCH: u64 = 1 << BITS;
/// The empty word of the last search.
const LAST: u64 = u64::MAX << BITS;

/// The number of slots in a group.
pub(super) const GROUP: u32 = BITS * BITS;

/// The number of groups that are checked for slots at once.
const BLOCK: usize = 16;

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    groups: Vec<[u64; BITS as usize]>,
    /// For each group, a bit for each word that has slots. The length is a multiple of [`BLOCK`].
    summaries: Vec<u64>,
    /// The empty word of the present search.
    empty: u64,
    /// The number of blocks that have slots of the present index. The set may have room for a larger index.
    blocks: usize,
}

/// The slots of a group in the present search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<'a> {
    /// The first slot of the group.
    pub first: Slot,
    summary: u64,
    words: &'a [u64; BITS as usize],
}

impl<'a> Slots<'a> {
    /// Returns the words that have slots, ascending, each with its place.
    #[inline(always)]
    pub fn words(self) -> impl Iterator<Item = (usize, u32)> + 'a {
        let Slots { summary, words, .. } = self;
        ones(u64::from(summary as u32)).map(|place| (place, words[place % BITS as usize] as u32))
    }

    /// Returns the number of slots below `end`.
    pub fn count_below(self, end: Slot) -> u32 {
        let (word, bit) = Slot::from_index(end.index() - self.first.index()).in_set();
        let counts = self.words().map(|(place, bits)| match place as u32 {
            place if place < word => bits.count_ones(),
            place if place == word => (bits & ((1 << bit) - 1)).count_ones(),
            _ => 0,
        });
        counts.sum()
    }
}

impl SlotSet {
    /// Makes room for slots below `slots`.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        let groups = slots.div_ceil(GROUP as usize);
        grow(&mut self.groups, groups)?;
        grow(&mut self.summaries, groups.next_multiple_of(BLOCK))
    }

    pub fn has_room(&self, slots: usize) -> bool {
        slots <= self.groups.len() * GROUP as usize
    }

    /// Clears the set for the next search, in an index with `slots` slots.
    pub fn begin(&mut self, slots: usize) {
        self.blocks = slots.div_ceil(BLOCK * GROUP as usize);
        if self.empty == LAST {
            self.groups.as_flattened_mut().fill(0);
            self.summaries.fill(0);
            in_order();
            self.empty = 0;
        }
        self.empty += SEARCH;
    }

    #[inline(always)]
    pub fn insert(&mut self, slot: Slot) {
        self.insert_if(true, slot);
    }

    /// Inserts `slot` if `holds`, without a branch on `holds`, which would often be mispredicted. It is inlined because a
    /// call saves, restores and checks the fuel: that takes 7 % of a whole search among arbitrary expressions over sparse
    /// attributes.
    #[inline(always)]
    pub fn insert_if(&mut self, holds: bool, slot: Slot) {
        let (word, bit) = slot.in_set();
        self.add(word, u64::from(holds) << bit, holds);
    }

    /// Inserts the slots of a whole word, if there are any.
    #[inline(always)]
    pub fn insert_word(&mut self, word: u32, slots: u32) {
        self.add(word, slots.into(), slots != 0);
    }

    /// Adds bits to a word, and sets its summary bit if there are `any`.
    #[inline(always)]
    fn add(&mut self, word: u32, bits: u64, any: bool) {
        let (group, place) = ((word / BITS) as usize, word % BITS);
        let held = &mut self.groups[group][place as usize];
        *held = (*held).max(self.empty) | bits;
        let summary = &mut self.summaries[group];
        *summary = (*summary).max(self.empty) | u64::from(any) << place;
    }

    /// Inserts the slots whose bits are one. The first bit stands for the slot `first`, a multiple of 64.
    pub fn insert_run(&mut self, first: Slot, bits: u64) {
        let (word, _) = first.in_set();
        self.insert_word(word, bits as u32);
        self.insert_word(word + 1, (bits >> BITS) as u32);
    }

    /// Returns the bits of the 32 slots from `32 * word` on.
    pub fn word(&self, word: u32) -> u32 {
        let group = self.groups.get((word / BITS) as usize);
        group.map_or(0, |words| words[(word % BITS) as usize].max(self.empty) as u32)
    }

    /// Returns whether `slot` is in the set.
    pub fn has(&self, slot: Slot) -> bool {
        let (word, bit) = slot.in_set();
        self.word(word) >> bit & 1 == 1
    }

    /// Calls `each` with the nonempty groups from `from` on, ascending, until the sum of its results reaches `limit`.
    /// Returns the group from which to continue, or `None` at the end.
    #[inline(always)]
    pub fn groups(&self, from: u32, limit: usize, mut each: impl FnMut(Slots) -> usize) -> Option<u32> {
        let (blocks, _) = self.summaries.as_chunks::<BLOCK>();
        let mut given = 0;
        let mut done_with = from as usize % BLOCK;
        for (number, block) in blocks.iter().enumerate().take(self.blocks).skip(from as usize / BLOCK) {
            for place in ones(self.occupied(block) >> done_with << done_with) {
                let group = number * BLOCK + place;
                if given >= limit {
                    return Some(group as u32);
                }
                let (summary, words) = (block[place % BLOCK], &self.groups[group]);
                given += each(Slots { first: Slot::from_index(group * GROUP as usize), summary, words });
            }
            done_with = 0;
        }
        None
    }

    /// Returns a bit for each group of a block that has slots.
    #[inline(always)]
    fn occupied(&self, block: &[u64; BLOCK]) -> u64 {
        (0..).zip(block).fold(0, |found, (place, &summary)| found | u64::from(summary > self.empty) << place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_ascending_and_in_pieces_and_are_gone_in_the_next_search() {
        let slots = [0, 1, 31, 32, 1023, 1024, 70_000, 99_999].map(Slot::from_index);
        let mut set = SlotSet::default();
        set.reserve(100_000).unwrap();
        for search in [0, LAST - SEARCH, LAST] {
            set.empty = search;
            set.begin(100_000);
            assert_eq!(set.groups(0, 10, |group| panic!("{group:?}")), None);
            slots.iter().rev().chain(&slots).for_each(|&slot| set.insert(slot));
            for limit in [1, 3, 1000] {
                let mut given = Vec::new();
                let mut next = Some(0);
                while let Some(from) = next {
                    let mut count = 0;
                    next = set.groups(from, limit, |group| {
                        let before = given.len();
                        let (first, _) = group.first.in_set();
                        let words = group.words().map(|(place, bits)| (first + place as u32, bits));
                        if first == 0 {
                            let below = |end: usize| slots.iter().filter(|slot| slot.index() < end).count() as u32;
                            [0, 1, 31, 32, 33, 1023].into_iter().for_each(|end| {
                                assert_eq!(group.count_below(Slot::from_index(end)), below(end));
                            });
                        }
                        let slots =
                            |(word, bits): (u32, u32)| ones(bits.into()).map(move |i| Slot::of_set(word, i as u32));
                        given.extend(words.flat_map(slots));
                        count += given.len() - before;
                        given.len() - before
                    });
                    assert!(next.is_none() || count >= limit);
                }
                assert_eq!(given, slots);
            }
        }
    }
}
