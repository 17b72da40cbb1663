//! Predicates over lists of objects: a condition that any, all or none of the objects must meet.

use crate::model::predicate::{Predicate, Step};
use crate::support::footprint::of_slice;

/// The maximum number of steps of a condition.
pub const MAX_CONDITION_STEPS: usize = 255;

/// The quantifier over a list's objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Quantifier {
    /// At least one object.
    Any,
    /// Every object, even if there is none.
    All,
    /// No object.
    None,
}

impl Quantifier {
    /// Every quantifier with its word.
    pub const NAMES: [(&'static str, Quantifier); 3] =
        [("any", Quantifier::Any), ("all", Quantifier::All), ("none", Quantifier::None)];

    /// Returns the quantifier's word.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, quantifier)| *quantifier == self).map_or("", |(name, _)| name)
    }
}

/// A quantified condition on a list's objects. It reads the attributes of one object by their positions in the objects'
/// schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quantified<S> {
    /// Whether any, all or none of the objects must meet the condition.
    pub quantifier: Quantifier,
    steps: Box<[Step<S>]>,
    /// The position of the operator for each step that ends its left operand, and 0 for any other step.
    operators: Box<[u8]>,
}

impl<S> Quantified<S> {
    /// Returns the predicate whose condition is `steps`, an expression in postfix order of at most [`MAX_CONDITION_STEPS`] steps without
    /// predicates over lists of objects.
    pub fn new(quantifier: Quantifier, steps: Box<[Step<S>]>) -> Self {
        debug_assert!(steps.len() <= MAX_CONDITION_STEPS, "a byte holds a position");
        let mut operators = vec![0; steps.len()].into_boxed_slice();
        let mut starts: Vec<usize> = Vec::with_capacity(steps.len());
        for (position, step) in steps.iter().enumerate() {
            let start = match step {
                Step::Constant(_) | Step::Predicate(_) => position,
                Step::Not => starts[position - 1],
                Step::And | Step::Or => {
                    let right = starts[position - 1];
                    operators[right - 1] = position as u8;
                    starts[right - 1]
                }
            };
            starts.push(start);
        }
        Quantified { quantifier, steps, operators }
    }

    /// Returns the heap bytes of the condition.
    pub(crate) fn heap_bytes(&self) -> usize {
        let tests = self.predicates().map(|predicate| predicate.test.heap_bytes());
        of_slice(&self.steps) + of_slice(&self.operators) + tests.sum::<usize>()
    }

    /// Returns the condition in postfix order.
    pub fn steps(&self) -> &[Step<S>] {
        &self.steps
    }

    /// Returns the predicates of the condition. A predicate that the text repeats is repeated.
    pub fn predicates(&self) -> impl Iterator<Item = &Predicate<S>> + Clone {
        self.steps.iter().filter_map(|step| match step {
            Step::Predicate(predicate) => Some(predicate),
            _ => None,
        })
    }

    /// Returns whether an object meets the condition. `holds` returns whether a predicate is true of the object. It is not
    /// called for operands that short-circuiting skips.
    pub fn is_met(&self, mut holds: impl FnMut(&Predicate<S>) -> bool) -> bool {
        let mut value = false;
        let mut position = 0;
        while let Some(step) = self.steps.get(position) {
            match step {
                Step::Constant(constant) => value = *constant,
                Step::Predicate(predicate) => value = holds(predicate),
                Step::Not => value = !value,
                // The left operand did not decide, so the operator has the value of the right one.
                Step::And | Step::Or => {}
            }
            // A left operand that decides its operator skips the right one. The operator may be a left operand itself.
            loop {
                let operator = self.operators[position] as usize;
                let decisive = matches!(self.steps[operator], Step::Or);
                if operator == 0 || value != decisive {
                    break;
                }
                position = operator;
            }
            position += 1;
        }
        value
    }

    /// Replaces the strings of the condition. `text` is called in the order of [`Quantified::each_string`].
    pub(crate) fn map<T: Ord>(self, text: &mut dyn FnMut(S) -> T) -> Quantified<T> {
        let Quantified { quantifier, steps, operators } = self;
        let steps = steps.into_vec().into_iter().map(|step| step.map(&mut *text)).collect();
        Quantified { quantifier, steps, operators }
    }

    /// Calls `each` with every string of the condition.
    pub(crate) fn each_string(&self, each: &mut dyn FnMut(&S)) {
        self.predicates().for_each(|predicate| predicate.test.each_string(&mut *each));
    }

    /// Returns an upper bound of the number of its constants, as [`Test::constants`](super::Test::constants) does. A step
    /// takes as much memory as two constants.
    pub(crate) fn constants(&self) -> usize {
        2 * self.steps.len() + self.predicates().map(|predicate| predicate.test.constants()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::attribute::AttributeId;
    use crate::model::predicate::Test;

    /// Evaluates a condition with a plain stack, without short-circuiting.
    fn plain(steps: &[Step<u32>], values: u32) -> bool {
        let mut stack: Vec<bool> = Vec::new();
        for step in steps {
            let value = match step {
                Step::Constant(value) => *value,
                Step::Predicate(predicate) => values >> predicate.attribute.index() & 1 == 1,
                Step::Not => !stack.pop().unwrap(),
                Step::And => stack.pop().unwrap() & stack.pop().unwrap(),
                Step::Or => stack.pop().unwrap() | stack.pop().unwrap(),
            };
            stack.push(value);
        }
        assert_eq!(stack.len(), 1);
        stack[0]
    }

    #[test]
    fn every_condition_has_its_value_and_skips_what_cannot_decide() {
        let mut seed = 7_u64;
        let mut below = |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % bound
        };
        for _ in 0..2000 {
            let mut steps = Vec::new();
            let mut open = 0;
            while steps.len() < 20 || open > 1 {
                match below(5) {
                    0 if open > 0 => steps.push(Step::Not),
                    1 | 2 if open > 1 => {
                        steps.push(if below(2) == 0 { Step::And } else { Step::Or });
                        open -= 1;
                    }
                    3 if steps.len() < 20 && below(4) == 0 => {
                        steps.push(Step::Constant(below(2) == 0));
                        open += 1;
                    }
                    _ if steps.len() < 20 => {
                        let attribute = AttributeId::from_index(below(6) as usize);
                        steps.push(Step::Predicate(Predicate { attribute, test: Test::True }));
                        open += 1;
                    }
                    _ => {}
                }
            }
            let quantified = Quantified::<u32>::new(Quantifier::Any, steps.clone().into());
            for values in 0..64 {
                let mut asked = 0;
                let value = quantified.is_met(|predicate| {
                    asked += 1;
                    values >> predicate.attribute.index() & 1 == 1
                });
                assert_eq!(value, plain(&steps, values), "{steps:?} {values:b}");
                assert!(asked <= quantified.predicates().count());
            }
        }
        let predicate =
            |index| Step::Predicate(Predicate { attribute: AttributeId::from_index(index), test: Test::True });
        let chain = [predicate(0), predicate(1), Step::And, predicate(2), Step::And];
        let mut asked = 0;
        assert!(!Quantified::<u32>::new(Quantifier::All, chain.into()).is_met(|_| {
            asked += 1;
            false
        }));
        assert_eq!(asked, 1, "the first operand of a chain decides it");
    }
}
