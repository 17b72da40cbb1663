//! Finds, among very many boolean expressions, those that an event makes true.
//!
//! Each folder uses those above it in this list, and none below (`tests/layers.rs`):
//!
//! | folder | holds |
//! | --- | --- |
//! | [`error`] | errors and their kinds |
//! | [`support`] | tables, vectors, hashes, and the accounting of memory |
//! | `handles` | the numbers by which the parts refer to one another |
//! | [`term`] | Erlang's external term format |
//! | [`model`] | attributes, predicates, and their strings |
//! | [`language`] | the text of expressions: read, checked, printed |
//! | [`event`] | events, their formats, and the digests of their values |
//! | `compile` | an expression's normal form and its program |
//! | `catalog` | all subscriptions, their programs, and the tables that programs share |
//! | `eval` | the evaluation of programs and predicates for an event |
//! | `plan` | access predicates and filters of an expression, and their cost |
//! | `tree` | the BE-Tree: nodes, levels, leaf lists |
//! | `boolean` | expressions over booleans, many at a time |
//! | `reasons` | programs that find why an expression is false |
//! | [`room`] | room in the tables of searches |
//! | [`index`] | insertion and deletion, which keep all of the above consistent |
//! | [`search`] | the search, in steps that can be cut off |
//! | [`diagnostics`] | explanations, and a drawing of the tree |

mod boolean;
mod catalog;
mod compile;
pub mod diagnostics;
pub mod error;
mod eval;
pub mod event;
mod handles;
pub mod index;
pub mod language;
pub mod model;
mod plan;
mod reasons;
#[cfg(all(target_arch = "wasm32", feature = "report_panics"))]
#[path = "../tests/support/report.rs"]
mod report;
pub mod room;
pub mod search;
pub mod support;
pub mod term;
mod tree;
