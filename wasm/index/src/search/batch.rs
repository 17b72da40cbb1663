//! A batch searches for many events in one call. The results stand one behind the other.
//!
//! Events are processed in groups of 256. If there are many dense expressions and many events, the batch first decodes only the
//! booleans of a group, and evaluates the dense expressions for all events of the group at once (`bit_sliced`). Each event's
//! search then takes over the results. Otherwise each event is searched alone. So a batch costs at most slightly more than
//! separate searches.
//!
//! The result is returned in parts, so that its memory does not grow with the number of events. A part ends with the event
//! that fills it. Like a search, a batch can be interrupted anywhere and resumed: it has a checkpoint besides the search's.

use std::iter::Map;
use std::slice::Iter;

use crate::boolean::bit_sliced::bits::EVENTS;
use crate::boolean::bit_sliced::Sliced;
use crate::cost;
use crate::error::{Error, Kind};
use crate::event::Encoding;
use crate::handles::Slot;
use crate::index::Index;
use crate::room::{Extent, Searches};
use crate::search::pick::ROOM;
use crate::search::{Dense, Form, Search};
use crate::support::checkpoint::Checkpoint;
use crate::support::hash::out_of_memory;

/// The words of a result list beyond those of one event. An index without a smaller bound permits bitmaps of this length.
const SPARE_WORDS: usize = 16 * 1024;
/// A part ends at this number of words. The remaining room is for picking the ids of the next event.
const PART: usize = SPARE_WORDS - ROOM;

/// The bytes in front of each event: its format and its length.
const FRAME: usize = 8;

/// Returns whether bit-sliced evaluation may be worthwhile. A deletion never changes the result to true.
fn is_sliceable(dense: usize, slots: usize) -> bool {
    dense >= cost::MIN_SLICED_EXPRESSIONS && dense >= slots / (cost::MAX_OTHERS_PER_SLICED + 1)
}

/// Returns the number of words that a result list needs.
pub(super) fn max_words(extent: &Extent) -> usize {
    SPARE_WORDS + extent.slots.max(bitmap_words(extent.slots, extent.greatest)) + 3
}

/// Returns the maximal words of a bitmap: one for each slot, at least [`SPARE_WORDS`], or fewer if the greatest id needs fewer.
pub(super) fn bitmap_words(slots: usize, greatest: Option<u64>) -> usize {
    let most = slots.max(SPARE_WORDS);
    // An id may be too large for a position in memory.
    greatest.map_or(most, |id| usize::try_from(id / 64).map_or(most, |word| most.min(word.saturating_add(1))))
}

/// A batch searches for many events with one [`Search`].
///
/// ```
/// use be_tree_index::index::{Index, Insertion};
/// use be_tree_index::search::{Batch, Form, Request, Search};
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// index.insert(&Insertion { id: 1, text: b"age > 30", constants: vec![] })?;
/// index.insert(&Insertion { id: 2, text: b"age < 60", constants: vec![] })?;
/// let (mut search, mut batch) = (Search::default(), Batch::default());
/// search.reserve(&index)?;
/// batch.reserve(&index)?;
///
/// // Each event is preceded by its format and its length.
/// const JSON: u32 = 1;
/// let mut message = Vec::new();
/// let events: [&[u8]; 2] = [br#"{"age": 40}"#, br#"{"age": 20}"#];
/// for event in events {
///     message.extend(JSON.to_le_bytes());
///     message.extend((event.len() as u32).to_le_bytes());
///     message.extend(event);
/// }
/// batch.open(Request { events: 2, bytes: message.len(), only: None, form: Form::Ids });
/// let mut results = Vec::new();
/// while !batch.is_done() {
///     batch.next_part();
///     let part = batch.run(&index, &mut search, &message, || ()).map_err(|(_, error)| error)?;
///     results.extend_from_slice(part);
/// }
/// // The number of ids of each event, and then its ids.
/// assert_eq!(results, [2, 1, 2, 1, 2]);
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Batch {
    request: Request,
    /// The current group. The step that begins a group sets it. If repeated, it sets the same value.
    group: Group,
    sliced: Sliced,
    /// For each event of a bit-sliced group, the number of values that counted as undefined. The step that decodes the event sets it.
    mismatches: Vec<u32>,
    checkpoint: Checkpoint<Progress>,
}

/// Up to 256 events that are searched one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Group {
    /// The first event.
    first: Cursor,
    /// The number of events.
    len: u32,
    /// The dense expressions are evaluated for all events of the group at once.
    is_sliced: bool,
}

/// The caller's work between the steps of a batch.
pub trait Steps {
    /// Whether [`Steps::found`] reads the events. Each event is then searched alone.
    const READS_EVENTS: bool = false;

    /// Called after each step.
    ///
    /// # Errors
    ///
    /// An error ends the batch.
    fn committed(&mut self) -> Result<(), Error>;

    /// Called once for each event, when its search is finished. The result is final once `commit` was called; before that the event
    /// is searched again after an interruption.
    ///
    /// # Errors
    ///
    /// An error ends the batch.
    fn found(&mut self, search: &Search, commit: impl FnOnce()) -> Result<(), Error> {
        let _unread = search;
        commit();
        Ok(())
    }
}

impl<F: FnMut()> Steps for F {
    fn committed(&mut self) -> Result<(), Error> {
        self();
        Ok(())
    }
}

/// The request of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The number of events.
    pub events: u32,
    /// The bytes of all events. Each event is preceded by its format and its length, two little-endian `u32`.
    pub bytes: usize,
    /// The length in bytes of the packed ids after the events. Only these subscriptions are searched. `None` searches all.
    pub only: Option<usize>,
    /// The form of each result. In a counted form, the count is the first word.
    pub form: Form,
}

/// An error with the number of its event, counted from 0.
pub type Refused = (usize, Error);

/// The place of an event in the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cursor {
    event: u32,
    byte: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Progress {
    phase: Phase,
    /// The current or the next event.
    next: Cursor,
    /// The event after `next`, once the search of `next` has started.
    behind: Cursor,
    /// The slot from which bit-sliced evaluation continues.
    slot: Slot,
    /// The number of words in the part so far.
    words: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// A group begins. If it is not bit-sliced, its first search starts in the same step.
    Group,
    /// The booleans of a group are decoded.
    Columns,
    /// The dense expressions are evaluated.
    Slice,
    /// A search starts and runs its first step, which is also its last if the event meets few expressions.
    Open,
    /// The search continues.
    Search,
    /// The part is full.
    Full,
    #[default]
    Done,
}

impl Batch {
    /// Makes room for every batch over `index`. The caller has made room for the search.
    ///
    /// Errors: [`Kind::OutOfMemory`].
    pub fn reserve(&mut self, index: &Index) -> Result<(), Error> {
        self.make_room(&index.extent())
    }

    /// Starts a batch. [`Batch::run`] takes its events.
    pub fn open(&mut self, request: Request) {
        self.request = request;
        self.checkpoint.commit(Progress { phase: Phase::Group, ..Progress::default() });
    }

    /// Continues after the last returned part.
    pub fn next_part(&mut self) {
        let progress = self.checkpoint.load();
        if progress.phase == Phase::Full {
            self.checkpoint.commit(Progress { phase: Phase::Open, words: 0, ..progress });
        }
    }

    /// Returns whether the last part was the final one.
    pub fn is_done(&self) -> bool {
        self.checkpoint.current().phase == Phase::Done
    }

    /// Runs from the present position to the end of a part, and returns the part: for each event the number of words, then
    /// the words. The message holds the events and the ids.
    ///
    /// Errors: those of decoding an event, an id that is too large for a bitmap, and those of `steps`.
    pub fn run<'a, S: Steps>(
        &mut self,
        index: &Index,
        search: &'a mut Search,
        message: &[u8],
        mut steps: S,
    ) -> Result<&'a [u64], Refused> {
        while !matches!(self.checkpoint.current().phase, Phase::Full | Phase::Done) {
            let event = self.checkpoint.current().next.event;
            let refused = |error| (event as usize, error);
            if self.checkpoint.current().phase == Phase::Search {
                let dense = self.dense(self.checkpoint.current());
                // The search has a checkpoint of its own.
                while !search.step_with(index, dense) {
                    steps.committed().map_err(refused)?;
                }
            }
            let progress = self.step(index, search, message, S::READS_EVENTS)?;
            match S::READS_EVENTS && progress.next.event > event {
                true => steps.found(search, || self.checkpoint.commit(progress)).map_err(refused)?,
                false => self.checkpoint.commit(progress),
            }
            steps.committed().map_err(refused)?;
        }
        Ok(self.part(search))
    }

    /// Returns the finished part of a batch that works with `search`.
    pub fn part<'a>(&self, search: &'a Search) -> &'a [u64] {
        &search.ids[..self.checkpoint.current().words as usize]
    }

    /// Runs one step. Returns the progress to commit. A running search must be finished first.
    fn step(
        &mut self,
        index: &Index,
        search: &mut Search,
        message: &[u8],
        is_each_alone: bool,
    ) -> Result<Progress, Refused> {
        let mut progress = self.checkpoint.load();
        match progress.phase {
            Phase::Group => self.begin_group(index, search, message, is_each_alone, &mut progress),
            Phase::Columns => self.add_column(index, search, message, &mut progress),
            Phase::Slice => self.slice(index, &mut progress),
            Phase::Open => self.open_search(index, search, message, &mut progress),
            Phase::Search => self.end_search(index, search, &mut progress),
            Phase::Full | Phase::Done => Ok(()),
        }
        .map_err(|error| (progress.next.event as usize, error))?;
        Ok(progress)
    }

    fn begin_group(
        &mut self,
        index: &Index,
        search: &mut Search,
        message: &[u8],
        is_each_alone: bool,
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let len = (self.request.events - progress.next.event).min(EVENTS as u32);
        let is_sliced = !is_each_alone && len >= cost::MIN_SLICED_EVENTS && self.is_worth_slicing(index);
        self.group = Group { first: progress.next, len, is_sliced };
        if len == 0 {
            progress.phase = Phase::Done;
        } else if is_sliced {
            self.sliced.begin(len as usize);
            progress.slot = Slot::from_index(0);
            progress.phase = Phase::Columns;
        } else {
            progress.phase = Phase::Open;
            self.open_search(index, search, message, progress)?;
        }
        Ok(())
    }

    /// Returns whether bit-sliced evaluation of many events costs less than their searches.
    fn is_worth_slicing(&self, index: &Index) -> bool {
        let Request { events, bytes, only, .. } = self.request;
        let dense = index.dense().len();
        let decoding = if index.is_dense() { 0 } else { bytes / events as usize * cost::DECODE_FUEL_PER_BYTE };
        only.is_none()
            && is_sliceable(dense, index.subscriptions().capacity())
            && decoding <= dense * cost::SLICED_SAVING
    }

    fn add_column(
        &mut self,
        index: &Index,
        search: &mut Search,
        message: &[u8],
        progress: &mut Progress,
    ) -> Result<(), Error> {
        let (encoding, event, next) = self.frame(message, progress.next)?;
        search.decode(index, encoding, event)?;
        let number = progress.next.event - self.group.first.event;
        self.sliced.add(number as usize, &search.event.values);
        self.mismatches[number as usize] = search.event.mismatches;
        progress.next = next;
        if number + 1 == self.group.len {
            progress.next = self.group.first;
            progress.phase = Phase::Slice;
        }
        Ok(())
    }

    fn slice(&mut self, index: &Index, progress: &mut Progress) -> Result<(), Error> {
        match self.sliced.step(progress.slot, index.subscriptions(), index.catalog()) {
            Some(slot) => progress.slot = slot,
            None => progress.phase = Phase::Open,
        }
        Ok(())
    }

    fn open_search(
        &mut self,
        index: &Index,
        search: &mut Search,
        message: &[u8],
        progress: &mut Progress,
    ) -> Result<(), Error> {
        if progress.words as usize >= PART {
            progress.phase = Phase::Full;
            return Ok(());
        }
        let form = self.request.form;
        let start = progress.words + 1 + form.counts();
        let (encoding, event, behind) = self.frame(message, progress.next)?;
        progress.behind = behind;
        if self.group.is_sliced && index.is_dense() {
            let number = progress.next.event - self.group.first.event;
            search.begin_dense(index, self.mismatches[number as usize], start, form);
        } else {
            search.decode(index, encoding, event)?;
            let only = self.request.only.map(|bytes| packed(&message[self.request.bytes..][..bytes]));
            search.begin(index, only, start, form)?;
        }
        progress.phase = Phase::Search;
        if search.step_with(index, self.dense(progress)) {
            self.end_search(index, search, progress)?;
        }
        Ok(())
    }

    /// Returns the source of the dense matches of the current event.
    fn dense(&self, progress: &Progress) -> Dense<'_> {
        match self.group.is_sliced {
            true => Dense::Sliced(&self.sliced, (progress.next.event - self.group.first.event) as usize),
            false => Dense::Open,
        }
    }

    /// Takes over the result of the search, and moves on to the next event.
    fn end_search(&mut self, index: &Index, search: &mut Search, progress: &mut Progress) -> Result<(), Error> {
        if let Some(error) = search.refusal(index) {
            return Err(error);
        }
        let words = self.request.form.counts() + search.checkpoint.current().ids;
        search.ids[progress.words as usize] = u64::from(words);
        progress.words += 1 + words;
        progress.next = progress.behind;
        let is_last_of_group = progress.next.event - self.group.first.event == self.group.len;
        progress.phase = match progress.next.event == self.request.events {
            true => Phase::Done,
            false if is_last_of_group => Phase::Group,
            false => Phase::Open,
        };
        Ok(())
    }

    /// Returns the event at `cursor`, and the place of the next.
    fn frame<'a>(&self, message: &'a [u8], cursor: Cursor) -> Result<(Encoding, &'a [u8], Cursor), Error> {
        let cut_short = || Error::new(Kind::OutOfBounds, "the events end within an event; give all of their bytes");
        let frames = message.get(cursor.byte as usize..self.request.bytes).ok_or_else(cut_short)?;
        let (head, rest) = frames.split_first_chunk::<FRAME>().ok_or_else(cut_short)?;
        let [a, b, c, d, e, f, g, h] = *head;
        let length = u32::from_le_bytes([e, f, g, h]);
        let event = rest.get(..length as usize).ok_or_else(cut_short)?;
        let encoding = Encoding::from_code(i32::from_le_bytes([a, b, c, d]))?;
        let next = Cursor { event: cursor.event + 1, byte: cursor.byte + FRAME as u32 + length };
        Ok((encoding, event, next))
    }
}

/// An iterator of packed ids.
pub type Packed<'a> = Map<Iter<'a, [u8; 8]>, fn(&[u8; 8]) -> u64>;

/// Returns the packed ids in `bytes`.
///
/// ```
/// use be_tree_index::search::packed;
///
/// let bytes = [7_u64, 1 << 40].map(u64::to_le_bytes).concat();
/// assert!(packed(&bytes).eq([7, 1 << 40]));
/// ```
pub fn packed(bytes: &[u8]) -> Packed<'_> {
    let (ids, _) = bytes.as_chunks::<8>();
    ids.iter().map(|id| u64::from_le_bytes(*id))
}

impl Searches for Batch {
    fn make_room(&mut self, extent: &Extent) -> Result<(), Error> {
        if is_sliceable(extent.dense, extent.slots) && !self.sliced.has_room(extent.slots) {
            self.sliced.reserve(extent.attributes, extent.slots)?;
            self.mismatches.try_reserve_exact(EVENTS.saturating_sub(self.mismatches.len())).map_err(out_of_memory)?;
            self.mismatches.resize(EVENTS, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Insertion;
    use crate::model::schema::{Attribute, Bounds, Schema, Type};

    /// Returns an index of indexed, unindexed and dense expressions, with ids out of order.
    fn index() -> Index {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
        let booleans = (0..10).map(|number| attribute(&format!("b{number}"), Type::Boolean));
        let attributes = booleans.chain([attribute("a", Type::Integer)]).collect();
        let mut index = Index::new(Schema::new(attributes).unwrap());
        for i in 0..2000_u64 {
            let text = match i % 4 {
                0 => format!("a = {}", i % 50),
                1 => format!("not b{} or a <> {}", i % 10, i % 10),
                _ => format!("b{} or not (b{} and b{} or b{})", i % 10, i % 7, i % 9, i % 8),
            };
            let id = i * 7919 % 100_003;
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
        }
        assert!(index.dense().len() > 500);
        index
    }

    fn message(events: usize) -> Vec<u8> {
        let mut message = Vec::new();
        for event in 0..events {
            let bit = |number: usize| event >> number & 1 == 1;
            let booleans: Vec<String> = (0..10).map(|number| format!(r#""b{number}": {}"#, bit(number))).collect();
            let json = format!(r#"{{"a": {}, {}}}"#, event % 50, booleans.join(", "));
            message.extend(1_u32.to_le_bytes());
            message.extend((json.len() as u32).to_le_bytes());
            message.extend(json.bytes());
        }
        message
    }

    #[test]
    fn a_step_whose_commit_was_lost_is_done_again() {
        let index = index();
        let (mut search, mut batch) = (Search::default(), Batch::default());
        search.reserve(&index).unwrap();
        batch.reserve(&index).unwrap();
        let message = message(300);
        for form in [Form::Ids, Form::Bitmap] {
            let request = Request { events: 300, bytes: message.len(), only: None, form };
            let mut expected = Vec::new();
            batch.open(request);
            while !batch.is_done() {
                batch.next_part();
                expected.extend_from_slice(batch.run(&index, &mut search, &message, || ()).unwrap());
            }
            for lost in 1..4 {
                batch.open(request);
                let mut answer = Vec::new();
                let mut steps = 0;
                while !batch.is_done() {
                    let before = (batch.checkpoint, search.checkpoint);
                    if before.0.current().phase == Phase::Full {
                        answer.extend_from_slice(batch.part(&search));
                        batch.next_part();
                        continue;
                    }
                    let dense = batch.dense(before.0.current());
                    let is_searching = before.0.current().phase == Phase::Search;
                    let progress = match is_searching && !search.step_with(&index, dense) {
                        true => before.0.load(),
                        false => batch.step(&index, &mut search, &message, false).unwrap(),
                    };
                    steps += 1;
                    if steps % (lost + 1) == 0 {
                        batch.checkpoint.commit(progress);
                    } else if steps % 2 == 0 {
                        // Simulates a trap between the last write of the step and its commit.
                        (batch.checkpoint, search.checkpoint) = before;
                        batch.sliced.cut_off();
                    }
                }
                answer.extend_from_slice(batch.part(&search));
                let differs = answer.iter().zip(&expected).position(|(a, b)| a != b);
                assert!(answer == expected, "{form:?} {lost} {differs:?} {} {}", answer.len(), expected.len());
            }
        }
    }
}
