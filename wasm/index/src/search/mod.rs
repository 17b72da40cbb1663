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
//! 4. **Dense.** The expressions over booleans alone that no access_predicate holds back are decided by their windows; those that
//!    are not become candidates.
//! 5. **Unindexed.** The code of the others that no access_predicate holds back runs.
//! 6. **Collect**, and **sort** where ids do not ascend with slots.
//! 7. **Gather**, **explain**, **count** and **group**, where the reasons of what does not match are asked for.
//!
//! What a search costs depends on nothing but the index, the event and the ids asked for: what earlier searches left
//! behind, finished or cut off, is passed over without a branch on it.

mod batch;
mod bitmap;
mod matches;
mod pick;
mod reasons;
mod seen;
mod sort;
mod spill;

use std::hint::black_box;

pub use batch::{packed, Batch, Packed, Refused, Request};

use crate::eval::memo::Memo;
use crate::handles::NodeId;
use crate::handles::ProgramId;
use crate::handles::Slot;
use crate::support::bits::ones;
use bitmap::Bitmap;
use matches::SlotSet;
use pick::pick;
use seen::Seen;
use sort::Sort;
use spill::Spill;

use crate::boolean::bit_sliced::Sliced;
use crate::boolean::windows::{Bits, PART};
use crate::catalog::subscriptions::Placement;
use crate::compile::program;
use crate::error::{Error, Kind};
use crate::eval::run::{self, Asked, Outcome};
use crate::event::digest::{self, Table, ValueDigest};
use crate::event::formats::prepared;
use crate::event::{decode, key, Event, Format, Value};
use crate::index::Index;
use crate::room::{Extent, Searches};
use crate::support::checkpoint::Checkpoint;
use crate::support::headroom::grow;
use crate::tree::scan::{fitting, scan, List, Passed, IN_DOUBT, LENGTH, PLACES};
use crate::tree::{Branch, Tree, LIKELY, ROOT};

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

/// How far a search has come. A list's length here is how much of it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    phase: Phase,
    /// Of `nodes`: how many are known, and how many are done with.
    nodes: u32,
    node: u32,
    /// Within the present node: its levels, the elements of a list value, and its entries.
    level: u32,
    element: u32,
    entry: u32,
    /// Of `candidates`: how many there are, and how many are done with.
    candidates: u32,
    candidate: u32,
    /// How many parts of the dense expressions, and how many unindexed expressions, are done with.
    dense: u32,
    unindexed: u32,
    /// The position in the code of the present expression.
    position: u32,
    /// Where in `ids` the answer starts.
    start: u32,
    form: Form,
    /// The word of the dense expressions to take in next, or the group of the matches to collect next.
    word: u32,
    /// The words of the answer so far.
    ids: u32,
    /// An id that matches and is too large for a bitmap.
    too_large: Option<u64>,
    /// Whether the reasons of what does not match are to be found, and are all that the event does not fit.
    with_reasons: bool,
    does_not_fit: bool,
    /// Whether the reasons of all that does not match are wanted, and not only of what was asked for.
    among_all: bool,
    /// How many expressions did not match, with how many of these was begun, how far a general program was run, how many
    /// reasons were counted, and how many ids were put into their groups.
    missed: u32,
    begun: u32,
    general_at: u32,
    counted: u32,
    grouped: u32,
    /// Which of the two lists of counts counts, and which of the two lists of programs that are being run.
    odd_counts: bool,
    odd_runs: bool,
    /// How many words of the answer stand behind the ids that match.
    behind: u32,
    visited: u64,
    evaluated: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Walk,
    Scan,
    Verify,
    Dense,
    Unindexed,
    Collect,
    Sort,
    Gather,
    Explain,
    Count,
    Group,
    Done,
}

impl Phase {
    /// Whether one step can do both: the next one writes over nothing that this one read, and would read again.
    fn leads_on_to(self, next: Phase) -> bool {
        use Phase::{Collect, Scan, Unindexed, Verify, Walk};
        matches!((self, next), (Walk, Scan) | (Scan, Verify) | (Verify, Unindexed) | (Unindexed, Collect))
    }
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

impl Progress {
    /// What comes once all ids that match are there.
    fn after_matches(&mut self) -> Phase {
        self.word = 0;
        if self.with_reasons {
            Phase::Gather
        } else {
            Phase::Done
        }
    }
}

/// What dense expressions come to.
#[derive(Clone, Copy)]
enum Dense<'a> {
    /// They are still to be evaluated.
    Open,
    /// They were, for the event with this number among others.
    Sliced(&'a Sliced, usize),
}

/// How many words stand before the ids of what a search found.
const HEADER: usize = 2;

/// What a finished search found, ids or a bitmap, and what it took: one list, so that it is handed on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    packed: &'a [u64],
    ids: usize,
}

impl<'a> Found<'a> {
    /// The ids of all that matches, ascending.
    pub fn ids(self) -> &'a [u64] {
        &self.packed[HEADER..][..self.ids]
    }

    /// What stands behind the ids of a search for reasons: the ids of all that does not match, grouped by reason, a count
    /// for each reason, whether the ids of each group ascend, and whether the event does not fit.
    pub fn reasons(self) -> &'a [u64] {
        &self.packed[HEADER + self.ids..]
    }

    /// How many entries and unindexed expressions were come upon.
    pub fn visited(self) -> u64 {
        self.packed[0]
    }

    /// How many expressions were evaluated.
    pub fn evaluated(self) -> u64 {
        self.packed[1]
    }

    /// All of this: the number visited, the number evaluated, the ids, the reasons.
    pub fn packed(self) -> &'a [u64] {
        self.packed
    }
}

impl Search {
    /// Makes room for whatever nearly every search of `index` needs. To be called after the index changed, outside of a search.
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve(&mut self, index: &Index) -> Result<(), Error> {
        self.make_room(&index.extent())
    }

    /// [`Search::reserve`] for an index that is to keep reasons from now on ([`Index::keep_reasons`]).
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve_for_reasons(&mut self, index: &Index) -> Result<(), Error> {
        self.make_room(&Extent { has_reasons: true, ..index.extent() })
    }

    /// Makes room for nearly every event. To be called once, for a new index.
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve_event(&mut self, index: &Index) -> Result<(), Error> {
        self.event.kept().reserve(index.schema(), EVENT)
    }

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
        let packed = &mut self.ids[..HEADER + ids + progress.behind as usize];
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

    /// Finds the nodes that the event leads to.
    #[inline(never)]
    fn walk(&mut self, index: &Index, progress: &mut Progress) {
        let mut work = 0;
        while progress.node < progress.nodes && work < STEP {
            let branches = index.tree().node(self.nodes[progress.node as usize]).branches();
            if (progress.level as usize) < branches.len() {
                work += self.follow(index.tree(), branches, progress);
            } else {
                progress.node += 1;
                progress.level = 0;
                work += 1;
            }
        }
        if progress.node == progress.nodes {
            self.prefetch_entries(index, progress);
            progress.node = 0;
            progress.phase = Phase::Scan;
        }
    }

    /// Passes the leaf lists of the nodes found until there are none left, or until the candidates are too many to take in
    /// another list.
    #[inline(never)]
    fn scan(&mut self, index: &Index, progress: &mut Progress) {
        let Search { nodes, digests, proven, candidates, .. } = self;
        let (slots, programs) = (first_chunk_mut(proven), first_chunk_mut(candidates));
        let proven = if index.schema().len() < digest::FEW {
            pass_lists(index.tree(), nodes, first_chunk::<_, { digest::FEW }>(digests), slots, programs, progress)
        } else {
            pass_lists(index.tree(), nodes, &digests[..], slots, programs, progress)
        };
        self.mark(proven, index, progress);
        if progress.node == progress.nodes || progress.candidates > STEP / 2 {
            progress.phase = Phase::Verify;
        }
    }

    /// Marks the first `proven` of the slots noted as true; those in doubt become candidates.
    #[inline(never)]
    fn mark(&mut self, proven: usize, index: &Index, progress: &mut Progress) {
        let Search { proven: slots, candidates, matches, .. } = self;
        let mut known = progress.candidates as usize;
        let (fours, rest) = slots[..proven].as_chunks::<4>();
        let mut mark = |slot: Slot| {
            if slot & IN_DOUBT == 0 {
                matches.insert(slot);
            } else {
                candidates[known] = slot;
                known += 1;
            }
        };
        // Four in a turn of the loop: half of what a turn takes is not the marking.
        for four in fours {
            four.iter().for_each(|slot| mark(*slot));
        }
        rest.iter().for_each(|slot| mark(*slot));
        // The programs of those in doubt last: where each is looked up in its turn, what follows waits for it.
        for candidate in &mut candidates[progress.candidates as usize..known] {
            *candidate = index.subscriptions().get(*candidate & !IN_DOUBT).program;
        }
        progress.candidates = known as u32;
    }

    /// Reads a word of each of the first lines of memory that the leaf lists of the nodes found take, for the reason given at
    /// [`prefetch`]. Where a list is longer, the processor reads on by itself.
    #[inline(never)]
    fn prefetch_entries(&self, index: &Index, progress: &Progress) {
        let prefetch = |&node: &NodeId| {
            let entries = index.tree().node(node).entries();
            let lines = [0, 4, 8, 12, 16, 20, 24, 28].map(|place| entries.get(place).map_or(0, |entry| entry.subject));
            lines.into_iter().fold(0, |sum, subject| sum ^ subject)
        };
        let found = &self.nodes[..progress.nodes.min(STEP) as usize];
        black_box(found.iter().map(prefetch).fold(0, |sum, subject| sum ^ subject));
    }

    /// Adds the nodes that the event leads to under the next of the `branches` whose attribute it defines, and tells how
    /// many lookups that took.
    #[inline(never)]
    fn follow(&mut self, tree: &Tree, branches: &[Branch], progress: &mut Progress) -> u32 {
        let ahead = &branches[progress.level as usize..];
        let ahead = &ahead[..ahead.len().min(STEP as usize)];
        let is_defined = |branch: &Branch| self.digests[digest::place(branch.attribute)].is_defined();
        let Some(passed) = ahead.iter().position(is_defined) else {
            progress.level += ahead.len() as u32;
            return ahead.len() as u32;
        };
        progress.level += passed as u32;
        let level = tree.level(ahead[passed].level);
        let value = self.event.values[level.attribute as usize];
        if progress.element == 0 {
            if let Some(node) = level.defined {
                self.push_node(node, progress);
            }
        }
        let lookups = match value {
            Value::Integers(span) => {
                let elements = &span.of(&self.event.integers)[progress.element as usize..];
                let elements = &elements[..elements.len().min(STEP as usize)];
                let found = elements.iter().map(|&integer| level.point(integer));
                push_found(found, &mut self.nodes, &mut self.found_at, progress)
            }
            Value::Strings(span) => {
                let elements = &span.of(&self.event.strings)[progress.element as usize..];
                let elements = &elements[..elements.len().min(STEP as usize)];
                let found = elements.iter().map(|text| level.point(i64::from(text.id.0)));
                push_found(found, &mut self.nodes, &mut self.found_at, progress)
            }
            Value::Segments(span) => {
                let elements = &span.of(&self.event.segments)[progress.element as usize..];
                let elements = &elements[..elements.len().min(STEP as usize)];
                let found = elements.iter().map(|segment| level.point(segment.id));
                push_found(found, &mut self.nodes, &mut self.found_at, progress)
            }
            scalar => {
                if let Some(key) = key::of_value(scalar) {
                    if let Some(node) = level.point(key) {
                        self.push_node(node, progress);
                    }
                    if let Some(node) = level.buckets.find(key) {
                        self.push_node(node, progress);
                    }
                }
                0
            }
        };
        if lookups == STEP {
            progress.element += STEP;
        } else {
            progress.element = 0;
            progress.level += 1;
        }
        lookups + passed as u32 + 1
    }

    fn push_node(&mut self, node: NodeId, progress: &mut Progress) {
        self.nodes[progress.nodes as usize] = node;
        progress.nodes += 1;
    }

    /// Evaluates candidates, then goes on to whatever comes next.
    fn verify(&mut self, index: &Index, progress: &mut Progress) {
        if progress.candidate == 0 && progress.position == 0 {
            prefetch(&self.candidates[..progress.candidates as usize], index);
        }
        let Search { event, digests, candidates, memo, matches, .. } = self;
        let asked = Asked { event, digests: first_chunk(digests), catalog: index.catalog() };
        let candidates = &candidates[progress.candidate as usize..progress.candidates as usize];
        progress.candidate += run_all(candidates, asked, memo, matches, progress);
        if progress.candidate < progress.candidates {
            return;
        }
        progress.candidate = 0;
        progress.candidates = 0;
        progress.phase = if progress.node < progress.nodes {
            Phase::Scan
        } else if (progress.dense as usize) < index.dense().parts() {
            Phase::Dense
        } else {
            Phase::Unindexed
        };
    }

    fn evaluate_unindexed(&mut self, index: &Index, progress: &mut Progress) {
        let unindexed = index.tree().unindexed();
        let Search { event, digests, memo, matches, .. } = self;
        let asked = Asked { event, digests: first_chunk(digests), catalog: index.catalog() };
        let rest = &unindexed[progress.unindexed as usize..];
        let part = &rest[..rest.len().min(AHEAD)];
        if progress.position == 0 {
            prefetch(part, index);
        }
        let run = run_all(part, asked, memo, matches, progress);
        progress.unindexed += run;
        progress.visited += u64::from(run);
        if progress.unindexed as usize == unindexed.len() {
            progress.phase = Phase::Collect;
        }
    }

    /// Decides a part of the dense expressions; those that it cannot decide become candidates.
    fn decide_dense(&mut self, index: &Index, progress: &mut Progress) {
        let dense = index.dense();
        let Search { bits, candidates, matches, .. } = self;
        let before = progress.candidates;
        let visited = dense.decide(progress.dense as usize, bits, |block, decided| {
            match block.run() {
                Some(first) => matches.insert_run(first, decided.holds),
                None => ones(decided.holds).for_each(|lane| matches.insert(block.slot(lane))),
            }
            for lane in ones(decided.open) {
                candidates[progress.candidates as usize] = block.program(lane);
                progress.candidates += 1;
            }
        });
        progress.visited += visited as u64;
        progress.evaluated += visited as u64 - u64::from(progress.candidates - before);
        progress.dense += 1;
        if progress.dense as usize == dense.parts() || progress.candidates > STEP {
            progress.phase = Phase::Verify;
        }
    }

    /// Takes in the dense expressions that were evaluated for many events at once.
    #[inline(never)]
    fn take_in(&mut self, sliced: &Sliced, event: usize, index: &Index, progress: &mut Progress) {
        let words = index.subscriptions().capacity().div_ceil(32) as u32;
        let end = words.min(progress.word + STEP);
        for word in progress.word..end {
            self.matches.insert_word(word, sliced.word(event, word as usize));
        }
        progress.word = end;
        if end == words {
            progress.word = 0;
            progress.dense = index.dense().parts() as u32;
            progress.phase = Phase::Verify;
        }
    }

    fn collect(&mut self, index: &Index, progress: &mut Progress) {
        match progress.form {
            Form::Ids => self.collect_ids(index, progress),
            Form::Bitmap => self.collect_bitmap(index, progress),
        }
    }

    #[inline(never)]
    fn collect_ids(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let list = &mut self.ids[progress.start as usize..];
        let mut ids = progress.ids as usize;
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let rows = subscriptions.ids(group.first);
            let given = pick(group, rows, first_chunk_mut(&mut list[ids..]));
            ids += given;
            given
        });
        progress.ids = ids as u32;
        match rest {
            Some(group) => progress.word = group,
            None if subscriptions.is_ascending() => progress.phase = progress.after_matches(),
            None => {
                self.sort.start(progress.ids as usize);
                progress.phase = Phase::Sort;
            }
        }
    }

    /// Sets the bits of the ids; words are emptied as the greatest of them so far needs them.
    #[inline(never)]
    fn collect_bitmap(&mut self, index: &Index, progress: &mut Progress) {
        let subscriptions = index.subscriptions();
        let most = batch::bitmap_words(subscriptions.capacity(), subscriptions.greatest());
        let mut bitmap = Bitmap {
            words: &mut self.ids[progress.start as usize..][..most],
            len: progress.ids as usize,
            too_large: progress.too_large,
        };
        let rest = self.matches.groups(progress.word, STEP as usize, |group| {
            let rows = subscriptions.ids(group.first);
            let mut given = 0;
            for (place, bits) in group.words() {
                bitmap.insert_row(&rows[place], bits);
                given += bits.count_ones() as usize;
            }
            given
        });
        progress.ids = bitmap.len as u32;
        progress.too_large = bitmap.too_large;
        match rest {
            Some(group) => progress.word = group,
            None => progress.phase = Phase::Done,
        }
    }

    fn sort(&mut self, progress: &mut Progress) {
        if self.sort.step(&mut self.ids[progress.start as usize..][..progress.ids as usize]) {
            progress.phase = progress.after_matches();
        }
    }
}

impl Search {
    fn has_room(&self, extent: &Extent) -> bool {
        self.nodes.len() > extent.nodes
            && self.found_at.len() >= extent.nodes
            && self.ids.len() >= batch::most_words(extent)
            && self.memo.has_room(extent.predicates)
            && self.matches.has_room(extent.slots)
            && (extent.greatest.is_some() || self.sort.has_room(extent.slots))
    }
}

impl Searches for Search {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        if self.has_room(extent) && !extent.has_reasons {
            return Ok(());
        }
        let extent = extent.rounded();
        let Extent { attributes, nodes, slots, .. } = extent;
        grow(&mut self.digests, (attributes + 1).max(program::DIGESTS))?;
        self.seen.reserve(attributes)?;
        grow(self.candidates.kept(), LENGTH + PART)?;
        grow(&mut self.proven, LENGTH)?;
        // One more than there are: see `push_found`.
        grow(&mut self.nodes, nodes + 1)?;
        grow(&mut self.found_at, nodes)?;
        grow(&mut self.ids, batch::most_words(&extent))?;
        self.memo.reserve(extent.predicates)?;
        self.matches.reserve(slots)?;
        if extent.greatest.is_none() {
            self.sort.reserve(slots)?;
        }
        if extent.has_reasons {
            self.reserve_reasons(&extent)?;
        }
        Ok(())
    }
}

/// Adds each of the `found` nodes that was not found before, and tells how many lookups there were.
fn push_found(
    found: impl Iterator<Item = Option<NodeId>>,
    nodes: &mut [NodeId],
    found_at: &mut [u32],
    progress: &mut Progress,
) -> u32 {
    let mut lookups = 0;
    for node in found {
        lookups += 1;
        let Some(node) = node else { continue };
        // A list may lead to a node twice. What `found_at` says counts only where `nodes` agrees, so it needs no clearing.
        // Nor may it decide about a branch, or a search would cost what earlier ones left there: what is known already is
        // written behind the list, where the next node takes its place.
        let at = found_at[node as usize];
        let known = (at < progress.nodes) & (nodes[at as usize] == node);
        nodes[progress.nodes as usize] = node;
        found_at[node as usize] = if known { at } else { progress.nodes };
        progress.nodes += u32::from(!known);
    }
    lookups
}

/// Reads a word of each of the first lines of memory that `programs` take. They lie anywhere in memory, and reads that do
/// not wait for one another are fetched many at a time; the runs that follow, full of branches, would wait for each.
#[inline(never)]
fn prefetch(programs: &[ProgramId], index: &Index) {
    // Four at a time, so that the loop costs little beside what it does.
    let (fours, rest) = programs.as_chunks::<4>();
    let store = &index.catalog().programs;
    let prefetched = fours.iter().fold(0, |sum, four| sum ^ store.prefetch(four));
    black_box(rest.iter().fold(prefetched, |sum, &program| sum ^ store.prefetch(&[program])));
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

/// Passes the leaf lists of `nodes` from where `progress` is, about a step's work: lists the slots of what proves itself, and
/// tells how many these are; lists the programs of the other entries that passed behind the candidates.
#[inline(always)]
fn pass_lists(
    tree: &Tree,
    nodes: &[NodeId],
    digests: &(impl Table + ?Sized),
    slots: &mut List,
    programs: &mut List,
    progress: &mut Progress,
) -> usize {
    let mut work = 0;
    let mut passed = Passed { proven: 0, to_run: progress.candidates as usize };
    while progress.node < progress.nodes && work < STEP {
        let node = tree.node(nodes[progress.node as usize]);
        let entries = &node.entries()[progress.entry as usize..];
        let taken = fitting(entries, PLACES - 1 - passed.proven - passed.to_run);
        passed = scan(&entries[..taken], digests, slots, programs, passed);
        progress.visited += taken as u64;
        work += taken as u32 + 1;
        if taken == entries.len() {
            progress.node += 1;
            progress.entry = 0;
        } else {
            progress.entry += taken as u32;
            break;
        }
    }
    progress.candidates = passed.to_run as u32;
    passed.proven
}

/// Runs `programs` for about a step's work, the first of them from the position in `progress`, where the last one's is
/// noted. Tells how many came to their ends.
///
/// All in one call: a call for each would save, restore and check the fuel.
#[inline(never)]
fn run_all(
    programs: &[ProgramId],
    asked: Asked,
    memo: &mut Memo,
    matches: &mut SlotSet,
    progress: &mut Progress,
) -> u32 {
    let mut budget = STEP * WORDS;
    let mut run = 0;
    memo.allow(budget);
    for &id in programs {
        if budget == 0 {
            break;
        }
        let program = asked.catalog.programs.code(id);
        let (outcome, words) = run::run(program, progress.position, budget, asked, memo);
        budget = budget.saturating_sub(words);
        match outcome {
            Outcome::Stopped(position) => {
                progress.position = position;
                break;
            }
            Outcome::Done(holds) => matches.insert_if(holds, program.first()),
        }
        progress.position = 0;
        run += 1;
    }
    if memo.is_exhausted() && progress.position == 0 {
        // The last one did not come to its end, and is run again in the next step.
        run -= 1;
    }
    progress.evaluated += u64::from(run);
    run
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Insertion;
    use crate::model::schema::{Attribute, Bounds, Schema, Type};

    fn index() -> Index {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
        let attributes = vec![
            attribute("a", Type::Integer),
            attribute("b", Type::Boolean),
            attribute("c", Type::Boolean),
            attribute("l", Type::IntegerList),
            attribute("s", Type::String),
        ];
        let mut index = Index::new(Schema::new(attributes).unwrap());
        // Ids out of order, so that matches are sorted; gated, unindexed and long expressions; dense ones, some of which
        // are too long for windows.
        for i in 0..4000_u64 {
            let text = match i % 7 {
                0 => format!("a = {} and s <> 'x'", i % 50),
                1 => format!("a >= {} and a < {} and not b", i % 90, i % 90 + 20),
                2 => format!("l one of ({}, {}) and contains(s, 'ell')", i % 700, i % 300),
                3 => format!("not b or a <> {}", i % 10),
                4 => ["b or c", "not b and not c"][i as usize / 7 % 2].into(),
                5 => vec!["(b or not c)"; 1 + 5 * (i as usize % 90)].join(" and "),
                _ => (0..300).map(|j| format!("a <> {}", 1000 + j * i)).collect::<Vec<_>>().join(" and "),
            };
            let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
        }
        index
    }

    const EVENT_BYTES: &[u8] = br#"{"a": 33, "b": false, "l": [1, 2, 3, 33, 299, 650], "s": "hello"}"#;

    fn open(search: &mut Search, index: &Index) {
        search.open(index, Format::Json, EVENT_BYTES, None::<std::iter::Empty<u64>>).unwrap();
    }

    /// What a search that `open` starts finds, and finds as well where the commits of some of its steps are lost.
    pub(super) fn found_though_commits_are_lost(index: &Index, open: impl Fn(&mut Search)) -> Vec<u64> {
        let mut search = Search::default();
        search.reserve(index).unwrap();
        open(&mut search);
        let expected = search.run(index).packed().to_vec();
        for lost in 1..4 {
            open(&mut search);
            let mut steps = 0;
            loop {
                let committed = search.checkpoint;
                let done = search.step(index);
                steps += 1;
                if steps % (lost + 1) != 0 {
                    // As if a trap had come between the last write of the step and its commit.
                    search.checkpoint = committed;
                } else if done {
                    break;
                }
            }
            assert!(steps > 20);
            assert_eq!(search.run(index).packed(), expected);
        }
        expected
    }

    #[test]
    fn a_step_whose_commit_was_lost_is_done_again() {
        let index = index();
        assert!(found_though_commits_are_lost(&index, |search| open(search, &index)).len() > 1500);
    }

    #[test]
    fn a_search_that_meets_few_expressions_is_one_step_that_can_be_done_again() {
        let attribute =
            |name: &str| Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
        let mut index = Index::new(Schema::new(vec![attribute("a"), attribute("b")]).unwrap());
        for id in 0..60_u64 {
            let text = if id % 3 == 0 { format!("a <> {id}") } else { format!("a = {} and b < {id}", id % 10) };
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
        }
        let mut search = Search::default();
        search.reserve(&index).unwrap();
        let event = br#"{"a": 4, "b": 30}"#;
        search.open(&index, Format::Json, event, None::<std::iter::Empty<u64>>).unwrap();
        let committed = search.checkpoint;
        for _ in 0..3 {
            search.checkpoint = committed;
            assert!(search.step(&index));
            let expected = (0..60).filter(|id| if id % 3 == 0 { *id != 4 } else { id % 10 == 4 && 30 < *id });
            assert!(search.found().ids().iter().copied().eq(expected));
        }
    }

    #[test]
    fn a_search_enlarges_nothing_that_outlives_it() {
        let index = index();
        let mut search = Search::default();
        search.reserve(&index).unwrap();
        search.reserve_event(&index).unwrap();
        let room = |search: &mut Search| {
            let lists = [search.nodes.capacity(), search.found_at.capacity(), search.candidates.kept().capacity()];
            let event = search.event.kept();
            let event = [event.values.capacity(), event.bytes.capacity(), event.integers.capacity()];
            (lists, event, search.ids.capacity(), search.digests.capacity())
        };
        let before = room(&mut search);
        open(&mut search, &index);
        let expected = search.run(&index).ids().to_vec();
        assert_eq!(room(&mut search), before);
        // More elements than there is room for, of which only those of the event above are in any expression.
        let unknown: String = (0..EVENT).map(|i| format!("{}, ", 1_000_000 + i)).collect();
        let large = String::from_utf8(EVENT_BYTES.to_vec()).unwrap().replace("[1,", &format!("[{unknown}1,"));
        search.open(&index, Format::Json, large.as_bytes(), None::<std::iter::Empty<u64>>).unwrap();
        assert_eq!(search.run(&index).ids(), expected);
        assert_eq!(room(&mut search), before);
        // More ids than there is room for.
        let ids = expected.iter().copied().cycle().take(3 * STEP as usize).collect::<Vec<_>>();
        search.open(&index, Format::Json, EVENT_BYTES, Some(ids.into_iter())).unwrap();
        assert_eq!(search.run(&index).ids(), expected);
        assert_eq!(room(&mut search), before);
        open(&mut search, &index);
        assert_eq!(search.run(&index).ids(), expected);
    }
}
