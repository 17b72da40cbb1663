//! The progress of a search: the state that a step commits.

use super::{reasons, Form};

/// The progress of a search. It has the length of each list; elements beyond that length are ignored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    pub phase: Phase,
    /// The number of known nodes in `nodes`, and of finished ones.
    pub nodes: u32,
    pub node: u32,
    /// The position in the present node: in its levels, in a list value, and in its entries.
    pub level: u32,
    pub element: u32,
    pub entry: u32,
    /// The number of `candidates`, and of finished ones.
    pub candidates: u32,
    pub candidate: u32,
    /// The number of finished parts of the dense expressions, and of finished unindexed expressions.
    pub dense: u32,
    pub unindexed: u32,
    /// The position in the program of the present expression.
    pub position: u32,
    /// The position in `ids` at which the result starts.
    pub start: u32,
    pub form: Form,
    /// The word of the dense expressions to take over next, or the group of the matches to collect next.
    pub word: u32,
    /// The number of words of the result so far.
    pub ids: u32,
    /// The number of ids that ascend, before those of the tail.
    pub ascending: u32,
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
    /// Returns whether one step may run both phases. The next phase must not overwrite anything that this one reads, because
    /// a repeated step reads it again.
    pub fn leads_on_to(self, next: Phase) -> bool {
        use Phase::{Collect, Scan, Unindexed, Verify, Walk};
        matches!((self, next), (Walk, Scan) | (Scan, Verify) | (Verify, Unindexed) | (Unindexed, Collect))
    }
}

impl Progress {
    /// Returns whether each position is within its list.
    pub fn is_within_lists(&self) -> bool {
        self.node <= self.nodes && self.candidate <= self.candidates
    }

    /// Returns the phase that follows once all matching ids are collected.
    pub fn after_matches(&mut self) -> Phase {
        self.word = 0;
        if self.reasons.are_wanted {
            Phase::Gather
        } else {
            Phase::Done
        }
    }
}
