//! A tenant: an index, and the statistics of its matches.

use std::sync::Arc;

use super::counts::Counts;
use crate::error::Error;
use crate::event::Event;
use crate::index::{Index, Insertion};
use crate::model::schema::Schema;
use crate::room::Searches;

/// The index of one tenant, and the statistics of its matches.
#[derive(Debug)]
pub struct Tenant {
    index: Index,
    statistics: Counts,
}

/// A change of a tenant.
pub struct Change<P> {
    /// The present day, in days since 1970.
    pub day: i32,
    /// The ids of the subscriptions to delete.
    pub deleted: Vec<u64>,
    /// The subscriptions to insert, or to replace those with their ids.
    pub puts: P,
}

/// A subscription to insert.
pub type Put<'a> = Insertion<'a>;

impl Tenant {
    pub(super) fn new(schema: Arc<Schema>, day: i32) -> Self {
        Tenant { index: Index::new(schema), statistics: Counts::new(day) }
    }

    /// Returns the tenant's index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the tenant's statistics.
    pub fn statistics(&self) -> &Counts {
        &self.statistics
    }

    /// Returns the index, and the statistics to count in.
    pub fn index_and_statistics(&mut self) -> (&Index, &mut Counts) {
        (&self.index, &mut self.statistics)
    }

    /// Deletes subscriptions, and then inserts or replaces others. Makes room in `searches`.
    ///
    /// # Errors
    ///
    /// Those of [`Index::change_for`], and nothing is changed then.
    pub(super) fn change<'a>(
        &mut self,
        searches: &mut impl Searches,
        change: Change<impl IntoIterator<Item = Result<Put<'a>, Error>>>,
    ) -> Result<(), (Option<usize>, Error)> {
        self.index.change_for(searches, &change.deleted, change.puts)?;
        change.deleted.iter().for_each(|&id| self.statistics.remove(id));
        Ok(())
    }

    /// Counts the matches of an event. Either all of it is counted, or nothing after an error.
    ///
    /// # Errors
    ///
    /// [`crate::error::Kind::OutOfMemory`].
    pub fn count(&mut self, day: i32, ids: &[u64], event: &Event) -> Result<(), Error> {
        self.statistics.add(day, ids, event)
    }
}
