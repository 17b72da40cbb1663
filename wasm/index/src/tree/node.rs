//! A node has a leaf list and value levels. It is small: most nodes have one entry, and there is nearly one per expression.

use crate::cost;
use crate::handles::{LevelId, NodeId};
use crate::model::schema::AttributeId;
use crate::support::footprint::{of_block, of_table};
use crate::support::headroom::{trim, AROUND};
use crate::tree::level::Place;
use crate::tree::Entry;

/// A node has a leaf list and value levels.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    held: Held,
    above: Above,
    /// The value that leads to the node in the level above, if it fits. In a bucket, the number of expressions removed since
    /// the list was last compared with its neighbor's.
    key: i32,
}

/// The content of a node. A single entry is stored in the node itself.
#[derive(Clone, Debug)]
enum Held {
    One(Entry),
    /// The directory is boxed because few nodes have one.
    Many(Vec<Entry>, Option<Box<Directory>>),
}

/// The value levels of a node (its p-directory).
#[derive(Clone, Debug)]
struct Directory {
    /// The levels, sorted by attribute.
    branches: Vec<Branch>,
    /// The length above which the next split of the leaf list is tried. Without a directory, it is the capacity.
    next_split: usize,
}

/// A value level of a node. The attribute is repeated here, so an event without it skips the level without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub attribute: AttributeId,
    pub level: LevelId,
}

/// The position of a node in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Root,
    Under(LevelId, Place),
    /// A free node, with the next node of the free list, or the root at the end of that list.
    Free(NodeId),
}

/// A kind of position in one word with the handle that belongs to it: the level above, or the next free node.
#[derive(Clone, Copy, Debug)]
struct Above(u32);

/// The shift of a position's kind. The bits below are enough for a level's number, as each level takes more than 8 bytes,
/// and for a node's.
const KIND_SHIFT: u32 = 29;

mod kind {
    pub const ROOT: u32 = 0;
    pub const FREE: u32 = 1;
    pub const BUCKET: u32 = 2;
    pub const DEFINED: u32 = 3;
    pub const POINT: u32 = 4;
    /// The value does not fit into 32 bits; the level has it.
    pub const WIDE_POINT: u32 = 5;
}

impl Above {
    fn none() -> Self {
        Above::of(kind::ROOT, 0)
    }

    fn free(next: NodeId) -> Self {
        Above::of(kind::FREE, next.word())
    }

    /// Packs a level above. `kind` must be at least [`kind::BUCKET`].
    fn under(level: LevelId, kind: u32) -> Self {
        Above::of(kind, level.word())
    }

    fn of(kind: u32, handle: u32) -> Self {
        debug_assert_eq!(handle >> KIND_SHIFT, 0, "a handle leaves room for the kind");
        Above(handle | kind << KIND_SHIFT)
    }

    fn kind(self) -> u32 {
        self.0 >> KIND_SHIFT
    }

    fn handle(self) -> u32 {
        self.0 & ((1 << KIND_SHIFT) - 1)
    }

    /// Returns the next free node. The kind must be [`kind::FREE`].
    fn next(self) -> NodeId {
        NodeId::from_word(self.handle())
    }

    /// Returns the level above. The kind must be at least [`kind::BUCKET`].
    fn level(self) -> LevelId {
        LevelId::from_word(self.handle())
    }
}

impl Node {
    pub(super) fn new(position: Position) -> Self {
        let (above, key) = match position {
            Position::Root => (Above::none(), 0),
            Position::Free(next) => (Above::free(next), 0),
            Position::Under(level, Place::Bucket) => (Above::under(level, kind::BUCKET), 0),
            Position::Under(level, Place::Defined) => (Above::under(level, kind::DEFINED), 0),
            Position::Under(level, Place::Point(key)) => match i32::try_from(key) {
                Ok(key) => (Above::under(level, kind::POINT), key),
                Err(_) => (Above::under(level, kind::WIDE_POINT), 0),
            },
        };
        Node { held: Held::Many(Vec::new(), None), above, key }
    }

    /// Returns the position of the node. `wide_key` finds the value in a level, for values that do not fit into 32 bits.
    pub(super) fn position(&self, wide_key: impl FnOnce(LevelId) -> i64) -> Position {
        match self.above.kind() {
            kind::ROOT => Position::Root,
            kind::FREE => Position::Free(self.above.next()),
            kind::BUCKET => Position::Under(self.above.level(), Place::Bucket),
            kind::DEFINED => Position::Under(self.above.level(), Place::Defined),
            kind::POINT => Position::Under(self.above.level(), Place::Point(self.key.into())),
            _ => Position::Under(self.above.level(), Place::Point(wide_key(self.above.level()))),
        }
    }

    /// Returns the level above, if there is one.
    pub(super) fn level(&self) -> Option<LevelId> {
        (self.above.kind() >= kind::BUCKET).then_some(self.above.level())
    }

    pub(super) fn is_free(&self) -> bool {
        self.above.kind() == kind::FREE
    }

    /// Changes the number of the level above.
    pub(super) fn set_level_above(&mut self, level: LevelId) {
        self.above = Above::under(level, self.above.kind());
    }

    /// Changes the number of one of its own levels.
    pub(super) fn renumber_branch(&mut self, before: LevelId, after: LevelId) {
        let (_, directory) = self.many();
        let branches = directory.iter_mut().flat_map(|directory| &mut directory.branches);
        branches.filter(|branch| branch.level == before).for_each(|branch| branch.level = after);
    }

    /// Counts the removal of an expression from the list of a node in a bucket. Returns true, and restarts the count, once the
    /// removals are a quarter of the remaining entries: the list is then due for a comparison with its neighbor's.
    pub(super) fn count_removal(&mut self) -> bool {
        self.key += 1;
        let is_renewed = 4 * self.key as usize >= self.entries().len();
        if is_renewed {
            self.key = 0;
        }
        is_renewed
    }

    /// Makes the next removal compare the list of a node in a bucket with its neighbor's.
    pub(super) fn compare_soon(&mut self) {
        self.key = self.entries().len() as i32;
    }

    /// Returns the leaf list.
    #[inline]
    pub fn entries(&self) -> &[Entry] {
        match &self.held {
            Held::One(entry) => std::slice::from_ref(entry),
            Held::Many(entries, _) => entries,
        }
    }

    pub(super) fn entries_mut(&mut self) -> &mut [Entry] {
        match &mut self.held {
            Held::One(entry) => std::slice::from_mut(entry),
            Held::Many(entries, _) => entries,
        }
    }

    /// Returns the value levels.
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

    /// Returns whether the leaf list is long enough to consider a split.
    pub(super) fn is_split_due(&self) -> bool {
        let next_split = match &self.held {
            Held::Many(_, Some(directory)) => directory.next_split,
            _ => cost::LEAF_CAPACITY,
        };
        self.entries().len() > next_split
    }

    /// Postpones the next split until the leaf list is twice as long as now.
    pub(super) fn split_later(&mut self) {
        let next_split = (2 * self.entries().len()).max(cost::LEAF_CAPACITY);
        let (_, directory) = self.many();
        if directory.is_some() || next_split > cost::LEAF_CAPACITY {
            directory.get_or_insert_default().next_split = next_split;
        }
    }

    /// Adds an entry. The list grows by a quarter, because doubling would leave a third of all lists' memory empty.
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

    /// Returns the bytes that the leaf list and the directory take of the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        let Held::Many(entries, directory) = &self.held else { return 0 };
        let of_directory = |directory: &Directory| of_block(size_of::<Directory>()) + of_table(&directory.branches);
        of_table(entries) + directory.as_deref().map_or(0, of_directory)
    }

    /// Returns an upper bound of the bytes that adding `more` entries requests.
    pub(super) fn growth(&self, more: usize) -> usize {
        match &self.held {
            Held::One(_) => list_growth(1, 0, more),
            Held::Many(entries, _) => list_growth(entries.len(), entries.capacity(), more),
        }
    }

    /// Removes the entries for which `is_kept` returns false. Allocates nothing.
    pub(super) fn retain_entries(&mut self, mut is_kept: impl FnMut(&Entry) -> bool) {
        match &mut self.held {
            Held::One(entry) if !is_kept(entry) => self.held = Held::Many(Vec::new(), None),
            Held::One(_) => {}
            Held::Many(entries, _) => entries.retain(is_kept),
        }
        self.trim();
    }

    /// Frees unneeded room of the leaf list. Allocates nothing.
    fn trim(&mut self) {
        match &mut self.held {
            Held::Many(entries, None) if entries.len() == 1 => self.held = Held::One(entries[0]),
            Held::Many(entries, _) => trim(entries),
            Held::One(_) => {}
        }
    }

    /// Removes the entry at `position`. The last entry takes its place.
    pub(super) fn swap_remove_entry(&mut self, position: usize) {
        match &mut self.held {
            Held::One(_) => self.held = Held::Many(Vec::new(), None),
            Held::Many(entries, _) => drop(entries.swap_remove(position)),
        }
        self.trim();
    }

    /// Replaces the leaf list. Returns the old one.
    pub(super) fn replace_entries(&mut self, list: Vec<Entry>) -> Vec<Entry> {
        std::mem::replace(self.many().0, list)
    }

    /// Frees all spare room of the leaf list.
    pub(super) fn shrink_entries(&mut self) {
        if let Held::Many(entries, _) = &mut self.held {
            entries.shrink_to(entries.len());
        }
    }

    pub(super) fn add_branch(&mut self, branch: Branch) {
        let branches = &mut self.many().1.get_or_insert_default().branches;
        let position = branches.partition_point(|held| held.attribute < branch.attribute);
        let is_new = branches.get(position).is_none_or(|held| held.attribute > branch.attribute);
        debug_assert!(is_new, "an attribute has one level");
        branches.insert(position, branch);
    }

    /// Returns the value level of `attribute`.
    pub(super) fn level_of(&self, attribute: AttributeId) -> Option<LevelId> {
        let branches = self.branches();
        let position = branches.binary_search_by_key(&attribute, |branch| branch.attribute);
        position.ok().map(|position| branches[position].level)
    }

    /// Removes the value levels for which `is_used` returns false.
    pub(super) fn retain_branches(&mut self, mut is_used: impl FnMut(LevelId) -> bool) {
        if let (_, Some(directory)) = self.many() {
            directory.branches.retain(|branch| is_used(branch.level));
        }
    }

    /// Returns the leaf list and the directory, after turning a single entry into a list.
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

/// Returns the number of entries by which a full list of `len` entries grows.
fn grown_by(len: usize) -> usize {
    1 + len / 4
}

/// Returns the bytes that adding `more` entries to a list requests. The list has `len` entries and room for `capacity`, and
/// each growth copies it.
pub(super) fn list_growth(len: usize, capacity: usize, more: usize) -> usize {
    let (mut capacity, mut bytes) = (capacity, 0);
    while len + more > capacity {
        // A list grows when it is full.
        capacity += grown_by(capacity);
        bytes += capacity * size_of::<Entry>() + AROUND;
    }
    bytes
}

impl Default for Directory {
    fn default() -> Self {
        Directory { branches: Vec::new(), next_split: cost::LEAF_CAPACITY }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::Slot;
    use crate::plan::filter::Filter;
    use crate::tree::Subject;

    #[test]
    fn positions_are_read_back() {
        let far = i64::from(i32::MAX) + 1;
        let points = [0, -1, i32::MIN.into(), i32::MAX.into(), far, i64::MIN].map(Place::Point);
        for level in [0, 1, (1 << KIND_SHIFT) - 1].map(LevelId::from_word) {
            for place in points.into_iter().chain([Place::Bucket, Place::Defined]) {
                let wide_key = |above: LevelId| match place {
                    Place::Point(key) if above == level => key,
                    _ => unreachable!("only a value may have to be asked for"),
                };
                let node = Node::new(Position::Under(level, place));
                assert_eq!((node.position(wide_key), node.level()), (Position::Under(level, place), Some(level)));
            }
        }
        for position in [Position::Root, Position::Free(NodeId::ROOT), Position::Free(NodeId::from_index(7))] {
            let node = Node::new(position);
            assert_eq!((node.position(|_| unreachable!("there is no level")), node.level()), (position, None));
        }
    }

    fn entry(slot: usize) -> Entry {
        Entry { subject: Subject::slot(Slot::from_index(slot)), filter: Filter::NONE.as_sufficient() }
    }

    #[test]
    fn entries_stay_in_order_as_a_list_comes_and_goes() {
        let mut node = Node::new(Position::Root);
        let mut plain = Vec::new();
        for slot in 0..200 {
            assert_eq!(node.is_empty(), plain.is_empty());
            node.push(entry(slot));
            plain.push(entry(slot));
            assert_eq!(node.entries(), plain);
            if slot % 7 < 4 {
                node.retain_entries(|kept| kept.subject.as_slot().index() % 5 == slot % 5);
                plain.retain(|kept| kept.subject.as_slot().index() % 5 == slot % 5);
                assert_eq!(node.entries(), plain);
            }
        }
        node.add_branch(Branch { attribute: AttributeId::from_index(1), level: LevelId::from_index(3) });
        assert_eq!(node.replace_entries(Vec::new()), plain);
        assert!(!node.is_empty());
        node.retain_branches(|_| false);
        assert!(node.is_empty());
    }

    #[test]
    fn a_list_that_stays_long_is_left_alone_until_it_has_doubled() {
        let mut node = Node::new(Position::Root);
        let mut tried = Vec::new();
        for slot in 0..1000 {
            node.push(entry(slot));
            if node.is_split_due() {
                tried.push(node.entries().len());
                node.split_later();
            }
        }
        assert_eq!(tried, [25, 51, 103, 207, 415, 831]);
    }
}
