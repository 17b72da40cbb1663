//! Short-circuit code: an expression in one run of words, constants beside the tests that need them, so that looking
//! at a candidate touches little memory and in order.
//!
//! A program is the slot of its subscription, then operations. An operation is a word of its code (the lowest
//! [`CODE_BITS`] bits), the value on which it jumps (one bit) and its attribute; a word for where it jumps; and its
//! constants. Behind the last test stands [`code::REJECT`]. All that a run needs to go on later is its position.
//!
//! Comparisons with one constant and membership in short lists stand in the program itself, and are done again by each
//! expression that mentions them: that costs less than to find out whether they were done. Everything else refers to
//! the table of predicates, and is done at most once an event.

use super::order::{Target, Test};
use crate::event::{Event, Value};
use crate::interner::StringId;
use crate::predicate::{self, Constants, Predicate, Relation};
use crate::predicates::{PredicateId, Predicates};
use crate::subscriptions::Slot;

const CODE_BITS: u32 = 5;
const ON: u32 = 1 << CODE_BITS;
const ATTRIBUTE_SHIFT: u32 = CODE_BITS + 1;
/// Attributes beyond this are read by way of the table of predicates.
const MAX_ATTRIBUTE: u32 = u32::MAX >> ATTRIBUTE_SHIFT;
/// Longer lists are not copied into programs.
const MAX_LIST: usize = 256;

/// Jump targets that are not positions.
const ACCEPT: u32 = u32::MAX;
const REJECT: u32 = u32::MAX - 1;

/// What an operation asks.
mod code {
    pub const REJECT: u32 = 0;
    pub const ACCEPT: u32 = 1;
    /// A predicate of the table; its number.
    pub const SHARED: u32 = 2;
    pub const TRUE: u32 = 3;
    pub const NULL: u32 = 4;
    pub const NOT_NULL: u32 = 5;
    /// A string's number.
    pub const STRING_EQUAL: u32 = 6;
    pub const STRING_NOT_EQUAL: u32 = 7;
    /// A count, then so many integers of 32 bits, sorted.
    pub const ONE_OF_INTEGERS: u32 = 8;
    pub const NONE_OF_INTEGERS: u32 = 9;
    /// A count, then so many strings' numbers, sorted.
    pub const ONE_OF_STRINGS: u32 = 10;
    pub const NONE_OF_STRINGS: u32 = 11;
    /// Six relations to an integer of 32 bits.
    pub const INTEGER: u32 = 12;
    /// Six relations to a float, in two words.
    pub const FLOAT: u32 = 18;
}

const RELATIONS: [Relation; 6] = [
    Relation::Less,
    Relation::LessOrEqual,
    Relation::Greater,
    Relation::GreaterOrEqual,
    Relation::Equal,
    Relation::NotEqual,
];

/// Where the operations of a program start.
pub(crate) const START: u32 = 1;

/// The program of a constant expression.
pub(crate) fn constant(slot: Slot, value: bool) -> Vec<u32> {
    vec![slot, if value { code::ACCEPT } else { code::REJECT }]
}

/// The program of the expression that `tests` evaluate.
pub(crate) fn assemble(slot: Slot, tests: &[Test], predicates: &Predicates) -> Vec<u32> {
    let mut words = vec![slot];
    let mut positions = Vec::with_capacity(tests.len());
    for test in tests {
        positions.push(words.len() as u32);
        let on = test.on != test.literal.negated;
        operation(test.literal.predicate, on, predicates, &mut words);
    }
    words.push(code::REJECT);
    for (test, &position) in tests.iter().zip(&positions) {
        words[position as usize + 1] = match test.target {
            Target::Test(next) => positions[next as usize],
            Target::Done(true) => ACCEPT,
            Target::Done(false) => REJECT,
        };
    }
    words
}

/// Appends an operation whose target is still to be set.
fn operation(id: PredicateId, on: bool, predicates: &Predicates, words: &mut Vec<u32>) {
    let predicate = predicates.get(id);
    let start = words.len();
    words.extend([0, 0]);
    let code = operands(&predicate, words).unwrap_or_else(|| {
        words.truncate(start + 2);
        words.push(id);
        code::SHARED
    });
    let attribute = if code == code::SHARED { 0 } else { predicate.attribute };
    words[start] = code | u32::from(on) << CODE_BITS | attribute << ATTRIBUTE_SHIFT;
}

/// Appends the constants of `predicate` and answers its code; none where it is left to the table.
fn operands(predicate: &Predicate<StringId>, words: &mut Vec<u32>) -> Option<u32> {
    use predicate::Test;
    if predicate.attribute > MAX_ATTRIBUTE {
        return None;
    }
    Some(match &predicate.test {
        Test::True => code::TRUE,
        Test::Null => code::NULL,
        Test::NotNull => code::NOT_NULL,
        Test::StringEqual(id) => {
            words.push(id.0);
            code::STRING_EQUAL
        }
        Test::StringNotEqual(id) => {
            words.push(id.0);
            code::STRING_NOT_EQUAL
        }
        Test::Integer(relation, constant) => {
            words.push(i32::try_from(*constant).ok()? as u32);
            code::INTEGER + number(*relation)
        }
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

fn number(relation: Relation) -> u32 {
    RELATIONS.iter().position(|known| *known == relation).map_or(0, |number| number as u32)
}

fn list(constants: &Constants<StringId>, words: &mut Vec<u32>, integers: u32, strings: u32) -> Option<u32> {
    match constants {
        Constants::Integers(list) if list.len() <= MAX_LIST => {
            words.push(list.len() as u32);
            for &integer in list {
                words.push(i32::try_from(integer).ok()? as u32);
            }
            Some(integers)
        }
        Constants::Strings(list) if list.len() <= MAX_LIST => {
            words.push(list.len() as u32);
            words.extend(list.iter().map(|id| id.0));
            Some(strings)
        }
        _ => None,
    }
}

/// What a run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(bool),
    /// The budget ran out before the operation at this position.
    Stopped(u32),
}

/// Runs `program` from `position` for as many operations as `budget` has left. `shared` evaluates a predicate of the
/// table.
pub(crate) fn run(
    program: &[u32],
    position: u32,
    budget: &mut u32,
    event: &Event,
    mut shared: impl FnMut(PredicateId) -> bool,
) -> Outcome {
    let mut at = position as usize;
    loop {
        if *budget == 0 {
            return Outcome::Stopped(at as u32);
        }
        *budget -= 1;
        let word = program[at];
        let value = event.values.get((word >> ATTRIBUTE_SHIFT) as usize).copied().unwrap_or(Value::Undefined);
        let (holds, next) = match word & (ON - 1) {
            code::REJECT => return Outcome::Done(false),
            code::ACCEPT => return Outcome::Done(true),
            code::SHARED => (shared(program[at + 2]), at + 3),
            code::TRUE => (value == Value::Boolean(true), at + 2),
            code::NULL => (value == Value::Undefined, at + 2),
            code::NOT_NULL => (value != Value::Undefined, at + 2),
            code::STRING_EQUAL => (string(value).is_some_and(|id| id == program[at + 2]), at + 3),
            code::STRING_NOT_EQUAL => (string(value).is_some_and(|id| id != program[at + 2]), at + 3),
            listed @ (code::ONE_OF_INTEGERS | code::NONE_OF_INTEGERS) => {
                let end = at + 3 + program[at + 2] as usize;
                let among = among_integers(value, &program[at + 3..end], event);
                (among == Some(listed == code::ONE_OF_INTEGERS), end)
            }
            listed @ (code::ONE_OF_STRINGS | code::NONE_OF_STRINGS) => {
                let end = at + 3 + program[at + 2] as usize;
                let among = among_strings(value, &program[at + 3..end], event);
                (among == Some(listed == code::ONE_OF_STRINGS), end)
            }
            relation if relation < code::FLOAT => {
                (compare_integer(relation - code::INTEGER, value, program[at + 2] as i32), at + 3)
            }
            relation => {
                let bits = u64::from(program[at + 2]) | u64::from(program[at + 3]) << 32;
                (compare_float(relation - code::FLOAT, value, f64::from_bits(bits)), at + 4)
            }
        };
        at = if holds == (word & ON != 0) {
            match program[at + 1] {
                ACCEPT => return Outcome::Done(true),
                REJECT => return Outcome::Done(false),
                target => target as usize,
            }
        } else {
            next
        };
    }
}

fn string(value: Value) -> Option<u32> {
    match value {
        Value::String(text) => Some(text.id.0),
        _ => None,
    }
}

fn compare_integer(relation: u32, value: Value, constant: i32) -> bool {
    match value {
        Value::Integer(value) => RELATIONS[relation as usize].holds(value, i64::from(constant)),
        _ => false,
    }
}

fn compare_float(relation: u32, value: Value, constant: f64) -> bool {
    match value {
        Value::Float(value) => RELATIONS[relation as usize].holds_of_floats(value, constant),
        _ => false,
    }
}

/// Whether an integer, or one of a list, is among `list`; nothing where the value is undefined.
fn among_integers(value: Value, list: &[u32], event: &Event) -> Option<bool> {
    let is_listed = |integer: i64| match i32::try_from(integer) {
        Ok(integer) => list.binary_search_by_key(&integer, |&word| word as i32).is_ok(),
        Err(_) => false,
    };
    match value {
        Value::Integer(integer) => Some(is_listed(integer)),
        Value::Integers(span) => {
            let values = span.of(&event.integers);
            if values.len() <= list.len() {
                Some(values.iter().any(|&integer| is_listed(integer)))
            } else {
                Some(list.iter().any(|&word| values.binary_search(&i64::from(word as i32)).is_ok()))
            }
        }
        _ => None,
    }
}

/// Whether a string, or one of a list, is among `list`; nothing where the value is undefined.
fn among_strings(value: Value, list: &[u32], event: &Event) -> Option<bool> {
    match value {
        Value::String(text) => Some(list.binary_search(&text.id.0).is_ok()),
        Value::Strings(span) => Some(span.of(&event.strings).iter().any(|text| list.binary_search(&text.id.0).is_ok())),
        _ => None,
    }
}
