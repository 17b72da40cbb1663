//! Short-circuit code: an expression in one run of words, constants beside the tests that need them, so that looking
//! at a candidate touches little memory and in order.
//!
//! A program is the slot of its subscription, then operations. An operation is a word, and its constants. The word has
//! a code (5 bits), the value on which it jumps (1 bit), its attribute (10 bits) and how many words ahead it jumps
//! (16 bits); jumps are always ahead. Behind the last test stands [`code::REJECT`]. All that a run needs to go on later
//! is its position.
//!
//! A comparison with one constant, or membership in a short list, has its constants in the program itself and is made
//! there: that is quicker than to ask whether another expression made it already. Everything else refers to the table of
//! predicates, is evaluated at most once an event and remembered.

use super::list::{self, List};
use super::order::{Target, Test};
use super::Literal;
use crate::event::key::Scale;
use crate::event::probe::{self, Probe};
use crate::event::{Event, Text, Value};
use crate::interner::StringId;
use crate::library::Library;
use crate::predicate::{self, Constants, Predicate, Relation};
use crate::predicates::PredicateId;
use crate::search::memo::Memo;
use crate::subscriptions::Slot;

const CODE: u32 = (1 << 5) - 1;
const ON: u32 = 1 << 5;
const ATTRIBUTE_SHIFT: u32 = 6;
const ATTRIBUTE: u32 = (1 << 10) - 1;
const JUMP_SHIFT: u32 = 16;

/// Jumps that are to the end: the expression is true, or false.
const ACCEPT: u32 = 0xffff;
const REJECT: u32 = 0xfffe;
/// In programs up to this length every jump is one of 16 bits.
const SHORT: usize = 0xfff0;

/// What an operation asks.
mod code {
    pub const REJECT: u32 = 0;
    pub const ACCEPT: u32 = 1;
    /// Goes on at the position in the next word: what a long program's tests skip, or do not.
    pub const GO: u32 = 2;
    /// A predicate of the table; its number.
    pub const SHARED: u32 = 3;
    /// A [`List`](super::List) of integers.
    pub const ONE_OF_INTEGERS: u32 = 4;
    pub const NONE_OF_INTEGERS: u32 = 5;
    /// A list of strings' numbers.
    pub const ONE_OF_STRINGS: u32 = 6;
    pub const NONE_OF_STRINGS: u32 = 7;
    /// Six relations to a float, in two words.
    pub const FLOAT: u32 = 8;
    /// From here on what a probe answers, as [`ORDERINGS`](super::ORDERINGS) has it: that a boolean is true, that a value is
    /// undefined, that it is not,
    pub const TRUE: u32 = 14;
    pub const NULL: u32 = 15;
    pub const NOT_NULL: u32 = 16;
    /// and six relations to an integer of 32 bits. A string's number is one, of which two are asked.
    pub const SCALAR: u32 = 17;
}

const RELATIONS: [Relation; 6] = [
    Relation::Less,
    Relation::LessOrEqual,
    Relation::Greater,
    Relation::GreaterOrEqual,
    Relation::Equal,
    Relation::NotEqual,
];

/// For which orderings of a value and a constant each operation from [`code::TRUE`] on holds, a bit each: less, equal,
/// greater, undefined. It is looked up and not chosen: a choice would often be guessed wrong.
const ORDERINGS: u64 = u64::from_be_bytes([0, 0, 0, 0b0101, 0b0010_0110, 0b0100_0011, 0b0001_0111, 0b1000_0010]);

/// An undefined value, beside less, equal and greater.
const UNDEFINED: u32 = 3;

/// Where the operations of a program start.
pub(crate) const START: u32 = 1;

/// A program as it is made.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub words: Vec<u32>,
    /// The predicates whose lists are in it, each with the position of its operation.
    pub lists: Vec<(PredicateId, u32)>,
}

/// The program of a constant expression.
pub(crate) fn constant(slot: Slot, value: bool) -> Program {
    Program { words: vec![slot, if value { code::ACCEPT } else { code::REJECT }], lists: Vec::new() }
}

/// The program of the expression that `tests` evaluate.
pub(crate) fn assemble(slot: Slot, tests: &[Test], library: &Library) -> Program {
    let mut words = vec![slot];
    let mut lists = Vec::new();
    let mut positions = Vec::with_capacity(tests.len() + 1);
    for test in tests {
        let position = words.len();
        positions.push(position);
        let code = operation(test, library, &mut words);
        if (code::ONE_OF_INTEGERS..=code::NONE_OF_STRINGS).contains(&code) {
            lists.push((test.literal.predicate, position as u32));
        }
    }
    positions.push(words.len());
    words.push(code::REJECT);
    if words.len() > SHORT {
        return Program { words: assemble_long(slot, tests, &positions, &words), lists: Vec::new() };
    }
    for (test, &position) in tests.iter().zip(&positions) {
        words[position] |= match test.target {
            Target::Test(next) => (positions[next as usize] - position) as u32,
            Target::Done(true) => ACCEPT,
            Target::Done(false) => REJECT,
        } << JUMP_SHIFT;
    }
    Program { words, lists }
}

/// The same for a program too long for short jumps. Each test is turned round: where it would jump it goes on to a
/// word that leads anywhere, and otherwise skips that.
fn assemble_long(slot: Slot, tests: &[Test], positions: &[usize], short: &[u32]) -> Vec<u32> {
    let moved = |test: usize| positions[test] + 2 * test;
    let mut words = vec![slot];
    for (i, test) in tests.iter().enumerate() {
        let operation = &short[positions[i]..positions[i + 1]];
        words.push(operation[0] ^ ON | (operation.len() as u32 + 2) << JUMP_SHIFT);
        words.extend(&operation[1..]);
        words.extend(match test.target {
            Target::Test(next) => [code::GO, moved(next as usize) as u32],
            Target::Done(true) => [code::ACCEPT, 0],
            Target::Done(false) => [code::REJECT, 0],
        });
    }
    words.push(code::REJECT);
    words
}

/// Appends an operation whose jump is still to be set, and answers its code.
fn operation(test: &Test, library: &Library, words: &mut Vec<u32>) -> u32 {
    let Literal { predicate: id, negated } = test.literal;
    let predicate = library.predicate(id);
    let start = words.len();
    words.push(0);
    let (code, attribute) = match operands(&predicate, words) {
        Some(code) => (code, predicate.attribute),
        None => {
            words.truncate(start + 1);
            words.push(id);
            (code::SHARED, 0)
        }
    };
    words[start] = code | attribute << ATTRIBUTE_SHIFT | if test.on != negated { ON } else { 0 };
    code
}

/// Appends the constants of `predicate` and answers its code; none where it is left to the table.
fn operands(predicate: &Predicate<StringId>, words: &mut Vec<u32>) -> Option<u32> {
    use predicate::Test;
    if predicate.attribute > ATTRIBUTE {
        return None;
    }
    Some(match &predicate.test {
        Test::True => code::TRUE,
        Test::Null => code::NULL,
        Test::NotNull => code::NOT_NULL,
        Test::StringEqual(id) => scalar(Relation::Equal, id.0.into(), words)?,
        Test::StringNotEqual(id) => scalar(Relation::NotEqual, id.0.into(), words)?,
        Test::Integer(relation, constant) => scalar(*relation, *constant, words)?,
        Test::Float(relation, constant) => {
            let bits = constant.get().to_bits();
            words.extend([bits as u32, (bits >> 32) as u32]);
            code::FLOAT + number(*relation)
        }
        Test::OneOf(constants) => list(constants, words, code::ONE_OF_INTEGERS, code::ONE_OF_STRINGS)?,
        Test::NoneOf(constants) => list(constants, words, code::NONE_OF_INTEGERS, code::NONE_OF_STRINGS)?,
        _ => return None,
    })
}

/// A relation that a probe answers exactly.
fn scalar(relation: Relation, constant: i64, words: &mut Vec<u32>) -> Option<u32> {
    let is_exact = Scale::Clamp.is_exact_at(constant);
    is_exact.then(|| {
        words.push(constant as u32);
        code::SCALAR + number(relation)
    })
}

fn number(relation: Relation) -> u32 {
    RELATIONS.iter().position(|known| *known == relation).map_or(0, |number| number as u32)
}

fn list(constants: &Constants<StringId>, words: &mut Vec<u32>, integers: u32, strings: u32) -> Option<u32> {
    match constants {
        Constants::Integers(integer_list) => list::push(integer_list.iter().copied(), words).then_some(integers),
        Constants::Strings(ids) => list::push(ids.iter().map(|id| i64::from(id.0)), words).then_some(strings),
    }
}

/// The test of the operation at the start of `words`, which is about a list.
pub(crate) fn list_test(words: &[u32]) -> predicate::Test<StringId> {
    let list = List::read(&words[1..]);
    let integers = || Constants::Integers(list.iter().map(i64::from).collect());
    let strings = || Constants::Strings(list.iter().map(|id| StringId(id as u32)).collect());
    match words[0] & CODE {
        code::ONE_OF_INTEGERS => predicate::Test::OneOf(integers()),
        code::NONE_OF_INTEGERS => predicate::Test::NoneOf(integers()),
        code::ONE_OF_STRINGS => predicate::Test::OneOf(strings()),
        code::NONE_OF_STRINGS => predicate::Test::NoneOf(strings()),
        other => unreachable!("the operation {other} is not about a list"),
    }
}

/// Whether the operation at the start of `words`, which is about a list, holds for `value`.
pub(crate) fn list_holds(words: &[u32], value: Value, event: &Event) -> bool {
    compare(words[0] & CODE, value, &words[1..], event)
}

/// The literals of a boolean program: of each attribute that a test may name, that it is not true, and that it is.
pub(crate) const BOOLEAN_LITERALS: usize = 2 * (ATTRIBUTE as usize + 1);
/// A boolean program has no more tests than this.
pub(crate) const BOOLEAN_TESTS: usize = 510;

/// A test of a boolean program: the literal by which it jumps, and where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boolean {
    pub literal: usize,
    pub way: Way,
}

/// Where a test of a boolean program jumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// By so many tests.
    Ahead(usize),
    Accept,
    Reject,
}

/// Whether `program`, which has so many tests, is a boolean one: each of its words but the first and the last is a test
/// that asks whether a boolean is true.
pub(crate) fn is_boolean(program: &[u32], tests: usize) -> bool {
    let all = program.get(START as usize..START as usize + tests);
    tests <= BOOLEAN_TESTS && all.is_some_and(|words| words.iter().all(|word| word & CODE == code::TRUE))
}

/// The words of the tests of a boolean program.
pub(crate) fn boolean_tests(program: &[u32]) -> &[u32] {
    &program[START as usize..program.len() - 1]
}

/// A test of a boolean program.
#[inline]
pub(crate) fn boolean(word: u32) -> Boolean {
    let attribute = (word >> ATTRIBUTE_SHIFT & ATTRIBUTE) as usize;
    let way = match word >> JUMP_SHIFT {
        ACCEPT => Way::Accept,
        REJECT => Way::Reject,
        ahead => Way::Ahead(ahead as usize),
    };
    Boolean { literal: 2 * attribute + usize::from(word & ON != 0), way }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(bool),
    /// The budget ran out before the operation at this position.
    Stopped(u32),
}

/// What programs ask.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub event: &'a Event,
    pub probes: &'a [Probe],
    pub library: &'a Library,
}

/// Runs `program` from `position` for as many operations as `budget` has left.
pub(crate) fn run(program: &[u32], position: u32, budget: &mut u32, asked: Asked, memo: &mut Memo) -> Outcome {
    let Asked { event, probes, library } = asked;
    let mut at = position as usize;
    while *budget > 0 {
        *budget -= 1;
        let word = program[at];
        let attribute = word >> ATTRIBUTE_SHIFT & ATTRIBUTE;
        let (holds, next) = match word & CODE {
            // Ahead of all others, as most are of these kinds.
            scalar if scalar >= code::SCALAR => {
                (holds(scalar, ordering(probes[probe::place(attribute)], program[at + 1] as i32)), at + 2)
            }
            flag if flag >= code::TRUE => (holds(flag, ordering(probes[probe::place(attribute)], 1)), at + 1),
            code::REJECT => return Outcome::Done(false),
            code::ACCEPT => return Outcome::Done(true),
            code::GO => {
                at = program[at + 1] as usize;
                continue;
            }
            code::SHARED => (memo.holds(library, program[at + 1], event), at + 2),
            comparison => {
                let operands = &program[at + 1..];
                let holds = compare(comparison, event.values[attribute as usize], operands, event);
                (holds, at + 1 + length(comparison, operands))
            }
        };
        at = if holds == (word & ON != 0) {
            match word >> JUMP_SHIFT {
                ACCEPT => return Outcome::Done(true),
                REJECT => return Outcome::Done(false),
                ahead => at + ahead as usize,
            }
        } else {
            next
        };
    }
    Outcome::Stopped(at as u32)
}

/// How a value stands to a constant, by its probe.
#[inline]
fn ordering(probe: Probe, constant: i32) -> u32 {
    let ordering = 1 + u32::from(probe.value > constant) - u32::from(probe.value < constant);
    if probe.value == probe::UNDEFINED {
        UNDEFINED
    } else {
        ordering
    }
}

/// Whether an operation from [`code::TRUE`] on holds for `ordering`.
#[inline]
fn holds(operation: u32, ordering: u32) -> bool {
    ORDERINGS >> (4 * (operation - code::TRUE) + ordering) & 1 == 1
}

/// How many words of `operands` an operation takes that is about a list or a float.
fn length(comparison: u32, operands: &[u32]) -> usize {
    match comparison {
        code::FLOAT.. => 2,
        _ => list::words(operands[0]),
    }
}

fn compare(comparison: u32, value: Value, operands: &[u32], event: &Event) -> bool {
    let list = || List::read(operands);
    match comparison {
        code::ONE_OF_INTEGERS => among_integers(value, list(), event) == Some(true),
        code::NONE_OF_INTEGERS => among_integers(value, list(), event) == Some(false),
        code::ONE_OF_STRINGS => among_strings(value, list(), event) == Some(true),
        code::NONE_OF_STRINGS => among_strings(value, list(), event) == Some(false),
        relation => {
            let bits = u64::from(operands[0]) | u64::from(operands[1]) << 32;
            compare_float(relation - code::FLOAT, value, f64::from_bits(bits))
        }
    }
}

fn compare_float(relation: u32, value: Value, constant: f64) -> bool {
    match value {
        Value::Float(value) => RELATIONS[relation as usize].holds_of_floats(value, constant),
        _ => false,
    }
}

/// Whether an integer, or one of a list, is among `list`; nothing where the value is undefined.
fn among_integers(value: Value, list: List, event: &Event) -> Option<bool> {
    let is_listed = |integer: i64| i32::try_from(integer).is_ok_and(|integer| list.contains(integer));
    match value {
        Value::Integer(integer) => Some(is_listed(integer)),
        Value::Integers(span) => {
            let values = span.of(&event.integers);
            if values.len() <= list.len() {
                Some(values.iter().any(|&integer| is_listed(integer)))
            } else {
                Some(list.iter().any(|constant| values.binary_search(&i64::from(constant)).is_ok()))
            }
        }
        _ => None,
    }
}

/// Whether a string, or one of a list, is among `list`; nothing where the value is undefined.
fn among_strings(value: Value, list: List, event: &Event) -> Option<bool> {
    let is_listed = |text: Text| list.contains(text.id.0 as i32);
    match value {
        Value::String(text) => Some(is_listed(text)),
        Value::Strings(span) => Some(span.of(&event.strings).iter().any(|&text| is_listed(text))),
        _ => None,
    }
}
