//! The scan tests the entries of the nodes' leaf lists and marks the expressions that they prove.

use std::cell::Cell;

use super::progress::{Phase, Progress};
use super::{first_chunk, first_chunk_mut, Search, STEP};
use crate::event::digest::{self, Table};
use crate::handles::{NodeId, ProgramId};
use crate::index::Index;
use crate::support::simd::Fastest;
use crate::tree::scan::{fitting, scan, List, Passed, Proven, PLACES};
use crate::tree::{Entry, Tree};

impl Search {
    /// Scans the leaf lists of the found nodes. It stops when none is left, or when the candidates leave no room for another
    /// list.
    #[inline(never)]
    pub(super) fn scan(&mut self, index: &Index, progress: &mut Progress) {
        let proven = self.pass(index, progress);
        self.mark(proven, index, progress);
        if progress.node == progress.nodes || progress.candidates > STEP / 2 {
            progress.phase = Phase::Verify;
        }
    }

    /// Scans leaf lists for about a step. Notes the slots of sufficient entries that passed, and returns their number. The
    /// programs of other entries that passed become candidates.
    #[inline(always)]
    pub(super) fn pass(&mut self, index: &Index, progress: &mut Progress) -> usize {
        let Search { nodes, digests, gathered, proven, candidates, .. } = self;
        let (slots, programs) = (first_chunk_mut(proven), first_chunk_mut(candidates));
        if digest::place(index.schema().patterns()) < digest::USUAL_DIGESTS {
            let digests = first_chunk::<_, { digest::USUAL_DIGESTS }>(digests);
            pass_lists(index.tree(), nodes, digests, gathered, slots, programs, progress)
        } else {
            pass_lists(index.tree(), nodes, &digests[..], gathered, slots, programs, progress)
        }
    }

    /// Marks the first `proven` of the noted slots as matches. Those that the event may fail become candidates.
    #[inline(never)]
    pub(super) fn mark(&mut self, proven: usize, index: &Index, progress: &mut Progress) {
        let Search { proven: slots, candidates, matches, .. } = self;
        let slots = Cell::from_mut(&mut slots[..proven]).as_slice_of_cells();
        let (fours, rest) = slots.as_chunks::<4>();
        // The slots that the event may fail move to the front of the list.
        let mut failing = 0;
        let mut mark = |slot: &Cell<Proven>| {
            let slot = slot.get();
            if slot.may_fail() {
                slots[failing].set(slot);
                failing += 1;
            } else {
                matches.insert(slot.slot());
            }
        };
        // Unrolled four times, because the overhead of a loop is half of its cost.
        for four in fours {
            four.iter().for_each(&mut mark);
        }
        rest.iter().for_each(mark);
        // The programs of these slots are looked up last, so that their cache misses overlap.
        let candidates = &mut candidates[progress.candidates as usize..][..failing];
        for (candidate, slot) in candidates.iter_mut().zip(slots) {
            *candidate = index.subscriptions().get(slot.get().slot()).program;
        }
        progress.candidates += failing as u32;
    }
}

/// The number of lists of one entry that are scanned together.
pub(super) const GATHERED: usize = 16;

/// Gathers the entries of the first nodes whose lists have one entry. Returns their number.
#[inline(always)]
fn gather(tree: &Tree, nodes: &[NodeId], gathered: &mut [Entry; GATHERED]) -> usize {
    let mut count = 0;
    for (place, &node) in gathered.iter_mut().zip(nodes) {
        let [entry] = tree.node(node).entries() else { break };
        *place = *entry;
        count += 1;
    }
    count
}

/// Scans the leaf lists of `nodes` from `progress` on, for about a step. Writes the slots of sufficient entries that passed
/// to `slots` and returns their number. Appends the programs of other entries that passed to the candidates.
#[inline(always)]
fn pass_lists(
    tree: &Tree,
    nodes: &[NodeId],
    digests: &(impl Table + ?Sized),
    gathered: &mut [Entry; GATHERED],
    slots: &mut List<Proven>,
    programs: &mut List<ProgramId>,
    progress: &mut Progress,
) -> usize {
    let mut work = 0;
    let mut passed = Passed { proven: 0, to_run: progress.candidates as usize };
    while progress.node < progress.nodes && work < STEP {
        let entries = tree.node(nodes[progress.node as usize]).entries();
        let room = PLACES - 1 - passed.proven - passed.to_run;
        if entries.len() == 1 && room >= GATHERED {
            let count = gather(tree, &nodes[progress.node as usize..progress.nodes as usize], gathered);
            passed = scan::<Fastest>(&gathered[..count], digests, slots, programs, passed);
            progress.visited += count as u64;
            progress.node += count as u32;
            work += 2 * count as u32;
            continue;
        }
        let entries = &entries[progress.entry as usize..];
        let taken = fitting(entries, room);
        passed = scan::<Fastest>(&entries[..taken], digests, slots, programs, passed);
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
