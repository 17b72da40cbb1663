//! Tables that a search must not enlarge.

use std::ops::{Deref, DerefMut};

/// A table with room for nearly every search, and another one for a search that needs more.
///
/// A search may be cut off anywhere, and a table that it was enlarging would be left half enlarged. So the one that is
/// kept is enlarged only between searches, and a search that needs more room has a table of its own, which the next
/// search begins anew.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spill<T> {
    kept: T,
    own: T,
    is_own: bool,
}

impl<T: Default> Spill<T> {
    /// The table that is kept, to be enlarged between searches.
    pub fn kept(&mut self) -> &mut T {
        &mut self.kept
    }

    /// Chooses the table of the next search: one of its own or, if that will do, the one that is kept.
    pub fn choose(&mut self, is_own: bool) -> &mut T {
        if is_own {
            self.own = T::default();
        }
        self.is_own = is_own;
        self.deref_mut()
    }

    /// Leaves the search's own table, whatever state it is in, to whoever takes back all memory of searches at once.
    pub fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.own));
    }
}

impl<T> Deref for Spill<T> {
    type Target = T;

    fn deref(&self) -> &T {
        if self.is_own {
            &self.own
        } else {
            &self.kept
        }
    }
}

impl<T> DerefMut for Spill<T> {
    fn deref_mut(&mut self) -> &mut T {
        if self.is_own {
            &mut self.own
        } else {
            &mut self.kept
        }
    }
}
