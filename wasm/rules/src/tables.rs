//! The tables and heaps of an engine, at their addresses.

use crate::layout;
use crate::memory::{Heap, Order, Pages, StringTable, Table};

pub(crate) const STRINGS: StringTable = StringTable(Table(layout::STRINGS));
/// Facts by number.
pub(crate) const NUMBERS: Pages = Pages { table: Table(layout::NUMBERS), last: layout::LAST_PAGE };
/// Matches on the agenda.
pub(crate) const MATCHES: Table = Table(layout::MATCHES);
pub(crate) const MATCH_HEAP: Heap = Heap(layout::MATCH_HEAP);
/// The matches that wait for a deadline and are the first of their queue.
pub(crate) const DEADLINES: Heap = Heap(layout::DEADLINES);
/// Facts that wait for the watermark.
pub(crate) const WAITING: Order = Order(layout::WAITING);
/// The fact types whose oldest fact can expire, by the time at which it does.
pub(crate) const EXPIRIES: Order = Order(layout::EXPIRIES);
/// Sources by event time, and by the address of their name.
pub(crate) const SOURCES: Order = Order(layout::SOURCES);
pub(crate) const SOURCE_NAMES: Table = Table(layout::SOURCE_NAMES);
/// The numbers that facts had while they waited, by the numbers that they have since.
pub(crate) const TICKETS: Table = Table(layout::TICKETS);
