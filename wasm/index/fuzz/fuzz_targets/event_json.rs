//! Whatever the bytes: an event or an error that says where. What is JSON is decided as serde_json decides it.

#![no_main]

mod event;

use be_tree_index::error::Kind;
use be_tree_index::event::{decode, Event, Format, Value};
use be_tree_index::model::path;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::model::strings::Interner;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match event::check(Format::Json, bytes) {
        Err(error) => assert_eq!(error.column.is_none(), error.kind == Kind::MissingAttribute, "{error}"),
        Ok((schema, event)) => {
            if let Ok(value) = serde_json::from_slice(bytes) {
                same_integers(&value, schema, &event);
            }
        }
    }
    let passed_over = decode(Format::Json, bytes, &Schema::default(), &Interner::default(), &mut Event::default());
    match (serde_json::from_slice::<serde_json::Value>(bytes), passed_over) {
        (Ok(value), Ok(())) => assert!(value.is_object()),
        (Ok(value), Err(error)) => assert!(!value.is_object() && error.kind == Kind::Type, "{error}"),
        // It alone limits nesting, and numbers that are passed over.
        (Err(reason), Ok(())) => {
            let reason = reason.to_string();
            assert!(reason.contains("recursion limit") || reason.contains("number out of range"), "{reason}");
        }
        (Err(_), Err(_)) => {}
    }
});

/// Checks the integers in all maps against the object that serde_json reads: of two members of one name the last counts.
fn same_integers(object: &serde_json::Value, schema: &Schema, event: &Event) {
    for (attribute, value) in schema.attributes().iter().zip(&event.values) {
        let fields = path::fields(&attribute.name).expect("a name is a path");
        let given = fields.iter().try_fold(object, |map, name| map.get(&**name)).filter(|given| !given.is_null());
        match (attribute.ty, value) {
            (Type::Integer, Value::Integer(integer)) if fields[0] != "c" => {
                assert_eq!(given.and_then(|given| given.as_i64()), Some(*integer), "{}", attribute.name);
            }
            (Type::Integer, Value::Undefined) => assert_eq!(given, None, "{}", attribute.name),
            // Converted.
            (Type::Integer, _) => assert!(given.is_some_and(|given| given.is_number() || given.is_string())),
            _ => {}
        }
    }
}
