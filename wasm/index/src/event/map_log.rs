//! A log of the maps of an event that were read, and of the fields that they set.

use crate::error::Error;
use crate::model::fields::{FieldId, Fields};
use crate::support::hash::out_of_memory;

/// The log of maps.
pub(super) struct Maps {
    /// The attributes read in maps, in order, including nested maps whose reading may have to be rolled back.
    pub log: Vec<FieldId>,
    /// For each map of the schema its last reading.
    pub read: Vec<Reading>,
}

/// The last reading of a map.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// Not read, or undefined.
    None,
    /// The start and the end of its part of the log.
    Part(u32, u32),
    /// The place of a value that is no map; whether it is an error is decided later.
    Unfit(u32),
}

impl Maps {
    /// Returns the maps of a schema with `count` of them.
    pub fn new(count: usize) -> Result<Box<Self>, Error> {
        let mut read = Vec::new();
        read.try_reserve_exact(count).map_err(out_of_memory)?;
        read.resize(count, Reading::None);
        Ok(Box::new(Maps { log: Vec::new(), read }))
    }

    /// Clears the log for the next object of a list.
    pub fn forget(&mut self) {
        self.log.clear();
        self.read.fill(Reading::None);
    }

    /// Returns the maps that had a value of another kind, each with the place of that value.
    pub fn unfit<'a>(&'a self, fields: &'a Fields) -> impl Iterator<Item = (FieldId, u32)> + 'a {
        self.read.iter().enumerate().filter_map(|(position, reading)| match *reading {
            Reading::Unfit(place) => Some((fields.map_at(position), place)),
            _ => None,
        })
    }

    pub fn log(&mut self, field: FieldId) -> Result<(), Error> {
        self.log.try_reserve(1).map_err(out_of_memory)?;
        self.log.push(field);
        Ok(())
    }
}
