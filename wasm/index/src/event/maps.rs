//! Reads the maps of an event, in which attributes with paths are fields.

use crate::error::{quoted, Error, Kind};
use crate::event::decode::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::Value;
use crate::model::fields::FieldId;
use crate::model::path;
use crate::model::schema::AttributeId;
use crate::support::hash::out_of_memory;

/// The maps that were read.
pub(super) struct Maps {
    /// The attributes that were read in maps, in order.
    log: Vec<AttributeId>,
    /// For each map of the schema the part of the log from its last reading, if there was one.
    parts: Vec<Option<(usize, usize)>>,
}

/// A map whose end is not read yet.
struct Open<N> {
    map: FieldId,
    names: N,
    /// The start of its part of the log.
    start: usize,
}

impl Maps {
    /// Returns the maps of a schema with `count` of them.
    fn new(count: usize) -> Result<Box<Self>, Error> {
        let mut parts = Vec::new();
        parts.try_reserve_exact(count).map_err(out_of_memory)?;
        parts.resize(count, None);
        Ok(Box::new(Maps { log: Vec::new(), parts }))
    }

    /// Forgets what was read, for the next object of a list.
    pub fn forget(&mut self) {
        self.log.clear();
        self.parts.fill(None);
    }

    fn log(&mut self, attribute: AttributeId) -> Result<(), Error> {
        self.log.try_reserve(1).map_err(out_of_memory)?;
        self.log.push(attribute);
        Ok(())
    }
}

impl<S: Source> Filler<'_, S> {
    /// Reads the value of `field`, a map. Maps in it are read by the same loop, so no nesting can overflow a recursion.
    pub fn map(&mut self, field: FieldId) -> Read<()> {
        let fields = self.schema.fields();
        let mut maps = match self.maps.take() {
            Some(maps) => maps,
            None => Maps::new(fields.maps())?,
        };
        let mut open = Vec::new();
        self.open(field, &mut maps, &mut open)?;
        while let Some(Open { map, names, start }) = open.last_mut() {
            let (map, start) = (*map, *start);
            match self.source.name(names, |name| fields.inner(map, name.hash, name.bytes))? {
                Some(Some(id)) => match fields.attribute(id) {
                    None => self.open(id, &mut maps, &mut open)?,
                    Some(attribute) if S::LAST_COUNTS || self.is_missing(id) => {
                        self.read_field(id)?;
                        maps.log(attribute)?;
                    }
                    Some(_) => self.source.skip()?,
                },
                Some(None) => self.source.skip()?,
                None => {
                    maps.parts[fields.map_position(map)] = Some((start, maps.log.len()));
                    open.pop();
                }
            }
        }
        self.maps = Some(maps);
        Ok(())
    }

    /// Reads the head of the value of `map`, and adds it to those that are open. Reads all of an undefined value, and of one
    /// that does not count.
    fn open(&mut self, map: FieldId, maps: &mut Maps, open: &mut Vec<Open<S::Names>>) -> Read<()> {
        let position = self.schema.fields().map_position(map);
        if let Some((start, end)) = maps.parts[position] {
            if !S::LAST_COUNTS {
                return self.source.skip();
            }
            // The fields of an earlier map of this name do not count. Each of them is emptied once, and once more for each
            // map around it that comes again.
            for attribute in &maps.log[start..end] {
                self.set(*attribute, Value::Undefined);
            }
            maps.parts[position] = None;
        }
        match self.source.names()? {
            Some(names) => {
                open.try_reserve(1).map_err(out_of_memory)?;
                open.push(Open { map, names, start: maps.log.len() });
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
            let message = format!("{} has fields that are attributes: {}", quoted(&name), error.message);
            error = Error { message, ..*error }.about(&name).into();
        }
        error
    }
}
