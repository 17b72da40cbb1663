//! Evaluates an expression for an event.

use std::cmp::Ordering;

use crate::event::{fields, Event};
use crate::expression::{Constants, Part, Predicate, Quantifier, Relation, Step, Test};
use crate::value::{Sequence, Shape, Value};

/// The radius of the earth in kilometres.
const EARTH_RADIUS: f64 = 6372.8;

/// Returns whether the expression in `steps` is true. `stack` has room for its operands.
pub fn expression_holds(steps: &[Step], event: &Event, stack: &mut Vec<bool>) -> bool {
    stack.clear();
    for step in steps {
        let value = match step {
            Step::Constant(value) => *value,
            Step::Predicate(predicate) => predicate_holds(predicate, event),
            Step::Not => !stack.pop().unwrap_or_default(),
            // Pops both operands, without a short circuit.
            Step::And => stack.pop().unwrap_or_default() & stack.pop().unwrap_or_default(),
            Step::Or => stack.pop().unwrap_or_default() | stack.pop().unwrap_or_default(),
        };
        stack.push(value);
    }
    stack.pop().unwrap_or_default()
}

/// Returns the maximum stack depth of `steps`.
pub fn depth(steps: &[Step]) -> usize {
    let mut deepest = 0;
    steps.iter().fold(0, |depth: usize, step| {
        let depth = match step {
            Step::Constant(_) | Step::Predicate(_) => depth + 1,
            Step::Not => depth,
            Step::And | Step::Or => depth - 1,
        };
        deepest = deepest.max(depth);
        depth
    });
    deepest
}

/// Evaluates a predicate. On an undefined attribute only `is null` is true.
pub fn predicate_holds(predicate: &Predicate, event: &Event) -> bool {
    let value = event.attributes[predicate.attribute];
    match (&predicate.test, value) {
        (Test::Null, value) => matches!(value, Value::Undefined),
        (_, Value::Undefined) => false,
        (Test::NotNull, _) => true,
        (Test::True, value) => matches!(value, Value::Boolean(true)),
        (Test::Integer(relation, constant), Value::Integer(value)) => takes(*relation, value.cmp(constant)),
        (Test::Float(relation, constant), Value::Float(value)) => {
            let equal = relation.is_equality() && (value - constant).abs() < f64::EPSILON;
            let order = if equal { Some(Ordering::Equal) } else { value.partial_cmp(constant) };
            // Floats are equal exactly if they differ by less than epsilon.
            order.is_some_and(|order| takes(*relation, order))
        }
        (Test::Text(relation, constant), Value::Text(text)) => {
            takes(*relation, event.values.bytes(text).cmp(constant.as_slice()))
        }
        (Test::Among(quantifier, constants), value) => among(*quantifier, constants, value, event),
        (Test::Empty, Value::Sequence(list)) => list.length == 0,
        (Test::Part(part, wanted), Value::Text(text)) => has_part(event.values.bytes(text), *part, wanted),
        (Test::Geo { longitude_attribute, latitude, longitude, radius }, Value::Float(here)) => {
            match event.attributes[*longitude_attribute] {
                Value::Float(there) => distance(here, there, *latitude, *longitude) <= *radius,
                _ => false,
            }
        }
        (Test::Segment { within, now, id, seconds }, Value::Sequence(segments)) => {
            let recent = last_seen(*id, segments, event).and_then(|micros| is_recent(*now, *seconds, micros, event));
            recent == Some(*within)
        }
        (Test::Cap { now, .. }, Value::Sequence(caps)) => {
            !matches!(event.attributes[*now], Value::Undefined) && within_cap(&predicate.test, caps, event)
        }
        _ => false,
    }
}

fn takes(relation: Relation, order: Ordering) -> bool {
    match order {
        Ordering::Less => relation.less,
        Ordering::Equal => relation.equal,
        Ordering::Greater => relation.greater,
    }
}

fn among(quantifier: Quantifier, constants: &Constants, value: Value, event: &Event) -> bool {
    let is_constant = |value: Value| match (value, constants) {
        (Value::Integer(integer), Constants::Integers(integers)) => integers.binary_search(&integer).is_ok(),
        (Value::Text(text), Constants::Texts(texts)) => {
            let text = event.values.bytes(text);
            texts.binary_search_by(|constant| constant.as_slice().cmp(text)).is_ok()
        }
        _ => false,
    };
    let any = match value {
        Value::Sequence(list) if quantifier == Quantifier::All => return has_all(constants, list, event),
        Value::Sequence(list) => event.values.each(list).any(is_constant),
        single => is_constant(single),
    };
    any == (quantifier == Quantifier::One)
}

fn has_all(constants: &Constants, list: Sequence, event: &Event) -> bool {
    let elements = || event.values.each(list);
    match constants {
        Constants::Integers(integers) => {
            integers.iter().all(|wanted| elements().any(|it| matches!(it, Value::Integer(it) if it == *wanted)))
        }
        Constants::Texts(texts) => texts.iter().all(|wanted| {
            elements().any(|element| matches!(element, Value::Text(text) if event.values.bytes(text) == wanted))
        }),
    }
}

fn has_part(text: &[u8], part: Part, wanted: &[u8]) -> bool {
    match part {
        Part::Start => text.starts_with(wanted),
        Part::End => text.ends_with(wanted),
        Part::Any => wanted.is_empty() || text.windows(wanted.len()).any(|window| window == wanted),
    }
}

/// Returns the haversine distance of two places, given in degrees, in kilometres.
fn distance(latitude: f64, longitude: f64, other_latitude: f64, other_longitude: f64) -> f64 {
    let half_latitude = (other_latitude - latitude).to_radians() / 2.0;
    let half_longitude = (other_longitude - longitude).to_radians() / 2.0;
    let a = half_latitude.sin().powi(2)
        + latitude.to_radians().cos() * other_latitude.to_radians().cos() * half_longitude.sin().powi(2);
    2.0 * EARTH_RADIUS * a.sqrt().min(1.0).asin()
}

fn last_seen(id: i64, segments: Sequence, event: &Event) -> Option<i64> {
    event.values.each(segments).find_map(|segment| match pair(segment, event)? {
        [Value::Integer(segment), Value::Integer(micros)] if segment == id => Some(micros),
        _ => None,
    })
}

/// Returns whether `micros` is at most `seconds` seconds before now, without overflow.
fn is_recent(now: usize, seconds: i64, micros: i64, event: &Event) -> Option<bool> {
    let Value::Integer(now) = event.attributes[now] else { return None };
    Some((i128::from(now) - i128::from(seconds)) * 1_000_000 <= i128::from(micros))
}

/// The first cap of this type, id and namespace decides.
fn within_cap(test: &Test, caps: Sequence, event: &Event) -> bool {
    let Test::Cap { now, kind, id, namespace, value: limit, seconds } = test else { return false };
    let is = |value: Value, wanted: &[u8]| matches!(value, Value::Text(text) if event.values.bytes(text) == wanted);
    let found = event.values.each(caps).find_map(|cap| {
        let [key, value, micros] = triple(cap, event)?;
        let [its_kind, its_id, its_namespace] = triple(key, event)?;
        let same_id = matches!(its_id, Value::Integer(its_id) if its_id == *id);
        (same_id && is(its_kind, kind) && is(its_namespace, namespace)).then_some((value, micros))
    });
    match found {
        None => true,
        Some((Value::Integer(value), _)) if *limit > value => true,
        Some(_) if *seconds <= 0 => false,
        Some((_, Value::Integer(micros))) => is_recent(*now, *seconds, micros, event) == Some(false),
        Some(_) => true,
    }
}

/// Splits a value into two parts: a tuple in a term, a list in JSON.
fn pair(value: Value, event: &Event) -> Option<[Value; 2]> {
    fields(value, Shape::Tuple, &event.values).or_else(|| fields(value, Shape::List, &event.values))
}

fn triple(value: Value, event: &Event) -> Option<[Value; 3]> {
    fields(value, Shape::Tuple, &event.values).or_else(|| fields(value, Shape::List, &event.values))
}
