//! Room in the tables of searches.
//!
//! A search enlarges nothing that outlives it, so its tables have room for all of the index before the index grows. An insertion
//! that is refused that room is refused as a whole, and changes nothing.

use crate::error::Error;

/// Room is made for so many nodes and slots at a time, and for ids that take so many words of a bitmap.
const FEW: usize = 32;

/// How large an index is, as far as the tables of a search depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub(crate) attributes: usize,
    pub(crate) nodes: usize,
    pub(crate) slots: usize,
    /// Predicates that programs share.
    pub(crate) predicates: usize,
    pub(crate) dense: usize,
    /// Where ids ascend with slots, none is greater than this.
    pub(crate) greatest: Option<u64>,
    /// Searches tell the reasons of what does not match.
    pub(crate) has_reasons: bool,
}

impl Extent {
    /// A slightly larger one, so that room is not made for each insertion anew.
    pub(crate) fn rounded(self) -> Extent {
        Extent {
            nodes: self.nodes.next_multiple_of(FEW),
            slots: self.slots.next_multiple_of(FEW),
            greatest: self.greatest.map(|id| id | (64 * FEW as u64 - 1)),
            ..self
        }
    }
}

/// The searches of an index, which have room for it at any time.
pub trait Searches {
    /// Makes room for an index of this extent.
    ///
    /// # Errors
    ///
    /// [`Kind::OutOfMemory`](crate::error::Kind::OutOfMemory), and the room that there was is there still.
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error>;
}

/// Of no search: those to come make room for the index as they find it.
impl Searches for () {
    fn make_room(&mut self, _extent: &Extent) -> Result<(), Error> {
        Ok(())
    }
}

impl<A: Searches, B: Searches> Searches for (&mut A, &mut B) {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        self.0.make_room(extent)?;
        self.1.make_room(extent)
    }
}
