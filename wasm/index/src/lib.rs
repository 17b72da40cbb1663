//! Finds, among very many boolean expressions, those that an event makes true.
//!
//! ```
//! use be_tree_index::event::Format;
//! use be_tree_index::index::{Index, Insertion};
//! use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
//! use be_tree_index::search::Search;
//!
//! let age = Attribute { name: "age".into(), ty: Type::Integer, optional: false, bounds: Bounds::Unbounded };
//! let city = Attribute { name: "city".into(), ty: Type::String, optional: true, bounds: Bounds::Unbounded };
//! let mut index = Index::new(Schema::new(vec![age, city])?);
//! index.insert(&Insertion { id: 1, text: b"age >= 21 and city in ('Rome', 'Oslo')", constants: vec![] })?;
//! index.insert(&Insertion { id: 2, text: b"age < 21 or city is null", constants: vec![] })?;
//!
//! let mut search = Search::default();
//! search.reserve(&index)?;
//! search.open(&index, Format::Json, br#"{"age": 30, "city": "Rome"}"#, None::<std::iter::Empty<u64>>)?;
//! assert_eq!(search.run(&index).ids(), [1]);
//! # Ok::<(), be_tree_index::error::Error>(())
//! ```
//!
//! Each folder uses those above it in this list, and none below (`tests/index/layers.rs`):
//!
//! | folder | holds |
//! | --- | --- |
//! | [`error`] | errors and their kinds |
//! | `cost` | the weights of the cost model |
//! | [`support`] | tables, vectors, hashes, and the accounting of memory |
//! | `handles` | the numbers by which the parts refer to one another |
//! | `sketch` | summaries of many values in bounded memory |
//! | [`term`] | Erlang's external term format |
//! | [`model`] | attributes, predicates, and their strings |
//! | [`language`] | the text of expressions: read, checked, printed |
//! | [`event`] | events, their formats, and the digests of their values |
//! | [`statistics`] | matches and statistics of a tenant's expressions, by day |
//! | `patterns` | the starts, ends and parts of strings that expressions ask for |
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
//! | [`shard`] | the indexes of many tenants, with the statistics of their matches |
//! | [`diagnostics`] | explanations, a drawing of the tree, and the path of a search through it |

mod boolean;
mod catalog;
mod compile;
mod cost;
pub mod diagnostics;
pub mod error;
mod eval;
pub mod event;
mod handles;
pub mod index;
pub mod language;
pub mod model;
mod patterns;
mod plan;
mod reasons;
#[cfg(all(target_arch = "wasm32", feature = "report_panics"))]
#[path = "../tests/support/report.rs"]
mod report;
pub mod room;
pub mod search;
pub mod shard;
mod sketch;
pub mod statistics;
pub mod support;
pub mod term;
mod tree;

// The unit tests use the oracle and the generators of the integration tests, which name this crate as others do.
#[cfg(test)]
extern crate self as be_tree_index;
#[cfg(test)]
#[path = "../tests/support/mod.rs"]
mod oracle;
