//! The table of inserted expressions, by id and by slot.

use crate::catalog::by_id::ById;
use crate::catalog::ids::{Ids, Row};
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
    /// 0 for a program of 65,536 words or more. It is stored alone, so its length is known, and its last word is `code`.
    words: u16,
    code: u16,
}

/// A [`Placement`] in 4 bytes: 1 and 2 for placements without a position, and from 3 on the positions of the three lists in
/// turn. 0 marks a free slot (see [`Subscription::free`]).
#[derive(Clone, Copy, Debug, PartialEq)]
struct PackedPlacement(u32);

const FREE: PackedPlacement = PackedPlacement(0);

impl Length {
    /// Returns the length of a program whose first `code` words are operations. Appends `code` to a program that is too
    /// long.
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

    /// Returns the content of a free slot, which has the next free slot or [`Slot::NONE`] in place of a program.
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
        // An expression takes more than three bytes, so its position is less than a third of the range of 32 bits.
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

/// The table of subscriptions. It uses free slots again.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    slots: Chunks<Subscription>,
    /// The ids of all slots, free slots included.
    ids: Ids,
    /// The slot that was freed last, or [`Slot::NONE`]. Each free slot names the next one, so freeing a slot takes no memory.
    free: Slot,
    /// The number of slots that are not free.
    len: usize,
    by_id: ById,
    /// Whether the ids of subscriptions ascend with slots. Matches found in the order of slots then need no sorting.
    ascending: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Subscriptions {
            slots: Chunks::default(),
            ids: Ids::default(),
            free: Slot::NONE,
            len: 0,
            by_id: ById::default(),
            ascending: true,
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

    pub fn is_ascending(&self) -> bool {
        self.ascending
    }

    /// Restores what [`Subscriptions::is_ascending`] returned, after all subscriptions that were inserted since are removed.
    pub fn restore_ascending(&mut self, was_ascending: bool) {
        self.ascending = was_ascending;
    }

    /// Returns an upper bound of all ids, if ids ascend with slots.
    pub fn greatest(&self) -> Option<u64> {
        let greatest = self.slots.len().checked_sub(1).map_or(0, |last| self.ids.get(Slot::from_index(last)));
        self.ascending.then_some(greatest)
    }

    /// Returns whether the id exists. If ids ascend with slots, which is common, a greater id needs no look-up.
    pub fn has(&self, id: u64) -> bool {
        self.greatest().is_none_or(|greatest| id <= greatest) && self.find(id).is_some()
    }

    pub fn find(&self, id: u64) -> Option<Slot> {
        if !self.ascending && !self.by_id.is_table() {
            // After [`Subscriptions::rename`], until the next insertion makes a table.
            return self.iter().map(|(slot, _)| slot).find(|&slot| self.ids.get(slot) == id);
        }
        self.by_id.find(id, &self.ids).filter(|slot| self.slots[slot.index()].is_held())
    }

    /// Returns the id of `slot`.
    pub fn id(&self, slot: Slot) -> u64 {
        self.ids.get(slot)
    }

    /// Returns the ids from slot `first` on, a multiple of 1,024. They cover at least 1,024 slots, or all that there are.
    #[inline(always)]
    pub fn ids(&self, first: Slot) -> &[Row] {
        self.ids.rows(first)
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

    /// Returns the slot that the next subscription will have.
    pub fn next(&self) -> Slot {
        match self.free {
            Slot::NONE => Slot::from_index(self.slots.len()),
            slot => slot,
        }
    }

    /// Returns whether ids still ascend with slots if the next subscription has this id.
    pub fn stays_ascending(&self, id: u64) -> bool {
        let id_at = |position: usize| self.ids.get(Slot::from_index(position));
        let position = self.next().index();
        let follows = position == 0 || id_at(position - 1) < id;
        let precedes = position + 1 >= self.ids.len() || id < id_at(position + 1);
        self.ascending && follows && precedes
    }

    /// Inserts a subscription with a new `id`, which `subscribe` makes for its slot. Returns the slot.
    pub fn insert(&mut self, id: u64, subscribe: impl FnOnce(Slot) -> Subscription) -> Slot {
        debug_assert!(self.find(id).is_none(), "the id {id} is new");
        let slot = self.next();
        self.ascending = self.stays_ascending(id);
        if !self.ascending {
            let Subscriptions { slots, ids, by_id, len, .. } = self;
            by_id.tabulate(held(slots).map(|(slot, _)| slot), *len, ids);
        }
        if self.free == Slot::NONE {
            self.slots.push(Subscription::free(Slot::NONE));
            self.ids.push(id);
        } else {
            self.free = self.slots[slot.index()].next_free();
        }
        self.slots[slot.index()] = subscribe(slot);
        self.ids.set(slot, id);
        self.by_id.insert(slot, &self.ids);
        self.len += 1;
        slot
    }

    /// Gives the subscription with the id `old` the id `new`, which was just removed. Ids then ascend no longer. Takes no
    /// memory, because a table has a free place for `new` where that was.
    pub fn rename(&mut self, old: u64, new: u64) {
        debug_assert!(self.find(new).is_none(), "the id {new} is new");
        if let Some(slot) = self.find(old) {
            let Subscriptions { by_id, ids, ascending, .. } = self;
            by_id.remove(slot, ids);
            ids.set(slot, new);
            by_id.insert(slot, ids);
            *ascending = false;
        }
    }

    /// Removes the subscription at `slot`. Allocates nothing.
    pub fn remove(&mut self, slot: Slot) -> Subscription {
        let free = Subscription::free(self.free);
        let subscription = std::mem::replace(&mut self.slots[slot.index()], free);
        debug_assert!(subscription.is_held(), "slot {slot} is held");
        self.free = slot;
        self.by_id.remove(slot, &self.ids);
        self.len -= 1;
        if self.len == 0 {
            *self = Subscriptions::default();
        }
        subscription
    }

    /// Returns every subscription with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Subscription)> {
        held(&self.slots)
    }

    /// Returns the bytes by which inserting a subscription with this id may grow the tables.
    pub fn growth(&self, id: u64) -> usize {
        self.slots.growth(1) + self.ids.growth(1) + self.by_id.growth(self.len, self.stays_ascending(id))
    }
}

/// Returns the subscriptions among `slots`.
fn held(slots: &Chunks<Subscription>) -> impl Iterator<Item = (Slot, &Subscription)> {
    let numbered = slots.iter().enumerate().filter(|(_, held)| held.is_held());
    numbered.map(|(slot, held)| (Slot::from_index(slot), held))
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
