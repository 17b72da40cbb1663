//! The scan: which entries of the nodes' leaf lists the event passes, and which of them prove their expressions.

use super::progress::{Phase, Progress};
use super::{first_chunk, first_chunk_mut, Search, STEP};
use crate::event::digest::{self, Table};
use crate::handles::NodeId;
use crate::handles::Slot;
use crate::index::Index;
use crate::tree::scan::{fitting, scan, List, Passed, IN_DOUBT, PLACES};
use crate::tree::Tree;

impl Search {
    /// Passes the leaf lists of the nodes found until there are none left, or until the candidates are too many to take in
    /// another list.
    #[inline(never)]
    pub(super) fn scan(&mut self, index: &Index, progress: &mut Progress) {
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
    pub(super) fn mark(&mut self, proven: usize, index: &Index, progress: &mut Progress) {
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
