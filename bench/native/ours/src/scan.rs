//! The plain loop: evaluates every expression as a boxed tree with short circuits. With some care: strings are compared as
//! numbers, and lists are sorted.

use be_tree_index::event::{decode, Event, Value};
use be_tree_index::model::predicate::{Constants, Predicate, Step, Test, Text};
use be_tree_index::model::strings::{Interner, StringId};
use be_tree_index::model::wildcard;

use be_tree_bench_common::measure::Engine;
use be_tree_bench_common::tree::Tree;
use be_tree_bench_common::workload::{Events, Workload};
use be_tree_bench_common::Unavailable;

pub struct Scan<'a> {
    workload: &'a Workload,
    events: &'a Events,
    strings: Interner,
    trees: Vec<(u64, Tree<StringId>)>,
    event: Event,
    ids: Vec<u64>,
}

impl<'a> Scan<'a> {
    pub fn new(workload: &'a Workload, events: &'a Events) -> Result<Self, Unavailable> {
        let mut strings = Interner::default();
        let mut trees = Vec::new();
        for parsed in workload.parsed() {
            let (id, postfix) = parsed?;
            let steps: Result<Vec<_>, String> = postfix.into_iter().map(|step| intern(step, &mut strings)).collect();
            trees.push((id, Tree::new(steps?)));
        }
        Ok(Scan { workload, events, strings, trees, event: Event::default(), ids: Vec::new() })
    }
}

impl Engine for Scan<'_> {
    fn decode(&mut self, first: usize) {
        let bytes = &self.events.bytes[first];
        let decoded = decode(self.events.format, bytes, &self.workload.schema, &self.strings, &mut self.event);
        decoded.expect("the events of a workload are right");
    }

    fn search(&mut self) {
        self.ids.clear();
        for (id, tree) in &self.trees {
            if holds(tree, &self.event) {
                self.ids.push(*id);
            }
        }
    }

    fn ids(&mut self, _nth: usize) -> Vec<u64> {
        self.ids.clone()
    }
}

fn intern(step: Step<Text>, strings: &mut Interner) -> Result<Step<StringId>, String> {
    match &step {
        Step::Predicate(Predicate { test, .. }) if !is_known(test) => {
            Err(format!("the plain loop has no test {test:?}, because no workload has it"))
        }
        _ => Ok(step.map(|text| strings.retain(&text))),
    }
}

/// Returns whether [`passes`] evaluates the test.
fn is_known(test: &Test<Text>) -> bool {
    use Test::*;
    matches!(test, True | Null | NotNull | Empty | Integer(..) | Float(..) | OneOf(_) | NoneOf(_) | AllOf(_))
        || matches!(test, StringEqual(_) | StringNotEqual(_) | Contains(_) | StartsWith(_) | EndsWith(_))
        || matches!(test, Like(_) | Matches(_) | InNetworks(_) | GeoWithinRadius { .. })
}

fn holds(tree: &Tree<StringId>, event: &Event) -> bool {
    match tree {
        Tree::Constant(value) => *value,
        Tree::Test(predicate) => passes(predicate, event),
        Tree::Not(operand) => !holds(operand, event),
        Tree::And(left, right) => holds(left, event) && holds(right, event),
        Tree::Or(left, right) => holds(left, event) || holds(right, event),
    }
}

fn passes(predicate: &Predicate<StringId>, event: &Event) -> bool {
    match (&predicate.test, event.values[predicate.attribute.index()]) {
        (Test::Null, value) => value == Value::Undefined,
        (_, Value::Undefined) => false,
        (Test::NotNull, _) => true,
        (Test::True, value) => value == Value::Boolean(true),
        (Test::Integer(relation, constant), Value::Integer(value)) => relation.holds(value, *constant),
        (Test::Float(relation, constant), Value::Float(value)) => relation.holds_of_floats(value, constant.get()),
        (Test::StringEqual(constant), Value::String(value)) => value.id == *constant,
        (Test::StringNotEqual(constant), Value::String(value)) => value.id != *constant,
        (Test::OneOf(constants), value) => has_one(constants, value, event),
        (Test::NoneOf(constants), value) => !has_one(constants, value, event),
        (Test::AllOf(Constants::Integers(constants)), Value::Integers(list)) => {
            constants.iter().all(|constant| list.of(&event.integers).contains(constant))
        }
        (Test::AllOf(Constants::Strings(constants)), Value::Strings(list)) => {
            constants.iter().all(|constant| list.of(&event.strings).iter().any(|text| text.id == *constant))
        }
        (Test::Empty, Value::Integers(list) | Value::Strings(list)) => list.len == 0,
        (Test::Contains(part), Value::String(value)) => contains(event.text(value), part),
        (Test::StartsWith(part), Value::String(value)) => event.text(value).starts_with(part),
        (Test::EndsWith(part), Value::String(value)) => event.text(value).ends_with(part),
        (Test::Like(pattern), Value::String(value)) => is_like(pattern, event.text(value)),
        (Test::Matches(regex), Value::String(value)) => regex.matches(event.text(value)),
        (Test::InNetworks(networks), Value::Address(position)) => {
            networks.iter().any(|network| network.contains(event.addresses[position as usize]))
        }
        (Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius }, Value::Float(north)) => {
            match event.values[longitude_attribute.index()] {
                Value::Float(east) => kilometres(north, east, latitude.get(), longitude.get()) <= radius.get(),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Returns the distance of two points on the sphere, by the haversine formula. Latitudes and longitudes are in degrees.
fn kilometres(latitude: f64, longitude: f64, other_latitude: f64, other_longitude: f64) -> f64 {
    const EARTH: f64 = 6372.8;
    let half = |from: f64, to: f64| ((to - from).to_radians() / 2.0).sin().powi(2);
    let across = latitude.to_radians().cos() * other_latitude.to_radians().cos();
    let squared = half(latitude, other_latitude) + across * half(longitude, other_longitude);
    2.0 * EARTH * squared.sqrt().min(1.0).asin()
}

/// Returns whether a text matches a pattern whose parts have no `?`. Parts must occur in order.
fn is_like(pattern: &[u8], text: &[u8]) -> bool {
    let parts: Vec<&[u8]> = pattern.split(|&byte| byte == wildcard::ANY).collect();
    let [first, between @ .., last] = &parts[..] else { return text == pattern };
    let Some(mut rest) = text.strip_prefix(*first) else { return false };
    for part in between {
        match (0..=rest.len()).find(|&at| rest[at..].starts_with(part)) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

fn has_one(constants: &Constants<StringId>, value: Value, event: &Event) -> bool {
    match (constants, value) {
        (Constants::Integers(constants), Value::Integer(value)) => constants.binary_search(&value).is_ok(),
        (Constants::Strings(constants), Value::String(value)) => constants.binary_search(&value.id).is_ok(),
        (Constants::Integers(constants), Value::Integers(list)) => {
            list.of(&event.integers).iter().any(|value| constants.binary_search(value).is_ok())
        }
        (Constants::Strings(constants), Value::Strings(list)) => {
            list.of(&event.strings).iter().any(|text| constants.binary_search(&text.id).is_ok())
        }
        _ => false,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|window| window == part)
}
