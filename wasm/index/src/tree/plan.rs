//! A plan has the places for an expression's entries and bounds their memory, before anything is changed.

use crate::catalog::subscriptions::Subscriptions;
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::cost;
use crate::error::Error;
use crate::handles::{LevelId, NodeId, Slot};
use crate::plan::access_predicate::ValueSet;
use crate::plan::analysis::Analysis;
use crate::plan::demands::Demands;
use crate::support::hash::out_of_memory;
use crate::support::headroom::{push, AROUND};
use crate::tree::node::list_growth;
use crate::tree::{Entry, Node, Place, Position, Tree};

/// A plan has the places for the entries of one expression.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Each place with the literal of its entry. The places of a literal are adjacent.
    places: Vec<(Target, NodeIndex)>,
    /// The nodes still to be searched for places. After the plan is followed, the nodes whose lists are too long.
    pending: Vec<NodeId>,
}

/// The place of a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Target {
    /// The leaf list of an existing node.
    Node(NodeId),
    /// The leaf list of a node still to be made, below this value of a level.
    Point(LevelId, i64),
    Defined(LevelId),
    /// The leaf list of a node still to be made, in the bucket that contains the key.
    Bucket(LevelId, i64),
}

/// An upper bound of the bytes that an entry takes in a new list. It covers lists of one and two entries, and lists grown by
/// a quarter at a time for further entries of the same expression.
const NEW_LIST_BYTES: usize = 16 * size_of::<Entry>() + 4 * AROUND;

impl Plan {
    pub fn clear(&mut self) {
        self.places.clear();
        self.pending.clear();
    }

    /// Returns the nodes whose lists are too long, after the plan is followed.
    pub fn long(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.pending.iter().copied()
    }

    /// Like [`Plan::long`], but consumes the plan.
    pub fn into_long(self) -> Vec<NodeId> {
        self.pending
    }
}

impl Tree {
    /// Adds to `plan` the places at and below `node` of the literal with these `demands`. Errors: out of memory.
    pub(super) fn plan(&self, node: NodeId, demands: &Demands, plan: &mut Plan) -> Result<(), Error> {
        push(&mut plan.pending, node)?;
        self.plan_pending(demands, plan)
    }

    /// Adds to `plan` the places below `level` to which `values` leads. Errors: out of memory.
    pub(super) fn plan_below(
        &self,
        level: LevelId,
        values: &ValueSet,
        demands: &Demands,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        self.plan_children(level, values, demands.literal, plan)?;
        self.plan_pending(demands, plan)
    }

    fn plan_pending(&self, demands: &Demands, plan: &mut Plan) -> Result<(), Error> {
        while let Some(node) = plan.pending.pop() {
            match self.choose(node, demands, true) {
                Some((level, access_predicate)) => {
                    self.plan_children(level, &access_predicate.values, demands.literal, plan)?
                }
                None => push(&mut plan.places, (Target::Node(node), demands.literal))?,
            }
        }
        Ok(())
    }

    fn plan_children(
        &self,
        level: LevelId,
        values: &ValueSet,
        literal: NodeIndex,
        plan: &mut Plan,
    ) -> Result<(), Error> {
        let held = self.level(level);
        match values {
            ValueSet::Points(keys) => {
                for &key in &**keys {
                    match held.point(key) {
                        Some(child) => push(&mut plan.pending, child)?,
                        None => push(&mut plan.places, (Target::Point(level, key), literal))?,
                    }
                }
            }
            ValueSet::Interval(low, high) => {
                for key in held.buckets.gaps(*low, *high) {
                    push(&mut plan.places, (Target::Bucket(level, key), literal))?;
                }
                for child in held.buckets.overlapping(*low, *high) {
                    push(&mut plan.pending, child)?;
                }
            }
            ValueSet::Defined | ValueSet::Except(_) => match held.defined {
                Some(child) => push(&mut plan.pending, child)?,
                None => push(&mut plan.places, (Target::Defined(level), literal))?,
            },
        }
        Ok(())
    }

    /// Returns an upper bound of [`Tree::capacity`] after `plan` is followed.
    pub(super) fn capacity_after(&self, plan: &Plan) -> usize {
        let new = plan.places.iter().filter(|(target, _)| !matches!(target, Target::Node(_))).count();
        self.capacity() + new.saturating_sub(self.free_nodes)
    }

    /// Returns an upper bound of the bytes that following `plan` requests. Errors: out of memory.
    pub(super) fn bytes(&self, plan: &Plan) -> Result<usize, Error> {
        // Sorting brings places of the same list or table together.
        let mut sorted;
        let targets = match &plan.places[..] {
            [] => return Ok(0),
            [only] => std::slice::from_ref(only),
            places => {
                sorted = Vec::new();
                sorted.try_reserve_exact(places.len()).map_err(out_of_memory)?;
                sorted.extend_from_slice(places);
                sorted.sort_unstable();
                &sorted[..]
            }
        };
        let mut new = 0;
        let mut bytes = 0;
        let together = |(a, _): &(Target, NodeIndex), (b, _): &(Target, NodeIndex)| match (a, b) {
            (Target::Node(a), Target::Node(b)) => a == b,
            (Target::Point(a, _), Target::Point(b, _)) => a == b,
            _ => false,
        };
        for group in targets.chunk_by(together) {
            match group[0].0 {
                // Each entry may have a joined one in front.
                Target::Node(node) => bytes += self.node(node).growth(2 * group.len()),
                Target::Point(level, _) => {
                    let is_wide = |target: &Target| match target {
                        Target::Point(_, key) => i32::try_from(*key).is_err(),
                        _ => false,
                    };
                    let wide = group.iter().filter(|(target, _)| is_wide(target)).count();
                    bytes += self.level(level).points.growth(group.len() - wide, wide);
                    for alike in group.chunk_by(|(a, _), (b, _)| a == b) {
                        bytes += list_growth(0, 0, 2 * alike.len());
                    }
                    new += group.len();
                }
                Target::Defined(_) | Target::Bucket(..) => {
                    // The first bucket of a level allocates two tables.
                    bytes += 2 * (4 * size_of::<i64>() + AROUND) + NEW_LIST_BYTES;
                    new += 1;
                }
            }
        }
        Ok(bytes
            + targets.len() * 4 * size_of::<NodeId>()
            + self.nodes.growth(new.saturating_sub(self.free_nodes))
            + AROUND)
    }

    /// Inserts the subscription in `slot` at the places of `plan`. Requests at most [`Tree::bytes`].
    pub(super) fn follow(
        &mut self,
        plan: &mut Plan,
        slot: Slot,
        analysis: &Analysis,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) {
        let Plan { places, pending: long } = plan;
        for group in places.chunk_by(|(_, a), (_, b)| a == b) {
            let demands = Demands::of(group[0].1, analysis);
            for (target, _) in group {
                let node = self.reach(*target);
                self.add_entry(node, slot, &demands, catalog, subscriptions);
                if self.nodes[node.index()].is_split_due() && long.last() != Some(&node) {
                    long.push(node);
                }
            }
        }
    }

    /// Returns the node at a place, and makes it if it is missing.
    fn reach(&mut self, target: Target) -> NodeId {
        match target {
            Target::Node(node) => node,
            Target::Point(level, key) => match self.level(level).point(key) {
                Some(node) => node,
                None => {
                    let node = self.new_node(Position::Under(level, Place::Point(key)));
                    self.levels[level.index()].points.insert(key, node);
                    node
                }
            },
            Target::Defined(level) => match self.level(level).defined {
                Some(node) => node,
                None => {
                    let node = self.new_node(Position::Under(level, Place::Defined));
                    self.levels[level.index()].defined = Some(node);
                    node
                }
            },
            Target::Bucket(level, key) => match self.level(level).buckets.find(key) {
                Some(node) => node,
                None => {
                    let node = self.new_node(Position::Under(level, Place::Bucket));
                    self.levels[level.index()].buckets.fill(key, node);
                    node
                }
            },
        }
    }

    fn new_node(&mut self, position: Position) -> NodeId {
        let node = self.free_node;
        match self.position(node) {
            Position::Free(next) => {
                self.free_node = next;
                self.free_nodes -= 1;
                self.nodes[node.index()] = Node::new(position);
                node
            }
            _ => {
                debug_assert_eq!((node, self.free_nodes), (NodeId::ROOT, 0), "no node is free");
                self.add_node(position)
            }
        }
    }

    /// Makes a node for a bucket that was cut. The caller has ensured its memory.
    pub(super) fn new_bucket(&mut self, level: LevelId) -> NodeId {
        self.new_node(Position::Under(level, Place::Bucket))
    }
}

/// Returns an upper bound of the bytes for splitting a list of `len` entries. It covers lists and tables of that length, and
/// one table with an element for each of the `attributes`.
pub(super) fn list_bytes(len: usize, attributes: usize) -> usize {
    let elements = len.max(cost::LEAF_CAPACITY);
    elements * (6 * size_of::<Entry>() + 16 * size_of::<usize>()) + attributes * 48 + 32 * AROUND
}
