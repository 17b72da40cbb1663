//! Reads the maps of an event. Their fields are the attributes with paths.

use crate::error::{quoted, Error, Kind};
use crate::event::errors::is_of_value;
use crate::event::filler::Filler;
use crate::event::formats::source::{Read, Source};
use crate::event::map_log::{Maps, Reading};
use crate::event::Value;
use crate::model::fields::FieldId;
use crate::model::path;
use crate::support::hash::out_of_memory;

/// A map that is not read to its end.
struct Open<N> {
    map: FieldId,
    names: N,
    /// The start of its part of the log.
    start: u32,
    /// The event's number of misfit values before this map.
    mismatches: u32,
}

impl<S: Source> Filler<'_, S> {
    /// Reads the value of `field`, a map. Nested maps are read by the same loop, so nesting cannot overflow the stack.
    pub fn map(&mut self, field: FieldId) -> Read<()> {
        let fields = self.schema.fields();
        let mut maps = match self.maps.take() {
            Some(maps) => maps,
            None => Maps::new(fields.maps())?,
        };
        let mut open = Vec::new();
        self.open(field, &mut maps, &mut open)?;
        while let Some(last) = open.last_mut() {
            let map = last.map;
            let known = match self.source.name(&mut last.names, |name| fields.inner(map, name.hash, name.bytes)) {
                Ok(known) => known,
                Err(error) => {
                    self.malformed(last, &mut maps, *error)?;
                    open.pop();
                    continue;
                }
            };
            match known {
                Some(Some(id)) => match fields.attribute(id) {
                    None => self.open(id, &mut maps, &mut open)?,
                    Some(_) if S::LAST_COUNTS || self.is_missing(id) => {
                        self.read_field(id)?;
                        maps.log(id)?;
                    }
                    Some(_) => self.source.skip()?,
                },
                Some(None) => self.source.skip()?,
                None => {
                    maps.read[fields.map_position(map)] = Reading::Part(last.start, maps.log.len() as u32);
                    open.pop();
                    if !S::LAST_COUNTS && !open.is_empty() {
                        // The enclosing map may turn out to be no map.
                        maps.log(map)?;
                    }
                }
            }
        }
        self.maps = Some(maps);
        Ok(())
    }

    /// Reads the head of the value of `map`, and pushes the map. Reads a value completely if it is no map or does not
    /// count.
    fn open(&mut self, map: FieldId, maps: &mut Maps, open: &mut Vec<Open<S::Names>>) -> Read<()> {
        let position = self.schema.fields().map_position(map);
        if let Reading::Part(start, end) = maps.read[position] {
            if !S::LAST_COUNTS {
                return self.source.skip();
            }
            // The fields of an earlier map of this name do not count. Each of them is emptied once, and once more for
            // each enclosing map that is repeated.
            self.empty(start, end, maps);
        }
        maps.read[position] = Reading::None;
        let place = self.source.place();
        match self.source.names()? {
            Some(names) => {
                open.try_reserve(1).map_err(out_of_memory)?;
                open.push(Open { map, names, start: maps.log.len() as u32, mismatches: self.event.mismatches });
                Ok(())
            }
            None if self.source.undefined()? => Ok(()),
            None if S::LAST_COUNTS => {
                self.source.skip()?;
                maps.read[position] = Reading::Unfit(place as u32);
                self.any_unfit = true;
                Ok(maps.log(map)?)
            }
            None if self.forgives(map) => {
                self.event.mismatches += 1;
                self.source.skip()
            }
            None => Err(self.no_map(map)),
        }
    }

    /// Empties the fields in a part of the log.
    fn empty(&mut self, start: u32, end: u32, maps: &mut Maps) {
        let fields = self.schema.fields();
        for &field in &maps.log[start as usize..end as usize] {
            match fields.attribute(field) {
                Some(attribute) => self.set(attribute, Value::Undefined),
                None => maps.read[fields.map_position(field)] = Reading::None,
            }
        }
    }

    /// Skips the rest of a map with an unreadable name; the map counts as undefined. Returns `error` if refused.
    #[cold]
    fn malformed(&mut self, map: &mut Open<S::Names>, maps: &mut Maps, error: Error) -> Read<()> {
        if !is_of_value(&error) || !self.forgives(map.map) {
            return Err(self.about_map(map.map, error));
        }
        self.empty(map.start, maps.log.len() as u32, maps);
        self.event.mismatches = map.mismatches + 1;
        self.source.skip_names(&mut map.names)
    }

    /// Returns the error that the next value is not `map`.
    #[cold]
    pub fn no_map(&mut self, map: FieldId) -> Box<Error> {
        let error = self.mismatch(S::MAP);
        self.about_map(map, *error)
    }

    /// Returns the error with the map whose value is wrong.
    fn about_map(&self, map: FieldId, error: Error) -> Box<Error> {
        if error.kind != Kind::Type {
            return error.into();
        }
        let name = path::canonical(&self.schema.fields().path(map));
        let message = format!("{} has fields that are attributes: {}", quoted(&name), error.message);
        Error { message, ..error }.about(&name).into()
    }
}
