//! A hash table of numbers, for callers that store the values of the numbers elsewhere.
//!
//! A slot of the table holds 32 bits of the hash beside the number. So one cache line identifies a number, except for one false
//! match in billions. The caller compares the value to be sure. The processor predicts the comparison correctly and does not
//! wait for it. The table holds strings and names, which are looked up for each event.

use crate::support::footprint::of_table;
use crate::support::headroom::ensure;

/// Numbers by hash. A slot has a number above 32 bits of its hash, or is 0 if it is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdTable {
    /// The slots: a power of two, or none. Linear probing: each number is in the slot of its hash, or after it with no empty slot
    /// in between.
    places: Vec<u64>,
    len: usize,
}

/// The maximal load factor, in eighths.
const MAX_LOAD_EIGHTHS: usize = 5;
/// The least number of slots.
const MIN_SLOTS: usize = 8;

impl IdTable {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number with this hash for which `is` is true.
    #[inline]
    pub fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_map(hash, |number| is(number).then_some(number))
    }

    /// Returns the first `Some` that `find` returns for a number with this hash.
    #[inline]
    pub fn find_map<T>(&self, hash: u64, find: impl Fn(u32) -> Option<T>) -> Option<T> {
        let mut at = hash as usize;
        loop {
            let place = *self.places.get(at & self.places.len().wrapping_sub(1))?;
            if place == 0 {
                return None;
            }
            if hash_in(place) == hash as u32 {
                if let Some(found) = find(number_in(place)) {
                    return Some(found);
                }
            }
            at = at.wrapping_add(1);
        }
    }

    /// Returns all numbers, in the order of the slots.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        self.places.iter().filter(|&&place| place != 0).map(|&place| number_in(place))
    }

    /// Adds `number`, which must be new and not the greatest `u32`.
    pub fn insert(&mut self, hash: u64, number: u32) {
        if 8 * (self.len + 1) > MAX_LOAD_EIGHTHS * self.places.len() {
            self.resize((2 * self.places.len()).max(MIN_SLOTS));
        }
        self.put(u64::from(number + 1) << 32 | u64::from(hash as u32));
        self.len += 1;
    }

    /// Changes the number of slots to `places`, a power of two with room for all numbers.
    fn resize(&mut self, places: usize) {
        let before = std::mem::replace(&mut self.places, vec![0; places]);
        before.into_iter().filter(|&place| place != 0).for_each(|place| self.put(place));
    }

    fn put(&mut self, place: u64) {
        let mask = self.places.len() - 1;
        let mut at = hash_in(place) as usize & mask;
        while self.places[at] != 0 {
            at = (at + 1) & mask;
        }
        self.places[at] = place;
    }

    /// Removes `number`, which must be in the table.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let mask = self.places.len() - 1;
        let mut free = hash as usize & mask;
        while number_in(self.places[free]) != number {
            free = (free + 1) & mask;
        }
        // Moves later numbers into the gap, unless that would put one before the slot of its hash.
        let mut at = free;
        loop {
            at = (at + 1) & mask;
            let place = self.places[at];
            if place == 0 {
                break;
            }
            let wanted = hash_in(place) as usize;
            if at.wrapping_sub(wanted) & mask >= at.wrapping_sub(free) & mask {
                self.places[free] = place;
                free = at;
            }
        }
        self.places[free] = 0;
        self.len -= 1;
        // If less than an eighth of the slots is taken, the table shrinks to a quarter. If memory is refused, it stays.
        let fewer = self.places.len() / 4;
        if 8 * self.len < self.places.len() && fewer >= MIN_SLOTS && ensure(size_of::<u64>() * fewer).is_ok() {
            self.resize(fewer);
        }
    }

    /// Replaces the number `from`, which must be in the table, by `to`, which must be new. Takes no memory.
    pub fn renumber(&mut self, hash: u64, from: u32, to: u32) {
        let mask = self.places.len() - 1;
        let mut at = hash as usize & mask;
        while number_in(self.places[at]) != from {
            at = (at + 1) & mask;
        }
        self.places[at] = u64::from(to + 1) << 32 | u64::from(hash as u32);
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.places)
    }

    /// Returns the bytes by which adding `more` numbers may grow the table.
    pub fn growth(&self, more: usize) -> usize {
        let fewest = (8 * (self.len + more)).div_ceil(MAX_LOAD_EIGHTHS);
        if fewest <= self.places.len() {
            return 0;
        }
        let places = fewest.next_power_of_two().max(MIN_SLOTS);
        // The table doubles repeatedly, and each time the old slots exist beside the new ones.
        let former = if places > 2 * self.places.len() { places } else { 0 };
        size_of::<u64>() * (places + former)
    }
}

fn hash_in(place: u64) -> u32 {
    place as u32
}

fn number_in(place: u64) -> u32 {
    ((place >> 32) as u32).wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Hashes that often collide, in all bits or in the bits that small tables use.
    fn hash() -> impl Strategy<Value = u64> {
        prop_oneof![0..4_u64, (0..4_u64, 0..3_u64).prop_map(|(low, high)| high << 30 | low | 0xffff_fffc), any::<u64>()]
    }

    proptest! {
        #[test]
        fn numbers_are_found_as_in_a_plain_list(changes in prop::collection::vec((any::<bool>(), hash()), 0..400)) {
            let mut numbers = IdTable::default();
            let mut plain = BTreeMap::new();
            for (position, (is_insertion, hash)) in changes.into_iter().enumerate() {
                if is_insertion {
                    let places = numbers.places.len();
                    let growth = numbers.growth(1);
                    numbers.insert(hash, position as u32);
                    prop_assert!(numbers.places.len() == places || growth >= 8 * numbers.places.len());
                    plain.insert(position as u32, hash);
                } else if let Some((number, hash)) = plain.pop_first() {
                    numbers.remove(hash, number);
                    prop_assert_eq!(numbers.find(hash, |found| found == number), None);
                }
                prop_assert_eq!(numbers.len(), plain.len());
                prop_assert_eq!(numbers.places.iter().filter(|&&place| place != 0).count(), plain.len());
                for (&number, &hash) in &plain {
                    prop_assert_eq!(numbers.find(hash, |found| found == number), Some(number));
                    prop_assert_eq!(numbers.find(hash, |_| false), None);
                }
            }
        }
    }
}
