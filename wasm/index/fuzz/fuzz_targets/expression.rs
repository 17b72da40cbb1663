//! Whatever the bytes: an expression or an error. What was read is read again, equal, from its canonical text.

#![no_main]

use std::sync::OnceLock;

use be_tree_index::language;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use libfuzzer_sys::fuzz_target;

const CONSTANTS: [(&[u8], i64); 5] =
    [(b"flight_id", 10), (b"advertiser_id", 20), (b"campaign_id", 30), (b"campaign_group_id", 40), (b"product_id", 50)];

fn schema() -> Schema {
    let attribute = |name: &str, ty, bounds| Attribute { name: name.into(), ty, optional: true, bounds };
    let declared = [
        attribute("b", Type::Boolean, Bounds::Unbounded),
        attribute("i", Type::Integer, Bounds::Unbounded),
        attribute("ib", Type::Integer, Bounds::Integer { min: -9, max: 9 }),
        attribute("f", Type::Float, Bounds::Unbounded),
        attribute("fb", Type::Float, Bounds::Float { min: -1.5, max: 1.5 }),
        attribute("s", Type::String, Bounds::Unbounded),
        attribute("ie", Type::IntegerEnum, Bounds::Count(3)),
        attribute("il", Type::IntegerList, Bounds::Integer { min: 0, max: 99 }),
        attribute("sl", Type::StringList, Bounds::Unbounded),
        attribute("seg-1", Type::Segments, Bounds::Unbounded),
        attribute("segments_with_timestamp", Type::Segments, Bounds::Unbounded),
        attribute("frequency_caps", Type::FrequencyCaps, Bounds::Unbounded),
        attribute("latitude", Type::Float, Bounds::Unbounded),
        attribute("longitude", Type::Float, Bounds::Unbounded),
        attribute("now", Type::Integer, Bounds::Unbounded),
        attribute("ip", Type::Ip, Bounds::Unbounded),
        attribute("at", Type::DateTime, Bounds::Unbounded),
        attribute("u.v.i", Type::Integer, Bounds::Unbounded),
        attribute("u.`a b`", Type::String, Bounds::Unbounded),
        attribute("`not`", Type::Boolean, Bounds::Unbounded),
    ];
    Schema::new(declared.into()).expect("the schema is sound")
}

fuzz_target!(|text: &[u8]| {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    let schema = SCHEMA.get_or_init(schema);
    let steps = match language::read(text, schema, &CONSTANTS) {
        Ok(steps) => steps,
        Err(error) => {
            assert!(error.column.is_some(), "{error} has no column");
            return;
        }
    };
    let printed = language::expression_text(&steps, schema, |text| text);
    let again = language::read(printed.as_bytes(), schema, &CONSTANTS);
    assert_eq!(again.as_ref(), Ok(&steps), "printed as {printed}");
});
