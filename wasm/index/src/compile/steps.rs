//! The bit-packed steps of an expression, stored behind its program.
//!
//! A step names a predicate by its place in the program, which stores the predicate. The steps of most expressions take one
//! or two words.

use crate::compile::{PredicateIndex, Step};

/// A unary code: the step at position `i` here is `i + 1` ones and a zero. A predicate is a zero and its place. Ones fill
/// the rest of the last word.
const ONES: [Step; 5] = [Step::And, Step::Or, Step::Not, Step::Constant(false), Step::Constant(true)];

/// The greatest width at which every place is written. A wider place has a flag bit in front: if it is set, the place is the
/// previous one plus 1 and is omitted. That is common, because tests often keep the order of the text.
const NARROW: u32 = 4;

/// Appends `steps` to `words`. `places` has the place of each predicate.
pub(crate) fn pack(steps: &[Step], places: &[PredicateIndex], words: &mut Vec<u32>) {
    let width = width(places.len());
    let mut writer = Writer { words, bits: 0, len: 0 };
    let mut next = 0;
    for step in steps {
        match step {
            Step::Predicate(predicate) => {
                let place = places[*predicate as usize];
                match (width <= NARROW, place == next) {
                    (true, _) => writer.push(place << 1, width + 1),
                    (false, true) => writer.push(1 << 1, 2),
                    // An expression has fewer than 2^30 predicates.
                    (false, false) => writer.push(place << 2, width + 2),
                }
                next = place + 1;
            }
            other => {
                let ones = 1 + ONES.iter().position(|known| known == other).map_or(0, |position| position as u32);
                writer.push((1 << ones) - 1, ones + 1);
            }
        }
    }
    writer.finish();
}

/// Returns the steps that [`pack`] wrote to `words`, of an expression with this number of predicates.
pub(crate) fn unpack(words: &[u32], predicates: usize) -> impl Iterator<Item = Step> + '_ {
    let width = width(predicates);
    let mut reader = Reader { words, at: 0 };
    let mut next = 0;
    std::iter::from_fn(move || {
        let ones = reader.bits().trailing_ones();
        if ones > ONES.len() as u32 {
            return None;
        }
        reader.at += ones as usize + 1;
        if ones > 0 {
            return Some(ONES[ones as usize - 1]);
        }
        let follows = width > NARROW && reader.take(1) == 1;
        let place = if follows { next } else { reader.take(width) };
        next = place + 1;
        Some(Step::Predicate(place))
    })
}

/// Returns the number of bits that numbers below `count` take.
fn width(count: usize) -> u32 {
    usize::BITS - count.saturating_sub(1).leading_zeros()
}

struct Writer<'a> {
    words: &'a mut Vec<u32>,
    /// Bits that do not fill a word yet.
    bits: u64,
    len: u32,
}

impl Writer<'_> {
    /// Appends the lowest `len` bits of `bits`. All higher bits are zero.
    fn push(&mut self, bits: u32, len: u32) {
        self.bits |= u64::from(bits) << self.len;
        self.len += len;
        if self.len >= u32::BITS {
            self.words.push(self.bits as u32);
            self.bits >>= u32::BITS;
            self.len -= u32::BITS;
        }
    }

    fn finish(mut self) {
        if self.len > 0 {
            self.push(u32::MAX >> self.len, u32::BITS - self.len);
        }
    }
}

struct Reader<'a> {
    words: &'a [u32],
    /// The position of the next bit.
    at: usize,
}

impl Reader<'_> {
    /// Reads the next `len` bits.
    fn take(&mut self, len: u32) -> PredicateIndex {
        let bits = self.bits() & ((1 << len) - 1);
        self.at += len as usize;
        bits
    }

    /// Returns the next 32 bits. All bits after the last word are ones.
    fn bits(&self) -> u32 {
        let word = |position: usize| u64::from(self.words.get(position).copied().unwrap_or(u32::MAX));
        let position = self.at / u32::BITS as usize;
        ((word(position) | word(position + 1) << u32::BITS) >> (self.at % u32::BITS as usize)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_back_as_they_went_in() {
        let others = [Step::And, Step::Or, Step::Not, Step::Constant(false), Step::Constant(true), Step::Not];
        for predicates in [0, 1, 2, 3, 8, 9, 130, 70_000] {
            // Descending places, and runs of consecutive places.
            let stretches = (0..predicates).map(|place| place ^ 8).filter(|&place| place < predicates);
            let missing = (0..predicates).filter(|place| place ^ 8 >= predicates);
            for (places, other) in [(0..predicates).rev().collect(), stretches.chain(missing).collect::<Vec<_>>()]
                .into_iter()
                .flat_map(|places| (0..others.len()).map(move |other| (places.clone(), other)))
            {
                let mut steps: Vec<Step> = (0..predicates).map(Step::Predicate).collect();
                steps.extend(&others[..other]);
                let mut words = vec![];
                pack(&steps, &places, &mut words);
                let placed = steps.iter().map(|step| match step {
                    Step::Predicate(predicate) => Step::Predicate(places[*predicate as usize]),
                    other => *other,
                });
                assert_eq!(unpack(&words, places.len()).collect::<Vec<_>>(), placed.collect::<Vec<_>>());
            }
        }
    }
}
