//! A value level (c-directory): from a value of one attribute to the nodes below, in one step.

use hashbrown::HashMap;

use super::gate::Demand;
use super::NodeId;
use crate::hash::State;
use crate::schema::AttributeId;

/// Where below its level a node hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Under one value.
    Point(i64),
    /// Under an interval of values; which, the buckets know.
    Bucket,
    /// Under any value.
    Defined,
}

/// The nodes below one attribute.
#[derive(Clone, Debug)]
pub(crate) struct Level {
    pub owner: NodeId,
    pub attribute: AttributeId,
    pub points: Points,
    pub buckets: Buckets,
    pub defined: Option<NodeId>,
}

impl Level {
    pub fn new(owner: NodeId, attribute: AttributeId) -> Self {
        Level { owner, attribute, points: Points::default(), buckets: Buckets::default(), defined: None }
    }

    /// The node under the value `key`.
    #[inline(always)]
    pub fn point(&self, key: i64) -> Option<NodeId> {
        self.points.get(key)
    }

    /// Gives the nodes below that `demand` leads to.
    pub fn children(&self, demand: &Demand, each: impl FnMut(NodeId)) {
        match demand {
            Demand::Points(keys) => keys.iter().filter_map(|&key| self.point(key)).for_each(each),
            Demand::Interval(low, high) => self.buckets.overlapping(*low, *high).iter().copied().for_each(each),
            Demand::Defined | Demand::Except(_) => self.defined.into_iter().for_each(each),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.points.is_empty() && self.buckets.is_empty() && self.defined.is_none()
    }

    /// Every node below.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.points.iter().map(|(_, node)| node).chain(self.buckets.nodes.iter().chain(&self.defined).copied())
    }
}

/// Nodes by their keys. Those that fit 32 bits, which are nearly all, are in a table of half the size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Points {
    narrow: HashMap<i32, NodeId, State>,
    wide: HashMap<i64, NodeId, State>,
    /// The keys of the nodes in `wide`, which these have no room for.
    wide_keys: HashMap<NodeId, i64, State>,
}

impl Points {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.narrow.len() + self.wide.len()
    }

    /// The node of `key`. Not by a call, which would save, restore and check the fuel: searches ask for some sixty keys.
    #[inline(always)]
    pub fn get(&self, key: i64) -> Option<NodeId> {
        match i32::try_from(key) {
            Ok(key) => self.narrow.get(&key).copied(),
            Err(_) => self.wide.get(&key).copied(),
        }
    }

    pub fn insert(&mut self, key: i64, node: NodeId) {
        match i32::try_from(key) {
            Ok(key) => self.narrow.insert(key, node),
            Err(_) => {
                self.wide_keys.insert(node, key);
                self.wide.insert(key, node)
            }
        };
    }

    pub fn remove(&mut self, key: i64) {
        match i32::try_from(key) {
            Ok(key) => self.narrow.remove(&key),
            Err(_) => {
                let node = self.wide.remove(&key);
                node.and_then(|node| self.wide_keys.remove(&node));
                node
            }
        };
    }

    /// The key of `node`, which is here by one that does not fit 32 bits.
    pub fn wide_key(&self, node: NodeId) -> i64 {
        self.wide_keys[&node]
    }

    /// Every key with its node, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, NodeId)> + '_ {
        let narrow = self.narrow.iter().map(|(&key, &node)| (i64::from(key), node));
        narrow.chain(self.wide.iter().map(|(&key, &node)| (key, node)))
    }

    /// Bytes that one more key may take.
    pub fn growth(&self) -> usize {
        // A table has a power of two of places, of which it fills seven eighths, each with a byte of control, and doubles.
        let places = |len: usize| 2 * (8 * len).div_ceil(7).next_power_of_two();
        let narrow = places(self.narrow.len()) * (size_of::<(i32, NodeId)>() + 1);
        let wide = places(self.wide.len()) * 2 * (size_of::<(i64, NodeId)>() + 1);
        narrow.max(wide)
    }
}

/// Intervals that cover all keys without a gap, each with a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buckets {
    /// The least key of each bucket, ascending; the first is the least key of all.
    bounds: Vec<i64>,
    nodes: Vec<NodeId>,
}

impl Buckets {
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Makes one bucket for all keys.
    pub fn start_with(&mut self, node: NodeId) {
        self.bounds = vec![i64::MIN];
        self.nodes = vec![node];
    }

    /// The node of the bucket that `key` falls into.
    pub fn find(&self, key: i64) -> Option<NodeId> {
        let after = self.bounds.partition_point(|&bound| bound <= key);
        self.nodes.get(after.wrapping_sub(1)).copied()
    }

    /// The nodes of the buckets that share a key with `low..=high`; none for an empty interval.
    pub fn overlapping(&self, low: i64, high: i64) -> &[NodeId] {
        if low > high || self.is_empty() {
            return &[];
        }
        let from = self.bounds.partition_point(|&bound| bound <= low) - 1;
        let to = self.bounds.partition_point(|&bound| bound <= high);
        &self.nodes[from..to]
    }

    /// The position of the bucket whose node is `node`.
    pub fn position(&self, node: NodeId) -> Option<usize> {
        self.nodes.iter().position(|&held| held == node)
    }

    pub fn node(&self, position: usize) -> Option<NodeId> {
        self.nodes.get(position).copied()
    }

    /// The least and the greatest key of the bucket at `position`.
    pub fn range(&self, position: usize) -> (i64, i64) {
        let high = self.bounds.get(position + 1).map_or(i64::MAX, |&next| next - 1);
        (self.bounds[position], high)
    }

    /// Cuts the bucket at `position`: keys from `cut` on, which lies inside, go to `node`.
    pub fn cut(&mut self, position: usize, cut: i64, node: NodeId) {
        self.bounds.insert(position + 1, cut);
        self.nodes.insert(position + 1, node);
    }

    /// Removes the bucket at `position`; a neighbour takes its keys.
    pub fn remove(&mut self, position: usize) {
        self.nodes.remove(position);
        // The first bucket's keys go to the second, any other's to the one before it.
        self.bounds.remove(if position == 0 && self.bounds.len() > 1 { 1 } else { position });
        if self.nodes.is_empty() {
            self.bounds.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_bucket() {
        let mut buckets = Buckets::default();
        assert_eq!(buckets.find(0), None);
        buckets.start_with(7);
        buckets.cut(0, 10, 8);
        buckets.cut(1, 20, 9);
        assert_eq!([i64::MIN, 9, 10, 19, 20, i64::MAX].map(|key| buckets.find(key)), [7, 7, 8, 8, 9, 9].map(Some));
        assert_eq!(buckets.overlapping(5, 10), [7, 8]);
        assert_eq!(buckets.overlapping(11, 11), [8]);
        assert_eq!(buckets.overlapping(3, 2), [0; 0]);
        assert_eq!(buckets.range(1), (10, 19));
        buckets.remove(0);
        assert_eq!([i64::MIN, 19, 20].map(|key| buckets.find(key)), [8, 8, 9].map(Some));
        buckets.remove(1);
        assert_eq!(buckets.range(0), (i64::MIN, i64::MAX));
        buckets.remove(0);
        assert!(buckets.is_empty());
    }
}
