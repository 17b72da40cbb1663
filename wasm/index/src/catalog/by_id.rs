//! Finds a slot by its id. Before the tail, ids ascend with slots, so a search by order finds the slot (`order.rs`). A hash table
//! holds the slots of the tail.

use hashbrown::HashTable;

use crate::catalog::order::Order;
use crate::handles::Slot;
use crate::support::footprint::of_hash_table;
use crate::support::hash::hash_of;
use crate::support::headroom::table_growth;

/// The held slots of the tail, by the hash of their ids.
#[derive(Clone, Debug)]
pub(crate) struct ById {
    /// `None` after [`ById::drop_table`]. Look-ups then compare every slot of the tail.
    table: Option<HashTable<Slot>>,
}

impl Default for ById {
    fn default() -> Self {
        ById { table: Some(HashTable::new()) }
    }
}

impl ById {
    /// Returns the held slot with this id.
    pub fn find(&self, id: u64, order: &Order, is_held: impl Fn(Slot) -> bool) -> Option<Slot> {
        let has_id = |slot: Slot| order.id(slot) == id;
        let before = order.find(id).filter(|&slot| is_held(slot));
        before.or_else(|| match &self.table {
            Some(table) => table.find(hash_of(&id), |&slot| has_id(slot)).copied(),
            None => order.tail_slots().find(|&slot| is_held(slot) && has_id(slot)),
        })
    }

    /// Adds a slot, if it belongs to the tail.
    pub fn insert(&mut self, slot: Slot, order: &Order) {
        if let Some(table) = self.table.as_mut().filter(|_| slot >= order.tail()) {
            table.insert_unique(hash_of(&order.id(slot)), slot, |&slot| hash_of(&order.id(slot)));
        }
    }

    /// Removes a slot, if it belongs to the tail. Takes no memory.
    pub fn remove(&mut self, slot: Slot, order: &Order) {
        let table = self.table.as_mut().filter(|_| slot >= order.tail());
        let entry = table.map(|table| table.find_entry(hash_of(&order.id(slot)), |&held| held == slot));
        if let Some(Ok(entry)) = entry {
            entry.remove();
        }
    }

    /// Drops the table, because the tail now begins earlier, or one of its slots has a new id. Takes no memory.
    pub fn drop_table(&mut self) {
        self.table = None;
    }

    /// Returns whether [`ById::find`] compares all slots of the tail.
    pub fn is_slow(&self) -> bool {
        self.table.is_none()
    }

    /// Returns the heap bytes of the table.
    pub fn heap_bytes(&self) -> usize {
        self.table.as_ref().map_or(0, of_hash_table)
    }

    /// Returns the bytes that one more slot may request.
    pub fn growth(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table_growth(table, 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;

    #[test]
    fn slots_are_found_before_the_tail_and_in_it() {
        let mut random = Random::new(3);
        for _ in 0..200 {
            let (mut order, mut by_id, mut ids) = (Order::default(), ById::default(), Vec::new());
            let mut next = random.pick(&[0, 1, 1000, u64::MAX - 900]);
            for _ in 0..random.below(100) {
                ids.push(next);
                next += 1 + random.pick(&[0, 0, 0, 1, 3]);
            }
            let before = random.below(ids.len() + 1);
            random.shuffle(&mut ids[before..]);
            for (position, &id) in ids.iter().enumerate() {
                let slot = Slot::from_index(position);
                order.insert(slot, id);
                by_id.insert(slot, &order);
            }
            let free = Slot::from_index(random.below(ids.len().max(1)));
            if !ids.is_empty() {
                by_id.remove(free, &order);
            }
            let mut slow = by_id.clone();
            slow.drop_table();
            for id in (0..500).chain(900..1500).chain(u64::MAX - 1000..=u64::MAX) {
                let slot = ids.iter().position(|&other| other == id).map(Slot::from_index);
                let expected = slot.filter(|&slot| slot != free);
                let found = [&by_id, &slow].map(|by_id| by_id.find(id, &order, |slot| slot != free));
                assert_eq!(found, [expected; 2], "{id} in {ids:?}");
            }
        }
    }
}
