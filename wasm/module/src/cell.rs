//! The state of an instance.

use std::cell::UnsafeCell;

use crate::memory;

/// Holds the state of an instance, which is created at its first use.
pub struct Cell<T>(UnsafeCell<Option<T>>);

// SAFETY: modules are compiled for wasm32 without threads; a native build (its tests) uses a cell from one thread.
unsafe impl<T> Sync for Cell<T> {}

impl<T: Default> Cell<T> {
    /// Returns an empty cell.
    #[allow(clippy::new_without_default)] // It is for statics.
    pub const fn new() -> Self {
        Cell(UnsafeCell::new(None))
    }

    /// Lends the state to `operation`, which allocates on the heap by default. An operation must not call this.
    pub fn with<R>(&self, operation: impl FnOnce(&mut T) -> R) -> R {
        memory::use_heap();
        // SAFETY: every export calls this once and no operation calls an export, so there is one borrow at a time. A call that a
        // trap interrupted left a borrow that is never used again.
        let state = unsafe { &mut *self.0.get() };
        operation(state.get_or_insert_with(T::default))
    }
}
