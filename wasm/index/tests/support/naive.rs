//! The oracle: the meaning of expressions, written down as plainly as can be.

use be_tree_index::model::address::Network;
use be_tree_index::model::arithmetic::{Operator, Term};
use be_tree_index::model::objects::Quantifier;
use be_tree_index::model::predicate::{CapType, Constants, Lowered, Predicate, Relation, Step, Test, Text};
use be_tree_index::model::schema::AttributeId;
use be_tree_index::model::wildcard;

/// An event: for each attribute of the schema its value, if it is defined.
pub type NaiveEvent = Vec<Option<NaiveValue>>;

#[derive(Clone, Debug, PartialEq)]
pub enum NaiveValue {
    Boolean(bool),
    /// Of an integer or an enum.
    Integer(i64),
    Float(f64),
    String(Vec<u8>),
    Integers(Vec<i64>),
    Strings(Vec<Vec<u8>>),
    /// Ids and microseconds.
    Segments(Vec<(i64, i64)>),
    Caps(Vec<NaiveCap>),
    /// Objects: for each attribute of an object its value, if it is defined.
    Objects(Vec<NaiveEvent>),
    /// The bytes of an address, 4 or 16. None of 16 maps an address of 4.
    Address(Vec<u8>),
    /// Only in an event to encode. `None`: a value that does not fit the attribute. `Some(n)`: no map where the first `n` names of the
    /// attribute's path lead.
    Unfit(Option<usize>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct NaiveCap {
    pub cap: CapType,
    pub id: i64,
    pub namespace: Vec<u8>,
    pub value: i64,
    pub micros: Option<i64>,
}

/// Whether `event` makes `expression` true.
pub fn matches(expression: &[Step<Text>], event: &[Option<NaiveValue>]) -> bool {
    let mut stack: Vec<bool> = Vec::new();
    for step in expression {
        let result = match step {
            Step::Constant(value) => *value,
            Step::Predicate(predicate) => holds(predicate, event),
            Step::Not => !stack.pop().unwrap(),
            Step::And => {
                let (right, left) = (stack.pop().unwrap(), stack.pop().unwrap());
                left && right
            }
            Step::Or => {
                let (right, left) = (stack.pop().unwrap(), stack.pop().unwrap());
                left || right
            }
        };
        stack.push(result);
    }
    let [result] = stack[..] else { panic!("not an expression: {expression:?}") };
    result
}

/// Why `event` makes `expression` false: the predicate that was evaluated last, where operands are evaluated from left to
/// right and only as far as they decide. Constants are put in place first; none where the expression is one.
pub fn reason<'a>(expression: &'a [Step<Text>], event: &[Option<NaiveValue>]) -> Option<&'a Predicate<Text>> {
    // The value of each operand, and the predicate evaluated last; none for a constant.
    let mut stack: Vec<(bool, Option<&Predicate<Text>>)> = Vec::new();
    for step in expression {
        let result = match step {
            Step::Constant(value) => (*value, None),
            Step::Predicate(predicate) => (holds(predicate, event), Some(predicate)),
            Step::Not => {
                let (value, last) = stack.pop().unwrap();
                (!value, last)
            }
            Step::And | Step::Or => {
                let (right, left) = (stack.pop().unwrap(), stack.pop().unwrap());
                let decisive = *step == Step::Or;
                match (left, right) {
                    ((value, None), other) | (other, (value, None)) if value != decisive => other,
                    ((_, None), _) | (_, (_, None)) => (decisive, None),
                    ((value, _), _) if value == decisive => left,
                    _ => right,
                }
            }
        };
        stack.push(result);
    }
    assert_eq!(stack.len(), 1);
    assert!(!stack[0].0);
    stack[0].1
}

/// Whether `event` makes `predicate` true.
pub fn holds(predicate: &Predicate<Text>, event: &[Option<NaiveValue>]) -> bool {
    use NaiveValue::*;

    let defined = |attribute: AttributeId| event[attribute.index()].as_ref();
    let value = defined(predicate.attribute);
    match (&predicate.test, value) {
        (Test::Null, _) => value.is_none(),
        (Test::NotNull, _) => value.is_some(),
        (_, None) => false,
        (Test::True, Some(Boolean(value))) => *value,
        (Test::Integer(relation, constant), Some(Integer(value))) => compare(*relation, value, constant),
        (Test::Float(relation, constant), Some(Float(value))) => {
            let equal = (value - constant.get()).abs() < f64::EPSILON;
            match relation {
                Relation::Equal => equal,
                Relation::NotEqual => !equal,
                _ => compare(*relation, value, &constant.get()),
            }
        }
        (Test::StringEqual(constant), Some(String(value))) => value[..] == constant[..],
        (Test::StringNotEqual(constant), Some(String(value))) => value[..] != constant[..],
        (Test::OneOf(constants), Some(value)) => elements(value).iter().any(|element| among(element, constants)),
        (Test::NoneOf(constants), Some(value)) => !elements(value).iter().any(|element| among(element, constants)),
        (Test::AllOf(Constants::Integers(constants)), Some(Integers(list))) => {
            constants.iter().all(|constant| list.contains(constant))
        }
        (Test::AllOf(Constants::Strings(constants)), Some(Strings(list))) => {
            constants.iter().all(|constant| list.iter().any(|element| element[..] == constant[..]))
        }
        (Test::Empty, Some(Integers(list))) => list.is_empty(),
        (Test::Empty, Some(Strings(list))) => list.is_empty(),
        (Test::Empty, Some(Segments(list))) => list.is_empty(),
        (Test::Empty, Some(Caps(list))) => list.is_empty(),
        (Test::Empty, Some(Objects(list))) => list.is_empty(),
        (Test::Objects(quantified), Some(Objects(list))) => {
            let met = list.iter().filter(|object| matches(quantified.steps(), object)).count();
            match quantified.quantifier {
                Quantifier::Any => met > 0,
                Quantifier::All => met == list.len(),
                Quantifier::None => met == 0,
            }
        }
        (Test::Contains(part), Some(String(value))) => {
            part.is_empty() || value.windows(part.len()).any(|window| *window == part[..])
        }
        (Test::StartsWith(part), Some(String(value))) => value.starts_with(part),
        (Test::EndsWith(part), Some(String(value))) => value.ends_with(part),
        (Test::Like(pattern), Some(String(value))) => is_like(pattern, value),
        (Test::Matches(regex), Some(String(value))) => {
            let text = std::str::from_utf8(value).expect("generated strings are UTF-8");
            let known = REGEXES.iter().find(|(pattern, _)| pattern.as_bytes() == regex.text());
            known.expect("the regular expression is generated").1(text)
        }
        (Test::Lowered(test), Some(String(value))) => {
            let lowered = lower(value);
            match test {
                Lowered::OneOf(texts) => texts.iter().any(|text| text[..] == lowered[..]),
                Lowered::Contains(part) => part.is_empty() || lowered.windows(part.len()).any(|w| *w == part[..]),
                Lowered::StartsWith(part) => lowered.starts_with(part),
                Lowered::EndsWith(part) => lowered.ends_with(part),
                Lowered::Like(pattern) => is_like(pattern, &lowered),
            }
        }
        (Test::Compared(comparison), _) => {
            match (computed(&comparison.left, event), computed(&comparison.right, event)) {
                (Some(Computed::Exact(left)), Some(Computed::Exact(right))) => {
                    compare(comparison.relation, &left, &right)
                }
                (Some(left), Some(right)) => {
                    let (left, right) = (left.rounded(), right.rounded());
                    let equal = (left - right).abs() < f64::EPSILON;
                    match comparison.relation {
                        Relation::Equal => equal,
                        Relation::NotEqual => !equal,
                        relation => compare(relation, &left, &right),
                    }
                }
                _ => false,
            }
        }
        (Test::SameString { other, is_equal }, Some(String(value))) => match defined(*other) {
            Some(String(other)) => (value == other) == *is_equal,
            _ => false,
        },
        (Test::InNetworks(networks), Some(Address(bytes))) => networks.iter().any(|network| is_in(network, bytes)),
        (Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius }, Some(Float(here))) => {
            match defined(*longitude_attribute) {
                Some(Float(there)) => kilometres((*here, *there), (latitude.get(), longitude.get())) <= radius.get(),
                _ => false,
            }
        }
        (Test::SegmentWithin { now, id, seconds }, Some(Segments(list))) => {
            match (defined(*now), list.iter().find(|(segment, _)| segment == id)) {
                (Some(Integer(now)), Some((_, micros))) => !is_older(*now, *micros, *seconds),
                _ => false,
            }
        }
        (Test::SegmentBefore { now, id, seconds }, Some(Segments(list))) => {
            match (defined(*now), list.iter().find(|(segment, _)| segment == id)) {
                (Some(Integer(now)), Some((_, micros))) => is_older(*now, *micros, *seconds),
                _ => false,
            }
        }
        (Test::WithinFrequencyCap { now, cap, id, namespace, value, seconds }, Some(Caps(list))) => {
            let Some(Integer(now)) = defined(*now) else { return false };
            let found = list.iter().find(|c| c.cap == *cap && c.id == *id && c.namespace[..] == namespace[..]);
            match found {
                None => true,
                Some(counter) if *seconds <= 0 => *value > counter.value,
                Some(counter) => match counter.micros {
                    None => true,
                    Some(micros) => is_older(*now, micros, *seconds) || *value > counter.value,
                },
            }
        }
        (test, value) => panic!("{test:?} reads {value:?}"),
    }
}

enum Computed {
    Exact(i64),
    Rounded(f64),
}

impl Computed {
    fn rounded(self) -> f64 {
        match self {
            Computed::Exact(integer) => integer as f64,
            Computed::Rounded(float) => float,
        }
    }
}

/// The result of a computation, none where it is undefined. Recursive, from the last step.
fn computed(terms: &[Term], event: &[Option<NaiveValue>]) -> Option<Computed> {
    fn go(terms: &mut std::slice::Iter<Term>, event: &[Option<NaiveValue>]) -> Option<Computed> {
        let value = |id: &AttributeId| event[id.index()].as_ref();
        let count = |count: usize| Some(Computed::Exact(count as i64));
        match terms.next_back().expect("a computation has operands") {
            Term::Integer(integer) => Some(Computed::Exact(*integer)),
            Term::Float(float) => Some(Computed::Rounded(float.get())),
            Term::Attribute(id) => match value(id)? {
                NaiveValue::Integer(integer) => Some(Computed::Exact(*integer)),
                NaiveValue::Float(float) => Some(Computed::Rounded(*float)),
                other => panic!("no number: {other:?}"),
            },
            Term::Length(id) => match value(id)? {
                NaiveValue::String(bytes) => count(std::str::from_utf8(bytes).expect("UTF-8").chars().count()),
                other => panic!("no string: {other:?}"),
            },
            Term::Size(id) => match value(id)? {
                NaiveValue::Integers(list) => count(list.iter().collect::<std::collections::BTreeSet<_>>().len()),
                NaiveValue::Strings(list) => count(list.len()),
                NaiveValue::Segments(list) => count(list.len()),
                NaiveValue::Caps(list) => count(list.len()),
                NaiveValue::Objects(list) => count(list.len()),
                other => panic!("no list: {other:?}"),
            },
            Term::Operator(operator) => {
                let right = go(terms, event);
                let left = go(terms, event);
                let (left, right) = (left?, right?);
                if let (Computed::Exact(left), Computed::Exact(right)) = (&left, &right) {
                    let (left, right) = (i128::from(*left), i128::from(*right));
                    let exact = match operator {
                        Operator::Add => left + right,
                        Operator::Subtract => left - right,
                        Operator::Multiply => left * right,
                        Operator::Divide => {
                            let quotient = left as f64 / right as f64;
                            return quotient.is_finite().then_some(Computed::Rounded(quotient));
                        }
                    };
                    return i64::try_from(exact).ok().map(Computed::Exact);
                }
                let (left, right) = (left.rounded(), right.rounded());
                let rounded = match operator {
                    Operator::Add => left + right,
                    Operator::Subtract => left - right,
                    Operator::Multiply => left * right,
                    Operator::Divide => left / right,
                };
                rounded.is_finite().then_some(Computed::Rounded(rounded))
            }
        }
    }
    go(&mut terms.iter(), event)
}

/// Whether a string matches.
type Meaning = fn(&str) -> bool;

/// Regular expressions, and what each means.
pub const REGEXES: [(&str, Meaning); 8] = [
    ("", |s| s.is_empty()),
    ("a*", |s| s.chars().all(|c| c == 'a')),
    ("(a|b)+", |s| !s.is_empty() && s.chars().all(|c| c == 'a' || c == 'b')),
    ("a.?", |s| s.starts_with('a') && s.chars().count() <= 2 && !s.contains(['\n', '\r'])),
    ("[^b]*b[^b]*", |s| s.matches('b').count() == 1),
    ("(a|ab)(c|bcd)*", |s| ["a", "ab", "ac", "abc", "abcd"].contains(&s)),
    ("\\p{Lu}.*", |s| ["A", "É\u{130}Σ"].contains(&s)),
    ("(it|a)('s|B\\*)", |s| ["it's", "aB*", "a's", "itB*"].contains(&s)),
];

/// Whether a string of UTF-8 fits a pattern, character by character.
fn is_like(pattern: &[u8], value: &[u8]) -> bool {
    match (pattern, value) {
        ([], _) => value.is_empty(),
        ([wildcard::ANY, rest @ ..], _) => (0..=value.len()).any(|at| is_like(rest, &value[at..])),
        ([wildcard::ONE, _rest @ ..], []) => false,
        ([wildcard::ONE, rest @ ..], _) => {
            // A character of UTF-8 is at the start of the string, unless an earlier `*` ended within one.
            let len = (1..=4).find(|&len| value.get(..len).is_some_and(|c| std::str::from_utf8(c).is_ok()));
            len.is_some_and(|len| is_like(rest, &value[len..]))
        }
        ([wanted, rest @ ..], [found, others @ ..]) => wanted == found && is_like(rest, others),
        _ => false,
    }
}

/// The lower case of a string of UTF-8.
fn lower(value: &[u8]) -> Vec<u8> {
    let text = std::str::from_utf8(value).expect("generated strings are UTF-8");
    text.chars().flat_map(char::to_lowercase).collect::<std::string::String>().into_bytes()
}

/// Whether an address begins with the bits of a network, by the network's text.
fn is_in(network: &Network, address: &[u8]) -> bool {
    let text = network.to_string();
    let (first, bits) = text.split_once('/').map_or((&text[..], None), |(first, bits)| (first, Some(bits)));
    let first: Vec<u8> = match first.parse().expect("a network begins with an address") {
        std::net::IpAddr::V4(v4) => v4.octets().into(),
        std::net::IpAddr::V6(v6) => v6.octets().into(),
    };
    let bits = bits.map_or(8 * first.len(), |bits| bits.parse().expect("a network has a number of bits"));
    let bit = |bytes: &[u8], at: usize| bytes[at / 8] >> (7 - at % 8) & 1;
    first.len() == address.len() && (0..bits).all(|at| bit(&first, at) == bit(address, at))
}

fn compare<T: PartialOrd>(relation: Relation, value: &T, constant: &T) -> bool {
    match relation {
        Relation::Less => value < constant,
        Relation::LessOrEqual => value <= constant,
        Relation::Greater => value > constant,
        Relation::GreaterOrEqual => value >= constant,
        Relation::Equal => value == constant,
        Relation::NotEqual => value != constant,
    }
}

/// The elements of a list, or the one value of a scalar, each as a value.
fn elements(value: &NaiveValue) -> Vec<NaiveValue> {
    match value {
        NaiveValue::Integers(list) => list.iter().map(|n| NaiveValue::Integer(*n)).collect(),
        NaiveValue::Strings(list) => list.iter().map(|s| NaiveValue::String(s.clone())).collect(),
        scalar => vec![scalar.clone()],
    }
}

fn among(value: &NaiveValue, constants: &Constants<Text>) -> bool {
    match (value, constants) {
        (NaiveValue::Integer(value), Constants::Integers(constants)) => constants.contains(value),
        (NaiveValue::String(value), Constants::Strings(constants)) => constants.iter().any(|c| c[..] == value[..]),
        _ => panic!("{value:?} among {constants:?}"),
    }
}

/// Whether `micros` lies more than `seconds` before `now`, which is in seconds: exactly, whatever their size.
fn is_older(now: i64, micros: i64, seconds: i64) -> bool {
    (i128::from(now) - i128::from(seconds)) * 1_000_000 > i128::from(micros)
}

/// The great-circle distance of two points, each a latitude and a longitude in degrees, by the haversine formula.
fn kilometres(a: (f64, f64), b: (f64, f64)) -> f64 {
    const EARTH: f64 = 6372.8;
    let latitudes = (b.0 - a.0).to_radians();
    let longitudes = (b.1 - a.1).to_radians();
    let h = (latitudes / 2.0).sin().powi(2)
        + a.0.to_radians().cos() * b.0.to_radians().cos() * (longitudes / 2.0).sin().powi(2);
    2.0 * EARTH * h.min(1.0).sqrt().asin()
}
