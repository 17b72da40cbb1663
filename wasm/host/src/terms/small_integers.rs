//! The terms of small integers, made without a call of the VM for each.
//!
//! The VM stores a small integer in its term, beside a tag. So the terms of successive integers have a constant distance.
//! The VM does not promise that, so it is asked once for the distance and for the integer up to which it holds. If it does
//! not hold, no term is known here.

/// A term as a machine word.
pub type Word = usize;

/// The terms of the integers below `end`: the term of 0, and each next one `step` further.
pub struct SmallIntegers {
    zero: Word,
    step: Word,
    end: u64,
}

impl SmallIntegers {
    /// Tests `term` for each power of two and its neighbors, until one has another distance. A large integer has: its term
    /// points to its digits.
    pub fn of(term: impl Fn(u64) -> Word) -> Self {
        let zero = term(0);
        let mut integers = Self { zero, step: term(1).wrapping_sub(zero), end: 0 };
        let holds = |power: &u64| [power - 1, *power, power + 1].iter().all(|near| term(*near) == integers.at(*near));
        integers.end = (0..u64::BITS).map(|bits| 1 << bits).take_while(holds).last().unwrap_or(0);
        integers
    }

    /// Returns the term of an integer, if it is known.
    pub fn term(&self, integer: u64) -> Option<Word> {
        (integer < self.end).then(|| self.at(integer))
    }

    fn at(&self, integer: u64) -> Word {
        self.zero.wrapping_add(self.step.wrapping_mul(integer as Word))
    }
}
