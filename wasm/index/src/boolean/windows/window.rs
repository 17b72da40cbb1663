//! A window is the layout of a formula for evaluation by additions: see README.md.

use std::ops::Range;

use crate::boolean::windows::formula::{Formula, Kind, Place, LOWER, UPPER};
use crate::boolean::windows::leaves::{Picked, Selection, NO_COLUMN};
use crate::boolean::windows::Leaf;
use crate::support::simd::BYTES;

/// The bits of a word of a window's constants.
const WORD: usize = u64::BITS as usize;

/// The bit of a leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Placed {
    bit: usize,
    leaf: Leaf,
}

/// The constants of one addition: the bits that are set before it, and the summand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Addition {
    pub set: u64,
    pub add: u64,
}

/// A window evaluates a formula by additions. It has the bits of the leaves and the constants.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Window {
    words: usize,
    leaves: Vec<Placed>,
    /// The additions for the lower and the upper value, by pass and within a pass by word.
    additions: [Vec<Addition>; 2],
    /// The bits of the chains of each pass only, by pass and within a pass by word.
    chains: Vec<u64>,
}

impl Window {
    /// Lays `formula` out in `width` bits of a word, with `passes` passes. Returns `None` if it does not fit.
    pub fn lay_out(formula: &Formula, width: usize, passes: usize) -> Option<Window> {
        if formula.leaves() + formula.joints() >= width {
            return None;
        }
        let shape = Shape::of(formula);
        (shape.passes() <= passes).then(|| Window::write(formula, &shape, width, passes))
    }

    /// Lays `formula` out in the words and passes that it needs. Returns `None` if it needs more than `words` or `passes`.
    pub fn lay_out_in_words(formula: &Formula, words: usize, passes: usize) -> Option<Window> {
        let width = (formula.leaves() + formula.joints() + 1).next_multiple_of(WORD);
        if width > words * WORD {
            return None;
        }
        let shape = Shape::of(formula);
        (shape.passes() <= passes).then(|| Window::write(formula, &shape, width, shape.passes()))
    }

    fn write(formula: &Formula, shape: &Shape, width: usize, passes: usize) -> Window {
        let words = width.div_ceil(WORD);
        let additions = [LOWER, UPPER].map(|_| vec![Addition::default(); words * passes]);
        let chains = vec![0; words * passes];
        let window = Window { words, leaves: Vec::with_capacity(formula.leaves()), additions, chains };
        let top = width - 1;
        let mut writer = Writer { formula, shape, window, bit: top - formula.leaves() - formula.joints() };
        if formula.len() > 0 {
            writer.chain(0, shape.nodes[0].pass);
        } else {
            // Without leaves nothing is known, so the upper value is true.
            writer.mark(UPPER, 0, top..width, |addition, bits| addition.set |= bits);
        }
        writer.window
    }

    /// Returns the number of words.
    pub fn words(&self) -> usize {
        self.words
    }

    /// Returns the additions for the lower or the upper value.
    pub fn additions(&self, side: usize) -> &[Addition] {
        &self.additions[side]
    }

    /// Returns the number of passes.
    pub fn passes(&self) -> usize {
        self.chains.len() / self.words
    }

    /// Returns the bits of `word` that belong to chains of passes before `pass`.
    pub fn before(&self, pass: usize, word: usize) -> u64 {
        self.chains.iter().skip(word).step_by(self.words).take(pass).fold(0, |bits, chains| bits | chains)
    }

    /// Like [`Window::select`], for windows that read only the first 255 bits of an event.
    pub fn pick(&self, picked: &mut [Picked], flips: &mut [u64]) {
        picked.fill([NO_COLUMN; BYTES]);
        flips.fill(0);
        for &Placed { bit, leaf } in &self.leaves {
            picked[bit / BYTES][bit % BYTES] = leaf.column as u8;
            flips[bit / WORD] |= u64::from(leaf.negated) << (bit % WORD);
        }
    }

    /// Writes to `selections` the bits of an event that the window reads, 16 in each. Writes to `flips` the bits to invert
    /// afterwards: those of negated leaves, and those without a leaf, which become ones.
    pub fn select(&self, selections: &mut [Selection], flips: &mut [u64]) {
        flips.fill(u64::MAX);
        for &Placed { bit, leaf } in &self.leaves {
            let (selection, place) = (&mut selections[bit / BYTES], bit % BYTES);
            selection.bytes[place] = (leaf.column / 8) as u8;
            selection.masks[place] = 1 << (leaf.column % 8);
            if !leaf.negated {
                flips[bit / WORD] ^= 1 << (bit % WORD);
            }
        }
    }
}

/// The division of a formula into chains.
struct Shape {
    nodes: Vec<Chain>,
}

#[derive(Clone, Copy, Default)]
struct Chain {
    /// The pass of the node's chain.
    pass: u8,
    /// The first pass after those of all chains that end beside this one.
    after: u8,
    /// The first child, whose chain this chain continues. It is one that needs the most passes.
    first: Option<Place>,
    /// The other children, as a linked list.
    others: Option<Place>,
    next: Option<Place>,
}

impl Shape {
    fn passes(&self) -> usize {
        self.nodes.first().map_or(1, |root| usize::from(root.pass) + 1)
    }

    fn of(formula: &Formula) -> Shape {
        let mut shape = Shape { nodes: vec![Chain::default(); formula.len()] };
        for place in (0..formula.len() as Place).rev() {
            let chain = shape.nodes[place as usize];
            let deepest = chain.first.map_or(0, |first| shape.nodes[first as usize].pass);
            shape.nodes[place as usize].pass = deepest.max(chain.after);
            if let Some(parent) = formula.parent(place) {
                shape.attach(formula, parent, place);
            }
        }
        shape
    }

    /// Makes `child` the first child of `parent`, or one of the others.
    fn attach(&mut self, formula: &Formula, parent: Place, child: Place) {
        let is_leaf = |place: Place| formula.node(place).is_leaf();
        let depth = |shape: &Shape, place: Place| (shape.nodes[place as usize].pass, !is_leaf(place));
        let first = self.nodes[parent as usize].first;
        let other = match first {
            Some(first) if depth(self, first) >= depth(self, child) => Some(child),
            _ => {
                self.nodes[parent as usize].first = Some(child);
                first
            }
        };
        let Some(other) = other else { return };
        self.nodes[other as usize].next = self.nodes[parent as usize].others;
        let pass = self.nodes[other as usize].pass;
        let parent = &mut self.nodes[parent as usize];
        parent.others = Some(other);
        if !is_leaf(other) {
            parent.after = parent.after.max(pass + 1);
        }
    }
}

struct Writer<'a> {
    formula: &'a Formula,
    shape: &'a Shape,
    window: Window,
    /// The next unused bit.
    bit: usize,
}

impl Writer<'_> {
    /// Writes the chain of a node in pass `pass`. The depth of the recursion is at most the number of leaves.
    fn chain(&mut self, place: Place, pass: u8) {
        let start = self.bit;
        let node = self.formula.node(place);
        match node.kind {
            Kind::Leaf(leaf) => {
                // Nothing is carried into this bit, so adding one carries the leaf out.
                for side in [LOWER, UPPER] {
                    self.mark(side, pass, start..start + 1, |addition, bit| addition.add |= bit);
                }
                self.assign(start, pass);
                self.leaf(leaf);
            }
            Kind::And | Kind::Or => {
                let Chain { first, others, .. } = self.shape.nodes[place as usize];
                first.into_iter().for_each(|first| self.chain(first, pass));
                let mut other = others;
                while let Some(child) = other {
                    self.join(child, node.kind, pass);
                    other = self.shape.nodes[child as usize].next;
                }
            }
        }
        let end = self.bit;
        if node.is_fixed(LOWER) {
            self.mark(LOWER, pass, start..end, |addition, bits| addition.add &= !bits);
        }
        if node.is_fixed(UPPER) {
            self.mark(UPPER, pass, start..end, |addition, bits| addition.add &= !bits);
            self.mark(UPPER, pass, end - 1..end, |addition, last| {
                addition.set |= last;
                addition.add |= last;
            });
        }
    }

    /// Continues a chain with one more child of a node of kind `kind`.
    fn join(&mut self, child: Place, kind: Kind, pass: u8) {
        let start = self.bit;
        let node = self.formula.node(child);
        if let Kind::And | Kind::Or = node.kind {
            // The child's result arrives in the next bit. The carry of this chain passes over its bits.
            self.chain(child, self.shape.nodes[child as usize].pass);
        }
        let joint = self.bit..self.bit + 1;
        self.assign(joint.start, pass);
        for side in [LOWER, UPPER] {
            self.mark(side, pass, start..joint.start, |addition, bits| addition.set |= bits);
            // A child that can only be true does not decide an `And`, and one that can only be false does not decide an
            // `Or`.
            if node.is_fixed(side) && (side == UPPER) == (kind == Kind::And) {
                self.mark(side, pass, joint.clone(), |addition, bit| addition.set |= bit);
            } else if kind == Kind::Or {
                self.mark(side, pass, joint.clone(), |addition, bit| addition.add |= bit);
            }
        }
        match node.kind {
            Kind::Leaf(leaf) => self.leaf(leaf),
            Kind::And | Kind::Or => self.bit += 1,
        }
    }

    /// Assigns a bit to the chains of a pass.
    fn assign(&mut self, bit: usize, pass: u8) {
        self.window.chains[usize::from(pass) * self.window.words + bit / WORD] |= 1 << (bit % WORD);
    }

    fn leaf(&mut self, leaf: Leaf) {
        self.window.leaves.push(Placed { bit: self.bit, leaf });
        self.bit += 1;
    }

    /// Changes the constants of a pass for the given bits.
    fn mark(&mut self, side: usize, pass: u8, bits: Range<usize>, change: impl Fn(&mut Addition, u64)) {
        if bits.is_empty() {
            return;
        }
        let (first, last) = (bits.start / WORD, (bits.end - 1) / WORD);
        let words = usize::from(pass) * self.window.words;
        let additions = &mut self.window.additions[side][words + first..=words + last];
        for (word, addition) in (first..).zip(additions) {
            let from = bits.start.max(word * WORD) % WORD;
            let to = (bits.end - 1).min(word * WORD + WORD - 1) % WORD;
            change(addition, u64::MAX >> (WORD - 1 - (to - from)) << from);
        }
    }
}
