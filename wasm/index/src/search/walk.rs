//! The walk finds the nodes of the tree to which an event leads.

use std::hint::black_box;

use super::progress::{Phase, Progress};
use super::{Search, STEP};
use crate::event::digest;
use crate::event::{key, Value};
use crate::handles::NodeId;
use crate::index::Index;
use crate::tree::{Branch, Tree};

impl Search {
    /// Finds the nodes to which the event leads.
    #[inline(never)]
    pub(super) fn walk(&mut self, index: &Index, progress: &mut Progress) {
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

    /// Prefetches the first cache lines of the found nodes' leaf lists, for the same reason as `prefetch` in `verify.rs`.
    /// The processor prefetches the rest of a longer list by itself.
    #[inline(never)]
    pub(super) fn prefetch_entries(&self, index: &Index, progress: &Progress) {
        let prefetch = |&node: &NodeId| {
            let entries = index.tree().node(node).entries();
            if let [entry] = entries {
                return entry.subject.word();
            }
            let lines =
                [0, 4, 8, 12, 16, 20, 24, 28].map(|place| entries.get(place).map_or(0, |entry| entry.subject.word()));
            lines.into_iter().fold(0, |sum, subject| sum ^ subject)
        };
        let found = &self.nodes[..progress.nodes.min(STEP) as usize];
        black_box(found.iter().map(prefetch).fold(0, |sum, subject| sum ^ subject));
    }

    /// Adds the nodes below the next branch whose attribute the event defines. Returns the cost in lookups.
    #[inline(never)]
    pub(super) fn follow(&mut self, tree: &Tree, branches: &[Branch], progress: &mut Progress) -> u32 {
        let ahead = &branches[progress.level as usize..];
        let ahead = &ahead[..ahead.len().min(STEP as usize)];
        let is_defined = |branch: &Branch| self.digests[digest::place(branch.attribute)].is_defined();
        let Some(passed) = ahead.iter().position(is_defined) else {
            progress.level += ahead.len() as u32;
            return ahead.len() as u32;
        };
        progress.level += passed as u32;
        let level = tree.level(ahead[passed].level);
        let value = self.event.values[level.attribute.index()];
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
                let found = elements.iter().map(|text| level.point(key::of_string(text.id)));
                push_found(found, &mut self.nodes, &mut self.found_at, progress)
            }
            Value::Segments(span) => {
                let elements = &span.of(&self.event.segments)[progress.element as usize..];
                let elements = &elements[..elements.len().min(STEP as usize)];
                let found = elements.iter().map(|segment| level.point(segment.id));
                push_found(found, &mut self.nodes, &mut self.found_at, progress)
            }
            Value::Patterns => {
                let elements = &self.event.patterns[progress.element as usize..];
                let elements = &elements[..elements.len().min(STEP as usize)];
                let found = elements.iter().map(|&pattern| level.point(pattern));
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

    pub(super) fn push_node(&mut self, node: NodeId, progress: &mut Progress) {
        self.nodes[progress.nodes as usize] = node;
        progress.nodes += 1;
    }
}

/// Adds each of the `found` nodes that is new. Returns the number of lookups.
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
        // A list value may lead to a node twice. `found_at` needs no clearing, because an element counts only if `nodes` agrees.
        // No branch depends on that, or the cost of a search would depend on earlier searches. So a known node is written too,
        // past the end of the list, where the next node overwrites it.
        let at = found_at[node.index()];
        let known = (at < progress.nodes) & (nodes[at as usize] == node);
        nodes[progress.nodes as usize] = node;
        found_at[node.index()] = if known { at } else { progress.nodes };
        progress.nodes += u32::from(!known);
    }
    lookups
}
