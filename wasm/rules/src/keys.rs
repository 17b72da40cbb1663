//! The keys by which facts are divided among partitions.

/// The keys of fact types, as a user gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum By {
    /// A field that every fact type has.
    Field(String),
    /// The fact types by name, and the field of each. Without one its facts are in every partition.
    Types(Vec<(String, Option<String>)>),
}

/// By fact type: the field of its key, or `None` if its facts are in every partition.
pub(crate) type Keys = Vec<Option<u8>>;
