//! Reads the maps of an event, in which attributes with paths are fields.

use crate::error::{Error, Kind};
use crate::event::decode::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::Value;
use crate::model::fields::FieldId;
use crate::model::path;
use crate::model::schema::AttributeId;
use crate::support::hash::out_of_memory;

/// The maps that were read.
#[derive(Default)]
pub(super) struct Maps {
    /// The attributes that were read in maps, in order.
    log: Vec<AttributeId>,
    /// For each map of the schema the part of the log from its last reading, if there was one. Empty before the first map.
    parts: Vec<Option<(usize, usize)>>,
}

/// A map whose end is not read yet.
struct Open<N> {
    map: FieldId,
    names: N,
    /// The start of its part of the log.
    start: usize,
}

impl<S: Source> Filler<'_, S> {
    /// Reads the value of `field`, a map. Maps in it are read by the same loop, so no nesting can overflow a recursion.
    pub fn map(&mut self, field: FieldId) -> Read<()> {
        if self.maps.parts.is_empty() {
            let count = self.schema.fields().maps();
            self.maps.parts.try_reserve_exact(count).map_err(out_of_memory)?;
            self.maps.parts.resize(count, None);
        }
        let mut open = Vec::new();
        self.open(field, &mut open)?;
        let fields = self.schema.fields();
        while let Some(Open { map, names, start }) = open.last_mut() {
            let (map, start) = (*map, *start);
            match self.source.name(names, |name| fields.inner(map, name.hash, name.bytes))? {
                Some(Some(id)) => match fields.attribute(id) {
                    None => self.open(id, &mut open)?,
                    Some(attribute) if S::LAST_COUNTS || self.is_missing(id) => {
                        self.read_field(id)?;
                        self.maps.log.try_reserve(1).map_err(out_of_memory)?;
                        self.maps.log.push(attribute);
                    }
                    Some(_) => self.source.skip()?,
                },
                Some(None) => self.source.skip()?,
                None => {
                    self.maps.parts[fields.map_position(map)] = Some((start, self.maps.log.len()));
                    open.pop();
                }
            }
        }
        Ok(())
    }

    /// Reads the head of the value of `map`, and adds it to those that are open. Reads all of an undefined value, and of one
    /// that does not count.
    fn open(&mut self, map: FieldId, open: &mut Vec<Open<S::Names>>) -> Read<()> {
        let position = self.schema.fields().map_position(map);
        if let Some((start, end)) = self.maps.parts[position] {
            if !S::LAST_COUNTS {
                return self.source.skip();
            }
            // The fields of an earlier map of this name do not count. Each of them is emptied once, and once more for each
            // map around it that comes again.
            for attribute in &self.maps.log[start..end] {
                self.event.values[attribute.index()] = Value::Undefined;
            }
            self.maps.parts[position] = None;
        }
        match self.source.names()? {
            Some(names) => {
                open.try_reserve(1).map_err(out_of_memory)?;
                open.push(Open { map, names, start: self.maps.log.len() });
                Ok(())
            }
            None if self.source.undefined()? => Ok(()),
            None => Err(self.no_map(map)),
        }
    }

    /// Returns the error for the next value, which is to be `map`.
    #[cold]
    fn no_map(&mut self, map: FieldId) -> Box<Error> {
        let mut error = self.mismatch(S::MAP);
        if error.kind == Kind::Type {
            let name = path::canonical(&self.schema.fields().path(map));
            let message = format!("`{name}` has fields that are attributes: {}", error.message);
            error = Error { message, ..*error }.about(&name).into();
        }
        error
    }
}
