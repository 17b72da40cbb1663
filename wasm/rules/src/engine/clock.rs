//! The clock: the watermark, the sources of facts with their event times, and the facts waiting for the watermark.

use crate::clock::MAX_TIME;
use crate::engine::{Engine, Fact};
use crate::error::{quoted, Error, Kind as ErrorKind};
use crate::layout::{EVENT, FLOOR, LATENESS};
use crate::memory::order::{time, ID, REST};
use crate::memory::{Address, StringTable};
use crate::tables::{SOURCES, SOURCE_NAMES, WAITING};
use crate::time::sources::{
    self, event_time, find, first_time, get, given, hash, watermark, EventTimes, Source, MAX_SOURCES, MAX_SOURCE_NAME,
    NAME,
};
use crate::time::waiting::{self, field, TYPE};

impl Engine {
    /// Returns the time of the earliest waiting fact.
    pub(crate) fn first_waiting(&self) -> Option<i64> {
        WAITING.first(&self.words).map(|block| time(&self.words, block))
    }

    /// Inserts the earliest waiting fact. The engine's time has reached the fact's time.
    pub(crate) fn insert_first_waiting(&mut self) -> Result<(), Error> {
        self.retried(|step| match WAITING.first(step.words) {
            Some(block) => waiting::stop_waiting(step, block),
            None => Ok(()),
        })
    }

    /// Returns the number of facts waiting for the watermark.
    pub fn waiting_len(&self) -> u32 {
        WAITING.len(&self.words)
    }

    /// Returns at most `most` waiting facts from the place `from` on, in no order.
    pub fn waiting(&self, from: u32, most: u32) -> Vec<Fact> {
        let places = from..from.saturating_add(most).min(self.waiting_len());
        places.filter_map(|place| WAITING.at(&self.words, place)).map(|block| self.waiting_fact(block)).collect()
    }

    fn waiting_fact(&self, block: Address) -> Fact {
        let ty = &self.program.types[self.words.get(block + TYPE) as usize];
        let fields = ty.fields.iter().enumerate().map(|(number, declared)| {
            let value = field(&self.words, block, number).map(|cell| self.owned(declared.kind, cell));
            (declared.name.clone(), value)
        });
        Fact {
            id: self.words.get64(block + ID),
            ty: ty.name.clone(),
            at: time(&self.words, block),
            fields: fields.collect(),
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
            return Err(Error::new(ErrorKind::OutOfBounds, message));
        }
        self.recover();
        self.retried(|step| step.words.set64(LATENESS, lateness as u64))
    }

    /// Returns the allowed lateness of a fact in milliseconds.
    pub fn lateness(&self) -> i64 {
        get(&self.words, LATENESS)
    }

    /// Checks that a source exists or can be added.
    ///
    /// Errors: `out_of_bounds`.
    pub fn check_source(&self, source: Source) -> Result<(), Error> {
        let Some(name) = source else { return Ok(()) };
        if name.is_empty() || name.len() > MAX_SOURCE_NAME {
            let message = format!(
                "the name of a source has from 1 to {MAX_SOURCE_NAME} bytes, but this one has {}; give another one",
                name.len()
            );
            return Err(Error::new(ErrorKind::OutOfBounds, message));
        }
        if SOURCES.len(&self.words) >= MAX_SOURCES && find(&self.words, name).is_none() {
            let message = format!(
                "there are {MAX_SOURCES} sources, as many as there may be, and {} is another one; end one, or give fewer names",
                quoted(&String::from_utf8_lossy(name))
            );
            return Err(Error::new(ErrorKind::OutOfBounds, message));
        }
        Ok(())
    }

    /// Returns the time of a fact of a source: its own, or the event time of the source. The first time defaults to 0.
    pub fn time_of(&self, time: Option<i64>, source: Source) -> i64 {
        time.or_else(|| given(event_time(&self.words, source).max(self.now()))).unwrap_or(0)
    }

    /// Returns the watermark that follows once the event time of a source reaches `time`.
    pub fn watermark_at(&self, time: i64, source: Source) -> i64 {
        let words = &self.words;
        let (unnamed, first) = match source {
            None => (Some(time.max(get(words, EVENT))), first_time(words)),
            Some(name) => {
                let block = find(words, name);
                let own = block.map_or(time, |block| time.max(crate::memory::order::time(words, block)));
                let others = match block {
                    Some(block) => SOURCES.first_time_without(words, block),
                    None => first_time(words),
                };
                (given(get(words, EVENT)), Some(others.map_or(own, |others| others.min(own))))
            }
        };
        watermark(words, unnamed, first, get(words, FLOOR))
    }

    /// Returns the watermark that follows once the event times of all sources reach `time`.
    pub fn watermark_of_all_at(&self, time: i64) -> i64 {
        let words = &self.words;
        watermark(words, given(get(words, EVENT)), first_time(words), time.max(get(words, FLOOR)))
    }

    /// Returns the watermark that follows once this source ends.
    pub fn watermark_without(&self, source: &[u8]) -> i64 {
        let words = &self.words;
        let first = match find(words, source) {
            Some(block) => SOURCES.first_time_without(words, block),
            None => first_time(words),
        };
        watermark(words, given(get(words, EVENT)), first, get(words, FLOOR))
    }

    /// Records that the event time of a source has reached `time`. The engine's time is at [`Engine::watermark_at`] already.
    ///
    /// Errors: `out_of_memory`.
    pub fn reach(&mut self, time: i64, source: Source) -> Result<(), Error> {
        self.retried(|step| sources::raise_event_time(step, time, source))
    }

    /// Raises the event time of all sources to `time`. The caller has moved the watermark to [`Engine::watermark_of_all_at`] before.
    ///
    /// Errors: `out_of_memory`.
    pub fn reach_all(&mut self, time: i64) -> Result<(), Error> {
        self.retried(|step| if time > get(step.words, FLOOR) { step.words.set64(FLOOR, time as u64) } else { Ok(()) })
    }

    /// Forgets a source, so that it holds the watermark back no more. The caller has moved the watermark to [`Engine::watermark_without`] before.
    ///
    /// Errors: `out_of_memory`.
    pub fn forget_source(&mut self, source: &[u8]) -> Result<(), Error> {
        let Some(block) = find(&self.words, source) else { return Ok(()) };
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

    /// Returns the latest event time, or `None` before the first fact.
    pub fn latest(&self) -> Option<i64> {
        let words = &self.words;
        let named = self.source_blocks().map(|block| time(words, block)).max().unwrap_or(i64::MIN);
        given(named.max(get(words, EVENT)).max(get(words, FLOOR)).max(self.now()))
    }

    /// Returns the time that [`Engine::reach_all`] has raised all sources to, if any, and the known sources with their own event
    /// times, in no order. Facts without a source belong to the source `None`.
    pub fn sources(&self) -> (Option<i64>, EventTimes) {
        let words = &self.words;
        let unnamed = given(get(words, EVENT)).map(|time| (None, time));
        let named = self
            .source_blocks()
            .map(|block| (Some(StringTable::bytes(words, words.get(block + NAME))), time(words, block)));
        (given(get(words, FLOOR)), unnamed.into_iter().chain(named).collect())
    }

    fn source_blocks(&self) -> impl Iterator<Item = Address> + '_ {
        (0..SOURCES.len(&self.words)).filter_map(|place| SOURCES.at(&self.words, place))
    }
}
