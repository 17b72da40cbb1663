//! One search: from an event to the ids of the subscriptions that it makes true.
//!
//! A search can be stopped anywhere and go on. It works in steps. A step reads the [`Progress`] that was last
//! committed, works on a copy of it, and commits the copy by a single store ([`Checkpoint`]). What a step writes
//! elsewhere is either beyond what the committed progress covers (lists), or the same whenever it is written again
//! (bits of the matches, remembered predicates). So a step that is cut off anywhere is simply done again, and so is the
//! decoding of the event, from its start. Neither enlarges a table that outlives the search ([`spill`]).
//!
//! 1. **Walk.** From the root, nodes are taken off a list in turn; each adds the nodes that the event's values lead to.
//! 2. **Scan.** The entries of a node's leaf list pass their filters, or do not; those that pass are candidates, or true
//!    where the way to them and the filter are all that their expressions demand.
//! 3. **Verify.** Each candidate's code runs; where it comes out true its bit is set. Predicates that several
//!    expressions share are remembered.
//! 4. **Dense.** The expressions over booleans alone that no access predicate holds back are decided by their windows; those that
//!    are not become candidates.
//! 5. **Unindexed.** The code of the others that no access predicate holds back runs.
//! 6. **Collect**, and **sort** where ids do not ascend with slots.
//! 7. **Gather**, **explain**, **count** and **group**, where the reasons of what does not match are asked for.
//!
//! What a search costs depends on nothing but the index, the event and the ids asked for: what earlier searches left
//! behind, finished or cut off, is passed over without a branch on it.

mod batch;
mod bitmap;
mod collect;
mod dense;
mod found;
mod matches;
mod pick;
mod progress;
mod reasons;
mod room;
mod scan;
mod seen;
mod sort;
mod spill;
#[cfg(test)]
mod tests;
mod verify;
mod walk;

pub use batch::{packed, Batch, Packed, Refused, Request};
pub use found::Found;

use dense::Dense;
use found::HEADER;
use progress::{Phase, Progress};

use crate::eval::memo::Memo;
use crate::handles::NodeId;
use crate::handles::ProgramId;
use crate::handles::Slot;
use matches::SlotSet;
use seen::Seen;
use sort::Sort;
use spill::Spill;

use crate::boolean::windows::Bits;
use crate::catalog::subscriptions::Placement;
use crate::error::{Error, Kind};
use crate::event::digest::{self, ValueDigest};
use crate::event::formats::prepared;
use crate::event::{decode, Event, Format};
use crate::index::Index;
use crate::support::checkpoint::Checkpoint;
use crate::support::headroom::grow;
use crate::tree::{LIKELY, ROOT};

/// About how many entries, tests or ids a step covers: enough to make its commit cheap beside it.
const STEP: u32 = 1024;

/// About how many words of its program a test takes.
const WORDS: u32 = 2;

/// So many unindexed programs are read ahead: about as many as a step runs.
const AHEAD: usize = STEP as usize / 8;

/// A step that has come upon no more than so many entries goes on with the next phase: a search that meets few expressions
/// is one step.
const LITTLE: u64 = STEP as u64 / 4;

/// Events up to so many bytes are decoded into tables that are kept: nearly all.
const EVENT: usize = 16 * 1024;

/// What a search works with: the event, and tables that are used again and again, so that it allocates nothing
/// once they have grown to the size of the index.
#[derive(Clone, Debug, Default)]
pub struct Search {
    event: Spill<Event>,
    /// What filters and most tests of programs ask.
    digests: Vec<ValueDigest>,
    /// The nodes to visit, in the order in which they were found.
    nodes: Vec<NodeId>,
    /// For each node the place in `nodes` where it was last put.
    found_at: Vec<u32>,
    /// The programs that are to be run.
    candidates: Spill<Vec<ProgramId>>,
    /// The slots of the entries that proved themselves in this step.
    proven: Vec<Slot>,
    seen: Seen,
    memo: Memo,
    matches: SlotSet,
    /// What windows read of the event.
    bits: Bits,
    ids: Vec<u64>,
    sort: Sort,
    reasons: reasons::Work,
    checkpoint: Checkpoint<Progress>,
}

/// What the answer to a search is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// The ids that match, ascending.
    #[default]
    Ids,
    /// A bit for each id from 0 on, the first in the lowest bit of the first word; as many words as the greatest id needs
    /// that matches.
    Bitmap,
}

impl Form {
    /// The form that has the number `code`.
    ///
    /// Errors: [`Kind::Type`].
    pub fn from_code(code: i32) -> Result<Form, Error> {
        match code {
            0 => Ok(Form::Ids),
            1 => Ok(Form::Bitmap),
            _ => Err(Error::new(Kind::Type, "an answer's form is 0 (ids) or 1 (a bitmap)")),
        }
    }
}

impl Search {
    /// Tells `index` which attributes events define, if enough were searched for since it was last told: what is inserted
    /// from then on is placed by that.
    pub fn teach(&mut self, index: &mut Index) {
        if let Some(shares) = self.seen.take() {
            index.learn(shares);
        }
    }

    /// Leaves what a search allocated that may have been cut off anywhere to whoever takes back all such memory at once.
    /// To be called before a search is dropped where allocating for searches is not like allocating for all else.
    pub fn abandon(&mut self) {
        self.event.abandon();
        self.candidates.abandon();
    }

    /// Starts a search for the event in `bytes`: among all subscriptions or, with `only`, among those with these ids.
    /// Where it is cut off, it is to be called again.
    ///
    /// Errors: what is wrong with the event.
    pub fn open(
        &mut self,
        index: &Index,
        format: Format,
        bytes: &[u8],
        only: Option<impl ExactSizeIterator<Item = u64>>,
    ) -> Result<(), Error> {
        self.open_for(index, format, bytes, only, Form::Ids)
    }

    /// [`Search::open`] for an answer of another form.
    pub fn open_for(
        &mut self,
        index: &Index,
        format: Format,
        bytes: &[u8],
        only: Option<impl ExactSizeIterator<Item = u64>>,
        form: Form,
    ) -> Result<(), Error> {
        self.decode(index, format, bytes)?;
        self.begin(index, only, HEADER as u32, form)
    }

    /// Appends to `out` what an event comes to: an event in the format [`Format::Prepared`].
    ///
    /// Errors: what is wrong with the event.
    pub fn prepare(&mut self, index: &Index, format: Format, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
        self.decode(index, format, bytes)?;
        prepared::write(&self.event, index.schema(), out)
    }

    fn decode(&mut self, index: &Index, format: Format, bytes: &[u8]) -> Result<(), Error> {
        let event = self.event.choose(bytes.len() > EVENT);
        decode(format, bytes, index.schema(), index.strings(), event)
    }

    /// Starts a search for the event that was decoded, whose answer goes to the place `start` of the list.
    fn begin(
        &mut self,
        index: &Index,
        only: Option<impl ExactSizeIterator<Item = u64>>,
        start: u32,
        form: Form,
    ) -> Result<(), Error> {
        debug_assert!(self.has_room(&index.extent()), "a search has room for the index");
        digest::read(&self.event, index.schema(), &mut self.digests);
        self.seen.note(&self.digests);
        self.memo.begin();
        self.matches.begin();
        if index.dense().len() > 0 {
            self.bits.set(index.dense().columns(), &self.event.values);
        }
        let mut progress = Progress { start, form, ..Progress::default() };
        match only {
            None => {
                self.candidates.choose(false);
                self.nodes[0] = ROOT;
                self.nodes[1] = LIKELY;
                progress.nodes = 1 + u32::from(!index.tree().likely().is_empty());
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

    /// Starts a search in an index that has nothing but dense expressions, which are evaluated already.
    fn begin_dense(&mut self, start: u32, form: Form) {
        self.matches.begin();
        self.checkpoint.commit(Progress { start, form, phase: Phase::Dense, ..Progress::default() });
    }

    /// Makes candidates of the subscriptions with these ids; the dense ones are decided at once, as far as windows can.
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

    /// Runs the search to its end, from wherever it stands.
    pub fn run(&mut self, index: &Index) -> Found<'_> {
        while !self.step(index) {}
        self.found()
    }

    /// What a search found that is done.
    pub fn found(&mut self) -> Found<'_> {
        let progress = self.checkpoint.load();
        let ids = progress.ids as usize;
        let packed = &mut self.ids[..HEADER + ids + progress.reasons.behind as usize];
        packed[0] = progress.visited;
        packed[1] = progress.evaluated;
        Found { packed, ids }
    }

    /// Why there is no answer of the form that was asked for.
    pub fn refusal(&self, index: &Index) -> Option<Error> {
        self.checkpoint.load().too_large.map(|id| {
            let limit = 64 * batch::bitmap_words(index.subscriptions().capacity(), index.subscriptions().greatest());
            let message = format!("the id {id} is too large for a bitmap, which has ids below {limit}; ask for a list");
            Error::new(Kind::OutOfBounds, message)
        })
    }

    /// Moves the search forward by one step, and tells whether it is done.
    pub fn step(&mut self, index: &Index) -> bool {
        self.step_with(index, Dense::Open)
    }

    fn step_with(&mut self, index: &Index, dense: Dense) -> bool {
        let mut progress = self.checkpoint.load();
        let visited = progress.visited;
        loop {
            let phase = progress.phase;
            match phase {
                Phase::Walk => self.walk(index, &mut progress),
                Phase::Scan => self.scan(index, &mut progress),
                Phase::Verify => self.verify(index, &mut progress),
                Phase::Dense => match dense {
                    Dense::Open => self.decide_dense(index, &mut progress),
                    Dense::Sliced(sliced, event) => self.take_in(sliced, event, index, &mut progress),
                },
                Phase::Unindexed => self.evaluate_unindexed(index, &mut progress),
                Phase::Collect => self.collect(index, &mut progress),
                Phase::Sort => self.sort(&mut progress),
                Phase::Gather => self.gather(index, &mut progress),
                Phase::Explain => self.explain(index, &mut progress),
                Phase::Count => self.count(index, &mut progress),
                Phase::Group => self.group(index, &mut progress),
                Phase::Done => return true,
            }
            if progress.visited - visited > LITTLE || !phase.leads_on_to(progress.phase) {
                break;
            }
        }
        self.checkpoint.commit(progress);
        progress.phase == Phase::Done
    }
}

/// The part of a table that there is always room for, as [`Search::reserve`] sees to.
fn first_chunk<T, const N: usize>(table: &[T]) -> &[T; N] {
    let Some(first) = table.first_chunk() else { unreachable!("a search has room for as many") };
    first
}

/// The same, to be written to.
fn first_chunk_mut<T, const N: usize>(table: &mut [T]) -> &mut [T; N] {
    let Some(first) = table.first_chunk_mut() else { unreachable!("a search has room for as many") };
    first
}
