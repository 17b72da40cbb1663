//! Compiles rules: from the syntax tree to tests, joins and actions on addresses.
//!
//! | file | holds |
//! | --- | --- |
//! | `condition` | single-fact conditions |
//! | `fact_type` | fact types, and the layout of their words |
//! | `program` | the result: fact types, single-fact conditions, rules, plans |
//! | `code` | expressions over the fields of bound facts |
//! | `resolve` | names, types and domains of expressions |
//! | `rules` | conditions and actions of a rule; alternatives |
//! | `switch` | the choice among the single-fact conditions of a type |
//! | `plans` | the order and the indices of joins |
//! | `implied` | tests that other tests imply |
//! | `life` | the time after which no rule can use a fact |
//! | `partition` | whether partitions give the same results as one engine |
//! | `cycles` | rules that can enable one another without end |

pub(crate) mod code;
pub(crate) mod condition;
mod cycles;
pub(crate) mod fact_type;
mod implied;
mod life;
mod partition;
mod plans;
pub(crate) mod program;
mod resolve;
mod rules;
pub(crate) mod switch;
mod types;

pub(crate) use resolve::kind_name;
pub(crate) use rules::compile;

use crate::memory::{StringTable, Words};

/// Returns the interner of constants.
pub(crate) fn constants(words: &mut Words, strings: StringTable) -> resolve::Constants<'_> {
    resolve::Constants { words, strings }
}
