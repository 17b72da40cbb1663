//! The layout of an engine's memory: the words at fixed addresses, and the words of a fact.
//!
//! All state of an engine is one block of 32-bit words (see `memory`). The block's head holds the engine's counters, times and
//! tables. Each address is computed from the sizes of the words before it, so no address is written by hand.

/// A position in the block. Address 0 is null.
pub(crate) type Address = u32;

/// Defines constants for consecutive words, starting at an address. The number after a name is its size in words.
macro_rules! lay_out {
    ($at:expr;) => {};
    ($at:expr; $(#[$doc:meta])* $name:ident: $words:expr, $($rest:tt)*) => {
        $(#[$doc])*
        pub(crate) const $name: $crate::layout::Address = $at;
        lay_out!($at + $words; $($rest)*);
    };
}
pub(crate) use lay_out;

/// The words of a hash table's head: its capacity, its number of entries, and the address of its places.
pub(crate) const TABLE: u32 = 3;
/// The words of a heap's head: its capacity, its length, and the address of its elements.
pub(crate) const HEAP: u32 = 3;

lay_out! { 1;
    /// The end of the allocated words.
    TOP: 1,
    /// The engine's time in milliseconds, the watermark. It never goes back.
    CLOCK: 2,
    /// The number of the next fact.
    NEXT: 2,
    /// The number of firings since the engine was made.
    FIRED: 2,
    /// The number of facts, including those waiting for the watermark.
    FACTS: 1,
    /// The position in the input of a call. Its meaning is the caller's.
    POSITION: 1,
    /// The number of firings of this call.
    CALL_FIRED: 1,
    /// The number of rules on the agenda, and the address of their heap.
    AGENDA: 1,
    AGENDA_BASE: 1,
    /// The length of the list of notices in words, and the number of notices.
    NOTICE_WORDS: 1,
    NOTICES: 1,
    /// The table of strings.
    STRINGS: TABLE,
    /// The table of pages of facts by number.
    NUMBERS: TABLE,
    /// The matches on the agenda by hash, and in the order of firing.
    MATCHES: TABLE,
    MATCH_HEAP: HEAP,
    /// The matches waiting for a deadline that are first in their queue.
    DEADLINES: HEAP,
    /// The number of the fact inserted last from outside.
    ASSERTED: 2,
    /// 1 while the events of one time are processed, otherwise 0.
    GATHERING: 1,
    /// The page of facts that was added last, or 0.
    LAST_PAGE: 1,
    /// The lateness: the milliseconds by which the watermark trails the event times of the sources.
    LATENESS: 2,
    /// The latest event time of the facts without a source, or `i64::MIN`.
    EVENT: 2,
    /// The event time that all sources have reached, or `i64::MIN`.
    FLOOR: 2,
    /// The number of late facts, in total and in this call.
    LATE: 2,
    CALL_LATE: 1,
    /// The number of inserted facts that had waited.
    RELEASED: 2,
    /// The facts waiting for the watermark, by time.
    WAITING: HEAP,
    /// The sources by event time, and by the address of their name.
    SOURCES: HEAP,
    SOURCE_NAMES: TABLE,
    /// The tickets of facts that waited, by the fact's current number.
    TICKETS: TABLE,
    /// The fact types with facts that can expire, by the expiry of the oldest.
    EXPIRIES: HEAP,
    /// The heads of the free lists, by size class.
    FREE: CLASSES,
    /// The first word that can be allocated.
    FIRST: 0,
}

/// Smaller free blocks have a free list for each size; larger ones share a list for each power of two.
pub(crate) const SMALL_BLOCK: u32 = 64;
/// The number of free lists.
pub(crate) const CLASSES: u32 = SMALL_BLOCK + 32;

lay_out! { 0;
    /// The number of the fact's type, or a mark if the fact waits for the watermark.
    FACT_TYPE: 1,
    /// The fact's number, or 0 once it is removed.
    NUMBER: 2,
    /// The fact's time in milliseconds.
    TIME: 2,
    /// A bit for each defined field.
    DEFINED: 1,
    /// The single-fact conditions that the fact meets.
    MET: 1,
    /// The fields.
    FIELDS: 0,
}

/// The words of a field's value.
pub(crate) const FIELD: u32 = 2;

/// The most fields of a fact type: each has a bit in the word [`DEFINED`].
pub(crate) const MAX_FIELDS: usize = u32::BITS as usize;

/// Returns the offset of a field in a fact.
#[inline(always)]
pub(crate) const fn field_offset(field: usize) -> u32 {
    FIELDS + FIELD * field as u32
}

/// Returns the number of the field at an offset in a fact.
#[inline(always)]
pub(crate) const fn field_at(offset: u32) -> usize {
    ((offset - FIELDS) / FIELD) as usize
}

// Address 0 is null, so the block's first word is unused.
const _: () = assert!(TOP == 1);
// The head's words, the free lists and the allocated words are adjacent and do not overlap.
const _: () = assert!(EXPIRIES + HEAP == FREE && FREE + CLASSES == FIRST);
// The first word of a block tells a waiting fact from an inserted one.
const _: () = assert!(FACT_TYPE == 0);
const _: () = assert!(field_at(field_offset(MAX_FIELDS - 1)) == MAX_FIELDS - 1);
