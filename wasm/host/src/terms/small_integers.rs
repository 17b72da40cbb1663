//! The terms of small integers, computed without calling the VM for each.
//!
//! The VM stores a small integer inside its term, beside a tag, so the terms of successive integers have a constant
//! distance. The VM does not promise that. So the host measures the distance once, and the range in which it holds; if
//! it does not hold at all, no term is known here.

/// A term as a machine word.
pub type Word = usize;

/// The terms of the integers below `end`: `zero` for 0, and `step` more for each next integer.
pub struct SmallIntegers {
    zero: Word,
    step: Word,
    end: u64,
}

impl SmallIntegers {
    /// Measures `term` at each power of two and its neighbors, until the distance differs. It does for a large integer,
    /// whose term is a pointer to its digits.
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
