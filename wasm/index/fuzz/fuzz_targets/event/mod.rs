//! What the targets that read events share.

use std::sync::OnceLock;

use be_tree_index::error::Error;
use be_tree_index::event::{decode, Event, Format, Text, Value};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::strings::{Interner, StringId};

/// Decodes `bytes` over a schema with attributes of each type, and checks what comes out: one named by the type, a field of that
/// name in the maps `m` and `m.n`, one that converts in the map `c`, and two of the objects of a list.
pub fn check(format: Format, bytes: &[u8]) -> Result<(&'static Schema, Event), Error> {
    static INDEX: OnceLock<(Schema, Interner)> = OnceLock::new();
    let (schema, strings) = INDEX.get_or_init(|| {
        let maps = ["", "m.", "m.`n`.", "c."];
        let attributes = maps.iter().flat_map(|map| {
            Type::NAMES.map(|(name, ty)| Attribute {
                name: format!("{map}{name}"),
                ty,
                optional: !map.is_empty() || ty != Type::Boolean,
                bounds: Bounds::Unbounded,
            })
        });
        let of_objects = [("integer", Type::Integer), ("strings", Type::StringList)].map(|(name, ty)| Attribute {
            name: format!("object_list.{name}"),
            ty,
            optional: true,
            bounds: Bounds::Unbounded,
        });
        let mut schema = Schema::new(attributes.chain(of_objects).collect()).expect("the schema is sound");
        for (name, _) in Type::NAMES {
            // Some types are refused.
            let _ = schema.convert(&format!("c.{name}"));
        }
        let mut strings = Interner::default();
        for string in ["", "a", "CA", "ns"] {
            strings.retain(string.as_bytes());
        }
        (schema, strings)
    });
    let mut event = Event::default();
    decode(format, bytes, schema, strings, &mut event)?;
    let check_text = |text: &Text| {
        assert_eq!(text.id, strings.find(event.text(*text)).unwrap_or(StringId::UNKNOWN));
    };
    for (attribute, value) in schema.attributes().iter().zip(&event.values) {
        match (attribute.ty, value) {
            (_, Value::Undefined) => assert!(attribute.optional),
            (Type::Boolean, Value::Boolean(_)) => {}
            (Type::Integer | Type::IntegerEnum | Type::DateTime, Value::Integer(_)) => {}
            (Type::Ip, Value::Address(position)) => assert!((*position as usize) < event.addresses.len()),
            (Type::Float, Value::Float(float)) => assert!(float.is_finite()),
            (Type::String, Value::String(text)) => check_text(text),
            (Type::IntegerList, Value::Integers(span)) => {
                assert!(span.of(&event.integers).is_sorted_by(|a, b| a < b));
            }
            (Type::StringList, Value::Strings(span)) => span.of(&event.strings).iter().for_each(check_text),
            (Type::Segments, Value::Segments(span)) => assert!(span.of(&event.segments).len() <= bytes.len()),
            (Type::FrequencyCaps, Value::Caps(span)) => {
                span.of(&event.caps).iter().for_each(|cap| check_text(&cap.namespace));
            }
            (Type::ObjectList, Value::Objects(span)) => assert!(span.of(&event.objects).len() <= bytes.len()),
            (ty, value) => panic!("{value:?} is no {}", ty.name()),
        }
    }
    Ok((schema, event))
}
