//! An observed search runs the phases of a search one leaf list at a time, and reports each list.
//!
//! The phases are those of every search. Only their order differs: an ordinary search scans many lists before it runs the
//! programs of all their candidates.

use super::progress::{Phase, Progress};
use super::Search;
use crate::catalog::subscriptions::Placement;
use crate::handles::{NodeId, Slot};
use crate::index::Index;

/// A list that a search visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    /// The leaf list of a node. That of [`NodeId::SCANNED`] is scanned by every search.
    Leaf(NodeId),
    /// The dense expressions, which windows decide.
    Dense,
    /// The other expressions without an access predicate, which run in every search.
    Unindexed,
}

/// The work of a search at one list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Visit {
    pub list: List,
    /// The entries or expressions that the search visited.
    pub visited: u64,
    /// Of these, the entries whose filters the event passed, or the dense expressions that windows left open, or all
    /// unindexed expressions.
    pub passed: u64,
    /// The programs that ran, or the dense expressions that windows decided.
    pub evaluated: u64,
    /// The expressions whose match was first found here.
    pub matched: Vec<Slot>,
}

impl Search {
    /// Runs an opened search among all subscriptions, and calls `each` after each list. [`Search::found`] then returns the
    /// result of the search.
    pub(crate) fn observe(&mut self, index: &Index, mut each: impl FnMut(Visit)) {
        let mut progress = self.checkpoint.load();
        while progress.phase == Phase::Walk {
            self.walk(index, &mut progress);
        }
        let nodes = progress.nodes;
        for node in 1..=nodes {
            // Ends the list of known nodes after the next one, so that the scan stops there.
            progress.nodes = node;
            let list = List::Leaf(self.nodes[node as usize - 1]);
            each(self.observe_leaf(list, index, &mut progress));
        }
        if progress.phase == Phase::Dense {
            each(self.observe_rest(List::Dense, Phase::Unindexed, index, &mut progress));
        }
        if !index.tree().unindexed().is_empty() {
            each(self.observe_rest(List::Unindexed, Phase::Collect, index, &mut progress));
        }
        self.checkpoint.commit(progress);
        while !self.step(index) {}
    }

    /// Scans the list of one node and runs the programs of its candidates.
    fn observe_leaf(&mut self, list: List, index: &Index, progress: &mut Progress) -> Visit {
        let before = *progress;
        let mut visit = Visit { list, visited: 0, passed: 0, evaluated: 0, matched: Vec::new() };
        while progress.node < progress.nodes {
            let proven = self.pass(index, progress);
            let programs = &self.candidates[..progress.candidates as usize];
            let slots = self.proven[..proven].iter().map(|proven| proven.slot());
            let slots = slots.chain(programs.iter().map(|&program| index.catalog().slot(program)));
            let open: Vec<Slot> = slots.filter(|&slot| !self.matches.has(slot)).collect();
            visit.passed += proven as u64 + u64::from(progress.candidates);
            self.mark(proven, index, progress);
            self.verify_all(index, progress);
            visit.matched.extend(open.into_iter().filter(|&slot| self.matches.has(slot)));
        }
        self.verify_all(index, progress);
        visit.visited = progress.visited - before.visited;
        visit.evaluated = progress.evaluated - before.evaluated;
        visit
    }

    /// Runs the programs of all candidates.
    fn verify_all(&mut self, index: &Index, progress: &mut Progress) {
        loop {
            self.verify(index, progress);
            if progress.candidates == 0 {
                return;
            }
        }
    }

    /// Runs the phases up to `end`, which all belong to one list.
    fn observe_rest(&mut self, list: List, end: Phase, index: &Index, progress: &mut Progress) -> Visit {
        let before = *progress;
        let is_listed = |placement| match list {
            List::Dense => matches!(placement, Placement::Dense(_)),
            _ => matches!(placement, Placement::Unindexed(_)),
        };
        let mut passed = 0;
        while progress.phase != end {
            match progress.phase {
                Phase::Dense => {
                    self.decide_dense(index, progress);
                    passed += u64::from(progress.candidates);
                }
                Phase::Unindexed => self.evaluate_unindexed(index, progress),
                _ => self.verify_all(index, progress),
            }
        }
        let visited = progress.visited - before.visited;
        let subscriptions = index.subscriptions().iter();
        let listed = subscriptions.filter(|(slot, held)| is_listed(held.placement()) && self.matches.has(*slot));
        Visit {
            list,
            visited,
            passed: if list == List::Dense { passed } else { visited },
            evaluated: progress.evaluated - before.evaluated,
            matched: listed.map(|(slot, _)| slot).collect(),
        }
    }
}
