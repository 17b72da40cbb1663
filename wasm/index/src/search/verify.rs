//! Verification runs the programs of candidates and of unindexed expressions.

use std::hint::black_box;

use super::matches::SlotSet;
use super::progress::{Phase, Progress};
use super::{first_chunk, Search, AHEAD, STEP, WORDS};
use crate::eval::memo::Memo;
use crate::eval::run::{self, Asked, Outcome};
use crate::handles::ProgramId;
use crate::index::Index;

impl Search {
    /// Evaluates candidates, then selects the next phase.
    pub(super) fn verify(&mut self, index: &Index, progress: &mut Progress) {
        if progress.candidate == 0 && progress.position == 0 {
            prefetch(&self.candidates[..progress.candidates as usize], index);
        }
        let Search { event, digests, candidates, memo, matches, .. } = self;
        let asked = Asked { event, digests: first_chunk(digests), catalog: index.catalog() };
        let candidates = &candidates[progress.candidate as usize..progress.candidates as usize];
        progress.candidate += run_all(candidates, asked, memo, matches, progress);
        if progress.candidate < progress.candidates {
            return;
        }
        progress.candidate = 0;
        progress.candidates = 0;
        progress.phase = if progress.node < progress.nodes {
            Phase::Scan
        } else if (progress.dense as usize) < index.dense().parts() {
            Phase::Dense
        } else {
            Phase::Unindexed
        };
    }

    pub(super) fn evaluate_unindexed(&mut self, index: &Index, progress: &mut Progress) {
        let unindexed = index.tree().unindexed();
        let Search { event, digests, memo, matches, .. } = self;
        let asked = Asked { event, digests: first_chunk(digests), catalog: index.catalog() };
        let rest = &unindexed[progress.unindexed as usize..];
        let part = &rest[..rest.len().min(AHEAD)];
        if progress.position == 0 {
            prefetch(part, index);
        }
        let run = run_all(part, asked, memo, matches, progress);
        progress.unindexed += run;
        progress.visited += u64::from(run);
        if progress.unindexed as usize == unindexed.len() {
            progress.phase = Phase::Collect;
        }
    }
}

/// Prefetches the first cache lines of `programs`. They are scattered in memory, and independent reads overlap their cache
/// misses. Running the programs does not overlap them, because programs are full of branches.
#[inline(never)]
fn prefetch(programs: &[ProgramId], index: &Index) {
    // Four programs a turn make the loop itself cheap.
    let (fours, rest) = programs.as_chunks::<4>();
    let store = &index.catalog().programs;
    let prefetched = fours.iter().fold(0, |sum, four| sum ^ store.prefetch(four));
    black_box(rest.iter().fold(prefetched, |sum, &program| sum ^ store.prefetch(&[program])));
}

/// Runs `programs` for about a step, the first one from the position in `progress`. Stores the position of an unfinished last
/// program there. Returns the number of finished programs.
///
/// All run in one call, because a call for each would save, restore and check the fuel.
#[inline(never)]
fn run_all(
    programs: &[ProgramId],
    asked: Asked,
    memo: &mut Memo,
    matches: &mut SlotSet,
    progress: &mut Progress,
) -> u32 {
    let mut budget = STEP * WORDS;
    let mut run = 0;
    memo.allow(budget);
    for &id in programs {
        if budget == 0 {
            break;
        }
        let program = asked.catalog.programs.code(id);
        let (outcome, words) = run::run(program, progress.position, budget, asked, memo);
        budget = budget.saturating_sub(words);
        match outcome {
            Outcome::Stopped(position) => {
                progress.position = position;
                break;
            }
            Outcome::Done(holds) => matches.insert_if(holds, program.slot()),
        }
        progress.position = 0;
        run += 1;
    }
    if memo.is_exhausted() && progress.position == 0 {
        // The last program did not finish. The next step runs it again.
        run -= 1;
    }
    progress.evaluated += u64::from(run);
    run
}
