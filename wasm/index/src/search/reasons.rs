//! A search for reasons also finds the deciding predicate of each expression that does not match ([`crate::reasons`]).
//!
//! The ids of these expressions follow the matches, grouped by reason. The search first finds and counts the reasons, and
//! then writes each id to the next place of its reason's group.

use crate::catalog::subscriptions::Subscriptions;
use crate::compile::program;
use crate::error::{Error, Kind};
use crate::eval::memo::Memo;
use crate::eval::run::{self, Asked};
use crate::event::Encoding;
use crate::handles::{ProgramId, Slot};
use crate::index::Index;
use crate::reasons::{self, reason, Form, Jumping, Jumps, Place, Reasons, RUNS, TESTS};
use crate::room::Extent;
use crate::search::matches::SlotSet;
use crate::search::{self, Phase, Search, HEADER, STEP};
use crate::support::headroom::grow;

/// The words after the counts: whether the ids of each group ascend, and whether the event lacks a required attribute.
const TRAILER: usize = 2;

/// The progress of a search for reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Explain expressions that do not match.
    pub are_wanted: bool,
    /// The event lacks a required attribute. That is then the reason of every expression.
    does_not_fit: bool,
    /// Explain all expressions that do not match, not only those with requested ids.
    among_all: bool,
    /// The number of expressions that did not match.
    missed: u32,
    /// The number of these that the search has begun to explain.
    begun: u32,
    /// The position in a general program.
    general_at: u32,
    /// The number of counted reasons.
    counted: u32,
    /// The number of ids already written to their groups.
    grouped: u32,
    /// Selects the valid one of the two lists of counts.
    odd_counts: bool,
    /// Selects the valid one of the two lists of running programs.
    odd_runs: bool,
    /// The number of words of the result after the matching ids.
    pub behind: u32,
}

/// The working memory of a search for reasons.
#[derive(Clone, Debug, Default)]
pub(super) struct Work {
    /// The slots with requested ids, if not all are requested.
    asked: SlotSet,
    /// The expressions that did not match, followed by a dummy.
    missed: Vec<Missed>,
    jumps: Jumps,
    /// The number of expressions for each reason; later the next place of each group. One list is valid. An uncommitted step
    /// writes the other.
    counts: [Vec<u32>; 2],
    /// The running programs, in two lists as well. They are too large for the progress, which every search copies.
    runs: [Runs; 2],
}

impl Search {
    /// Makes room for reasons.
    pub(super) fn reserve_reasons(&mut self, extent: &Extent) -> Result<(), Error> {
        let slots = extent.slots;
        let numbers = extent.attributes + reason::COUNT;
        self.reasons.asked.reserve(slots)?;
        self.reasons.jumps.reserve()?;
        grow(&mut self.reasons.missed, slots + 1)?;
        self.reasons.counts.iter_mut().try_for_each(|counts| grow(counts, numbers))?;
        grow(&mut self.ids, HEADER + slots + numbers + TRAILER)
    }

    /// Like [`Search::open`], for a search that also finds the reasons. An event that lacks a required attribute is not an
    /// error: it is the reason of every expression.
    ///
    /// Errors: other errors of the event; [`Kind::NotFound`] if the index keeps no reasons.
    pub fn open_reasons(
        &mut self,
        index: &Index,
        encoding: impl Into<Encoding>,
        bytes: &[u8],
        only: Option<impl ExactSizeIterator<Item = u64> + Clone>,
    ) -> Result<(), Error> {
        if index.reasons().is_none() {
            return Err(reasons::not_kept());
        }
        self.reasons.asked.begin(index.subscriptions().capacity());
        for id in only.iter().flat_map(Clone::clone) {
            if let Some(slot) = index.subscriptions().find(id) {
                self.reasons.asked.insert(slot);
            }
        }
        let among_all = only.is_none();
        let mut progress = match self.open(index, encoding, bytes, only) {
            Ok(()) => {
                self.reasons.jumps.set(&self.event.values);
                self.checkpoint.load()
            }
            Err(error) if error.kind == Kind::MissingAttribute => {
                self.matches.begin(index.subscriptions().capacity());
                {
                    let reasons = Progress { does_not_fit: true, ..Progress::default() };
                    search::Progress { phase: Phase::Gather, start: HEADER as u32, reasons, ..Default::default() }
                }
            }
            Err(error) => return Err(error),
        };
        progress.reasons.are_wanted = true;
        progress.reasons.among_all = among_all;
        self.reasons.counts[progress.reasons.counts()].fill(0);
        self.reasons.runs[progress.reasons.runs()] = Runs::default();
        self.checkpoint.commit(progress);
        Ok(())
    }

    /// Lists the expressions that did not match.
    pub(super) fn gather(&mut self, index: &Index, progress: &mut search::Progress) {
        let Some(reasons) = index.reasons() else { unreachable!("the search was opened for reasons") };
        let Search { reasons: Work { asked, missed, .. }, matches, .. } = self;
        let end = (progress.word + STEP / Slot::IN_WORD).min(reasons.held_words());
        for word in progress.word..end {
            let among = if progress.reasons.among_all { u32::MAX } else { asked.word(word) };
            let mut bits = reasons.held(word) & !matches.word(word) & among;
            let missed = &mut missed[progress.reasons.missed as usize..][..bits.count_ones() as usize];
            progress.reasons.missed += missed.len() as u32;
            for missed in missed {
                let slot = Slot::of_set(word, bits.trailing_zeros());
                *missed = Missed { slot, place: reasons.place(slot), reason: 0 };
                bits &= bits - 1;
            }
        }
        progress.word = end;
        if end == reasons.held_words() {
            progress.phase = Phase::Explain;
        }
    }

    /// Finds the reasons of the listed expressions.
    pub(super) fn explain(&mut self, index: &Index, progress: &mut search::Progress) {
        let Some(reasons) = index.reasons() else { unreachable!("the search was opened for reasons") };
        let Search { reasons: Work { missed, jumps, runs, .. }, event, digests, memo, .. } = self;
        memo.allow(STEP);
        let mut explainer = Explainer {
            reasons,
            subscriptions: index.subscriptions(),
            asked: Asked { event, digests: super::first_chunk(digests), catalog: index.catalog() },
            attributes: index.schema().len(),
            jumps: jumps.all(),
            memo,
            missed: &mut missed[..=progress.reasons.missed as usize],
            runs: runs[progress.reasons.runs()],
            budget: STEP,
        };
        explainer.run(progress);
        let present = explainer.runs;
        progress.reasons.odd_runs = !progress.reasons.odd_runs;
        runs[progress.reasons.runs()] = present;
        if present.is_done() && progress.reasons.begun == progress.reasons.missed {
            progress.phase = Phase::Count;
        }
    }

    /// Counts the reasons.
    pub(super) fn count(&mut self, index: &Index, progress: &mut search::Progress) {
        let counts = other(&mut self.reasons.counts, progress);
        let end = (progress.reasons.counted + STEP).min(progress.reasons.missed);
        for missed in &self.reasons.missed[progress.reasons.counted as usize..end as usize] {
            counts[missed.reason as usize] += 1;
        }
        progress.reasons.counted = end;
        if end == progress.reasons.missed {
            self.lay_out(index, progress);
            progress.phase = Phase::Group;
        }
    }

    /// Writes the counts behind the place of the ids, and replaces each count by the start of its group.
    fn lay_out(&mut self, index: &Index, progress: &mut search::Progress) {
        let numbers = index.schema().len() + reason::COUNT;
        let counts = &mut self.reasons.counts[progress.reasons.counts()];
        let mut start = HEADER as u32 + progress.ids;
        let (_, behind) = self.ids.split_at_mut((start + progress.reasons.missed) as usize);
        for (count, written) in counts[..numbers].iter_mut().zip(&mut *behind) {
            *written = u64::from(*count);
            start += std::mem::replace(count, start);
        }
        behind[numbers] = u64::from(index.subscriptions().order().is_ascending());
        behind[numbers + 1] = u64::from(progress.reasons.does_not_fit);
        progress.reasons.behind = progress.reasons.missed + (numbers + TRAILER) as u32;
    }

    /// Writes ids to their groups.
    pub(super) fn group(&mut self, index: &Index, progress: &mut search::Progress) {
        let subscriptions = index.subscriptions();
        let places = other(&mut self.reasons.counts, progress);
        let end = (progress.reasons.grouped + STEP).min(progress.reasons.missed);
        for missed in &self.reasons.missed[progress.reasons.grouped as usize..end as usize] {
            let place = &mut places[missed.reason as usize];
            self.ids[*place as usize] = subscriptions.id(missed.slot);
            *place += 1;
        }
        progress.reasons.grouped = end;
        if end == progress.reasons.missed {
            progress.phase = Phase::Done;
        }
    }
}

/// An expression that did not match: its slot, the place of its program, and, once found, the number of its reason.
#[derive(Clone, Copy, Debug, Default)]
struct Missed {
    slot: Slot,
    place: Place,
    reason: u32,
}

/// Running programs over booleans, all in one chunk. For each program: the position of its expression among those that did
/// not match, and the position of its next test in the chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs {
    of: [u32; RUNS],
    at: [u32; RUNS],
    chunk: ProgramId,
    /// The next program to begin. `end` is behind the last one.
    next: u32,
    end: u32,
    /// The position of the dummy, which runs in place of finished programs.
    none: u32,
}

impl Runs {
    fn is_done(&self) -> bool {
        self.of == [self.none; RUNS]
    }
}

/// An explainer finds the reasons of expressions that did not match.
struct Explainer<'a> {
    reasons: &'a Reasons,
    subscriptions: &'a Subscriptions,
    asked: Asked<'a>,
    attributes: usize,
    jumps: &'a Jumping,
    memo: &'a mut Memo,
    missed: &'a mut [Missed],
    runs: Runs,
    /// The number of tests left in this step.
    budget: u32,
}

impl Explainer<'_> {
    fn run(&mut self, progress: &mut search::Progress) {
        while self.budget > 0 {
            if !self.runs.is_done() {
                self.run_side_by_side();
                continue;
            }
            if progress.reasons.begun == progress.reasons.missed {
                return;
            }
            let Missed { slot, place, .. } = self.missed[progress.reasons.begun as usize];
            let number = match place.form {
                _ if progress.reasons.does_not_fit => Some(self.attributes + reason::INVALID_EVENT),
                Form::Booleans => {
                    self.begin(progress);
                    continue;
                }
                Form::None => Some(self.attributes + reason::NONE),
                Form::General => self.run_general(slot, place, &mut progress.reasons.general_at),
            };
            let Some(number) = number else { return };
            self.budget = self.budget.saturating_sub(1);
            self.missed[progress.reasons.begun as usize].reason = number as u32;
            progress.reasons.begun += 1;
        }
    }

    /// Begins with the next programs over booleans in the same chunk.
    fn begin(&mut self, progress: &mut search::Progress) {
        let first = progress.reasons.begun;
        let (chunk, start) = self.missed[first as usize].place.split();
        let rest = &self.missed[first as usize..][..(progress.reasons.missed - first).min(STEP) as usize];
        let other = |missed: &Missed| missed.place.form != Form::Booleans || missed.place.split().0 != chunk;
        let end = first + rest.iter().position(other).unwrap_or(rest.len()) as u32;
        let none = progress.reasons.missed;
        self.missed[none as usize].place = self.missed[first as usize].place;
        let mut runs = Runs { of: [none; RUNS], at: [start; RUNS], chunk, next: first, end, none };
        for (of, at) in runs.of.iter_mut().zip(&mut runs.at).take((end - first) as usize) {
            *of = runs.next;
            *at = self.missed[runs.next as usize].place.split().1;
            runs.next += 1;
        }
        self.runs = runs;
        progress.reasons.begun = end;
    }

    /// Runs tests of each program in turn. A finished program is replaced by the next one. No branch depends on whether a
    /// test decided: each test overwrites the program's stored attribute, so the last one stays.
    fn run_side_by_side(&mut self) {
        let Runs { mut of, mut at, chunk, mut next, end, none } = self.runs;
        let words = self.reasons.words(chunk);
        while self.budget > 0 && of != [none; RUNS] {
            self.budget = self.budget.saturating_sub((RUNS * TESTS) as u32);
            for _ in 1..TESTS {
                for at in &mut at {
                    *at = reasons::take(words, *at, self.jumps).1;
                }
            }
            for (of, at) in of.iter_mut().zip(&mut at) {
                let (literal, to, decided) = reasons::take(words, *at, self.jumps);
                self.missed[*of as usize].reason = reasons::reason_of(literal);
                let another = if next < end { next } else { none };
                let start = self.missed[another as usize].place.split().1;
                *at = if decided { start } else { to };
                *of = if decided { another } else { *of };
                next += u32::from(decided & (next < end));
            }
        }
        self.runs = Runs { of, at, chunk, next, end, none };
    }

    /// Runs the general program of `slot` from `at` on. Returns the number of its reason, or `None` if the budget is
    /// exhausted.
    fn run_general(&mut self, slot: Slot, place: Place, at: &mut u32) -> Option<usize> {
        let program = self.reasons.program(place);
        let code = self.asked.catalog.code(self.subscriptions.get(slot));
        while self.budget > 0 {
            let (position, on, distance) = reasons::test_at(program, *at);
            let operation = &code[position as usize..];
            self.budget = self.budget.saturating_sub(program::taken(operation));
            let holds = run::value(operation, self.asked, self.memo);
            if self.memo.is_exhausted() {
                self.budget = 0;
                break;
            }
            match distance {
                _ if holds != on => *at += 1,
                0 => {
                    *at = 0;
                    return Some(reasons::number(operation, self.asked.catalog, self.attributes));
                }
                _ => *at += distance,
            }
        }
        None
    }
}

/// Returns the list of counts that becomes valid with the commit of `progress`, after copying the valid one to it.
fn other<'a>(counts: &'a mut [Vec<u32>; 2], progress: &mut search::Progress) -> &'a mut Vec<u32> {
    let [even, odd] = counts;
    let (from, to) = if progress.reasons.counts() == 0 { (even, odd) } else { (odd, even) };
    to.copy_from_slice(from);
    progress.reasons.odd_counts = !progress.reasons.odd_counts;
    to
}

impl Progress {
    /// Returns the position of the valid list of counts.
    fn counts(&self) -> usize {
        usize::from(self.odd_counts)
    }

    /// Returns the position of the valid list of running programs.
    fn runs(&self) -> usize {
        usize::from(self.odd_runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Format;
    use crate::index::Insertion;
    use crate::model::schema::{Attribute, Bounds, Schema, Type};
    use crate::search::tests::found_though_commits_are_lost;

    #[test]
    fn a_step_whose_commit_was_lost_is_done_again() {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
        let mut attributes = vec![attribute("a", Type::Integer), attribute("b", Type::Boolean)];
        attributes.extend((0..7).map(|i| attribute(&format!("c{i}"), Type::Boolean)));
        let mut index = Index::new(Schema::new(attributes).unwrap());
        index.keep_reasons().unwrap();
        for i in 0..4000_u64 {
            let text = match i % 3 {
                _ if i % 100 == 70 => (0..3000).map(|j| format!("c{} or b", j % 7)).collect::<Vec<_>>().join(" and "),
                0 => format!("a = {} and b", i % 50),
                1 => "b or a = 33".to_owned(),
                // Too long for a step, and false at its end.
                _ if i % 100 == 50 => {
                    (0..3000).map(|j| format!("a <> {}", 100 + j)).collect::<Vec<_>>().join(" and ") + " and b"
                }
                _ => "not b and a < 0".to_owned(),
            };
            let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
        }
        let event = br#"{"a": 33, "b": false, "c0": true, "c1": true, "c2": true, "c3": true, "c4": true, "c5": true}"#;
        let expected = found_though_commits_are_lost(&index, |search| {
            search.open_reasons(&index, Format::Json, event, None::<std::iter::Empty<u64>>).unwrap();
        });
        // The counts of `a`, `b`, seven other attributes, geography, none and an invalid event; whether the ids ascend;
        // whether the event lacks an attribute.
        let (found, counts) = expected.split_at(expected.len() - 14);
        assert_eq!(found.len() - HEADER, 4000);
        assert!(counts[0] > 1000 && counts[1] > 20 && counts[2..] == [0; 12], "{counts:?}");
    }
}
