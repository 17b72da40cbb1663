//! How far a search has come: all that a step commits.

use super::{reasons, Form};

/// How far a search has come. A list's length here is how much of it counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub phase: Phase,
    /// Of `nodes`: how many are known, and how many are done with.
    pub nodes: u32,
    pub node: u32,
    /// Within the present node: its levels, the elements of a list value, and its entries.
    pub level: u32,
    pub element: u32,
    pub entry: u32,
    /// Of `candidates`: how many there are, and how many are done with.
    pub candidates: u32,
    pub candidate: u32,
    /// How many parts of the dense expressions, and how many unindexed expressions, are done with.
    pub dense: u32,
    pub unindexed: u32,
    /// The position in the code of the present expression.
    pub position: u32,
    /// Where in `ids` the answer starts.
    pub start: u32,
    pub form: Form,
    /// The word of the dense expressions to take in next, or the group of the matches to collect next.
    pub word: u32,
    /// The words of the answer so far.
    pub ids: u32,
    /// An id that matches and is too large for a bitmap.
    pub too_large: Option<u64>,
    pub reasons: reasons::Progress,
    pub visited: u64,
    pub evaluated: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Walk,
    Scan,
    Verify,
    Dense,
    Unindexed,
    Collect,
    Sort,
    Gather,
    Explain,
    Count,
    Group,
    Done,
}

impl Phase {
    /// Whether one step can do both: the next one writes over nothing that this one read, and would read again.
    pub fn leads_on_to(self, next: Phase) -> bool {
        use Phase::{Collect, Scan, Unindexed, Verify, Walk};
        matches!((self, next), (Walk, Scan) | (Scan, Verify) | (Verify, Unindexed) | (Unindexed, Collect))
    }
}

impl Progress {
    /// What comes once all ids that match are there.
    pub fn after_matches(&mut self) -> Phase {
        self.word = 0;
        if self.reasons.are_wanted {
            Phase::Gather
        } else {
            Phase::Done
        }
    }
}
