//! The evaluation of single predicates for an event.

use memchr::memmem;

use crate::event::{has_string, Event, Object, Value, MAX_UNSORTED_STRINGS};
use crate::model::address::any_contains;
use crate::model::arithmetic::{length, Comparison, Number, Numbers, Term};
use crate::model::attribute::MAX_OBJECT_ATTRIBUTES;
use crate::model::objects::{Quantified, Quantifier};
use crate::model::predicate::{Constants, Lowered, Predicate, Test};
use crate::model::schema::AttributeId;
use crate::model::strings::StringId;
use crate::model::wildcard;
use crate::support::sphere::haversine;

/// The number of bytes that cost about as much as a word of a program. Segments and caps count like bytes.
const A_WORD: usize = 8;

/// Returns the approximate cost of evaluating `predicate`, in words of a program. It is 0 for few constants and a small
/// value.
pub(crate) fn work(predicate: &Predicate<StringId>, event: &Event) -> u32 {
    let words = match (&predicate.test, event.values[predicate.attribute.index()]) {
        (Test::Contains(part), Value::String(text)) => (part.len() + text.bytes.len as usize) / A_WORD,
        (Test::Like(pattern), Value::String(text)) => like_work(pattern, text.bytes.len as usize),
        (Test::Compared(comparison), _) => computed_work(comparison, event),
        (Test::SameString { .. }, Value::String(text)) => text.bytes.len as usize / A_WORD,
        // Each state may take some operations for each byte.
        (Test::Matches(regex), Value::String(text)) => regex.states().saturating_mul(1 + text.bytes.len as usize),
        (Test::Lowered(test), Value::String(text)) => lowered_work(test, text.bytes.len as usize),
        (Test::StartsWith(part) | Test::EndsWith(part), Value::String(_)) => part.len() / A_WORD,
        // A binary search in the longer list finds each element of the shorter.
        (test @ (Test::OneOf(_) | Test::NoneOf(_) | Test::AllOf(_)), Value::Integers(span) | Value::Strings(span)) => {
            test.constants().min(span.len as usize)
        }
        (Test::Objects(quantified), Value::Objects(span)) => objects_work(quantified, span.len as usize, event),
        (_, Value::Segments(span) | Value::Caps(span)) => span.len as usize / A_WORD,
        _ => 0,
    };
    u32::try_from(words).unwrap_or(u32::MAX)
}

/// Returns whether `predicate` is true. With an undefined attribute it is false, except for `is null`.
pub(crate) fn holds(predicate: &Predicate<StringId>, event: &Event) -> bool {
    holds_among(predicate, &event.values, event)
}

/// Evaluates a predicate for one object of a list: `values` has the object's attributes, and `event` the data they refer to.
fn holds_among(predicate: &Predicate<StringId>, values: &[Value], event: &Event) -> bool {
    let value = values[predicate.attribute.index()];
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
        (Test::Like(pattern), value) => with_bytes(value, event, |bytes| wildcard::matches(pattern, bytes)),
        (Test::Matches(regex), value) => with_bytes(value, event, |bytes| regex.matches(bytes)),
        (Test::Lowered(test), _) => {
            event.lowered.get(predicate.attribute).is_some_and(|bytes| holds_lowered(test, bytes))
        }
        (Test::Compared(comparison), _) => comparison.holds(&Values { values, event }),
        (Test::SameString { other, is_equal }, Value::String(text)) => match values[other.index()] {
            Value::String(other) => (event.text(text) == event.text(other)) == *is_equal,
            _ => false,
        },
        (Test::InNetworks(networks), Value::Address(position)) => {
            any_contains(networks, event.addresses[position as usize])
        }
        (Test::GeoWithinRadius { longitude_attribute, latitude, longitude, radius }, Value::Float(lat)) => {
            match values[longitude_attribute.index()] {
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
        (Test::Objects(quantified), Value::Objects(span)) => holds_of(quantified, span.of(&event.objects), event),
        (test @ Test::WithinFrequencyCap { .. }, value) => within_frequency_cap(test, value, event),
        _ => false,
    }
}

/// Returns whether any, all or none of `objects` meet the condition, as `quantified` demands.
fn holds_of(quantified: &Quantified<StringId>, objects: &[Object], event: &Event) -> bool {
    // The result that decides early: `all` ends at an object that fails, `any` and `none` at one that passes.
    let decisive = quantified.quantifier != Quantifier::All;
    let mut values = [Value::Undefined; MAX_OBJECT_ATTRIBUTES];
    let is_decided = objects.iter().any(|object| {
        object.values(event).for_each(|(attribute, value)| values[attribute.index()] = value);
        let is_met = quantified.is_met(|predicate| holds_among(predicate, &values, event));
        object.values(event).for_each(|(attribute, _)| values[attribute.index()] = Value::Undefined);
        is_met == decisive
    });
    is_decided == (quantified.quantifier == Quantifier::Any)
}

/// Returns the approximate cost of a condition for `objects` objects, in words of a program.
fn objects_work(quantified: &Quantified<StringId>, objects: usize, event: &Event) -> usize {
    // The strings of all objects together have at most the bytes of the event.
    let bytes = event.bytes.len();
    let of_strings = quantified.predicates().map(|predicate| match &predicate.test {
        Test::Matches(regex) => regex.states().saturating_mul(objects + bytes),
        Test::Like(pattern) => objects.saturating_mul(pattern.len()) + like_work(pattern, bytes),
        Test::Contains(_) | Test::SameString { .. } | Test::Compared(_) => bytes / A_WORD,
        _ => 0,
    });
    of_strings.fold(objects.saturating_mul(quantified.steps().len()), usize::saturating_add)
}

fn is_empty(value: Value) -> bool {
    match value {
        Value::Integers(span)
        | Value::Strings(span)
        | Value::Segments(span)
        | Value::Caps(span)
        | Value::Objects(span) => span.len == 0,
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
            if texts.len() <= constants.len().max(MAX_UNSORTED_STRINGS) {
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

/// The values of an event, or of an object in it, as the numbers of computations.
struct Values<'e> {
    values: &'e [Value],
    event: &'e Event,
}

impl Numbers for Values<'_> {
    fn number(&self, term: Term) -> Option<Number> {
        let Values { values, event } = self;
        match term {
            Term::Integer(integer) => Some(Number::Integer(integer)),
            Term::Float(float) => Some(Number::Float(float.get())),
            Term::Attribute(attribute) => match values[attribute.index()] {
                Value::Integer(integer) => Some(Number::Integer(integer)),
                Value::Float(float) => Some(Number::Float(float)),
                _ => None,
            },
            Term::Size(attribute) => match values[attribute.index()] {
                Value::Integers(span)
                | Value::Strings(span)
                | Value::Segments(span)
                | Value::Caps(span)
                | Value::Objects(span) => Some(Number::Integer(span.len.into())),
                _ => None,
            },
            Term::Length(attribute) => match values[attribute.index()] {
                Value::String(text) => Some(Number::Integer(length(event.text(text)))),
                _ => None,
            },
            Term::Operator(_) => None,
        }
    }
}

/// Returns the approximate cost of a computation, in words of a program.
fn computed_work(comparison: &Comparison, event: &Event) -> usize {
    let of_term = |term| match term {
        Term::Length(attribute) => match event.values[attribute.index()] {
            Value::String(text) => text.bytes.len as usize / A_WORD,
            _ => 0,
        },
        _ => 1,
    };
    comparison.terms().map(of_term).sum()
}

/// Returns whether the lower case of a string passes a test.
fn holds_lowered(test: &Lowered, bytes: &[u8]) -> bool {
    match test {
        Lowered::OneOf(texts) => texts.binary_search_by(|text| text[..].cmp(bytes)).is_ok(),
        Lowered::Contains(part) => memmem::find(bytes, part).is_some(),
        Lowered::StartsWith(part) => bytes.starts_with(part),
        Lowered::EndsWith(part) => bytes.ends_with(part),
        Lowered::Like(pattern) => wildcard::matches(pattern, bytes),
    }
}

/// Returns the approximate cost of matching `len` bytes with a pattern, in words of a program.
fn like_work(pattern: &[u8], len: usize) -> usize {
    // A part with `?` takes a table and some operations for each byte.
    let is_quick = !pattern.contains(&wildcard::ONE);
    if is_quick {
        (pattern.len() + len) / A_WORD
    } else {
        pattern.len() + len + 64
    }
}

fn lowered_work(test: &Lowered, len: usize) -> usize {
    match test {
        Lowered::OneOf(texts) => len / A_WORD * (1 + texts.len().checked_ilog2().unwrap_or(0) as usize),
        Lowered::Contains(part) => (part.len() + len) / A_WORD,
        Lowered::StartsWith(part) | Lowered::EndsWith(part) => part.len() / A_WORD,
        Lowered::Like(pattern) => like_work(pattern, len),
    }
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
