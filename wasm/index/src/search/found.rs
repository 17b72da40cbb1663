//! What a finished search found.

/// How many words stand before the ids of what a search found.
pub(super) const HEADER: usize = 2;

/// What a finished search found, ids or a bitmap, and what it took: one list, so that it is handed on as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<'a> {
    pub(super) packed: &'a [u64],
    pub(super) ids: usize,
}

impl<'a> Found<'a> {
    /// The ids of all that matches, ascending.
    pub fn ids(self) -> &'a [u64] {
        &self.packed[HEADER..][..self.ids]
    }

    /// What stands behind the ids of a search for reasons: the ids of all that does not match, grouped by reason, a count
    /// for each reason, whether the ids of each group ascend, and whether the event does not fit.
    pub fn reasons(self) -> &'a [u64] {
        &self.packed[HEADER + self.ids..]
    }

    /// How many entries and unindexed expressions were come upon.
    pub fn visited(self) -> u64 {
        self.packed[0]
    }

    /// How many expressions were evaluated.
    pub fn evaluated(self) -> u64 {
        self.packed[1]
    }

    /// All of this: the number visited, the number evaluated, the ids, the reasons.
    pub fn packed(self) -> &'a [u64] {
        self.packed
    }
}
