//! A step: what it reads and changes.

use crate::cells::Cells;
use crate::compile::code::SLOTS;
use crate::compile::program::Program;
use crate::layout::CLOCK;
use crate::memory::{Address, Full, Room, Words};
use crate::selection::Selection;
use crate::tables::STRINGS;

/// The facts of a match, one for each look-up: their addresses and numbers.
pub(crate) type Path = [(Address, u64); SLOTS];

/// A change of facts that counts for a guard in the state before it: one fact was there, and another was not. The address 0 stands
/// for none. The fact that is gone keeps its content and its number until the guards are told.
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

/// A `none` over all facts of a type, by its place in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tested {
    pub guard: usize,
    /// The fact that blocked the last match. Or if the `none` is a bound: the greatest fact of those seen so far, or the least.
    pub blocker: Address,
    /// The next fact to see.
    pub next: Address,
}

/// Lists that live as long as a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scratch {
    /// The single-fact conditions that a fact meets. Its room is that of all conditions.
    pub met: Room<u32>,
    /// The fields of a fact to insert.
    pub cells: Cells,
    /// The last match of a search, or the one after which it goes on.
    pub path: Path,
    /// The fact after that of the path's first look-up in its list, the path's other facts left out, by address and number. The
    /// search goes on there if all of these are gone: a rule often removes the facts that it matched. New facts come before them.
    pub next: (Address, u64),
    /// The `none` that was tested last since a fact came or went.
    pub tested: Option<Tested>,
    /// The facts of a firing as its actions so far left them: their addresses and numbers.
    pub current: Path,
    /// The numbers of the facts of the last firing, if firings are recorded.
    pub fired: [u64; SLOTS],
    /// By fact type: its conditions in an index, if they are many.
    pub selections: Vec<Option<Selection>>,
    /// The fact types whose conditions are in an index.
    pub selected: Vec<usize>,
    /// Strings that lose an owner when the step ends.
    pub released: Room<Address>,
    /// Notices, of which the first [`NOTICE_WORDS`] words count.
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

    /// Makes the step final, see [`Words::commit`].
    pub fn commit(&mut self) -> Result<(), Full> {
        for position in 0..self.scratch.released.len() {
            STRINGS.release(self.words, self.scratch.released[position])?;
        }
        self.words.commit()?;
        self.scratch.released.clear();
        Ok(())
    }

    /// Takes an owner from a string when the step ends.
    pub fn release(&mut self, string: Address) -> Result<(), Full> {
        if self.scratch.released.is_full() {
            return Err(Full::Released);
        }
        self.scratch.released.push(string);
        Ok(())
    }
}
