//! Windows of 64 bits: what decides most of what 16 bits leave open; and of whole expressions: what decides the rest.

use super::formula::{LOWER, UPPER};
use super::simd::{gather, Page, Selection};
use super::window::{Addition, Window};
use crate::expression::store::ProgramId;

/// The bits of a window, and its additions.
pub(super) const WIDTH: usize = 64;
pub(super) const PASSES: usize = 3;

/// The most words that a whole expression may take, and additions: a tree that needs nine has 256 leaves.
pub(super) const WORDS: usize = 8;
pub(super) const WHOLE_PASSES: usize = 9;

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
    /// Word by word, in each pass by pass.
    additions: Box<[Addition]>,
}

impl Wide {
    pub fn new(window: &Window, rest: Rest) -> Self {
        let leaves = Leaves::of(window)[0];
        let additions = [LOWER, UPPER].map(|side| std::array::from_fn(|pass| window.additions(side)[pass]));
        Wide { leaves, additions, rest }
    }

    /// Reads something of each of its lines of memory.
    #[inline(always)]
    pub fn touch(&self) -> u64 {
        let Wide { leaves, additions: [lower, upper], .. } = self;
        let masks = leaves.selections[0].masks[0] ^ leaves.selections[2].masks[0];
        lower[0].set ^ upper[1].set ^ u64::from(masks) ^ leaves.flips
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
        let leaves = Leaves::of(window);
        let additions = window.additions(LOWER);
        let passes = match additions.len() / leaves.len() {
            ..=3 => 3,
            4 => 4,
            _ => WHOLE_PASSES,
        };
        // An addition of nothing changes nothing.
        let mut by_word = vec![Addition::default(); leaves.len() * passes];
        for (pass, additions) in additions.chunks_exact(leaves.len()).enumerate() {
            for (word, addition) in additions.iter().enumerate() {
                by_word[word * passes + pass] = *addition;
            }
        }
        Whole { leaves: leaves.into(), additions: by_word.into() }
    }

    /// Whether the expression holds, as a bit.
    #[inline(never)]
    pub fn decide<const PAGES: usize>(&self, pages: &[Page; PAGES]) -> u64 {
        // No loop over passes: it would take longer than what it does.
        match self.additions.len() / self.leaves.len() {
            3 => self.add_up::<PAGES, 3>(pages),
            4 => self.add_up::<PAGES, 4>(pages),
            _ => self.add_up::<PAGES, WHOLE_PASSES>(pages),
        }
    }

    #[inline(always)]
    fn add_up<const PAGES: usize, const PASSES: usize>(&self, pages: &[Page; PAGES]) -> u64 {
        let mut carries = [0; PASSES];
        let mut result = 0;
        for (leaves, additions) in self.leaves.iter().zip(self.additions.as_chunks::<PASSES>().0) {
            result = leaves.read(pages);
            for (carry, Addition { set, add }) in carries.iter_mut().zip(additions) {
                let (sum, carried) = (result | set).overflowing_add(*add);
                let (sum, carried_on) = sum.overflowing_add(*carry);
                (result, *carry) = (sum, u64::from(carried | carried_on));
            }
        }
        result >> 63
    }
}
