//! The layout of an engine's memory: the words at fixed addresses, and the words of a fact.
//!
//! All state of an engine is one block of 32-bit words (see `memory`). Its head has one word or a few for each counter, time and
//! table of the engine. Each address follows from the sizes of the words before it, so that no address is written by hand.

/// A position in the block. The address 0 stands for none.
pub(crate) type Address = u32;

/// Gives names to consecutive words, each the number of words behind its name, from an address on.
macro_rules! lay_out {
    ($at:expr;) => {};
    ($at:expr; $(#[$doc:meta])* $name:ident: $words:expr, $($rest:tt)*) => {
        $(#[$doc])*
        pub(crate) const $name: $crate::layout::Address = $at;
        lay_out!($at + $words; $($rest)*);
    };
}
pub(crate) use lay_out;

/// The words of a hash table's head: its places, its entries, and the address of the places.
pub(crate) const TABLE: u32 = 3;
/// The words of a heap's head: its room, its length, and the address of the elements.
pub(crate) const HEAP: u32 = 3;

lay_out! { 1;
    /// The end of the allocated words.
    TOP: 1,
    /// The engine's time in milliseconds, which never goes back: the watermark.
    CLOCK: 2,
    /// The number of the next fact.
    NEXT: 2,
    /// The number of firings since the engine was made.
    FIRED: 2,
    /// The number of facts, those included that wait for the watermark.
    FACTS: 1,
    /// The position in the input of a call. The caller chooses its meaning.
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
    /// The matches that wait for a deadline and are the first of their queue.
    DEADLINES: HEAP,
    /// The number of the fact that was inserted last from outside.
    ASSERTED: 2,
    /// 1 while the events of one time happen, otherwise 0.
    GATHERING: 1,
    /// The page of facts that was added last, or 0.
    LAST_PAGE: 1,
    /// The milliseconds by which the watermark stays behind the event times of the sources.
    LATENESS: 2,
    /// The latest event time of the facts without a source, or `i64::MIN`.
    EVENT: 2,
    /// The event time that every source has reached at least, or `i64::MIN`.
    FLOOR: 2,
    /// The number of facts that came too late, and of those of this call.
    LATE: 2,
    CALL_LATE: 1,
    /// The number of facts that had waited when they were inserted.
    RELEASED: 2,
    /// The facts that wait for the watermark, by time.
    WAITING: HEAP,
    /// The sources by event time, and by the address of their name.
    SOURCES: HEAP,
    SOURCE_NAMES: TABLE,
    /// The tickets of facts that waited, by the number of the fact.
    TICKETS: TABLE,
    /// The fact types whose oldest fact can expire, by the time of that fact's end.
    EXPIRIES: HEAP,
    /// The heads of the lists of free blocks, by class.
    FREE: CLASSES,
    /// The first word that can be allocated.
    FIRST: 0,
}

/// Free blocks of fewer words have a list for each size. Larger blocks have a list for each power of two.
pub(crate) const SMALL_BLOCK: u32 = 64;
/// The number of lists of free blocks.
pub(crate) const CLASSES: u32 = SMALL_BLOCK + 32;

lay_out! { 0;
    /// The number of the fact's type. A fact that waits for the watermark has a mark there instead.
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

// The address 0 stands for none, so the block's first word has no owner.
const _: () = assert!(TOP == 1);
// Words of the head keep their addresses apart from the lists of free blocks, and those from what is allocated.
const _: () = assert!(EXPIRIES + HEAP == FREE && FREE + CLASSES == FIRST);
// A look-up tells a fact that waits from one that is inserted by their first word.
const _: () = assert!(FACT_TYPE == 0);
const _: () = assert!(field_at(field_offset(MAX_FIELDS - 1)) == MAX_FIELDS - 1);
