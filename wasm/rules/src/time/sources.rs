//! Event time, sources and the watermark.
//!
//! The event time of a source is the time of its latest fact, or what a call said that it has reached. The watermark is the earliest
//! event time of the sources that were seen, minus the lateness, and never goes back. It is the time of the engine: facts are inserted,
//! windows close and facts are dropped by it. So a fact that is late by no more than the lateness finds everything as if it had not
//! been late: the watermarks of Akidau et al. ("The Dataflow Model", 2015), with a bound on disorder as in Flink.
//!
//! Facts without a source are those of one more source, whose event time is a word of its own. It counts once such a fact came.

use crate::engine::{Engine, LATEST};
use crate::error::{quoted, Error, Kind as ErrorKind};
use crate::memory::order::{time, AT, ID, REST};
use crate::memory::{mix, Address, Full, StringTable, Words};
use crate::step::{Step, CLOCK, EVENT, FLOOR, LATENESS, SOURCES, SOURCE_NAMES, STRINGS};

/// The name of the source of a fact, or `None` for facts without one.
pub type Source<'a> = Option<&'a [u8]>;

/// Sources with their event times.
pub type EventTimes = Vec<(Option<Vec<u8>>, i64)>;

/// The most sources.
pub const MAX_SOURCES: u32 = 10_000;
/// The most bytes of the name of a source.
pub const MAX_SOURCE_NAME: usize = 255;

/// The offset of the address of a source's name.
const NAME: Address = 0;

/// Returns the block of a source that was seen.
fn find(words: &Words, name: &[u8]) -> Option<Address> {
    let string = STRINGS.find(words, name)?;
    let found = SOURCE_NAMES.find(words, hash(string), |block| words.get(block + NAME) == string);
    found.map(|(_, block)| block)
}

fn hash(string: Address) -> u32 {
    mix(1, string.into()) as u32
}

fn get(words: &Words, address: Address) -> i64 {
    words.get64(address) as i64
}

/// Returns a time unless it is none.
fn given(time: i64) -> Option<i64> {
    (time > i64::MIN).then_some(time)
}

/// Returns the event time of a source, `i64::MIN` without one.
fn event_time(words: &Words, source: Source) -> i64 {
    let own = match source {
        None => get(words, EVENT),
        Some(name) => find(words, name).map_or(i64::MIN, |block| time(words, block)),
    };
    own.max(get(words, FLOOR))
}

/// Returns the watermark for these event times of the unnamed source, of the earliest other one, and of all.
fn watermark(words: &Words, unnamed: Option<i64>, first: Option<i64>, floor: i64) -> i64 {
    let earliest = match (unnamed, first) {
        (Some(one), Some(other)) => one.min(other),
        (one, other) => one.or(other).unwrap_or(i64::MIN),
    };
    earliest.max(floor).saturating_sub(get(words, LATENESS)).max(get(words, CLOCK))
}

fn first_time(words: &Words) -> Option<i64> {
    SOURCES.first(words).map(|block| time(words, block))
}

impl Engine {
    /// Sets the milliseconds by which a fact may be late, from 0. The watermark does not go back if they are more than before.
    ///
    /// Errors: `out_of_bounds`, `out_of_memory`.
    pub fn set_lateness(&mut self, lateness: i64) -> Result<(), Error> {
        if lateness < 0 || lateness as u64 > LATEST {
            let message = "the lateness is below 0 or beyond a hundred million days; give milliseconds";
            return Err(Error::new(ErrorKind::OutOfBounds, message));
        }
        self.recover();
        self.retried(|step| step.words.set64(LATENESS, lateness as u64))
    }

    /// Returns the milliseconds by which a fact may be late.
    pub fn lateness(&self) -> i64 {
        get(&self.words, LATENESS)
    }

    /// Checks that a source exists or that another one may.
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

    /// Returns the time of a fact of a source: its own, or else the event time of the source. Time begins at 0 if nothing says otherwise.
    pub fn time_of(&self, time: Option<i64>, source: Source) -> i64 {
        time.or_else(|| given(event_time(&self.words, source).max(self.now()))).unwrap_or(0)
    }

    /// Returns the time of the engine, the watermark, once the event time of a source has reached `time`.
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

    /// Returns the time of the engine, the watermark, once the event times of all sources have reached `time`.
    pub fn watermark_of_all_at(&self, time: i64) -> i64 {
        let words = &self.words;
        watermark(words, given(get(words, EVENT)), first_time(words), time.max(get(words, FLOOR)))
    }

    /// Returns the watermark without a source, for the end of that source.
    pub fn watermark_without(&self, source: &[u8]) -> i64 {
        let words = &self.words;
        let first = match find(words, source) {
            Some(block) => SOURCES.first_time_without(words, block),
            None => first_time(words),
        };
        watermark(words, given(get(words, EVENT)), first, get(words, FLOOR))
    }

    /// Notes that the event time of a source has reached `time`. The engine's time is at [`Engine::watermark_at`] already.
    ///
    /// Errors: `out_of_memory`.
    pub fn reach(&mut self, time: i64, source: Source) -> Result<(), Error> {
        self.retried(|step| step.raise_event_time(time, source))
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

    /// Returns the latest event time, or `None` if nothing came.
    pub fn latest(&self) -> Option<i64> {
        let words = &self.words;
        let named = self.source_blocks().map(|block| time(words, block)).max().unwrap_or(i64::MIN);
        given(named.max(get(words, EVENT)).max(get(words, FLOOR)).max(self.now()))
    }

    /// Returns the time that all sources have reached by [`Engine::reach_all`], if there is one, and the sources that were seen with their
    /// own event times, in no order. The facts without a source are the one without a name.
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

impl Step<'_> {
    /// Raises the event time of a source, which is seen from then on.
    pub fn raise_event_time(&mut self, time: i64, source: Source) -> Result<(), Full> {
        let Some(name) = source else {
            return if time > get(self.words, EVENT) { self.words.set64(EVENT, time as u64) } else { Ok(()) };
        };
        if let Some(block) = find(self.words, name) {
            if time > crate::memory::order::time(self.words, block) {
                SOURCES.set_time(self.words, block, time)?;
            }
            return Ok(());
        }
        let string = STRINGS.intern(self.words, name)?;
        STRINGS.retain(self.words, string)?;
        let block = self.words.allocate(REST)?;
        self.words.raw(block + NAME, string);
        self.words.raw64(block + AT, time as u64);
        self.words.raw64(block + ID, string.into());
        SOURCE_NAMES.insert(self.words, hash(string), block)?;
        SOURCES.push(self.words, block)
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
