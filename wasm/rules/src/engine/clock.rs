//! The clock: the watermark, the sources of facts with their event times, and the next event.

use crate::clock::{check_time, MAX_TIME};
use crate::engine::{Call, Engine};
use crate::error::{quoted, Error, Kind};
use crate::layout::{CLOCK, EVENT, FLOOR, LATENESS};
use crate::matches::agenda::MATCH_DEADLINE;
use crate::memory::order::{time, REST};
use crate::memory::{Address, StringTable, Words};
use crate::tables::{DEADLINES, SOURCES, SOURCE_NAMES, WAITING};
use crate::time::sources::{
    self, event_time, find, first_time, get, hash, if_set, watermark, Source, MAX_SOURCES, MAX_SOURCE_NAME, NAME,
};

/// A report about the event time of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTime<'n> {
    /// All sources have reached this time in milliseconds.
    OfAll(i64),
    /// A source has reached this time in milliseconds.
    Of(Source<'n>, i64),
    /// A source has ended, and no longer holds time back. Facts without a source have no end.
    End(Source<'n>),
}

/// The times of an engine, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock<'e> {
    pub(super) words: &'e Words,
    pub(super) call: Call,
}

impl<'e> Clock<'e> {
    /// Returns the engine's time: the watermark, which is the event time minus the lateness.
    pub fn now(self) -> i64 {
        get(self.words, CLOCK)
    }

    /// Returns the earliest time at which [`Engine::advance`] of all sources would do anything besides dropping facts.
    pub fn next_due(self) -> Option<i64> {
        let deadline = DEADLINES.first(self.words).map(|block| get(self.words, block + MATCH_DEADLINE));
        let waiting = WAITING.first(self.words).map(|block| time(self.words, block));
        let first = deadline.into_iter().chain(waiting).min()?;
        Some(first.saturating_add(self.lateness()))
    }

    /// Returns the allowed lateness of a fact.
    pub fn lateness(self) -> i64 {
        get(self.words, LATENESS)
    }

    /// Returns the latest event time, or `None` before the first fact.
    pub fn latest(self) -> Option<i64> {
        let named = self.source_blocks().map(|block| time(self.words, block)).max().unwrap_or(i64::MIN);
        if_set(named.max(get(self.words, EVENT)).max(get(self.words, FLOOR)).max(self.now()))
    }

    /// Returns the event time that all sources have reached, if it was reported.
    pub fn floor(self) -> Option<i64> {
        if_set(get(self.words, FLOOR))
    }

    /// Returns the known sources with their own event times, in no order. Facts without a source belong to the source `None`.
    pub fn sources(self) -> Vec<(Option<Vec<u8>>, i64)> {
        let unnamed = if_set(get(self.words, EVENT)).map(|time| (None, time));
        let name = |block| StringTable::bytes(self.words, self.words.get(block + NAME));
        let named = self.source_blocks().map(|block| (Some(name(block)), time(self.words, block)));
        unnamed.into_iter().chain(named).collect()
    }

    fn source_blocks(self) -> impl Iterator<Item = Address> + 'e {
        (0..SOURCES.len(self.words)).filter_map(move |place| SOURCES.at(self.words, place))
    }

    /// Checks a report about event time: its time is within the bounds, and its source exists or can be added.
    ///
    /// Errors: `out_of_bounds`.
    pub fn check(self, event_time: EventTime) -> Result<(), Error> {
        match event_time {
            EventTime::OfAll(time) => check_time(time),
            EventTime::Of(source, time) => check_time(time).and_then(|()| self.check_source(source)),
            EventTime::End(_) => Ok(()),
        }
    }

    /// Checks that a source exists or can be added.
    ///
    /// Errors: `out_of_bounds`.
    pub fn check_source(self, source: Source) -> Result<(), Error> {
        let Some(name) = source else { return Ok(()) };
        if name.is_empty() || name.len() > MAX_SOURCE_NAME {
            let message = format!(
                "the name of a source has from 1 to {MAX_SOURCE_NAME} bytes, but this one has {}; give another one",
                name.len()
            );
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        if SOURCES.len(self.words) >= MAX_SOURCES && find(self.words, name).is_none() {
            let message = format!(
                "there are {MAX_SOURCES} sources, as many as there may be, and {} is another one; end one, or give fewer names",
                quoted(&String::from_utf8_lossy(name))
            );
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        Ok(())
    }

    /// Returns the time of a fact of a source: its own, or the event time of the source. The first time defaults to 0.
    pub(super) fn time_of(self, time: Option<i64>, source: Source) -> i64 {
        time.or_else(|| if_set(event_time(self.words, source).max(self.now()))).unwrap_or(0)
    }

    /// Returns the watermark that follows the arrival of a fact with this time from a source.
    pub fn after_arrival(self, time: Option<i64>, source: Source) -> i64 {
        match self.call {
            Call::ReloadWaiting => self.now(),
            Call::Reload => self.time_of(time, source).max(self.now()),
            Call::Fire | Call::FireAtMost(_) => self.after(EventTime::Of(source, self.time_of(time, source))),
        }
    }

    /// Returns the watermark that follows a report about event time.
    pub fn after(self, event_time: EventTime) -> i64 {
        let words = self.words;
        let (unnamed, first, floor) = (if_set(get(words, EVENT)), first_time(words), get(words, FLOOR));
        match event_time {
            // The times of reloaded facts lie before the watermark already.
            EventTime::OfAll(now) if self.call.is_quiet() => now,
            EventTime::OfAll(now) => watermark(words, unnamed, first, now.max(floor)),
            EventTime::Of(None, at) => watermark(words, Some(at.max(get(words, EVENT))), first, floor),
            EventTime::Of(Some(name), at) => {
                let (at, others) = match find(words, name) {
                    Some(block) => (at.max(time(words, block)), SOURCES.first_time_without(words, block)),
                    None => (at, first),
                };
                watermark(words, unnamed, Some(others.map_or(at, |others| others.min(at))), floor)
            }
            EventTime::End(None) => self.now(),
            EventTime::End(Some(name)) => {
                let block = find(words, name);
                let others = block.map_or(first, |block| SOURCES.first_time_without(words, block));
                watermark(words, unnamed, others, floor)
            }
        }
    }
}

impl Engine {
    /// Sets the allowed lateness of a fact in milliseconds, at least 0. Raising it does not move the watermark back.
    ///
    /// Errors: `out_of_bounds`, `out_of_memory`.
    pub fn set_lateness(&mut self, lateness: i64) -> Result<(), Error> {
        if lateness < 0 || lateness as u64 > MAX_TIME {
            let message = "the lateness is below 0 or beyond a hundred million days; give milliseconds";
            return Err(Error::new(Kind::OutOfBounds, message));
        }
        self.recover();
        self.retried(|step| step.words.set64(LATENESS, lateness as u64))
    }

    /// Records a report about event time. The engine's time is at [`Clock::after`] already.
    ///
    /// Errors: `out_of_memory`.
    pub fn reach(&mut self, event_time: EventTime) -> Result<(), Error> {
        match event_time {
            EventTime::OfAll(_) if self.call.is_quiet() => Ok(()),
            EventTime::OfAll(time) => self.raise_floor(time),
            EventTime::Of(source, time) => self.retried(|step| sources::raise_event_time(step, time, source)),
            EventTime::End(source) => {
                let Some(block) = source.and_then(|name| find(&self.words, name)) else { return Ok(()) };
                self.retried(|step| {
                    let name = step.words.get(block + NAME);
                    if let Some((at, _)) = SOURCE_NAMES.find(step.words, hash(name), |found| found == block) {
                        SOURCE_NAMES.remove(step.words, at)?;
                    }
                    SOURCES.remove(step.words, block)?;
                    step.release(name)?;
                    step.words.free(block, REST)
                })
            }
        }
    }

    /// Raises the event times of all sources.
    pub(super) fn raise_floor(&mut self, time: i64) -> Result<(), Error> {
        self.retried(|step| if time > get(step.words, FLOOR) { step.words.set64(FLOOR, time as u64) } else { Ok(()) })
    }
}
