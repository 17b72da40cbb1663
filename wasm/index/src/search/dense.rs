//! The dense expressions of a search are decided by windows, or taken from a bit-sliced evaluation of many events.

use super::progress::{Phase, Progress};
use super::{Search, STEP};
use crate::boolean::bit_sliced::Sliced;
use crate::index::Index;
use crate::support::bits::ones;

/// The state of the dense expressions.
#[derive(Clone, Copy)]
pub(super) enum Dense<'a> {
    /// Not evaluated yet: windows decide them.
    Open,
    /// Evaluated for a group of events, with the number of this event in its group.
    Sliced(&'a Sliced, usize),
}

impl Search {
    /// Decides a part of the dense expressions. Those left open become candidates.
    pub(super) fn decide_dense(&mut self, index: &Index, progress: &mut Progress) {
        let dense = index.dense();
        let Search { bits, candidates, matches, .. } = self;
        let before = progress.candidates;
        let visited = dense.decide(progress.dense as usize, bits, |block, decided| {
            match block.run() {
                Some(first) => matches.insert_run(first, decided.holds),
                None => ones(decided.holds).for_each(|lane| matches.insert(block.slot(lane))),
            }
            for lane in ones(decided.open) {
                candidates[progress.candidates as usize] = block.program(lane);
                progress.candidates += 1;
            }
        });
        progress.visited += visited as u64;
        progress.evaluated += visited as u64 - u64::from(progress.candidates - before);
        progress.dense += 1;
        if progress.dense as usize == dense.parts() || progress.candidates > STEP {
            progress.phase = Phase::Verify;
        }
    }

    /// Takes over the results of a bit-sliced evaluation.
    #[inline(never)]
    pub(super) fn take_in(&mut self, sliced: &Sliced, event: usize, index: &Index, progress: &mut Progress) {
        let words = index.subscriptions().capacity().div_ceil(32) as u32;
        let end = words.min(progress.word + STEP);
        for word in progress.word..end {
            self.matches.insert_word(word, sliced.word(event, word as usize));
        }
        progress.word = end;
        if end == words {
            progress.word = 0;
            progress.dense = index.dense().parts() as u32;
            progress.phase = Phase::Verify;
        }
    }
}
