//! The index, compiled natively.

use be_tree_index::index::{Index, Insertion};
use be_tree_index::search::{Batch, Form, Request, Search};

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

    pub fn index(&self) -> &Index {
        &self.index
    }

    pub fn events(&self) -> &'a Events {
        self.events
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

/// The number of events of a batch.
pub const WIDTH: usize = 128;

/// The index, searched in batches.
pub struct Many<'a> {
    native: Native<'a>,
    batch: Batch,
    form: Form,
    message: Vec<u8>,
    result: Vec<u64>,
}

impl<'a> Many<'a> {
    pub fn new(workload: &Workload, events: &'a Events, form: Form) -> Result<Self, Unavailable> {
        let native = Native::new(workload, events)?;
        let mut batch = Batch::default();
        batch.reserve(&native.index).map_err(|error| error.message)?;
        Ok(Many { native, batch, form, message: Vec::new(), result: Vec::new() })
    }
}

impl Engine for Many<'_> {
    fn width(&self) -> usize {
        WIDTH
    }

    fn decode(&mut self, first: usize) {
        self.native.events.write_frames(first..first + WIDTH, &mut self.message);
    }

    fn search(&mut self) {
        let Many { native, batch, form, message, result } = self;
        batch.open(Request { events: WIDTH as u32, bytes: message.len(), only: None, form: *form });
        result.clear();
        while !batch.is_done() {
            batch.next_part();
            let part = batch.run(&native.index, &mut native.search, message, || ());
            result.extend_from_slice(part.expect("the events of a workload are right"));
        }
    }

    fn ids(&mut self, nth: usize) -> Vec<u64> {
        nth_ids(&self.result, nth, self.form)
    }
}

/// Returns the ids for the `nth` event in the result of a batch.
pub fn nth_ids(result: &[u64], nth: usize, form: Form) -> Vec<u64> {
    let mut rest = result;
    for _ in 0..nth {
        rest = &rest[1 + rest[0] as usize..];
    }
    let words = &rest[1..][..rest[0] as usize];
    match form {
        Form::Ids => words.to_vec(),
        Form::Bitmap => {
            (0..64 * words.len() as u64).filter(|id| words[*id as usize / 64] >> (id % 64) & 1 == 1).collect()
        }
        Form::CountedIds | Form::CountedBitmap => unreachable!("the benchmarks count no values"),
    }
}
