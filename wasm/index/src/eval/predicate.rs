//! This module evaluates single predicates for an event.

use memchr::memmem;

use crate::event::{has_string, Event, Value, FEW};
use crate::model::predicate::{Constants, Predicate, Test};
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;

/// The radius of the earth in kilometres, with the value that the field's programs use.
const EARTH_RADIUS: f64 = 6372.8;

/// The number of bytes that cost about as much as a word of a program. Segments and caps count like bytes.
const A_WORD: usize = 8;

/// Returns the approximate cost of evaluating `predicate`, in words of a program. It is 0 for few constants and a small
/// value.
pub(crate) fn work(predicate: &Predicate<StringId>, event: &Event) -> u32 {
    let words = match (&predicate.test, event.values[predicate.attribute.index()]) {
        (Test::Contains(part), Value::String(text)) => (part.len() + text.bytes.len as usize) / A_WORD,
        (Test::StartsWith(part) | Test::EndsWith(part), Value::String(_)) => part.len() / A_WORD,
        // A binary search in the longer list finds each element of the shorter.
        (test @ (Test::OneOf(_) | Test::NoneOf(_) | Test::AllOf(_)), Value::Integers(span) | Value::Strings(span)) => {
            test.constants().min(span.len as usize)
        }
        (_, Value::Segments(span) | Value::Caps(span)) => span.len as usize / A_WORD,
        _ => 0,
    };
    u32::try_from(words).unwrap_or(u32::MAX)
}

/// Returns whether `predicate` is true. With an undefined attribute it is false, except for `is null`.
pub(crate) fn holds(predicate: &Predicate<StringId>, event: &Event) -> bool {
    let value = event.values[predicate.attribute.index()];
    match (&predicate.test, value) {
        (Test::Null, value) => value == Value::Undefined,
        (_, Value::Undefined) => false,
        (Test::True, Value::Boolean(value)) => value,
        (Test::Integer(relation, constant), Value::Integer(value)) => relation.holds(value, *constant),
        (Test::Float(relation, constant), Value::Float(value)) => relation.holds_of_floats(value, constant.get()),
        (Test::StringEqual(id), Value::String(text)) => text.id == *id,
        (Test::StringNotEqual(id), Value::String(text)) => text.id != *id,
        (Test::NotNull, _) => true,
        (Test::Empty, value) => is_empty(value),
        (Test::OneOf(constants), value) => has_one_of(value, constants, event),
        (Test::NoneOf(constants), value) => !has_one_of(value, constants, event),
        (Test::AllOf(constants), value) => has_all_of(value, constants, event),
        (Test::Contains(part), value) => with_bytes(value, event, |bytes| memmem::find(bytes, part).is_some()),
        (Test::StartsWith(part), value) => with_bytes(value, event, |bytes| bytes.starts_with(part)),
        (Test::EndsWith(part), value) => with_bytes(value, event, |bytes| bytes.ends_with(part)),
        (Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius }, Value::Float(lat)) => {
            match event.values[longitude_attribute.index()] {
                Value::Float(lon) => haversine(lat, lon, latitude.get(), longitude.get()) <= radius.get(),
                _ => false,
            }
        }
        (Test::SegmentWithin { now, id, seconds }, value) => {
            last_seen(value, *id, event).is_some_and(|micros| is_recent(*now, *seconds, micros, event) == Some(true))
        }
        (Test::SegmentBefore { now, id, seconds }, value) => {
            last_seen(value, *id, event).is_some_and(|micros| is_recent(*now, *seconds, micros, event) == Some(false))
        }
        (test @ Test::WithinFrequencyCap { .. }, value) => within_frequency_cap(test, value, event),
        _ => false,
    }
}

fn is_empty(value: Value) -> bool {
    match value {
        Value::Integers(span) | Value::Strings(span) | Value::Segments(span) | Value::Caps(span) => span.len == 0,
        _ => false,
    }
}

fn has_one_of(value: Value, constants: &Constants<StringId>, event: &Event) -> bool {
    match (value, constants) {
        (Value::Integer(value), Constants::Integers(constants)) => constants.binary_search(&value).is_ok(),
        (Value::Integers(span), Constants::Integers(constants)) => intersects(span.of(&event.integers), constants),
        (Value::String(text), Constants::Strings(constants)) => constants.binary_search(&text.id).is_ok(),
        (Value::Strings(span), Constants::Strings(constants)) => {
            let texts = span.of(&event.strings);
            if texts.len() <= constants.len().max(FEW) {
                texts.iter().any(|text| constants.binary_search(&text.id).is_ok())
            } else {
                constants.iter().any(|&constant| has_string(texts, constant))
            }
        }
        _ => false,
    }
}

/// Returns whether two sorted lists share an element. It searches the longer list for each element of the shorter.
fn intersects(a: &[i64], b: &[i64]) -> bool {
    let (short, long) = if a.len() <= b.len() { (a, b) } else { (b, a) };
    short.iter().any(|value| long.binary_search(value).is_ok())
}

fn has_all_of(value: Value, constants: &Constants<StringId>, event: &Event) -> bool {
    match (value, constants) {
        (Value::Integers(span), Constants::Integers(constants)) => {
            let values = span.of(&event.integers);
            constants.len() <= values.len() && constants.iter().all(|constant| values.binary_search(constant).is_ok())
        }
        (Value::Strings(span), Constants::Strings(constants)) => {
            let texts = span.of(&event.strings);
            constants.len() <= texts.len() && constants.iter().all(|&constant| has_string(texts, constant))
        }
        _ => false,
    }
}

fn with_bytes(value: Value, event: &Event, test: impl Fn(&[u8]) -> bool) -> bool {
    match value {
        Value::String(text) => test(event.text(text)),
        _ => false,
    }
}

fn haversine(lat1: f64, lon1: f64, lat2: f64, lon2: f64) -> f64 {
    let half_lat = (lat2 - lat1).to_radians() / 2.0;
    let half_lon = (lon2 - lon1).to_radians() / 2.0;
    let a = half_lat.sin().powi(2) + lat1.to_radians().cos() * lat2.to_radians().cos() * half_lon.sin().powi(2);
    2.0 * EARTH_RADIUS * a.sqrt().min(1.0).asin()
}

/// Returns whether `micros` is at most `seconds` before now, or `None` if now is undefined.
fn is_recent(now: AttributeId, seconds: i64, micros: i64, event: &Event) -> Option<bool> {
    let Value::Integer(now) = event.values[now.index()] else {
        return None;
    };
    let horizon = (i128::from(now) - i128::from(seconds)) * 1_000_000;
    Some(horizon <= i128::from(micros))
}

fn last_seen(value: Value, id: i64, event: &Event) -> Option<i64> {
    let Value::Segments(span) = value else {
        return None;
    };
    let found = span.of(&event.segments).iter().find(|segment| segment.id == id)?;
    Some(found.micros)
}

fn within_frequency_cap(test: &Test<StringId>, value: Value, event: &Event) -> bool {
    let Test::WithinFrequencyCap { now, cap, id, namespace, value: limit, seconds } = test else {
        return false;
    };
    let Value::Caps(span) = value else {
        return false;
    };
    // Without the present time the test is undefined, even if no cap would need it.
    if event.values[now.index()] == Value::Undefined {
        return false;
    }
    let first = span
        .of(&event.caps)
        .iter()
        .find(|counted| counted.cap == *cap && counted.id == *id && counted.namespace.id == *namespace);
    let Some(counted) = first else {
        return true;
    };
    if *limit > counted.value {
        return true;
    }
    match counted.micros {
        _ if *seconds <= 0 => false,
        None => true,
        Some(micros) => is_recent(*now, *seconds, micros, event) == Some(false),
    }
}
