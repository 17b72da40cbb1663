//! A tenant: an index, and the statistics of its matches.

use crate::error::{Error, Kind};
use crate::index::{Index, Insertion};
use crate::room::Searches;
use crate::search::Search;
use crate::statistics::{Declaration, Statistics, Work};

/// The index of one tenant, and the statistics of its matches.
#[derive(Debug)]
pub struct Tenant {
    index: Index,
    statistics: Statistics,
    is_frozen: bool,
}

/// A change of a tenant.
#[derive(Debug)]
pub struct Change<'a> {
    /// The present day, in days since 1970 in UTC. A new tenant's statistics begin with it.
    pub day: i32,
    /// The statistics of all expressions without their own, or `None` to leave them as they are.
    pub declaration: Option<Declaration>,
    /// The ids of the subscriptions to delete.
    pub deleted: Vec<u64>,
    /// The subscriptions to insert, or to replace those with their ids.
    pub puts: Vec<Put<'a>>,
}

/// A subscription to insert.
#[derive(Debug)]
pub struct Put<'a> {
    /// The id, the text and the constants.
    pub insertion: Insertion<'a>,
    /// The statistics of the expression, or `None` for those of the tenant.
    pub declaration: Option<Declaration>,
}

impl Tenant {
    pub(super) fn new(index: Index, day: i32) -> Self {
        Tenant { index, statistics: Statistics::new(day), is_frozen: false }
    }

    /// Returns the tenant's index.
    pub fn index(&self) -> &Index {
        &self.index
    }

    /// Returns the tenant's statistics.
    pub fn statistics(&self) -> &Statistics {
        &self.statistics
    }

    /// Like [`Tenant::statistics`], to change them.
    pub fn statistics_mut(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    /// Refuses to count from now on, so that the statistics stay as they are until the tenant is dropped.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Returns the index, and the statistics to count in.
    ///
    /// # Errors
    ///
    /// [`Kind::NotFound`] if the tenant is frozen.
    pub fn to_count(&mut self) -> Result<(&Index, &mut Statistics), Error> {
        match self.is_frozen {
            true => {
                Err(Error::new(Kind::NotFound, "the tenant is about to leave the shard, and counts no more events"))
            }
            false => Ok((&self.index, &mut self.statistics)),
        }
    }

    /// Deletes subscriptions, then inserts or replaces others, and declares their statistics. Makes room in `searches`.
    ///
    /// # Errors
    ///
    /// Those of [`Index::change_for`], and [`Kind::OutOfMemory`] for the declarations. Nothing is changed then.
    pub(super) fn change(
        &mut self,
        searches: &mut impl Searches,
        change: Change,
    ) -> Result<(), (Option<usize>, Error)> {
        let Change { declaration, deleted, puts, .. } = change;
        let declared = puts.iter().map(|put| (put.insertion.id, put.declaration.as_ref()));
        let held = self.statistics.hold_declarations(declaration.as_ref(), declared).map_err(|error| (None, error))?;
        self.index.change_for(searches, &deleted, puts.iter().map(|put| Ok(put.insertion.clone())))?;
        if 2 * puts.len() > self.index.len() {
            // A load. Without memory for the copy the index stays as it is.
            let _refused = self.index.pack();
        }
        deleted.iter().for_each(|&id| self.statistics.remove(id));
        drop(held);
        if let Some(declaration) = declaration {
            self.statistics.declare(declaration).expect("its memory was held");
        }
        for Put { insertion, declaration } in puts {
            self.statistics.declare_for(insertion.id, declaration).expect("its memory was held");
        }
        Ok(())
    }
}

/// Counts the event of a finished search, and its matches, in the statistics of the tenant that was searched: all of it, or nothing
/// after an error.
///
/// # Errors
///
/// [`Kind::OutOfMemory`].
pub fn count(statistics: &mut Statistics, work: &mut Work, day: i32, search: &Search) -> Result<(), Error> {
    let (ids, event) = (search.matches(), search.event());
    statistics.prepare(work, day, ids, event)?;
    statistics.count(work, ids, event);
    Ok(())
}
