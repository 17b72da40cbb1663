//! Compiles rules: from the tree of the language to tests, joins and actions on addresses.
//!
//! | file | holds |
//! | --- | --- |
//! | `condition` | single-fact conditions |
//! | `fact_type` | fact types, and where their facts have their words |
//! | `program` | the result: fact types, single-fact conditions, rules, plans |
//! | `code` | expressions over the fields of bound facts |
//! | `resolve` | names, types and domains of expressions |
//! | `rules` | conditions and actions of a rule; alternatives |
//! | `common` | parts of actions that are computed once |
//! | `switch` | the choice among the single-fact conditions of a type |
//! | `plans` | the order and the indices of joins |
//! | `implied` | tests that follow from others |
//! | `life` | the time for which a fact can still be used |
//! | `partition` | whether rules find the same in partitions |
//! | `cycles` | rules that can enable one another without end |

pub(crate) mod code;
mod common;
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

/// Returns the place of constants.
pub(crate) fn constants(words: &mut Words, strings: StringTable) -> resolve::Constants<'_> {
    resolve::Constants { words, strings }
}
