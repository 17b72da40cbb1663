//! The engine: compiled rules, their facts, and the operations on them.
//!
//! [`Engine`] is a facade. Each group of operations has a file: the arrival of facts, turns, the clock, transactions, room. Queries
//! are methods of views that borrow the engine: [`Types`], [`Rules`], [`Stored`], [`Clock`], [`Fired`], and of the copies [`Counts`]
//! and [`Progress`].

mod arrivals;
mod clock;
mod counts;
mod fired;
mod room;
mod rules;
mod stored;
mod transaction;
mod turns;
mod types;

pub use arrivals::{Arrival, NewFact};
pub use clock::{Clock, EventTime};
pub use counts::{Counts, Progress};
pub use fired::Fired;
pub use rules::Rules;
pub use stored::{Fact, Stored};
pub use turns::{Pause, Run, Turn};
pub use types::Types;

use crate::announce::Announced;
use crate::compile::program::Program;
use crate::compile::switch::MAX_CONDITION_BITS;
use crate::compile::{compile, constants};
use crate::engine::fired::History;
use crate::error::Error;
use crate::facts::expiry;
use crate::keys::By;
use crate::language::parse;
use crate::layout::{
    AGENDA_BASE, ASSERTED, CALL_FIRED, CALL_LATE, CLOCK, EVENT, FACTS, FIRED, FLOOR, LATE, NEXT, NOTICES, NOTICE_WORDS,
    POSITION, RELEASED,
};
use crate::matches::agenda::{self, RULE_WORDS};
use crate::memory::{Full, Room, Table, Words};
use crate::partitions::Partitions;
use crate::selection::Selection;
use crate::step::Scratch;
use crate::tables::{STRINGS, WAITING};

/// The number of facts of a key from which on aggregates use a tree. Below it a scan costs less.
const MIN_TREE_FACTS: u32 = 64;

/// The limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of memory for facts, without the compiled rules.
    pub memory: usize,
    /// The most facts.
    pub facts: u32,
    /// The most firings of a call.
    pub firings: u32,
    /// The number of pending notices at which a call pauses before the next firing.
    pub notices: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory: 1 << 30, facts: u32::MAX, firings: 1_000_000, notices: 10_000 }
    }
}

/// The firings that a call may make.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Call {
    /// As many as [`Limits::firings`].
    #[default]
    Fire,
    /// At most this number.
    FireAtMost(u32),
    /// None: due rules count as fired without running, to reload facts that existed before. A match that waits for the end of a
    /// window goes on waiting.
    Reload,
    /// None, as in [`Call::Reload`], and facts beyond the watermark wait without moving time.
    ReloadWaiting,
}

impl Call {
    /// Returns whether rules count as fired without running.
    pub fn is_quiet(self) -> bool {
        matches!(self, Call::Reload | Call::ReloadWaiting)
    }
}

/// Rules and their facts.
///
/// Every operation is a sequence of steps. A step is atomic, even if a trap interrupts it: the next operation first rolls the
/// interrupted step back ([`Engine::recover`]).
#[derive(Clone, Debug)]
pub struct Engine {
    /// The text of the rules, for the places of conditions.
    text: String,
    pub(crate) program: Program,
    pub(crate) words: Words,
    scratch: Scratch,
    announced: Announced,
    limits: Limits,
    call: Call,
    /// Whether only [`Engine::make_room`] may allocate, and the room that the last step lacked.
    defers: bool,
    lacked: Option<Full>,
    /// The time that a roll-back restores, if one was saved.
    saved_time: Option<i64>,
    /// Whether facts were asserted or retracted since the transaction began.
    has_changed_facts: bool,
    history: History,
}

impl Engine {
    /// Returns an engine without facts.
    ///
    /// # Errors
    ///
    /// `syntax`, `unknown_attribute` (any unknown name), `type`, `out_of_bounds`, `missing_attribute` and `duplicate_id`, with
    /// the place in the text; `out_of_memory`.
    pub fn new(text: &str, limits: Limits) -> Result<Self, Error> {
        Engine::build(text, limits, None, false)
    }

    /// Compiles rules for `count` partitions. Returns an engine without facts, and the partitions.
    ///
    /// # Errors
    ///
    /// As [`Engine::new`], and `unknown_attribute`, `missing_attribute` and `type` for a wrong key, and `out_of_bounds` for a rule
    /// that may join facts of different keys, or that would fire in every partition.
    pub fn partitioned(text: &str, limits: Limits, count: u32, by: &By) -> Result<(Self, Partitions), Error> {
        let engine = Engine::build(text, limits, Some(by), false)?;
        let keys = engine.program.keys.clone().unwrap_or_default();
        Ok((engine, Partitions::new(count, keys)))
    }

    /// Returns an engine that always uses an index of single-fact conditions and trees for aggregates, however few the conditions
    /// and facts are.
    ///
    /// Errors: as [`Engine::new`].
    pub fn indexed(text: &str, limits: Limits) -> Result<Self, Error> {
        Engine::build(text, limits, None, true)
    }

    fn build(text: &str, limits: Limits, by: Option<&By>, is_indexed: bool) -> Result<Self, Error> {
        let parsed = parse(text)?;
        let mut words = Words::new(limits.memory)?;
        let mut interned = constants(&mut words, STRINGS);
        let mut program = compile(&parsed, text, by, &mut interned)?;
        let (max_bits, min_tree_facts) = if is_indexed { (0, 2) } else { (MAX_CONDITION_BITS, MIN_TREE_FACTS) };
        program.min_tree_facts = min_tree_facts;
        let longest = program.types.iter().map(|ty| ty.conditions.len()).max().unwrap_or(0);
        let select = |ty| Selection::new(&program, ty, &words, max_bits);
        let selections = program.types.iter().map(select).collect::<Result<Vec<_>, Error>>()?;
        let selected = (0..selections.len()).filter(|ty| selections[*ty].is_some()).collect();
        let scratch = Scratch { met: Room::new(longest), selections, selected, ..Scratch::default() };
        let mut engine = Engine {
            text: text.to_owned(),
            program,
            words,
            scratch,
            announced: Announced::new(),
            limits,
            call: Call::default(),
            defers: false,
            lacked: None,
            saved_time: None,
            has_changed_facts: false,
            history: History::default(),
        };
        engine.scratch.released.reserve(64);
        engine.lay_out()?;
        engine.announced.set_up(&engine.program);
        Ok(engine)
    }

    /// Allocates the words of the program's parts.
    fn lay_out(&mut self) -> Result<(), Error> {
        let Program { types, conditions, rules, series, .. } = &self.program;
        let of_types: u32 = types.iter().map(|ty| ty.engine_words()).sum();
        let agenda = rules.len() as u32;
        let of_series = Table::SIZE * series.len() as u32;
        let size = of_types + of_series + conditions.len() as u32 + (RULE_WORDS + 1) * agenda;
        let mut at = self.retried(|step| step.words.reserve(size.max(1)))?;
        let mut take = |words: u32| {
            at += words;
            at - words
        };
        for ty in &mut self.program.types {
            ty.at = take(ty.engine_words());
        }
        for series in &mut self.program.series {
            series.at = take(Table::SIZE);
        }
        for condition in &mut self.program.conditions {
            condition.at = take(1);
        }
        self.program.rules_at = take(RULE_WORDS * agenda);
        let base = take(agenda);
        self.program.find_tables();
        for number in 0..self.program.rules.len() {
            self.retried(|step| agenda::set_up(step.words, step.program, number))?;
        }
        self.retried(|step| {
            for (number, ty) in step.program.types.iter().enumerate() {
                expiry::set_up(step.words, ty, number)?;
            }
            step.words.set(AGENDA_BASE, base)?;
            step.words.set64(NEXT, 1)?;
            for time in [CLOCK, EVENT, FLOOR] {
                step.words.set64(time, i64::MIN as u64)?;
            }
            Ok(())
        })
    }

    /// Interrupts the engine after a number of stores.
    #[cfg(test)]
    pub(crate) fn cut_after(&mut self, stores: Option<u64>) {
        self.words.cut_after = stores;
    }

    /// Returns the number of stores left before the interruption.
    #[cfg(test)]
    pub(crate) fn cuts_left(&self) -> u64 {
        self.words.cut_after.unwrap_or(0)
    }

    /// Sets the limits. The engine may already exceed them.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.words.set_limit(limits.memory);
    }

    /// Begins a call at a position in its input. The limit on firings counts from here.
    ///
    /// Errors: `out_of_memory`.
    pub fn begin(&mut self, call: Call, position: u32) -> Result<(), Error> {
        self.recover();
        self.call = call;
        // An earlier caller may have died before it made the room that its call lacked. This call may need none.
        self.lacked = None;
        self.retried(|step| {
            step.words.set(CALL_FIRED, 0)?;
            step.words.set(CALL_LATE, 0)?;
            step.words.set(POSITION, position)
        })
    }

    /// Returns the declared fact types.
    pub fn types(&self) -> Types<'_> {
        Types { program: &self.program, words: &self.words }
    }

    /// Returns the rules.
    pub fn rules(&self) -> Rules<'_> {
        Rules { program: &self.program, text: &self.text }
    }

    /// Returns the stored facts.
    pub fn stored(&self) -> Stored<'_> {
        Stored { types: self.types(), program: &self.program, words: &self.words }
    }

    /// Returns the watermark and the sources.
    pub fn clock(&self) -> Clock<'_> {
        Clock { words: &self.words, call: self.call }
    }

    /// Returns the results of firings.
    pub fn fired(&self) -> Fired<'_> {
        let length = self.words.get(NOTICE_WORDS) as usize;
        Fired { program: &self.program, history: &self.history, notices: &self.scratch.notices[..length] }
    }

    /// Returns the counts and sizes.
    pub fn counts(&self) -> Counts {
        let words = &self.words;
        let waiting = WAITING.len(words);
        Counts {
            facts: words.get(FACTS) - waiting,
            waiting,
            // A fact that waited took two numbers.
            asserted: words.get64(NEXT) - 1 - words.get64(RELEASED),
            late: words.get64(LATE),
            firings: words.get64(FIRED),
            notices: words.get(NOTICES),
            memory_bytes: words.bytes() + 4 * self.scratch.notices.capacity(),
            used_bytes: words.used(),
        }
    }

    /// Returns the progress of the call. After an interruption, call [`Engine::recover`] first.
    pub fn progress(&self) -> Progress {
        let words = &self.words;
        Progress {
            position: words.get(POSITION),
            last_asserted: words.get64(ASSERTED),
            firings: words.get(CALL_FIRED),
            late: words.get(CALL_LATE),
        }
    }
}
