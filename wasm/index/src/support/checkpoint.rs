//! Progress that is committed by one store, so that a trap anywhere loses less than a step.

use std::sync::atomic::{compiler_fence, Ordering};

/// Two places for a progress, of which one counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checkpoint<P> {
    places: [P; 2],
    current: usize,
}

impl<P: Copy> Checkpoint<P> {
    pub fn load(&self) -> P {
        self.places[self.current & 1]
    }

    /// Writes the place that does not count, then makes it count.
    pub fn commit(&mut self, progress: P) {
        let other = (self.current & 1) ^ 1;
        self.places[other] = progress;
        in_order();
        self.current = other;
        in_order();
    }
}

/// Has the compiler do all stores above before those below, as who is cut off here must be able to rely on that.
pub(crate) fn in_order() {
    compiler_fence(Ordering::SeqCst);
}
