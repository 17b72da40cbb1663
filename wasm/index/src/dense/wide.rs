//! Windows of 64 bits: what decides most of what 16 bits leave open; and of whole expressions: what decides the rest.

use super::formula::{LOWER, UPPER};
use super::simd::{gather, Page, Selection};
use super::window::{Addition, Window};
use crate::expression::store::ProgramId;

/// The bits of a window, and its additions.
pub(super) const WIDTH: usize = 64;
pub(super) const PASSES: usize = 3;

/// The most words that a whole expression may take.
pub(super) const WORDS: usize = 8;

/// A window of the leaves that decide the most.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    leaves: Leaves,
    additions: [[Addition; PASSES]; 2],
    /// What decides the expression where this does not.
    pub rest: Rest,
}

/// The leaves of a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Leaves {
    selections: [Selection; 4],
    flips: u64,
}

/// All of an expression.
#[derive(Clone, Debug)]
pub(super) enum Rest {
    Whole(Whole),
    /// One that takes more words than [`WORDS`].
    Program(ProgramId),
}

#[derive(Clone, Debug)]
pub(super) struct Whole {
    leaves: Box<[Leaves]>,
    additions: Box<[Addition]>,
}

impl Wide {
    pub fn new(window: &Window, rest: Rest) -> Self {
        let leaves = Leaves::of(window)[0];
        let additions = [LOWER, UPPER].map(|side| std::array::from_fn(|pass| window.additions(side)[pass]));
        Wide { leaves, additions, rest }
    }

    /// Whether the expression holds, and whether that is open: a bit each.
    #[inline(always)]
    pub fn decide<const PAGES: usize>(&self, pages: &[Page; PAGES]) -> (u64, u64) {
        let word = self.leaves.read(pages);
        let [lower, upper] = self.additions.each_ref().map(|additions| {
            additions.iter().fold(word, |word, Addition { set, add }| (word | set).wrapping_add(*add)) >> 63
        });
        (lower, upper & !lower)
    }
}

impl Leaves {
    fn of(window: &Window) -> Vec<Leaves> {
        let mut selections = vec![Selection::NONE; 4 * window.words()];
        let mut flips = vec![0; window.words()];
        window.select(&mut selections, &mut flips);
        let words = selections.as_chunks().0.iter().zip(flips);
        words.map(|(&selections, flips)| Leaves { selections, flips }).collect()
    }

    fn read<const PAGES: usize>(&self, pages: &[Page; PAGES]) -> u64 {
        let [[a, b, c, d]] = gather(pages, std::array::from_ref(&self.selections)).map(|parts| parts.map(u64::from));
        (a | b << 16 | c << 32 | d << 48) ^ self.flips
    }
}

impl Whole {
    pub fn new(window: &Window) -> Self {
        Whole { leaves: Leaves::of(window).into(), additions: window.additions(LOWER).into() }
    }

    /// Whether the expression holds, as a bit.
    #[inline(never)]
    pub fn decide<const PAGES: usize>(&self, pages: &[Page; PAGES]) -> u64 {
        let mut words = [0; WORDS];
        for (word, leaves) in words.iter_mut().zip(&self.leaves) {
            *word = leaves.read(pages);
        }
        for additions in self.additions.chunks_exact(self.leaves.len()) {
            let mut carry = false;
            for (word, Addition { set, add }) in words.iter_mut().zip(additions) {
                let (sum, carried) = (*word | set).overflowing_add(*add);
                let (sum, carried_on) = sum.overflowing_add(u64::from(carry));
                (*word, carry) = (sum, carried | carried_on);
            }
        }
        words[(self.leaves.len() - 1) % WORDS] >> 63
    }
}
