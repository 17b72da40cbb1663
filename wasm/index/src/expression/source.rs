//! The postfix form of an expression in few bytes: what is kept of its text, for as long as it is subscribed.
//!
//! A step is one number of seven bits a byte, least first: the operators and constants are 0 to 4, and the predicate
//! `p` is `p + 5`.

use crate::predicate::Step;
use crate::predicates::PredicateId;

const FALSE: u64 = 0;
const TRUE: u64 = 1;
const NOT: u64 = 2;
const AND: u64 = 3;
const OR: u64 = 4;
const PREDICATES: u64 = 5;

/// One step of a kept expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceStep {
    Constant(bool),
    Predicate(PredicateId),
    Not,
    And,
    Or,
}

/// An expression as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Source(Box<[u8]>);

impl Source {
    /// Packs `steps`, whose predicates `number` turns into numbers, in order.
    pub fn pack<S>(steps: Vec<Step<S>>, mut number: impl FnMut(crate::predicate::Predicate<S>) -> PredicateId) -> Self {
        let mut bytes = Vec::with_capacity(2 * steps.len());
        for step in steps {
            let code = match step {
                Step::Constant(false) => FALSE,
                Step::Constant(true) => TRUE,
                Step::Not => NOT,
                Step::And => AND,
                Step::Or => OR,
                Step::Predicate(predicate) => PREDICATES + u64::from(number(predicate)),
            };
            push_number(&mut bytes, code);
        }
        Source(bytes.into_boxed_slice())
    }

    /// The steps in postfix order.
    pub fn steps(&self) -> impl Iterator<Item = SourceStep> + '_ {
        let mut rest = &*self.0;
        std::iter::from_fn(move || {
            let code = take_number(&mut rest)?;
            Some(match code {
                FALSE => SourceStep::Constant(false),
                TRUE => SourceStep::Constant(true),
                NOT => SourceStep::Not,
                AND => SourceStep::And,
                OR => SourceStep::Or,
                predicate => SourceStep::Predicate((predicate - PREDICATES) as PredicateId),
            })
        })
    }

    /// The predicates, each as often as the expression mentions it.
    pub fn predicates(&self) -> impl Iterator<Item = PredicateId> + '_ {
        self.steps().filter_map(|step| match step {
            SourceStep::Predicate(predicate) => Some(predicate),
            _ => None,
        })
    }

    /// Bytes taken.
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

fn push_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (i, &byte) in rest.iter().enumerate() {
        number |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            *rest = &rest[i + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicate::{Predicate, Test};

    #[test]
    fn steps_come_back_as_they_went_in() {
        let numbers = [0, 1, 122, 123, 16_000, u32::MAX];
        let mut steps: Vec<Step<u32>> = vec![Step::Constant(true), Step::Constant(false)];
        for attribute in numbers {
            steps.push(Step::Predicate(Predicate { attribute, test: Test::True }));
        }
        steps.extend([Step::Not, Step::And, Step::Or]);
        let source = Source::pack(steps, |predicate| predicate.attribute);
        assert_eq!(source.predicates().collect::<Vec<_>>(), numbers);
        let last: Vec<_> = source.steps().skip(8).collect();
        assert_eq!(last, [SourceStep::Not, SourceStep::And, SourceStep::Or]);
    }
}
