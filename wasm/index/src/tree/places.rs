//! Finds the places of an expression in the tree, to remove it.

use hashbrown::HashSet;

use super::Tree;
use crate::compile::normal::{NodeIndex, Normal, NormalNode};
use crate::cost;
use crate::error::Error;
use crate::handles::{LevelId, NodeId, ProgramId, Slot};
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::Analysis;
use crate::support::hash::{out_of_memory, State};
use crate::support::headroom::push;
use crate::tree::level::Level;

/// An expression that is found by one literal of a conjunction.
struct Sought<'a> {
    slot: Slot,
    program: ProgramId,
    analysis: &'a Analysis,
    /// The demands of the conjunction as shares and literals, the most selective first.
    demands: &'a [(f32, NodeIndex)],
}

impl Tree {
    /// Returns the nodes that have entries of an expression. Errors: out of memory.
    pub(super) fn nodes_of(&self, slot: Slot, program: ProgramId, analysis: &Analysis) -> Result<Vec<NodeId>, Error> {
        match self.nodes_of_conjunction(slot, program, analysis)? {
            Some(nodes) => {
                debug_assert!(self.agrees(&nodes, slot, program, analysis), "the nodes of slot {slot}: {nodes:?}");
                Ok(nodes)
            }
            None => self.all_nodes_of(slot, program, analysis),
        }
    }

    /// Returns the nodes of an expression with entries under a single literal, or `None` if it may have entries under several.
    /// The entries of a literal are in the list of a node, or below exactly one of its levels, under all values of one demand.
    fn nodes_of_conjunction(
        &self,
        slot: Slot,
        program: ProgramId,
        analysis: &Analysis,
    ) -> Result<Option<Vec<NodeId>>, Error> {
        let normal = &analysis.normal;
        let root = normal.root();
        let first = match normal.node(root) {
            NormalNode::Literal(_) => Some(root),
            NormalNode::And => normal.children(root).find(|child| normal.literal(*child).is_some()),
            NormalNode::Or => None,
        };
        let Some(first) = first else { return Ok(None) };
        let (mut sorted, mut count) = ([(0.0, root); cost::MAX_CONTEXT], 0);
        for (position, literal) in normal.context(first).enumerate() {
            // In a longer conjunction, literals differ in their contexts.
            if position == cost::MAX_CONTEXT {
                return Ok(None);
            }
            if analysis.access_predicate(literal).is_some() {
                sorted[count] = (analysis.share(literal), literal);
                count += 1;
            }
        }
        let demands = &mut sorted[..count];
        demands.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut nodes = Vec::new();
        self.find(NodeId::ROOT, &Sought { slot, program, analysis, demands }, &mut nodes)?;
        let literal = nodes.first().and_then(|&node| self.literal_in(node, slot, program));
        if !literal.is_some_and(|literal| is_alone(literal, normal)) {
            return Ok(None);
        }
        // Two demands of an attribute may lead to the same node.
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Some(nodes))
    }

    /// Appends the nodes at and below `node` that have entries of an expression. Each level is for another attribute, so the
    /// depth is at most the number of demands. Errors: out of memory.
    fn find(&self, node: NodeId, sought: &Sought, found: &mut Vec<NodeId>) -> Result<(), Error> {
        if self.literal_in(node, sought.slot, sought.program).is_some() {
            return push(found, node);
        }
        let held = self.node(node);
        if held.branches().is_empty() {
            return Ok(());
        }
        let before = found.len();
        let demands = || sought.demands.iter().filter_map(|(_, literal)| sought.analysis.access_predicate(*literal));
        for demanded in demands() {
            let Some(level) = held.level_of(demanded.attribute) else { continue };
            for access_predicate in demands().filter(|other| other.attribute == demanded.attribute) {
                self.find_below(level, access_predicate, sought, found)?;
            }
            if found.len() > before {
                break;
            }
        }
        Ok(())
    }

    /// Like [`Tree::find`], for the nodes below `level` to which `access_predicate` leads. All of them have entries, or none.
    fn find_below(
        &self,
        level: LevelId,
        access_predicate: &AccessPredicate,
        sought: &Sought,
        found: &mut Vec<NodeId>,
    ) -> Result<(), Error> {
        let before = found.len();
        let (mut is_first, mut outcome) = (true, Ok(()));
        self.level(level).children(&access_predicate.values, |child| {
            if outcome.is_ok() && (is_first || found.len() > before) {
                outcome = self.find(child, sought, found);
                is_first = false;
            }
        });
        outcome
    }

    /// Returns the literal of the entry of an expression in the list of `node`.
    fn literal_in(&self, node: NodeId, slot: Slot, program: ProgramId) -> Option<NodeIndex> {
        let entries = self.node(node).entries();
        entries.iter().find(|entry| entry.is_of(slot, program)).map(|entry| entry.literal())
    }

    /// Returns the nodes that have entries of an expression. An entry goes down only by demands of its own expression, so
    /// the levels of these demands lead to all of them. Errors: out of memory.
    fn all_nodes_of(&self, slot: Slot, program: ProgramId, analysis: &Analysis) -> Result<Vec<NodeId>, Error> {
        let values = Values::of(analysis)?;
        let mut holding = Vec::new();
        let mut reached = HashSet::with_hasher(State::default());
        let mut pending = Vec::new();
        push(&mut pending, NodeId::ROOT)?;
        while let Some(node) = pending.pop() {
            reached.try_reserve(1).map_err(out_of_memory)?;
            if !reached.insert(node) {
                continue;
            }
            let held = self.node(node);
            if self.literal_in(node, slot, program).is_some() {
                push(&mut holding, node)?;
            }
            for branch in held.branches() {
                let mut refused = Ok(());
                values.children(self.level(branch.level), |child| {
                    if refused.is_ok() {
                        refused = push(&mut pending, child);
                    }
                });
                refused?;
            }
        }
        Ok(holding)
    }

    /// Returns whether `nodes`, which are sorted, are all nodes of the expression.
    fn agrees(&self, nodes: &[NodeId], slot: Slot, program: ProgramId, analysis: &Analysis) -> bool {
        self.all_nodes_of(slot, program, analysis).map_or(true, |mut all| {
            all.sort_unstable();
            all == nodes
        })
    }
}

/// The values of all demands of an expression, by attribute.
#[derive(Default)]
struct Values {
    points: Vec<(AttributeId, i64)>,
    /// Disjoint intervals, ascending.
    intervals: Vec<(AttributeId, i64, i64)>,
    defined: Vec<AttributeId>,
}

impl Values {
    /// Returns the values of the demands of an expression. Errors: out of memory.
    fn of(analysis: &Analysis) -> Result<Values, Error> {
        let mut values = Values::default();
        for AccessPredicate { attribute, values: demanded, .. } in analysis.access_predicates() {
            match demanded {
                ValueSet::Points(keys) => {
                    values.points.try_reserve(keys.len()).map_err(out_of_memory)?;
                    values.points.extend(keys.iter().map(|&key| (*attribute, key)));
                }
                ValueSet::Interval(low, high) if low <= high => {
                    push(&mut values.intervals, (*attribute, *low, *high))?;
                }
                ValueSet::Interval(..) => {}
                ValueSet::Defined | ValueSet::Except(_) => push(&mut values.defined, *attribute)?,
            }
        }
        values.points.sort_unstable();
        values.points.dedup();
        values.intervals.sort_unstable();
        values.intervals.dedup_by(|(attribute, low, high), (before, _, end)| {
            let overlaps = attribute == before && *low <= *end;
            if overlaps {
                *end = (*end).max(*high);
            }
            overlaps
        });
        values.defined.sort_unstable();
        Ok(values)
    }

    /// Calls `each` with the nodes below `level` to which the values lead, perhaps more than once. Iterates over the shorter
    /// list: the demanded values of the level's attribute, or the values that lead to nodes.
    fn children(&self, level: &Level, mut each: impl FnMut(NodeId)) {
        let points = of_attribute(&self.points, level.attribute, |(attribute, _)| *attribute);
        if points.len() <= level.points.len() {
            points.iter().filter_map(|&(_, key)| level.point(key)).for_each(&mut each);
        } else {
            let is_demanded = |key: i64| points.binary_search_by_key(&key, |&(_, demanded)| demanded).is_ok();
            level.points.iter().filter(|(key, _)| is_demanded(*key)).for_each(|(_, node)| each(node));
        }
        let intervals = of_attribute(&self.intervals, level.attribute, |(attribute, ..)| *attribute);
        if intervals.len() <= level.buckets.len() {
            intervals.iter().for_each(|&(_, low, high)| level.buckets.overlapping(low, high).for_each(&mut each));
        } else {
            for position in 0..level.buckets.len() {
                let (least, greatest) = level.buckets.range(position);
                let first = intervals.partition_point(|&(_, _, high)| high < least);
                if intervals.get(first).is_some_and(|&(_, low, _)| low <= greatest) {
                    level.buckets.node(position).into_iter().for_each(&mut each);
                }
            }
        }
        if self.defined.binary_search(&level.attribute).is_ok() {
            level.defined.into_iter().for_each(each);
        }
    }
}

/// Returns the elements of one attribute from a list that is sorted by attribute.
fn of_attribute<T>(sorted: &[T], attribute: AttributeId, of: impl Fn(&T) -> AttributeId) -> &[T] {
    let from = sorted.partition_point(|element| of(element) < attribute);
    let len = sorted[from..].partition_point(|element| of(element) == attribute);
    &sorted[from..from + len]
}

/// Returns whether an expression with an entry under `literal` has none under another one, as no disjunction is above it.
fn is_alone(literal: NodeIndex, normal: &Normal) -> bool {
    let mut above = normal.parent(literal);
    while let Some(node) = above {
        if normal.node(node) != NormalNode::And {
            return false;
        }
        above = normal.parent(node);
    }
    true
}
