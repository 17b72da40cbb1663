//! The order of ids. A search finds matches by slot and returns their ids in ascending order. So ids ascend with slots, except in
//! the *tail*, the last slots. A search sorts the ids of the tail and merges them with the others.
//!
//! A new subscription takes the most recently freed slot, if that slot is in the tail or ids still ascend then. Otherwise it
//! takes a new slot, which begins the tail unless its id is the greatest and there is no tail.
//!
//! A long tail or many free slots cause an arrangement: all subscriptions move to the first slots, in the order of their ids.
//! Its time is linear in their number, and so is the number of insertions between two arrangements.

use crate::catalog::ids::{Ids, Row, ROW};
use crate::error::Error;
use crate::handles::Slot;
use crate::support::hash::out_of_memory;
use crate::support::headroom::{ensure, AROUND};
use crate::support::heap_sort::sort;

/// Subscriptions are arranged when the tail has more than `held / TAIL_SHARE + MORE_IN_TAIL` slots.
const TAIL_SHARE: usize = 16;
const MORE_IN_TAIL: usize = 256;
/// Subscriptions are arranged when more than `held / FREE_SHARE + MORE_FREE` slots are free.
const FREE_SHARE: usize = 4;
const MORE_FREE: usize = 64;

/// The ids of all slots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// A free slot keeps its last id.
    ids: Ids,
    /// The first slot of the tail: the ids of the slots before it ascend, those of free slots included.
    tail: usize,
    /// The number of insertions before the next arrangement is tried, after memory for one was refused. Meanwhile insertions
    /// reuse free slots in any order, so that the tables do not grow.
    pause: usize,
}

/// New slots for all subscriptions.
#[derive(Debug)]
pub(crate) struct Arrangement {
    /// The new slot of each former slot, or [`Slot::NONE`] for a free one.
    to: Vec<Slot>,
    ids: Ids,
}

impl Order {
    /// Returns whether the ids of all slots ascend.
    pub fn is_ascending(&self) -> bool {
        self.tail == self.ids.len()
    }

    /// Returns the first slot of the tail, or the next new slot if there is no tail.
    pub fn tail(&self) -> Slot {
        Slot::from_index(self.tail)
    }

    /// Returns the slots of the tail.
    pub fn tail_slots(&self) -> impl Iterator<Item = Slot> {
        (self.tail..self.ids.len()).map(Slot::from_index)
    }

    /// Returns the slot before the tail with this id. It may be free.
    pub fn find(&self, id: u64) -> Option<Slot> {
        let id_at = |position: usize| self.ids.get(Slot::from_index(position));
        let last = self.tail.checked_sub(1)?;
        let distance = id.checked_sub(id_at(0))?;
        // The greatest possible position: that of `id` if all ids before it are consecutive, as most are.
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

    /// Returns the id of `slot`.
    pub fn id(&self, slot: Slot) -> u64 {
        self.ids.get(slot)
    }

    /// Returns the ids from slot `first` on, a multiple of 1,024. They cover at least 1,024 slots, or all remaining ones.
    #[inline(always)]
    pub fn rows(&self, first: Slot) -> &[Row] {
        self.ids.rows(first)
    }

    /// Returns the id of the last slot before the tail, or 0.
    pub fn last(&self) -> u64 {
        self.tail.checked_sub(1).map_or(0, |last| self.ids.get(Slot::from_index(last)))
    }

    /// Returns an upper bound of all ids, if they ascend.
    pub fn greatest(&self) -> Option<u64> {
        self.is_ascending().then(|| self.last())
    }

    /// Returns whether the free `slot` may have this id: it is in the tail, or the ids before the tail still ascend then.
    pub fn fits(&self, slot: Slot, id: u64) -> bool {
        let id_at = |position: usize| self.ids.get(Slot::from_index(position));
        let position = slot.index();
        let follows = || position == 0 || id_at(position - 1) < id;
        let precedes = || position + 1 >= self.tail || id < id_at(position + 1);
        position >= self.tail || follows() && precedes()
    }

    /// Returns whether all ids ascend if `slot`, which is free or the next new slot, has this id.
    pub fn stays_ascending(&self, slot: Slot, id: u64) -> bool {
        match slot.index() {
            _ if !self.is_ascending() => false,
            0 if self.ids.len() == 0 => true,
            end if end == self.ids.len() => self.last() < id,
            _ => self.fits(slot, id),
        }
    }

    /// Assigns an id to `slot`, which is free or the next new slot.
    pub fn insert(&mut self, slot: Slot, id: u64) {
        self.pause = self.pause.saturating_sub(1);
        if slot.index() == self.ids.len() {
            self.tail += usize::from(self.stays_ascending(slot, id));
            self.ids.push(id);
        } else {
            self.set(slot, id);
        }
    }

    /// Changes the id of `slot`. If the ids before the tail no longer ascend, the tail now begins at `slot`.
    pub fn set(&mut self, slot: Slot, id: u64) {
        if !self.fits(slot, id) {
            self.tail = slot.index();
        }
        self.ids.set(slot, id);
    }

    /// Returns the bytes that the ids take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.ids.heap_bytes()
    }

    /// Returns the bytes that inserting one id may allocate.
    pub fn growth(&self) -> usize {
        self.ids.growth(1)
    }

    /// Returns whether `held` subscriptions should be arranged.
    pub fn is_due(&self, held: usize) -> bool {
        let (tail, free) = (self.ids.len() - self.tail, self.ids.len() - held);
        let is_due = tail > held / TAIL_SHARE + MORE_IN_TAIL || free > held / FREE_SHARE + MORE_FREE;
        is_due && !self.is_paused()
    }

    /// Postpones the next arrangement until more ids are inserted.
    pub fn postpone(&mut self) {
        self.pause = self.ids.len() / TAIL_SHARE + MORE_IN_TAIL;
    }

    /// Returns whether the next arrangement is postponed.
    pub fn is_paused(&self) -> bool {
        self.pause > 0
    }

    /// Returns new slots for the subscriptions, whose slots `is_held` accepts.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn arrangement(&self, is_held: impl Fn(Slot) -> bool) -> Result<Arrangement, Error> {
        let len = self.ids.len();
        let slots = self.sorted(is_held)?;
        let mut to = Vec::new();
        to.try_reserve_exact(len).map_err(out_of_memory)?;
        to.resize(len, Slot::NONE);
        (0..).zip(&slots).for_each(|(new, slot)| to[slot.index()] = Slot::from_index(new));

        let is_listed = |row: &&[Slot]| row.windows(2).any(|pair| self.id(pair[1]) != self.id(pair[0]).wrapping_add(1));
        let listed = slots.chunks(ROW).filter(is_listed).count();
        ensure(Ids::bytes(slots.len(), listed) + (listed + len.div_ceil(ROW)) * AROUND)?;
        let mut ids = Ids::default();
        slots.iter().for_each(|&slot| ids.push(self.id(slot)));
        Ok(Arrangement { to, ids })
    }

    /// Returns the slots of all subscriptions in the order of their ids.
    fn sorted(&self, is_held: impl Fn(Slot) -> bool) -> Result<Vec<Slot>, Error> {
        let mut others = Vec::new();
        others.try_reserve_exact(self.ids.len() - self.tail).map_err(out_of_memory)?;
        others.extend(self.tail_slots().filter(|&slot| is_held(slot)));
        sort(&mut others, |one, other| self.id(*one) < self.id(*other));

        let mut slots = Vec::new();
        slots.try_reserve_exact(self.ids.len()).map_err(out_of_memory)?;
        slots.extend((0..self.tail).map(Slot::from_index).filter(|&slot| is_held(slot)));
        // Merges backwards, so that no slot is overwritten before it is moved.
        let mut left = slots.len();
        slots.resize(left + others.len(), Slot::NONE);
        for (number, &other) in others.iter().enumerate().rev() {
            while left > 0 && self.id(slots[left - 1]) > self.id(other) {
                slots[left + number] = slots[left - 1];
                left -= 1;
            }
            slots[left + number] = other;
        }
        Ok(slots)
    }

    /// Adopts the ids of an arrangement.
    pub fn arrange(&mut self, ids: Ids) {
        self.tail = ids.len();
        self.ids = ids;
    }

    /// Checks that ids ascend before the tail. For tests.
    pub fn validate(&self) -> Result<(), String> {
        let id_at = |slot: usize| self.ids.get(Slot::from_index(slot));
        match (1..self.tail).find(|&slot| id_at(slot - 1) >= id_at(slot)) {
            Some(slot) => Err(format!("the id at slot {slot} does not ascend")),
            None => Ok(()),
        }
    }
}

impl Arrangement {
    /// Returns the new slot of a subscription.
    pub fn slot(&self, former: Slot) -> Slot {
        self.to[former.index()]
    }

    /// Moves each element of a table to its new slot. `swap` exchanges two elements. Returns the ids, by slot.
    pub fn apply(self, mut swap: impl FnMut(usize, usize)) -> Ids {
        let Arrangement { mut to, ids } = self;
        for position in 0..to.len() {
            // Each exchange puts one element into its final position.
            while to[position] != Slot::NONE && to[position].index() != position {
                let place = to[position].index();
                swap(position, place);
                to.swap(position, place);
            }
        }
        ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;
    use std::collections::BTreeMap;

    /// A model of [`crate::catalog::subscriptions`]: ids with their slots, and the free slots.
    #[derive(Default)]
    struct Held {
        order: Order,
        slots: BTreeMap<u64, Slot>,
        free: Vec<Slot>,
    }

    impl Held {
        fn insert(&mut self, id: u64) {
            let end = Slot::from_index(self.order.ids.len());
            let free = self.free.pop_if(|slot| self.order.fits(*slot, id) || self.order.is_paused());
            let slot = free.unwrap_or(end);
            let ascends = self.order.stays_ascending(slot, id);
            self.order.insert(slot, id);
            assert_eq!(self.order.is_ascending(), ascends);
            self.slots.insert(id, slot);
        }

        fn delete(&mut self, id: u64) {
            self.free.extend(self.slots.remove(&id));
        }

        fn arrange(&mut self) {
            let mut held = vec![false; self.order.ids.len()];
            self.slots.values().for_each(|slot| held[slot.index()] = true);
            let arrangement = self.order.arrangement(|slot| held[slot.index()]).unwrap();
            self.slots.values_mut().for_each(|slot| *slot = arrangement.slot(*slot));
            let mut ids: Vec<u64> = (0..held.len()).map(|slot| self.order.id(Slot::from_index(slot))).collect();
            let arranged = arrangement.apply(|one, other| ids.swap(one, other));
            assert!(ids[..self.slots.len()].iter().eq(self.slots.keys()));
            self.order.arrange(arranged);
            self.free.clear();
            assert!(self.order.is_ascending() && !self.order.is_due(self.slots.len()));
            assert!(self.slots.values().enumerate().all(|(position, slot)| slot.index() == position));
        }

        fn check(&self) {
            self.order.validate().unwrap();
            assert!(self.slots.iter().all(|(&id, &slot)| self.order.id(slot) == id));
            let (held, len) = (self.slots.len(), self.order.ids.len());
            assert_eq!(held + self.free.len(), len);
            // Bounds the ids that a search sorts, and the slots for which it has room.
            assert!(len - self.order.tail <= held / TAIL_SHARE + MORE_IN_TAIL + 1);
            assert!(len <= held + held / FREE_SHARE + MORE_FREE + 1);
        }
    }

    #[test]
    fn ids_keep_an_order_through_any_changes() {
        for seed in 0..20 {
            let random = &mut Random::new(seed);
            let mut held = Held::default();
            let (mut next, mut arranged) = (0, 0);
            for _ in 0..3_000 {
                let id = match (seed % 4, random.below(100)) {
                    // Ascending ids, reused ids, random ids, and a mix of all three.
                    (0, _) | (3, 0..40) => {
                        next += 1;
                        next
                    }
                    (1, _) | (3, 40..80) => random.below(1_000) as u64,
                    _ => random.next() >> 24,
                };
                if !held.slots.contains_key(&id) {
                    held.insert(id);
                }
                if held.order.is_due(held.slots.len()) {
                    held.arrange();
                    arranged += 1;
                }
                if random.chance(2) {
                    held.check();
                }
                if held.slots.len() > 400 || random.chance(10) {
                    let gone = *held.slots.keys().nth(random.below(held.slots.len())).unwrap();
                    held.delete(gone);
                }
            }
            assert!(arranged > 1, "{seed}");
        }
    }

    #[test]
    fn ascending_ids_leave_free_slots_and_others_begin_a_tail() {
        let mut held = Held::default();
        (0..1_000).for_each(|id| held.insert(2 * id));
        assert_eq!((held.order.is_ascending(), held.order.greatest()), (true, Some(1_998)));
        held.delete(500);
        held.insert(3_000);
        assert!(held.order.is_ascending() && held.free.len() == 1);
        // An id takes the free slot if it is the former one or the ids still ascend.
        held.insert(501);
        assert!(held.order.is_ascending() && held.free.is_empty());
        held.insert(7);
        assert_eq!((held.order.is_ascending(), held.order.greatest(), held.order.last()), (false, None, 3_000));
        held.insert(4_000);
        assert_eq!(held.order.tail().index(), 1_001);
        held.delete(7);
        // A free slot of the tail takes any id.
        held.insert(9);
        assert!(held.free.is_empty());
        held.arrange();
        held.check();
    }

    #[test]
    fn without_memory_for_an_arrangement_free_slots_take_any_id() {
        let mut held = Held::default();
        (0..1_000).for_each(|id| held.insert(id));
        held.order.postpone();
        held.delete(300);
        held.insert(5_000);
        assert_eq!((held.order.tail().index(), held.order.ids.len()), (300, 1_000));
        held.order.validate().unwrap();
        while held.order.is_paused() {
            let id = 6_000 + held.order.pause as u64;
            assert!(!held.order.is_due(held.slots.len()));
            held.insert(id);
            held.delete(id);
        }
        assert!(held.order.is_due(held.slots.len()));
        held.arrange();
        held.check();
    }
}
