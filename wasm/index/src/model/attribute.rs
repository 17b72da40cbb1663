//! An attribute: its name, type and bounds, and its number in a schema.

use crate::handles::handle;

handle! {
    /// The position of an attribute in its [`Schema`](crate::model::schema::Schema).
    pub struct AttributeId
}

/// The type of an attribute's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// `true` or `false`.
    Boolean,
    /// A signed 64-bit integer.
    Integer,
    /// A finite 64-bit float.
    Float,
    /// A string of bytes, UTF-8 by convention.
    String,
    /// One of a bounded number of integers, without order.
    IntegerEnum,
    /// A list of signed 64-bit integers.
    IntegerList,
    /// A list of strings.
    StringList,
    /// A list of segments, each with the time when it was last seen.
    Segments,
    /// A list of frequency caps: counters of advertisers, campaigns and the like.
    FrequencyCaps,
    /// An internet address.
    Ip,
    /// A time, in microseconds since the start of 1970 in UTC.
    DateTime,
    /// A list of objects. An attribute whose path passes through the list's name is an attribute of the objects.
    ObjectList,
}

impl Type {
    /// Every type with its name in schemas.
    pub const NAMES: [(&'static str, Type); 12] = [
        ("boolean", Type::Boolean),
        ("integer", Type::Integer),
        ("float", Type::Float),
        ("string", Type::String),
        ("integer_enum", Type::IntegerEnum),
        ("integer_list", Type::IntegerList),
        ("string_list", Type::StringList),
        ("segments", Type::Segments),
        ("frequency_caps", Type::FrequencyCaps),
        ("ip", Type::Ip),
        ("datetime", Type::DateTime),
        ("object_list", Type::ObjectList),
    ];

    /// Returns the name of this type in schemas.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, ty)| *ty == self).map_or("", |(name, _)| name)
    }
}

/// The bounds of the constants that expressions compare with an attribute.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bounds {
    /// Any value of the type.
    Unbounded,
    /// Integers from `min` to `max`, both included.
    Integer {
        /// The least.
        min: i64,
        /// The greatest.
        max: i64,
    },
    /// Floats from `min` to `max`, both included.
    Float {
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
    },
    /// At most this number of distinct values.
    Count(u32),
}

/// One attribute's declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// The name: the path of its field, as expressions spell it (see [`path`](crate::model::path)).
    pub name: String,
    /// The type of its values.
    pub ty: Type,
    /// Whether the attribute may be undefined in an event.
    pub optional: bool,
    /// The bounds of the constants in expressions.
    pub bounds: Bounds,
}

/// The maximum number of attributes of an object in a list. A word has a bit for each.
pub const MAX_OBJECT_ATTRIBUTES: usize = u64::BITS as usize;
