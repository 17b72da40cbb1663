//! Open-addressing hash tables in words, from hashes to addresses.

use crate::memory::{Address, Full, Words};

/// A table, given by the address of its three words: capacity, number of entries, and address of the places. A place is a hash and
/// a value. The value 0 marks a free place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Table(pub Address);

impl Table {
    pub const SIZE: u32 = crate::layout::TABLE;

    /// Returns whether the table has no entries.
    #[inline(always)]
    pub fn is_empty(self, words: &Words) -> bool {
        words.get(self.0 + 1) == 0
    }

    /// Returns the place and the value of the entry with this hash that `is` accepts.
    #[inline]
    pub fn find(self, words: &Words, hash: u32, is: impl Fn(u32) -> bool) -> Option<(Address, u32)> {
        let [places, _, base] = words.get_part(self.0);
        if places == 0 {
            return None;
        }
        let mut place = hash & (places - 1);
        loop {
            let at = base + 2 * place;
            let [found, value] = words.get_part(at);
            if value == 0 {
                return None;
            }
            if found == hash && is(value) {
                return Some((at, value));
            }
            place = (place + 1) & (places - 1);
        }
    }

    /// Returns the address of the value in the first probed place of a hash, or 0 in a table without places.
    #[inline(always)]
    pub fn value_at(self, words: &Words, hash: u32) -> Address {
        match words.get(self.0) {
            0 => 0,
            places => words.get(self.0 + 2) + 2 * (hash & (places - 1)) + 1,
        }
    }

    /// Returns the place and the value of the first entry with this hash, or a free place and 0.
    #[inline]
    pub fn place(self, words: &Words, hash: u32) -> (Address, u32) {
        let [places, _, base] = words.get_part(self.0);
        if places == 0 {
            return (0, 0);
        }
        let mut place = hash & (places - 1);
        loop {
            let at = base + 2 * place;
            let [found, value] = words.get_part(at);
            if value == 0 || found == hash {
                return (at, value);
            }
            place = (place + 1) & (places - 1);
        }
    }

    /// Adds an entry.
    pub fn insert(self, words: &mut Words, hash: u32, value: u32) -> Result<(), Full> {
        let (places, base) = (words.get(self.0), words.get(self.0 + 2));
        let at = if places == 0 { 0 } else { free_place(words, base, places, hash) };
        self.fill(words, at, hash, value)
    }

    /// Adds an entry in the free place at which its probe ended.
    #[inline]
    pub fn fill(self, words: &mut Words, mut at: Address, hash: u32, value: u32) -> Result<(), Full> {
        let [places, entries] = words.get_part(self.0);
        if 4 * (entries + 1) > 3 * places {
            self.enlarge(words)?;
            at = free_place(words, words.get(self.0 + 2), words.get(self.0), hash);
        }
        words.set(self.0 + 1, entries + 1)?;
        words.set_part(at, [hash, value])
    }

    /// Doubles the capacity.
    fn enlarge(self, words: &mut Words) -> Result<(), Full> {
        let (before, old) = (words.get(self.0), words.get(self.0 + 2));
        let places = (2 * before).max(8);
        let base = words.allocate(2 * places)?;
        words.clear(base, 2 * places);
        for place in 0..before {
            let [hash, value] = words.get_part(old + 2 * place);
            if value != 0 {
                let at = free_place(words, base, places, hash);
                words.raw_part(at, [hash, value]);
            }
        }
        if before > 0 {
            words.free(old, 2 * before)?;
        }
        words.set(self.0, places)?;
        words.set(self.0 + 2, base)
    }

    /// Removes the entry at this place, and shifts later entries of the probe sequence back (no tombstones).
    pub fn remove(self, words: &mut Words, at: Address) -> Result<(), Full> {
        let [places, entries, base] = words.get_part(self.0);
        words.set(self.0 + 1, entries - 1)?;
        let mut gap = (at - base) / 2;
        let mut place = gap;
        loop {
            place = (place + 1) & (places - 1);
            let [hash, value] = words.get_part(base + 2 * place);
            if value == 0 {
                return words.set(base + 2 * gap + 1, 0);
            }
            // An entry may move into the gap unless the gap lies before its first probed place.
            let distance = place.wrapping_sub(hash) & (places - 1);
            if distance >= (place.wrapping_sub(gap) & (places - 1)) {
                words.set_part(base + 2 * gap, [hash, value])?;
                gap = place;
            }
        }
    }
}

fn free_place(words: &Words, base: Address, places: u32, hash: u32) -> Address {
    let mut place = hash & (places - 1);
    while words.get(base + 2 * place + 1) != 0 {
        place = (place + 1) & (places - 1);
    }
    base + 2 * place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_and_go_like_those_of_a_list() {
        let mut words = Words::new(1 << 24).unwrap();
        let table = Table(words.reserve(Table::SIZE).unwrap());
        let mut list: Vec<(u32, u32)> = Vec::new();
        let mut random = 7_u64;
        for round in 1..20_000_u32 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let hash = (random >> 40) as u32 % 97;
            if random >> 63 == 0 || list.len() < 20 {
                while let Err(full) = table.insert(&mut words, hash, round) {
                    words.undo();
                    words.grow(full).unwrap();
                }
                list.push((hash, round));
            } else {
                let (hash, value) = list.swap_remove((random >> 20) as usize % list.len());
                let (at, _) = table.find(&words, hash, |found| found == value).unwrap();
                table.remove(&mut words, at).unwrap();
                assert!(table.find(&words, hash, |found| found == value).is_none());
            }
            words.commit().unwrap();
        }
        for (hash, value) in list {
            assert!(table.find(&words, hash, |found| found == value).is_some());
        }
    }
}
