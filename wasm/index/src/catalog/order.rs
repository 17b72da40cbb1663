//! The order of ids. A search finds matches by slot, and returns their ids in ascending order.
//!
//! At first ids ascend with slots, as long as subscriptions are inserted in ascending order. Later subscriptions take the slots of
//! deleted ones, and ids ascend with slots no longer. Then each slot gets a *rank*, and the ids are kept by rank. A search
//! turns the set of matching slots into a set of ranks, which takes a few instructions for each match where sorting takes many.
//!
//! Ids ascend with ranks up to the *tail*. A new id takes
//!
//! 1. a rank of a deleted subscription, if the ids still ascend then;
//! 2. the next rank, if no id is greater and there is no tail;
//! 3. otherwise a rank of the tail. A search sorts the ids that it finds there, and merges them with the others.
//!
//! When the tail is long, or many ranks have no subscription, all subscriptions get new ranks. That takes time in proportion to
//! their number, after a number of insertions that is in proportion as well.

use crate::catalog::ids::{Ids, Row, ROW};
use crate::error::Error;
use crate::handles::{Rank, Slot};
use crate::support::chunks::Chunks;
use crate::support::hash::out_of_memory;
use crate::support::headroom::{ensure, push, AROUND};

/// The tail begins at a multiple of this number.
pub(crate) const ALIGNMENT: usize = 1024;

/// New ranks are due when the tail has more ids than this share of all, and as many more.
const TAIL_SHARE: usize = 32;
/// New ranks are due when there are more ranks without a subscription than this share of all, and as many more.
const UNUSED_SHARE: usize = 2;
const MORE: usize = 256;

/// The ranks and the ids of all slots.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The ids by rank. A rank without a subscription keeps its id, or has that of another order.
    ids: Ids,
    /// Whether ids ascend with slots. Of no meaning with `ranks`.
    ascends: bool,
    /// `None` as long as the rank of a slot is the number of the slot.
    ranks: Option<Ranks>,
    /// The number of insertions until new ranks are due again, after memory was refused.
    pause: usize,
}

#[derive(Clone, Debug)]
struct Ranks {
    /// The rank of each slot. That of a free slot means nothing.
    of: Chunks<Rank>,
    /// The ids below this rank ascend.
    sorted: usize,
    /// The first rank of the tail, if there is one. Those between are padding.
    tail: Option<usize>,
}

impl Default for Order {
    fn default() -> Self {
        Order { ids: Ids::default(), ascends: true, ranks: None, pause: 0 }
    }
}

impl Order {
    /// Returns whether ids ascend with slots.
    pub fn is_ascending(&self) -> bool {
        self.ranks.is_none() && self.ascends
    }

    /// Returns the id that [`Order::restore`] needs after another one was inserted at the free `slot`, and removed. There is none if
    /// that does not change whether ids ascend with slots.
    pub fn former(&self, slot: Slot) -> Option<u64> {
        (self.is_ascending() && slot.index() < self.ids.len()).then(|| self.id(slot))
    }

    /// Gives the free `slot` its former id again, with which ids ascended with slots.
    pub fn restore(&mut self, slot: Slot, former: u64) {
        self.ids.set(Rank::from_index(slot.index()), former);
        self.ascends = true;
    }

    /// Returns whether slots have ranks of their own.
    pub fn is_ranked(&self) -> bool {
        self.ranks.is_some()
    }

    /// Returns the number of ranks.
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    #[inline(always)]
    fn rank(&self, slot: Slot) -> Rank {
        self.ranks.as_ref().map_or(Rank::from_index(slot.index()), |ranks| ranks.of[slot.index()])
    }

    /// Returns the id of `slot`.
    pub fn id(&self, slot: Slot) -> u64 {
        self.ids.get(self.rank(slot))
    }

    /// Returns whether `slot` has this rank, unless it is free.
    pub fn has_rank(&self, slot: Slot, rank: Rank) -> bool {
        self.rank(slot) == rank
    }

    /// Returns the id of `rank`.
    pub fn id_at(&self, rank: Rank) -> u64 {
        self.ids.get(rank)
    }

    /// Returns the ids from rank `first` on, a multiple of 1,024. They cover at least 1,024 ranks, or all that there are.
    #[inline(always)]
    pub fn rows(&self, first: Rank) -> &[Row] {
        self.ids.rows(first)
    }

    /// Returns the ranks of the slots from `first` on, a multiple of 1,024: of at least 1,024 slots, or of all that there are.
    /// There are none while the rank of a slot is its number.
    #[inline(always)]
    pub fn ranks(&self, first: Slot) -> &[Rank] {
        self.ranks.as_ref().map_or(&[], |ranks| ranks.of.from(first.index()))
    }

    /// Returns the first rank of the tail. Without one it is above all ranks.
    pub fn tail(&self) -> Rank {
        Rank::from_word(self.ranks.as_ref().and_then(|ranks| ranks.tail).map_or(u32::MAX, |tail| tail as u32))
    }

    /// Returns the id with the last rank before the tail, or 0.
    pub fn last(&self) -> u64 {
        let sorted = self.ranks.as_ref().map_or(self.ids.len(), |ranks| ranks.sorted);
        sorted.checked_sub(1).map_or(0, |last| self.ids.get(Rank::from_index(last)))
    }

    /// Returns an upper bound of all ids, if ids ascend with slots.
    pub fn greatest(&self) -> Option<u64> {
        self.is_ascending().then(|| self.last())
    }

    /// Returns whether ids still ascend with slots if `slot` has this id. The slot is free, or the next one.
    pub fn stays_ascending(&self, slot: Slot, id: u64) -> bool {
        let id_at = |position: usize| self.ids.get(Rank::from_index(position));
        let position = slot.index();
        let follows = || position == 0 || id_at(position - 1) < id;
        let precedes = || position + 1 >= self.ids.len() || id < id_at(position + 1);
        self.is_ascending() && follows() && precedes()
    }

    /// Returns the ranks before the tail that may have this id while ids ascend, if they have no subscription.
    pub fn candidates(&self, id: u64) -> impl Iterator<Item = Rank> {
        let places = self.ranks.as_ref().map(|ranks| {
            let behind = ranks.sorted > 0 && self.last() < id;
            let place = if behind { ranks.sorted } else { self.ids.position(id, ranks.sorted) };
            place.saturating_sub(1)..ranks.sorted.min(place + 1)
        });
        places.into_iter().flatten().rev().map(Rank::from_index)
    }

    /// Returns an upper bound of the number of ranks with one id more.
    pub fn len_with_another(&self) -> usize {
        self.ids.len() + self.padding() + 1
    }

    /// Returns the number of ranks that the first id of the tail appends before it.
    fn padding(&self) -> usize {
        match &self.ranks {
            Some(Ranks { sorted, tail: None, .. }) => sorted.next_multiple_of(ALIGNMENT) - sorted,
            _ => 0,
        }
    }

    /// Gives `slot` the new `id`, at the rank `unused` if there is one (see [`Order::candidates`]). The slot is free, or the
    /// next one.
    pub fn insert(&mut self, slot: Slot, id: u64, unused: Option<Rank>) {
        self.pause = self.pause.saturating_sub(1);
        let ascends = self.stays_ascending(slot, id);
        let Some(ranks) = &mut self.ranks else {
            self.ascends = ascends;
            if slot.index() == self.ids.len() {
                self.ids.push(id);
            } else {
                self.ids.set(Rank::from_index(slot.index()), id);
            }
            return;
        };
        let rank = unused.unwrap_or_else(|| ranks.append(&mut self.ids, id));
        self.ids.set(rank, id);
        if slot.index() == ranks.of.len() {
            ranks.of.push(rank);
        } else {
            ranks.of[slot.index()] = rank;
        }
    }

    /// Gives `slot` the id `new`, which a deleted subscription had last.
    pub fn rename(&mut self, slot: Slot, new: u64) {
        let Some(ranks) = &mut self.ranks else {
            self.ids.set(Rank::from_index(slot.index()), new);
            self.ascends = false;
            return;
        };
        let tail = ranks.tail.unwrap_or(self.ids.len());
        let places = std::iter::once(self.ids.position(new, ranks.sorted)).chain(tail..self.ids.len());
        let mut places = places.map(Rank::from_index).filter(|rank| rank.index() < self.ids.len());
        let Some(rank) = places.find(|&rank| self.ids.get(rank) == new) else {
            unreachable!("the deleted subscription had a rank")
        };
        ranks.of[slot.index()] = rank;
    }

    /// Returns the bytes that inserting one id may allocate.
    pub fn growth(&self) -> usize {
        self.ids.growth(1, self.padding()) + self.ranks.as_ref().map_or(0, |ranks| ranks.of.growth(1))
    }

    /// Returns whether `held` subscriptions should get new ranks.
    pub fn is_due(&self, held: usize) -> bool {
        if self.pause > 0 {
            return false;
        }
        match &self.ranks {
            None => !self.ascends,
            Some(Ranks { sorted, tail, .. }) => {
                let in_tail = tail.map_or(0, |tail| self.ids.len() - tail);
                let unused = sorted + in_tail - held;
                in_tail > held / TAIL_SHARE + MORE || unused > held / UNUSED_SHARE + MORE
            }
        }
    }

    /// Waits with new ranks until some more ids are inserted.
    pub fn postpone(&mut self) {
        self.pause = self.ids.len() / TAIL_SHARE + MORE;
    }

    /// Returns the subscriptions at the slots `held` in the order of their ids. `find` returns the slot of an id. Nearly all
    /// ids should ascend with the present ranks.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn sorted(
        &self,
        held: impl Iterator<Item = Slot>,
        find: impl Fn(u64) -> Option<Slot>,
    ) -> Result<Vec<Slot>, Error> {
        let mut slots = Vec::new();
        slots.try_reserve_exact(self.ids.len()).map_err(out_of_memory)?;
        slots.resize(self.ids.len(), Slot::NONE);
        held.for_each(|slot| slots[self.rank(slot).index()] = slot);
        slots.retain(|&slot| slot != Slot::NONE);

        // What ascends stays. The others are sorted, and merged again.
        let mut strays: Vec<u64> = Vec::new();
        let mut ascending = 0;
        let mut last = None;
        for position in 0..slots.len() {
            let id = self.id(slots[position]);
            let next = slots.get(position + 1).map(|&slot| self.id(slot));
            // If the next id fits and this one does not fit before it, this one is the stray.
            let is_ahead = next.is_some_and(|next| last < Some(next) && next < id);
            if last < Some(id) && !is_ahead {
                last = Some(id);
                slots[ascending] = slots[position];
                ascending += 1;
            } else {
                push(&mut strays, id)?;
            }
        }
        slots.truncate(ascending);
        strays.sort_unstable();

        // Merges from the end on, so that nothing is overwritten that is still to be moved.
        let mut left = slots.len();
        slots.resize(left + strays.len(), Slot::NONE);
        for (number, &stray) in strays.iter().enumerate().rev() {
            while left > 0 && self.id(slots[left - 1]) > stray {
                slots[left + number] = slots[left - 1];
                left -= 1;
            }
            let Some(slot) = find(stray) else { unreachable!("the id {stray} has a slot") };
            slots[left + number] = slot;
        }
        Ok(slots)
    }

    /// Gives the subscriptions at `slots` new ranks in this order, in which their ids ascend. There are `capacity` slots.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`]; the ranks then stay as they are.
    pub fn assign(&mut self, slots: &[Slot], capacity: usize) -> Result<(), Error> {
        let is_listed = |row: &&[Slot]| row.windows(2).any(|pair| self.id(pair[1]) != self.id(pair[0]).wrapping_add(1));
        let listed = slots.chunks(ROW).filter(is_listed).count();
        let of = if self.is_ranked() { 0 } else { Chunks::<Rank>::default().growth(capacity) };
        let blocks = listed + 2 * capacity.div_ceil(ALIGNMENT) + 4;
        ensure(Ids::bytes(slots.len(), listed) + of + blocks * AROUND)?;

        let mut ids = Ids::default();
        slots.iter().for_each(|&slot| ids.push(self.id(slot)));
        let ranks = self.ranks.get_or_insert_with(|| {
            let mut of = Chunks::default();
            (0..capacity).for_each(|_| of.push(Rank::default()));
            Ranks { of, sorted: 0, tail: None }
        });
        (0..).zip(slots).for_each(|(rank, slot)| ranks.of[slot.index()] = Rank::from_index(rank));
        ranks.sorted = slots.len();
        ranks.tail = None;
        self.ids = ids;
        Ok(())
    }

    /// Checks the ranks of the subscriptions at the slots `held`. For tests.
    pub fn validate(&self, held: impl Iterator<Item = Slot>) -> Result<(), String> {
        let mut taken = vec![false; self.ids.len()];
        for slot in held {
            let taken = taken.get_mut(self.rank(slot).index()).ok_or(format!("slot {slot} has no rank"))?;
            if std::mem::replace(taken, true) {
                return Err(format!("slot {slot} has the rank of another"));
            }
        }
        let sorted = match &self.ranks {
            None if self.ascends => self.ids.len(),
            None => 0,
            Some(Ranks { sorted, tail, .. }) => {
                let end = tail.unwrap_or(self.ids.len());
                if *sorted > end || tail.is_some_and(|tail| tail % ALIGNMENT > 0) || taken[*sorted..end].contains(&true)
                {
                    return Err(format!("{sorted} ranks before the tail at {tail:?}"));
                }
                *sorted
            }
        };
        let id_at = |rank: usize| self.ids.get(Rank::from_index(rank));
        match (1..sorted).find(|&rank| id_at(rank - 1) >= id_at(rank)) {
            Some(rank) => Err(format!("the id at rank {rank} does not ascend")),
            None => Ok(()),
        }
    }
}

impl Ranks {
    /// Returns the next rank for a new id: behind all others, or in the tail. `ids` has it then, with some id.
    fn append(&mut self, ids: &mut Ids, id: u64) -> Rank {
        let last = self.sorted.checked_sub(1).map(|last| ids.get(Rank::from_index(last)));
        if self.tail.is_none() && last < Some(id) {
            self.sorted += 1;
        } else if self.tail.is_none() {
            ids.pad(self.sorted.next_multiple_of(ALIGNMENT));
            self.tail = Some(ids.len());
        }
        ids.push(id);
        Rank::from_index(ids.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::random::Random;
    use std::collections::BTreeMap;

    /// Subscriptions with their slots, as [`crate::catalog::subscriptions`] keeps them.
    #[derive(Default)]
    struct Held {
        order: Order,
        slots: BTreeMap<u64, Slot>,
        free: Vec<Slot>,
        capacity: usize,
    }

    impl Held {
        fn insert(&mut self, id: u64) {
            let slot = self.free.pop().unwrap_or(Slot::from_index(self.capacity));
            self.capacity = self.capacity.max(slot.index() + 1);
            let has_one = |&rank: &Rank| {
                let slot = self.slots.get(&self.order.id_at(rank));
                slot.is_some_and(|&slot| self.order.has_rank(slot, rank))
            };
            let unused = self.order.candidates(id).find(|rank| !has_one(rank));
            let (at_most, len) = (self.order.len_with_another(), self.order.len());
            self.order.insert(slot, id, unused);
            assert!(self.order.len() <= at_most && at_most <= len + ALIGNMENT);
            self.slots.insert(id, slot);
        }

        fn delete(&mut self, id: u64) {
            self.free.extend(self.slots.remove(&id));
        }

        fn arrange(&mut self) {
            let held = self.slots.values().copied();
            let sorted = self.order.sorted(held, |id| self.slots.get(&id).copied()).unwrap();
            assert!(sorted.iter().eq(self.slots.values()));
            self.order.assign(&sorted, self.capacity).unwrap();
            assert!(!self.order.is_due(self.slots.len()));
        }

        fn check(&self) {
            self.order.validate(self.slots.values().copied()).unwrap();
            assert!(self.slots.iter().all(|(&id, &slot)| self.order.id(slot) == id));
            // As many ids as the search sorts, and as many ranks as it has room for.
            let tail = self.slots.values().filter(|&&slot| self.order.rank(slot) >= self.order.tail()).count();
            if self.order.is_ranked() {
                assert!(tail <= self.slots.len() / TAIL_SHARE + MORE + 1);
                assert!(self.order.len() <= 2 * self.slots.len() + 2 * ALIGNMENT);
            }
        }
    }

    #[test]
    fn ids_keep_an_order_through_any_changes() {
        for seed in 0..40 {
            let random = &mut Random::new(seed);
            let mut held = Held::default();
            let mut next = 0;
            let (mut arranged, mut reused) = (0, 0);
            for _ in 0..6_000 {
                let id = match (seed % 4, random.below(100)) {
                    // Ascending ids, in place of random ones; ids that were deleted before; ids in no order; all of them.
                    (0, _) | (3, 0..40) => {
                        next += 1;
                        next
                    }
                    (1, _) | (3, 40..80) => random.below(3_000) as u64,
                    _ => random.next() >> 24,
                };
                if !held.slots.contains_key(&id) {
                    let len = held.order.len();
                    held.insert(id);
                    reused += usize::from(held.order.is_ranked() && held.order.len() == len);
                }
                if held.slots.len() > 1_000 || random.chance(10) {
                    let gone = *held.slots.keys().nth(random.below(held.slots.len())).unwrap();
                    held.delete(gone);
                }
                if held.order.is_due(held.slots.len()) {
                    held.arrange();
                    arranged += 1;
                }
                if random.chance(2) {
                    held.check();
                }
            }
            held.check();
            assert!(arranged > 1, "{seed}");
            assert!(reused > 0 || seed % 4 == 0, "{seed}");
        }
    }

    #[test]
    fn new_ranks_cost_few_insertions_of_an_index_whose_ids_ascended() {
        let mut held = Held::default();
        (0..10_000).for_each(|id| held.insert(2 * id));
        assert!(held.order.is_ascending() && held.order.greatest() == Some(19_998));
        held.delete(5_000);
        // The slot is taken by the greatest id.
        held.insert(30_000);
        assert!(!held.order.is_ascending() && held.order.is_due(10_000));
        held.arrange();
        held.check();
        // Each takes the next rank.
        for id in 1..4_000 {
            held.delete(2 * id + 6_000);
            held.insert(30_000 + id);
            assert!(!held.order.is_due(held.slots.len()) && held.order.tail() == Rank::from_word(u32::MAX));
        }
        held.check();
        // An id between two others that are there goes to the tail, a deleted one to where it was.
        held.insert(101);
        assert_eq!(held.order.tail().index(), held.order.len() - 1);
        held.delete(100);
        held.insert(100);
        assert_eq!(held.order.tail().index(), held.order.len() - 1);
        held.check();
    }

    #[test]
    fn a_renamed_subscription_takes_the_rank_of_the_deleted_one() {
        let mut held = Held::default();
        [1, 2, 3, 9, 4, 7, 20].into_iter().for_each(|id| held.insert(id));
        for deleted in [2, 4, 20, 7] {
            for is_ranked in [false, true] {
                if is_ranked {
                    held.arrange();
                }
                held.insert(u64::MAX);
                held.delete(deleted);
                let slot = held.slots.remove(&u64::MAX).unwrap();
                held.order.rename(slot, deleted);
                held.slots.insert(deleted, slot);
                assert_eq!(held.order.id(slot), deleted);
                held.order.validate(held.slots.values().copied()).unwrap();
            }
        }
        // In the tail, too.
        held.insert(5);
        held.insert(6);
        held.insert(u64::MAX);
        held.delete(6);
        let slot = held.slots.remove(&u64::MAX).unwrap();
        held.order.rename(slot, 6);
        assert_eq!(held.order.id(slot), 6);
    }

    #[test]
    fn new_ranks_are_postponed() {
        let mut held = Held::default();
        [3, 2].into_iter().for_each(|id| held.insert(id));
        assert!(held.order.is_due(2));
        held.order.postpone();
        for id in 10.. {
            if held.order.is_due(held.slots.len()) {
                assert!(id > 200);
                break;
            }
            held.insert(id);
        }
        held.arrange();
        held.check();
    }
}
