//! A large input: its caller's binary, kept alive until its bytes are copied into linear memory.

use std::ops::Range;

use rustler::env::SavedTerm;
use rustler::{Binary, OwnedEnv};

use crate::system::background::DropLater;

pub struct Input {
    /// Keeps the binary alive. Dropping it may free the binary, so the reaper's thread does.
    kept: DropLater<Kept>,
    length: usize,
}

struct Kept {
    env: OwnedEnv,
    binary: SavedTerm,
}

impl Input {
    /// Shares the binary's bytes.
    pub fn new(binary: Binary) -> Self {
        let env = OwnedEnv::new();
        let saved = env.save(binary);
        Self { kept: DropLater::new(Kept { env, binary: saved }), length: binary.len() }
    }

    pub fn length(&self) -> usize {
        self.length
    }

    pub fn with<T>(&self, range: Range<usize>, work: impl FnOnce(&[u8]) -> T) -> T {
        self.kept.env.run(|env| {
            let binary = Binary::from_term(self.kept.binary.load(env)).expect("a binary was saved");
            work(&binary[range])
        })
    }
}
