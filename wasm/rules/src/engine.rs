//! The engine: compiled rules, their facts, and the operations on them.

use crate::agenda::{self, Best, RULE_WORDS};
use crate::compile::code::{Bound, Kind as FieldKind, NUMBER, SLOTS, TIME};
use crate::compile::compile;
use crate::compile::program::{Domain, Program};
use crate::compile::switch::FEW;
use crate::error::{Error, Kind};
use crate::language::{nearest, parse};
use crate::memory::{Address, Full, Room, StringTable, Words};
use crate::notices::{self, Notice};
use crate::selection::Selection;
use crate::step::{
    Scratch, Step, StepLimits, AGENDA, AGENDA_BASE, CALL_FIRED, CLOCK, FACTS, FIRED, MATCH_HEAP, NEXT, NOTICES,
    NOTICE_WORDS, NUMBERS, POSITION, STRINGS,
};

/// The limits of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most bytes of memory for facts, without the compiled rules.
    pub memory: usize,
    /// The most facts.
    pub facts: u32,
    /// The most firings of a call.
    pub firings: u32,
    /// The number of waiting notices at which a call pauses.
    pub notices: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory: 1 << 30, facts: u32::MAX, firings: 1_000_000, notices: 10_000 }
    }
}

/// The value of a field of a new fact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An integer. It may stand for a float.
    Integer(i64),
    /// A finite float.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    String(&'a [u8]),
}

/// The value of a field of a stored fact or of a notice.
#[derive(Clone, Debug, PartialEq)]
pub enum Owned {
    /// An integer.
    Integer(i64),
    /// A float.
    Float(f64),
    /// `true` or `false`.
    Boolean(bool),
    /// A string.
    String(Vec<u8>),
}

impl Owned {
    /// Returns the value as one of a new fact.
    pub fn borrowed(&self) -> Value<'_> {
        match self {
            Owned::Integer(integer) => Value::Integer(*integer),
            Owned::Float(float) => Value::Float(*float),
            Owned::Boolean(boolean) => Value::Boolean(*boolean),
            Owned::String(bytes) => Value::String(bytes),
        }
    }
}

/// A fact that is checked and not inserted yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFact<'a> {
    ty: usize,
    time: Option<i64>,
    values: Vec<Option<Value<'a>>>,
}

/// A stored fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// The number, by which it is retracted.
    pub id: u64,
    /// The name of its type.
    pub ty: String,
    /// The time in milliseconds.
    pub at: i64,
    /// The fields by name. `None` is undefined.
    pub fields: Vec<(String, Option<Owned>)>,
}

/// Why a run stopped before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// The call made as many firings as it may.
    Firings,
    /// As many notices wait as may.
    Notices,
}

/// The result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The number of firings of this call.
    pub firings: u32,
    /// Why there is more to do, or `None` if there is not.
    pub pause: Option<Pause>,
}

/// A rule and the numbers of the facts for which it fired.
pub(crate) type Firing = (u32, [u64; SLOTS]);

/// Rules and their facts.
///
/// Every operation consists of steps. A step happens wholly or not at all, whatever cuts it off. After a cut, the next operation
/// first undoes the step that was under way ([`Engine::recover`]).
#[derive(Clone, Debug)]
pub struct Engine {
    program: Program,
    words: Words,
    scratch: Scratch,
    limits: Limits,
    /// The firings since [`Engine::record`].
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
        Engine::with_few(text, limits, FEW)
    }

    /// Returns an engine that finds single-fact conditions by an index, however few they are.
    ///
    /// Errors: as [`Engine::new`].
    pub fn indexed(text: &str, limits: Limits) -> Result<Self, Error> {
        Engine::with_few(text, limits, 0)
    }

    fn with_few(text: &str, limits: Limits, few: usize) -> Result<Self, Error> {
        let parsed = parse(text)?;
        let mut words = Words::new(limits.memory)?;
        let mut constants = crate::compile::constants(&mut words, STRINGS);
        let program = compile(&parsed, text, &mut constants)?;
        let longest = program.types.iter().map(|ty| ty.conditions.len()).max().unwrap_or(0);
        let selections: Result<Vec<_>, Error> =
            program.types.iter().map(|ty| Selection::new(&program, ty, &words, few)).collect();
        let scratch = Scratch { met: Room::new(longest), selections: selections?, ..Scratch::default() };
        let mut engine = Engine { program, words, scratch, limits, record: None };
        engine.scratch.released.reserve(64);
        engine.lay_out()?;
        Ok(engine)
    }

    /// Gives the parts of the program their words.
    fn lay_out(&mut self) -> Result<(), Error> {
        let Program { types, conditions, rules, .. } = &self.program;
        let of_types: u32 = types.iter().map(|ty| ty.engine_words()).sum();
        let agenda = rules.len() as u32;
        let size = of_types + conditions.len() as u32 + (RULE_WORDS + 1) * agenda;
        let mut at = self.retried(|step| step.words.reserve(size.max(1)))?;
        let mut take = |words: u32| {
            at += words;
            at - words
        };
        for ty in &mut self.program.types {
            ty.at = take(ty.engine_words());
        }
        for condition in &mut self.program.conditions {
            condition.at = take(1);
        }
        for rule in &mut self.program.rules {
            rule.at = take(RULE_WORDS);
        }
        let base = take(agenda);
        for number in 0..self.program.rules.len() {
            self.retried(|step| agenda::set_up(step.words, &step.program.rules[number]))?;
        }
        self.retried(|step| {
            step.words.set(AGENDA_BASE, base)?;
            step.words.set64(NEXT, 1)?;
            step.words.set64(CLOCK, i64::MIN as u64)
        })
    }

    /// Cuts the engine off after a number of stores.
    #[cfg(test)]
    pub(crate) fn cut_after(&mut self, stores: Option<u64>) {
        self.words.cut_after = stores;
    }

    /// Returns the number of stores that are left before the cut.
    #[cfg(test)]
    pub(crate) fn cuts_left(&self) -> u64 {
        self.words.cut_after.unwrap_or(0)
    }

    /// Undoes the step that was cut off, if one was.
    pub fn recover(&mut self) {
        self.words.undo();
        self.scratch.released.clear();
    }

    /// Runs a step, and makes it final.
    #[inline]
    fn attempt<T>(&mut self, run: &impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Full> {
        let Engine { program, words, scratch, limits, .. } = self;
        scratch.blocker = None;
        let mut step = Step { program, words, scratch, limits: StepLimits { facts: limits.facts } };
        let value = run(&mut step)?;
        step.commit()?;
        Ok(value)
    }

    /// Runs a step, again and with more room as long as it lacks room.
    #[inline]
    fn retried<T>(&mut self, run: impl Fn(&mut Step) -> Result<T, Full>) -> Result<T, Error> {
        loop {
            match self.attempt(&run) {
                Ok(value) => return Ok(value),
                Err(full) => self.make_room(full)?,
            }
        }
    }

    #[cold]
    fn make_room(&mut self, full: Full) -> Result<(), Error> {
        self.recover();
        let refused =
            || Error::new(Kind::OutOfMemory, "there is no memory for the step; retract facts or allow more memory");
        match full {
            Full::Notices(words) => {
                let notices = &mut self.scratch.notices;
                let more = (words as usize).max(notices.len()).max(256);
                if 4 * (notices.len() + more) > self.limits.memory {
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

    /// Returns a fact to insert, at `at` milliseconds or, without that, at the time of the engine.
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
        let types = &self.program.types;
        types.iter().position(|ty| ty.name == name).ok_or_else(|| {
            let hint = match nearest(name, types.iter().map(|ty| ty.name.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it by `fact`".to_owned(),
            };
            Error::new(Kind::UnknownAttribute, format!("there is no fact type `{name}`; {hint}")).about(name)
        })
    }

    /// Returns the number of a field of a fact type.
    ///
    /// Errors: `unknown_attribute`.
    pub fn field(&self, ty: usize, name: &str) -> Result<usize, Error> {
        let ty = &self.program.types[ty];
        ty.fields.iter().position(|field| field.name == name).ok_or_else(|| {
            let hint = match nearest(name, ty.fields.iter().map(|field| field.name.as_str())) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "declare it, or leave it out".to_owned(),
            };
            let message = format!("`{}` has no field `{name}`; {hint}", ty.name);
            Error::new(Kind::UnknownAttribute, message).about(name)
        })
    }

    /// Returns the number of fields of a fact type.
    pub fn field_count(&self, ty: usize) -> usize {
        self.program.types[ty].fields.len()
    }

    /// Returns a fact of a type by number, with the values of its fields in their order.
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

    /// Checks the values of a new fact.
    fn check(&self, ty: usize, time: Option<i64>, values: &[Option<Value>]) -> Result<(), Error> {
        let declared = &self.program.types[ty];
        if values.len() != declared.fields.len() {
            let message =
                format!("`{}` has {} fields, but {} are given", declared.name, declared.fields.len(), values.len());
            return Err(Error::new(Kind::Type, message));
        }
        for (field, value) in declared.fields.iter().zip(values) {
            let Some(value) = value else {
                if field.optional {
                    continue;
                }
                let message =
                    format!("`{}` lacks `{}`; give it a value or declare it optional", declared.name, field.name);
                return Err(Error::new(Kind::MissingAttribute, message).about(&field.name));
            };
            let is_any = field.domain == Domain::Any;
            let word = match (field.kind, *value) {
                (FieldKind::Integer, Value::Integer(integer)) => integer as u64,
                (FieldKind::Float, Value::Integer(integer)) => (integer as f64).to_bits(),
                (FieldKind::Float, Value::Float(float)) if float.is_finite() => float.to_bits(),
                (FieldKind::Boolean, Value::Boolean(boolean)) => boolean.into(),
                (FieldKind::String, Value::String(_)) if is_any => continue,
                // Every string of a domain is a constant, so it exists.
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
        }
        if time.is_some_and(|time| time.unsigned_abs() > LATEST) {
            let message = "a time is beyond a hundred million days from the epoch; give milliseconds";
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        Ok(())
    }

    /// Begins a call: the limit on firings counts from here.
    ///
    /// Errors: `out_of_memory`.
    pub fn begin(&mut self) -> Result<(), Error> {
        self.recover();
        self.retried(|step| step.words.set(CALL_FIRED, 0))
    }

    /// Inserts a fact, and returns its number. If its time is later than the engine's, time moves there first, and rules fire
    /// that this makes due. Rules that the fact itself makes due fire in the next [`Engine::run`].
    ///
    /// # Errors
    ///
    /// `out_of_memory`, and `out_of_bounds` if there are too many facts, or if rules that are due need another run first. An
    /// error leaves the fact out.
    pub fn assert(&mut self, fact: &NewFact) -> Result<u64, Error> {
        self.assert_at(fact, 0)
    }

    /// Inserts a fact as [`Engine::assert`] does, and in the same step sets [`Engine::position`].
    ///
    /// Errors: as [`Engine::assert`].
    pub fn assert_at(&mut self, fact: &NewFact, position: u32) -> Result<u64, Error> {
        self.recover();
        self.insert(fact.ty, fact.time, &fact.values, position)
    }

    /// Inserts a fact as [`Engine::assert_at`] does: a type by number, its time, and the values of its fields in their order.
    /// Nothing is allocated for the fact besides its place among the others.
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
        self.insert(ty, time, values, position)
    }

    fn insert(&mut self, ty: usize, at: Option<i64>, values: &[Option<Value>], position: u32) -> Result<u64, Error> {
        let time = at.unwrap_or(i64::MIN).max(self.now().max(-(LATEST as i64)));
        self.advance(time)?;
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
            let fact = step.insert(ty, at.unwrap_or(time))?;
            if step.words.get(POSITION) != position {
                step.words.set(POSITION, position)?;
            }
            Ok(step.words.get64(fact + NUMBER))
        })
    }

    /// Returns the position that the last [`Engine::assert_at`] set.
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

    /// Retracts a fact. Rules that this makes due fire in the next [`Engine::run`].
    ///
    /// Errors: `not_found`, `out_of_memory`.
    pub fn retract(&mut self, id: u64) -> Result<(), Error> {
        self.recover();
        let Some((ty, fact)) = self.find(id) else {
            return Err(Error::new(Kind::NotFound, format!("there is no fact {id}; it was retracted or dropped")));
        };
        self.retried(|step| step.remove(ty, fact, true))
    }

    /// Returns the type and the address of a fact.
    fn find(&self, id: u64) -> Option<(usize, Address)> {
        let fact = NUMBERS.find(&self.words, id)?;
        Some((self.words.get(fact) as usize, fact))
    }

    /// Returns the time in milliseconds.
    pub fn now(&self) -> i64 {
        self.words.get64(CLOCK) as i64
    }

    /// Moves time to `now` milliseconds, if that is later. Rules fire that are due, and facts are dropped that no rule can use
    /// any more.
    ///
    /// # Errors
    ///
    /// `out_of_bounds` if the limit on firings or on notices stops it. Time has then moved as far as rules fired: take the
    /// notices, and advance again. `out_of_memory`.
    pub fn advance(&mut self, now: i64) -> Result<(), Error> {
        self.recover();
        if now.unsigned_abs() > LATEST {
            let message = "the time is beyond a hundred million days from the epoch; give milliseconds";
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        loop {
            if self.is_busy() {
                if let Some(pause) = self.run()?.pause {
                    let message = match pause {
                        Pause::Firings => {
                            "the call has fired as many rules as its limit allows; run on in another call"
                        }
                        Pause::Notices => "as many notices wait as the limit allows; take them, then run on",
                    };
                    return Err(Error::new(Kind::OutOfBounds, message));
                }
            }
            if self.now() > now {
                return Ok(());
            }
            let happened = self.retried(|step| {
                let Some((time, due)) = step.first_due(now) else { return Ok(false) };
                step.happen(time, due)?;
                Ok(true)
            })?;
            if !happened {
                if self.now() == now {
                    return Ok(());
                }
                return self.retried(|step| step.words.set64(CLOCK, now as u64));
            }
            // All that is due at one time happens before rules fire.
            let at = self.now();
            while self.retried(|step| match step.first_due(at) {
                Some((time, due @ crate::timers::Due::Match(_))) => {
                    step.happen(time, due)?;
                    Ok(true)
                }
                _ => Ok(false),
            })? {}
        }
    }

    /// Returns whether rules are on the agenda.
    pub fn is_busy(&self) -> bool {
        self.words.get(AGENDA) > 0 || MATCH_HEAP.len(&self.words) > 0
    }

    /// Fires rules until none is due, or a limit pauses the call.
    ///
    /// # Errors
    ///
    /// `out_of_memory`, and `out_of_bounds` if there are too many facts. The firings so far stand, and the one that does not fit
    /// stays due.
    pub fn run(&mut self) -> Result<Run, Error> {
        self.recover();
        loop {
            let firings = self.words.get(CALL_FIRED);
            if !self.is_busy() {
                return Ok(Run { firings, pause: None });
            }
            if self.words.get(NOTICES) >= self.limits.notices {
                return Ok(Run { firings, pause: Some(Pause::Notices) });
            }
            if firings >= self.limits.firings {
                return Ok(Run { firings, pause: Some(Pause::Firings) });
            }
            self.step()?;
        }
    }

    /// Takes the best entry of the agenda one step on.
    fn step(&mut self) -> Result<(), Error> {
        let is_recorded = self.record.is_some();
        let fired = self.retried(|step| {
            let mut bound: Bound = [0; SLOTS + 1];
            let number = match step.best() {
                None => return Ok(None),
                Some(Best::Seed(number)) => {
                    if !step.next_match(number, &mut bound)? {
                        return Ok(None);
                    }
                    let deadline = step.deadline(&step.program.rules[number as usize], &bound);
                    if deadline > step.clock() {
                        step.wait(number, &bound, deadline)?;
                        return Ok(None);
                    }
                    number
                }
                Some(Best::Match) => {
                    let (number, are_there) = step.pop_match(&mut bound)?;
                    let rule = &step.program.rules[number as usize];
                    if !are_there || !rule.guards.iter().all(|guard| step.guard_holds(guard, &mut bound)) {
                        return Ok(None);
                    }
                    number
                }
            };
            if is_recorded {
                let facts = bound.iter().take(step.program.rules[number as usize].slots.len());
                for (place, fact) in step.scratch.fired.iter_mut().zip(facts) {
                    *place = step.words.get64(fact + NUMBER);
                }
            }
            step.fire(number, &mut bound)?;
            Ok(Some(number))
        })?;
        if let (Some(record), Some(number)) = (&mut self.record, fired) {
            record.push((number, self.scratch.fired));
        }
        Ok(())
    }

    /// Records firings from now on. The record grows until [`Engine::take_record`].
    pub fn record(&mut self) {
        self.record = Some(Vec::new());
    }

    /// Returns the rules and the numbers of their facts, firing by firing, since the record was taken last.
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

    /// Returns the notices that wait, and empties their list.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.recover();
        let length = self.words.get(NOTICE_WORDS) as usize;
        let notices = notices::read(&self.program, &self.scratch.notices[..length]);
        // Two words have room in any log.
        let emptied = self.retried(|step| {
            step.words.set(NOTICE_WORDS, 0)?;
            step.words.set(NOTICES, 0)
        });
        debug_assert!(emptied.is_ok());
        notices
    }

    /// Returns all facts of a type, newest first.
    ///
    /// Errors: `unknown_attribute`.
    pub fn facts(&self, ty: &str) -> Result<Vec<Fact>, Error> {
        let ty = &self.program.types[self.fact_type(ty)?];
        let mut facts = Vec::with_capacity(ty.count(&self.words) as usize);
        let mut fact = ty.newest(&self.words);
        while fact != 0 {
            let fields = ty.fields.iter().enumerate().map(|(number, field)| {
                let value = ty.cell(&self.words, fact, number).map(|cell| self.owned(field.kind, cell));
                (field.name.clone(), value)
            });
            facts.push(Fact {
                id: self.words.get64(fact + NUMBER),
                ty: ty.name.clone(),
                at: self.words.get64(fact + TIME) as i64,
                fields: fields.collect(),
            });
            fact = self.words.get(fact + ty.links(0));
        }
        Ok(facts)
    }

    fn owned(&self, kind: FieldKind, cell: u64) -> Owned {
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

    /// Returns the number of all facts.
    pub fn len(&self) -> u32 {
        self.words.get(FACTS)
    }

    /// Returns whether there is no fact.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of firings since the engine was made.
    pub fn firings(&self) -> u64 {
        self.words.get64(FIRED)
    }

    /// Returns the number of facts that were ever inserted.
    pub fn asserted(&self) -> u64 {
        self.words.get64(NEXT) - 1
    }

    /// Returns the number of bytes that the facts and their indices take, free room included.
    pub fn memory_bytes(&self) -> usize {
        self.words.bytes() + 4 * self.scratch.notices.capacity()
    }

    /// Returns the number of bytes that were ever needed at the same time.
    pub fn used_bytes(&self) -> usize {
        self.words.used()
    }

    /// Returns the milliseconds after which a fact of this type is dropped, or `None` if it is kept.
    ///
    /// Errors: `unknown_attribute`.
    pub fn life(&self, ty: &str) -> Result<Option<i64>, Error> {
        Ok(self.program.types[self.fact_type(ty)?].life)
    }

    /// Returns, for each rule in order (alternatives are rules of their own) and for each condition that may bind the newest fact,
    /// the positions of the other conditions in the order in which they are joined.
    pub fn join_order(&self) -> Vec<(String, Vec<Vec<usize>>)> {
        let order =
            |plan: &crate::compile::program::Plan| plan.steps.iter().map(|step| step.probe.slot.into()).collect();
        self.program.rules.iter().map(|rule| (rule.name.clone(), rule.plans.iter().map(order).collect())).collect()
    }
}

/// The latest time, in milliseconds from the epoch: so far from the ends of 64 bits that durations can be added.
const LATEST: u64 = 100_000_000 * 86_400_000;
