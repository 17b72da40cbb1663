//! A compact map from ids to 32-bit words: 12 bytes a slot, at most seven eighths of them full.
//!
//! Statistics have such a map for each tenant and day, and most tenants match few expressions on a day. So it grows by a third only.

use crate::sketch::request;
use crate::support::hash::hash_of;

/// The least number of slots.
const MIN_SLOTS: usize = 4;

/// Words by id. No word is 0.
#[derive(Clone, Debug, Default)]
pub(super) struct IdMap {
    ids: Vec<u64>,
    /// The word of each id, 0 in an empty slot. Linear probing.
    words: Vec<u32>,
    len: usize,
}

impl IdMap {
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the slot of `id`.
    #[inline]
    pub fn find(&self, id: u64) -> Option<usize> {
        if self.ids.is_empty() {
            return None;
        }
        let mut at = home(id, self.ids.len());
        while self.words[at] != 0 {
            if self.ids[at] == id {
                return Some(at);
            }
            at += 1;
            if at == self.ids.len() {
                at = 0;
            }
        }
        None
    }

    /// Returns the word in a slot.
    #[inline]
    pub fn word(&self, slot: usize) -> u32 {
        self.words[slot]
    }

    /// Changes the word in a full slot.
    #[inline]
    pub fn set(&mut self, slot: usize, word: u32) {
        debug_assert!(word != 0 && self.words[slot] != 0, "full slots have words other than 0");
        self.words[slot] = word;
    }

    /// Returns the full slots, each with its id.
    pub fn slots(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.ids.iter().enumerate().filter(|&(slot, _)| self.words[slot] != 0).map(|(slot, &id)| (slot, id))
    }

    /// Returns an upper bound of the bytes that `more` new ids request, once [`IdMap::reserve`] was called for them.
    pub fn growth(&self, more: usize) -> usize {
        match self.len + more <= max_len(self.ids.len()) {
            true => 0,
            false => {
                let slots = slots_for(self.len + more);
                request::<u64>(slots) + request::<u32>(slots)
            }
        }
    }

    /// Requests memory for `more` ids. Slots change.
    pub fn reserve(&mut self, more: usize) {
        if self.len + more > max_len(self.ids.len()) {
            let slots = slots_for(self.len + more);
            let ids = std::mem::replace(&mut self.ids, vec![0; slots]);
            let words = std::mem::replace(&mut self.words, vec![0; slots]);
            self.len = 0;
            ids.into_iter().zip(words).filter(|&(_, word)| word != 0).for_each(|(id, word)| self.put(id, word));
        }
    }

    /// Adds an id that is new.
    pub fn insert(&mut self, id: u64, word: u32) {
        self.reserve(1);
        self.put(id, word);
    }

    fn put(&mut self, id: u64, word: u32) {
        let mut at = home(id, self.ids.len());
        while self.words[at] != 0 {
            at = (at + 1) % self.ids.len();
        }
        self.ids[at] = id;
        self.words[at] = word;
        self.len += 1;
    }

    /// Returns the bytes of the slots.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<u64>() + self.words.capacity() * size_of::<u32>()
    }
}

fn max_len(slots: usize) -> usize {
    slots * 7 / 8
}

fn slots_for(len: usize) -> usize {
    (len * 4).div_ceil(3).max(MIN_SLOTS)
}

#[inline]
fn home(id: u64, slots: usize) -> usize {
    (((hash_of(&id) >> 32) * slots as u64) >> 32) as usize
}
