//! Expressions of any length, made of random parts, and the costs of changes by them.

use std::fmt::Write;

use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

use super::heap::{counted, Cost};
use super::support::random::Random;

/// Predicates, with `?` for a number.
const PREDICATES: [&str; 31] = [
    "i = ?",
    "i <> ?",
    "i = 1",
    "i > ?",
    "(i > ?0 and i < ?5)",
    "(i > ? and j < ?9)",
    "(i = ? and s = 'v?')",
    "(i = 1 and s = 'v?')",
    "i in (?, 7, -?)",
    "i not in (?, 8)",
    "f > ?.5",
    "f = ?.25",
    "i * ? + j > ?",
    "s = 'v?'",
    "not (s = 'v?')",
    "starts_with(s, 'v?')",
    "ends_with(s, '?v')",
    "contains(s, 'some text ? ')",
    "contains(lower(s), 'word ?')",
    "lower(s) = 'v?'",
    "s like 'a*b?*c'",
    "s matches 'ab?c+'",
    "ip in ('2001:db8:?::/48')",
    "l one of (?, 7)",
    "l all of (?, 1, 2)",
    "any rows (x = ? and y = 'v?')",
    "geo_within_radius(?.5, 1.?, 10)",
    "segment_within(?, 20)",
    "within_frequency_cap('flight', 'ns?', 100, 0)",
    "b",
    "o? = 1",
];

/// The number of the optional attributes `o0`, `o1` and so on.
const OPTIONAL: usize = 16;

const CONSTANTS: [(&[u8], i64); 1] = [(b"flight_id", 10)];

/// An expression of any length.
#[derive(Clone, Debug)]
pub enum Recipe {
    /// Predicates with different numbers, joined by an operator.
    Chain(&'static str, &'static str),
    /// A predicate and a nested rest, joined by two operators in turn.
    Nest(&'static str, &'static str),
    /// One predicate with a long list.
    List(&'static str),
    /// A long string.
    Text(&'static str),
    Not(Box<Recipe>),
    /// Two expressions of half the length.
    Pair(&'static str, Box<Recipe>, Box<Recipe>),
}

impl Recipe {
    pub fn new(random: &mut Random, depth: usize) -> Recipe {
        let operators = [" or ", " or ", " and "];
        match random.below(if depth == 0 { 8 } else { 12 }) {
            0..=4 => Recipe::Chain(random.pick(&operators), random.pick(&PREDICATES)),
            5 => Recipe::Nest(random.pick(&PREDICATES), random.pick(&PREDICATES)),
            6 => Recipe::List(random.pick(&[
                "i in (*)",
                "i not in (*)",
                "l one of (*)",
                "l none of (*)",
                "l all of (*)",
            ])),
            7 => Recipe::Text(random.pick(&["s = '*'", "contains(s, '*')", "starts_with(s, '*')", "lower(s) = '*'"])),
            8 => Recipe::Not(Box::new(Recipe::new(random, depth - 1))),
            _ => {
                let operator = random.pick(&operators);
                let halves = [(); 2].map(|_| Box::new(Recipe::new(random, depth - 1)));
                let [left, right] = halves;
                Recipe::Pair(operator, left, right)
            }
        }
    }

    /// Returns an expression of `count` predicates or constants, with numbers from `from` on.
    pub fn text(&self, from: usize, count: usize) -> String {
        match self {
            Recipe::Chain(operator, predicate) => {
                let parts: Vec<String> = (from..from + count).map(|number| part(predicate, number)).collect();
                parts.join(operator)
            }
            Recipe::Nest(one, other) => (from..from + count / 2).fold("i = 0".to_string(), |inner, number| {
                format!("({} and ({} or {inner}))", part(one, number), part(other, number))
            }),
            Recipe::List(predicate) => {
                let numbers: Vec<String> = (from..from + count).map(|number| number.to_string()).collect();
                predicate.replace('*', &numbers.join(", "))
            }
            Recipe::Text(predicate) => {
                let text = (from..from + count).fold(String::new(), |mut text, number| {
                    write!(text, "{number} ").unwrap();
                    text
                });
                predicate.replace('*', &text)
            }
            Recipe::Not(inner) => format!("not ({})", inner.text(from, count)),
            Recipe::Pair(operator, left, right) => {
                let half = (count / 2).max(1);
                format!("({}){operator}({})", left.text(from, half), right.text(from, half))
            }
        }
    }
}

fn part(predicate: &str, number: usize) -> String {
    let number = if predicate.starts_with('o') { number % OPTIONAL } else { number };
    predicate.replace('?', &number.to_string())
}

fn schema() -> Schema {
    let attribute = |name: &str, ty, optional| Attribute { name: name.into(), ty, optional, bounds: Bounds::Unbounded };
    let mut attributes: Vec<Attribute> = [
        ("i", Type::Integer),
        ("j", Type::Integer),
        ("f", Type::Float),
        ("s", Type::String),
        ("l", Type::IntegerList),
        ("ip", Type::Ip),
        ("b", Type::Boolean),
        ("latitude", Type::Float),
        ("longitude", Type::Float),
        ("now", Type::Integer),
        ("segments_with_timestamp", Type::Segments),
        ("frequency_caps", Type::FrequencyCaps),
        ("rows", Type::ObjectList),
        ("rows.x", Type::Integer),
        ("rows.y", Type::String),
    ]
    .into_iter()
    .map(|(name, ty)| attribute(name, ty, false))
    .collect();
    attributes.extend((0..OPTIONAL).map(|number| attribute(&format!("o{number}"), Type::Integer, true)));
    Schema::new(attributes).unwrap()
}

fn insertion(id: u64, text: &str) -> Insertion<'_> {
    Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() }
}

/// An index that other expressions have grown, and an expression to insert.
#[derive(Clone, Debug)]
pub struct Growth {
    before: Recipe,
    /// The number of expressions before, in multiples of the length, and the length of each.
    copies: usize,
    is_long: bool,
    tested: Recipe,
}

impl Growth {
    pub fn new(random: &mut Random) -> Growth {
        let tested = Recipe::new(random, 2);
        let before = if random.chance(50) { tested.clone() } else { Recipe::new(random, 1) };
        Growth { before, copies: random.pick(&[0, 1, 1, 2, 12, 30]), is_long: random.chance(50), tested }
    }

    /// Returns the costs of the changes by an expression of `count` parts: those before, an insertion, a replacement by itself,
    /// and a deletion. Returns `None` if the expression is refused.
    fn costs(&self, count: usize) -> Option<[Cost; 4]> {
        let mut index = Index::new(schema());
        let insert = |index: &mut Index, id, text: &str| index.insert(&insertion(id, text));
        let texts: Vec<String> = match self.is_long {
            true => (0..self.copies).map(|copy| self.before.text(copy, count)).collect(),
            false => (0..self.copies.min(4) * count).map(|number| self.before.text(number, 1)).collect(),
        };
        // Some are too long for the language.
        let insert_all = || (100..).zip(&texts).map(|(id, text)| insert(&mut index, id, text).is_ok()).last();
        let (_, before) = counted(insert_all);
        let text = self.tested.text(0, count);
        let (inserted, insertion_cost) = counted(|| insert(&mut index, 1, &text));
        inserted.ok()?;
        let put = insertion(1, &text);
        let (replaced, replacement) = counted(|| index.put_for(&mut (), &put));
        replaced.unwrap();
        let (deleted, deletion) = counted(|| index.delete(1));
        deleted.unwrap();
        Some([before, insertion_cost, replacement, deletion])
    }

    /// Checks that costs about double with the length: that they do not grow by more than 2.4 times, beyond a constant, from
    /// `length` to its double four times in a row. They may a few times, where an index begins to find an expression in
    /// another way.
    pub fn check(&self, length: usize) {
        let kinds = [Cost::requested as Kind, Cost::max_held];
        let mut suspects: Vec<_> = (0..CHANGES.len()).flat_map(|change| kinds.map(|kind| (change, kind))).collect();
        let Some(mut costs) = self.costs(length) else { return };
        for doubling in 1..=DOUBLINGS {
            let Some(doubled) = self.costs(length << doubling) else { return };
            suspects.retain(|&(change, kind)| kind(&doubled[change]) * 5 > 12 * kind(&costs[change]) + 5 * CONSTANT);
            if suspects.is_empty() {
                return;
            }
            costs = doubled;
        }
        let changes: Vec<_> = suspects.iter().map(|(change, kind)| (CHANGES[*change], kind(&costs[*change]))).collect();
        panic!("from {length} to {}, bytes of {changes:?}: {self:?}", length << DOUBLINGS);
    }
}

/// A part of a cost.
type Kind = fn(&Cost) -> usize;

/// The changes of [`Growth::costs`].
const CHANGES: [&str; 4] = ["insertions before", "insertion", "replacement", "deletion"];
const DOUBLINGS: usize = 4;
/// Bytes that do not depend on the length.
const CONSTANT: usize = 64 * 1024;
