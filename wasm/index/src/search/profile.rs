//! A profile runs a search part by part, so that a caller can measure each part, and returns the counts of a part.
//!
//! A part is one turn of one phase, as in a step. Its counts are derived afterwards from the lists that it left, so counting
//! does not slow the part down.

use super::progress::{Phase, Progress};
use super::{first_chunk, Dense, Search};
use crate::eval::run::Asked;
use crate::eval::trace::{trace, Trace};
use crate::event::digest;
use crate::event::Value;
use crate::handles::ProgramId;
use crate::index::Index;
use crate::model::schema::AttributeId;
use crate::support::simd::Fastest;
use crate::tree::scan::{fitting, scan, Passed, Proven, LENGTH, PLACES};

/// The phase of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Finds the nodes to which the event leads.
    Walk,
    /// Tests the entries of the nodes' leaf lists.
    Scan,
    /// Runs the programs of candidates.
    Verify,
    /// Decides dense boolean expressions.
    Dense,
    /// Runs the programs of unindexed expressions.
    Unindexed,
    /// Makes the list of ids.
    Collect,
    /// Sorts the list of ids.
    Sort,
}

/// The counts of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counts {
    /// The counts of the whole walk, returned for its last part.
    Walk(Vec<Lookups>),
    /// The counts of a part of the scan, or of the dense expressions, each of which counts as an entry.
    Scan(Vec<Scanned>),
    /// The expressions whose programs ran.
    Run(Vec<Run>),
    /// The part has no counts.
    None,
}

/// The lookups in the value levels of one attribute, and the nodes found there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookups {
    /// The attribute, or `None` for the nodes that every search visits.
    pub attribute: Option<AttributeId>,
    /// The number of values that were looked up.
    pub lookups: u64,
    /// The number of nodes that they led to.
    pub nodes: u64,
}

/// The scanned entries of the nodes below one attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The attribute, or `None` for the nodes that every search visits.
    pub attribute: Option<AttributeId>,
    /// The number of entries.
    pub entries: u64,
    /// The number of expressions that an entry proved.
    pub proven: u64,
    /// The ids of the candidates, in the order of their entries.
    pub candidates: Vec<u64>,
}

/// One run of an expression's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The id of the expression.
    pub id: u64,
    /// The number of tests.
    pub tests: u32,
    /// Whether the expression is true.
    pub holds: bool,
    /// The attribute of the last test, which is the deciding one.
    pub decided_by: Option<AttributeId>,
}

impl Search {
    /// Runs the next part of an opened search. Returns its phase, or `None` if the search is finished.
    ///
    /// ```
    /// use be_tree_index::event::Format;
    /// use be_tree_index::index::{Index, Insertion};
    /// use be_tree_index::search::{Part, Search};
    /// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    /// # let age = Attribute { name: "age".into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
    /// # let schema = Schema::new(vec![age])?;
    ///
    /// let mut index = Index::new(schema);
    /// index.insert(&Insertion { id: 1, text: b"age > 30", constants: vec![] })?;
    /// let mut search = Search::default();
    /// search.reserve(&index)?;
    /// search.open(&index, Format::Json, br#"{"age": 40}"#, None::<std::iter::Empty<u64>>)?;
    /// assert_eq!(search.next_part(&index), Some(Part::Walk));
    /// while search.next_part(&index).is_some() {}
    /// assert_eq!(search.found().ids(), [1]);
    /// # Ok::<(), be_tree_index::error::Error>(())
    /// ```
    pub fn next_part(&mut self, index: &Index) -> Option<Part> {
        let before = self.checkpoint.load();
        let mut progress = before;
        self.run_phase(index, Dense::Open, &mut progress);
        self.checkpoint.commit(progress);
        self.before_part = before;
        Part::of(before.phase)
    }

    /// Returns the counts of the part that ran last. It reads the lists that the part left.
    pub fn counts(&mut self, index: &Index) -> Counts {
        let (before, after) = (self.before_part, self.checkpoint.load());
        match before.phase {
            Phase::Walk if after.phase != Phase::Walk => Counts::Walk(self.lookups(index, &after)),
            Phase::Scan => Counts::Scan(self.scanned(index, &before, &after)),
            Phase::Dense => Counts::Scan(vec![self.decided(index, &before, &after)]),
            Phase::Verify => {
                let end = if after.candidates == 0 { before.candidates } else { after.candidate };
                let programs = self.candidates[before.candidate as usize..end as usize].to_vec();
                Counts::Run(self.runs(index, &programs))
            }
            Phase::Unindexed => {
                let programs = &index.tree().unindexed()[before.unindexed as usize..after.unindexed as usize];
                Counts::Run(self.runs(index, programs))
            }
            _ => Counts::None,
        }
    }

    fn lookups(&self, index: &Index, walked: &Progress) -> Vec<Lookups> {
        let mut counts: PerAttribute<Lookups> = PerAttribute::new(index);
        for &node in &self.nodes[..walked.nodes as usize] {
            counts.of(index.tree().attribute_above(node)).nodes += 1;
            for branch in index.tree().node(node).branches() {
                counts.of(Some(branch.attribute)).lookups += match self.event.values[branch.attribute.index()] {
                    Value::Undefined => 0,
                    Value::Integers(span) => span.of(&self.event.integers).len() as u64,
                    Value::Strings(span) => span.of(&self.event.strings).len() as u64,
                    Value::Segments(span) => span.of(&self.event.segments).len() as u64,
                    Value::Patterns => self.event.patterns.len() as u64,
                    _ => 1,
                };
            }
        }
        counts.used(|attribute, count: Lookups| Lookups { attribute, ..count }, |count| count.lookups + count.nodes > 0)
    }

    /// Scans the same entries again, node by node.
    fn scanned(&self, index: &Index, before: &Progress, after: &Progress) -> Vec<Scanned> {
        let mut counts: PerAttribute<Scanned> = PerAttribute::new(index);
        let (mut node, mut entry) = (before.node, before.entry);
        while (node, entry) != (after.node, after.entry) {
            let id = self.nodes[node as usize];
            let entries = &index.tree().node(id).entries()[entry as usize..];
            let entries = if node == after.node { &entries[..(after.entry - entry) as usize] } else { entries };
            let scanned = counts.of(index.tree().attribute_above(id));
            self.rescan(index, entries, scanned);
            (node, entry) = if node == after.node { (node, after.entry) } else { (node + 1, 0) };
        }
        counts.used(|attribute, count| Scanned { attribute, ..count }, |count| count.entries > 0)
    }

    fn rescan(&self, index: &Index, mut entries: &[crate::tree::Entry], scanned: &mut Scanned) {
        scanned.entries += entries.len() as u64;
        let subscriptions = index.subscriptions();
        while !entries.is_empty() {
            let (part, rest) = entries.split_at(fitting(entries, PLACES - 1));
            let mut slots = [Proven::default(); LENGTH];
            let mut programs = [ProgramId::default(); LENGTH];
            let passed = scan::<Fastest>(part, &self.digests[..], &mut slots, &mut programs, Passed::default());
            for proven in &slots[..passed.proven] {
                match proven.may_fail() {
                    true => scanned.candidates.push(subscriptions.id(proven.slot())),
                    false => scanned.proven += 1,
                }
            }
            scanned.candidates.extend(programs[..passed.to_run].iter().map(|&program| id_of(program, index)));
            entries = rest;
        }
    }

    /// Returns the counts of dense expressions. Those that windows left open became candidates.
    fn decided(&self, index: &Index, before: &Progress, after: &Progress) -> Scanned {
        let entries = after.visited - before.visited;
        let open = &self.candidates[before.candidates as usize..after.candidates as usize];
        let candidates: Vec<u64> = open.iter().map(|&program| id_of(program, index)).collect();
        // The results of decided expressions are not counted.
        Scanned { attribute: None, entries, proven: 0, candidates }
    }

    /// Runs `programs` again, test by test.
    fn runs(&mut self, index: &Index, programs: &[ProgramId]) -> Vec<Run> {
        let Search { event, digests, memo, .. } = self;
        let asked = Asked { event, digests: first_chunk(digests), catalog: index.catalog() };
        let run = |&program: &ProgramId| {
            let Trace { holds, tests, decided_by } = trace(program, asked, memo);
            Run { id: id_of(program, index), tests, holds, decided_by }
        };
        programs.iter().map(run).collect()
    }
}

impl Part {
    fn of(phase: Phase) -> Option<Part> {
        match phase {
            Phase::Walk => Some(Part::Walk),
            Phase::Scan => Some(Part::Scan),
            Phase::Verify => Some(Part::Verify),
            Phase::Dense => Some(Part::Dense),
            Phase::Unindexed => Some(Part::Unindexed),
            Phase::Collect => Some(Part::Collect),
            Phase::Sort => Some(Part::Sort),
            Phase::Gather | Phase::Explain | Phase::Count | Phase::Group | Phase::Done => None,
        }
    }

    /// Returns the number of the phase. The numbers follow the order of the phases.
    pub fn code(self) -> u32 {
        self as u32
    }
}

fn id_of(program: ProgramId, index: &Index) -> u64 {
    index.subscriptions().id(index.catalog().slot(program))
}

/// A count for each attribute, and one for the nodes below no attribute.
struct PerAttribute<T> {
    counts: Vec<T>,
}

impl<T: Default + Clone> PerAttribute<T> {
    fn new(index: &Index) -> Self {
        PerAttribute { counts: vec![T::default(); digest::place(index.schema().patterns()) + 1] }
    }

    fn of(&mut self, attribute: Option<AttributeId>) -> &mut T {
        &mut self.counts[attribute.map_or(0, digest::place)]
    }

    /// Returns the counts that `is_used` accepts, each with its attribute set by `with`.
    fn used(self, with: impl Fn(Option<AttributeId>, T) -> T, is_used: impl Fn(&T) -> bool) -> Vec<T> {
        let counts = self.counts.into_iter().enumerate().filter(|(_, count)| is_used(count));
        counts.map(|(place, count)| with(digest::attribute(place), count)).collect()
    }
}
