//! A spill keeps a search from enlarging a table that outlives it.

use std::ops::{Deref, DerefMut};

/// A table with room for nearly every search, and a second one for a search that needs more.
///
/// A search may be interrupted anywhere, so a table that it enlarges could be left half enlarged. The kept table is
/// therefore enlarged only between searches. A search that needs more room uses a table of its own, which the next such
/// search replaces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spill<T> {
    kept: T,
    spilled: T,
    is_spilled: bool,
}

impl<T: Default> Spill<T> {
    /// Returns the kept table.
    pub fn kept(&self) -> &T {
        &self.kept
    }

    /// Returns the kept table, to enlarge it between searches.
    pub fn kept_mut(&mut self) -> &mut T {
        &mut self.kept
    }

    /// Chooses the table of the next search: one of its own, or the kept one.
    pub fn choose(&mut self, is_spilled: bool) -> &mut T {
        if is_spilled {
            self.spilled = T::default();
        }
        self.is_spilled = is_spilled;
        self.deref_mut()
    }

    /// Forgets the search's own table in any state, without freeing it. The allocator for searches frees all their memory at
    /// once.
    pub fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.spilled));
    }
}

impl<T> Deref for Spill<T> {
    type Target = T;

    fn deref(&self) -> &T {
        if self.is_spilled {
            &self.spilled
        } else {
            &self.kept
        }
    }
}

impl<T> DerefMut for Spill<T> {
    fn deref_mut(&mut self) -> &mut T {
        if self.is_spilled {
            &mut self.spilled
        } else {
            &mut self.kept
        }
    }
}
