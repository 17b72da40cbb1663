//! The set of slots that match: one bit each, and one bit for each 32 of these, so that a sparse set is read quickly.
//!
//! A word has 32 bits and the number of the search that they are of, and counts as empty in any other. So a set is
//! emptied at no cost, whatever an earlier search left in it, and setting a bit twice is the same as once.

use super::{grow, in_order};
use crate::dense::ones;
use crate::error::Error;
use crate::ids::{Row, ROW};
use crate::subscriptions::Slot;

const BITS: u32 = 32;

/// Slots of a group.
const GROUP: u32 = BITS * BITS;

/// So many groups are looked at at once for such as have slots.
const BLOCK: usize = 16;

/// A set of slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct SlotSet {
    groups: Vec<[u64; BITS as usize]>,
    /// For each group a bit for each of its words that has slots; whole blocks of them.
    summaries: Vec<u64>,
    search: u32,
}

/// The slots of a group, of the present search.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slots<'a> {
    /// The first slot of the group.
    pub first: Slot,
    summary: u64,
    words: &'a [u64; BITS as usize],
}

impl<'a> Slots<'a> {
    /// The words that have slots, ascending: the place of each, and its bits.
    #[inline(always)]
    pub fn words(self) -> impl Iterator<Item = (usize, u32)> + 'a {
        let Slots { summary, words, .. } = self;
        ones(u64::from(summary as u32)).map(|place| (place, words[place % BITS as usize] as u32))
    }
}

impl SlotSet {
    /// Makes room for slots below `slots`.
    pub fn reserve(&mut self, slots: usize) -> Result<(), Error> {
        let groups = slots.div_ceil(GROUP as usize);
        grow(&mut self.groups, groups)?;
        grow(&mut self.summaries, groups.next_multiple_of(BLOCK))
    }

    /// Empties the set for the next search.
    pub fn begin(&mut self) {
        if self.search == u32::MAX {
            self.groups.as_flattened_mut().fill(0);
            self.summaries.fill(0);
            in_order();
            self.search = 0;
        }
        self.search += 1;
    }

    #[inline(always)]
    pub fn insert(&mut self, slot: Slot) {
        self.insert_if(true, slot);
    }

    /// Inserts `slot` if `holds`, without a branch on that: it would often be guessed wrong. Nor by a call, which would save,
    /// restore and check the fuel: on W2 that takes 7 % of the whole search.
    #[inline(always)]
    pub fn insert_if(&mut self, holds: bool, slot: Slot) {
        self.insert_word(slot / BITS, u32::from(holds) << (slot % BITS));
    }

    /// Inserts the slots of a whole word, if there are any.
    #[inline(always)]
    pub fn insert_word(&mut self, word: u32, slots: u32) {
        let group = (word / BITS) as usize;
        set(&mut self.groups[group][(word % BITS) as usize], self.search, slots);
        set(&mut self.summaries[group], self.search, u32::from(slots != 0) << (word % BITS));
    }

    /// Inserts the slots whose bits are one in `bits`, the first of which stands for the slot `first`, a multiple of 64.
    pub fn insert_run(&mut self, first: Slot, bits: u64) {
        let word = first / BITS;
        self.insert_word(word, bits as u32);
        self.insert_word(word + 1, (bits >> BITS) as u32);
    }

    /// The slots from 32 times `word` on, a bit each.
    pub fn word(&self, word: u32) -> u32 {
        let group = self.groups.get((word / BITS) as usize);
        group.map_or(0, |words| bits(words[(word % BITS) as usize], self.search))
    }

    /// Gives the groups from `from` on that have slots, ascending, until `each` counted `limit` of these or a few more;
    /// answers the group to go on from, or none at the end.
    #[inline(always)]
    pub fn groups(&self, from: u32, limit: usize, mut each: impl FnMut(Slots) -> usize) -> Option<u32> {
        let (blocks, _) = self.summaries.as_chunks::<BLOCK>();
        let mut given = 0;
        let mut done_with = from as usize % BLOCK;
        for (number, block) in blocks.iter().enumerate().skip(from as usize / BLOCK) {
            for place in ones(self.occupied(block) >> done_with << done_with) {
                let group = number * BLOCK + place;
                if given >= limit {
                    return Some(group as u32);
                }
                let (summary, words) = (block[place % BLOCK], &self.groups[group]);
                given += each(Slots { first: group as u32 * GROUP, summary, words });
            }
            done_with = 0;
        }
        None
    }

    /// A bit for each group of a block that has slots.
    #[inline(always)]
    fn occupied(&self, block: &[u64; BLOCK]) -> u64 {
        let own = u64::from(self.search) << BITS;
        // What is of another search has bits above the lower half, and is passed over in the same way whatever it has there.
        let has_slots = |summary: u64| (summary ^ own).wrapping_sub(1) < u64::from(u32::MAX);
        (0..).zip(block).fold(0, |found, (place, &summary)| found | u64::from(has_slots(summary)) << place)
    }
}

/// From how many of 32 on it is quicker to write all than to choose.
const MANY: u32 = 10;

/// The places of the bits of a byte that are one, those first; then zeros.
const PLACES: [[u8; 8]; 256] = {
    let mut places = [[0; 8]; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut place, mut found) = (0, 0);
        while place < 8 {
            places[byte][found] = place;
            found += byte >> place & 1;
            place += 1;
        }
        byte += 1;
    }
    places
};

/// Writes to `to` the ids of the slots of a row whose bits are one, and tells how many these are.
#[inline(always)]
pub(crate) fn pick(bits: u32, row: &Row, to: &mut [u64]) -> usize {
    match row {
        Row::From(first) => pick_by(bits, |place| first.wrapping_add(place as u64), to),
        Row::Listed(ids) => pick_by(bits, |place| ids[place % ROW], to),
    }
}

#[inline(always)]
fn pick_by(bits: u32, id: impl Fn(usize) -> u64, to: &mut [u64]) -> usize {
    match to.first_chunk_mut() {
        Some(to) if bits.count_ones() >= MANY => pick_many(bits, id, to),
        _ => ones(u64::from(bits)).zip(to).map(|(place, to)| *to = id(place)).count(),
    }
}

/// Writes eight for each eight slots; what is too much is written over by the next, so that no branch depends on the bits.
#[inline]
fn pick_many(bits: u32, id: impl Fn(usize) -> u64, to: &mut [u64; ROW]) -> usize {
    let mut picked = 0;
    for (eight, byte) in (0..).step_by(8).zip(bits.to_le_bytes()) {
        if let Some(to) = to[picked..].first_chunk_mut::<8>() {
            *to = PLACES[usize::from(byte)].map(|place| id(eight + usize::from(place)));
        }
        picked += byte.count_ones() as usize;
    }
    picked
}

/// The bits of `word` that are of this search. Which bits another search had decides about no branch.
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
            assert_eq!(set.groups(0, 10, |group| panic!("{group:?}")), None);
            slots.iter().rev().chain(&slots).for_each(|&slot| set.insert(slot));
            for limit in [1, 3, 1000] {
                let mut given = Vec::new();
                let mut next = Some(0);
                while let Some(from) = next {
                    let mut count = 0;
                    next = set.groups(from, limit, |group| {
                        let before = given.len();
                        let words = group.words().map(|(place, bits)| (group.first + place as u32 * BITS, bits));
                        given.extend(words.flat_map(|(first, bits)| ones(bits.into()).map(move |i| first + i as u32)));
                        count += given.len() - before;
                        given.len() - before
                    });
                    assert!(next.is_none() || count >= limit);
                }
                assert_eq!(given, slots);
            }
        }
    }

    #[test]
    fn what_is_picked_is_where_bits_are_one() {
        let rows = [Row::From(100), Row::Listed(Box::new(std::array::from_fn(|place| 100 + place as u64)))];
        for bits in [0, 1, 1 << 31, 0x8000_0001, 0x0f0f_3333, u32::MAX - 1, u32::MAX] {
            let expected: Vec<u64> = (0..32).filter(|place| bits >> place & 1 == 1).map(|place| 100 + place).collect();
            for (row, room) in rows.iter().flat_map(|row| [(row, 64), (row, 32), (row, expected.len())]) {
                let mut to = vec![0; room];
                assert_eq!(pick(bits, row, &mut to), expected.len());
                assert_eq!(to[..expected.len()], expected);
            }
        }
    }
}
