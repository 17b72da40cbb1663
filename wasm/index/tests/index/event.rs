//! Random events round-trip through every format; damaged ones are refused or read.

use be_tree_index::event::{decode, Event, Format, Object, Text, Value};
use be_tree_index::model::address::Address;
use be_tree_index::model::predicate::{CapType, Entity};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::strings::Interner;
use be_tree_index::term::Writer;
use proptest::collection::vec;
use proptest::prelude::*;

/// A value of the test's model.
#[derive(Clone, Debug, PartialEq)]
enum Model {
    Undefined,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    String(String),
    Integers(Vec<i64>),
    Strings(Vec<String>),
    Segments(Vec<(i64, i64)>),
    Caps(Vec<(CapType, i64, String, i64, Option<i64>)>),
    Address(Address),
    /// Objects with an integer and a string. Both may be undefined.
    Objects(Vec<(Option<i64>, Option<String>)>),
}

/// One event: the type of each attribute and its value.
type Attributes = Vec<(Type, Model)>;

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![0..256i64, -1000..1000i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)]
}

fn string() -> impl Strategy<Value = String> {
    const SHORT: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    let short = vec(prop::sample::select(SHORT).prop_map(char::from), 0..25);
    prop_oneof![short, vec(any::<char>(), 0..32)].prop_map(String::from_iter)
}

fn value(ty: Type) -> BoxedStrategy<Model> {
    let entity = (0..Entity::NAMES.len()).prop_map(|i| Entity::NAMES[i].2);
    let cap_type = (entity, any::<bool>()).prop_map(|(entity, by_ip)| CapType { entity, by_ip });
    let cap = (cap_type, integer(), string(), integer(), proptest::option::of(integer()));
    let defined = match ty {
        Type::Boolean => any::<bool>().prop_map(Model::Boolean).boxed(),
        Type::Integer | Type::IntegerEnum | Type::DateTime => integer().prop_map(Model::Integer).boxed(),
        Type::Float => proptest::num::f64::NORMAL.prop_map(Model::Float).boxed(),
        Type::String => string().prop_map(Model::String).boxed(),
        Type::IntegerList => vec(integer(), 0..9).prop_map(Model::Integers).boxed(),
        Type::StringList => vec(string(), 0..9).prop_map(Model::Strings).boxed(),
        Type::Segments => vec((integer(), integer()), 0..5).prop_map(Model::Segments).boxed(),
        Type::FrequencyCaps => vec(cap, 0..5).prop_map(Model::Caps).boxed(),
        Type::ObjectList => {
            let object = (proptest::option::of(integer()), proptest::option::of(string()));
            vec(object, 0..5).prop_map(Model::Objects).boxed()
        }
        Type::Ip => prop_oneof![any::<[u8; 4]>().prop_map(Address::v4), any::<[u8; 16]>().prop_map(Address::v6)]
            .prop_map(Model::Address)
            .boxed(),
    };
    prop_oneof![1 => Just(Model::Undefined), 5 => defined].boxed()
}

fn attributes() -> impl Strategy<Value = Attributes> {
    let attribute = (0..Type::NAMES.len()).prop_flat_map(|i| {
        let ty = Type::NAMES[i].1;
        (Just(ty), value(ty))
    });
    vec(attribute, 0..12)
}

/// The name of the field of the `i`th attribute, which the schema quotes.
fn name(i: usize) -> String {
    format!("attribute {i} é")
}

fn schema(attributes: &Attributes) -> Schema {
    let declare = |(i, (ty, value)): (usize, &(Type, Model))| {
        // An attribute that the event defines may be required.
        let optional = *value == Model::Undefined;
        let own = Attribute { name: format!("`{}`", name(i)), ty: *ty, optional, bounds: Bounds::Unbounded };
        let inner = [("n", Type::Integer), ("in.s", Type::String)].map(|(name, ty)| {
            let name = format!("{}.{name}", own.name);
            Attribute { name, ty, optional: true, bounds: Bounds::Unbounded }
        });
        inner.into_iter().filter(|_| *ty == Type::ObjectList).chain([own.clone()]).collect::<Vec<_>>()
    };
    Schema::new(attributes.iter().enumerate().flat_map(declare).collect()).unwrap()
}

fn write_term(writer: &mut Writer, value: &Model) {
    match value {
        Model::Undefined => writer.atom("nil"),
        Model::Boolean(boolean) => writer.boolean(*boolean),
        Model::Integer(integer) => writer.integer(*integer),
        Model::Float(float) => writer.float(*float),
        Model::String(string) => writer.binary(string.as_bytes()),
        Model::Address(address) => writer.binary(address.to_string().as_bytes()),
        Model::Objects(objects) => {
            writer.list(objects.len());
            for (integer, string) in objects {
                writer.map(2);
                writer.atom("n");
                write_term(writer, &integer.map_or(Model::Undefined, Model::Integer));
                writer.binary(b"in");
                writer.list(1);
                writer.tuple(2);
                writer.binary(b"s");
                write_term(writer, &string.clone().map_or(Model::Undefined, Model::String));
                writer.end_list();
            }
            writer.end_list();
        }
        Model::Integers(integers) => {
            writer.list(integers.len());
            integers.iter().for_each(|integer| writer.integer(*integer));
            writer.end_list();
        }
        Model::Strings(strings) => {
            writer.list(strings.len());
            strings.iter().for_each(|string| writer.binary(string.as_bytes()));
            writer.end_list();
        }
        Model::Segments(segments) => {
            writer.list(segments.len());
            for (id, micros) in segments {
                writer.tuple(2);
                writer.integer(*id);
                writer.integer(*micros);
            }
            writer.end_list();
        }
        Model::Caps(caps) => {
            writer.list(caps.len());
            for (cap, id, namespace, value, micros) in caps {
                writer.tuple(3);
                writer.tuple(3);
                writer.atom(&cap.name());
                writer.integer(*id);
                writer.binary(namespace.as_bytes());
                writer.integer(*value);
                match micros {
                    Some(micros) => writer.integer(*micros),
                    None => writer.atom("undefined"),
                }
            }
            writer.end_list();
        }
    }
}

fn term_map(attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.map(2 * attributes.len());
    for (i, (_, value)) in attributes.iter().enumerate() {
        writer.binary(name(i).as_bytes());
        write_term(&mut writer, value);
        // A name that the schema lacks.
        writer.atom(&format!("attribute {i}"));
        write_term(&mut writer, value);
    }
    bytes
}

fn term_pairs(attributes: &Attributes) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.list(attributes.len());
    for (i, (_, value)) in attributes.iter().enumerate() {
        writer.tuple(2);
        writer.atom(&name(i));
        write_term(&mut writer, value);
    }
    writer.end_list();
    bytes
}

fn record(attributes: &Attributes, is_tuple: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    if is_tuple {
        writer.tuple(attributes.len());
    } else {
        writer.list(attributes.len());
    }
    for (_, value) in attributes {
        write_term(&mut writer, value);
    }
    if !is_tuple {
        writer.end_list();
    }
    bytes
}

/// Writes a JSON string, with every possible escape or with only the necessary ones.
fn json_string(string: &str, escape_all: bool) -> String {
    let mut out = String::from('"');
    for character in string.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            _ if escape_all || character < ' ' => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => out.push(character),
        }
    }
    out + "\""
}

fn json_value(value: &Model, escape_all: bool) -> String {
    let array = |elements: Vec<String>| format!("[{}]", elements.join(" , "));
    let string = |string: &String| json_string(string, escape_all);
    match value {
        Model::Undefined => "null".into(),
        Model::Boolean(boolean) => boolean.to_string(),
        Model::Integer(integer) => integer.to_string(),
        Model::Float(float) => format!("{float:e}"),
        Model::String(text) => string(text),
        Model::Integers(integers) => array(integers.iter().map(i64::to_string).collect()),
        Model::Strings(strings) => array(strings.iter().map(string).collect()),
        Model::Segments(segments) => array(segments.iter().map(|(id, micros)| format!("[{id},{micros}]")).collect()),
        Model::Caps(caps) => {
            let cap = |(cap, id, namespace, value, micros): &(CapType, i64, String, i64, Option<i64>)| {
                let micros = micros.map_or("null".into(), |micros| micros.to_string());
                format!("[[\"{}\",{id},{}],{value},{micros}]", cap.name(), string(namespace))
            };
            array(caps.iter().map(cap).collect())
        }
        Model::Objects(objects) => {
            let object = |(integer, text): &(Option<i64>, Option<String>)| {
                let integer = integer.map_or("null".into(), |integer| integer.to_string());
                let text = text.as_ref().map_or("null".into(), string);
                format!("{{\"in\":{{\"s\":{text}}},\"n\":{integer}}}")
            };
            array(objects.iter().map(object).collect())
        }
        Model::Address(address) => string(&address.to_string()),
    }
}

fn json(attributes: &Attributes, escape_all: bool) -> Vec<u8> {
    let pairs = attributes.iter().enumerate().flat_map(|(i, (_, value))| {
        let value = json_value(value, escape_all);
        // A name that the schema lacks.
        let unknown = format!("\n\"{i}\" : {{\"x\":{value}}}");
        [format!("{}:{value}", json_string(&name(i), escape_all)), unknown]
    });
    format!(" {{{}}}\n", pairs.collect::<Vec<_>>().join(",")).into_bytes()
}

/// The values of `event`; panics where a span lies outside of its table.
fn read_back(event: &Event) -> Vec<Model> {
    let text = |text: &Text| String::from_utf8_lossy(event.text(*text)).into_owned();
    let read = |value: &Value| match value {
        Value::Undefined | Value::Patterns | Value::Unfit(_) => Model::Undefined,
        Value::Boolean(boolean) => Model::Boolean(*boolean),
        Value::Integer(integer) => Model::Integer(*integer),
        Value::Float(float) => Model::Float(*float),
        Value::String(string) => Model::String(text(string)),
        Value::Integers(span) => Model::Integers(span.of(&event.integers).into()),
        Value::Strings(span) => Model::Strings(span.of(&event.strings).iter().map(text).collect()),
        Value::Segments(span) => {
            Model::Segments(span.of(&event.segments).iter().map(|segment| (segment.id, segment.micros)).collect())
        }
        Value::Caps(span) => {
            let caps = span.of(&event.caps).iter();
            Model::Caps(caps.map(|c| (c.cap, c.id, text(&c.namespace), c.value, c.micros)).collect())
        }
        Value::Objects(span) => {
            let object = |object: &Object| {
                let mut read = (None, None);
                for (_, value) in object.values(event) {
                    match value {
                        Value::Integer(integer) => read.0 = Some(integer),
                        Value::String(string) => read.1 = Some(text(&string)),
                        other => panic!("{other:?} is in an object"),
                    }
                }
                read
            };
            Model::Objects(span.of(&event.objects).iter().map(object).collect())
        }
        Value::Address(position) => Model::Address(event.addresses[*position as usize]),
    };
    event.values.iter().map(read).collect()
}

/// Returns the values that reading must return: integer lists become sorted sets.
fn expected(attributes: &Attributes) -> Vec<Model> {
    let mut values: Vec<_> = attributes.iter().map(|(_, value)| value.clone()).collect();
    for value in &mut values {
        if let Model::Integers(integers) = value {
            integers.sort();
            integers.dedup();
        }
    }
    values
}

fn encodings(attributes: &Attributes) -> [(Format, Vec<u8>); 6] {
    [
        (Format::Term, term_map(attributes)),
        (Format::Term, term_pairs(attributes)),
        (Format::Record, record(attributes, false)),
        (Format::Record, record(attributes, true)),
        (Format::Json, json(attributes, false)),
        (Format::Json, json(attributes, true)),
    ]
}

proptest! {
    #[test]
    fn every_format_decodes_to_the_same_event(attributes in attributes()) {
        let mut event = Event::default();
        for (format, bytes) in encodings(&attributes) {
            decode(format, &bytes, &schema(&attributes), &Interner::default(), &mut event).unwrap();
            prop_assert_eq!(read_back(&event), expected(&attributes), "{:?}", format);
        }
    }

    #[test]
    fn a_truncated_event_is_refused(attributes in attributes(), share in 0.0..1.0) {
        let mut event = Event::default();
        for (format, bytes) in encodings(&attributes) {
            let whole = bytes.trim_ascii_end();
            let cut = &whole[..(whole.len() as f64 * share) as usize];
            let result = decode(format, cut, &schema(&attributes), &Interner::default(), &mut event);
            prop_assert!(result.is_err(), "{:?}", format);
        }
    }

    #[test]
    fn a_damaged_event_is_read_or_refused(
        attributes in attributes(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
    ) {
        let mut event = Event::default();
        for (format, mut bytes) in encodings(&attributes) {
            for (index, byte) in &damage {
                let index = index.index(bytes.len());
                bytes[index] = *byte;
            }
            if decode(format, &bytes, &schema(&attributes), &Interner::default(), &mut event).is_ok() {
                prop_assert_eq!(read_back(&event).len(), attributes.len());
            }
        }
    }
}
