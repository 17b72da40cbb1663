//! Prepared events that were not written by this library: errors, or events whose values fit their attributes.

use be_tree_index::event::{decode, Event, Format, Value};
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::strings::Interner;
use be_tree_index::search::Search;

fn schema(is_optional: bool) -> Schema {
    let attribute = |&(name, ty): &(&str, Type)| Attribute {
        name: name.to_owned(),
        ty,
        optional: is_optional,
        bounds: Bounds::Unbounded,
    };
    let inner = [("object_list.n", Type::Integer), ("object_list.l", Type::StringList)];
    let inner = inner.iter().map(|inner| Attribute { optional: true, ..attribute(inner) });
    Schema::new(Type::NAMES.iter().map(attribute).chain(inner).collect()).unwrap()
}

fn prepare(json: &str) -> Vec<u8> {
    let index = Index::new(schema(true));
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    let mut out = Vec::new();
    search.prepare(&index, Format::Json, json.as_bytes(), &mut out).unwrap();
    out
}

fn read(bytes: &[u8]) -> Option<Event> {
    let mut event = Event::default();
    decode(Format::Prepared, bytes, &schema(true), &Interner::default(), &mut event).ok().map(|()| event)
}

fn fits(ty: Type, value: Value, event: &Event) -> bool {
    match (ty, value) {
        (_, Value::Undefined)
        | (Type::Boolean, Value::Boolean(_))
        | (Type::Integer | Type::IntegerEnum, Value::Integer(_))
        | (Type::String, Value::String(_))
        | (Type::StringList, Value::Strings(_))
        | (Type::Segments, Value::Segments(_))
        | (Type::FrequencyCaps, Value::Caps(_))
        | (Type::Ip, Value::Address(_))
        | (Type::DateTime, Value::Integer(_)) => true,
        (Type::ObjectList, Value::Objects(span)) => span.of(&event.objects).iter().all(|object| {
            object.values(event).all(|(attribute, value)| match attribute.index() {
                0 => fits(Type::Integer, value, event),
                _ => fits(Type::StringList, value, event),
            })
        }),
        (Type::Float, Value::Float(float)) => float.is_finite(),
        (Type::IntegerList, Value::Integers(span)) => span.of(&event.integers).is_sorted_by(|a, b| a < b),
        _ => false,
    }
}

const EVENT: &str = r#"{"boolean": true, "integer": 7, "float": 1.5, "string": "abc", "integer_enum": 3,
    "integer_list": [1, 2, 3], "string_list": ["a", "b"], "segments": [[1, 2]],
    "frequency_caps": [[["flight", 10, "ns"], 100, null]], "ip": "10.0.0.1", "datetime": "2026-01-31",
    "object_list": [{"n": 7, "l": ["a"]}, {}]}"#;

#[test]
fn values_of_other_types_are_refused() {
    let empty = prepare("{}");
    // Each value with its code, and the attribute that it was prepared for.
    let values: Vec<(u32, Vec<u8>)> = [
        r#"{"boolean": true}"#,
        r#"{"integer": 7}"#,
        r#"{"float": 1.5}"#,
        r#"{"string": "abc"}"#,
        r#"{"integer_list": [1, 2]}"#,
        r#"{"string_list": ["a"]}"#,
        r#"{"segments": [[1, 2]]}"#,
        r#"{"frequency_caps": [[["flight", 10, "ns"], 100, null]]}"#,
        r#"{"ip": "2001:db8::1"}"#,
    ]
    .iter()
    .map(|json| {
        let prepared = prepare(json);
        let (head, value) = prepared[empty.len()..].split_first_chunk::<4>().unwrap();
        (u32::from_le_bytes(*head) & 15, value.to_vec())
    })
    .collect();
    let mut fitting = 0;
    for attribute in 0..Type::NAMES.len() as u32 {
        for (code, value) in &values {
            let hostile = [&empty[..], &(attribute << 4 | code).to_le_bytes(), value].concat();
            if let Some(event) = read(&hostile) {
                fitting += 1;
                let value = event.values[attribute as usize];
                assert!(fits(Type::NAMES[attribute as usize].1, value, &event), "{value:?}");
            }
        }
    }
    // An integer fits three types, every other value one.
    assert_eq!(fitting, values.len() + 2);
}

#[test]
fn values_that_no_search_can_use_are_refused() {
    let place = |name: &str| Type::NAMES.iter().position(|(known, _)| *known == name).unwrap() as u32;
    let write = |name: &str, code: u32, value: &[u8]| {
        [&prepare("{}")[..], &(place(name) << 4 | code).to_le_bytes(), value].concat()
    };
    let floats = |float: f64| write("float", 3, &float.to_le_bytes());
    let minus_zero = read(&floats(-0.0)).unwrap().values[place("float") as usize];
    assert!(matches!(minus_zero, Value::Float(zero) if zero.is_sign_positive()));
    for float in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(read(&floats(float)), None);
    }
    let integers = |integers: &[i64]| {
        let count = (integers.len() as u32).to_le_bytes();
        let bytes: Vec<u8> =
            count.into_iter().chain(integers.iter().flat_map(|integer| integer.to_le_bytes())).collect();
        read(&write("integer_list", 5, &bytes))
    };
    assert!(integers(&[1, 2]).is_some());
    assert_eq!(integers(&[2, 1]), None);
    assert_eq!(integers(&[1, 1]), None);
    // Two objects: one is truncated, one has an attribute that does not exist.
    let objects = |words: &[u32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        read(&write("object_list", 10, &bytes))
    };
    assert!(objects(&[2, 0, 0]).is_some());
    assert_eq!(objects(&[2, 0]), None);
    assert_eq!(objects(&[1, 1, 2]), None);
    // An attribute twice, and an attribute that does not exist.
    let one = write("boolean", 1, &[]);
    assert!(read(&one).is_some());
    assert_eq!(read(&[&one[..], &one[one.len() - 4..]].concat()), None);
    assert_eq!(read(&[&prepare("{}")[..], &(99_u32 << 4).to_le_bytes()].concat()), None);
}

#[test]
fn an_event_that_lacks_a_required_attribute_is_refused() {
    let required = schema(false);
    let mut search = Search::default();
    let index = Index::new(schema(false));
    search.reserve(&index).unwrap();
    let mut whole = Vec::new();
    search.prepare(&index, Format::Json, EVENT.as_bytes(), &mut whole).unwrap();
    let read = |bytes: &[u8]| decode(Format::Prepared, bytes, &required, &Interner::default(), &mut Event::default());
    assert_eq!(read(&whole), Ok(()));
    assert!(read(&whole[..8]).is_err());
}

#[test]
fn a_damaged_prepared_event_has_no_value_of_another_type() {
    let whole = prepare(EVENT);
    assert!(read(&whole).is_some());
    let mut is_read = 0;
    for place in 0..whole.len() {
        for bit in 0..8 {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            if let Some(event) = read(&damaged) {
                is_read += 1;
                for (&value, (_, ty)) in event.values.iter().zip(Type::NAMES) {
                    assert!(fits(ty, value, &event), "byte {place}, bit {bit}: {value:?}");
                }
            }
        }
    }
    assert!(is_read > 100);
}
