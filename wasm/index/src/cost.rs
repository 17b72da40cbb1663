//! The weights of the cost model.
//!
//! They decide where an expression is placed, in which order its tests run, and by which method a search works. No result
//! depends on them. This layer is below all users of a weight, so that all weights are in one file.
//!
//! The unit of a cost is the *entry*: the cost of testing one entry of a leaf list, which is 10 fuel and 3 nanoseconds. Costs
//! are not in fuel, because cache misses and branch mispredictions take time and burn none.
//!
//! Weights without a derivation were halved and doubled; `docs/contributing/notes/experiments.md` has the effects on fuel.

// Statistics of attributes.

/// If this share of expressions asks for an optional attribute, half of the events are assumed to define it.
/// Measured: at half of it ad targeting takes 1.05 of the fuel, at twice 1.01.
pub(crate) const HALF_DEFINED_DEMAND: f32 = 0.2;
/// The weight of [`HALF_DEFINED_DEMAND`] as a prior, in expressions, so that the first expressions do not decide alone.
/// Measured: at half and twice of it, fuel is within 0.5 %.
pub(crate) const PRIOR_EXPRESSIONS: f32 = 20.0;
/// The assumed number of values of an attribute, if the schema gives none. Measured: at half and twice of it, fuel is
/// within 0.3 %.
pub(crate) const UNKNOWN_CARDINALITY: f32 = 100.0;
/// The assumed number of elements of a list in an event. Measured: at half and twice of it, fuel is within 2 %.
pub(crate) const LIST_LENGTH: f32 = 4.0;
/// The assumed selectivity of an interval if the attribute's range is unknown: a share of the events that define the attribute. No
/// workload depends on it.
pub(crate) const UNKNOWN_RANGE_SELECTIVITY: f32 = 0.5;
/// The least assumed selectivity of an interval: a share of the events that define the attribute. Set to
/// 1 / [`UNKNOWN_CARDINALITY`], because values are distributed unevenly and a few constants say little about the real range.
pub(crate) const MIN_RANGE_SELECTIVITY: f32 = 1.0 / UNKNOWN_CARDINALITY;

// The access predicate and the filter of an expression.

/// The cost of evaluating an expression, in entries. Its fuel is 750 to 930, that of 75 to 93 entries; its cache misses and
/// branch mispredictions add to that. Measured: at half and twice of it, fuel is within 0.6 %.
pub(crate) const EVALUATION: f32 = 192.0;
/// The cost of adding an expression to the matches, in entries. Measured: at twice of it fuel is the same.
pub(crate) const MATCH: f32 = 3.0;
/// The cost of the memory of an entry that no event reaches, in entries. Measured: at half and twice of it, fuel is within
/// 0.2 %.
pub(crate) const ENTRY_MEMORY: f32 = 0.02;
/// An expression is unindexed, so that every event evaluates it, if indexing it costs at least this, in entries. The limit is
/// two evaluations, because most events define fewer attributes than the statistics assume.
pub(crate) const MAX_INDEXED: f32 = 2.0 * EVALUATION;
/// The same limit for an expression over booleans alone. Windows decide it for 115 fuel, that of 12 entries, and have a cost
/// of their own for each event.
pub(crate) const MAX_INDEXED_BOOLEAN: f32 = 8.0;
/// The assumed share of events that pass a demand which excludes nearly none. It only orders such demands behind others.
pub(crate) const WEAK_SELECTIVITY: f32 = 0.99;
/// The least share that a joined filter must prove, of the events that reach its entry. A joined filter that proves fewer
/// saves few evaluations, yet every event that reaches the entry would test both filters. Measured: at half and twice of it,
/// fuel is within 0.6 %.
pub(crate) const MIN_JOINED: f32 = 0.125;
/// The maximal number of operands of a conjunction that a path and two filters may prove. A longer one rarely has so few
/// open demands, and inspecting it costs an insertion fuel.
pub(crate) const MAX_PROVEN_CONJUNCTION: usize = 8;
/// The maximal number of literals that are considered in a context. It bounds the time to insert a conjunction of thousands
/// of literals. Measured: at half of it an insertion takes 0.97 to 1.0 of the fuel.
pub(crate) const MAX_CONTEXT: usize = 64;
/// The maximal number of keys of a list that is compared with another list, or sets the bits of a mask, for each entry. A
/// mask of this number of keys has 99 % of its bits.
pub(crate) const MAX_COMPARED_KEYS: usize = 160;

// Levels and leaf lists of the tree.

/// The cost of a level to an event that does not define its attribute, in entries: reading its digest. Measured: at half and
/// twice of it, fuel is within 1.1 %.
pub(crate) const LEVEL_VISIT: f32 = 1.0;
/// The additional cost of a level to an event that defines its attribute, in entries: a look-up, mostly a cache miss. Measured:
/// at half of it fuel is within 1 %, at twice ad targeting takes 1.03.
pub(crate) const VALUE_LOOKUP: f32 = 24.0;
/// The greatest length of a leaf list that is not considered for a split. It is that of a [`VALUE_LOOKUP`]. At half of it ad
/// targeting takes 0.97 of the fuel to search and 1.01 to build, arbitrary expressions 1.05 to build.
pub(crate) const LEAF_CAPACITY: usize = VALUE_LOOKUP as usize;
/// The maximal number of buckets of a level. It bounds the time to find a node among the buckets of its level, which is
/// linear. No level of a measured workload reaches it.
pub(crate) const MAX_BUCKETS: usize = 4096;
/// The maximal number of entries into which levels below one another multiply one entry whose demands list several values. A
/// single list makes one entry for each of its values.
pub(crate) const MAX_COPIES: usize = 64;
/// The maximal average number of entries that a cut makes of one. At 2.0 every entry is on both sides and nothing is
/// gained. Measured: at 1.25 ad targeting takes 1.05 of the fuel to search; at 1.75 0.98, and 1.05 to build.
pub(crate) const MAX_CUT_COPIES: f32 = 1.5;
/// The number of entries per distinct entry above which two neighboring buckets are merged. It is below [`MAX_CUT_COPIES`],
/// because a merged list is not cut again before it has doubled. Measured: at 1.2 and 1.8 fuel is the same.
pub(crate) const MIN_MERGE_COPIES: f32 = 1.4;

// The order of tests. Measured: these weights change the fuel of a search by 1 % at most.

/// The assumed probability that a literal which led to the evaluation is true.
pub(crate) const ACCESS_PROBABILITY: f32 = 0.99;
/// The assumed probability that a negated literal without an access predicate is true.
pub(crate) const NEGATED_PROBABILITY: f32 = 0.7;
/// The assumed probability that any other literal without an access predicate is true.
pub(crate) const UNKNOWN_PROBABILITY: f32 = 0.5;
/// The cost of testing a boolean, a number or a string. It is the unit of the following costs.
pub(crate) const COMPARISON: f32 = 1.0;
/// The cost of a look-up in a list of constants or of segments, in comparisons.
pub(crate) const LIST_TEST: f32 = 3.0;
/// The cost of testing the start or end of a string, all constants of a list, or a cap, in comparisons.
pub(crate) const AFFIX_TEST: f32 = 4.0;
/// The cost of searching for a part of a string, or of computing a distance, in comparisons.
pub(crate) const SUBSTRING_TEST: f32 = 10.0;

/// The cost of matching a string by a regular expression, in comparisons. The automaton has several states for each
/// character.
pub(crate) const AUTOMATON_TEST: f32 = 100.0;

// Methods of a search.

/// The least number of matches among 32 slots for which writing all ids is faster than picking them. Measured: at half of it
/// arbitrary expressions take 1.06 of the fuel, at twice dense ones take 1.02.
pub(crate) const MIN_BULK_IDS: u32 = 10;
/// The least number of events of a group for bit-sliced evaluation. Bit-sliced evaluation costs nearly as much for 16
/// events as for 256. It broke even with as many searches at 30 to 70 events, over formulas of 3 to 400 tests.
pub(crate) const MIN_SLICED_EVENTS: u32 = 80;
/// The least number of dense expressions for bit-sliced evaluation. Smaller indexes are spared its tables. Measured: with
/// 16 to 128 expressions it takes 0.55 to 0.69 of the fuel of as many searches, so this is not the break-even.
pub(crate) const MIN_SLICED_EXPRESSIONS: usize = 64;
/// The maximal number of other slots per dense expression for bit-sliced evaluation. A slot costs 650 fuel, because its
/// results are transposed.
pub(crate) const MAX_OTHERS_PER_SLICED: usize = 1;
/// The least fuel that bit-sliced evaluation saves per dense expression and event. A search takes 75 to 130.
pub(crate) const SLICED_SAVING: usize = 25;
/// The most fuel that decoding takes per byte of an event. If there are other expressions, bit-sliced evaluation decodes
/// events twice.
pub(crate) const DECODE_FUEL_PER_BYTE: usize = 64;
