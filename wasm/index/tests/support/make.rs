//! Attributes, insertions and requests in their shortest form.

use be_tree_index::index::Insertion;
use be_tree_index::model::schema::{Attribute, Bounds, Type};

/// The `ids` of a search over all subscriptions.
pub const ALL_IDS: Option<std::iter::Empty<u64>> = None;

/// Returns an optional attribute without bounds.
pub fn attribute(name: impl Into<String>, ty: Type) -> Attribute {
    Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded }
}

/// Returns an insertion without constants.
pub fn insertion(id: u64, text: &str) -> Insertion<'_> {
    Insertion { id, text: text.as_bytes(), constants: vec![] }
}
