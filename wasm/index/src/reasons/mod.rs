//! Why expressions are false: for each that does not match, the predicate that was looked at last where it is read from
//! left to right and left as soon as its value is known.
//!
//! A program of its own answers that, in the order of the text, for an expression that is known to be false. So what
//! can only be false is not evaluated: of a false `or` all operands are false and the last one decided, and of a false
//! `and` that came to its last operand that one did. A program is only made where reasons are asked for beforehand.
//!
//! A test has its predicate, the value on which it jumps, and how many tests ahead. One that jumps nowhere is the one that
//! decided. Programs over booleans alone are run side by side and without a branch on the outcome of a test, as the
//! processor's wrong guesses of a branch take longer than the tests: theirs are a word each, a literal and how far it
//! jumps, less one. The tests of all others are two words each, where the predicate's operation is in the expression's other
//! program and the rest.

use crate::catalog::subscriptions::Subscription;
use crate::catalog::Catalog;
use crate::compile::normal::{normalise, NodeIndex, Normal, NormalNode, Normalised};
use crate::compile::order::{Estimate, Order};
use crate::compile::store::{self, Programs};
use crate::compile::{program, Literal, PredicateIndex};
use crate::error::{Error, Kind};
use crate::event::Value;
use crate::handles::ProgramId;
use crate::handles::Slot;
use crate::model::predicate::{self, Predicate};
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;
use crate::support::headroom::grow;
use crate::support::headroom::growth;

/// How many programs are run side by side, so that what one reads is on its way while the others take their tests.
pub(crate) const RUNS: usize = 8;

/// How many tests each of them takes in turn. One that decided is taken again.
pub(crate) const TESTS: usize = 8;

/// Slots of which one word tells whether they are held.
pub(crate) const BITS: u32 = 32;

/// The literal of a word: an attribute, and the value on which the test jumps.
const LITERAL_BITS: u32 = 12;
const MAX_LITERALS: usize = 1 << LITERAL_BITS;
/// Of a program over booleans: distances have what is left of a word, and a sign.
const MAX_TESTS: usize = 1 << (31 - LITERAL_BITS);

/// The programs, by slot.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reasons {
    programs: Programs,
    places: Vec<Place>,
    /// How many words each slot's program has.
    lengths: Vec<u32>,
    /// A bit for each slot that is held.
    held: Vec<u32>,
}

/// Where a slot's program is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub form: Form,
    program: ProgramId,
}

impl Place {
    /// The chunk that the program is in, and where in its words it starts.
    #[inline]
    pub fn split(self) -> (u32, u32) {
        store::place(self.program)
    }
}

/// What a program is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Form {
    /// There is none: the expression is false by itself.
    #[default]
    None,
    /// All tests are of booleans.
    Booleans,
    General,
}

/// What decided: an attribute, by its number, or one of these behind the last attribute.
pub(crate) mod reason {
    /// A place on the map, which two attributes make.
    pub const GEO: usize = 0;
    /// No predicate: the expression is false by itself.
    pub const NONE: usize = 1;
    /// The event, which does not fit.
    pub const INVALID_EVENT: usize = 2;
    /// How many there are.
    pub const COUNT: usize = 3;
}

impl Reasons {
    /// Takes in the expression of the `subscription` in `slot`.
    pub fn insert(&mut self, slot: Slot, subscription: &Subscription, catalog: &Catalog) {
        let i = slot as usize;
        let slots = self.places.len().max(i + 1);
        self.places.resize(slots, Place::default());
        self.lengths.resize(slots, 0);
        self.held.resize(slots.div_ceil(BITS as usize), 0);
        self.held[i / BITS as usize] |= 1 << (slot % BITS);
        let expression = catalog.expression(subscription);
        if let Normalised::Tree(normal) = normalise(&expression.steps) {
            let tests = lay_out(&normal);
            let (form, words) = match booleans(&tests, &expression.predicates) {
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

    /// Takes out the expression of `slot`.
    pub fn remove(&mut self, slot: Slot) {
        let i = slot as usize;
        self.held[i / BITS as usize] &= !(1 << (slot % BITS));
        let Place { form, program } = std::mem::take(&mut self.places[i]);
        if form != Form::None {
            self.programs.remove(program, self.lengths[i] as usize);
        }
    }

    /// The slots that are held, of those that the word at `word` of a set of slots stands for.
    pub fn held(&self, word: u32) -> u32 {
        self.held.get(word as usize).copied().unwrap_or(0)
    }

    /// How many words of a set of slots the held ones take.
    pub fn held_words(&self) -> u32 {
        self.held.len() as u32
    }

    /// Where the program of `slot` is.
    #[inline]
    pub fn place(&self, slot: Slot) -> Place {
        self.places[slot as usize]
    }

    /// The program at `place`, and whatever follows it; there must be one.
    #[inline]
    pub fn program(&self, place: Place) -> &[u32] {
        self.programs.get(place.program)
    }

    /// The words that programs are in whose places have this `chunk`.
    pub fn words(&self, chunk: u32) -> &[u32] {
        self.programs.chunk(chunk)
    }

    /// Bytes that the insertion of an expression may take whose text has so many bytes, and whose program so many `words`.
    pub fn growth(&self, text: usize, words: usize) -> usize {
        growth(&self.places, 1)
            + growth(&self.lengths, 1)
            + growth(&self.held, 1)
            + self.programs.growth(words)
            + Reasons::bytes(1, text)
    }

    /// Bytes that so many expressions take at the most, whose texts or programs have so many `bytes`.
    pub fn bytes(expressions: usize, bytes: usize) -> usize {
        // A predicate has at least one of these, and becomes two tests at the most; tables have twice what they need.
        2 * (expressions * (size_of::<Place>() + size_of::<u32>() + 1) + bytes * 2 * 2 * size_of::<u32>())
    }

    /// Checks that the slots held are those of `subscribed`; for tests.
    pub fn validate(&self, subscribed: impl Iterator<Item = Slot>) -> Result<(), String> {
        let mut expected = vec![0_u32; self.held.len()];
        for slot in subscribed {
            match expected.get_mut((slot / BITS) as usize) {
                Some(word) => *word |= 1 << (slot % BITS),
                None => return Err(format!("slot {slot} has no reason")),
            }
        }
        if expected != self.held {
            return Err("reasons are held of other slots than subscriptions".to_owned());
        }
        Ok(())
    }
}

/// For each literal whether its test jumps: all ones, or zero.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jumps(Vec<u32>);

/// [`Jumps`] that there is room for.
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

    /// Sets them for the values of an event.
    pub fn set(&mut self, values: &[Value]) {
        for (pair, value) in self.0.as_chunks_mut().0.iter_mut().zip(values) {
            *pair = if *value == Value::Boolean(true) { [0, u32::MAX] } else { [u32::MAX, 0] };
        }
    }
}

/// Takes a test of a program over booleans in `words`: answers the literal, where the next test is, and whether this one
/// decided, in which case it is the same.
#[inline]
pub(crate) fn take(words: &[u32], at: u32, jumps: &Jumping) -> (u32, u32, bool) {
    let word = words[at as usize];
    let literal = word % MAX_LITERALS as u32;
    let further = (word as i32 >> LITERAL_BITS) as u32 & jumps[literal as usize];
    (literal, at.wrapping_add(further).wrapping_add(1), (further as i32) < 0)
}

/// The attribute of a literal.
pub(crate) fn attribute(literal: u32) -> AttributeId {
    literal / 2
}

/// The test at `at` of a general program: the position of its operation, the value on which it jumps, and how far; nowhere,
/// if it decides.
pub(crate) fn test_at(program: &[u32], at: u32) -> (u32, bool, u32) {
    let [position, word] = program.as_chunks().0[at as usize];
    (position, word & 1 == 1, word >> 1)
}

/// The number of the reason that the predicate of an `operation` is, among `attributes` attributes.
pub(crate) fn number(operation: &[u32], catalog: &Catalog, attributes: usize) -> usize {
    let (attribute, shared) = program::asked(operation, &catalog.predicates);
    match shared {
        Some(predicate::Test::GeoWithinRadius { .. }) => attributes + reason::GEO,
        _ => attribute as usize,
    }
}

/// A test: where its predicate's value is `on` it jumps so many tests ahead.
#[derive(Clone, Copy, Debug)]
struct Jump {
    predicate: PredicateIndex,
    on: bool,
    distance: u32,
}

impl Jump {
    /// The words of the test; `positions` are those of the predicates' operations.
    fn two_words(&self, positions: &[u32]) -> [u32; 2] {
        [positions[self.predicate as usize], self.distance << 1 | u32::from(self.on)]
    }
}

/// The words of `tests` if all are of booleans, and not too many.
fn booleans(tests: &[Jump], predicates: &[Predicate<StringId>]) -> Option<Vec<u32>> {
    let word = |test: &Jump| {
        let predicate = &predicates[test.predicate as usize];
        let literal = 2 * predicate.attribute + u32::from(test.on);
        let fits = predicate.test == predicate::Test::True && (literal as usize) < MAX_LITERALS;
        fits.then_some(literal | ((test.distance as i32 - 1) << LITERAL_BITS) as u32)
    };
    if tests.len() > MAX_TESTS {
        return None;
    }
    tests.iter().map(word).collect()
}

/// A place in a program, as the number of tests from there on.
type Rest = usize;

/// What is known of a node that is still to be laid out, and where it leads.
#[derive(Clone, Copy, Debug)]
enum Known {
    /// It is false, and has what decided.
    False,
    /// If it is false it has what decided, and otherwise leads behind itself.
    Reason,
    /// It leads there when true and there when false; where nothing is said, behind itself. What decided is not below.
    Value(Option<Rest>, Option<Rest>),
}

/// The tests of a false expression. They are laid out from the end, so that each is made after those it may lead to.
///
/// Of an `or` that is false the last operand has what decided. The others only matter by their values, and so are ordered
/// by what they cost; and if the last one is a predicate, it is looked at first.
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

/// The test of a literal that decides if it is false.
fn deciding(literal: Literal) -> Jump {
    Jump { predicate: literal.predicate, on: literal.negated, distance: 0 }
}

/// The test of a literal that leads there when true and there when false, one of which is what stands `behind` it.
fn test(literal: Literal, on_true: Rest, on_false: Rest, behind: Rest) -> Jump {
    let (value, target) = if on_true == behind { (false, on_false) } else { (true, on_true) };
    Jump { predicate: literal.predicate, on: value != literal.negated, distance: (behind + 1 - target) as u32 }
}

/// The error where reasons are asked for that were not kept.
pub(crate) fn not_kept() -> Error {
    Error::new(Kind::NotFound, "this index keeps no reasons; ask for them before the first insertion")
}
