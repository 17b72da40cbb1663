//! Decodes events without searching.

use be_tree_index::event::{decode, Event};

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

use crate::index::{Native, WIDTH};

/// Decodes many events in a row, because one is too fast to measure.
pub struct Decode<'a> {
    native: Native<'a>,
    event: Event,
    first: usize,
}

impl<'a> Decode<'a> {
    pub fn new(workload: &Workload, events: &'a Events) -> Result<Self, Unavailable> {
        Ok(Decode { native: Native::new(workload, events)?, event: Event::default(), first: 0 })
    }
}

impl Engine for Decode<'_> {
    fn width(&self) -> usize {
        WIDTH
    }

    fn decode(&mut self, first: usize) {
        self.first = first;
    }

    fn search(&mut self) {
        let (index, events) = (self.native.index(), self.native.events());
        for bytes in &events.bytes[self.first..][..WIDTH] {
            let decoded = decode(events.format, bytes, index.schema(), index.strings(), &mut self.event);
            decoded.expect("the events of a workload are right");
        }
    }

    /// Returns the ids that the index finds. This is not timed.
    fn ids(&mut self, nth: usize) -> Vec<u64> {
        self.native.decode(self.first + nth);
        self.native.search();
        self.native.ids(0)
    }
}
