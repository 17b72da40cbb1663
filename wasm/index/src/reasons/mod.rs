//! A reason is the predicate that makes an expression false: the last one evaluated, left to right with short-circuiting.
//!
//! A separate program finds the reason of an expression that is known to be false, in the order of the text. It skips operands
//! that must be false. In a false `or` all operands are false and the last one decided. In a false `and` that reaches its last
//! operand, that operand decided. These programs are made only if reasons are requested beforehand.
//!
//! A test has a predicate, the value on which it jumps, and the number of tests to jump ahead. A jump distance of 0 marks the
//! deciding test. Programs over booleans alone run interleaved, without a branch on the outcome of a test, because branch
//! mispredictions take longer than the tests. Such a test is one word: a literal, and the jump distance less one. Any other
//! test is two words: the position of the predicate's operation in the expression's main program, and the distance with the
//! value.

use crate::catalog::subscriptions::Subscription;
use crate::catalog::Catalog;
use crate::compile::normal::{normalise, NodeIndex, Normal, NormalNode, Normalised};
use crate::compile::order::{Estimate, Order};
use crate::compile::store::Programs;
use crate::compile::{booleans, program, Literal, PredicateIndex};
use crate::error::{Error, Kind};
use crate::event::Value;
use crate::handles::{ProgramId, Slot};
use crate::model::predicate::{self, Predicate};
use crate::model::strings::StringId;
use crate::support::bits::ones;
use crate::support::footprint::of_table;
use crate::support::headroom::grow;
use crate::support::headroom::growth;

/// The number of interleaved programs. The cache misses of one overlap with tests of the others.
pub(crate) const RUNS: usize = 8;

/// The number of tests that each program runs in turn. A program that has decided repeats its last test.
pub(crate) const TESTS: usize = 8;

/// The bits of a literal in a word: an attribute, and the value on which the test jumps.
const LITERAL_BITS: u32 = 12;
const MAX_LITERALS: usize = 1 << LITERAL_BITS;
/// The maximal length of a program over booleans: a jump distance is signed and has the remaining bits of a word.
const MAX_TESTS: usize = 1 << (31 - LITERAL_BITS);

/// The programs that find reasons, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons {
    programs: Programs,
    places: Vec<Place>,
    /// The number of words of each slot's program.
    lengths: Vec<u32>,
    /// A bit for each slot with an expression.
    held: Vec<u32>,
}

/// The place of a slot's program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub form: Form,
    program: ProgramId,
}

impl Place {
    /// Returns the chunk of the program, and its position in the chunk.
    #[inline]
    pub fn split(self) -> (ProgramId, u32) {
        self.program.split()
    }
}

/// The form of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// There is no program: the expression is constantly false.
    #[default]
    None,
    /// All tests are of booleans.
    Booleans,
    General,
}

/// A reason is the number of an attribute, or one of these numbers added to the number of attributes.
pub(crate) mod reason {
    /// A geographic predicate, which reads two attributes.
    pub const GEO: usize = 0;
    /// No predicate: the expression is constantly false.
    pub const NONE: usize = 1;
    /// The event lacks a required attribute.
    pub const INVALID_EVENT: usize = 2;
    /// The number of these reasons.
    pub const COUNT: usize = 3;
}

impl Reasons {
    /// Adds the expression of the `subscription` in `slot`.
    pub fn insert(&mut self, slot: Slot, subscription: &Subscription, catalog: &Catalog) {
        let i = slot.index();
        let slots = self.places.len().max(i + 1);
        self.places.resize(slots, Place::default());
        self.lengths.resize(slots, 0);
        self.held.resize(slots.div_ceil(Slot::IN_WORD as usize), 0);
        let (word, bit) = slot.in_set();
        self.held[word as usize] |= 1 << bit;
        let expression = catalog.expression(subscription);
        if let Normalised::Tree(normal) = normalise(&expression.steps) {
            let tests = lay_out(&normal);
            let (form, words) = match over_booleans(&tests, &expression.predicates) {
                Some(words) => (Form::Booleans, words),
                None => {
                    let positions: Vec<u32> = program::positions(catalog.code(subscription)).collect();
                    (Form::General, tests.iter().flat_map(|test| test.two_words(&positions)).collect())
                }
            };
            self.places[i] = Place { form, program: self.programs.insert(&words) };
            self.lengths[i] = words.len() as u32;
        }
    }

    /// Removes the expression of `slot`.
    pub fn remove(&mut self, slot: Slot) {
        let i = slot.index();
        let (word, bit) = slot.in_set();
        self.held[word as usize] &= !(1 << bit);
        let Place { form, program } = std::mem::take(&mut self.places[i]);
        if form != Form::None {
            self.programs.remove(program, self.lengths[i] as usize);
        }
    }

    /// Moves the expressions to the first `len` slots. `slot` returns the new slot of a slot.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing is changed then.
    pub fn arrange(&mut self, len: usize, slot: impl Fn(Slot) -> Slot) -> Result<(), Error> {
        let (mut places, mut lengths, mut held) = (Vec::new(), Vec::new(), Vec::new());
        grow(&mut places, len)?;
        grow(&mut lengths, len)?;
        grow(&mut held, len.div_ceil(Slot::IN_WORD as usize))?;
        for (word, &bits) in (0..).zip(&self.held) {
            for former in ones(bits.into()).map(|bit| Slot::of_set(word, bit as u32)) {
                let new = slot(former);
                let (word, bit) = new.in_set();
                held[word as usize] |= 1 << bit;
                places[new.index()] = self.places[former.index()];
                lengths[new.index()] = self.lengths[former.index()];
            }
        }
        (self.places, self.lengths, self.held) = (places, lengths, held);
        Ok(())
    }

    /// Returns the word at `word` of the set of slots with expressions.
    pub fn held(&self, word: u32) -> u32 {
        self.held.get(word as usize).copied().unwrap_or(0)
    }

    /// Returns the number of words in the set of slots with expressions.
    pub fn held_words(&self) -> u32 {
        self.held.len() as u32
    }

    /// Returns the place of the program of `slot`.
    #[inline]
    pub fn place(&self, slot: Slot) -> Place {
        self.places[slot.index()]
    }

    /// Returns the chunk's words from the start of the program at `place` on. The place must have a program.
    #[inline]
    pub fn program(&self, place: Place) -> &[u32] {
        self.programs.get(place.program)
    }

    /// Returns the words of a chunk of programs.
    pub fn words(&self, chunk: ProgramId) -> &[u32] {
        self.programs.get(chunk)
    }

    /// Returns an upper bound of the bytes that adding an expression requests. Its text has `text` bytes, its program
    /// `words`.
    pub fn growth(&self, text: usize, words: usize) -> usize {
        growth(&self.places, 1)
            + growth(&self.lengths, 1)
            + growth(&self.held, 1)
            + self.programs.growth(words)
            + Reasons::bytes(1, text)
    }

    /// Returns the bytes that the programs and tables take of the heap.
    pub fn heap_bytes(&self) -> usize {
        let Reasons { programs, places, lengths, held } = self;
        programs.heap_bytes() + of_table(places) + of_table(lengths) + of_table(held)
    }

    /// Returns an upper bound of the bytes of `expressions` whose texts or programs have `bytes` in total.
    pub fn bytes(expressions: usize, bytes: usize) -> usize {
        // A predicate has at least one of these bytes and becomes at most two tests. Tables have twice the needed size.
        2 * (expressions * (size_of::<Place>() + size_of::<u32>() + 1) + bytes * 2 * 2 * size_of::<u32>())
    }

    /// Checks that the slots with expressions are those in `subscribed`; for tests.
    pub fn validate(&self, subscribed: impl Iterator<Item = Slot>) -> Result<(), String> {
        let mut expected = vec![0_u32; self.held.len()];
        for slot in subscribed {
            let (word, bit) = slot.in_set();
            match expected.get_mut(word as usize) {
                Some(word) => *word |= 1 << bit,
                None => return Err(format!("slot {slot} has no reason")),
            }
        }
        if expected != self.held {
            return Err("reasons are held of other slots than subscriptions".to_owned());
        }
        Ok(())
    }
}

/// For each literal, whether its test jumps: all ones or zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jumps(Vec<u32>);

/// The part of [`Jumps`] that always exists.
pub(crate) type Jumping = [u32; MAX_LITERALS];

impl Jumps {
    /// Makes room for all literals. Errors: out of memory.
    pub fn reserve(&mut self) -> Result<(), Error> {
        grow(&mut self.0, MAX_LITERALS)
    }

    pub fn all(&self) -> &Jumping {
        let Some(all) = self.0.first_chunk() else { unreachable!("there is room for all literals") };
        all
    }

    /// Sets the jumps for the values of an event.
    pub fn set(&mut self, values: &[Value]) {
        for (pair, value) in self.0.as_chunks_mut().0.iter_mut().zip(values) {
            *pair = if *value == Value::Boolean(true) { [0, u32::MAX] } else { [u32::MAX, 0] };
        }
    }
}

/// Runs a test of a program over booleans in `words`. Returns the literal, the position of the next test, and whether this
/// test decided. A deciding test does not advance the position.
#[inline]
pub(crate) fn take(words: &[u32], at: u32, jumps: &Jumping) -> (u32, u32, bool) {
    let word = words[at as usize];
    let literal = word % MAX_LITERALS as u32;
    let further = (word as i32 >> LITERAL_BITS) as u32 & jumps[literal as usize];
    (literal, at.wrapping_add(further).wrapping_add(1), (further as i32) < 0)
}

/// Returns the reason for a deciding test of `literal`: the number of its attribute.
pub(crate) fn reason_of(literal: u32) -> u32 {
    booleans::attribute(literal as usize).word()
}

/// Returns the test at `at` of a general program: the position of its operation, the value on which it jumps, and the jump
/// distance, which is 0 if the test decides.
pub(crate) fn test_at(program: &[u32], at: u32) -> (u32, bool, u32) {
    let [position, word] = program.as_chunks().0[at as usize];
    (position, word & 1 == 1, word >> 1)
}

/// Returns the number of the reason for the predicate of an `operation`, in a schema with `attributes` attributes.
pub(crate) fn number(operation: &[u32], catalog: &Catalog, attributes: usize) -> usize {
    let (attribute, shared) = program::asked(operation, &catalog.predicates);
    match shared {
        Some(predicate::Test::GeoWithinRadius { .. }) => attributes + reason::GEO,
        _ => attribute.index(),
    }
}

/// A test jumps `distance` tests ahead if the value of its predicate is `on`.
#[derive(Clone, Copy, Debug)]
struct Jump {
    predicate: PredicateIndex,
    on: bool,
    distance: u32,
}

impl Jump {
    /// Returns the words of the test. `positions` are those of the predicates' operations.
    fn two_words(&self, positions: &[u32]) -> [u32; 2] {
        [positions[self.predicate as usize], self.distance << 1 | u32::from(self.on)]
    }
}

/// Returns the words of `tests`, or `None` if some are not of booleans or they are too many.
fn over_booleans(tests: &[Jump], predicates: &[Predicate<StringId>]) -> Option<Vec<u32>> {
    let word = |test: &Jump| {
        let predicate = &predicates[test.predicate as usize];
        let literal = booleans::literal(predicate.attribute, test.on);
        let fits = predicate.test == predicate::Test::True && literal < MAX_LITERALS;
        fits.then_some(literal as u32 | ((test.distance as i32 - 1) << LITERAL_BITS) as u32)
    };
    if tests.len() > MAX_TESTS {
        return None;
    }
    tests.iter().map(word).collect()
}

/// A position in a program, counted in tests from the end.
type Rest = usize;

/// The known facts about a node whose tests are not laid out yet, and its jump targets.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// The node is false and contains the reason.
    False,
    /// If the node is false, it contains the reason. If it is true, the program continues behind it.
    Reason,
    /// The node does not contain the reason. The program continues at the first position if the node is true, and at the
    /// second if it is false; `None` is the position right after the node.
    Value(Option<Rest>, Option<Rest>),
}

/// Returns the tests of a false expression. They are laid out from the end, so that each is made after its targets.
///
/// The last operand of a false `or` contains the reason. The other operands matter only by their values, so they are ordered
/// by cost. If the last operand is a predicate, it is tested first.
fn lay_out(normal: &Normal) -> Vec<Jump> {
    let order = Order::new(normal, |_, _| Estimate { probability: 0.5, cost: 1.0 });
    let mut tests: Vec<Jump> = Vec::new();
    let mut nodes: Vec<(NodeIndex, Known)> = vec![(normal.root(), Known::False)];
    while let Some((index, known)) = nodes.pop() {
        let behind = tests.len();
        match (normal.node(index), known) {
            (NormalNode::Literal(literal), Known::False | Known::Reason) => tests.push(deciding(literal)),
            (NormalNode::Literal(literal), Known::Value(on_true, on_false)) => {
                tests.push(test(literal, on_true.unwrap_or(behind), on_false.unwrap_or(behind), behind));
            }
            (kind, Known::Value(on_true, on_false)) => {
                let before = match kind {
                    NormalNode::And => Known::Value(None, on_false.or(Some(behind))),
                    _ => Known::Value(on_true.or(Some(behind)), None),
                };
                let last = Known::Value(on_true.or(Some(behind)), on_false.or(Some(behind)));
                nodes.extend(order.children(index).iter().map(|&child| (child, before)));
                set_last(&mut nodes, last);
            }
            (NormalNode::And, known) => {
                nodes.extend(normal.children(index).map(|child| (child, Known::Reason)));
                set_last(&mut nodes, known);
            }
            (NormalNode::Or, Known::False) => nodes.extend(normal.children(index).last().map(|last| (last, known))),
            (NormalNode::Or, Known::Reason) => {
                let Some(last) = normal.children(index).last() else { unreachable!("an inner node has children") };
                let value = Known::Value(Some(behind), None);
                let others = order.children(index).iter().filter(|&&child| child != last);
                if normal.literal(last).is_some() {
                    nodes.push((last, value));
                    nodes.extend(others.map(|&child| (child, value)));
                    nodes.push((last, Known::False));
                } else {
                    nodes.extend(others.map(|&child| (child, value)));
                    nodes.push((last, Known::Reason));
                }
            }
        }
    }
    tests.reverse();
    tests
}

fn set_last(nodes: &mut [(NodeIndex, Known)], known: Known) {
    if let Some((_, last)) = nodes.last_mut() {
        *last = known;
    }
}

/// Returns the test of a literal that decides when the literal is false.
fn deciding(literal: Literal) -> Jump {
    Jump { predicate: literal.predicate, on: literal.negated, distance: 0 }
}

/// Returns the test of a literal that continues at `on_true` or `on_false`. One of these is `behind`, right after the test.
fn test(literal: Literal, on_true: Rest, on_false: Rest, behind: Rest) -> Jump {
    let (value, target) = if on_true == behind { (false, on_false) } else { (true, on_true) };
    Jump { predicate: literal.predicate, on: value != literal.negated, distance: (behind + 1 - target) as u32 }
}

/// Returns the error of a request for reasons that were not kept.
pub(crate) fn not_kept() -> Error {
    Error::new(Kind::NotFound, "this index keeps no reasons; ask for them before the first insertion")
}
