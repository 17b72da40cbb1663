//! The stage of a call. The call's future writes it, and the code that polls the future reads it.

use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Stage {
    /// The module makes room for the input. Its allocator may be half done.
    Opening,
    /// The host copies the input or the output.
    Copying,
    /// The replica applies entries of the log. Its index may be half changed.
    Repeating,
    /// The function runs. Its fuel counts.
    Running,
}

pub struct Stages(Box<[AtomicU8]>);

impl Stages {
    /// Returns the stages of the calls at `places` places.
    pub fn new(places: usize) -> Self {
        Self((0..places).map(|_| AtomicU8::new(Stage::Opening as u8)).collect())
    }

    pub fn places(&self) -> usize {
        self.0.len()
    }

    pub fn set(&self, place: usize, stage: Stage) {
        self.0[place].store(stage as u8, Ordering::Relaxed);
    }

    pub fn get(&self, place: usize) -> Stage {
        let stage = self.0[place].load(Ordering::Relaxed);
        [Stage::Opening, Stage::Copying, Stage::Repeating]
            .into_iter()
            .find(|known| *known as u8 == stage)
            .unwrap_or(Stage::Running)
    }
}
