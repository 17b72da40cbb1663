//! Human-readable descriptions of an index.

pub mod draw;
pub mod explain;
mod label;
pub mod trace;

use crate::index::Index;
use crate::language::predicate_text;
use crate::model::predicate::Predicate;
use crate::model::strings::StringId;

/// Returns the text of a predicate of the index.
fn text(predicate: &Predicate<StringId>, index: &Index) -> String {
    predicate_text(predicate, index.schema(), |id| index.strings().get(*id))
}
