//! Dense expressions are boolean expressions without a useful access predicate, so every search evaluates all of them.
//!
//! A few leaves decide most of them. The most decisive leaves are in a word of 16 bits, the expression's *window*, and two
//! additions evaluate the windows of eight expressions at a time. If the omitted leaves could change the result, a window of
//! 64 bits is evaluated. If that leaves the expression open too, its program runs like that of any candidate. README.md
//! explains how an addition evaluates a tree.

mod block;
mod formula;
mod leaves;
#[cfg(test)]
mod tests;
mod wide;
mod window;

pub(crate) use block::{Block, Decided};
use block::{Lane, BLOCK};
use formula::Formula;
use leaves::{vectors, Page, NO_COLUMN};
use wide::{Rest, Whole, Wide};
use window::Window;

use crate::compile::normal::{NodeIndex, Normal};
use crate::compile::Literal;
use crate::event::Value;
use crate::handles::{DensePosition, ProgramId, Slot};
use crate::model::predicate::Predicate;
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::StringId;
use crate::support::bits::ones;
use crate::support::footprint::of_table;
use crate::support::headroom::growth;
use crate::support::simd::{Fastest, Vector, BYTES};

/// The maximal number of booleans that windows can read: a byte of a selection distinguishes 256 bytes.
const MAX_COLUMNS: usize = 256 * 8;
/// The number of pages that hold these booleans.
const PAGES: usize = MAX_COLUMNS / 8 / BYTES;

/// The number of blocks in a part, which is decided at a time. [`PART`] is its number of expressions.
const BLOCKS: usize = 16;
pub(crate) const PART: usize = BLOCKS * BLOCK;

/// A leaf that a window can read: a bit of the event or its negation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Leaf {
    column: u16,
    negated: bool,
    /// The probability that the leaf is true.
    probability: f32,
}

/// The dense expressions, without gaps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dense {
    columns: Columns,
    /// The parts. All but the last are full.
    parts: Vec<Vec<Block>>,
    len: usize,
}

impl Dense {
    /// Returns an empty set of expressions over the booleans of `schema`.
    pub fn new(schema: &Schema) -> Self {
        Dense { columns: Columns::new(schema), ..Dense::default() }
    }

    /// Returns the number of expressions.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of parts for [`Dense::decide`].
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Returns the booleans that windows read.
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Makes the windows of an expression whose literals all test booleans. `chance` returns the probability of a literal.
    /// The time grows with the length of the expression: about 40 microseconds for 128 leaves.
    pub fn windows(
        &self,
        normal: &Normal,
        predicates: &[Predicate<StringId>],
        chance: impl Fn(NodeIndex, Literal) -> f32,
    ) -> Windows {
        Windows::of(Formula::new(normal, |index| {
            let literal = normal.literal(index)?;
            let column = self.columns.of(predicates[literal.predicate as usize].attribute)?;
            Some(Leaf { column, negated: literal.negated, probability: chance(index, literal) })
        }))
    }

    /// Adds the expression of `slot`. Its program runs if its windows leave it open.
    pub fn insert(&mut self, slot: Slot, program: ProgramId, windows: &Windows) -> DensePosition {
        if self.len.is_multiple_of(PART) {
            // The first part grows step by step, because it is often the only one.
            self.parts.push(if self.len == 0 { Vec::new() } else { Vec::with_capacity(BLOCKS) });
        }
        if self.len.is_multiple_of(BLOCK) {
            self.parts[self.len / PART].push(Block::default());
        }
        let position = self.len;
        self.len += 1;
        let lane = windows.lane(slot, program, self.columns.can_be_picked());
        self.block(position).put(position % BLOCK, lane);
        DensePosition::from_index(position)
    }

    /// Copies the windows of an expression to another place, after the temporary memory of its insertion is freed. At their
    /// old place, in the midst of that memory, they would leave holes too small for the next insertion.
    pub fn settle(&mut self, position: DensePosition) {
        let lane = position.index() % BLOCK;
        self.block(position.index()).settle(lane);
    }

    /// Removes the expression at `position`. The last one takes its place. Returns the slot of that one, if it moved.
    pub fn remove(&mut self, position: DensePosition) -> Option<Slot> {
        let position = position.index();
        let end = self.len - 1;
        let last = self.block(end).take(end % BLOCK);
        let moved = (position != end).then_some(last.slot);
        if moved.is_some() {
            self.block(position).put(position % BLOCK, last);
        }
        self.len = end;
        self.parts.truncate(end.div_ceil(PART));
        if let Some(part) = self.parts.last_mut() {
            part.truncate((end - 1) % PART / BLOCK + 1);
        }
        moved
    }

    /// Gives all expressions other slots. `slot` returns the new one.
    pub fn arrange(&mut self, slot: impl Fn(Slot) -> Slot) {
        self.parts.iter_mut().flatten().for_each(|block| block.arrange(&slot));
    }

    /// Frees the memory of the list of parts, which is empty.
    pub fn clear(&mut self) {
        self.parts = Vec::new();
    }

    /// Returns whether the expression at `position` is true, or `None` if windows leave it open.
    pub fn holds(&self, position: DensePosition, bits: &Bits) -> Option<bool> {
        let (block, lane) = (self.block_of(position.index()), position.index() % BLOCK);
        let mut value = None;
        self.decide_blocks(std::slice::from_ref(block), bits, 1 << lane, |_, Decided { holds, open }| {
            value = (open == 0).then_some(holds >> lane & 1 == 1);
        });
        value
    }

    fn block_of(&self, position: usize) -> &Block {
        &self.parts[position / PART][position % PART / BLOCK]
    }

    fn block(&mut self, position: usize) -> &mut Block {
        &mut self.parts[position / PART][position % PART / BLOCK]
    }

    /// Decides the expressions of one part for an event, as far as windows can. It calls `each` with each block and its
    /// result. Returns the number of expressions in the part.
    pub fn decide(&self, part: usize, bits: &Bits, each: impl FnMut(&Block, Decided)) -> usize {
        self.decide_blocks(&self.parts[part], bits, u64::MAX, each);
        PART.min(self.len - part * PART)
    }

    /// Decides blocks for an event. The windows of 64 bits and more are evaluated only for the expressions in `lanes`.
    #[inline(always)]
    fn decide_blocks(&self, blocks: &[Block], bits: &Bits, lanes: u64, each: impl FnMut(&Block, Decided)) {
        match self.columns.pages() {
            0 | 1 => decide::<1>(blocks, bits, lanes, each),
            2..=4 => decide::<4>(blocks, bits, lanes, each),
            _ => decide::<PAGES>(blocks, bits, lanes, each),
        }
    }

    /// Checks that the expressions are those at `places`; for tests.
    pub fn validate(&self, places: &[(Slot, DensePosition)]) -> Result<(), String> {
        let blocks: usize = self.parts.iter().map(Vec::len).sum();
        if places.len() != self.len || blocks != self.len.div_ceil(BLOCK) {
            return Err(format!("{} dense expressions in {blocks} blocks are homes of {}", self.len, places.len()));
        }
        for &(slot, position) in places {
            let position = position.index();
            if position >= self.len
                || self.parts[position / PART][position % PART / BLOCK].slot(position % BLOCK) != slot
            {
                return Err(format!("slot {slot} is not at {position}"));
            }
        }
        self.parts.iter().flatten().try_for_each(Block::validate)
    }

    /// Returns the bytes that the expressions take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let Dense { columns, parts, .. } = self;
        let wider: usize = parts.iter().flatten().map(Block::heap_bytes).sum();
        of_table(&columns.0) + of_table(parts) + parts.iter().map(of_table).sum::<usize>() + wider
    }

    /// Returns an upper bound of the bytes that adding an expression requests.
    pub fn growth(&self) -> usize {
        let blocks = match &self.parts[..] {
            [] => growth(&self.parts, 1) + size_of::<Block>(),
            [.., last] if !self.len.is_multiple_of(PART) => growth(last, 1),
            _ => growth(&self.parts, 1) + size_of::<[Block; BLOCKS]>(),
        };
        blocks + size_of::<Wide>()
    }
}

/// Decides blocks for an event with all its bits in the first `N` pages. Each page costs instructions of its own.
fn decide<const N: usize>(blocks: &[Block], bits: &Bits, lanes: u64, mut each: impl FnMut(&Block, Decided)) {
    let Some(pages) = bits.0.first_chunk::<N>() else { unreachable!("an event has more pages") };
    let pages = vectors::<Fastest, _>(pages);
    for block in blocks {
        each(block, settle(block, &pages, lanes));
    }
}

/// Decides a block by all windows. The windows of 64 bits and more are evaluated only for the expressions in `lanes`.
#[inline(always)]
fn settle<V: Vector, const N: usize>(block: &Block, pages: &[V; N], lanes: u64) -> Decided {
    let narrow = block.decide(pages);
    let Decided { holds: decided, open } = block.widen(narrow.open & lanes, pages);
    let mut holds = narrow.holds | decided;
    let mut left = 0;
    for lane in ones(open) {
        match &block.wide(lane).rest {
            Rest::Whole(whole) => holds |= whole.decide(pages) << lane,
            Rest::Program(_) => left |= 1 << lane,
        }
    }
    Decided { holds, open: left }
}

/// Returns the places of the ones in `word`, two at a time. That halves the turns of a loop over them. If their number is
/// odd, the last pair has the last one twice.
fn pairs(mut word: u64) -> impl Iterator<Item = [usize; 2]> {
    std::iter::from_fn(move || {
        let one = (word != 0).then(|| word.trailing_zeros() as usize)?;
        word &= word - 1;
        let other = if word == 0 { one } else { word.trailing_zeros() as usize };
        word &= word.wrapping_sub(1);
        Some([one, other])
    })
}

/// The windows of an expression.
#[derive(Clone, Debug)]
pub(crate) struct Windows {
    narrow: Window,
    /// The window of 64 bits, or `None` if the narrow one has all leaves.
    wide: Option<Window>,
    /// The window of all leaves, or `None` if there are too many.
    whole: Option<Window>,
}

impl Windows {
    /// Makes the largest window of each width that fits, by removing leaves.
    fn of(mut formula: Formula) -> Self {
        let lay_out = || Window::lay_out_in_words(&formula, wide::MAX_WORDS, wide::MAX_PASSES);
        let whole = formula.is_whole().then(lay_out).flatten();
        let mut wide = None;
        loop {
            wide = wide.or_else(|| Window::lay_out(&formula, wide::WIDTH, wide::PASSES));
            if let Some(narrow) = Window::lay_out(&formula, block::WIDTH, block::PASSES) {
                let wide = if formula.is_whole() { None } else { wide };
                return Windows { narrow, wide, whole };
            }
            let width = if wide.is_none() { wide::WIDTH } else { block::WIDTH };
            formula.shrink(step(formula.leaves(), width));
        }
    }

    /// Returns whether the windows decide the expression for every event, so that its program never runs.
    #[cfg(test)]
    pub fn decide(&self) -> bool {
        self.wide.is_none() || self.whole.is_some()
    }

    fn lane(&self, slot: Slot, program: ProgramId, is_picked: bool) -> Lane {
        let whole = || self.whole.as_ref().map(|whole| Rest::Whole(Whole::new(whole, is_picked)));
        let rest = || whole().unwrap_or(Rest::Program(program));
        let wide = self.wide.as_ref().map(|window| Box::new(Wide::new(window, rest())));
        Lane::new(slot, &self.narrow, wide)
    }
}

/// Returns the number of leaves to remove at a time, towards a window of `width` bits. With many leaves, it matters less
/// exactly which of the least decisive ones are removed together.
fn step(leaves: usize, width: usize) -> usize {
    match leaves.saturating_sub(width * 7 / 8) {
        0 => 1,
        _ if leaves > 256 => leaves / 2,
        spare => spare.min(leaves.div_ceil(8)),
    }
}

/// The booleans that windows read: the first of the schema, up to the number of columns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Columns(Vec<AttributeId>);

impl Columns {
    fn new(schema: &Schema) -> Self {
        let booleans = schema.ids().zip(schema.attributes()).filter(|(_, attribute)| attribute.ty == Type::Boolean);
        Columns(booleans.map(|(id, _)| id).take(MAX_COLUMNS).collect())
    }

    fn of(&self, attribute: AttributeId) -> Option<u16> {
        self.0.binary_search(&attribute).ok().map(|column| column as u16)
    }

    /// Returns whether one byte can hold any column and one more value that means none.
    fn can_be_picked(&self) -> bool {
        self.0.len() <= usize::from(NO_COLUMN)
    }

    fn pages(&self) -> usize {
        self.0.len().div_ceil(8 * BYTES)
    }
}

/// The booleans of an event, a bit each. Undefined ones are not true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bits([Page; PAGES]);

impl Bits {
    /// Sets the bits from the values of an event.
    pub fn set(&mut self, columns: &Columns, values: &[Value]) {
        let bytes = self.0.as_flattened_mut();
        for (byte, attributes) in bytes.iter_mut().zip(columns.0.chunks(8)) {
            let bits = attributes.iter().enumerate();
            *byte = bits.fold(0, |byte, (bit, &attribute)| {
                byte | u8::from(values[attribute.index()] == Value::Boolean(true)) << bit
            });
        }
    }
}
