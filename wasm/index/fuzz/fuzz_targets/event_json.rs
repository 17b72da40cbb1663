//! Whatever the bytes: an event or an error that says where. What is JSON is decided as serde_json decides it.

#![no_main]

mod event;

use be_tree_index::error::Kind;
use be_tree_index::event::{decode, Event, Format};
use be_tree_index::model::schema::Schema;
use be_tree_index::model::strings::Interner;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Err(error) = event::check(Format::Json, bytes) {
        assert_eq!(error.column.is_none(), error.kind == Kind::MissingAttribute, "{error}");
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
