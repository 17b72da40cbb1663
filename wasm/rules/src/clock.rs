//! The bounds of times.

use crate::error::{Error, Kind};

/// The latest time, in milliseconds from the epoch. Adding any duration to it does not overflow 64 bits.
pub(crate) const MAX_TIME: u64 = 100_000_000 * 86_400_000;

/// Checks that durations can be added to a time.
///
/// Errors: `out_of_bounds`.
pub(crate) fn check_time(time: i64) -> Result<(), Error> {
    if time.unsigned_abs() > MAX_TIME {
        let message = "the time is beyond a hundred million days from the epoch; give milliseconds";
        return Err(Error::new(Kind::OutOfBounds, message));
    }
    Ok(())
}
