//! The tables of an event: appending, and ranges.

use crate::error::Error;
use crate::event::Span;
use crate::support::hash::out_of_memory;

/// Appends `item` to `table`. Returns an error instead of aborting, because decoding must not abort.
#[inline]
pub(super) fn push<T>(table: &mut Vec<T>, item: T) -> Result<(), Error> {
    if table.len() == table.capacity() {
        table.try_reserve(1).map_err(out_of_memory)?;
    }
    table.push(item);
    Ok(())
}

/// Returns the range of `table` from `start` to its end.
pub(super) fn since<T>(start: usize, table: &[T]) -> Span {
    Span { start: start as u32, len: (table.len() - start) as u32 }
}

/// Sorts the elements from `start` on and removes duplicates.
pub(super) fn sort_and_dedup(table: &mut Vec<i64>, start: usize) {
    let added = &mut table[start..];
    if added.is_sorted_by(|a, b| a < b) {
        return;
    }
    added.sort_unstable();
    let mut distinct = 0;
    for i in 0..added.len() {
        if i == 0 || added[i] != added[distinct - 1] {
            added[distinct] = added[i];
            distinct += 1;
        }
    }
    table.truncate(start + distinct);
}
