//! Makes room in the tables of a search, between searches.

use super::batch;
use super::{Search, EVENT};
use crate::boolean::windows::PART;
use crate::compile::layout::DIGESTS;
use crate::error::Error;
use crate::index::Index;
use crate::model::schema::Schema;
use crate::room::{Extent, Searches};
use crate::support::headroom::grow;
use crate::tree::scan::LENGTH;

impl Search {
    /// Makes room for nearly every search of `index`. Call it after the index changed, outside of a search.
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve(&mut self, index: &Index) -> Result<(), Error> {
        self.make_room(&index.extent())
    }

    /// Like [`Search::reserve`], for an index that keeps reasons from now on ([`Index::keep_reasons`]).
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve_for_reasons(&mut self, index: &Index) -> Result<(), Error> {
        self.make_room(&Extent { has_reasons: true, ..index.extent() })
    }

    /// Makes room for nearly every event. Call it once, for a new index.
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve_event(&mut self, index: &Index) -> Result<(), Error> {
        self.reserve_event_of(index.schema())
    }

    /// Like [`Search::reserve_event`], for all indexes over a schema.
    ///
    /// Errors: [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory).
    pub fn reserve_event_of(&mut self, schema: &Schema) -> Result<(), Error> {
        self.event.kept_mut().reserve(schema, EVENT)
    }

    pub(super) fn has_room(&self, extent: &Extent) -> bool {
        self.nodes.len() > extent.nodes
            && self.found_at.len() >= extent.nodes
            && self.ids.len() >= batch::max_words(extent)
            && self.memo.has_room(extent.predicates)
            && self.event.kept().patterns.capacity() >= extent.patterns
            && (!extent.has_lowered || self.event.kept().lowered.has_room(extent.attributes, EVENT))
            && self.matches.has_room(extent.slots)
            && (extent.greatest.is_some() || self.sort.has_room(extent.slots))
    }
}

impl Searches for Search {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        if self.has_room(extent) && !extent.has_reasons {
            return Ok(());
        }
        let extent = extent.rounded();
        let Extent { attributes, nodes, slots, patterns, .. } = extent;
        // Two more: one for no attribute, and one for the attribute of the patterns.
        grow(&mut self.digests, (attributes + 2).max(DIGESTS))?;
        self.event.kept_mut().reserve_patterns(patterns)?;
        if extent.has_lowered {
            self.event.kept_mut().reserve_lowered(attributes, EVENT)?;
        }
        grow(self.candidates.kept_mut(), LENGTH + PART)?;
        grow(&mut self.proven, LENGTH)?;
        // One place more than there are nodes: see `push_found`.
        grow(&mut self.nodes, nodes + 1)?;
        grow(&mut self.found_at, nodes)?;
        grow(&mut self.ids, batch::max_words(&extent))?;
        self.memo.reserve(extent.predicates)?;
        self.matches.reserve(slots)?;
        if extent.greatest.is_none() {
            self.sort.reserve(slots)?;
        }
        if extent.has_reasons {
            self.reserve_reasons(&extent)?;
        }
        Ok(())
    }
}
