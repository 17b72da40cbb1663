//! A step: the state that it reads and changes.

use crate::cells::Cells;
use crate::compile::code::SLOTS;
use crate::compile::program::Program;
use crate::layout::CLOCK;
use crate::memory::{Address, Full, Room, Words};
use crate::selection::Selection;
use crate::tables::STRINGS;

/// The facts of a match, one per look-up: their addresses and numbers.
pub(crate) type Path = [(Address, u64); SLOTS];

/// A change of facts: `gone` was there before, `new` was not. Guards can be evaluated in the state before it. Address 0 is null.
/// The fact `gone` keeps its content and its number until all guards are flipped.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub gone: Address,
    pub new: Address,
}

/// Limits that a step obeys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepLimits {
    pub facts: u32,
}

/// The memo of the last tested `none` over all facts of a type, identified by its address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tested {
    pub guard: usize,
    /// The fact that blocked the last match; for a `none` that is a limit, the greatest or least fact seen so far.
    pub blocker: Address,
    /// The next fact to scan.
    pub next: Address,
}

/// Buffers reused by all steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The single-fact conditions that a fact meets. The capacity suffices for all conditions.
    pub met: Room<u32>,
    /// The fields of the fact to insert.
    pub cells: Cells,
    /// The last match of a search, or the match after which it resumes.
    pub path: Path,
    /// Cursor of the first look-up: the next fact in its list that is not itself part of the match (address, number). The search
    /// resumes there if a rule removed the facts that it matched. New facts come before it in the list.
    pub next: (Address, u64),
    /// The last tested `none`, until a fact comes or goes.
    pub tested: Option<Tested>,
    /// The bound facts as the firing's actions so far left them: their addresses and numbers.
    pub current: Path,
    /// The numbers of the facts of the last firing, if firings are recorded.
    pub fired: [u64; SLOTS],
    /// By fact type: the index of its conditions, if they are many.
    pub selections: Vec<Option<Selection>>,
    /// The fact types whose conditions are in an index.
    pub selected: Vec<usize>,
    /// Strings to release when the step ends.
    pub released: Room<Address>,
    /// The buffer of notices. The first [`NOTICE_WORDS`] words are committed.
    pub notices: Vec<u32>,
}

/// One step.
pub(crate) struct Step<'a> {
    pub program: &'a Program,
    pub words: &'a mut Words,
    pub scratch: &'a mut Scratch,
    pub limits: StepLimits,
}

impl Step<'_> {
    pub fn clock(&self) -> i64 {
        self.words.get64(CLOCK) as i64
    }

    /// Commits the step, see [`Words::commit`].
    pub fn commit(&mut self) -> Result<(), Full> {
        for position in 0..self.scratch.released.len() {
            STRINGS.release(self.words, self.scratch.released[position])?;
        }
        self.words.commit()?;
        self.scratch.released.clear();
        Ok(())
    }

    /// Releases a string when the step ends.
    pub fn release(&mut self, string: Address) -> Result<(), Full> {
        if self.scratch.released.is_full() {
            return Err(Full::Released);
        }
        self.scratch.released.push(string);
        Ok(())
    }
}
