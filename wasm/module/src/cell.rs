//! The state of an instance.

use std::cell::UnsafeCell;

use crate::memory;

/// A place for the state of an instance, which is made at its first use.
pub struct Cell<T>(UnsafeCell<Option<T>>);

// SAFETY: modules are compiled for wasm32 without threads; a native build (its tests) uses a cell from one thread.
unsafe impl<T> Sync for Cell<T> {}

impl<T: Default> Cell<T> {
    /// Returns an empty place.
    #[allow(clippy::new_without_default)] // It is for statics.
    pub const fn new() -> Self {
        Cell(UnsafeCell::new(None))
    }

    /// Lends the state to `operation`, which allocates on the heap unless it says otherwise. An operation must not call this.
    pub fn with<R>(&self, operation: impl FnOnce(&mut T) -> R) -> R {
        memory::use_heap();
        // SAFETY: every export calls this once and no operation calls an export, so there is one borrow at a time. A call that a
        // trap cut off left a borrow that nothing uses any more.
        let state = unsafe { &mut *self.0.get() };
        operation(state.get_or_insert_with(T::default))
    }
}
