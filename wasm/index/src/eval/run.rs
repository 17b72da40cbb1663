//! A run evaluates a program for an event.

use std::ops::ControlFlow;

use crate::catalog::Catalog;
use crate::compile::booleans;
use crate::compile::constants::{self, List};
use crate::compile::layout::{code, named, ACCEPT, CODE, DIGESTS, JUMP_SHIFT, ON, REJECT, START};
use crate::compile::program::{self, float, number};
use crate::compile::store::Code;
use crate::compile::words::{Chunk, Words};
use crate::eval::memo::Memo;
use crate::event::digest::{self, ValueDigest};
use crate::event::{has_string, Event, Value, MAX_UNSORTED_STRINGS};
use crate::model::predicate::Relation;

/// The results of each operation from [`code::TRUE`] on: a bit for each ordering of a value and a constant (less, equal,
/// greater, undefined). A lookup replaces a branch, which would often be mispredicted.
const ORDERINGS: u64 = u64::from_be_bytes([0, 0, 0, 0b0101, 0b0010_0110, 0b0100_0011, 0b0001_0111, 0b1000_0010]);

const EQUAL: u32 = 1;
/// The ordering of an undefined value, beside less, equal and greater.
const UNDEFINED: u32 = 3;

/// The number of words that a run returns if the step's work ran out. It exceeds every budget.
const EXHAUSTED: usize = 1 << 30;

/// The outcome of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(bool),
    /// The budget ran out before the operation at this position. A program in a chunk never stops: if the step's work runs
    /// out, the run returns false and `EXHAUSTED` words.
    Stopped(u32),
}

/// The data that programs read.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub event: &'a Event,
    /// The value digests. There are as many as an operation can name, so a read needs no bounds check.
    pub digests: &'a [ValueDigest; DIGESTS],
    pub catalog: &'a Catalog,
}

/// Runs a program in a chunk to its end. A large program resumes at `position` and runs for at most `budget` words,
/// including skipped ones. Returns the outcome and the number of words.
#[inline(always)]
pub(crate) fn run(program: Code, position: u32, budget: u32, asked: Asked, memo: &mut Memo) -> (Outcome, u32) {
    match program {
        Code::InChunk(chunk, start) => run_in_chunk(chunk, start, asked, memo),
        Code::Alone(words) => run_alone(words, position.max(START), budget, asked, memo),
    }
}

#[inline(always)]
fn run_in_chunk(chunk: &Chunk, start: usize, asked: Asked, memo: &mut Memo) -> (Outcome, u32) {
    let mut at = start + START as usize;
    // Each iteration checks the fuel. So the first operation, with which many programs end, runs before the loop, and each
    // iteration runs two.
    match take(chunk, start, at, asked, memo) {
        ControlFlow::Continue(next) => at = next,
        ControlFlow::Break((holds, end)) => return (Outcome::Done(holds), (end - start) as u32),
    }
    let (holds, end) = loop {
        match take(chunk, start, at, asked, memo) {
            ControlFlow::Continue(next) => at = next,
            ControlFlow::Break(done) => break done,
        }
        match take(chunk, start, at, asked, memo) {
            ControlFlow::Continue(next) => at = next,
            ControlFlow::Break(done) => break done,
        }
    };
    (Outcome::Done(holds), (end - start) as u32)
}

/// Runs a program with its own allocation. All jumps go forward, so no operation runs twice, and one comparison of the
/// position checks both the budget and the program's end.
#[inline(never)]
fn run_alone(program: &[u32], position: u32, budget: u32, asked: Asked, memo: &mut Memo) -> (Outcome, u32) {
    let end = program.len().min((position + budget) as usize);
    let mut at = position as usize;
    let outcome = loop {
        if at >= end {
            break Outcome::Stopped(at as u32);
        }
        match take(program, 0, at, asked, memo) {
            ControlFlow::Continue(next) => at = next,
            ControlFlow::Break(_) if memo.is_exhausted() => break Outcome::Stopped(at as u32),
            ControlFlow::Break((holds, _)) => break Outcome::Done(holds),
        }
    };
    (outcome, at as u32 - position + 1)
}

/// Runs the operation at `at` of the program that starts at `start`. Returns the position of the next operation or, at the
/// program's end, its value and the end's position.
#[inline(always)]
pub(super) fn take(
    words: impl Words,
    start: usize,
    at: usize,
    asked: Asked,
    memo: &mut Memo,
) -> ControlFlow<(bool, usize), usize> {
    let word = words.word(at);
    let (holds, next) = match word & CODE {
        // The most common codes come first. Without this arm, a search among arbitrary expressions over sparse attributes
        // takes 1.05 times as long.
        probing if probing >= code::IN => test(words, at, asked, memo),
        code::REJECT => return ControlFlow::Break((false, at)),
        code::ACCEPT => return ControlFlow::Break((true, at)),
        code::GO => return ControlFlow::Continue(start + words.word(at + 1) as usize),
        code::SHARED => {
            match memo.holds(&asked.catalog.predicates, program::shared_as(words.word(at + 1)), asked.event) {
                Some(holds) => (holds, at + 2),
                None => return ControlFlow::Break((false, start + EXHAUSTED)),
            }
        }
        code::PACKED => {
            let (holds, tests) = booleans::run(words, at, asked.digests);
            return ControlFlow::Break((holds, at + tests));
        }
        _ => test(words, at, asked, memo),
    };
    if holds != (word & ON != 0) {
        return ControlFlow::Continue(next);
    }
    match word >> JUMP_SHIFT {
        end if end >= REJECT => ControlFlow::Break((end == ACCEPT, at)),
        ahead => {
            debug_assert!(ahead > 0, "a jump leads ahead");
            ControlFlow::Continue(at + ahead as usize)
        }
    }
}

/// Returns the ordering of a value and a constant, from the value's digest.
#[inline]
fn ordering(digest: ValueDigest, constant: i32) -> u32 {
    let ordering = standing(digest.value(), constant);
    if !digest.is_defined() {
        UNDEFINED
    } else {
        ordering
    }
}

/// Returns less, equal or greater, in the numbers of [`ORDERINGS`].
#[inline]
fn standing<T: PartialOrd>(value: T, constant: T) -> u32 {
    EQUAL + u32::from(value > constant) - u32::from(value < constant)
}

/// Returns whether an operation from [`code::TRUE`] on is true for `ordering`.
#[inline]
fn holds(operation: u32, ordering: u32) -> bool {
    ORDERINGS >> (4 * (operation - code::TRUE) + ordering) & 1 == 1
}

/// Returns whether [`code::IN`] or [`code::NOT_IN`] is true.
#[inline]
fn is_in(operation: u32, digest: ValueDigest, list: List<impl Words>) -> bool {
    // No constant has the digest of undefined.
    let is_listed = list.contains(digest.value());
    (is_listed == (operation == code::IN)) & digest.is_defined()
}

/// Returns the value of the operation at the start of `words`, without its jumps. The value is arbitrary if the work of the
/// step is exhausted.
#[inline(never)]
pub(crate) fn value(words: &[u32], asked: Asked, memo: &mut Memo) -> bool {
    test(words, 0, asked, memo).0
}

/// Returns whether the test of the operation at `at` is true, and the position of the next operation.
#[inline(always)]
fn test(words: impl Words, at: usize, asked: Asked, memo: &mut Memo) -> (bool, usize) {
    let Asked { event, digests, catalog } = asked;
    let (word, operand) = (words.word(at), words.word(at + 1));
    let attribute = named(word);
    let digest = digests[digest::place(attribute)];
    match word & CODE {
        scalar if scalar >= code::SCALAR => (holds(scalar, ordering(digest, operand as i32)), at + 2),
        flag if flag >= code::TRUE => (holds(flag, ordering(digest, 1)), at + 1),
        membership if membership >= code::IN => {
            (is_in(membership, digest, List::at(words, at + 1)), at + 1 + constants::words(operand))
        }
        code::SHARED => (memo.holds(&catalog.predicates, program::shared_as(operand), event).unwrap_or(false), at + 2),
        comparison => {
            let holds = compare(comparison, event.values[attribute.index()], words, at + 1, event);
            (holds, at + 1 + program::constants(comparison, operand))
        }
    }
}

/// Compares a value with the constants from `at` on. It is inlined because a call would cost as much as the comparison.
#[inline(always)]
fn compare(comparison: u32, value: Value, words: impl Words, at: usize, event: &Event) -> bool {
    let list = || List::at(words, at);
    match comparison {
        code::ONE_OF_INTEGERS => among_integers(value, list(), event) == Some(true),
        code::NONE_OF_INTEGERS => among_integers(value, list(), event) == Some(false),
        code::ONE_OF_STRINGS => among_strings(value, list(), event) == Some(true),
        code::NONE_OF_STRINGS => among_strings(value, list(), event) == Some(false),
        code::ALL_OF_INTEGERS => has_all_integers(value, list(), event),
        code::ALL_OF_STRINGS => has_all_strings(value, list(), event),
        relation => compare_float(relation - code::FLOAT, value, float(words, at)),
    }
}

/// Compares floats by [`ORDERINGS`] as well, because a branch on the relation would often be mispredicted.
fn compare_float(relation: u32, value: Value, constant: f64) -> bool {
    let Value::Float(value) = value else { return false };
    let asks_if_equal = relation >= number(Relation::Equal);
    let ordering = if asks_if_equal & Relation::Equal.holds_of_floats(value, constant) {
        EQUAL
    } else {
        standing(value, constant)
    };
    holds(code::SCALAR + relation, ordering)
}

/// Returns whether a list of integers shares an element with `list`, or `None` if the value is undefined.
fn among_integers(value: Value, list: List<impl Words>, event: &Event) -> Option<bool> {
    let Value::Integers(span) = value else { return None };
    let values = span.of(&event.integers);
    Some(if values.len() <= list.len() {
        values.iter().any(|&integer| i32::try_from(integer).is_ok_and(|integer| list.contains(integer)))
    } else {
        list.iter().any(|constant| values.binary_search(&i64::from(constant)).is_ok())
    })
}

/// Returns whether a list of strings shares an element with `list`, or `None` if the value is undefined.
fn among_strings(value: Value, list: List<impl Words>, event: &Event) -> Option<bool> {
    let Value::Strings(span) = value else { return None };
    let texts = span.of(&event.strings);
    Some(if texts.len() <= list.len().max(MAX_UNSORTED_STRINGS) {
        texts.iter().any(|text| list.contains(constants::of_string(text.id)))
    } else {
        list.iter().any(|constant| has_string(texts, constants::to_string(constant)))
    })
}

/// Returns whether `value` is a list of integers that contains all of `list`.
fn has_all_integers(value: Value, list: List<impl Words>, event: &Event) -> bool {
    let Value::Integers(span) = value else { return false };
    let values = span.of(&event.integers);
    list.iter().all(|constant| values.binary_search(&i64::from(constant)).is_ok())
}

/// Returns whether `value` is a list of strings that contains all of `list`.
fn has_all_strings(value: Value, list: List<impl Words>, event: &Event) -> bool {
    let Value::Strings(span) = value else { return false };
    let texts = span.of(&event.strings);
    list.iter().all(|constant| has_string(texts, constants::to_string(constant)))
}
