//! The terms of small integers, without a call of the VM for each.
//!
//! The VM keeps a small integer in its term, beside a tag: so the terms of two that follow one another lie as far apart as
//! those of any other two. That is not promised. So the VM is asked, once, how far that is and up to which integer it holds;
//! where it does not hold, no term is known here.

/// A term, as the machine word that it is.
pub type Word = usize;

/// The terms of the integers below `end`: that of 0, and each next one's `step` further.
pub struct Integers {
    zero: Word,
    step: Word,
    end: u64,
}

impl Integers {
    /// Asks `term` for each power of two and its neighbours, until one is not where it would have to be. A large integer is
    /// not: its term is where its digits lie.
    pub fn of(term: impl Fn(u64) -> Word) -> Self {
        let zero = term(0);
        let mut integers = Self { zero, step: term(1).wrapping_sub(zero), end: 0 };
        let holds = |power: &u64| [power - 1, *power, power + 1].iter().all(|near| term(*near) == integers.at(*near));
        integers.end = (0..u64::BITS).map(|bits| 1 << bits).take_while(holds).last().unwrap_or(0);
        integers
    }

    /// The term of an integer, if it is known.
    pub fn term(&self, integer: u64) -> Option<Word> {
        (integer < self.end).then(|| self.at(integer))
    }

    fn at(&self, integer: u64) -> Word {
        self.zero.wrapping_add(self.step.wrapping_mul(integer as Word))
    }
}
