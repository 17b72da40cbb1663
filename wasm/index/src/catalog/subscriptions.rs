//! The table of inserted expressions, by id and by slot.

use crate::catalog::by_id::ById;
use crate::catalog::order::{Arrangement, Order};
use crate::error::Error;
use crate::handles::{DensePosition, ProgramId, Slot};
use crate::support::chunks::Chunks;

/// Where the tree holds a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Nowhere: no event makes it true.
    Nowhere,
    /// At this position of the list of expressions that every search evaluates.
    Unindexed(u32),
    /// At this position of the list of expressions whose filter every search tests. The filter decides most events.
    Scanned(u32),
    /// At this position of the dense expressions, which every search evaluates.
    Dense(DensePosition),
    /// In leaf lists.
    Indexed,
}

/// An inserted expression, in 12 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    pub program: ProgramId,
    pub length: Length,
    placement: PackedPlacement,
}

/// The number of words of a program, and how many of them are operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Length {
    /// 0 for a program of 65,536 words or more. Its own allocation gives its length, and the last word there is `code`.
    words: u16,
    code: u16,
}

/// A [`Placement`] in 4 bytes: 1 and 2 for placements without a position, and from 3 on the positions of the three lists in
/// turn. 0 marks a free slot (see [`Subscription::free`]).
#[derive(Clone, Copy, Debug, PartialEq)]
struct PackedPlacement(u32);

const FREE: PackedPlacement = PackedPlacement(0);

impl Length {
    /// Returns the length of a program whose first `code` words are operations. Appends `code` to a program whose length exceeds
    /// 16 bits.
    pub fn noted(words: &mut Vec<u32>, code: usize) -> Self {
        match u16::try_from(words.len()) {
            Ok(len) => Length { words: len, code: code as u16 },
            Err(_) => {
                words.push(code as u32);
                Length { words: 0, code: 0 }
            }
        }
    }

    /// Returns the words of the program at the start of `held`, and how many of them are operations.
    pub fn of(self, held: &[u32]) -> (&[u32], usize) {
        match (self.words, held) {
            (0, [words @ .., code]) => (words, *code as usize),
            (words, _) => (&held[..usize::from(words)], usize::from(self.code)),
        }
    }

    /// Returns the number of words that the program at the start of `held` occupies.
    pub fn kept(self, held: &[u32]) -> usize {
        match self.words {
            0 => held.len(),
            words => usize::from(words),
        }
    }
}

impl Subscription {
    /// Returns a subscription without a placement.
    pub fn new(program: ProgramId, length: Length) -> Self {
        Subscription { program, length, placement: PackedPlacement::of(Placement::Nowhere) }
    }

    pub fn placement(&self) -> Placement {
        match self.placement.0 {
            1 => Placement::Nowhere,
            2 => Placement::Indexed,
            packed => match (packed % 3, packed / 3 - 1) {
                (0, position) => Placement::Unindexed(position),
                (1, position) => Placement::Dense(DensePosition::from_word(position)),
                (_, position) => Placement::Scanned(position),
            },
        }
    }

    pub fn set_placement(&mut self, placement: Placement) {
        self.placement = PackedPlacement::of(placement);
    }

    /// Returns a free slot. Its program field links to the next free slot, or is [`Slot::NONE`].
    fn free(next: Slot) -> Self {
        Subscription {
            program: ProgramId::from_word(next.word()),
            length: Length { words: 0, code: 0 },
            placement: FREE,
        }
    }

    /// Returns the slot that follows this free one in the list of free slots.
    fn next_free(&self) -> Slot {
        Slot::from_word(self.program.word())
    }

    fn is_held(&self) -> bool {
        self.placement != FREE
    }
}

impl PackedPlacement {
    fn of(placement: Placement) -> Self {
        // An expression takes more than three bytes of 4 GiB, so its position is below 2^32 / 3.
        let packed = match placement {
            Placement::Nowhere => 1,
            Placement::Indexed => 2,
            Placement::Unindexed(position) => 3 + 3 * position,
            Placement::Dense(position) => 4 + 3 * position.word(),
            Placement::Scanned(position) => 5 + 3 * position,
        };
        PackedPlacement(packed)
    }
}

/// The table of subscriptions. It reuses free slots.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    slots: Chunks<Subscription>,
    /// The ids of all slots, free slots included.
    order: Order,
    /// The head of the free list, or [`Slot::NONE`]. Each free slot links to the next one, so freeing a slot takes no memory.
    free: Slot,
    /// The number of slots that are not free.
    len: usize,
    by_id: ById,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Subscriptions {
            slots: Chunks::default(),
            order: Order::default(),
            free: Slot::NONE,
            len: 0,
            by_id: ById::default(),
        }
    }
}

impl Subscriptions {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the greatest slot so far plus one.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns the order of ids.
    #[inline(always)]
    pub fn order(&self) -> &Order {
        &self.order
    }

    /// Returns whether the id exists. If ids ascend with slots, which is common, a greater id needs no look-up.
    pub fn has(&self, id: u64) -> bool {
        self.order.greatest().is_none_or(|greatest| id <= greatest) && self.find(id).is_some()
    }

    pub fn find(&self, id: u64) -> Option<Slot> {
        self.by_id.find(id, &self.order, |slot| self.slots[slot.index()].is_held())
    }

    /// Returns the id of `slot`.
    pub fn id(&self, slot: Slot) -> u64 {
        self.order.id(slot)
    }

    pub fn get(&self, slot: Slot) -> &Subscription {
        let subscription = &self.slots[slot.index()];
        debug_assert!(subscription.is_held(), "slot {slot} is held");
        subscription
    }

    /// Returns the placement of the subscription at `slot`, or `None` for a free slot.
    pub fn placement(&self, slot: Slot) -> Option<Placement> {
        let subscription = &self.slots[slot.index()];
        subscription.is_held().then(|| subscription.placement())
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Subscription {
        let subscription = &mut self.slots[slot.index()];
        debug_assert!(subscription.is_held(), "slot {slot} is held");
        subscription
    }

    /// Returns the slot that the next subscription will have, if `id` is its id.
    pub fn next(&self, id: u64) -> Slot {
        match self.free {
            Slot::NONE => Slot::from_index(self.slots.len()),
            slot if self.order.fits(slot, id) || self.order.is_paused() => slot,
            _ => Slot::from_index(self.slots.len()),
        }
    }

    /// Returns whether all ids ascend if the next subscription has this id.
    pub fn stays_ascending(&self, id: u64) -> bool {
        self.order.stays_ascending(self.next(id), id)
    }

    /// Inserts the subscription that `subscribe` returns for its slot, under a new `id`. Returns the slot.
    pub fn insert(&mut self, id: u64, subscribe: impl FnOnce(Slot) -> Subscription) -> Slot {
        debug_assert!(self.find(id).is_none(), "the id {id} is new");
        let slot = self.next(id);
        if slot.index() == self.slots.len() {
            self.slots.push(Subscription::free(Slot::NONE));
        } else {
            self.free = self.slots[slot.index()].next_free();
        }
        self.slots[slot.index()] = subscribe(slot);
        let tail = self.order.tail();
        self.order.insert(slot, id);
        if self.order.tail() < tail {
            self.by_id.drop_table();
        } else {
            self.by_id.insert(slot, &self.order);
        }
        self.len += 1;
        slot
    }

    /// Returns whether subscriptions should be arranged, so that searches sort less and subscriptions are found fast.
    pub fn is_due(&self) -> bool {
        self.order.is_due(self.len) || self.by_id.is_slow() && !self.order.is_paused()
    }

    /// Returns the arrangement that moves all subscriptions to the first slots, in the order of their ids.
    ///
    /// Errors: [`crate::error::Kind::OutOfMemory`].
    pub fn arrangement(&self) -> Result<Arrangement, Error> {
        self.order.arrangement(|slot| self.slots[slot.index()].is_held())
    }

    /// Moves all subscriptions to new slots. Allocates nothing.
    pub fn arrange(&mut self, arrangement: Arrangement) {
        let Subscriptions { slots, order, free, len, by_id } = self;
        order.arrange(arrangement.apply(|one, other| slots.swap(one, other)));
        slots.shorten(*len);
        *free = Slot::NONE;
        *by_id = ById::default();
    }

    /// Postpones the next arrangement until more subscriptions are inserted.
    pub fn postpone(&mut self) {
        self.order.postpone();
    }

    /// Changes the id of a subscription from `old` to `new`, which was just removed. Takes no memory: it drops the table of ids, so
    /// look-ups in the tail are slow until the next arrangement.
    pub fn rename(&mut self, old: u64, new: u64) {
        debug_assert!(self.find(new).is_none(), "the id {new} is new");
        if let Some(slot) = self.find(old) {
            self.order.set(slot, new);
            self.by_id.drop_table();
        }
    }

    /// Removes the subscription at `slot`. Allocates nothing.
    pub fn remove(&mut self, slot: Slot) -> Subscription {
        let free = Subscription::free(self.free);
        let subscription = std::mem::replace(&mut self.slots[slot.index()], free);
        debug_assert!(subscription.is_held(), "slot {slot} is held");
        self.free = slot;
        self.by_id.remove(slot, &self.order);
        self.len -= 1;
        if self.len == 0 {
            *self = Subscriptions::default();
        }
        subscription
    }

    /// Returns every subscription with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Subscription)> {
        self.slots
            .iter()
            .enumerate()
            .filter(|(_, held)| held.is_held())
            .map(|(slot, held)| (Slot::from_index(slot), held))
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        self.slots.heap_bytes() + self.order.heap_bytes() + self.by_id.heap_bytes()
    }

    /// Returns the bytes by which inserting a subscription may grow the tables.
    pub fn growth(&self) -> usize {
        self.slots.growth(1) + self.order.growth() + self.by_id.growth()
    }

    /// Checks the order of ids, and that each id leads to its slot. For tests.
    pub fn validate(&self) -> Result<(), String> {
        match self.iter().find(|&(slot, _)| self.find(self.id(slot)) != Some(slot)) {
            Some((slot, _)) => Err(format!("the id of slot {slot} does not lead to it")),
            None => self.order.validate(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_and_lengths_are_read_back() {
        assert_eq!(size_of::<Subscription>(), 12);
        let mut words: Vec<u32> = (0..9).collect();
        let mut subscription = Subscription::new(ProgramId::default(), Length::noted(&mut words, 4));
        for placement in [0, 1, 77, u32::MAX / 4].into_iter().flat_map(|position| {
            [
                Placement::Unindexed(position),
                Placement::Dense(DensePosition::from_word(position)),
                Placement::Scanned(position),
            ]
        }) {
            subscription.set_placement(placement);
            assert_eq!(subscription.placement(), placement);
        }
        for placement in [Placement::Nowhere, Placement::Indexed] {
            subscription.set_placement(placement);
            assert_eq!(subscription.placement(), placement);
        }
        for len in [2, 9, 65_535, 65_536, 100_000] {
            let expected: Vec<u32> = (0..len).collect();
            let mut words = expected.clone();
            let length = Length::noted(&mut words, 2);
            let kept = words.len();
            // A program without a chunk of its own is followed by other programs.
            if len < 65_536 {
                words.extend([5, 6]);
            }
            assert_eq!((length.of(&words), length.kept(&words)), ((&expected[..], 2), kept));
        }
    }
}
