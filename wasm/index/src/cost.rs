//! The weights of the cost model.
//!
//! They decide where an expression is placed, in which order its tests run, and by which method a search works. No result
//! depends on them. This layer is below all users of a weight, so that all weights stand in one file.
//!
//! The unit of the cost of a placement is the *entry*: the work of a search to test one entry of a leaf list. It is not fuel,
//! because the most expensive parts of a search are cache misses and branch mispredictions, which burn none.
//!
//! Weights without a derivation were varied; `docs/notes/experiments.md` has the effects.

// Statistics of attributes.

/// A share of expressions. If this share asks for an optional attribute, half of the events are assumed to define it.
pub(crate) const HALF_DEFINED_DEMAND: f32 = 0.2;
/// A number of expressions: the weight of [`HALF_DEFINED_DEMAND`] as a prior, so that the first expressions do not decide
/// alone.
pub(crate) const PRIOR_EXPRESSIONS: f32 = 20.0;
/// A number of events whose counts suffice.
pub(crate) const MIN_EVENTS: u32 = 256;
/// A share of events: the least that counts of events may give.
pub(crate) const MIN_DEFINED: f32 = 0.002;
/// The assumed number of values of an attribute, if neither the schema nor expressions give one.
pub(crate) const UNKNOWN_CARDINALITY: f32 = 100.0;
/// The assumed number of elements of a list in an event.
pub(crate) const LIST_LENGTH: f32 = 4.0;
/// A share of the events that define an attribute: those in an interval of an attribute whose range is unknown.
pub(crate) const UNKNOWN_RANGE_SELECTIVITY: f32 = 0.5;
/// A share of the events that define an attribute: the least that an interval is assumed to select. It is bounded, because a
/// few constants do not justify certainty.
pub(crate) const MIN_RANGE_SELECTIVITY: f32 = 0.001;

// The access predicate and the filter of an expression.

/// The cost of an evaluation of an expression, in entries.
pub(crate) const EVALUATION: f32 = 192.0;
/// The cost of adding an expression to the matches, in entries.
pub(crate) const MATCH: f32 = 3.0;
/// The cost of the memory of an entry that no event reaches, in entries.
pub(crate) const ENTRY_MEMORY: f32 = 0.02;
/// The cost from which an expression is unindexed, in entries: every event evaluates it. It is that of several evaluations,
/// because most events define fewer attributes than the statistics assume.
pub(crate) const MAX_INDEXED: f32 = 2.0 * EVALUATION;
/// The same limit for an expression over booleans alone, which windows mostly decide.
pub(crate) const MAX_INDEXED_BOOLEAN: f32 = 4.0;
/// A share of events: those assumed to pass a demand that excludes nearly none.
pub(crate) const WEAK_SELECTIVITY: f32 = 0.99;
/// A share of the events that arrive at an entry: those that a joined filter must at least prove. A joined filter that
/// proves fewer saves few evaluations, yet every event that reaches the entry would test both.
pub(crate) const MIN_JOINED: f32 = 0.125;
/// The maximal number of operands of a conjunction that a path and filters may prove.
pub(crate) const MAX_PROVEN_CONJUNCTION: usize = 8;
/// The maximal number of literals that are considered in a context. It bounds the time to insert a conjunction of thousands
/// of literals.
pub(crate) const MAX_CONTEXT: usize = 64;

// Levels and leaf lists of the tree.

/// The cost of a level to an event that does not define its attribute, in entries.
pub(crate) const LEVEL_VISIT: f32 = 2.0;
/// The additional cost of a level to an event that defines its attribute, in entries: a look-up, mostly a cache miss.
pub(crate) const VALUE_LOOKUP: f32 = 24.0;
/// The number of entries up to which a leaf list is not considered for a split.
pub(crate) const LEAF_CAPACITY: usize = 24;
/// The maximal number of buckets of a level.
pub(crate) const MAX_BUCKETS: usize = 4096;
/// The maximal number of entries that a cut makes of one, on average. At 2.0 every entry is on both sides and nothing is
/// gained.
pub(crate) const MAX_CUT_COPIES: f32 = 1.5;
/// The number of entries for each distinct one above which two neighboring buckets are merged. The limit is below that of a
/// cut: a merged list is not cut again before it has doubled.
pub(crate) const MIN_MERGE_COPIES: f32 = 1.4;

// The order of tests.

/// The probability of the literals that led to the evaluation.
pub(crate) const ACCESS_PROBABILITY: f32 = 0.99;
/// The probability of a negated literal without an access predicate.
pub(crate) const NEGATED_PROBABILITY: f32 = 0.7;
/// The probability of any other literal without an access predicate.
pub(crate) const UNKNOWN_PROBABILITY: f32 = 0.5;
/// The cost of a test of a boolean, a number or a string, the unit of the following costs.
pub(crate) const COMPARISON: f32 = 1.0;
/// The cost of a look-up in a list of constants or of segments, in comparisons.
pub(crate) const LIST_TEST: f32 = 3.0;
/// The cost of a test of the start or end of a string, of all constants of a list, or of a cap, in comparisons.
pub(crate) const AFFIX_TEST: f32 = 4.0;
/// The cost of a search for a part of a string, or of a distance, in comparisons.
pub(crate) const SUBSTRING_TEST: f32 = 10.0;

// Methods of a search.

/// The number of matches among 32 slots from which writing all ids is faster than choosing.
pub(crate) const MIN_BULK_IDS: u32 = 10;
/// The least number of events of a group that is evaluated bit-sliced. Bit-sliced evaluation costs nearly as much for 16
/// events as for 256. It broke even with as many searches at 30 to 70 events, over formulas of 3 to 400 tests.
pub(crate) const MIN_SLICED_EVENTS: u32 = 80;
/// The least number of dense expressions for bit-sliced evaluation.
pub(crate) const MIN_SLICED_EXPRESSIONS: usize = 64;
/// The maximal number of other slots for each dense expression in bit-sliced evaluation. A slot costs 650 fuel, because its
/// results are transposed.
pub(crate) const MAX_OTHERS_PER_SLICED: usize = 1;
/// The fuel that bit-sliced evaluation saves for each dense expression and event, at the least: a search takes 75 to 130.
pub(crate) const SLICED_SAVING: usize = 25;
/// The fuel of decoding a byte of an event, at the most. Beside other expressions, bit-sliced evaluation decodes events twice.
pub(crate) const DECODE_FUEL_PER_BYTE: usize = 64;
