//! Programs whose predicates are all booleans. Batches read them from end to end. They have one of two forms.
//!
//! A test usually fits 16 bits: 8 for the literal on which it jumps, and 8 for the target. The program is then one
//! operation, [`code::PACKED`], with the number of tests in the upper half of its word. The tests follow, two to a word.
//! With more tests, attributes beyond the first 128, or predicates that decide nothing, each test is an operation as in any
//! other program.

use crate::compile::layout::{code, named, ATTRIBUTE, CODE, DIGESTS, JUMP_SHIFT, ON, START};
use crate::compile::order::{Target, Test};
use crate::compile::words::Words;
use crate::event::digest::{self, ValueDigest};
use crate::model::predicate::{self, Predicate};
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;

/// The number of literals: two for each attribute that an operation can name, `not true` and `true`.
pub(crate) const LITERALS: usize = 2 * (ATTRIBUTE as usize + 1);
/// The number of targets: reject, accept, then the tests. Falling through the last test rejects.
pub(crate) const PLACES: usize = 1 << 9;
pub(crate) const REJECT: usize = 0;
pub(crate) const ACCEPT: usize = 1;
/// The target number of the first test.
pub(crate) const FIRST: usize = 2;

/// The bits of a packed test and of each of its halves.
const PACKED_BITS: u32 = 16;
const HALF_BITS: u32 = PACKED_BITS / 2;
const HALF: u32 = (1 << HALF_BITS) - 1;
/// The limits of a packed program: this number of tests, and this number of literals.
const PACKED_TESTS: usize = HALF as usize + 1 - FIRST;
pub(crate) const PACKED_LITERALS: usize = 1 << HALF_BITS;
/// Padding for the last word of an odd number of tests: a test that rejects whether it jumps or falls through.
const FILLER: u32 = (REJECT as u32) << HALF_BITS;

/// A test: the literal on which it jumps, and the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Boolean {
    pub literal: usize,
    pub target: usize,
}

/// Returns the literal of a test of `attribute` that jumps on the value `on`.
#[inline(always)]
pub(crate) fn literal(attribute: AttributeId, on: bool) -> usize {
    2 * attribute.index() + usize::from(on)
}

/// Returns the attribute of a literal.
#[inline(always)]
pub(crate) fn attribute(literal: usize) -> AttributeId {
    AttributeId::from_index(literal / 2)
}

/// The words of a boolean program's tests.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tests<'a> {
    Packed(&'a [u32]),
    Operations(&'a [u32]),
}

/// Appends the packed form of `tests`, whose expression has these `predicates`. Returns false if they do not fit.
pub(crate) fn pack(tests: &[Test], predicates: &[Predicate<StringId>], words: &mut Vec<u32>) -> bool {
    let fits = |predicate: &Predicate<StringId>| {
        matches!(predicate.test, predicate::Test::True) && literal(predicate.attribute, true) < PACKED_LITERALS
    };
    if tests.len() > PACKED_TESTS || tests.len() != predicates.len() || !predicates.iter().all(fits) {
        return false;
    }
    let pack = |test: &Test| {
        let literal = literal(predicates[test.literal.predicate as usize].attribute, test.jumps_on()) as u32;
        let target = match test.target {
            Target::Test(next) => FIRST as u32 + next,
            Target::Done(true) => ACCEPT as u32,
            Target::Done(false) => REJECT as u32,
        };
        literal | target << HALF_BITS
    };
    words.push(code::PACKED | (tests.len() as u32) << JUMP_SHIFT);
    words.extend(tests.chunks(2).map(|pair| pack(&pair[0]) | pair.get(1).map_or(FILLER, pack) << PACKED_BITS));
    true
}

/// Returns whether the program with this `code` is over booleans alone.
pub(crate) fn is_boolean(code: &[u32]) -> bool {
    match tests(code) {
        Tests::Packed(_) => true,
        Tests::Operations(words) => words.len() <= PLACES - FIRST && words.iter().all(|word| word & CODE == code::TRUE),
    }
}

/// Returns the tests of a boolean program with this `code`.
pub(crate) fn tests(code: &[u32]) -> Tests<'_> {
    match &code[START as usize..] {
        [head, tests @ ..] if is_packed(*head) => Tests::Packed(tests),
        operations => Tests::Operations(&operations[..operations.len() - 1]),
    }
}

/// Returns the attribute of each test of a packed program, or `None` for another program.
pub(crate) fn attributes(code: &[u32]) -> Option<impl Iterator<Item = AttributeId> + '_> {
    let (head, words) = code[START as usize..].split_first()?;
    let attribute = |test: usize| attribute(packed(words[test / 2])[test % 2].literal);
    is_packed(*head).then(|| (0..(head >> JUMP_SHIFT) as usize).map(attribute))
}

fn is_packed(head: u32) -> bool {
    head & CODE == code::PACKED
}

/// Returns the two packed tests of a word.
#[inline(always)]
pub(crate) fn packed(word: u32) -> [Boolean; 2] {
    [word, word >> PACKED_BITS]
        .map(|test| Boolean { literal: (test & HALF) as usize, target: (test >> HALF_BITS & HALF) as usize })
}

/// Returns the test of an operation at position `at`.
#[inline(always)]
pub(crate) fn operation(word: u32, at: usize) -> [Boolean; 1] {
    let jump = (word >> JUMP_SHIFT) as usize;
    // `ACCEPT` and `REJECT` are not distances: added to [`FIRST`], modulo [`PLACES`], they give the target. Bit operations
    // avoid a branch that the processor would mispredict.
    let is_end = jump >> 15;
    let target = ((at & is_end.wrapping_sub(1)) + jump + (FIRST & is_end.wrapping_neg())) % PLACES;
    [Boolean { literal: literal(named(word), word & ON != 0), target }]
}

/// Runs the packed tests whose head is the word at `head`. Returns the value, and the number of tests that ran.
#[inline(never)]
pub(crate) fn run(words: impl Words, head: usize, digests: &[ValueDigest; DIGESTS]) -> (bool, usize) {
    run_with(words, head, digests, |_| ())
}

/// Calls `each` with the attribute of every test that [`run`] executes.
pub(crate) fn each_test(
    words: impl Words,
    head: usize,
    digests: &[ValueDigest; DIGESTS],
    each: impl FnMut(AttributeId),
) {
    run_with(words, head, digests, each);
}

#[inline(always)]
fn run_with(
    words: impl Words,
    head: usize,
    digests: &[ValueDigest; DIGESTS],
    mut each: impl FnMut(AttributeId),
) -> (bool, usize) {
    let end = FIRST + (words.word(head) >> JUMP_SHIFT) as usize;
    let mut at = FIRST;
    let mut taken = 0;
    while (FIRST..end).contains(&at) {
        let test = at - FIRST;
        let Boolean { literal, target } = packed(words.word(head + 1 + test / 2))[test % 2];
        each(attribute(literal));
        let is_true = digests[digest::place(attribute(literal))].value() == 1;
        at = if usize::from(is_true) == literal % 2 { target } else { at + 1 };
        taken += 1;
    }
    (at == ACCEPT, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::Slot;
    use crate::index::{Index, Insertion};
    use crate::model::schema::{Attribute, Bounds, Schema, Type};

    /// Returns the form of the program of `text` in a schema of `booleans` boolean attributes.
    fn form(booleans: usize, text: &str) -> &'static str {
        let attribute =
            |i| Attribute { name: format!("b{i}"), ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
        let mut index = Index::new(Schema::new((0..booleans).map(attribute).collect()).unwrap());
        index.insert(&Insertion { id: 1, text: text.as_bytes(), constants: vec![] }).unwrap();
        let code = index.catalog().code(index.subscriptions().get(Slot::default()));
        match tests(code) {
            Tests::Packed(_) => "packed",
            Tests::Operations(_) if is_boolean(code) => "boolean",
            Tests::Operations(_) => "general",
        }
    }

    #[test]
    fn programs_have_the_form_that_they_fit() {
        let alternating = |leaves: usize| {
            (1..leaves)
                .fold("b0".to_owned(), |text, leaf| format!("({text} {} b{})", ["and", "or"][leaf % 2], leaf % 100))
        };
        assert_eq!(form(200, "b0"), "packed");
        assert_eq!(form(200, "b0 or not b127"), "packed");
        assert_eq!(form(200, "b0 or not b128"), "boolean");
        assert_eq!(form(200, "b0 or (b1 and false)"), "general");
        assert_eq!(form(200, "b0 or b1 is null"), "general");
        assert_eq!(form(200, &alternating(254)), "packed");
        assert_eq!(form(200, &alternating(255)), "boolean");
        assert_eq!(form(200, &alternating(510)), "boolean");
        assert_eq!(form(200, &alternating(511)), "general");
        assert_eq!(form(1024, "b1023 or b0"), "boolean");
        assert_eq!(form(1025, "b1024 or b0"), "general");
    }
}
