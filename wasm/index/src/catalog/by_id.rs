//! The slots by id. While the ids of all slots ascend, as they do if they count the insertions, their order finds a slot. The
//! first insertion that breaks the order brings a table, which then stays.

use hashbrown::HashTable;

use crate::catalog::ids::Ids;
use crate::handles::Slot;
use crate::support::hash::hash_of;
use crate::support::headroom::{table_growth, AROUND};

/// The table of held slots by the hash of their ids, if there is one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ById(Option<HashTable<Slot>>);

impl ById {
    /// Returns the slot with this id. Without a table it may be a free one, and ids must ascend.
    pub fn find(&self, id: u64, ids: &Ids) -> Option<Slot> {
        match &self.0 {
            Some(table) => table.find(hash_of(&id), |&slot| ids.get(slot) == id).copied(),
            None => in_order(id, ids),
        }
    }

    pub fn is_table(&self) -> bool {
        self.0.is_some()
    }

    /// Makes a table of the `held` slots, `len` of them, with room for one more, unless there is one. [`ById::growth`] has its
    /// memory.
    pub fn tabulate(&mut self, held: impl Iterator<Item = Slot>, len: usize, ids: &Ids) {
        if self.0.is_none() {
            self.0 = Some(HashTable::with_capacity(len + 1));
            held.for_each(|slot| self.insert(slot, ids));
        }
    }

    /// Adds a slot to the table, if there is one.
    pub fn insert(&mut self, slot: Slot, ids: &Ids) {
        if let Some(table) = &mut self.0 {
            table.insert_unique(hash_of(&ids.get(slot)), slot, |&slot| hash_of(&ids.get(slot)));
        }
    }

    /// Removes a slot from the table, if there is one. Takes no memory.
    pub fn remove(&mut self, slot: Slot, ids: &Ids) {
        let entry = self.0.as_mut().map(|table| table.find_entry(hash_of(&ids.get(slot)), |&held| held == slot));
        if let Some(Ok(entry)) = entry {
            entry.remove();
        }
    }

    /// Returns the bytes that one more slot may request. `len` are held, and the ids of all slots ascend afterwards or do not.
    pub fn growth(&self, len: usize, stays_ascending: bool) -> usize {
        match &self.0 {
            Some(table) => table_growth(table, 1),
            None if stays_ascending => 0,
            None => table_growth(&HashTable::<Slot>::new(), len + 1) + AROUND,
        }
    }
}

/// Returns the slot with this id among ids that ascend with slots.
fn in_order(id: u64, ids: &Ids) -> Option<Slot> {
    let id_at = |position: usize| ids.get(Slot::from_index(position));
    let last = ids.len().checked_sub(1)?;
    let distance = id.checked_sub(id_at(0))?;
    // The position if all ids up to this one are consecutive, as most are. It cannot be behind.
    let farthest = usize::try_from(distance).map_or(last, |distance| distance.min(last));
    let (mut from, mut to) = (0, farthest);
    if id_at(farthest) <= id {
        from = farthest;
    }
    while from < to {
        let middle = (from + to) / 2;
        match id_at(middle) < id {
            true => from = middle + 1,
            false => to = middle,
        }
    }
    (id_at(from) == id).then_some(Slot::from_index(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    #[test]
    fn slots_are_found_with_and_without_a_table() {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let (mut ids, mut plain) = (Ids::default(), Vec::new());
            let mut next = random.pick(&[0, 1, 1000, u64::MAX - 500]);
            for _ in 0..random.below(100) {
                ids.push(next);
                plain.push(next);
                next += 1 + random.pick(&[0, 0, 0, 1, 3]);
            }
            let mut by_id = ById::default();
            let mut table = ById::default();
            table.tabulate((0..plain.len()).map(Slot::from_index), plain.len(), &ids);
            by_id.insert(Slot::from_index(0), &ids);
            for id in (0..700).chain(900..1500).chain(u64::MAX - 600..=u64::MAX) {
                let expected = plain.iter().position(|&other| other == id).map(Slot::from_index);
                assert_eq!((by_id.find(id, &ids), table.find(id, &ids)), (expected, expected), "{id} in {plain:?}");
            }
        }
    }
}
