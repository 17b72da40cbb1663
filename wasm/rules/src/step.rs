//! A step: everything that it reads and changes, and the addresses of the engine's own words.

use crate::compile::code::SLOTS;
use crate::compile::program::Program;
use crate::facts::change::Cells;
use crate::matches::search::Path;
use crate::memory::{Address, Full, Heap, Order, Pages, Room, StringTable, Table, Words};
use crate::selection::Selection;

/// The time in milliseconds, which never goes back: the watermark of the event times of all sources, see `waiting`.
pub(crate) const CLOCK: Address = 2;
/// The number of the next fact.
pub(crate) const NEXT: Address = 4;
/// The number of firings.
pub(crate) const FIRED: Address = 6;
/// The number of facts.
pub(crate) const FACTS: Address = 8;
/// The position in the input of a call, which the caller chooses.
pub(crate) const POSITION: Address = 9;
/// The number of firings of this call.
pub(crate) const CALL_FIRED: Address = 10;
/// The number of rules on the agenda, and the address of their heap.
pub(crate) const AGENDA: Address = 11;
pub(crate) const AGENDA_BASE: Address = 12;
/// The words and the number of the notices that are not taken yet.
pub(crate) const NOTICE_WORDS: Address = 13;
pub(crate) const NOTICES: Address = 14;
pub(crate) const STRINGS: StringTable = StringTable(Table(15));
/// Facts by number.
pub(crate) const NUMBERS: Pages = Pages { table: Table(18), last: 33 };
/// Matches on the agenda.
pub(crate) const MATCHES: Table = Table(21);
pub(crate) const MATCH_HEAP: Heap = Heap(24);
/// The matches that wait for a deadline and are the first of their queue, see `timers`.
pub(crate) const TIMERS: Heap = Heap(27);

/// The number of the fact that was inserted last from outside.
pub(crate) const ASSERTED: Address = 30;
/// 1 while the events of one time happen, and otherwise 0.
pub(crate) const GATHERING: Address = 32;

/// The milliseconds by which the watermark stays behind the event times of the sources.
pub(crate) const LATENESS: Address = 34;
/// The latest event time of the facts without a source, or `i64::MIN`.
pub(crate) const EVENT: Address = 36;
/// The event time that all sources have reached, whatever their own is, or `i64::MIN`.
pub(crate) const FLOOR: Address = 38;
/// The number of facts that came too late, and of those of this call.
pub(crate) const LATE: Address = 40;
pub(crate) const CALL_LATE: Address = 42;
/// The number of facts that had waited when they were inserted.
pub(crate) const RELEASED: Address = 43;
/// Facts that wait for the watermark.
pub(crate) const WAITING: Order = Order(45);
/// Sources by event time, and by the address of their name.
pub(crate) const SOURCES: Order = Order(48);
pub(crate) const SOURCE_NAMES: Table = Table(51);
/// The numbers that facts had while they waited, by the numbers that they have since.
pub(crate) const TICKETS: Table = Table(54);

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
}
