//! Finds, among very many boolean expressions, those that an event makes true.
//!
//! Each folder uses those above it in this list, and none below (`tests/layers.rs`):
//!
//! | folder | holds |
//! | --- | --- |
//! | [`error`] | what is refused, and why |
//! | [`support`] | tables, vectors, hashes, and the accounting of memory |
//! | `handles` | the numbers by which the parts refer to one another |
//! | [`term`] | Erlang's external term format |
//! | [`model`] | attributes, predicates, and the strings that they mention |
//! | [`language`] | the text of expressions: read, checked, printed |
//! | [`event`] | events, their formats, and the digests of their values |
//! | `compile` | from an expression's steps to its program |
//! | `catalog` | all subscriptions, their programs, and what these share |
//! | `eval` | programs and predicates run for an event |
//! | `plan` | what an expression waits for, and what that costs events |
//! | `tree` | the BE-Tree: nodes, levels, leaf lists |
//! | `boolean` | expressions over booleans, many at a time |
//! | `reasons` | programs that tell why an expression is false |
//! | [`room`] | room in the tables of searches |
//! | [`index`] | insertion and deletion: all of the above kept together |
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
pub mod room;
pub mod search;
pub mod support;
pub mod term;
mod tree;
