//! The room that a step lacks, and the error if it cannot be made.

use crate::error::{Error, Kind};

/// The room that a step lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Entries of the undo log.
    Words(u32),
    /// Entries of the log.
    Log,
    /// Entries in the list of freed blocks.
    Freed,
    /// Entries in the list of released strings.
    Released,
    /// The search of single-fact conditions.
    Search,
    /// Words of the notices.
    Notices(u32),
    /// Entries of the transaction's log.
    Transaction,
    /// The limit on facts, which more memory does not lift.
    Facts,
}

pub(super) fn refused() -> Error {
    Error::new(Kind::OutOfMemory, "the facts do not fit in memory; retract some, or allow more memory")
}
