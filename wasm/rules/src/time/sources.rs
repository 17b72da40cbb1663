//! Event time, sources and the watermark.
//!
//! The event time of a source is the time of its latest fact, or a later time that a call reported for it. The watermark is the
//! earliest event time of the known sources minus the lateness, and never goes back. It is the engine's time: it decides when facts
//! are inserted, windows close and facts expire. So a fact that is at most `lateness` late is treated as if it were on time: the
//! watermarks of Akidau et al. ("The Dataflow Model", 2015), with bounded disorder as in Flink.
//!
//! Facts without a source form one more source, with its event time in a word of its own. It counts once such a fact has come.

use crate::layout::{CLOCK, EVENT, FLOOR, LATENESS};
use crate::memory::order::time;
use crate::memory::order::{AT, ID, REST};
use crate::memory::{mix, Address, Full, Words};
use crate::step::Step;
use crate::tables::{SOURCES, SOURCE_NAMES, STRINGS};

/// The name of the source of a fact, or `None` for facts without one.
pub type Source<'a> = Option<&'a [u8]>;

/// The most sources.
pub const MAX_SOURCES: u32 = 10_000;
/// The most bytes of the name of a source.
pub const MAX_SOURCE_NAME: usize = 255;

/// The offset of the address of a source's name.
pub(crate) const NAME: Address = 0;

/// Returns the block of a known source.
pub(crate) fn find(words: &Words, name: &[u8]) -> Option<Address> {
    let string = STRINGS.find(words, name)?;
    let found = SOURCE_NAMES.find(words, hash(string), |block| words.get(block + NAME) == string);
    found.map(|(_, block)| block)
}

pub(crate) fn hash(string: Address) -> u32 {
    mix(1, string.into()) as u32
}

pub(crate) fn get(words: &Words, address: Address) -> i64 {
    words.get64(address) as i64
}

/// Maps `i64::MIN`, which marks an unset time, to `None`.
pub(crate) fn if_set(time: i64) -> Option<i64> {
    (time > i64::MIN).then_some(time)
}

/// Returns the event time of a source, or `i64::MIN` if it has none.
pub(crate) fn event_time(words: &Words, source: Source) -> i64 {
    let time = match source {
        None => get(words, EVENT),
        Some(name) => find(words, name).map_or(i64::MIN, |block| time(words, block)),
    };
    time.max(get(words, FLOOR))
}

/// Returns the watermark, given the event times of the unnamed source, of the earliest named one, and of all.
pub(crate) fn watermark(words: &Words, unnamed: Option<i64>, first: Option<i64>, floor: i64) -> i64 {
    let earliest = match (unnamed, first) {
        (Some(one), Some(other)) => one.min(other),
        (one, other) => one.or(other).unwrap_or(i64::MIN),
    };
    earliest.max(floor).saturating_sub(get(words, LATENESS)).max(get(words, CLOCK))
}

pub(crate) fn first_time(words: &Words) -> Option<i64> {
    SOURCES.first(words).map(|block| time(words, block))
}

/// Raises the event time of a source, which counts from then on.
pub(crate) fn raise_event_time(step: &mut Step, time: i64, source: Source) -> Result<(), Full> {
    let Some(name) = source else {
        return if time > get(step.words, EVENT) { step.words.set64(EVENT, time as u64) } else { Ok(()) };
    };
    if let Some(block) = find(step.words, name) {
        if time > crate::memory::order::time(step.words, block) {
            SOURCES.set_time(step.words, block, time)?;
        }
        return Ok(());
    }
    let string = STRINGS.intern(step.words, name)?;
    STRINGS.retain(step.words, string)?;
    let block = step.words.allocate(REST)?;
    step.words.raw(block + NAME, string);
    step.words.raw64(block + AT, time as u64);
    step.words.raw64(block + ID, string.into());
    SOURCE_NAMES.insert(step.words, hash(string), block)?;
    SOURCES.push(step.words, block)
}
