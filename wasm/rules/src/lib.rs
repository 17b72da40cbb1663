//! Stateful rules: facts and events that are joined, with windows, absence and aggregates.
//!
//! ```
//! use be_tree_rules::{Engine, Limits, Value};
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
//!     engine.assert(&engine.fact("order", Some(at), &[("id", Value::Integer(id))])?)?;
//! }
//! engine.assert(&engine.fact("payment", Some(60_000), &[("order", Value::Integer(1))])?)?;
//! engine.advance(601_000)?;
//! engine.run()?;
//! let notices = engine.take_notices();
//! assert_eq!(notices.len(), 1);
//! assert_eq!(notices[0].values, [("order".to_owned(), Some(be_tree_rules::Owned::Integer(2)))]);
//! # Ok::<(), be_tree_rules::Error>(())
//! ```
//!
//! A fact has a type, a number, a time in milliseconds, and fields. A rule's conditions bind facts. Each combination of facts
//! that meets the conditions is a match, and fires the rule's actions once for as long as it stays valid. If a `none` is
//! violated and holds again, or an aggregate's clause fails and holds again, the match is new. A modification is one change: it
//! makes a match of other facts new only if one of these failed before it and holds after it.
//!
//! The order of firings depends on the rules and on the facts alone:
//!
//! 1. higher priority first;
//! 2. the newest fact of the match, newest first;
//! 3. rules in the order of the text;
//! 4. matches that became valid because of a `none`, an aggregate or a deadline, newest facts first in the order of the
//!    conditions; and then the other matches, first those whose newest fact meets the first condition, in the order of the rule's
//!    joins ([`Engine::join_order`]), newest facts first.
//!
//! Time moves by the times of facts and by [`Engine::advance`] only, so that a run can be repeated. A `none` or an aggregate
//! whose window is still open waits for its end. A fact whose every use lies within a window is dropped after its last possible
//! use: when no new fact can complete a match with it any more, and no match that needs it can still wait. So a `none` or an
//! aggregate with `within` a duration `of` a bound fact keeps its facts for twice the duration. A drop is no retraction: it makes
//! no `none` true.
//!
//! With a lateness ([`Engine::set_lateness`]) or with sources, time is the watermark: a fact beyond it waits, and facts are inserted
//! in the order of their times. A fact from before the watermark is too late: it is inserted at once, and counted.
//!
//! # Design
//!
//! No partial matches are stored. A new fact leaves a seed in each rule that it may complete. The rule with the best seed
//! continues that seed's search, from the last match on, in hash indices that all rules share, until there is one match more.
//!
//! | module | holds |
//! | --- | --- |
//! | [`error`] | errors and their places |
//! | `memory` | words, the undo log of a step, tables, heaps, strings |
//! | `language` | the text of rules |
//! | `compile` | tests, joins and actions |
//! | `selection` | the single-fact conditions that a fact meets, where a type has many: the index finds them |
//! | `facts` | insertion and removal of facts in all indices |
//! | `joins` | the search for the next match |
//! | `guards` | `none` and aggregates |
//! | `totals` | the values of aggregates |
//! | `series` | the facts of a key by time, for aggregates of windows |
//! | `agenda` | seeds and matches in the order of firing |
//! | `timers` | deadlines and the dropping of facts |
//! | `sources` | event time by source, and the watermark |
//! | `waiting` | facts that wait for the watermark |
//! | `actions` | what a firing does |
//! | `announce` | loads the words that facts which come soon will need |
//! | `notices` | notices |
//! | `engine` | all of it |
//! | `explain` | the facts for which a rule fired, or the condition that blocks it |
//! | [`input`] | facts as external terms and as JSON |
//! | [`partitions`] | the partition of a fact |

mod aggregate;
mod announce;
mod compile;
mod engine;
pub mod error;
mod explain;
mod facts;
mod firing;
pub mod input;
mod language;
mod matches;
mod memory;
pub mod partitions;
mod selection;
mod step;
mod time;

// Tests that share their workloads with the integration tests, which name this crate as others do.
#[cfg(test)]
extern crate self as be_tree_rules;
#[cfg(test)]
#[path = "../tests/cut_off/mod.rs"]
mod cut_off;

pub use announce::GROUP;
pub use engine::{Engine, Fact, Limits, NewFact, Owned, Pause, Run, Turn, Value};
pub use error::{Error, Kind, Place};
pub use explain::{Explanation, Verdict};
pub use firing::notices::Notice;
pub use time::sources::{EventTimes, Source, MAX_SOURCES, MAX_SOURCE_NAME};
