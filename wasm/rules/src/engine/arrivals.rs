//! The arrival and the retraction of facts.

use crate::announce::GROUP;
use crate::compile::code::Kind as FieldKind;
use crate::engine::Engine;
use crate::error::{Error, Kind};
use crate::facts::change::{self, Removal};
use crate::layout::{ASSERTED, CALL_LATE, LATE, NUMBER, POSITION};
use crate::tables::{NUMBERS, STRINGS};
use crate::time::sources::{self, Source};
use crate::time::waiting::{self, WAITS};
use crate::value::Value;

/// A checked fact before its insertion, see [`Types::fact`](crate::Types::fact).
#[derive(Clone, Debug, PartialEq)]
pub struct NewFact<'v> {
    pub(super) ty: usize,
    pub(super) time: Option<i64>,
    pub(super) values: Vec<Option<Value<'v>>>,
}

/// The arrival of a fact.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'v> {
    /// The number of its type.
    pub ty: usize,
    /// Its time in milliseconds. Without one, the fact gets the time of its arrival.
    pub time: Option<i64>,
    /// The values of its fields, one for each field of the type.
    pub values: &'v [Option<Value<'v>>],
    /// Its source.
    pub source: Source<'v>,
    /// The position in the call's input behind the fact, see [`Progress::position`](crate::Progress::position).
    pub position: u32,
}

impl<'v> Arrival<'v> {
    /// Returns the arrival of a fact without a source, and without a position.
    pub fn new(ty: usize, time: Option<i64>, values: &'v [Option<Value<'v>>]) -> Self {
        Arrival { ty, time, values, source: None, position: 0 }
    }
}

impl<'v> From<&'v NewFact<'v>> for Arrival<'v> {
    fn from(fact: &'v NewFact) -> Self {
        Arrival::new(fact.ty, fact.time, &fact.values)
    }
}

impl Engine {
    /// Inserts a fact, and returns its number. Time moves to the watermark that follows, and rules due by then fire. Rules that the
    /// fact itself makes due fire in the next [`Engine::run`]. A fact beyond the watermark waits, and already has its number.
    ///
    /// # Errors
    ///
    /// Those of [`Types::check`](crate::Types::check) and [`Clock::check_source`](crate::Clock::check_source); `out_of_memory`;
    /// `out_of_bounds` if there are too many facts, or if due rules need another run first. After an error the fact is not inserted.
    pub fn assert<'v>(&mut self, fact: impl Into<Arrival<'v>>) -> Result<u64, Error> {
        let fact = fact.into();
        self.recover();
        self.types().check(fact.ty, fact.time, fact.values)?;
        self.clock().check_source(fact.source)?;
        self.all_turns(self.clock().after_arrival(fact.time, fact.source))?;
        self.insert(fact)
    }

    /// Inserts a checked fact once time is at [`Clock::after_arrival`](crate::Clock::after_arrival) and no rule is due. Returns its
    /// number. A fact beyond the watermark waits.
    ///
    /// Errors: `out_of_memory`, `out_of_bounds` if there are too many facts.
    pub fn insert(&mut self, fact: Arrival) -> Result<u64, Error> {
        let Arrival { ty, values, source, position, .. } = fact;
        let time = self.clock().time_of(fact.time, source);
        let is_reloaded = self.call.is_quiet();
        self.has_changed_facts = true;
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
            // A reloaded fact was counted at its first arrival.
            if !is_reloaded {
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
        let now = self.clock().now();
        self.announced.load(&self.program, &self.words, now);
    }

    /// Retracts a fact, and adds one to the call's position in the same step. Rules that become due fire in the next
    /// [`Engine::run`].
    ///
    /// Errors: `not_found`, `out_of_memory`.
    pub fn retract(&mut self, id: u64) -> Result<(), Error> {
        self.recover();
        self.has_changed_facts = true;
        let Some(fact) = NUMBERS.find(&self.words, id) else {
            return Err(Error::new(Kind::NotFound, format!("there is no fact {id}; it was retracted or dropped")));
        };
        self.retried(|step| {
            match step.words.get(fact) {
                WAITS => waiting::free_waiting(step, fact)?,
                ty => change::remove(step, ty as usize, fact, Removal::Retraction)?,
            }
            step.words.set(POSITION, step.words.get(POSITION) + 1)
        })
    }
}
