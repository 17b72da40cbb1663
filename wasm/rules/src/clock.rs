//! The bounds of times.

/// The latest time, in milliseconds from the epoch. Adding any duration to it does not overflow 64 bits.
pub(crate) const MAX_TIME: u64 = 100_000_000 * 86_400_000;
