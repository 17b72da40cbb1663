//! Windows of 64 bits decide most expressions that 16 bits leave open. Windows of whole expressions decide the rest.

use crate::boolean::windows::formula::{LOWER, UPPER};
use crate::boolean::windows::leaves::{gather, pick, Page, Picked, Selection, NO_COLUMN};
use crate::boolean::windows::window::{Addition, Window};
use crate::handles::ProgramId;
use crate::support::footprint::of_slice;
use crate::support::simd::{Vector, BYTES};

/// The bits of a window. [`PASSES`] is the number of its additions.
pub(super) const WIDTH: usize = 64;
pub(super) const PASSES: usize = 3;

/// The maximal number of words of a whole expression, and of additions. A tree that needs nine has 256 leaves.
pub(super) const MAX_WORDS: usize = 8;
pub(super) const MAX_PASSES: usize = 9;
/// The number of additions that suffices for most whole expressions.
const USUAL_PASSES: usize = 4;

/// A window of the most decisive leaves.
#[derive(Clone, Debug)]
pub(super) struct Wide {
    leaves: Leaves,
    additions: [[Addition; PASSES]; 2],
    /// The fallback for events for which this window leaves the expression open.
    pub rest: Rest,
}

/// The leaves of a word.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Leaves {
    selections: [Selection; 4],
    flips: u64,
}

/// The fallback evaluates all of an expression.
#[derive(Clone, Debug)]
pub(super) enum Rest {
    Whole(Whole),
    /// The program of an expression that takes more words than [`MAX_WORDS`].
    Program(ProgramId),
}

/// A window of a whole expression. It is packed because it is rarely evaluated.
///
/// No leaf is removed, so the bits of each pass's chains determine its additions: the bits of earlier passes are set, and
/// one word has the summands of all passes, as each bit belongs to one pass.
#[derive(Clone, Debug)]
pub(super) struct Whole {
    /// The constants of each word of the window: its leaves, the mask of negated ones, the summand, and the bits that each
    /// pass but the first sets.
    words: Box<[u64]>,
    /// [`USUAL_PASSES`] additions suffice.
    is_usual: bool,
    /// The leaves are [`Picked`] instead of [`Selection`]s.
    is_picked: bool,
}

/// The number of words for the leaves of a word, picked or selected.
const PICKED: usize = 8;
const SELECTED: usize = 16;

impl Wide {
    pub fn new(window: &Window, rest: Rest) -> Self {
        let leaves = Leaves::of(window)[0];
        let additions = [LOWER, UPPER].map(|side| std::array::from_fn(|pass| window.additions(side)[pass]));
        Wide { leaves, additions, rest }
    }

    /// Returns the heap bytes of the window.
    pub fn heap_bytes(&self) -> usize {
        match &self.rest {
            Rest::Whole(whole) => of_slice(&whole.words),
            Rest::Program(_) => 0,
        }
    }

    /// Prefetches all cache lines of the window.
    #[inline(always)]
    pub fn prefetch(&self) -> u64 {
        let Wide { leaves, additions: [lower, upper], .. } = self;
        let masks = leaves.selections[0].masks[0] ^ leaves.selections[2].masks[0];
        lower[0].set ^ upper[1].set ^ u64::from(masks) ^ leaves.flips
    }

    /// Returns two bits: whether the expression is true, and whether it is open.
    #[inline(always)]
    pub fn decide<V: Vector, const PAGES: usize>(&self, pages: &[V; PAGES]) -> (u64, u64) {
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

    fn read<V: Vector, const PAGES: usize>(&self, pages: &[V; PAGES]) -> u64 {
        let [quarters] = gather(pages, std::array::from_ref(&self.selections));
        word(quarters) ^ self.flips
    }
}

impl Whole {
    /// Packs a window of a whole expression. `is_picked` says that all bits of an event can be picked.
    pub fn new(window: &Window, is_picked: bool) -> Self {
        let is_usual = window.passes() <= USUAL_PASSES;
        let passes = if is_usual { USUAL_PASSES } else { MAX_PASSES };
        let mut flips = vec![0; window.words()];
        let leaves: Vec<u64> = if is_picked {
            let mut picked = vec![[NO_COLUMN; BYTES]; 4 * window.words()];
            window.pick(&mut picked, &mut flips);
            picked.iter().flat_map(halves).collect()
        } else {
            let mut selections = vec![Selection::NONE; 4 * window.words()];
            window.select(&mut selections, &mut flips);
            let parts = selections.iter().flat_map(|Selection { bytes, masks }| [bytes, masks]);
            parts.flat_map(halves).collect()
        };
        let of_word = if is_picked { PICKED } else { SELECTED };
        let mut words = Vec::with_capacity(leaves.len() + window.words() * (1 + passes));
        for (word, leaves) in leaves.chunks_exact(of_word).enumerate() {
            words.extend(leaves);
            words.push(flips[word]);
            let additions = window.additions(LOWER).iter().skip(word).step_by(window.words());
            words.push(additions.fold(0, |added, addition| added | addition.add));
            // Unused passes add nothing.
            words.extend((1..passes).map(|pass| window.before(pass, word)));
        }
        Whole { words: words.into(), is_usual, is_picked }
    }

    /// Returns whether the expression is true, as a bit.
    #[inline(never)]
    pub fn decide<V: Vector, const PAGES: usize>(&self, pages: &[V; PAGES]) -> u64 {
        // The bits of one page can always be picked, and those of more than four never. So the compiler generates only the
        // cases that occur.
        let is_picked = match PAGES {
            1 => true,
            2..=4 => self.is_picked,
            _ => false,
        };
        debug_assert_eq!(is_picked, self.is_picked, "the pages are all of the event's");
        // The number of passes is constant in each case, because a loop over them would take longer than the additions.
        match (is_picked, self.is_usual) {
            (true, true) => self.add_up::<USUAL_PASSES>(PICKED, |leaves| read_picked(pages, leaves)),
            (true, false) => self.add_up::<MAX_PASSES>(PICKED, |leaves| read_picked(pages, leaves)),
            (false, _) => self.decide_selected(pages),
        }
    }

    #[inline(never)]
    fn decide_selected<V: Vector, const PAGES: usize>(&self, pages: &[V; PAGES]) -> u64 {
        match self.is_usual {
            true => self.add_up::<USUAL_PASSES>(SELECTED, |leaves| read_selected(pages, leaves)),
            false => self.add_up::<MAX_PASSES>(SELECTED, |leaves| read_selected(pages, leaves)),
        }
    }

    #[inline(always)]
    fn add_up<const PASSES: usize>(&self, leaves: usize, read: impl Fn(&[u64]) -> u64) -> u64 {
        let mut carries = [0; PASSES];
        let mut result = 0;
        for word in self.words.chunks_exact(leaves + 1 + PASSES) {
            let (leaves, constants) = word.split_at(leaves);
            let [flips, added, sets @ ..] = constants else { unreachable!("a word has these two") };
            result = read(leaves) ^ flips;
            for (pass, carry) in carries.iter_mut().enumerate() {
                let set = if pass == 0 { 0 } else { sets[pass - 1] };
                let below = if pass + 1 == PASSES { u64::MAX } else { sets[pass] };
                let (sum, carried) = (result | set).overflowing_add(added & below & !set);
                let (sum, carried_on) = sum.overflowing_add(*carry);
                (result, *carry) = (sum, u64::from(carried | carried_on));
            }
        }
        result >> 63
    }
}

/// Returns sixteen bytes as two words. [`page`] is the inverse.
fn halves(page: &Page) -> impl Iterator<Item = u64> + '_ {
    page.as_chunks().0.iter().map(|half| u64::from_le_bytes(*half))
}

#[inline(always)]
fn page(halves: &[u64]) -> Page {
    (u128::from(halves[0]) | u128::from(halves[1]) << 64).to_le_bytes()
}

#[inline(always)]
fn read_picked<V: Vector, const PAGES: usize>(pages: &[V; PAGES], leaves: &[u64]) -> u64 {
    let picked: [Picked; 4] = std::array::from_fn(|quarter| page(&leaves[2 * quarter..]));
    word(pick(pages, &picked))
}

#[inline(always)]
fn read_selected<V: Vector, const PAGES: usize>(pages: &[V; PAGES], leaves: &[u64]) -> u64 {
    let selections = std::array::from_fn(|quarter| Selection {
        bytes: page(&leaves[4 * quarter..]),
        masks: page(&leaves[4 * quarter + 2..]),
    });
    let [quarters] = gather(pages, &[selections]);
    word(quarters)
}

/// Returns the word of four quarters.
#[inline(always)]
fn word(quarters: [u16; 4]) -> u64 {
    let [a, b, c, d] = quarters.map(u64::from);
    a | b << 16 | c << 32 | d << 48
}
