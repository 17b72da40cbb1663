//! The fields of an event that a schema reads: its attributes, and the maps on their paths.

use std::borrow::Cow;

use crate::handles::handle;
use crate::model::attribute::{AttributeId, Type};
use crate::model::time::Unit;
use crate::support::bytes::same;
use crate::support::hash::hash_bytes;
use crate::support::id_table::IdTable;

handle! {
    /// The position of a field in its [`Fields`]. An attribute has the position of its [`AttributeId`]; maps follow.
    pub(crate) struct FieldId
}

/// The parent of the event's own fields. No field has this position.
const EVENT: FieldId = FieldId::from_index(u32::MAX as usize);

#[derive(Clone, Debug)]
struct Field {
    /// The name in its parent.
    name: Box<str>,
    /// The type of values that are read without conversion; `None` for a map, and for values that are converted.
    plain: Option<Type>,
    /// The map that contains the field, or [`EVENT`].
    parent: FieldId,
    /// The number of attributes, this one or those below, that refuse a value that does not fit.
    strict: u32,
    /// The number of attributes, this one or those below, that every event must define.
    required: u32,
    /// The unit of numbers, if the values are times.
    unit: Unit,
}

impl Field {
    fn new(name: &str, plain: Option<Type>) -> Self {
        Field { name: name.into(), plain, parent: EVENT, strict: 0, required: 0, unit: Unit::default() }
    }
}

/// A trie of the paths of a schema's attributes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    fields: Vec<Field>,
    attributes: usize,
    /// The fields of the event itself by the hash of their names.
    outer: IdTable,
    /// The other fields by the hashes of their names and their parents.
    inner: IdTable,
}

impl Fields {
    /// Returns the fields of attributes with distinct paths. Errors: the positions of an attribute and of another one below
    /// it.
    pub fn new(attributes: &[(Vec<Cow<'_, str>>, Type)]) -> Result<Self, (AttributeId, AttributeId)> {
        let leaf = |(path, ty): &(Vec<Cow<'_, str>>, Type)| Field::new(path.last().map_or("", |name| name), Some(*ty));
        let fields = attributes.iter().map(leaf).collect();
        let mut table = Fields { fields, attributes: attributes.len(), ..Fields::default() };
        // Maps first, so that an attribute on the path of another one is found in any order.
        for (position, (path, _)) in attributes.iter().enumerate() {
            let mut parent = EVENT;
            for name in &path[..path.len().saturating_sub(1)] {
                parent = table.find(parent, name.as_bytes()).unwrap_or_else(|| table.add_map(parent, name));
            }
            table.fields[position].parent = parent;
            table.count(FieldId::from_index(position), |field| field.strict += 1);
        }
        for (position, (path, _)) in attributes.iter().enumerate() {
            let id = FieldId::from_index(position);
            let (parent, name) = (table.fields[position].parent, table.fields[position].name.clone());
            if let Some(map) = table.find(parent, name.as_bytes()) {
                let below =
                    attributes.iter().position(|(other, _)| other.len() > path.len() && other.starts_with(path));
                let below = below.unwrap_or(map.index());
                return Err((AttributeId::from_index(position), AttributeId::from_index(below)));
            }
            table.enter(parent, &name, id);
        }
        Ok(table)
    }

    /// Converts values of attribute `id` from now on.
    pub fn convert(&mut self, id: AttributeId) {
        self.fields[id.index()].plain = None;
    }

    /// Requires every event to define attribute `id`.
    pub fn require(&mut self, id: AttributeId) {
        self.count(FieldId::from_index(id.index()), |field| field.required += 1);
    }

    /// Treats a value of attribute `id` that does not fit as undefined. Call it once for an attribute.
    pub fn forgive(&mut self, id: AttributeId) {
        self.count(FieldId::from_index(id.index()), |field| field.strict -= 1);
    }

    /// Returns whether a value of `id` that does not fit counts as undefined: if the attribute, or each attribute below the
    /// map, was [forgiven](Fields::forgive) or, with `all`, if none of them is required.
    pub fn forgives(&self, id: FieldId, all: bool) -> bool {
        let field = &self.fields[id.index()];
        field.strict == 0 || all && field.required == 0
    }

    /// Sets the unit of the numbers of attribute `id`, whose values are times.
    pub fn set_unit(&mut self, id: AttributeId, unit: Unit) {
        self.fields[id.index()].unit = unit;
    }

    /// Returns the unit of the numbers of attribute `id`.
    pub fn unit(&self, id: AttributeId) -> Unit {
        self.fields[id.index()].unit
    }

    /// Changes a field and each map that contains it.
    fn count(&mut self, id: FieldId, change: impl Fn(&mut Field)) {
        let mut at = id;
        while at != EVENT {
            let field = &mut self.fields[at.index()];
            change(field);
            at = field.parent;
        }
    }

    /// Returns the field `name` of the event itself. `hash` is the hash of the name.
    #[inline]
    pub fn outer(&self, hash: u64, name: &[u8]) -> Option<FieldId> {
        let is_it = |id| same(self.fields[FieldId::from_word(id).index()].name.as_bytes(), name);
        self.outer.find(hash, is_it).map(FieldId::from_word)
    }

    /// Returns the field `name` of `map`. `hash` is the hash of the name.
    pub fn inner(&self, map: FieldId, hash: u64, name: &[u8]) -> Option<FieldId> {
        let is_it = |id| {
            let field = &self.fields[FieldId::from_word(id).index()];
            field.parent == map && same(field.name.as_bytes(), name)
        };
        self.inner.find(below(map, hash), is_it).map(FieldId::from_word)
    }

    /// Returns the type of the values of `id`, if they are read without conversion.
    #[inline]
    pub fn plain(&self, id: FieldId) -> Option<Type> {
        self.fields[id.index()].plain
    }

    /// Returns the attribute at `id`, or `None` for a map.
    #[inline]
    pub fn attribute(&self, id: FieldId) -> Option<AttributeId> {
        (id.index() < self.attributes).then(|| AttributeId::from_index(id.index()))
    }

    /// Returns the number of maps.
    pub fn maps(&self) -> usize {
        self.fields.len() - self.attributes
    }

    /// Returns the position of the map `id` among the maps.
    pub fn map_position(&self, id: FieldId) -> usize {
        id.index() - self.attributes
    }

    /// Returns the map at this position among the maps.
    pub fn map_at(&self, position: usize) -> FieldId {
        FieldId::from_index(self.attributes + position)
    }

    /// Returns the names of the fields from the event to `id`.
    pub fn path(&self, id: FieldId) -> Vec<Cow<'_, str>> {
        let mut path = Vec::new();
        let mut at = id;
        while at != EVENT {
            path.push(Cow::Borrowed(&*self.fields[at.index()].name));
            at = self.fields[at.index()].parent;
        }
        path.reverse();
        path
    }

    /// Returns the map with this path, if it contains attributes.
    pub fn map(&self, path: &[Cow<'_, str>]) -> Option<FieldId> {
        let found = path.iter().try_fold(EVENT, |parent, name| self.find(parent, name.as_bytes()))?;
        (found != EVENT && self.attribute(found).is_none()).then_some(found)
    }

    fn find(&self, parent: FieldId, name: &[u8]) -> Option<FieldId> {
        match parent {
            EVENT => self.outer(hash_bytes(name), name),
            map => self.inner(map, hash_bytes(name), name),
        }
    }

    fn add_map(&mut self, parent: FieldId, name: &str) -> FieldId {
        let id = FieldId::from_index(self.fields.len());
        self.fields.push(Field { parent, ..Field::new(name, None) });
        self.enter(parent, name, id);
        id
    }

    fn enter(&mut self, parent: FieldId, name: &str, id: FieldId) {
        let hash = hash_bytes(name.as_bytes());
        match parent {
            EVENT => self.outer.insert(hash, id.word()),
            map => self.inner.insert(below(map, hash), id.word()),
        }
    }
}

/// Combines the hash of a name with its parent.
fn below(map: FieldId, hash: u64) -> u64 {
    hash.wrapping_add(u64::from(map.word()).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
