//! The tables and heaps of an engine, at their addresses.

use crate::layout;
use crate::memory::{Heap, Order, Pages, StringTable, Table};

pub(crate) const STRINGS: StringTable = StringTable(Table(layout::STRINGS));
/// Facts by number.
pub(crate) const NUMBERS: Pages = Pages { table: Table(layout::NUMBERS), last: layout::LAST_PAGE };
/// Matches on the agenda.
pub(crate) const MATCHES: Table = Table(layout::MATCHES);
pub(crate) const MATCH_HEAP: Heap = Heap(layout::MATCH_HEAP);
/// The matches waiting for a deadline that are first in their queue.
pub(crate) const DEADLINES: Heap = Heap(layout::DEADLINES);
/// The facts waiting for the watermark.
pub(crate) const WAITING: Order = Order(layout::WAITING);
/// The fact types with facts that can expire, by the expiry of the oldest.
pub(crate) const EXPIRIES: Order = Order(layout::EXPIRIES);
/// Sources by event time, and by the address of their name.
pub(crate) const SOURCES: Order = Order(layout::SOURCES);
pub(crate) const SOURCE_NAMES: Table = Table(layout::SOURCE_NAMES);
/// The tickets of facts that waited, by the fact's current number.
pub(crate) const TICKETS: Table = Table(layout::TICKETS);
