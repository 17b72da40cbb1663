//! Nodes. There are nearly as many as expressions, and most have one entry, so they are kept small.

use crate::handles::LevelId;
use crate::handles::NodeId;
use crate::model::schema::AttributeId;
use crate::support::headroom::trim;
use crate::tree::level::Place;
use crate::tree::plan::list_growth;
use crate::tree::{Entry, LEAF_CAPACITY};

/// A node: its leaf list and its value levels.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    held: Held,
    /// The level above, and in the bits from [`KIND_SHIFT`] on how the node hangs there.
    above: u32,
    /// The value under which it hangs, where that fits. In a bucket, how many expressions were taken out of its list since
    /// that was last compared with its neighbour's.
    key: i32,
}

/// What a node has. One entry is in the node itself.
#[derive(Clone, Debug)]
enum Held {
    One(Entry),
    /// Few nodes have a directory.
    Many(Vec<Entry>, Option<Box<Directory>>),
}

/// The value levels of a node (its p-directory).
#[derive(Clone, Debug)]
struct Directory {
    /// In the order of their attributes.
    branches: Vec<Branch>,
    /// The length of the leaf list at which splitting is tried again; of a node without a directory, the capacity.
    next_split: usize,
}

/// A value level of a node. Its attribute is told here as well, as that alone shows most events the way past it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub attribute: AttributeId,
    pub level: LevelId,
}

/// Where a node hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Position {
    Root,
    Under(LevelId, Place),
    /// Nowhere. The next node that is free as well, or the root where there is none.
    Free(NodeId),
}

/// How a node hangs, above the number of a level: of these there are fewer, as each takes more than 8 bytes.
const KIND_SHIFT: u32 = 29;

mod kind {
    pub const ROOT: u32 = 0;
    pub const FREE: u32 = 1;
    pub const BUCKET: u32 = 2;
    pub const DEFINED: u32 = 3;
    pub const POINT: u32 = 4;
    /// Under a value that the level has to be asked for.
    pub const WIDE_POINT: u32 = 5;
}

impl Node {
    pub(super) fn new(position: Position) -> Self {
        let (level, kind, key) = match position {
            Position::Root => (0, kind::ROOT, 0),
            Position::Free(next) => (next, kind::FREE, 0),
            Position::Under(level, Place::Bucket) => (level, kind::BUCKET, 0),
            Position::Under(level, Place::Defined) => (level, kind::DEFINED, 0),
            Position::Under(level, Place::Point(key)) => match i32::try_from(key) {
                Ok(key) => (level, kind::POINT, key),
                Err(_) => (level, kind::WIDE_POINT, 0),
            },
        };
        Node { held: Held::Many(Vec::new(), None), above: level | kind << KIND_SHIFT, key }
    }

    /// Where it hangs; `wide_key` tells the value under which it hangs in a level, where that does not fit 32 bits.
    pub(super) fn position(&self, wide_key: impl FnOnce(LevelId) -> i64) -> Position {
        let level = self.above & ((1 << KIND_SHIFT) - 1);
        match self.above >> KIND_SHIFT {
            kind::ROOT => Position::Root,
            kind::FREE => Position::Free(level),
            kind::BUCKET => Position::Under(level, Place::Bucket),
            kind::DEFINED => Position::Under(level, Place::Defined),
            kind::POINT => Position::Under(level, Place::Point(self.key.into())),
            _ => Position::Under(level, Place::Point(wide_key(level))),
        }
    }

    /// The level under which it hangs, if it does.
    pub(super) fn level(&self) -> Option<LevelId> {
        (self.above >> KIND_SHIFT >= kind::BUCKET).then_some(self.above & ((1 << KIND_SHIFT) - 1))
    }

    pub(super) fn is_free(&self) -> bool {
        self.above >> KIND_SHIFT == kind::FREE
    }

    /// Gives the level above another number.
    pub(super) fn hang_under(&mut self, level: LevelId) {
        self.above = level | self.above >> KIND_SHIFT << KIND_SHIFT;
    }

    /// Gives a level of its own another number.
    pub(super) fn renumber_branch(&mut self, before: LevelId, after: LevelId) {
        let (_, directory) = self.many();
        let branches = directory.iter_mut().flat_map(|directory| &mut directory.branches);
        branches.filter(|branch| branch.level == before).for_each(|branch| branch.level = after);
    }

    /// Counts an expression that was taken out of the list of a node in a bucket. Returns whether that is to be compared with
    /// its neighbour's now: a quarter as many were taken out as are left, and counting begins anew.
    pub(super) fn is_to_be_compared(&mut self) -> bool {
        self.key += 1;
        let is_renewed = 4 * self.key as usize >= self.entries().len();
        if is_renewed {
            self.key = 0;
        }
        is_renewed
    }

    /// Has the list of a node in a bucket compared with its neighbour's when the next expression is taken out.
    pub(super) fn compare_soon(&mut self) {
        self.key = self.entries().len() as i32;
    }

    /// Its leaf list.
    #[inline]
    pub fn entries(&self) -> &[Entry] {
        match &self.held {
            Held::One(entry) => std::slice::from_ref(entry),
            Held::Many(entries, _) => entries,
        }
    }

    /// Its value levels.
    #[inline]
    pub fn branches(&self) -> &[Branch] {
        match &self.held {
            Held::Many(_, Some(directory)) => &directory.branches,
            _ => &[],
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries().is_empty() && self.branches().is_empty()
    }

    /// Whether its leaf list is so long that it is worth a look at splitting it.
    pub(super) fn is_to_be_split(&self) -> bool {
        let next_split = match &self.held {
            Held::Many(_, Some(directory)) => directory.next_split,
            _ => LEAF_CAPACITY,
        };
        self.entries().len() > next_split
    }

    /// Has splitting tried again when the leaf list is twice as long as now.
    pub(super) fn split_later(&mut self) {
        let next_split = (2 * self.entries().len()).max(LEAF_CAPACITY);
        let (_, directory) = self.many();
        if directory.is_some() || next_split > LEAF_CAPACITY {
            directory.get_or_insert_default().next_split = next_split;
        }
    }

    /// Adds an entry. To double a list would leave a third of all lists empty.
    pub(super) fn push(&mut self, entry: Entry) {
        if self.is_empty() {
            self.held = Held::One(entry);
            return;
        }
        let (entries, _) = self.many();
        if entries.len() == entries.capacity() {
            entries.reserve_exact(grown_by(entries.len()));
        }
        entries.push(entry);
    }

    /// Bytes that adding up to `more` entries requests at the most.
    pub(super) fn growth(&self, more: usize) -> usize {
        match &self.held {
            Held::One(_) => list_growth(1, 0, more),
            Held::Many(entries, _) => list_growth(entries.len(), entries.capacity(), more),
        }
    }

    /// Drops the entries for which `is_kept` is false. Allocates nothing.
    pub(super) fn retain_entries(&mut self, mut is_kept: impl FnMut(&Entry) -> bool) {
        match &mut self.held {
            Held::One(entry) if !is_kept(entry) => self.held = Held::Many(Vec::new(), None),
            Held::One(_) => {}
            Held::Many(entries, _) => entries.retain(is_kept),
        }
        self.trim();
    }

    /// Gives back the room of its leaf list that is no longer needed. Allocates nothing.
    fn trim(&mut self) {
        match &mut self.held {
            Held::Many(entries, None) if entries.len() == 1 => self.held = Held::One(entries[0]),
            Held::Many(entries, _) => trim(entries),
            Held::One(_) => {}
        }
    }

    /// Drops the entry at `position`, where the last one is then.
    pub(super) fn swap_remove_entry(&mut self, position: usize) {
        match &mut self.held {
            Held::One(_) => self.held = Held::Many(Vec::new(), None),
            Held::Many(entries, _) => drop(entries.swap_remove(position)),
        }
        self.trim();
    }

    /// Puts a list in place of its leaf list, which is returned.
    pub(super) fn replace_entries(&mut self, list: Vec<Entry>) -> Vec<Entry> {
        std::mem::replace(self.many().0, list)
    }

    /// Gives back the room that its leaf list does not need, beyond that by which a list grows.
    pub(super) fn shrink_entries(&mut self) {
        if let Held::Many(entries, _) = &mut self.held {
            entries.shrink_to(entries.len());
        }
    }

    pub(super) fn add_branch(&mut self, branch: Branch) {
        let branches = &mut self.many().1.get_or_insert_default().branches;
        let position = branches.partition_point(|held| held.attribute < branch.attribute);
        branches.insert(position, branch);
    }

    /// The value level of `attribute`.
    pub(super) fn level_of(&self, attribute: AttributeId) -> Option<LevelId> {
        let branches = self.branches();
        let position = branches.binary_search_by_key(&attribute, |branch| branch.attribute);
        position.ok().map(|position| branches[position].level)
    }

    /// Drops the value levels for which `is_used` is false.
    pub(super) fn retain_branches(&mut self, mut is_used: impl FnMut(LevelId) -> bool) {
        if let (_, Some(directory)) = self.many() {
            directory.branches.retain(|branch| is_used(branch.level));
        }
    }

    /// What it has, with a leaf list of its own.
    fn many(&mut self) -> (&mut Vec<Entry>, &mut Option<Box<Directory>>) {
        if let Held::One(entry) = self.held {
            self.held = Held::Many(vec![entry], None);
        }
        match &mut self.held {
            Held::Many(entries, directory) => (entries, directory),
            Held::One(_) => unreachable!("it was made a list"),
        }
    }
}

/// By how many entries a list of `len` grows at once.
pub(super) fn grown_by(len: usize) -> usize {
    1 + len / 4
}

impl Default for Directory {
    fn default() -> Self {
        Directory { branches: Vec::new(), next_split: LEAF_CAPACITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::filter::Filter;

    #[test]
    fn positions_are_read_back() {
        let far = i64::from(i32::MAX) + 1;
        let points = [0, -1, i32::MIN.into(), i32::MAX.into(), far, i64::MIN].map(Place::Point);
        for level in [0, 1, (1 << KIND_SHIFT) - 1] {
            for place in points.into_iter().chain([Place::Bucket, Place::Defined]) {
                let wide_key = |above: LevelId| match place {
                    Place::Point(key) if above == level => key,
                    _ => unreachable!("only a value may have to be asked for"),
                };
                let node = Node::new(Position::Under(level, place));
                assert_eq!((node.position(wide_key), node.level()), (Position::Under(level, place), Some(level)));
            }
        }
        for position in [Position::Root, Position::Free(0), Position::Free(7)] {
            let node = Node::new(position);
            assert_eq!((node.position(|_| unreachable!("there is no level")), node.level()), (position, None));
        }
    }

    #[test]
    fn entries_stay_in_order_as_a_list_comes_and_goes() {
        let entry = |subject| Entry { subject, filter: Filter::NONE };
        let mut node = Node::new(Position::Root);
        let mut plain = Vec::new();
        for subject in 0..200 {
            assert_eq!(node.is_empty(), plain.is_empty());
            node.push(entry(subject));
            plain.push(entry(subject));
            assert_eq!(node.entries(), plain);
            if subject % 7 < 4 {
                node.retain_entries(|kept| kept.subject % 5 == subject % 5);
                plain.retain(|kept| kept.subject % 5 == subject % 5);
                assert_eq!(node.entries(), plain);
            }
        }
        node.add_branch(Branch { attribute: 1, level: 3 });
        assert_eq!(node.replace_entries(Vec::new()), plain);
        assert!(!node.is_empty());
        node.retain_branches(|_| false);
        assert!(node.is_empty());
    }

    #[test]
    fn a_list_that_stays_long_is_left_alone_until_it_has_doubled() {
        let mut node = Node::new(Position::Root);
        let mut tried = Vec::new();
        for subject in 0..1000 {
            node.push(Entry { subject, filter: Filter::NONE });
            if node.is_to_be_split() {
                tried.push(node.entries().len());
                node.split_later();
            }
        }
        assert_eq!(tried, [25, 51, 103, 207, 415, 831]);
    }
}
