//! The attributes that events have and expressions read.

use crate::error::{quoted, Error, Kind};
pub use crate::model::attribute::{Attribute, AttributeId, Bounds, Type, MAX_OBJECT_ATTRIBUTES};
use crate::model::fields::{FieldId, Fields};
use crate::model::path;
use crate::model::time::Unit;
use crate::support::bytes::same;
use crate::support::hash::hash_bytes;
use crate::support::heap_sort::sort;
use crate::support::id_table::IdTable;

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
    /// The declared attributes, then the columns of the lists of objects, and then [`Schema::patterns`].
    attributes: Vec<Attribute>,
    /// The number of declared attributes of events.
    len: usize,
    /// The lists of objects, in order.
    lists: Vec<List>,
    by_name: IdTable,
    fields: Fields,
    /// The attributes whose values are converted to their type.
    converted: Vec<AttributeId>,
    required: Vec<AttributeId>,
    fingerprint: u64,
    has_strings: bool,
}

/// A list of objects.
#[derive(Clone, Debug)]
struct List {
    attribute: AttributeId,
    /// The schema of each object.
    objects: Schema,
    /// The first of its columns, one for each attribute of an object.
    columns: AttributeId,
}

impl Schema {
    /// Returns a schema of `attributes`. Names become canonical. Attributes below one of type [`Type::ObjectList`] belong to
    /// its objects, not to events.
    ///
    /// Errors: a name that no expression can spell or that is declared twice; an attribute below another one that is not a
    /// list of objects; more attributes of an object than [`MAX_OBJECT_ATTRIBUTES`]; an attribute of an object that is a
    /// list of objects, segments or frequency caps; bounds that do not fit the type.
    pub fn new(mut attributes: Vec<Attribute>) -> Result<Self, Error> {
        let mut by_name = IdTable::default();
        for id in 0..attributes.len() {
            check_bounds(&attributes[id])?;
            let name = canonical_name(&attributes[id].name)?;
            let hash = hash_bytes(name.as_bytes());
            if by_name.find(hash, |known| attributes[known as usize].name == name).is_some() {
                let message = format!("attribute {} is declared twice; keep one declaration", quoted(&name));
                return Err(Error::new(Kind::Type, message).about(&name));
            }
            by_name.insert(hash, AttributeId::from_index(id).word());
            attributes[id].name = name;
        }
        let fingerprint = fingerprint(&attributes);
        let has_strings = |ty: Type| matches!(ty, Type::String | Type::StringList | Type::FrequencyCaps);
        let has_strings = attributes.iter().any(|attribute| has_strings(attribute.ty));
        let mut lists = Vec::new();
        if attributes.iter().any(|attribute| attribute.ty == Type::ObjectList) {
            (attributes, lists) = with_lists(attributes)?;
            by_name = IdTable::default();
            for (id, attribute) in attributes.iter().enumerate() {
                by_name.insert(hash_bytes(attribute.name.as_bytes()), AttributeId::from_index(id).word());
            }
        }
        let len = attributes.len();
        let mut fields = fields(&attributes)?;
        let ids = (0..len).map(AttributeId::from_index);
        let required: Vec<_> = ids.filter(|&id| !attributes[id.index()].optional).collect();
        required.iter().for_each(|&id| fields.require(id));
        for list in &mut lists {
            list.columns = AttributeId::from_index(attributes.len());
            let around = attributes[list.attribute.index()].name.clone();
            attributes.extend(list.objects.attributes().iter().map(|attribute| column(&around, attribute)));
        }
        attributes.push(patterns());
        let converted = Vec::new();
        Ok(Schema { attributes, len, lists, by_name, fields, converted, required, fingerprint, has_strings })
    }

    /// Converts values of the attribute called `name` to its type from now on (see [`crate::event::decode`]). Errors: there
    /// is no such attribute; segments, frequency caps, addresses, times and lists of objects are not converted.
    pub fn convert(&mut self, name: &str) -> Result<(), Error> {
        let (schema, id) = self.own_or_of_objects(name)?;
        let ty = schema.attribute(id).ty;
        if matches!(ty, Type::Segments | Type::FrequencyCaps | Type::Ip | Type::DateTime | Type::ObjectList) {
            let message = format!("{} is of type {}, whose values are not converted", quoted(name), ty.name());
            return Err(Error::new(Kind::Type, message).about(name));
        }
        schema.fields.convert(id);
        schema.converted.push(id);
        Ok(())
    }

    /// Treats a value of the attribute called `name` that does not fit as undefined, instead of refusing the event.
    ///
    /// Errors: there is no such attribute, or it is required, so that the event would still be refused.
    pub fn forgive(&mut self, name: &str) -> Result<(), Error> {
        let (schema, id) = self.own_or_of_objects(name)?;
        if !schema.attribute(id).optional {
            let message = format!(
                "{} is required, so a value that does not fit cannot count as undefined; make it optional",
                quoted(name)
            );
            return Err(Error::new(Kind::Type, message).about(name));
        }
        if !schema.fields.forgives(FieldId::from_index(id.index()), false) {
            schema.fields.forgive(id);
        }
        Ok(())
    }

    /// Sets the unit of the numbers of the attribute called `name`, in events and in the constants compared with it.
    ///
    /// Errors: there is no such attribute, or its type is not a time.
    pub fn set_unit(&mut self, name: &str, unit: Unit) -> Result<(), Error> {
        let (schema, id) = self.own_or_of_objects(name)?;
        let ty = schema.attribute(id).ty;
        if ty != Type::DateTime {
            let message = format!("{} is of type {}, which has no unit; leave the unit out", quoted(name), ty.name());
            return Err(Error::new(Kind::Type, message).about(name));
        }
        schema.fields.set_unit(id, unit);
        Ok(())
    }

    /// Returns the attribute called `name`, of events or of the objects in a list, and its schema.
    fn own_or_of_objects(&mut self, name: &str) -> Result<(&mut Schema, AttributeId), Error> {
        let name = canonical_name(name)?;
        if let Some(id) = self.find(name.as_bytes()) {
            return Ok((self, id));
        }
        // The columns of a list have the names of its objects' attributes.
        let column = self.attributes[self.len..].iter().position(|attribute| attribute.name == name);
        let column = column.map(|position| self.len + position);
        let list = self.lists.iter_mut().rfind(|list| column.is_some_and(|column| list.columns.index() <= column));
        match list.zip(column).filter(|_| name != PATTERNS) {
            Some((list, column)) => Ok((&mut list.objects, AttributeId::from_index(column - list.columns.index()))),
            None => {
                let message = format!("the schema has no attribute `{name}` that could have this option");
                Err(Error::new(Kind::UnknownAttribute, message).about(&name))
            }
        }
    }

    /// Returns the schema of each object of `list`.
    pub fn objects(&self, list: AttributeId) -> &Schema {
        &self.list(list).objects
    }

    /// Returns the column of `attribute` of the objects of `list`: an internal attribute that lists its values in all
    /// objects. Columns of floats and addresses stay undefined.
    pub(crate) fn column(&self, list: AttributeId, attribute: AttributeId) -> AttributeId {
        AttributeId::from_index(self.list(list).columns.index() + attribute.index())
    }

    /// Returns each list of objects with its first column.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (AttributeId, AttributeId)> + '_ {
        self.lists.iter().map(|list| (list.attribute, list.columns))
    }

    fn list(&self, attribute: AttributeId) -> &List {
        match self.lists.binary_search_by_key(&attribute, |list| list.attribute) {
            Ok(position) => &self.lists[position],
            Err(_) => unreachable!("attribute {attribute} is a list of objects"),
        }
    }

    /// Returns whether values of attribute `id` are converted.
    pub fn converts(&self, id: AttributeId) -> bool {
        self.converted.contains(&id)
    }

    /// Returns the unit of the numbers of attribute `id`, whose values are times.
    pub fn unit(&self, id: AttributeId) -> Unit {
        self.fields.unit(id)
    }

    /// Returns the fields that events are decoded by.
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

    /// Returns the attributes in order, then the columns of lists of objects, and then [`Schema::patterns`].
    pub(crate) fn all_attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// Returns the internal attribute for patterns: the list of the ids of the patterns that are true of an event. No
    /// expression can name it.
    pub(crate) fn patterns(&self) -> AttributeId {
        AttributeId::from_index(self.attributes.len().saturating_sub(1))
    }

    /// Returns the positions of all attributes, in order.
    pub(crate) fn ids(&self) -> impl Iterator<Item = AttributeId> {
        (0..self.len()).map(AttributeId::from_index)
    }

    /// Returns the positions of all attributes, in order, and then those of the internal ones.
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

    /// Returns whether any attribute is a string or contains strings.
    pub(crate) fn has_strings(&self) -> bool {
        self.has_strings
    }

    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there is no attribute.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The name of [`Schema::patterns`]. No expression can spell it.
const PATTERNS: &str = "(patterns)";

/// Returns the attribute of the patterns.
fn patterns() -> Attribute {
    Attribute { name: PATTERNS.into(), ty: Type::IntegerList, optional: true, bounds: Bounds::Unbounded }
}

/// Returns the column of an attribute of the objects of the list called `around`.
fn column(around: &str, attribute: &Attribute) -> Attribute {
    let (ty, bounds) = match attribute.ty {
        Type::String | Type::StringList => (Type::StringList, attribute.bounds),
        Type::Boolean => (Type::IntegerList, Bounds::Count(2)),
        _ => (Type::IntegerList, attribute.bounds),
    };
    let mut path = path::fields(around).unwrap_or_default();
    path.extend(path::fields(&attribute.name).unwrap_or_default());
    Attribute { name: path::canonical(&path), ty, optional: true, bounds }
}

/// Splits `attributes`, whose names are canonical and distinct, into those of events and lists of objects, which have no
/// columns yet.
fn with_lists(attributes: Vec<Attribute>) -> Result<(Vec<Attribute>, Vec<List>), Error> {
    // The attributes of the objects of each list, by the list's path.
    let mut objects: Vec<(Vec<String>, Vec<Attribute>)> = Vec::new();
    let path_of = |attribute: &Attribute| -> Vec<String> {
        let fields = path::fields(&attribute.name).unwrap_or_default();
        fields.into_iter().map(|field| field.into_owned()).collect()
    };
    objects.extend(attributes.iter().filter(|a| a.ty == Type::ObjectList).map(|a| (path_of(a), Vec::new())));
    sort(&mut objects, |a, b| a.0 < b.0);
    let mut outer = Vec::with_capacity(attributes.len());
    for attribute in attributes {
        let path = path_of(&attribute);
        let around = (1..path.len()).find_map(|len| {
            objects.binary_search_by(|(list, _)| list[..].cmp(&path[..len])).ok().map(|position| (position, len))
        });
        let Some((position, len)) = around else {
            outer.push(attribute);
            continue;
        };
        if matches!(attribute.ty, Type::ObjectList | Type::Segments | Type::FrequencyCaps) {
            let Attribute { name, ty, .. } = attribute;
            let message = format!(
                "{} is an attribute of objects in a list, which cannot be of type {}",
                quoted(&name),
                ty.name()
            );
            return Err(Error::new(Kind::Type, message).about(&name));
        }
        let inner = &mut objects[position].1;
        if inner.len() == MAX_OBJECT_ATTRIBUTES {
            let name = attribute.name;
            let message = format!(
                "an object in a list has at most {MAX_OBJECT_ATTRIBUTES} attributes; leave {} out",
                quoted(&name)
            );
            return Err(Error::new(Kind::Type, message).about(&name));
        }
        let rest: Vec<_> = path[len..].iter().map(|field| field.as_str().into()).collect();
        inner.push(Attribute { name: path::canonical(&rest), ..attribute });
    }
    let mut lists = Vec::with_capacity(objects.len());
    for (id, attribute) in outer.iter().enumerate().filter(|(_, attribute)| attribute.ty == Type::ObjectList) {
        let position = objects.binary_search_by(|(list, _)| list[..].cmp(&path_of(attribute)));
        let objects = position.map_or_else(|_| Vec::new(), |position| std::mem::take(&mut objects[position].1));
        let attribute = AttributeId::from_index(id);
        lists.push(List { attribute, objects: Schema::new(objects)?, columns: AttributeId::default() });
    }
    Ok((outer, lists))
}

/// Returns the canonical spelling of an attribute's name.
fn canonical_name(name: &str) -> Result<String, Error> {
    match path::fields(name) {
        Ok(fields) => Ok(path::canonical(&fields)),
        Err(fault) => {
            let message = format!("no expression can spell the name {}: {}", quoted(name), fault.message);
            Err(Error::new(Kind::Type, message).about(name))
        }
    }
}

/// Returns the fields for `attributes`, whose names are canonical and distinct.
fn fields(attributes: &[Attribute]) -> Result<Fields, Error> {
    let named = attributes.iter().map(|Attribute { name, ty, .. }| (path::fields(name).unwrap_or_default(), *ty));
    let paths: Vec<_> = named.collect();
    Fields::new(&paths).map_err(|(attribute, below)| {
        let Attribute { name, ty, .. } = &attributes[attribute.index()];
        let below = &attributes[below.index()].name;
        let message = format!(
            "attribute {} is of type {}, so {} cannot be a field of it; leave one out",
            quoted(name),
            ty.name(),
            quoted(below)
        );
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
    let name = quoted(&attribute.name);
    match (attribute.bounds, attribute.ty) {
        (Bounds::Unbounded, _) => Ok(()),
        (Bounds::Integer { min, max }, Type::Integer | Type::IntegerList) if min <= max => Ok(()),
        (Bounds::Float { min, max }, Type::Float) if min <= max && min.is_finite() && max.is_finite() => Ok(()),
        (Bounds::Count(count), Type::String | Type::IntegerEnum | Type::StringList) if count > 0 => Ok(()),
        (Bounds::Integer { .. } | Bounds::Float { .. }, Type::Integer | Type::IntegerList | Type::Float) => {
            refuse(format!("the bounds of {name} are empty; give a min that is not above the max"))
        }
        (Bounds::Count(0), _) => refuse(format!("the count of {name} must be 1 or more")),
        (_, ty) => refuse(format!("{name} is of type {}, which takes no such bounds", ty.name())),
    }
}
