//! The result of a finished search.

/// The number of words before the ids of a result.
pub(super) const HEADER: usize = 2;

/// The result of a finished search: ids or a bitmap, and statistics. It is one list, so it is passed on without a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub(super) packed: &'a [u64],
    /// The position of the first id.
    pub(super) start: usize,
    pub(super) ids: usize,
}

impl<'a> Found<'a> {
    /// Returns the ids of all matches, ascending.
    pub fn ids(self) -> &'a [u64] {
        &self.packed[self.start..][..self.ids]
    }

    /// Returns the words after the ids of a search for reasons. These are the ids that do not match, grouped by reason; a
    /// count for each reason; whether the ids of each group ascend; and whether the event lacks a required attribute.
    pub fn reasons(self) -> &'a [u64] {
        &self.packed[self.start + self.ids..]
    }

    /// Returns the number of entries and unindexed expressions that the search visited.
    pub fn visited(self) -> u64 {
        self.packed[0]
    }

    /// Returns the number of expressions that the search evaluated.
    pub fn evaluated(self) -> u64 {
        self.packed[1]
    }

    /// Returns all words: the number visited, the number evaluated, the number of values that counted as undefined (in a
    /// counted form), the ids, the reasons.
    pub fn packed(self) -> &'a [u64] {
        self.packed
    }
}
