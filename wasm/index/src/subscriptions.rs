//! The inserted expressions, by id and by slot.

use hashbrown::HashTable;

use crate::chunks::Chunks;
use crate::dense::Position;
use crate::expression::store::ProgramId;
use crate::hash::hash_of;
use crate::ids::{Ids, Row};
use crate::predicates::table_growth;

/// The place of a subscription in [`Subscriptions`].
pub(crate) type Slot = u32;

/// Where the tree holds a subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// Nowhere: it is false whatever the event.
    Nowhere,
    /// At this position of the list of those that every search looks at.
    Ungated(u32),
    /// At this position of the dense expressions, which every search looks at.
    Dense(Position),
    /// In leaf lists.
    Gated,
}

/// An inserted expression.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// Its program, how many words that has, and how many of them are operations.
    pub program: ProgramId,
    pub words: u32,
    pub code: u32,
    pub home: Home,
}

/// The table of subscriptions. A slot that is given back is used again.
#[derive(Clone, Debug)]
pub(crate) struct Subscriptions {
    slots: Chunks<Option<Subscription>>,
    /// The ids of all slots, of the given back ones as well.
    ids: Ids,
    free: Vec<Slot>,
    by_id: HashTable<Slot>,
    /// Whether ids ascend with slots, so that matches found in the order of slots need no sorting.
    ascending: bool,
}

impl Default for Subscriptions {
    fn default() -> Self {
        Subscriptions {
            slots: Chunks::default(),
            ids: Ids::default(),
            free: Vec::new(),
            by_id: HashTable::new(),
            ascending: true,
        }
    }
}

impl Subscriptions {
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// One more than the greatest slot given so far.
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub fn is_ascending(&self) -> bool {
        self.ascending
    }

    pub fn find(&self, id: u64) -> Option<Slot> {
        self.by_id.find(hash_of(&id), |&slot| self.ids.get(slot) == id).copied()
    }

    /// The id of `slot`.
    pub fn id(&self, slot: Slot) -> u64 {
        self.ids.get(slot)
    }

    /// The ids of the slots from `first` on, a multiple of 32.
    pub fn ids(&self, first: Slot) -> &Row {
        self.ids.row(first)
    }

    pub fn get(&self, slot: Slot) -> &Subscription {
        match &self.slots[slot as usize] {
            Some(subscription) => subscription,
            None => unreachable!("slot {slot} is held"),
        }
    }

    /// Where the subscription at `slot` is held, if there is one.
    pub fn home(&self, slot: Slot) -> Option<&Home> {
        self.slots[slot as usize].as_ref().map(|subscription| &subscription.home)
    }

    pub fn get_mut(&mut self, slot: Slot) -> &mut Subscription {
        match &mut self.slots[slot as usize] {
            Some(subscription) => subscription,
            None => unreachable!("slot {slot} is held"),
        }
    }

    /// Takes in a subscription with a new `id`, which `subscribe` makes for the slot it is given.
    pub fn insert(&mut self, id: u64, subscribe: impl FnOnce(Slot) -> Subscription) -> Slot {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.ids.push(id);
            self.slots.len() as Slot - 1
        });
        self.slots[slot as usize] = Some(subscribe(slot));
        self.ids.set(slot, id);
        let follows = slot == 0 || self.ids.get(slot - 1) < id;
        let precedes = slot as usize + 1 == self.ids.len() || id < self.ids.get(slot + 1);
        self.ascending = self.ascending && follows && precedes;
        let Subscriptions { by_id, ids, .. } = self;
        by_id.insert_unique(hash_of(&id), slot, |&slot| hash_of(&ids.get(slot)));
        slot
    }

    pub fn remove(&mut self, slot: Slot) -> Subscription {
        let Some(subscription) = self.slots[slot as usize].take() else { unreachable!("slot {slot} is held") };
        if let Ok(entry) = self.by_id.find_entry(hash_of(&self.ids.get(slot)), |&held| held == slot) {
            entry.remove();
        }
        self.free.push(slot);
        if self.by_id.is_empty() {
            self.slots.clear();
            self.ids.clear();
            self.free.clear();
            self.ascending = true;
        }
        subscription
    }

    /// Every subscription with its slot.
    pub fn iter(&self) -> impl Iterator<Item = (Slot, &Subscription)> {
        self.slots.iter().enumerate().filter_map(|(slot, held)| Some((slot as Slot, held.as_ref()?)))
    }

    /// Bytes that inserting `more` subscriptions may take to enlarge the tables.
    pub fn growth(&self, more: usize) -> usize {
        self.slots.growth(more) + self.ids.growth(more) + table_growth(&self.by_id, more)
    }
}
