//! The maps of an event that were read, and the fields that they set.

use crate::error::Error;
use crate::model::fields::{FieldId, Fields};
use crate::support::hash::out_of_memory;

/// The maps that were read.
pub(super) struct Maps {
    /// The attributes that were read in maps, in order. Also the maps in maps whose reading may have to be undone.
    pub log: Vec<FieldId>,
    /// For each map of the schema its last reading.
    pub read: Vec<Reading>,
}

/// The last reading of a map.
#[derive(Clone, Copy)]
pub(super) enum Reading {
    /// It was not read, or was undefined.
    None,
    /// Its part of the log, from a start to an end.
    Part(u32, u32),
    /// The place of another value in its stead, which is not decided yet.
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

    /// Forgets what was read, for the next object of a list.
    pub fn forget(&mut self) {
        self.log.clear();
        self.read.fill(Reading::None);
    }

    /// Returns the maps in whose stead another value was read, each with the place of that value.
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
