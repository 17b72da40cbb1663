//! A block has the windows of 64 expressions, 16 bits each. Constants of the same kind stand side by side, so that one
//! instruction evaluates eight expressions.

use std::hint::black_box;

use crate::boolean::windows::formula::{LOWER, UPPER};
use crate::boolean::windows::leaves::{gather, Selection};
use crate::boolean::windows::pairs;
use crate::boolean::windows::wide::{Rest, Wide};
use crate::boolean::windows::window::{Addition, Window};
use crate::handles::{ProgramId, Slot};
use crate::support::footprint::of_block;
use crate::support::simd::Vector;

/// The number of expressions in a block.
pub(super) const BLOCK: usize = 64;
/// The bits of a window. [`PASSES`] is the number of its additions.
pub(super) const WIDTH: usize = 16;
pub(super) const PASSES: usize = 2;

/// A constant of each expression in a block.
type Row = [u16; BLOCK];

#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub(crate) struct Block {
    selections: [[Selection; 4]; BLOCK / 4],
    flips: Row,
    set: [[Row; PASSES]; 2],
    add: [[Row; PASSES]; 2],
    slots: [Slot; BLOCK],
    wide: [Option<Box<Wide>>; BLOCK],
    /// The first slot, if it is a multiple of the block's length and the others follow it in order.
    run: Option<Slot>,
}

/// The result of the windows of a block, a bit for each expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    /// The expressions that are true.
    pub holds: u64,
    /// The expressions that are not decided.
    pub open: u64,
}

/// One expression of a block.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    selection: Selection,
    flips: u16,
    set: [[u16; PASSES]; 2],
    add: [[u16; PASSES]; 2],
    pub slot: Slot,
    /// The wider window, if this one may leave the expression undecided.
    pub wide: Option<Box<Wide>>,
}

impl Lane {
    /// A lane that is false for every event.
    const EMPTY: Lane = Lane {
        selection: Selection::NONE,
        flips: u16::MAX,
        set: [[0; PASSES]; 2],
        add: [[0; PASSES]; 2],
        slot: Slot::NONE,
        wide: None,
    };

    pub fn new(slot: Slot, window: &Window, wide: Option<Box<Wide>>) -> Self {
        let (mut selection, mut flips) = ([Selection::NONE], [0]);
        window.select(&mut selection, &mut flips);
        let row = |constant: fn(&Addition) -> u64| {
            [LOWER, UPPER].map(|side| std::array::from_fn(|pass| constant(&window.additions(side)[pass]) as u16))
        };
        let (set, add) = (row(|addition| addition.set), row(|addition| addition.add));
        Lane { selection: selection[0], flips: flips[0] as u16, set, add, slot, wide }
    }
}

impl Default for Block {
    fn default() -> Self {
        Block {
            selections: [[Selection::NONE; 4]; BLOCK / 4],
            flips: [u16::MAX; BLOCK],
            set: [[[0; BLOCK]; PASSES]; 2],
            add: [[[0; BLOCK]; PASSES]; 2],
            slots: [Slot::NONE; BLOCK],
            wide: [const { None }; BLOCK],
            run: None,
        }
    }
}

impl Block {
    pub(super) fn put(&mut self, lane: usize, held: Lane) {
        self.selections[lane / 4][lane % 4] = held.selection;
        self.flips[lane] = held.flips;
        for side in [LOWER, UPPER] {
            for pass in 0..PASSES {
                self.set[side][pass][lane] = held.set[side][pass];
                self.add[side][pass][lane] = held.add[side][pass];
            }
        }
        self.slots[lane] = held.slot;
        self.wide[lane] = held.wide;
        self.run = self.find_run();
    }

    /// Returns the bytes that the wider windows take of the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.wide.iter().flatten().map(|wide| of_block(size_of::<Wide>()) + wide.heap_bytes()).sum()
    }

    /// Copies the wider windows of `lane` to another place in memory.
    pub(super) fn settle(&mut self, lane: usize) {
        self.wide[lane] = self.wide[lane].clone();
    }

    /// Removes the expression from `lane`.
    pub(super) fn take(&mut self, lane: usize) -> Lane {
        let constants = |rows: &[[Row; PASSES]; 2]| rows.map(|rows| rows.map(|row| row[lane]));
        let held = Lane {
            selection: self.selections[lane / 4][lane % 4],
            flips: self.flips[lane],
            set: constants(&self.set),
            add: constants(&self.add),
            slot: self.slots[lane],
            wide: self.wide[lane].take(),
        };
        self.put(lane, Lane::EMPTY);
        held
    }

    /// Gives the expressions other slots. `slot` returns the new one.
    pub(super) fn arrange(&mut self, slot: impl Fn(Slot) -> Slot) {
        self.slots.iter_mut().filter(|held| **held != Slot::NONE).for_each(|held| *held = slot(*held));
        self.run = self.find_run();
    }

    fn find_run(&self) -> Option<Slot> {
        let first = self.slots[0];
        let follows = |(lane, &slot): (usize, &Slot)| slot == Slot::NONE || slot.index() == first.index() + lane;
        (first.index().is_multiple_of(BLOCK) && (0..).zip(&self.slots).all(follows)).then_some(first)
    }

    /// Returns the slot of the expression in `lane`.
    pub fn slot(&self, lane: usize) -> Slot {
        self.slots[lane]
    }

    /// Returns the first slot, if it is a multiple of the block's length and the others follow it in order.
    pub fn run(&self) -> Option<Slot> {
        self.run
    }

    /// Returns the wider window of an expression that this block leaves open.
    pub(super) fn wide(&self, lane: usize) -> &Wide {
        match &self.wide[lane] {
            Some(wide) => wide,
            None => unreachable!("a window that holds all of an expression decides it"),
        }
    }

    /// Returns the program of an expression that no window decides.
    pub fn program(&self, lane: usize) -> ProgramId {
        match self.wide(lane).rest {
            Rest::Program(program) => program,
            Rest::Whole(_) => unreachable!("a whole expression is decided"),
        }
    }

    /// Checks the derived fields of the block; for tests.
    pub fn validate(&self) -> Result<(), String> {
        if self.run != self.find_run() {
            return Err(format!("the slots {:?} are no run from {:?}", self.slots, self.run));
        }
        Ok(())
    }

    /// Evaluates the windows for an event.
    pub(super) fn decide<V: Vector, const PAGES: usize>(&self, pages: &[V; PAGES]) -> Decided {
        let words = gather(pages, &self.selections);
        self.add_up::<V>(words.as_flattened())
    }

    /// Evaluates the wider windows of the expressions in `lanes`.
    #[inline(never)]
    pub(super) fn widen<V: Vector, const PAGES: usize>(&self, lanes: u64, pages: &[V; PAGES]) -> Decided {
        // This prefetches the windows, so that their cache misses overlap.
        black_box(
            pairs(lanes).fold(0, |sum, [one, other]| sum ^ self.wide(one).prefetch() ^ self.wide(other).prefetch()),
        );
        let mut decided = Decided { holds: 0, open: 0 };
        for pair in pairs(lanes) {
            for lane in pair {
                let (holds, open) = self.wide(lane).decide(pages);
                decided.holds |= holds << lane;
                decided.open |= open << lane;
            }
        }
        decided
    }

    #[inline(never)]
    fn add_up<V: Vector>(&self, words: &[u16]) -> Decided {
        let mut decided = Decided { holds: 0, open: 0 };
        let Some(words) = words.first_chunk::<BLOCK>() else { unreachable!("there is a word for each expression") };
        for pair in 0..BLOCK / 16 {
            let [lower, upper] = [LOWER, UPPER].map(|side| {
                let [low, high] = [2 * pair, 2 * pair + 1].map(|eight| {
                    let row = |row: &Row| V::of_u16(&row.as_chunks().0[eight]);
                    let word = row(words) ^ row(&self.flips);
                    let passes = self.set[side].iter().zip(&self.add[side]);
                    passes.fold(word, |word, (set, add)| (word | row(set)).add_u16(row(add)))
                });
                low.signs_u16(high)
            });
            decided.holds |= u64::from(lower) << (16 * pair);
            decided.open |= u64::from(upper & !lower) << (16 * pair);
        }
        decided
    }
}
