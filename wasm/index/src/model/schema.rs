//! The attributes that events have and expressions read.

use crate::error::{Error, Kind};
use crate::handles::handle;
use crate::model::fields::Fields;
use crate::model::path;
use crate::support::bytes::same;
use crate::support::hash::hash_bytes;
use crate::support::id_table::IdTable;

handle! {
    /// The position of an attribute in its [`Schema`].
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
    /// A list of counters, for advertisers, campaigns and the like.
    FrequencyCaps,
    /// An internet address.
    Ip,
    /// A time, in microseconds since the start of 1970 in UTC.
    DateTime,
}

impl Type {
    /// Every type with its name in schemas.
    pub const NAMES: [(&'static str, Type); 11] = [
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
    /// The name: the path of its field, as expressions spell it (see [`path`]).
    pub name: String,
    /// The type of its values.
    pub ty: Type,
    /// Whether the attribute may be undefined in an event.
    pub optional: bool,
    /// The bounds of the constants in expressions.
    pub bounds: Bounds,
}

/// The attributes of an index, in the order in which they were declared.
///
/// ```
/// use be_tree_index::error::Kind;
/// use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
///
/// let years = Bounds::Integer { min: 0, max: 150 };
/// let age = Attribute { name: "age".into(), ty: Type::Integer, optional: false, bounds: years };
/// let city = Attribute { name: "city".into(), ty: Type::String, optional: true, bounds: Bounds::Unbounded };
/// let schema = Schema::new(vec![age.clone(), city])?;
/// let id = schema.find(b"city").unwrap();
/// assert_eq!(schema.attribute(id).ty, Type::String);
/// assert_eq!(schema.required().len(), 1);
///
/// let error = Schema::new(vec![age.clone(), age]).unwrap_err();
/// assert_eq!(error.kind, Kind::Type);
/// assert_eq!(error.message, "attribute `age` is declared twice; keep one declaration");
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// The declared attributes, and then the index's own (see [`Schema::patterns`]).
    attributes: Vec<Attribute>,
    by_name: IdTable,
    fields: Fields,
    /// The attributes whose values are converted.
    converted: Vec<AttributeId>,
    required: Vec<AttributeId>,
    fingerprint: u64,
    has_strings: bool,
}

impl Schema {
    /// Returns a schema of `attributes`. Their names become canonical. Errors: a name that no expression can spell or that is
    /// declared twice, an attribute below another one, or bounds that do not fit the type.
    pub fn new(mut attributes: Vec<Attribute>) -> Result<Self, Error> {
        let mut by_name = IdTable::default();
        for id in 0..attributes.len() {
            check_bounds(&attributes[id])?;
            let name = canonical_name(&attributes[id].name)?;
            let hash = hash_bytes(name.as_bytes());
            if by_name.find(hash, |known| attributes[known as usize].name == name).is_some() {
                let message = format!("attribute `{name}` is declared twice; keep one declaration");
                return Err(Error::new(Kind::Type, message).about(&name));
            }
            by_name.insert(hash, AttributeId::from_index(id).word());
            attributes[id].name = name;
        }
        let fields = fields(&attributes)?;
        let ids = (0..attributes.len()).map(AttributeId::from_index);
        let required = ids.filter(|&id| !attributes[id.index()].optional).collect();
        let fingerprint = fingerprint(&attributes);
        let has_strings = |ty: Type| matches!(ty, Type::String | Type::StringList | Type::FrequencyCaps);
        let has_strings = attributes.iter().any(|attribute| has_strings(attribute.ty));
        attributes.push(patterns());
        Ok(Schema { attributes, by_name, fields, converted: Vec::new(), required, fingerprint, has_strings })
    }

    /// Makes values of attribute `id` be converted to its type if they are of another one: see [`crate::event::decode`].
    /// Errors: segments, frequency caps, addresses and times are not converted.
    pub fn convert(&mut self, id: AttributeId) -> Result<(), Error> {
        let Attribute { name, ty, .. } = self.attribute(id);
        if matches!(ty, Type::Segments | Type::FrequencyCaps | Type::Ip | Type::DateTime) {
            let message = format!("`{name}` is of type {}, whose values are not converted", ty.name());
            return Err(Error::new(Kind::Type, message).about(name));
        }
        self.fields.convert(id);
        self.converted.push(id);
        Ok(())
    }

    /// Returns whether values of attribute `id` are converted.
    pub fn converts(&self, id: AttributeId) -> bool {
        self.converted.contains(&id)
    }

    /// Returns the fields of events that the attributes are.
    pub(crate) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Returns a number that is equal for schemas with the same attributes in the same order. Bounds make no difference.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the attributes in order.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes[..self.len()]
    }

    /// Returns the attributes in order, and then [`Schema::patterns`].
    pub(crate) fn all_attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Returns the attribute of the index's own: a list of the numbers of the patterns that are true of an event. No
    /// expression names it.
    pub(crate) fn patterns(&self) -> AttributeId {
        AttributeId::from_index(self.len())
    }

    /// Returns the positions of all attributes, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = AttributeId> {
        (0..self.len()).map(AttributeId::from_index)
    }

    /// Returns the positions of all attributes, in order, and then that of [`Schema::patterns`].
    pub(crate) fn all_ids(&self) -> impl Iterator<Item = AttributeId> {
        (0..self.attributes.len()).map(AttributeId::from_index)
    }

    /// Returns the attribute `id` of this schema.
    pub fn attribute(&self, id: AttributeId) -> &Attribute {
        &self.attributes[id.index()]
    }

    /// Returns the attributes that every event must define, in order.
    pub fn required(&self) -> &[AttributeId] {
        &self.required
    }

    /// Returns the attribute called `name`, in the canonical spelling.
    pub fn find(&self, name: &[u8]) -> Option<AttributeId> {
        let is_it = |id| same(self.attribute(AttributeId::from_word(id)).name.as_bytes(), name);
        self.by_name.find(hash_bytes(name), is_it).map(AttributeId::from_word)
    }

    /// Returns whether any value is a string or contains strings.
    pub(crate) fn has_strings(&self) -> bool {
        self.has_strings
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        // The schema of a default index has no attribute at all.
        self.attributes.len().saturating_sub(1)
    }

    /// Returns whether there is no attribute.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the attribute of the index's own. No expression can spell its name.
fn patterns() -> Attribute {
    Attribute { name: "(patterns)".into(), ty: Type::IntegerList, optional: true, bounds: Bounds::Unbounded }
}

/// Returns the canonical spelling of an attribute's name.
fn canonical_name(name: &str) -> Result<String, Error> {
    match path::fields(name) {
        Ok(fields) => Ok(path::canonical(&fields)),
        Err(fault) => {
            let message = format!("no expression can spell the name `{name}`: {}", fault.message);
            Err(Error::new(Kind::Type, message).about(name))
        }
    }
}

/// Returns the fields of events that `attributes` are. Their names are canonical and distinct.
fn fields(attributes: &[Attribute]) -> Result<Fields, Error> {
    let named = attributes.iter().map(|Attribute { name, ty, .. }| (path::fields(name).unwrap_or_default(), *ty));
    let paths: Vec<_> = named.collect();
    Fields::new(&paths).map_err(|(attribute, below)| {
        let Attribute { name, ty, .. } = &attributes[attribute.index()];
        let below = &attributes[below.index()].name;
        let message =
            format!("attribute `{name}` is of type {}, so `{below}` cannot be a field of it; leave one out", ty.name());
        Error::new(Kind::Type, message).about(below)
    })
}

fn fingerprint(attributes: &[Attribute]) -> u64 {
    let mut bytes = Vec::new();
    for Attribute { name, ty, optional, .. } in attributes {
        bytes.extend_from_slice(name.as_bytes());
        // No name contains these bytes, so they separate names.
        bytes.extend_from_slice(&[0xff, *ty as u8, u8::from(*optional)]);
    }
    hash_bytes(&bytes)
}

fn check_bounds(attribute: &Attribute) -> Result<(), Error> {
    let refuse = |message: String| Err(Error::new(Kind::Type, message).about(&attribute.name));
    let name = &attribute.name;
    match (attribute.bounds, attribute.ty) {
        (Bounds::Unbounded, _) => Ok(()),
        (Bounds::Integer { min, max }, Type::Integer | Type::IntegerList) if min <= max => Ok(()),
        (Bounds::Float { min, max }, Type::Float) if min <= max && min.is_finite() && max.is_finite() => Ok(()),
        (Bounds::Count(count), Type::String | Type::IntegerEnum | Type::StringList) if count > 0 => Ok(()),
        (Bounds::Integer { .. } | Bounds::Float { .. }, Type::Integer | Type::IntegerList | Type::Float) => {
            refuse(format!("the bounds of `{name}` are empty; give a min that is not above the max"))
        }
        (Bounds::Count(0), _) => refuse(format!("the count of `{name}` must be 1 or more")),
        (_, ty) => refuse(format!("`{name}` is of type {}, which takes no such bounds", ty.name())),
    }
}
