//! The index, natively.

use be_tree_index::index::{Index, Insertion};
use be_tree_index::search::Search;

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

pub struct Native<'a> {
    index: Index,
    search: Search,
    events: &'a Events,
    ids: Vec<u64>,
}

impl<'a> Native<'a> {
    pub fn new(workload: &Workload, events: &'a Events) -> Result<Self, Unavailable> {
        let mut index = Index::new(workload.schema.clone());
        for (id, text) in (1..).zip(&workload.expressions) {
            let insertion = Insertion { id, text: text.as_bytes(), constants: Vec::new() };
            index.insert(&insertion).map_err(|error| format!("expression {id}: {}", error.message))?;
        }
        let mut search = Search::default();
        search.reserve(&index).map_err(|error| error.message)?;
        search.reserve_event(&index).map_err(|error| error.message)?;
        Ok(Native { index, search, events, ids: Vec::new() })
    }
}

impl Engine for Native<'_> {
    fn decode(&mut self, first: usize) {
        let all = None::<std::iter::Empty<u64>>;
        let opened = self.search.open(&self.index, self.events.format, &self.events.bytes[first], all);
        opened.expect("the events of a workload are right");
    }

    fn search(&mut self) {
        let found = self.search.run(&self.index);
        self.ids.clear();
        self.ids.extend_from_slice(found.ids());
    }

    fn ids(&mut self, _nth: usize) -> Vec<u64> {
        self.ids.clone()
    }
}
