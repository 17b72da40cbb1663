//! An inverted index of patterns that are lists: each member leads to all lists that contain it.
//!
//! A member is a network, a whole string in lower case, or a prefix of a regular expression. Members are found by their
//! hash. The lists of one member are doubly linked, and a second table finds the link of a list's member, so a change takes
//! the same time however many lists share a member.

use std::hash::Hasher;

use crate::handles::PredicateId;
use crate::support::footprint::of_table;
use crate::support::hash::Words;
use crate::support::headroom::growth;
use crate::support::id_table::IdTable;

/// No seat.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Members {
    /// The first seat of each member, by the member's hash.
    by_member: IdTable,
    /// All seats, by the hash of the list and the position.
    by_place: IdTable,
    seats: Vec<Seat>,
    /// The head of the free list of seats, linked through `after`.
    free: u32,
}

/// The place of a member in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seat {
    pub list: PredicateId,
    /// The position of the member in the list.
    pub position: u32,
    /// The previous and the next seat of the same member, in other lists, or [`NONE`].
    before: u32,
    after: u32,
}

impl Default for Members {
    fn default() -> Self {
        Members { by_member: IdTable::default(), by_place: IdTable::default(), seats: Vec::new(), free: NONE }
    }
}

fn hash_of_place(list: PredicateId, position: u32) -> u64 {
    Words::default().add(u64::from(list.word()) << 32 | u64::from(position)).finish()
}

impl Members {
    /// Adds the member at `position` of `list`, whose hash is `hash`. `is` returns whether a seat has an equal member.
    pub fn insert(&mut self, list: PredicateId, position: u32, hash: u64, is: impl Fn(Seat) -> bool) {
        let first = self.by_member.find(hash, |seat| is(self.seats[seat as usize]));
        let new = Seat { list, position, before: NONE, after: first.unwrap_or(NONE) };
        let seat = match self.seats.get(self.free as usize) {
            Some(free) => {
                let seat = std::mem::replace(&mut self.free, free.after);
                self.seats[seat as usize] = new;
                seat
            }
            None => {
                self.seats.push(new);
                self.seats.len() as u32 - 1
            }
        };
        match first {
            Some(first) => {
                self.seats[first as usize].before = seat;
                self.by_member.renumber(hash, first, seat);
            }
            None => self.by_member.insert(hash, seat),
        }
        self.by_place.insert(hash_of_place(list, position), seat);
    }

    /// Removes the member at `position` of `list`, whose hash is `hash`. Allocates nothing.
    pub fn remove(&mut self, list: PredicateId, position: u32, hash: u64) {
        let place = hash_of_place(list, position);
        let is = |seat: u32| (self.seats[seat as usize].list, self.seats[seat as usize].position) == (list, position);
        let Some(seat) = self.by_place.find(place, is) else {
            unreachable!("member {position} of {list} was inserted")
        };
        self.by_place.remove(place, seat);
        let Seat { before, after, .. } = self.seats[seat as usize];
        if after != NONE {
            self.seats[after as usize].before = before;
        }
        match (before, after) {
            (NONE, NONE) => self.by_member.remove(hash, seat),
            (NONE, after) => self.by_member.renumber(hash, seat, after),
            (before, after) => self.seats[before as usize].after = after,
        }
        self.seats[seat as usize].after = std::mem::replace(&mut self.free, seat);
        if self.by_place.len() == 0 {
            *self = Members::default();
        }
    }

    /// Calls `found` with each list that has a member with this hash. `is` returns whether a seat has the member.
    #[inline]
    pub fn each(&self, hash: u64, is: impl Fn(Seat) -> bool, found: &mut impl FnMut(PredicateId)) {
        let mut next = self.by_member.find(hash, |seat| is(self.seats[seat as usize])).unwrap_or(NONE);
        while let Some(seat) = self.seats.get(next as usize) {
            found(seat.list);
            next = seat.after;
        }
    }

    /// Returns whether there is no member.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.by_place.len() == 0
    }

    /// Returns the bytes that the tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.seats) + self.by_member.heap_bytes() + self.by_place.heap_bytes()
    }

    /// Returns the bytes by which `more` members may grow the tables.
    pub fn growth(&self, more: usize) -> usize {
        self.by_member.growth(more) + self.by_place.growth(more) + growth(&self.seats, more)
    }
}
