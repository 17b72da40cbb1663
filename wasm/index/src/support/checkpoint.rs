//! Progress that one store commits, so that a trap anywhere loses less than a step.

use std::hint::black_box;

/// Two copies of a progress, of which one is current.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checkpoint<P> {
    places: [P; 2],
    current: usize,
}

impl<P: Copy> Checkpoint<P> {
    pub fn load(&self) -> P {
        *self.current()
    }

    pub fn current(&self) -> &P {
        &self.places[self.current & 1]
    }

    /// Writes the copy that is not current, then makes it current.
    pub fn commit(&mut self, progress: P) {
        let other = (self.current & 1) ^ 1;
        self.places[other] = progress;
        in_order();
        self.current = other;
        in_order();
    }
}

/// Orders all stores before it before all stores after it, in the compiled code. A search that continues after a trap relies
/// on that order. A `compiler_fence` does not suffice: LLVM drops it for wasm without threads before it schedules instructions.
#[inline(always)]
pub(crate) fn in_order() {
    black_box(());
}
