//! Searches with random refusals of room.

use be_tree_index::error::{Error, Kind};
use be_tree_index::room::{Extent, Searches};
use be_tree_index::search::{Batch, Search};

use super::random::Random;

pub struct Refused<'a> {
    searches: (&'a mut Search, &'a mut Batch),
    random: Random,
    percent: usize,
    /// The number of requests that were refused.
    pub refusals: usize,
}

impl<'a> Refused<'a> {
    /// Refuses this percentage of the requests, drawn from `random`.
    pub fn new(search: &'a mut Search, batch: &'a mut Batch, random: Random, percent: usize) -> Self {
        Refused { searches: (search, batch), random, percent, refusals: 0 }
    }
}

impl Searches for Refused<'_> {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        if self.random.chance(self.percent) {
            self.refusals += 1;
            return Err(Error::new(Kind::OutOfMemory, "no room"));
        }
        self.searches.make_room(extent)
    }
}
