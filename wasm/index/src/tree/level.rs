//! A value level (c-directory) leads in one step from a value of one attribute to the nodes below.

use std::ops::Range;

use crate::handles::NodeId;
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::ValueSet;
use crate::support::footprint::of_table;
use crate::support::headroom::growth;
use crate::support::headroom::AROUND;
use crate::tree::value_map::ValueMap;

/// The place of a node below its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Below one value.
    Point(i64),
    /// Below an interval of values, whose bounds are in [`Buckets`].
    Bucket,
    /// Below every value.
    Defined,
}

/// A value level has the nodes below one attribute.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub owner: NodeId,
    pub attribute: AttributeId,
    pub points: ValueMap,
    pub buckets: Buckets,
    pub defined: Option<NodeId>,
}

impl Level {
    pub fn new(owner: NodeId, attribute: AttributeId) -> Self {
        Level { owner, attribute, points: ValueMap::default(), buckets: Buckets::default(), defined: None }
    }

    /// Returns a placeholder for a free level number. It belongs to no node and takes no memory of its own.
    pub fn none() -> Self {
        Level::new(NodeId::ROOT, AttributeId::default())
    }

    /// Returns the node below the value `key`.
    #[inline(always)]
    pub fn point(&self, key: i64) -> Option<NodeId> {
        self.points.get(key)
    }

    /// Calls `each` with the nodes below to which `values` leads.
    pub fn children(&self, values: &ValueSet, each: impl FnMut(NodeId)) {
        match values {
            ValueSet::Points(keys) => keys.iter().filter_map(|&key| self.point(key)).for_each(each),
            ValueSet::Interval(low, high) => self.buckets.overlapping(*low, *high).for_each(each),
            ValueSet::Defined | ValueSet::Except(_) => self.defined.into_iter().for_each(each),
        }
    }

    /// Replaces the number of each node by the number that `number` returns for it.
    pub fn renumber(&mut self, number: impl Fn(NodeId) -> NodeId) {
        self.owner = number(self.owner);
        self.points.renumber(&number);
        self.buckets.nodes.iter_mut().for_each(|node| *node = number(*node));
        self.defined = self.defined.map(number);
    }

    /// Returns the heap bytes of the level.
    pub fn heap_bytes(&self) -> usize {
        self.points.heap_bytes() + of_table(&self.buckets.bounds) + of_table(&self.buckets.nodes)
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.buckets.is_empty() && self.defined.is_none()
    }

    /// Returns all nodes below.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.points.iter().map(|(_, node)| node).chain(self.buckets.nodes()).chain(self.defined)
    }
}

/// Buckets are intervals that cover all keys without a gap. Each has a node, unless it is empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    /// The least key of each bucket, ascending. The first is the least key of all.
    bounds: Vec<i64>,
    /// The node of each bucket, or [`NodeId::NONE`]. Two neighbors are never both empty, nor is an empty bucket ever alone.
    nodes: Vec<NodeId>,
}

/// An undo record of [`Buckets::join`]: the second bucket's least key, and both buckets' nodes or [`NodeId::NONE`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joined {
    at: i64,
    nodes: [NodeId; 2],
}

impl Buckets {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the nodes of all buckets.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes.iter().copied().filter(|&node| node != NodeId::NONE)
    }

    /// Returns the node of the bucket that contains `key`.
    pub fn find(&self, key: i64) -> Option<NodeId> {
        let after = self.bounds.partition_point(|&bound| bound <= key);
        self.node(after.wrapping_sub(1))
    }

    /// Returns the nodes of the buckets that share a key with `low..=high`. An empty interval has none.
    pub fn overlapping(&self, low: i64, high: i64) -> impl Iterator<Item = NodeId> + '_ {
        self.nodes[self.positions(low, high)].iter().copied().filter(|&node| node != NodeId::NONE)
    }

    /// Returns one key of each empty bucket that shares a key with `low..=high`.
    pub fn gaps(&self, low: i64, high: i64) -> impl Iterator<Item = i64> + '_ {
        let only = (self.is_empty() && low <= high).then_some(low);
        let gaps = self.positions(low, high).filter(|&position| self.nodes[position] == NodeId::NONE);
        only.into_iter().chain(gaps.map(|position| self.bounds[position]))
    }

    /// Sets the node of the empty bucket that contains `key`.
    pub fn fill(&mut self, key: i64, node: NodeId) {
        if self.is_empty() {
            self.bounds.push(i64::MIN);
            self.nodes.push(NodeId::NONE);
        }
        let position = self.positions(key, key).start;
        debug_assert_eq!(self.nodes[position], NodeId::NONE, "the bucket has no node yet");
        self.nodes[position] = node;
    }

    /// Returns the positions of the buckets that share a key with `low..=high`.
    fn positions(&self, low: i64, high: i64) -> Range<usize> {
        if low > high || self.is_empty() {
            return 0..0;
        }
        let from = self.bounds.partition_point(|&bound| bound <= low) - 1;
        from..self.bounds.partition_point(|&bound| bound <= high)
    }

    /// Returns the position of the bucket of `node`.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|&held| held == node)
    }

    /// Returns the node of the bucket at `position`, if it has one.
    pub fn node(&self, position: usize) -> Option<NodeId> {
        self.nodes.get(position).copied().filter(|&node| node != NodeId::NONE)
    }

    /// Returns the least and the greatest key of the bucket at `position`.
    pub fn range(&self, position: usize) -> (i64, i64) {
        let high = self.bounds.get(position + 1).map_or(i64::MAX, |&next| next - 1);
        (self.bounds[position], high)
    }

    /// Cuts the bucket at `position` in two. Keys from `cut` on go to `node`; `cut` is inside the bucket.
    pub fn cut(&mut self, position: usize, cut: i64, node: NodeId) {
        let (low, high) = self.range(position);
        debug_assert!(low < cut && cut <= high, "a cut is inside its bucket");
        self.bounds.insert(position + 1, cut);
        self.nodes.insert(position + 1, node);
    }

    /// Returns an upper bound of the bytes that cutting a bucket requests.
    pub fn growth(&self) -> usize {
        growth(&self.bounds, 1) + growth(&self.nodes, 1) + 2 * AROUND
    }

    /// Joins the bucket at `position` and the next one. The result has `node`.
    pub fn join(&mut self, position: usize, node: NodeId) -> Joined {
        let at = self.bounds.remove(position + 1);
        let behind = self.nodes.remove(position + 1);
        Joined { at, nodes: [std::mem::replace(&mut self.nodes[position], node), behind] }
    }

    /// Undoes [`Buckets::join`] of the bucket at `position`. Allocates nothing.
    pub fn part(&mut self, position: usize, joined: Joined) {
        let [before, behind] = joined.nodes;
        self.nodes[position] = before;
        self.cut(position, joined.at, behind);
    }

    /// Removes the node from the bucket at `position`. No bucket with a node takes over its keys, because entries rely on the
    /// bounds of their bucket.
    pub fn vacate(&mut self, position: usize) {
        self.nodes[position] = NodeId::NONE;
        for first in [position, position.wrapping_sub(1)] {
            if let Some([NodeId::NONE, NodeId::NONE]) = self.nodes.get(first..).and_then(<[NodeId]>::first_chunk) {
                self.join(first, NodeId::NONE);
            }
        }
        if self.nodes == [NodeId::NONE] {
            *self = Buckets::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(index: usize) -> NodeId {
        NodeId::from_index(index)
    }

    fn found(index: usize) -> Option<NodeId> {
        Some(node(index))
    }

    #[test]
    fn every_key_has_its_bucket() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.find(0), None);
        assert_eq!((buckets.gaps(3, 2).count(), buckets.gaps(3, 3).count()), (0, 1));
        buckets.fill(3, node(7));
        buckets.cut(0, 10, node(8));
        buckets.cut(1, 20, node(9));
        assert_eq!([i64::MIN, 9, 10, 19, 20, i64::MAX].map(|key| buckets.find(key)), [7, 7, 8, 8, 9, 9].map(found));
        let overlapping = |low, high| buckets.overlapping(low, high).collect::<Vec<_>>();
        assert_eq!(overlapping(5, 10), [7, 8].map(node));
        assert_eq!(overlapping(11, 11), [8].map(node));
        assert_eq!(overlapping(3, 2), []);
        assert_eq!(buckets.range(1), (10, 19));
        buckets.join(0, node(8));
        assert_eq!([i64::MIN, 19, 20].map(|key| buckets.find(key)), [8, 8, 9].map(found));
    }

    #[test]
    fn what_is_vacated_is_no_neighbours() {
        let mut buckets = Buckets::default();
        buckets.fill(0, node(0));
        (1..5).for_each(|i| buckets.cut(i - 1, 10 * i as i64, node(i)));
        for (vacated, left) in [(1, vec![0, 2, 3, 4]), (3, vec![0, 2, 4]), (2, vec![0, 4]), (4, vec![0])] {
            let left: Vec<NodeId> = left.into_iter().map(node).collect();
            buckets.vacate(buckets.position(node(vacated)).unwrap());
            assert_eq!(buckets.nodes().collect::<Vec<_>>(), left);
            for key in 0..50 {
                let node = node(key / 10);
                assert_eq!(buckets.find(key as i64), left.contains(&node).then_some(node), "{key}");
            }
        }
        // The empty neighbors are one bucket.
        let gaps = |low, high| buckets.gaps(low, high).collect::<Vec<_>>();
        assert_eq!((buckets.len(), gaps(0, 9), gaps(0, 10)), (2, vec![], vec![10]));
        buckets.fill(10, node(5));
        assert_eq!([9, 10, 49].map(|key| buckets.find(key)), [0, 5, 5].map(found));
        buckets.vacate(0);
        buckets.vacate(1);
        assert!(buckets.is_empty() && buckets.find(0).is_none());
    }
}
