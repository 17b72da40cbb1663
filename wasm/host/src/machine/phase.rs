//! The phase of a call, which the call's future writes and the code that polls the future reads.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// The module allocates room for the input. A call interrupted now may leave the module's allocator inconsistent.
    Opening,
    /// The host copies the input or the output.
    Copying,
    /// The replica applies entries of the log. A call interrupted now may leave the replica's index inconsistent.
    Replaying,
    /// The function runs, and its fuel is metered.
    Running,
}

/// The phase of the call that a machine runs, or of its last call. Clones are handles of the same phase.
#[derive(Clone)]
pub struct CurrentPhase(Arc<AtomicU8>);

impl Default for CurrentPhase {
    fn default() -> Self {
        Self(Arc::new(AtomicU8::new(Phase::Opening as u8)))
    }
}

impl CurrentPhase {
    pub fn set(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    pub fn get(&self) -> Phase {
        let phase = self.0.load(Ordering::Relaxed);
        [Phase::Opening, Phase::Copying, Phase::Replaying]
            .into_iter()
            .find(|known| *known as u8 == phase)
            .unwrap_or(Phase::Running)
    }
}
