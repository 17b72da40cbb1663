//! The engine: compiled rules, their facts, and the operations on them.

mod clock;

use crate::announce::{Announced, GROUP};
use crate::clock::MAX_TIME;
use crate::compile::code::{Bound, Kind as FieldKind, SLOTS};
use crate::compile::compile;
use crate::compile::program::{Domain, FactType, Field, Program};
use crate::compile::switch::FEW;
use crate::error::{quoted, Error, Kind};
use crate::facts::change::{self, Removal};
use crate::facts::expiry;
use crate::facts::tickets::id_of;
use crate::firing::actions;
use crate::firing::notices::{self, Notice};
use crate::keys::By;
use crate::language::{nearest, parse};
use crate::layout::{
    AGENDA, AGENDA_BASE, ASSERTED, CALL_FIRED, CALL_LATE, CLOCK, EVENT, FACTS, FIRED, FLOOR, GATHERING, LATE, NEXT,
    NOTICES, NOTICE_WORDS, NUMBER, POSITION, RELEASED, TIME,
};
use crate::matches::agenda::{self, Best, MATCH_DEADLINE, RULE_WORDS};
use crate::matches::{deadlines, guards, search};
use crate::memory::{Address, Full, Room, StringTable, Table, Words};
use crate::partitions::Partitions;
use crate::selection::Selection;
use crate::step::{Scratch, Step, StepLimits};
use crate::tables::{DEADLINES, MATCH_HEAP, NUMBERS, STRINGS};
use crate::time::due::{self, Due};
use crate::time::sources::{self, Source};
use crate::time::waiting::{self, WAITS};
use crate::value::{Owned, Value};

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

/// A checked fact before its insertion.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFact<'a> {
    ty: usize,
    time: Option<i64>,
    values: Vec<Option<Value<'a>>>,
}

/// A stored fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The number that identifies the fact, for example to retract it.
    pub id: u64,
    /// The name of its type.
    pub ty: String,
    /// The time in milliseconds.
    pub at: i64,
    /// The fields by name. `None` is undefined.
    pub fields: Vec<(String, Option<Owned>)>,
}

/// The limit that paused a run before a rule fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The call reached the limit on firings.
    Firings,
    /// The pending notices reached their limit.
    Notices,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of firings of this call.
    pub firings: u32,
    /// The limit that paused the run, or `None` if no rule is due.
    pub pause: Option<Pause>,
}

/// The outcome of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// There may be more to do.
    More,
    /// There is no more to do.
    Done,
    /// A limit paused the call before a rule fired.
    Paused(Pause),
}

/// The outcome of a step on the agenda.
enum Stepped {
    /// No rule fired.
    Prepared,
    /// This rule fired.
    Fired(u32),
    /// A limit stopped this step before a rule fired. The step changed nothing.
    Paused(Pause),
}

/// A rule and the numbers of the facts for which it fired.
pub(crate) type Firing = (u32, [u64; SLOTS]);

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
    /// Whether only [`Engine::make_room`] may allocate, and the room that the last step lacked.
    defers: bool,
    lacked: Option<Full>,
    /// Whether rules count as fired without running their actions.
    is_quiet: bool,
    /// The time that a roll-back restores, if one was saved.
    saved_time: Option<i64>,
    /// Whether arriving facts wait without moving time.
    holds_time: bool,
    /// The rule that fired last.
    last_rule: Option<u32>,
    /// The rules of the last firings since a transaction began, for messages alone: the newest is at the number of firings so far, modulo its length.
    recent: [u32; RECENT],
    recent_count: usize,
    /// The firings since [`Engine::record`] or the last [`Engine::take_record`].
    record: Option<Vec<Firing>>,
}

impl Engine {
    /// Returns an engine without facts.
    ///
    /// # Errors
    ///
    /// `syntax`, `unknown_attribute` (any unknown name), `type`, `out_of_bounds`, `missing_attribute` and `duplicate_id`, with
    /// the place in the text; `out_of_memory`.
    pub fn new(text: &str, limits: Limits) -> Result<Self, Error> {
        Engine::with_few(text, limits, None, FEW)
    }

    /// Compiles rules for `count` partitions. Returns an engine without facts, and the partitions.
    ///
    /// # Errors
    ///
    /// As [`Engine::new`], and `unknown_attribute`, `missing_attribute` and `type` for a wrong key, and `out_of_bounds` for a rule
    /// that may join facts of different keys, or that would fire in every partition.
    pub fn partitioned(text: &str, limits: Limits, count: u32, by: &By) -> Result<(Self, Partitions), Error> {
        let engine = Engine::with_few(text, limits, Some(by), FEW)?;
        let keys = engine.program.keys.clone().unwrap_or_default();
        Ok((engine, Partitions::new(count, keys)))
    }

    /// Returns an engine that always uses an index of single-fact conditions and trees for aggregates, however few the conditions
    /// and facts are.
    ///
    /// Errors: as [`Engine::new`].
    pub fn indexed(text: &str, limits: Limits) -> Result<Self, Error> {
        Engine::with_few(text, limits, None, 0)
    }

    fn with_few(text: &str, limits: Limits, by: Option<&By>, few: usize) -> Result<Self, Error> {
        let parsed = parse(text)?;
        let mut words = Words::new(limits.memory)?;
        let mut constants = crate::compile::constants(&mut words, STRINGS);
        let mut program = compile(&parsed, text, by, &mut constants)?;
        program.long = if few == 0 { 2 } else { LONG };
        let longest = program.types.iter().map(|ty| ty.conditions.len()).max().unwrap_or(0);
        let selections: Result<Vec<_>, Error> =
            program.types.iter().map(|ty| Selection::new(&program, ty, &words, few)).collect();
        let selections = selections?;
        let selected = (0..selections.len()).filter(|ty| selections[*ty].is_some()).collect();
        let scratch = Scratch { met: Room::new(longest), selections, selected, ..Scratch::default() };
        let mut engine = Engine {
            text: text.to_owned(),
            program,
            words,
            scratch,
            announced: Announced::new(),
            limits,
            defers: false,
            lacked: None,
            is_quiet: false,
            saved_time: None,
            holds_time: false,
            last_rule: None,
            recent: [0; RECENT],
            recent_count: 0,
            record: None,
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

    /// Rolls back an interrupted step, if there is one.
    pub fn recover(&mut self) {
        self.words.undo();
        self.scratch.released.clear();
    }

    /// Runs a step once, and commits it.
    #[inline]
    fn attempt<T>(&mut self, run: &impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Full> {
        let Engine { program, words, scratch, limits, .. } = self;
        scratch.tested = None;
        let mut step = Step { program, words, scratch, limits: StepLimits { facts: limits.facts } };
        let value = run(&mut step)?;
        step.commit()?;
        Ok(value)
    }

    /// Runs a step, and makes room and repeats it while it lacks room.
    #[inline]
    pub(crate) fn retried<T>(&mut self, run: impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Error> {
        loop {
            match self.attempt(&run) {
                Ok(value) => return Ok(value),
                Err(full) => self.provide(full)?,
            }
        }
    }

    /// Forbids allocation except in [`Engine::make_room`]. An operation that lacks room ends as `out_of_memory`, and
    /// [`Engine::lacks_room`] is then true. So an operation can be interrupted anywhere: it uses the allocator for nothing that
    /// outlives it.
    pub fn defer_memory(&mut self) {
        self.defers = true;
    }

    /// Returns whether the last operation failed for lack of room that [`Engine::make_room`] can make.
    pub fn lacks_room(&self) -> bool {
        self.lacked.is_some()
    }

    /// Makes the room that the last operation lacked. It must not be interrupted.
    ///
    /// Errors: `out_of_memory`.
    pub fn make_room(&mut self) -> Result<(), Error> {
        match self.lacked.take() {
            Some(full) => self.grow(full),
            None => Ok(()),
        }
    }

    #[cold]
    fn provide(&mut self, full: Full) -> Result<(), Error> {
        if !self.defers || full == Full::Facts {
            return self.grow(full);
        }
        self.recover();
        self.lacked = Some(full);
        Err(Error::new(Kind::OutOfMemory, "the step lacks room; make room and go on"))
    }

    fn grow(&mut self, full: Full) -> Result<(), Error> {
        self.recover();
        let refused =
            || Error::new(Kind::OutOfMemory, "there is no memory for the step; retract facts or allow more memory");
        match full {
            Full::Notices(words) => {
                let notices = &mut self.scratch.notices;
                let left = (self.limits.memory / 4).saturating_sub(self.words.bytes() / 4 + notices.len());
                let least = words as usize;
                let more = least.max(notices.len()).max(256).min(left.max(least));
                if more > left {
                    return Err(refused());
                }
                notices.try_reserve_exact(more).map_err(|_| refused())?;
                notices.resize(notices.len() + more, 0);
                Ok(())
            }
            Full::Released => {
                let released = &mut self.scratch.released;
                let more = (2 * released.capacity()).max(64);
                released.try_reserve_exact(more).map_err(|_| refused())
            }
            full => self.words.grow(full),
        }
    }

    /// Begins a transaction, and commits the previous one, which lasted until now.
    ///
    /// Errors: `out_of_memory`, only for the first.
    pub fn begin_transaction(&mut self) -> Result<(), Error> {
        self.recover();
        self.saved_time = None;
        self.recent_count = 0;
        self.words.begin_transaction()
    }

    /// Rolls back all operations since the transaction began, including taken notices. Returns the time that was saved since. It
    /// must not be interrupted.
    pub fn roll_back(&mut self) -> Option<i64> {
        self.recover();
        self.words.roll_back();
        self.scratch.tested = None;
        self.last_rule = None;
        self.saved_time
    }

    /// Begins the next transaction here if this one has changed many words and nothing is due. A roll-back then restores this time,
    /// so an advance over any number of events needs little memory.
    pub fn save_time(&mut self) {
        if self.words.changed_in_transaction() < MOST_CHANGED || !self.is_at_rest() {
            return;
        }
        // Advancing every source to this event time leads to the current time.
        let time = self.now().saturating_add(self.lateness());
        if self.reach_all(time).is_ok() {
            self.words.begin_next_transaction();
            self.saved_time = Some(time);
        }
    }

    /// Returns whether nothing is due at the engine's time.
    fn is_at_rest(&mut self) -> bool {
        let (now, is_gathering) = (self.now(), self.words.get(GATHERING) == 1);
        !is_gathering && !self.is_busy() && self.examine(|step| due::first_due(step, now).is_none()).unwrap_or(false)
    }

    /// Sets the limits. The engine may already exceed them.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
        self.words.set_limit(limits.memory);
    }

    /// Returns a fact to insert at `at` milliseconds; the time defaults to the engine's time.
    ///
    /// # Errors
    ///
    /// `unknown_attribute` for an unknown type or field, `type` and `out_of_bounds` for a value that the field does not take,
    /// `missing_attribute` if a required field is missing.
    pub fn fact<'v>(&self, ty: &str, at: Option<i64>, fields: &[(&str, Value<'v>)]) -> Result<NewFact<'v>, Error> {
        let number = self.fact_type(ty)?;
        let mut values = vec![None; self.program.types[number].fields.len()];
        for (name, value) in fields {
            values[self.field(number, name)?] = Some(*value);
        }
        self.new_fact(number, at, values)
    }

    /// Returns the number of a fact type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn fact_type(&self, name: &str) -> Result<usize, Error> {
        let Program { types, names, .. } = &self.program;
        names.find(types, name).ok_or_else(|| {
            let hint = match nearest(name, types.iter().map(|ty| ty.name.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it by `fact`".to_owned(),
            };
            Error::new(Kind::UnknownAttribute, format!("there is no fact type {}; {hint}", quoted(name))).about(name)
        })
    }

    /// Returns the number of a field of a fact type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn field(&self, ty: usize, name: &str) -> Result<usize, Error> {
        self.find_field(ty, name).ok_or_else(|| {
            let ty = &self.program.types[ty];
            let hint = match nearest(name, ty.fields.iter().map(|field| field.name.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it, or leave it out".to_owned(),
            };
            let message = format!("`{}` has no field {}; {hint}", ty.name, quoted(name));
            Error::new(Kind::UnknownAttribute, message).about(name)
        })
    }

    /// Returns the number of a field of a fact type, if the type has that field.
    pub fn find_field(&self, ty: usize, name: &str) -> Option<usize> {
        self.program.types[ty].fields.iter().position(|field| field.name == name)
    }

    /// Returns the number of fields of a fact type.
    pub fn field_count(&self, ty: usize) -> usize {
        self.program.types[ty].fields.len()
    }

    /// Returns a fact of a type given by number, with the values of its fields in order.
    ///
    /// Errors: as [`Engine::fact`].
    pub fn new_fact<'v>(
        &self,
        ty: usize,
        time: Option<i64>,
        values: Vec<Option<Value<'v>>>,
    ) -> Result<NewFact<'v>, Error> {
        self.check(ty, time, &values)?;
        Ok(NewFact { ty, time, values })
    }

    /// Checks the time and the values of a fact of a type given by number.
    ///
    /// Errors: as [`Engine::fact`].
    pub fn check(&self, ty: usize, time: Option<i64>, values: &[Option<Value>]) -> Result<(), Error> {
        let declared = &self.program.types[ty];
        if values.len() != declared.fields.len() {
            let message =
                format!("`{}` has {} fields, but {} are given", declared.name, declared.fields.len(), values.len());
            return Err(Error::new(Kind::Type, message));
        }
        for (field, value) in declared.fields.iter().zip(values) {
            match value {
                Some(value) => self.check_value(declared, field, *value)?,
                None if field.optional => {}
                None => {
                    let message =
                        format!("`{}` lacks `{}`; give it a value or declare it optional", declared.name, field.name);
                    return Err(Error::new(Kind::MissingAttribute, message).about(&field.name));
                }
            }
        }
        if time.is_some_and(|time| time.unsigned_abs() > MAX_TIME) {
            let message = "a time is beyond a hundred million days from the epoch; give milliseconds";
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        Ok(())
    }

    fn check_value(&self, declared: &FactType, field: &Field, value: Value) -> Result<(), Error> {
        let is_any = field.domain == Domain::Any;
        let word = match (field.kind, value) {
            (FieldKind::Integer, Value::Integer(integer)) => integer as u64,
            (FieldKind::Float, Value::Integer(integer)) => (integer as f64).to_bits(),
            (FieldKind::Float, Value::Float(float)) if float.is_finite() => float.to_bits(),
            (FieldKind::Boolean, Value::Boolean(boolean)) => boolean.into(),
            (FieldKind::String, Value::String(_)) if is_any => return Ok(()),
            // Every string of a domain is a constant, and constants are interned.
            (FieldKind::String, Value::String(bytes)) => STRINGS.find(&self.words, bytes).map_or(0, u64::from),
            _ => {
                let wanted = crate::compile::kind_name(field.kind);
                let message = format!("`{}` of `{}` is {wanted}; give {wanted}", field.name, declared.name);
                return Err(Error::new(Kind::Type, message).about(&field.name));
            }
        };
        if !is_any && !field.domain.contains(word) {
            let message = format!("`{}` of `{}` is outside its domain", field.name, declared.name);
            return Err(Error::new(Kind::OutOfBounds, message).about(&field.name));
        }
        Ok(())
    }

    /// Returns whether facts of a type with an unknown field are refused.
    pub fn is_strict(&self, ty: usize) -> bool {
        self.program.types[ty].strict
    }

    /// Returns whether a misfit value of a field counts as undefined.
    pub fn forgives(&self, ty: usize, field: usize) -> bool {
        self.program.types[ty].fields[field].forgiving
    }

    /// Returns whether a field accepts a value.
    pub fn takes(&self, ty: usize, field: usize, value: Value) -> bool {
        let declared = &self.program.types[ty];
        self.check_value(declared, &declared.fields[field], value).is_ok()
    }

    /// Begins a call: the limit on firings counts from here.
    ///
    /// Errors: `out_of_memory`.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.recover();
        // An earlier caller may have died before it made the room that its call lacked. This call may need none.
        self.lacked = None;
        self.retried(|step| {
            step.words.set(CALL_FIRED, 0)?;
            step.words.set(CALL_LATE, 0)
        })
    }

    /// Inserts a fact, and returns its number. Time moves to the watermark that follows, and rules due by then fire. Rules that the
    /// fact itself makes due fire in the next [`Engine::run`]. A fact beyond the watermark waits, and already has its number.
    ///
    /// # Errors
    ///
    /// `out_of_memory`, and `out_of_bounds` if there are too many facts, or if due rules need another run first. After an error the
    /// fact is not inserted.
    pub fn assert(&mut self, fact: &NewFact) -> Result<u64, Error> {
        self.assert_at(fact, 0)
    }

    /// Inserts a fact of a source as [`Engine::assert_at`] does.
    ///
    /// Errors: as [`Engine::assert`], and `out_of_bounds` if there are too many sources, or for the length of its name.
    pub fn assert_from(&mut self, fact: &NewFact, source: Source, position: u32) -> Result<u64, Error> {
        self.recover();
        self.check_source(source)?;
        self.all_turns(self.arrival(fact.time, source))?;
        self.insert_at(fact.ty, fact.time, &fact.values, position, source)
    }

    /// Inserts a fact as [`Engine::assert`] does, and sets [`Engine::position`] in the same step.
    ///
    /// Errors: as [`Engine::assert`].
    pub fn assert_at(&mut self, fact: &NewFact, position: u32) -> Result<u64, Error> {
        self.recover();
        self.all_turns(self.arrival(fact.time, None))?;
        self.insert_at(fact.ty, fact.time, &fact.values, position, None)
    }

    /// Inserts a fact as [`Engine::assert_at`] does, given its type by number, its time, and the values of its fields in order.
    /// Nothing is allocated for the fact besides its block.
    ///
    /// Errors: as [`Engine::fact`] and [`Engine::assert`].
    pub fn assert_values(
        &mut self,
        ty: usize,
        time: Option<i64>,
        values: &[Option<Value>],
        position: u32,
    ) -> Result<u64, Error> {
        self.recover();
        self.check(ty, time, values)?;
        self.all_turns(self.arrival(time, None))?;
        self.insert_at(ty, time, values, position, None)
    }

    /// Returns the watermark that follows the arrival of a fact with this time from a source.
    pub fn arrival(&self, time: Option<i64>, source: Source) -> i64 {
        let time = self.time_of(time, source);
        if self.holds_time {
            return self.now();
        }
        if self.is_quiet {
            return time.max(self.now());
        }
        self.watermark_at(time, source)
    }

    /// Inserts a checked fact ([`Engine::check`], [`Engine::check_source`]) once time is at its [`Engine::arrival`] and no rule is
    /// due. Sets [`Engine::position`] in the same step. Returns the fact's number. A fact beyond the watermark waits.
    ///
    /// Errors: `out_of_memory`, `out_of_bounds` if there are too many facts.
    pub fn insert_at(
        &mut self,
        ty: usize,
        time: Option<i64>,
        values: &[Option<Value>],
        position: u32,
        source: Source,
    ) -> Result<u64, Error> {
        let time = self.time_of(time, source);
        let is_quiet = self.is_quiet;
        self.retried(|step| {
            step.scratch.cells.clear();
            for (number, (value, field)) in values.iter().zip(&step.program.types[ty].fields).enumerate() {
                let cell = match *value {
                    None => None,
                    Some(Value::Integer(integer)) if field.kind == FieldKind::Float => Some((integer as f64).to_bits()),
                    Some(Value::Integer(integer)) => Some(integer as u64),
                    Some(Value::Float(float)) => Some(float.to_bits()),
                    Some(Value::Boolean(boolean)) => Some(boolean.into()),
                    Some(Value::String(bytes)) => Some(STRINGS.intern(step.words, bytes)?.into()),
                };
                step.scratch.cells.set(number, cell);
            }
            let number = if time > step.clock() {
                waiting::let_wait(step, ty, time)?
            } else {
                let fact = change::insert(step, ty, time)?;
                step.words.get64(fact + NUMBER)
            };
            // Facts that are reloaded were counted at their first arrival.
            if !is_quiet {
                if time < step.clock() {
                    step.words.set64(LATE, step.words.get64(LATE) + 1)?;
                    step.words.set(CALL_LATE, step.words.get(CALL_LATE) + 1)?;
                }
                sources::raise_event_time(step, time, source)?;
            }
            step.words.set64(ASSERTED, number)?;
            if step.words.get(POSITION) != position {
                step.words.set(POSITION, position)?;
            }
            Ok(number)
        })
    }

    /// Prefetches for facts that are inserted next, at most [`GROUP`] of them: each given by its type, its time and its values by
    /// field. Loads the memory that their insertions need, and changes nothing else.
    pub fn announce<'v, V>(&mut self, facts: impl Iterator<Item = (usize, Option<i64>, V)>)
    where
        V: Fn(usize) -> Option<Value<'v>>,
    {
        self.recover();
        self.announced.clear();
        for (ty, time, value) in facts.take(GROUP) {
            self.announced.add(&self.words, ty, time, value);
        }
        self.announced.load(&self.program, &self.words, self.now());
    }

    /// Returns the number of the fact that [`Engine::insert_at`] inserted last.
    pub fn last_asserted(&self) -> u64 {
        self.words.get64(ASSERTED)
    }

    /// Returns the position that the last [`Engine::assert_at`] set. After an interruption, call [`Engine::recover`] first.
    pub fn position(&self) -> u32 {
        self.words.get(POSITION)
    }

    /// Sets the position.
    ///
    /// Errors: `out_of_memory`.
    pub fn set_position(&mut self, position: u32) -> Result<(), Error> {
        self.recover();
        self.retried(|step| step.words.set(POSITION, position))
    }

    /// Retracts a fact. Rules that become due fire in the next [`Engine::run`].
    ///
    /// Errors: `not_found`, `out_of_memory`.
    pub fn retract(&mut self, id: u64) -> Result<(), Error> {
        let position = self.position();
        self.retract_at(id, position)
    }

    /// Retracts a fact as [`Engine::retract`] does, and sets [`Engine::position`] in the same step.
    ///
    /// Errors: as [`Engine::retract`].
    pub fn retract_at(&mut self, id: u64, position: u32) -> Result<(), Error> {
        self.recover();
        let Some(fact) = NUMBERS.find(&self.words, id) else {
            return Err(Error::new(Kind::NotFound, format!("there is no fact {id}; it was retracted or dropped")));
        };
        self.retried(|step| {
            match step.words.get(fact) {
                WAITS => waiting::free_waiting(step, fact)?,
                ty => change::remove(step, ty as usize, fact, Removal::Retraction)?,
            }
            step.words.set(POSITION, position)
        })
    }

    /// Returns the type and the address of an inserted fact, not of a waiting one.
    fn find(&self, id: u64) -> Option<(usize, Address)> {
        let fact = NUMBERS.find(&self.words, id)?;
        let ty = self.words.get(fact);
        (ty != WAITS).then_some((ty as usize, fact))
    }

    /// Returns the time in milliseconds: the watermark, which is the event time minus the lateness.
    pub fn now(&self) -> i64 {
        self.words.get64(CLOCK) as i64
    }

    /// Raises the event times of all sources to `now` milliseconds, and so moves time to `now` minus the lateness. On the way,
    /// waiting facts are inserted, due rules fire, and facts that no rule can use any more are dropped.
    ///
    /// # Errors
    ///
    /// `out_of_bounds` if the limit on firings or on notices stops it. Time has then moved as far as rules fired: take the notices,
    /// and advance again. `out_of_memory`.
    pub fn advance(&mut self, now: i64) -> Result<(), Error> {
        self.recover();
        self.check_time(now)?;
        if self.is_quiet {
            return self.all_turns(now);
        }
        self.all_turns(self.watermark_of_all_at(now))?;
        self.reach_all(now)
    }

    /// Raises the event time of one source to `now` milliseconds, as [`Engine::advance`] does for all.
    ///
    /// Errors: as [`Engine::advance`] and [`Engine::assert_from`].
    pub fn advance_source(&mut self, now: i64, source: Source) -> Result<(), Error> {
        self.recover();
        self.check_time(now)?;
        self.check_source(source)?;
        self.all_turns(self.watermark_at(now, source))?;
        self.reach(now, source)
    }

    /// Ends a source, so that it no longer holds time back, and advances as [`Engine::advance`] does.
    ///
    /// Errors: as [`Engine::advance`].
    pub fn end_source(&mut self, source: &[u8]) -> Result<(), Error> {
        self.recover();
        self.all_turns(self.watermark_without(source))?;
        self.forget_source(source)
    }

    /// Takes turns up to a time until nothing is left to do.
    ///
    /// Errors: as [`Engine::advance`].
    fn all_turns(&mut self, time: i64) -> Result<(), Error> {
        loop {
            let message = match self.turn_to(time)? {
                Turn::More => continue,
                Turn::Done => return Ok(()),
                Turn::Paused(Pause::Firings) => {
                    "the call has fired as many rules as its limit allows; run on in another call"
                }
                Turn::Paused(Pause::Notices) => "as many notices wait as the limit allows; take them, then run on",
            };
            return Err(Error::new(Kind::OutOfBounds, message));
        }
    }

    /// Checks that durations can be added to a time.
    ///
    /// Errors: `out_of_bounds`.
    pub fn check_time(&self, time: i64) -> Result<(), Error> {
        if time.unsigned_abs() > MAX_TIME {
            let message = "the time is beyond a hundred million days from the epoch; give milliseconds";
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        Ok(())
    }

    /// Moves time towards the watermark `now` by one turn: one firing, one due match, one waiting fact, or the drop of a few facts.
    ///
    /// Errors: `out_of_memory`, and `out_of_bounds` if there are too many facts.
    pub fn turn_to(&mut self, now: i64) -> Result<Turn, Error> {
        match self.first_waiting() {
            Some(time) if time <= now => match self.turn_before(time)? {
                Turn::Done => self.insert_first_waiting().map(|()| Turn::More),
                other => Ok(other),
            },
            _ => self.turn_before(now),
        }
    }

    /// Takes a turn up to `now`, before which no waiting fact is due.
    fn turn_before(&mut self, now: i64) -> Result<Turn, Error> {
        // All events of one time happen before rules fire.
        if self.words.get(GATHERING) == 1 {
            let at = self.now();
            self.retried(|step| match due::first_due(step, at) {
                Some((time, due @ Due::Match(_))) => due::happen(step, time, due),
                _ => step.words.set(GATHERING, 0),
            })?;
            return Ok(Turn::More);
        }
        match self.turn()? {
            Turn::Done => {}
            other => return Ok(other),
        }
        if self.now() > now {
            return Ok(Turn::Done);
        }
        let may_save = self.words.changed_in_transaction() >= MOST_CHANGED;
        self.retried(|step| {
            // Drops can share a step: a drop makes no rule due, and no match still waits at its time.
            for position in 0..MOST_DROPS {
                let Some((time, due)) = due::first_due(step, now) else {
                    if step.clock() != now {
                        step.words.set64(CLOCK, now as u64)?;
                    }
                    return Ok(Turn::Done);
                };
                // Nothing is due up to here, so `save_time` may save.
                if may_save && position > 0 && time > step.clock() {
                    break;
                }
                due::happen(step, time, due)?;
                if let Due::Match(_) = due {
                    step.words.set(GATHERING, 1)?;
                    break;
                }
            }
            Ok(Turn::More)
        })
    }

    /// Returns the earliest time at which [`Engine::advance`] would do anything besides dropping facts.
    pub fn next_due(&self) -> Option<i64> {
        let deadline = DEADLINES.first(&self.words).map(|block| self.words.get64(block + MATCH_DEADLINE) as i64);
        let first = deadline.into_iter().chain(self.first_waiting()).min()?;
        Some(first.saturating_add(self.lateness()))
    }

    /// Returns whether rules are on the agenda.
    pub fn is_busy(&self) -> bool {
        self.words.get(AGENDA) > 0 || MATCH_HEAP.len(&self.words) > 0
    }

    /// Fires rules until none is due, or until a limit pauses the call.
    ///
    /// # Errors
    ///
    /// `out_of_memory`, and `out_of_bounds` if there are too many facts. The firings so far stand, and the failed one stays due.
    pub fn run(&mut self) -> Result<Run, Error> {
        self.recover();
        loop {
            let pause = match self.turn()? {
                Turn::More => continue,
                Turn::Done => None,
                Turn::Paused(pause) => Some(pause),
            };
            return Ok(Run { firings: self.call_firings(), pause });
        }
    }

    /// Runs one turn of [`Engine::run`]. A turn that pauses changes nothing.
    ///
    /// Errors: as [`Engine::run`].
    pub fn turn(&mut self) -> Result<Turn, Error> {
        if !self.is_busy() {
            return Ok(Turn::Done);
        }
        match self.step()? {
            Stepped::Prepared => {}
            Stepped::Paused(pause) => return Ok(Turn::Paused(pause)),
            Stepped::Fired(number) => {
                self.last_rule = Some(number);
                self.recent[self.recent_count % RECENT] = number;
                self.recent_count += 1;
                if let Some(record) = &mut self.record {
                    record.push((number, self.scratch.fired));
                }
            }
        }
        Ok(Turn::More)
    }

    /// Makes due rules count as fired without running them, to reload facts that existed before. A match that waits for the end of
    /// a window goes on waiting.
    pub fn set_quiet(&mut self, is_quiet: bool) {
        self.is_quiet = is_quiet;
    }

    /// Makes facts beyond the watermark wait without moving time, to reload waiting facts; see [`Engine::set_quiet`].
    pub fn set_holding(&mut self, holds_time: bool) {
        self.holds_time = holds_time;
    }

    /// Returns the number of firings since [`Engine::begin`].
    pub fn call_firings(&self) -> u32 {
        self.words.get(CALL_FIRED)
    }

    /// Sets the limit on the firings of a call.
    pub fn set_firings(&mut self, most: u32) {
        self.limits.firings = most;
    }

    /// Forgets the memory of condition searches, which the caller frees all at once.
    pub fn abandon_searches(&mut self) {
        let Scratch { selections, selected, .. } = &mut self.scratch;
        for ty in &*selected {
            selections[*ty].iter_mut().for_each(Selection::abandon);
        }
    }

    /// Advances the best entry of the agenda by one step.
    fn step(&mut self) -> Result<Stepped, Error> {
        let is_quiet = self.is_quiet;
        let is_recorded = self.record.is_some();
        let pause = if is_quiet { None } else { self.pause() };
        self.retried(|step| {
            let mut bound: Bound = [0; SLOTS + 1];
            let number = match agenda::best(step) {
                None => return Ok(Stepped::Prepared),
                Some(Best::Seed(number)) => {
                    let Some(found) = search::next_match(step, number, &mut bound)? else {
                        return Ok(Stepped::Prepared);
                    };
                    let deadline = guards::deadline(step, &step.program.rules[number as usize], &bound);
                    if deadline > step.clock() {
                        search::keep(step, found)?;
                        deadlines::wait(step, number, &bound, deadline)?;
                        return Ok(Stepped::Prepared);
                    }
                    if let Some(pause) = pause {
                        return Ok(Stepped::Paused(pause));
                    }
                    search::keep(step, found)?;
                    number
                }
                Some(Best::Match) => {
                    let (number, are_there) = agenda::first_match(step, &mut bound);
                    let rule = &step.program.rules[number as usize];
                    let is_valid =
                        are_there && rule.guards.iter().all(|guard| guards::guard_holds(step, guard, &mut bound));
                    if let (true, Some(pause)) = (is_valid, pause) {
                        return Ok(Stepped::Paused(pause));
                    }
                    agenda::pop_match(step)?;
                    if !is_valid {
                        return Ok(Stepped::Prepared);
                    }
                    number
                }
            };
            if is_quiet {
                return Ok(Stepped::Prepared);
            }
            if is_recorded {
                let facts = bound.iter().take(step.program.rules[number as usize].slots.len());
                for (place, fact) in step.scratch.fired.iter_mut().zip(facts) {
                    *place = step.words.get64(fact + NUMBER);
                }
            }
            actions::fire(step, number, &mut bound)?;
            Ok(Stepped::Fired(number))
        })
    }

    /// Returns the limit that forbids the next firing, if any.
    fn pause(&self) -> Option<Pause> {
        if self.words.get(NOTICES) >= self.limits.notices {
            Some(Pause::Notices)
        } else if self.call_firings() >= self.limits.firings {
            Some(Pause::Firings)
        } else {
            None
        }
    }

    /// Records firings from now on. The record grows until [`Engine::take_record`].
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// Returns the recorded firings, each with its rule and the numbers of its facts, and empties the record.
    pub fn take_record(&mut self) -> Vec<(String, Vec<u64>)> {
        let Some(record) = &mut self.record else { return Vec::new() };
        let firings = std::mem::take(record).into_iter();
        firings
            .map(|(number, facts)| {
                let rule = &self.program.rules[number as usize];
                (rule.name.clone(), facts[..rule.slots.len()].to_vec())
            })
            .collect()
    }

    /// Returns the pending notices, and empties their list.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.recover();
        let notices = self.notices();
        self.empty_notices();
        notices
    }

    /// Returns the pending notices.
    pub fn notices(&self) -> Vec<Notice> {
        let length = self.words.get(NOTICE_WORDS) as usize;
        notices::read(&self.program, &self.scratch.notices[..length])
    }

    /// Returns the number of pending notices.
    pub fn notice_count(&self) -> u32 {
        self.words.get(NOTICES)
    }

    /// Empties the list of notices.
    pub fn empty_notices(&mut self) {
        if self.notice_count() == 0 {
            return;
        }
        // Two words fit any log.
        let emptied = self.retried(|step| {
            step.words.set(NOTICE_WORDS, 0)?;
            step.words.set(NOTICES, 0)
        });
        debug_assert!(emptied.is_ok());
    }

    /// Returns the name of the rule that fired last.
    pub fn last_rule(&self) -> Option<&str> {
        self.last_rule.map(|rule| self.program.rules[rule as usize].name.as_str())
    }

    /// Returns the rule names of the cycle in which the last [`RECENT`] firings end, in firing order: the shortest sequence whose
    /// repetition fills the second half of these firings. Without a cycle, returns the most frequent rules. Only firings since the
    /// transaction began count, and an interruption may lose one, so the names are for messages alone.
    #[inline(never)]
    pub fn cycle(&self) -> Vec<String> {
        let length = self.recent_count.min(RECENT);
        let from = self.recent_count - length;
        let fired: Vec<u32> = (from..self.recent_count).map(|number| self.recent[number % RECENT]).collect();
        let repeats = |period: &usize| {
            let start = length - (2 * period).max(length / 2);
            fired[start..length - period] == fired[start + period..]
        };
        let mut rules = match (1..=length / 2).find(repeats) {
            Some(period) => {
                let mut cycle = fired[length - period..].to_vec();
                // Rotated to begin with the first rule in the text.
                let first = cycle.iter().enumerate().min_by_key(|(_, rule)| **rule).map_or(0, |(place, _)| place);
                cycle.rotate_left(first);
                cycle
            }
            None => {
                let mut rules = fired.clone();
                rules.sort_unstable();
                rules.dedup();
                rules.sort_by_key(|rule| std::cmp::Reverse(fired.iter().filter(|fired| *fired == rule).count()));
                rules.truncate(MOST_FREQUENT);
                rules
            }
        };
        // The alternatives of a rule share a name.
        let name = |rule: &u32| self.program.rules[*rule as usize].name.as_str();
        rules.dedup_by(|left, right| name(left) == name(right));
        rules.iter().map(|rule| name(rule).to_owned()).collect()
    }

    /// Returns the number of rules. Each alternative counts as a rule.
    pub fn rule_count(&self) -> usize {
        self.program.rules.len()
    }

    /// Returns warnings about rules that can enable themselves or each other without end: one for each group of such rules, naming
    /// a shortest cycle in it.
    pub fn warnings(&self) -> &[String] {
        &self.program.warnings
    }

    /// Returns the names of the fact types, in the order of the text.
    pub fn type_names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.program.types.iter().map(|ty| ty.name.as_str())
    }

    /// Returns all facts of a type, newest first.
    ///
    /// Errors: `unknown_attribute`.
    pub fn facts(&self, ty: &str) -> Result<Vec<Fact>, Error> {
        Ok(self.facts_before(self.fact_type(ty)?, u64::MAX, usize::MAX))
    }

    /// Returns at most `most` facts of a type given by number, with fact numbers below `before`, newest first.
    pub fn facts_before(&self, ty: usize, before: u64, most: usize) -> Vec<Fact> {
        self.addresses_before(ty, before).take(most).map(|fact| self.stored(&self.program.types[ty], fact)).collect()
    }

    /// Returns one page of [`Engine::facts_before`]: the number of its facts, whether more follow, and the facts. They take about
    /// `bytes` bytes in all; a page has at least one.
    pub fn page_before(
        &self,
        ty: usize,
        before: u64,
        most: usize,
        bytes: usize,
    ) -> (usize, bool, impl Iterator<Item = Fact> + '_) {
        let mut left = bytes;
        let fits = |fact: &Address| {
            let is_first = left == bytes;
            let size = self.size_of(&self.program.types[ty], *fact);
            let fits = size <= left || is_first;
            left = left.saturating_sub(size.max(1));
            fits
        };
        let count = self.addresses_before(ty, before).take(most).take_while(fits).count();
        let is_more = self.addresses_before(ty, before).nth(count).is_some();
        let facts = self.addresses_before(ty, before).take(count);
        (count, is_more, facts.map(move |fact| self.stored(&self.program.types[ty], fact)))
    }

    fn addresses_before(&self, number: usize, before: u64) -> impl Iterator<Item = Address> + '_ {
        let ty = &self.program.types[number];
        let links = ty.links(0);
        let found = self.find(before);
        let first = match found {
            Some((of, fact)) if of == number => self.words.get(fact + links),
            _ => ty.newest(&self.words),
        };
        // A fact that waited is ordered by its later number.
        let before = found.map_or(before, |(_, fact)| self.words.get64(fact + NUMBER));
        let following = move |fact: &Address| Some(self.words.get(fact + links));
        std::iter::successors(Some(first), following)
            .take_while(|fact| *fact != 0)
            .filter(move |fact| self.words.get64(fact + NUMBER) < before)
    }

    /// Estimates the bytes of a fact as a term, including those used while the term is made.
    fn size_of(&self, ty: &FactType, fact: Address) -> usize {
        let of_field = |(number, field): (usize, &Field)| {
            let string = ty.cell(&self.words, fact, number).filter(|_| field.kind == FieldKind::String);
            32 + field.name.len() + string.map_or(0, |string| StringTable::length(&self.words, string as Address))
        };
        64 + ty.name.len() + ty.fields.iter().enumerate().map(of_field).sum::<usize>()
    }

    /// Returns the fact at an address, given its type.
    pub(crate) fn stored(&self, ty: &FactType, fact: Address) -> Fact {
        let fields = ty.fields.iter().enumerate().map(|(number, field)| {
            let value = ty.cell(&self.words, fact, number).map(|cell| self.owned(field.kind, cell));
            (field.name.clone(), value)
        });
        Fact {
            id: id_of(&self.words, fact),
            ty: ty.name.clone(),
            at: self.words.get64(fact + TIME) as i64,
            fields: fields.collect(),
        }
    }

    /// Returns the fact at an address.
    pub(crate) fn fact_at(&self, fact: Address) -> Fact {
        self.stored(&self.program.types[self.words.get(fact) as usize], fact)
    }

    /// Returns the names of the rules.
    pub fn rule_names(&self) -> impl Iterator<Item = &str> {
        self.program.rules.iter().map(|rule| rule.name.as_str())
    }

    /// Returns the numbers of the rules with this name, one for each combination of alternatives.
    pub(crate) fn rules_named<'n>(&'n self, name: &'n str) -> impl Iterator<Item = usize> + 'n {
        let rules = self.program.rules.iter().enumerate();
        rules.filter(move |(_, rule)| rule.name == name).map(|(number, _)| number)
    }

    /// Returns the line that contains a byte of the rules' text, and its number from 1.
    pub(crate) fn line_at(&self, offset: usize) -> (usize, String) {
        let place = Error::new(Kind::NotFound, "").at(&self.text, offset).place;
        place.map_or((1, String::new()), |place| (place.line, place.text.trim().to_owned()))
    }

    /// Runs a read-only function on a step.
    pub(crate) fn examine<T>(&mut self, look: impl Fn(&Step) -> T) -> Result<T, Error> {
        self.recover();
        self.retried(|step| Ok(look(step)))
    }

    pub(crate) fn owned(&self, kind: FieldKind, cell: u64) -> Owned {
        match kind {
            FieldKind::Integer => Owned::Integer(cell as i64),
            FieldKind::Float => Owned::Float(f64::from_bits(cell)),
            FieldKind::Boolean => Owned::Boolean(cell == 1),
            FieldKind::String => Owned::String(StringTable::bytes(&self.words, cell as Address)),
        }
    }

    /// Returns the number of facts of a type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn count(&self, ty: &str) -> Result<u32, Error> {
        Ok(self.program.types[self.fact_type(ty)?].count(&self.words))
    }

    /// Returns the number of all facts, without those waiting for the watermark.
    pub fn len(&self) -> u32 {
        self.words.get(FACTS) - self.waiting_len()
    }

    /// Returns whether there is no fact.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of firings since the engine was made.
    pub fn firings(&self) -> u64 {
        self.words.get64(FIRED)
    }

    /// Returns the number of facts ever inserted, from outside or by rules, waiting ones included.
    pub fn asserted(&self) -> u64 {
        // A fact that waited took two numbers.
        self.words.get64(NEXT) - 1 - self.words.get64(RELEASED)
    }

    /// Returns the number of facts that arrived too late, behind the watermark.
    pub fn late(&self) -> u64 {
        self.words.get64(LATE)
    }

    /// Returns the number of facts that arrived too late since [`Engine::begin`].
    pub fn call_late(&self) -> u32 {
        self.words.get(CALL_LATE)
    }

    /// Returns the bytes that the facts and their indices take, spare capacity included.
    pub fn memory_bytes(&self) -> usize {
        self.words.bytes() + 4 * self.scratch.notices.capacity()
    }

    /// Returns the high-water mark of the bytes in use.
    pub fn used_bytes(&self) -> usize {
        self.words.used()
    }

    /// Returns the milliseconds after which facts of this type are dropped, or `None` if they are kept.
    ///
    /// Errors: `unknown_attribute`.
    pub fn life(&self, ty: &str) -> Result<Option<i64>, Error> {
        Ok(self.program.types[self.fact_type(ty)?].life)
    }

    /// Returns the join orders of each rule (each alternative is a rule): for each condition that may bind the newest fact, the
    /// positions of the other conditions in the order of their look-ups.
    pub fn join_order(&self) -> Vec<(String, Vec<Vec<usize>>)> {
        let order =
            |plan: &crate::compile::program::Plan| plan.joins.iter().map(|join| join.probe.slot.into()).collect();
        self.program.rules.iter().map(|rule| (rule.name.clone(), rule.plans.iter().map(order).collect())).collect()
    }
}

/// The number of changed words from which on an advance may save its time.
const MOST_CHANGED: usize = 1 << 16;

/// The number of facts of a key from which on aggregates use a tree. Below it a scan costs less.
const LONG: u32 = 64;

/// The number of firings that [`Engine::cycle`] examines.
const RECENT: usize = 32;

/// The most rules that [`Engine::cycle`] returns without a repeating sequence.
const MOST_FREQUENT: usize = 8;

/// The most facts that a turn drops.
const MOST_DROPS: usize = 16;
