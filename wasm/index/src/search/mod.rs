//! A search finds the ids of the subscriptions that an event makes true.
//!
//! A search can be interrupted anywhere and resumed. It works in steps. A step reads the `Progress` that was last
//! committed, works on a copy, and commits the copy by a single store (`Checkpoint`). Its other writes lie beyond the
//! committed progress (lists), or are idempotent (bits of the matches, results in the memo). So an interrupted step is
//! simply repeated. An interrupted decoding of the event restarts. Neither enlarges a table that outlives the search
//! (`spill.rs`).
//!
//! 1. **Walk.** From the root on, each node adds the nodes to which the event's values lead.
//! 2. **Scan.** The filters of the nodes' entries are tested. An entry that the event passes becomes a candidate, or is
//!    proven if it is sufficient.
//! 3. **Verify.** The program of each candidate runs. If it is true, the bit of its slot is set. A memo keeps the results of
//!    predicates that several expressions share.
//! 4. **Dense.** Windows decide the boolean expressions without access predicates. Those left open become candidates.
//! 5. **Unindexed.** The programs of all other expressions without access predicates run.
//! 6. **Collect**, and **sort** the ids that do not ascend with slots.
//! 7. **Gather**, **explain**, **count** and **group**, if the reasons of expressions that do not match are wanted.
//!
//! The cost of a search depends only on the index, the event and the requested ids. Leftovers of earlier searches, finished
//! or interrupted, are skipped without a branch that depends on them.

mod batch;
mod bitmap;
mod collect;
mod dense;
mod found;
mod matches;
pub(crate) mod observe;
mod pick;
mod profile;
mod progress;
mod reasons;
mod room;
mod scan;
mod sort;
mod spill;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

pub use batch::{packed, Batch, Packed, Refused, Request, Steps};
pub use found::Found;
pub use profile::{Counts, Lookups, Part, Run, Scanned};

use dense::Dense;
use found::HEADER;
use progress::{Phase, Progress};

use crate::eval::memo::Memo;
use crate::eval::patterns;
use crate::handles::{NodeId, ProgramId};
use matches::SlotSet;
use sort::Sort;
use spill::Spill;

use crate::boolean::windows::Bits;
use crate::catalog::subscriptions::Placement;
use crate::error::{Error, Kind};
use crate::event::digest::{self, ValueDigest};
use crate::event::formats::prepared;
use crate::event::{decode, Encoding, Event};
use crate::index::Index;
use crate::support::checkpoint::Checkpoint;
use crate::support::headroom::grow;
use crate::tree::scan::Proven;
use crate::tree::Entry;
use scan::GATHERED;

/// The approximate number of entries, tests or ids in a step. It makes the commit cheap in comparison.
const STEP: u32 = 1024;

/// The approximate number of words of a test in a program.
const WORDS: u32 = 2;

/// The number of unindexed programs that are prefetched at once, about as many as a step runs.
const AHEAD: usize = STEP as usize / 8;

/// A step that has visited at most this number of entries continues with the next phase, so that a small search is one step.
const MAX_MERGED_STEP: u64 = STEP as u64 / 4;

/// An event of at most this number of bytes is decoded into the kept tables. Nearly all events are smaller.
const EVENT: usize = 16 * 1024;

/// The working memory of searches: the event, and tables that are reused. A search allocates nothing once the tables have
/// grown to the size of the index.
///
/// ```
/// use be_tree_index::event::Format;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::search::Search;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// for id in 0..1000 {
///     let text = format!("age > {} and city <> 'Rome'", id % 100);
///     index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] })?;
/// }
/// let mut search = Search::default();
/// search.reserve(&index)?;
///
/// // Among all subscriptions, step by step. Between two steps the caller may do something else.
/// let event = br#"{"age": 2, "city": "Oslo"}"#;
/// search.open(&index, Format::Json, event, None::<std::iter::Empty<u64>>)?;
/// while !search.step(&index) {}
/// assert_eq!(search.found().ids()[..4], [0, 1, 100, 101]);
///
/// // Among three of them.
/// search.open(&index, Format::Json, event, Some([101, 2, 5000].into_iter()))?;
/// assert_eq!(search.run(&index).ids(), [101]);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Search {
    event: Spill<Event>,
    /// The value digests of the event. Filters and most tests of programs read them.
    digests: Vec<ValueDigest>,
    /// The nodes to visit, in the order in which they were found.
    nodes: Vec<NodeId>,
    /// The last position of each node in `nodes`.
    found_at: Vec<u32>,
    /// A buffer for the entries of several lists of one entry.
    gathered: [Entry; GATHERED],
    /// The programs to run.
    candidates: Spill<Vec<ProgramId>>,
    /// The slots of the sufficient entries that passed in this step. The event may fail some of them.
    proven: Vec<Proven>,
    memo: Memo,
    matches: SlotSet,
    /// The event's booleans in the form that windows read.
    bits: Bits,
    ids: Vec<u64>,
    sort: Sort,
    reasons: reasons::Work,
    checkpoint: Checkpoint<Progress>,
    /// The progress before the part that a profile ran last.
    before_part: Progress,
}

/// The form of a search's result.
///
/// ```
/// use be_tree_index::event::Format;
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::search::{Form, Search};
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// for id in [0, 3, 65] {
///     index.insert(&Insertion { id, text: b"age > 30", constants: vec![] })?;
/// }
/// let mut search = Search::default();
/// search.reserve(&index)?;
/// let event = br#"{"age": 40}"#;
/// search.open_for(&index, Format::Json, event, None::<std::iter::Empty<u64>>, Form::Bitmap)?;
/// assert_eq!(search.run(&index).ids(), [1 << 0 | 1 << 3, 1 << (65 - 64)]);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The ids that match, ascending.
    #[default]
    Ids,
    /// A bit for each id from 0 on, the first in the lowest bit of the first word. The last word is that of the greatest id
    /// that matches.
    Bitmap,
    /// The number of values of the event that counted as undefined because they do not fit, and then [`Form::Ids`].
    CountedIds,
    /// The same number, and then [`Form::Bitmap`].
    CountedBitmap,
}

impl Form {
    /// Returns the form with the number `code`.
    ///
    /// Errors: [`Kind::Type`].
    pub fn from_code(code: i32) -> Result<Form, Error> {
        const FORMS: [Form; 4] = [Form::Ids, Form::Bitmap, Form::CountedIds, Form::CountedBitmap];
        FORMS.get(code as usize).copied().ok_or_else(|| {
            Error::new(Kind::Type, "a result's form is 0 (ids) or 1 (a bitmap), each also plus 2 (counted)")
        })
    }

    /// Returns the number of words in front of the ids or the bitmap.
    fn counts(self) -> u32 {
        self as u32 >> 1
    }
}

impl Search {
    /// Forgets the allocations of a search that may have been interrupted anywhere, without freeing them. Call it before the
    /// search is dropped if a separate allocator for searches frees all their memory at once.
    pub fn abandon(&mut self) {
        self.event.abandon();
        self.candidates.abandon();
    }

    /// Starts a search for the event in `bytes`, among all subscriptions or, with `only`, among those with these ids. If it
    /// is interrupted, call it again.
    ///
    /// Errors: those of decoding the event.
    pub fn open(
        &mut self,
        index: &Index,
        encoding: impl Into<Encoding>,
        bytes: &[u8],
        only: Option<impl ExactSizeIterator<Item = u64>>,
    ) -> Result<(), Error> {
        self.open_for(index, encoding, bytes, only, Form::Ids)
    }

    /// Like [`Search::open`], for a result of the given form.
    pub fn open_for(
        &mut self,
        index: &Index,
        encoding: impl Into<Encoding>,
        bytes: &[u8],
        only: Option<impl ExactSizeIterator<Item = u64>>,
        form: Form,
    ) -> Result<(), Error> {
        self.decode(index, encoding.into(), bytes)?;
        self.begin(index, only, HEADER as u32 + form.counts(), form)
    }

    /// Appends the decoded event to `out`, in the format [`Format::Prepared`].
    ///
    /// ```
    /// use be_tree_index::event::Format;
    /// use be_tree_index::index::{Index, Insertion};
    /// use be_tree_index::search::Search;
    /// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    /// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    /// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
    ///
    /// let mut index = Index::new(schema);
    /// index.insert(&Insertion { id: 1, text: b"city = 'Rome'", constants: vec![] })?;
    /// let mut search = Search::default();
    /// search.reserve(&index)?;
    /// let mut prepared = Vec::new();
    /// search.prepare(&index, Format::Json, br#"{"city": "Rome"}"#, &mut prepared)?;
    /// search.open(&index, Format::Prepared, &prepared, None::<std::iter::Empty<u64>>)?;
    /// assert_eq!(search.run(&index).ids(), [1]);
    /// # Ok::<(), be_tree_index::error::Error>(())
    /// ```
    ///
    /// Errors: those of decoding the event.
    pub fn prepare(
        &mut self,
        index: &Index,
        encoding: impl Into<Encoding>,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.decode(index, encoding.into(), bytes)?;
        prepared::write(&self.event, index.schema(), out)
    }

    /// Returns the event of the present or the last search, as it was decoded.
    pub fn event(&self) -> &Event {
        &self.event
    }

    fn decode(&mut self, index: &Index, encoding: Encoding, bytes: &[u8]) -> Result<(), Error> {
        let event = self.event.choose(bytes.len() > EVENT);
        decode(encoding, bytes, index.schema(), index.strings(), event)?;
        event.lower(index.catalog().predicates.patterns().lowered())
    }

    /// Starts a search for the decoded event. Its result is written from the position `start` of the list on.
    fn begin(
        &mut self,
        index: &Index,
        only: Option<impl ExactSizeIterator<Item = u64>>,
        start: u32,
        form: Form,
    ) -> Result<(), Error> {
        debug_assert!(self.has_room(&index.extent()), "a search has room for the index");
        self.memo.begin();
        self.matches.begin(index.subscriptions().capacity());
        if only.is_none() {
            let Search { event, memo, .. } = self;
            patterns::find(event, index.catalog(), memo)?;
        }
        digest::read(&self.event, index.schema(), &mut self.digests);
        if index.dense().len() > 0 {
            self.bits.set(index.dense().columns(), &self.event.values);
        }
        self.count_mismatches(self.event.mismatches, start, form);
        let mut progress = Progress { start, form, ..Progress::default() };
        match only {
            None => {
                self.candidates.choose(false);
                self.nodes[0] = NodeId::ROOT;
                self.nodes[1] = NodeId::SCANNED;
                progress.nodes = 1 + u32::from(!index.tree().scanned().is_empty());
            }
            Some(ids) => {
                self.select(index, ids, &mut progress)?;
                progress.phase = Phase::Verify;
                progress.dense = index.dense().parts() as u32;
                progress.unindexed = index.tree().unindexed().len() as u32;
            }
        }
        self.checkpoint.commit(progress);
        Ok(())
    }

    /// Starts a search in an index that has only dense expressions, already evaluated. `mismatches` values of the event counted as
    /// undefined.
    fn begin_dense(&mut self, index: &Index, mismatches: u32, start: u32, form: Form) {
        self.matches.begin(index.subscriptions().capacity());
        self.count_mismatches(mismatches, start, form);
        self.checkpoint.commit(Progress { start, form, phase: Phase::Dense, ..Progress::default() });
    }

    /// Writes the number of values that counted as undefined in front of a result at `start`, if the form is a counted one.
    fn count_mismatches(&mut self, mismatches: u32, start: u32, form: Form) {
        if form.counts() > 0 {
            self.ids[start as usize - 1] = mismatches.into();
        }
    }

    /// Makes candidates of the subscriptions with these ids, except for dense ones that windows decide at once.
    fn select(
        &mut self,
        index: &Index,
        ids: impl ExactSizeIterator<Item = u64>,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let count = ids.len();
        grow(self.candidates.choose(count > STEP as usize), count)?;
        let subscriptions = index.subscriptions();
        for slot in ids.filter_map(|id| subscriptions.find(id)) {
            progress.visited += 1;
            let subscription = subscriptions.get(slot);
            if let Placement::Dense(position) = subscription.placement() {
                if let Some(holds) = index.dense().holds(position, &self.bits) {
                    progress.evaluated += 1;
                    if holds {
                        self.matches.insert(slot);
                    }
                    continue;
                }
            }
            self.candidates[progress.candidates as usize] = subscription.program;
            progress.candidates += 1;
        }
        Ok(())
    }

    /// Runs the search to its end, from its present position.
    pub fn run(&mut self, index: &Index) -> Found<'_> {
        while !self.step(index) {}
        self.found()
    }

    /// Returns the result of a finished search.
    pub fn found(&mut self) -> Found<'_> {
        let progress = self.checkpoint.load();
        let (start, ids) = (progress.start as usize, progress.ids as usize);
        let packed = &mut self.ids[..start + ids + progress.reasons.behind as usize];
        packed[0] = progress.visited;
        packed[1] = progress.evaluated;
        Found { packed, start, ids }
    }

    /// Returns the ids of a finished search, or the words of its bitmap, also while a batch collects several results.
    pub fn matches(&self) -> &[u64] {
        let progress = self.checkpoint.current();
        &self.ids[progress.start as usize..][..progress.ids as usize]
    }

    /// Returns the error of a search whose result does not fit the requested form, or `None`.
    pub fn refusal(&self, index: &Index) -> Option<Error> {
        self.checkpoint.load().too_large.map(|id| {
            let subscriptions = index.subscriptions();
            let limit = 64 * batch::bitmap_words(subscriptions.capacity(), subscriptions.order().greatest());
            let message = format!("the id {id} is too large for a bitmap, which has ids below {limit}; ask for a list");
            Error::new(Kind::OutOfBounds, message)
        })
    }

    /// Runs one step of the search. Returns whether the search is finished.
    pub fn step(&mut self, index: &Index) -> bool {
        self.step_with(index, Dense::Open)
    }

    fn step_with(&mut self, index: &Index, dense: Dense) -> bool {
        let mut progress = self.checkpoint.load();
        let visited = progress.visited;
        loop {
            let phase = progress.phase;
            if phase == Phase::Done {
                return true;
            }
            self.run_phase(index, dense, &mut progress);
            if progress.visited - visited > MAX_MERGED_STEP || !phase.leads_on_to(progress.phase) {
                break;
            }
        }
        debug_assert!(progress.is_within_lists(), "{progress:?}");
        self.checkpoint.commit(progress);
        progress.phase == Phase::Done
    }

    /// Runs the present phase, for about a step.
    #[inline(always)]
    fn run_phase(&mut self, index: &Index, dense: Dense, progress: &mut Progress) {
        match progress.phase {
            Phase::Walk => self.walk(index, progress),
            Phase::Scan => self.scan(index, progress),
            Phase::Verify => self.verify(index, progress),
            Phase::Dense => match dense {
                Dense::Open => self.decide_dense(index, progress),
                Dense::Sliced(sliced, event) => self.take_in(sliced, event, index, progress),
            },
            Phase::Unindexed => self.evaluate_unindexed(index, progress),
            Phase::Collect => self.collect(index, progress),
            Phase::Sort => self.sort(progress),
            Phase::Gather => self.gather(index, progress),
            Phase::Explain => self.explain(index, progress),
            Phase::Count => self.count(index, progress),
            Phase::Group => self.group(index, progress),
            Phase::Done => {}
        }
    }
}

/// Returns the first `N` elements of a table. [`Search::reserve`] makes room for as many.
fn first_chunk<T, const N: usize>(table: &[T]) -> &[T; N] {
    let Some(first) = table.first_chunk() else { unreachable!("a search has room for as many") };
    first
}

/// Like [`first_chunk`], but mutable.
fn first_chunk_mut<T, const N: usize>(table: &mut [T]) -> &mut [T; N] {
    let Some(first) = table.first_chunk_mut() else { unreachable!("a search has room for as many") };
    first
}
