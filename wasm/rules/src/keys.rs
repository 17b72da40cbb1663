//! The partition keys of fact types.

/// The keys of fact types, as the user specifies them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A field that every fact type has.
    Field(String),
    /// The fact types by name, and the key field of each. Facts of a type without one are in every partition.
    Types(Vec<(String, Option<String>)>),
}

/// By fact type: the key field, or `None` if its facts are in every partition.
pub(crate) type Keys = Vec<Option<u8>>;
