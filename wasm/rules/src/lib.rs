//! Stateful rules: facts and events that are joined, with windows, absence and aggregates.
//!
//! ```
//! use be_tree_rules::{Engine, EventTime, Limits, Value};
//!
//! let rules = "
//!     fact order(id: integer)
//!     fact payment(order: integer)
//!     rule unpaid
//!       when o: order
//!            none payment(order = o.id) within 10 minutes after o
//!       then notify unpaid(order: o.id)
//! ";
//! let mut engine = Engine::new(rules, Limits::default())?;
//! for (id, at) in [(1, 0), (2, 1_000)] {
//!     engine.assert(&engine.types().fact("order", Some(at), &[("id", Value::Integer(id))])?)?;
//! }
//! engine.assert(&engine.types().fact("payment", Some(60_000), &[("order", Value::Integer(1))])?)?;
//! engine.advance(EventTime::OfAll(601_000))?;
//! engine.run()?;
//! let notices = engine.take_notices();
//! assert_eq!(notices.len(), 1);
//! assert_eq!(notices[0].values, [("order".to_owned(), Some(be_tree_rules::Owned::Integer(2)))]);
//! # Ok::<(), be_tree_rules::Error>(())
//! ```
//!
//! A fact has a type, a number, a time in milliseconds, and fields. A rule's conditions bind facts. Each combination of facts that
//! meets the conditions is a match. A match fires the rule's actions once while it stays valid. If a `none` or an aggregate's
//! clause fails and then holds again, the match is new. A modification is one change: a match of other facts becomes new only if
//! such a condition failed before the modification and holds after it.
//!
//! The order of firings depends only on the rules and the facts:
//!
//! 1. higher priority first;
//! 2. the newest fact of the match, newest first;
//! 3. rules in the order of the text;
//! 4. first the matches that a `none`, an aggregate or a deadline made valid, newest facts first in the order of the conditions;
//!    then the other matches, first those whose newest fact meets the first condition, in the order of the rule's joins
//!    ([`Rules::join_order`]), newest facts first.
//!
//! Only the times of facts and [`Engine::advance`] move time, so a run can be repeated. A `none` or an aggregate waits until its
//! window closes. A fact whose every use lies within a window is dropped once no new fact can complete a match with it and no
//! waiting match needs it. So a `none` or an aggregate with `within` a duration `of` a bound fact keeps its facts for twice the
//! duration. A drop is not a retraction: it makes no `none` true.
//!
//! With a lateness ([`Engine::set_lateness`]) or with sources, time is the watermark: a fact beyond it waits, and waiting facts are
//! inserted in time order. A fact behind the watermark is late: it is inserted at once, and counted.
//!
//! # Design
//!
//! No partial matches are stored. A new fact leaves a seed in each rule that it may complete. The rule with the best seed resumes
//! that seed's search after its last match, in hash indices shared by all rules, until it finds one more match.
//!
//! Each module depends only on modules above it in this list (`tests/layers.rs`):
//!
//! | module | holds |
//! | --- | --- |
//! | [`error`] | errors and their places |
//! | `value` | the values of fields |
//! | `layout` | the addresses of an engine's words, and the words of a fact |
//! | `clock` | the bounds of times |
//! | `language` | the text of rules |
//! | `memory` | words, the undo log of a step, tables, heaps, strings |
//! | `fact` | whether a fact exists, and its place in time |
//! | `cells` | the field values of a fact before its insertion |
//! | `keys` | the partition keys of fact types |
//! | `compile` | compiles the text of rules to tests, joins and actions |
//! | `selection` | an index of single-fact conditions, for types that have many |
//! | `tables` | the tables and heaps of an engine |
//! | `step` | the state that a step reads and changes |
//! | `aggregate` | the values of aggregates, and the time-ordered trees that windows are read from |
//! | `matches` | the search for matches, `none` and aggregates, deadlines, and the agenda |
//! | `facts` | insertion, modification and removal of facts in all indices |
//! | `firing` | the actions of a rule and its notices |
//! | `time` | sources, the watermark, waiting facts, and the next due event |
//! | [`partitions`] | the partition of a fact |
//! | `announce` | prefetches the words that the next insertions need |
//! | `engine` | the operations, each a sequence of steps, and the queries |
//! | `explain` | the facts for which a rule fired, or the condition that blocks it |
//! | [`input`] | facts as external terms and as JSON |

mod aggregate;
mod announce;
mod cells;
mod clock;
mod compile;
mod engine;
pub mod error;
mod explain;
mod fact;
mod facts;
mod firing;
pub mod input;
mod keys;
mod language;
mod layout;
mod matches;
mod memory;
pub mod partitions;
mod selection;
mod step;
mod tables;
mod time;
mod value;

// Unit tests share workloads with the integration tests, which refer to this crate by name.
#[cfg(test)]
extern crate self as be_tree_rules;
#[cfg(test)]
#[path = "../tests/cut_off/mod.rs"]
mod cut_off;

pub use announce::GROUP;
pub use engine::{
    Arrival, Call, Clock, Counts, Engine, EventTime, Fact, Fired, Limits, NewFact, Pause, Progress, Rules, Run, Stored,
    Turn, Types,
};
pub use error::{Error, Kind, Place};
pub use explain::{Explanation, Verdict};
pub use firing::notices::Notice;
pub use time::sources::{Source, MAX_SOURCES, MAX_SOURCE_NAME};
pub use value::{Owned, Value};
