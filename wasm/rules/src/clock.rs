//! The bounds of times.

/// The latest time, in milliseconds from the epoch: so far from the ends of 64 bits that durations can be added.
pub(crate) const MAX_TIME: u64 = 100_000_000 * 86_400_000;
