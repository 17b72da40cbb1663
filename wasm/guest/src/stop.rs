//! The host's request to abort the current change or match.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use be_tree_index::error::{Error, Kind};
use be_tree_index::room::{Extent, Searches};

/// A word that is 0 until the host writes the reason to abort: 1 for a timeout, 2 for too much fuel.
///
/// The host writes while the operation is suspended between two slices.
#[derive(Debug, Default)]
pub(crate) struct Stop(AtomicU32);

impl Stop {
    /// Returns the address of the word.
    pub fn address(&self) -> *const AtomicU32 {
        &raw const self.0
    }

    /// Forgets a request.
    pub fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// # Errors
    ///
    /// [`Kind::Timeout`] or [`Kind::OutOfFuel`] once the host has requested an abort.
    fn check_change(&self) -> Result<(), Error> {
        self.check(
            "the change passed its timeout and was rolled back",
            "the change used more fuel than any change may, and was rolled back",
        )
    }

    /// # Errors
    ///
    /// [`Kind::Timeout`] or [`Kind::OutOfFuel`] once the host has requested an abort.
    #[inline]
    pub fn check_match(&self) -> Result<(), Error> {
        self.check(
            "the call passed its timeout, and its event is not counted",
            "the call used all of its fuel, and its event is not counted; give it a larger budget",
        )
    }

    #[inline]
    fn check(&self, timeout: &str, out_of_fuel: &str) -> Result<(), Error> {
        match self.0.load(Relaxed) {
            0 => Ok(()),
            1 => Err(Error::new(Kind::Timeout, timeout)),
            _ => Err(Error::new(Kind::OutOfFuel, out_of_fuel)),
        }
    }
}

/// Search tables that refuse room once the host has requested an abort, so that the insertion rolls back as if memory had run out.
pub(crate) struct Stoppable<'a, S> {
    /// `None` once the change can no longer roll back.
    stop: Option<&'a Stop>,
    searches: S,
}

impl<'a, S> Stoppable<'a, S> {
    pub fn new(stop: &'a Stop, searches: S) -> Self {
        Stoppable { stop: Some(stop), searches }
    }
}

impl<S: Searches> Searches for Stoppable<'_, S> {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        self.stop.map_or(Ok(()), Stop::check_change)?;
        self.searches.make_room(extent)
    }

    fn commit(&mut self) {
        self.stop = None;
        self.searches.commit();
    }
}
