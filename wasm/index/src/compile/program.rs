//! Short-circuit code: an expression as consecutive words, with the constants beside their tests. A search reads a
//! candidate's words sequentially, and few of them.
//!
//! A program is the slot of its subscription, then operations. An operation is a word and its constants. The word has a code
//! (5 bits), the value on which it jumps (1 bit), its attribute (10 bits) and the number of words that it jumps ahead (16
//! bits). [`code::REJECT`] follows the last test. A run resumes from its position alone.
//!
//! A comparison with one constant or a short list is evaluated in the program. That is faster than looking up whether
//! another expression has evaluated it already. Any other predicate is in the table of predicates, and is evaluated at most
//! once for an event.
//!
//! Expressions over booleans alone usually have a packed form ([`booleans`]).
//!
//! The program is the only copy of its expression's predicates: [`Written`] decodes them from the operations. So a predicate
//! that constant folding removed also has an operation, after the last one that runs. The expression's steps
//! ([`steps`](mod@steps)) follow.

use crate::compile::constants::{self, List};
use crate::compile::layout::{code, named, naming, ACCEPT, CODE, JUMP_SHIFT, LAST_ATTRIBUTE, ON, REJECT, START};
use crate::compile::order::{Target, Test};
use crate::compile::predicates::Predicates;
use crate::compile::words::Words;
use crate::compile::{booleans, steps, Expression, PredicateIndex, Step};
use crate::event::key::{self, Scale};
use crate::handles::{PredicateId, Slot};
use crate::model::predicate::{self, Constants, Float, Predicate, Relation};
use crate::model::schema::{AttributeId, Schema, Type};
use crate::model::strings::StringId;

/// In programs with at most this number of words of operations, every jump fits 16 bits.
const MAX_SHORT_WORDS: usize = 0xfff0;
/// The number of words of the long jump after each test of a longer program.
const LONG_JUMP_WORDS: usize = 2;
/// The greatest number of constants of an `all of` list in a program. A run looks up each of them.
const MAX_ALL_OF_CONSTANTS: usize = 8;

const RELATIONS: [Relation; 6] = [
    Relation::Less,
    Relation::LessOrEqual,
    Relation::Greater,
    Relation::GreaterOrEqual,
    Relation::Equal,
    Relation::NotEqual,
];

/// A program and the number of its operations' words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub words: Vec<u32>,
    /// The number of words of the operations. The expression's steps follow them.
    pub code: usize,
    /// The number of constants of its predicates in the shared table.
    pub constants: usize,
}

/// Returns an upper bound of a program's words, from the numbers of its expression's steps and constants.
pub(crate) fn max_words(steps: usize, constants: usize) -> usize {
    // Each predicate takes an operation, the head of a list and its constants (two words for a float), the words of a long
    // jump, and a step of at most one word.
    (3 + LONG_JUMP_WORDS) * steps + 2 * constants + 4
}

/// Returns the program of an expression that is `value` for every event.
pub(crate) fn constant(slot: Slot, value: bool, expression: &Expression, catalog: Shared) -> Program {
    let mut assembler = Assembler::new(slot, expression, catalog);
    assembler.words.push(if value { code::ACCEPT } else { code::REJECT });
    assembler.finish()
}

/// Returns the program of the expression that `tests` evaluate.
pub(crate) fn assemble(slot: Slot, tests: &[Test], expression: &Expression, catalog: Shared) -> Program {
    let mut assembler = Assembler::new(slot, expression, catalog);
    if assembler.pack(tests) {
        return assembler.finish();
    }
    let mut positions = Vec::with_capacity(tests.len() + 1);
    for test in tests {
        positions.push(assembler.words.len());
        assembler.test(test);
    }
    let end = assembler.words.len();
    positions.push(end);
    assembler.words.push(code::REJECT);
    let mut program = assembler.finish();
    if program.code > MAX_SHORT_WORDS {
        lengthen(&mut program, tests, &positions);
        return program;
    }
    for (test, &position) in tests.iter().zip(&positions) {
        program.words[position] |= match test.target {
            Target::Test(next) => {
                let ahead = (positions[next as usize] - position) as u32;
                debug_assert!(0 < ahead && ahead < REJECT, "a short jump leads ahead");
                ahead
            }
            Target::Done(true) => ACCEPT,
            Target::Done(false) => REJECT,
        } << JUMP_SHIFT;
    }
    program
}

/// Rewrites a program that is too long for 16-bit jumps and has no jumps yet. Each test is inverted, so that it skips the
/// long jump that is added after it.
fn lengthen(program: &mut Program, tests: &[Test], positions: &[usize]) {
    let moved = |test: usize| positions[test] + LONG_JUMP_WORDS * test;
    let short = &program.words;
    let mut words = short[..START as usize].to_vec();
    for (i, test) in tests.iter().enumerate() {
        debug_assert!(!matches!(test.target, Target::Test(next) if next as usize <= i), "a jump leads ahead");
        let operation = &short[positions[i]..positions[i + 1]];
        words.push(operation[0] ^ ON | ((operation.len() + LONG_JUMP_WORDS) as u32) << JUMP_SHIFT);
        words.extend(&operation[1..]);
        words.extend(match test.target {
            Target::Test(next) => [code::GO, moved(next as usize) as u32],
            Target::Done(true) => [code::ACCEPT, 0],
            Target::Done(false) => [code::REJECT, 0],
        });
    }
    words.extend(&short[positions[tests.len()]..]);
    program.words = words;
    program.code += LONG_JUMP_WORDS * tests.len();
}

/// The parts of the catalog that assembling a program uses.
pub(crate) struct Shared<'a> {
    pub schema: &'a Schema,
    pub predicates: &'a mut Predicates,
}

/// Writes the operations of an expression, in any order, and then its steps.
struct Assembler<'a> {
    words: Vec<u32>,
    expression: &'a Expression,
    catalog: Shared<'a>,
    /// The place of each predicate among the operations, or [`NOWHERE`].
    places: Vec<PredicateIndex>,
    operations: PredicateIndex,
    /// The number of constants of predicates in the shared table.
    constants: usize,
}

/// The place of a predicate that has no operation yet.
const NOWHERE: PredicateIndex = PredicateIndex::MAX;

impl<'a> Assembler<'a> {
    fn new(slot: Slot, expression: &'a Expression, catalog: Shared<'a>) -> Self {
        let places = vec![NOWHERE; expression.predicates.len()];
        let mut words = Vec::with_capacity(4 * places.len() + 4);
        words.push(slot.word());
        Assembler { words, expression, catalog, places, operations: 0, constants: 0 }
    }

    /// Appends an operation whose jump is set later.
    fn test(&mut self, test: &Test) {
        let start = self.words.len();
        self.operation(test.literal.predicate);
        self.words[start] |= if test.jumps_on() { ON } else { 0 };
    }

    /// Appends all tests in the packed form, if they fit it.
    fn pack(&mut self, tests: &[Test]) -> bool {
        let is_packed = booleans::pack(tests, &self.expression.predicates, &mut self.words);
        if is_packed {
            tests.iter().for_each(|test| self.place(test.literal.predicate));
        }
        is_packed
    }

    fn operation(&mut self, index: PredicateIndex) {
        self.place(index);
        let predicate = &self.expression.predicates[index as usize];
        let start = self.words.len();
        self.words.push(0);
        self.words[start] = match operands(predicate, self.catalog.schema, &mut self.words) {
            Some(code) => code | naming(predicate.attribute),
            None => {
                self.words.truncate(start + 1);
                self.words.push(self.catalog.predicates.retain(predicate).word());
                self.constants += predicate.test.constants();
                code::SHARED
            }
        };
    }

    /// Records that the predicate has the next operation.
    fn place(&mut self, index: PredicateIndex) {
        self.places[index as usize] = self.operations;
        self.operations += 1;
    }

    fn finish(mut self) -> Program {
        for index in 0..self.places.len() {
            if self.places[index] == NOWHERE {
                self.operation(index as PredicateIndex);
            }
        }
        let code = self.words.len();
        steps::pack(&self.expression.steps, &self.places, &mut self.words);
        Program { words: self.words, code, constants: self.constants }
    }
}

/// Returns the position of each operation, and all words from it on. A packed program has no operations.
fn operations(code: &[u32]) -> impl Iterator<Item = (u32, &[u32])> {
    let mut behind = if code.len() > MAX_SHORT_WORDS { LONG_JUMP_WORDS } else { 0 };
    let mut at = if booleans::attributes(code).is_none() { START as usize } else { code.len() };
    std::iter::from_fn(move || {
        if code.get(at).is_some_and(|word| word & CODE <= code::ACCEPT) {
            at += 1;
            behind = 0;
        }
        let operation = code.get(at..).filter(|rest| !rest.is_empty())?;
        let position = at as u32;
        at += 1 + length(operation[0] & CODE, operation.word(1)) + behind;
        Some((position, operation))
    })
}

/// An expression decoded from its program: its steps, and the source of its predicates in the order of operations.
pub(crate) struct Written<'a> {
    pub steps: Vec<Step>,
    asked: Questions<'a>,
}

/// The source of an expression's predicates.
enum Questions<'a> {
    /// Each predicate tests that a boolean attribute is true.
    Booleans(Vec<AttributeId>),
    Operations(Vec<&'a [u32]>),
}

impl<'a> Written<'a> {
    /// Returns the expression of a program with these words. The first `code` words are operations.
    pub fn new(words: &'a [u32], code: usize) -> Self {
        let (code, steps) = words.split_at(code);
        let asked = match booleans::attributes(code) {
            Some(attributes) => Questions::Booleans(attributes.collect()),
            None => {
                // Counting first is faster than growing the table: a split decodes many expressions.
                let mut read = Vec::with_capacity(operations(code).count());
                read.extend(operations(code).map(|(_, operation)| operation));
                Questions::Operations(read)
            }
        };
        let mut written = Written { steps: Vec::new(), asked };
        let count = written.predicates();
        written.steps.reserve_exact(2 * count);
        written.steps.extend(steps::unpack(steps, count));
        written
    }

    fn predicates(&self) -> usize {
        match &self.asked {
            Questions::Booleans(attributes) => attributes.len(),
            Questions::Operations(operations) => operations.len(),
        }
    }

    pub fn predicate(&self, index: PredicateIndex, schema: &Schema, predicates: &Predicates) -> Predicate<StringId> {
        match &self.asked {
            Questions::Booleans(attributes) => {
                Predicate { attribute: attributes[index as usize], test: predicate::Test::True }
            }
            Questions::Operations(operations) => predicate(operations[index as usize], predicates, schema),
        }
    }

    /// Reads all predicates.
    pub fn expression(self, schema: &Schema, predicates: &Predicates) -> Expression {
        let indices = 0..self.predicates() as PredicateIndex;
        let predicates = indices.map(|index| self.predicate(index, schema, predicates)).collect();
        Expression { predicates, steps: self.steps }
    }
}

/// Returns the number of steps of the expression of a program. The first `code` words are operations.
pub(crate) fn steps(words: &[u32], code: usize) -> usize {
    let (code, steps) = words.split_at(code);
    let predicates = booleans::attributes(code).map_or_else(|| operations(code).count(), Iterator::count);
    steps::unpack(steps, predicates).count()
}

/// Returns the predicates of a program's `code` that are in the table.
pub(crate) fn shared(code: &[u32]) -> impl Iterator<Item = PredicateId> + '_ {
    operations(code)
        .filter(|(_, operation)| operation[0] & CODE == code::SHARED)
        .map(|(_, operation)| shared_as(operation[1]))
}

/// Returns the predicate that the operand of [`code::SHARED`] names.
#[inline(always)]
pub(crate) fn shared_as(operand: u32) -> PredicateId {
    PredicateId::from_word(operand)
}

/// Returns the position of the operation of each predicate of a program's `code`.
pub(crate) fn positions(code: &[u32]) -> impl Iterator<Item = u32> + '_ {
    operations(code).map(|(position, _)| position)
}

/// Returns the attribute of the operation at the start of `words`, and its test if that is in the table.
pub(crate) fn asked<'a>(
    words: &[u32],
    predicates: &'a Predicates,
) -> (AttributeId, Option<&'a predicate::Test<StringId>>) {
    if words[0] & CODE == code::SHARED {
        let Predicate { attribute, test } = predicates.get(shared_as(words[1]));
        return (*attribute, Some(test));
    }
    (named(words[0]), None)
}

/// Returns the predicate of the operation at the start of `words`.
fn predicate(words: &[u32], predicates: &Predicates, schema: &Schema) -> Predicate<StringId> {
    use predicate::Test;
    if words[0] & CODE == code::SHARED {
        return predicates.get(shared_as(words[1])).clone();
    }
    let attribute = named(words[0]);
    let ty = schema.attribute(attribute).ty;
    let constants = || {
        let list = List::at(words, 1);
        match ty {
            Type::String | Type::StringList => Constants::Strings(list.iter().map(constants::to_string).collect()),
            _ => Constants::Integers(list.iter().map(i64::from).collect()),
        }
    };
    let test = match words[0] & CODE {
        code::ONE_OF_INTEGERS | code::ONE_OF_STRINGS | code::IN => Test::OneOf(constants()),
        code::NONE_OF_INTEGERS | code::NONE_OF_STRINGS | code::NOT_IN => Test::NoneOf(constants()),
        code::ALL_OF_INTEGERS | code::ALL_OF_STRINGS => Test::AllOf(constants()),
        code::TRUE => Test::True,
        code::NULL => Test::Null,
        code::NOT_NULL => Test::NotNull,
        relation if relation < code::IN => {
            Test::Float(RELATIONS[(relation - code::FLOAT) as usize], Float::new(float(words, 1)))
        }
        relation => match (ty, RELATIONS[(relation - code::SCALAR) as usize]) {
            (Type::String, Relation::Equal) => Test::StringEqual(constants::to_string(words[1] as i32)),
            (Type::String, _) => Test::StringNotEqual(constants::to_string(words[1] as i32)),
            (_, relation) => Test::Integer(relation, i64::from(words[1] as i32)),
        },
    };
    Predicate { attribute, test }
}

/// Appends the constants of `predicate` and returns its code, or `None` if the predicate belongs in the table.
fn operands(predicate: &Predicate<StringId>, schema: &Schema, words: &mut Vec<u32>) -> Option<u32> {
    use predicate::Test;
    if predicate.attribute > LAST_ATTRIBUTE {
        return None;
    }
    let ty = schema.attribute(predicate.attribute).ty;
    Some(match &predicate.test {
        Test::True => code::TRUE,
        Test::Null => code::NULL,
        Test::NotNull => code::NOT_NULL,
        Test::StringEqual(id) => scalar(Relation::Equal, key::of_string(*id), words)?,
        Test::StringNotEqual(id) => scalar(Relation::NotEqual, key::of_string(*id), words)?,
        // The digest of a time does not decide the comparison.
        Test::Integer(..) if ty == Type::DateTime => return None,
        Test::Integer(relation, constant) => scalar(*relation, *constant, words)?,
        Test::Float(relation, constant) => {
            let bits = constant.get().to_bits();
            words.extend([bits as u32, (bits >> 32) as u32]);
            code::FLOAT + number(*relation)
        }
        Test::OneOf(constants) => list(constants, ty, words)?,
        Test::NoneOf(constants) => list(constants, ty, words)? + 1,
        Test::AllOf(constants) if predicate.test.constants() <= MAX_ALL_OF_CONSTANTS => list(constants, ty, words)? + 2,
        _ => return None,
    })
}

/// Appends the constant of a relation and returns its code, if a digest decides it exactly.
fn scalar(relation: Relation, constant: i64, words: &mut Vec<u32>) -> Option<u32> {
    let is_exact = Scale::Clamp.is_exact_at(constant);
    is_exact.then(|| {
        words.push(constant as u32);
        code::SCALAR + number(relation)
    })
}

pub(crate) fn number(relation: Relation) -> u32 {
    RELATIONS.iter().position(|known| *known == relation).map_or(0, |number| number as u32)
}

/// Appends a list of constants. Returns the code of `one of` for an attribute of type `ty`. The next code is `none of` and,
/// for list types, the one after it is `all of`.
fn list(constants: &Constants<StringId>, ty: Type, words: &mut Vec<u32>) -> Option<u32> {
    let fits = match constants {
        Constants::Integers(integers) => constants::push(integers.iter().copied(), words),
        Constants::Strings(ids) => constants::push(ids.iter().map(|id| key::of_string(*id)), words),
    };
    fits.then_some(match ty {
        Type::IntegerList => code::ONE_OF_INTEGERS,
        Type::StringList => code::ONE_OF_STRINGS,
        _ => code::IN,
    })
}

/// Returns the number of words of the operation at the start of `words`.
pub(crate) fn taken(words: &[u32]) -> u32 {
    1 + length(words[0] & CODE, words.word(1)) as u32
}

/// Returns the number of operand words of an operation whose first operand is `operand`.
fn length(operation: u32, operand: u32) -> usize {
    match operation {
        code::SCALAR.. | code::SHARED => 1,
        code::TRUE..code::SCALAR => 0,
        comparison => constants(comparison, operand),
    }
}

/// Returns the number of operand words of an operation with a list or a float.
pub(crate) fn constants(comparison: u32, operand: u32) -> usize {
    match comparison {
        code::FLOAT..code::IN => 2,
        _ => constants::words(operand),
    }
}

/// Returns the float at position `at`.
pub(crate) fn float(words: impl Words, at: usize) -> f64 {
    f64::from_bits(u64::from(words.word(at)) | u64::from(words.word(at + 1)) << 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::layout::ATTRIBUTE;
    use crate::index::{Index, Insertion};
    use crate::language;
    use crate::model::schema::{Attribute, Bounds};

    #[test]
    fn expressions_are_read_back_as_they_were() {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
        let mut attributes = vec![
            attribute("a", Type::Integer),
            attribute("b", Type::Boolean),
            attribute("e", Type::IntegerEnum),
            attribute("f", Type::Float),
            attribute("s", Type::String),
            attribute("l", Type::IntegerList),
            attribute("t", Type::StringList),
        ];
        // An attribute that does not fit an operation.
        attributes.extend((0..=ATTRIBUTE).map(|i| attribute(&format!("c{i}"), Type::Boolean)));
        let mut index = Index::new(Schema::new(attributes).unwrap());
        let chain = |len: usize| (0..len).map(|i| format!("a <> {i}")).collect::<Vec<_>>().join(" and ");
        let texts = [
            "true",
            "not (b and false)",
            "b",
            "not b or c1023 and not c0",
            "a < -1 and a <= 2147483647 and a > 5000000000 or a >= 0 or a = 7 or a <> -9223372036854775808",
            "e = 3 or e <> 4 or f < 1.5 and f = -0.25",
            "s = 'x' and s <> 'y' and s in ('z', 'y', 'x') and s not in ('x')",
            "s in ('twice', 'x', 'twice') or t none of ('again', 'again')",
            "l one of (3, 1, 70000) or l none of () or l all of (1, 2) or t one of ('x') or t all of ('q', 'r')",
            "l all of () and t all of () and not l all of (7) and l all of (1, 2, 3, 4, 5, 6, 7, 8, 9, 5000000000)",
            "a in (1, 5000000000) or a is null or s is not null or l is empty or contains(s, 'x')",
            // Predicates that decide nothing are kept too, in programs with either kind of jump.
            "a = 1 and (true or s = 'only here') or not (false and l one of (4, 5)) and b",
            &format!("{} and (b or true) and a > 3", chain(20_000)),
            &format!("{} and (b or true) and (f > 0.5 or true) and a > 3", chain(40_000)),
        ];
        for (id, text) in (0..).zip(texts) {
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
            let slot = index.subscriptions().find(id).unwrap();
            let Expression { steps, predicates } = index.catalog().expression(index.subscriptions().get(slot));
            let steps = steps.into_iter().map(|step| match step {
                Step::Constant(value) => predicate::Step::Constant(value),
                Step::Predicate(place) => predicate::Step::Predicate(predicates[place as usize].clone()),
                Step::Not => predicate::Step::Not,
                Step::And => predicate::Step::And,
                Step::Or => predicate::Step::Or,
            });
            let postfix = language::read(text.as_bytes(), index.schema(), &[]).unwrap();
            let expected = postfix.into_iter().map(|step| step.map(|text| index.strings().find(&text).unwrap()));
            assert!(steps.eq(expected), "{}", &text[..text.len().min(100)]);
        }
        index.validate().unwrap();
        (0..texts.len()).for_each(|id| index.delete(id as u64).unwrap());
        index.validate().unwrap();
        assert_eq!((index.info().predicates, index.info().strings, index.info().code_bytes), (0, 0, 0));
    }
}
