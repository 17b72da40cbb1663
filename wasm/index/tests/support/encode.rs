//! Encoders of events, the other side of the decoders: in every form that the ABI allows, chosen at random.

use be_tree_index::model::path::fields;
use be_tree_index::model::schema::{Attribute, Schema, Type};

use super::generate;
use super::naive::{NaiveCap, NaiveEvent, NaiveValue};
use super::random::Random;

/// The members of a map, in any order: encoded values, and maps.
type Members = Vec<(String, Member)>;

enum Member {
    Value(Vec<u8>),
    Map(Members),
}

/// Adds a value at the end of `path`, and the maps on the way.
fn add(members: &mut Members, path: &[std::borrow::Cow<str>], value: Vec<u8>) {
    match path {
        [name] => members.push((name.to_string(), Member::Value(value))),
        [name, rest @ ..] => {
            let known = members.iter().position(|(known, _)| known == name);
            let at = known.unwrap_or_else(|| {
                members.push((name.to_string(), Member::Map(Vec::new())));
                members.len() - 1
            });
            match &mut members[at].1 {
                Member::Map(inner) => add(inner, rest, value),
                Member::Value(_) => panic!("a value has no fields"),
            }
        }
        [] => panic!("a path is not empty"),
    }
}

/// The event as an Erlang external term: a map, or a list of pairs, from names to values (format 0).
pub fn term_by_name(random: &mut Random, schema: &Schema, event: &NaiveEvent) -> Vec<u8> {
    versioned(named_term(random, schema, event))
}

fn named_term(random: &mut Random, schema: &Schema, event: &NaiveEvent) -> Vec<u8> {
    let mut members = Vec::new();
    for (attribute, value) in schema.attributes().iter().zip(event) {
        let path = fields(&attribute.name).expect("a name is a path");
        if let Some(NaiveValue::Unfit(Some(len))) = value {
            let value = random.pick(&unfit_maps_in_terms());
            add_once(&mut members, &path[..*len], value);
        } else if value.is_some() || random.chance(50) {
            let value = attribute_term(random, schema, attribute, value.as_ref());
            add(&mut members, &path, value);
        }
    }
    members_term(random, members)
}

/// Adds a value in place of the map at the end of `path`, unless it is there.
fn add_once(members: &mut Members, path: &[std::borrow::Cow<str>], value: Vec<u8>) {
    let known = members.iter_mut().find(|(name, _)| *name == path[0]);
    match (known, path) {
        (Some((_, Member::Map(inner))), [_, rest @ ..]) => add_once(inner, rest, value),
        (Some((_, Member::Value(_))), [_]) => {}
        (None, _) => add(members, path, value),
        (Some(_), _) => panic!("a value has no fields"),
    }
}

/// Terms that are neither maps nor undefined.
fn unfit_maps_in_terms() -> Vec<Vec<u8>> {
    let pair = |value| tuple_term(vec![atom_term(b"x"), value]);
    let improper = [&[108, 0, 0, 0, 1][..], &pair(integer_term(1)), &integer_term(2)].concat();
    let number_as_name = tuple_term(vec![integer_term(1), list_of(vec![])]);
    let in_front = pair(list_of(vec![pair(integer_term(3))]));
    vec![
        integer_term(5),
        binary_term(b"text"),
        atom_term(b"atom"),
        tuple_term(vec![]),
        list_of(vec![in_front.clone(), integer_term(1), in_front.clone()]),
        list_of(vec![in_front, number_as_name]),
        improper,
        map_term(vec![(atom_term(b"x"), integer_term(1)), (integer_term(1), integer_term(2))]),
        // A string term.
        [&[107, 0, 2][..], b"ab"].concat(),
    ]
}

/// The types that a value fits, and the value.
type Candidate = (Vec<u8>, &'static [Type]);

/// Returns a term that does not fit attributes of type `ty`.
fn unfit_term(random: &mut Random, ty: Type) -> Vec<u8> {
    use Type::*;
    const LISTS: &[Type] = &[IntegerList, StringList, Segments, FrequencyCaps, ObjectList];
    let improper = [&[108, 0, 0, 0, 1][..], &integer_term(1), &integer_term(2)].concat();
    let candidates: Vec<Candidate> = vec![
        (integer_term(5), &[Integer, IntegerEnum, DateTime, Float]),
        // 2^70
        ([&[110, 9, 0][..], &[0; 8], &[64]].concat(), &[]),
        (float_term(0.5), &[Float]),
        (float_term(f64::NAN), &[]),
        (atom_term(b"true"), &[Boolean]),
        (atom_term(b"x"), &[String]),
        (binary_term(b""), &[String]),
        (binary_term(b"10.0.0.256"), &[String]),
        (binary_term(b"2026-13-01"), &[String]),
        (tuple_term(vec![integer_term(1)]), &[]),
        (tuple_term(vec![integer_term(256); 4]), &[]),
        (list_of(vec![]), LISTS),
        (list_of(vec![integer_term(1)]), &[IntegerList]),
        (list_of(vec![integer_term(1), atom_term(b"nil")]), &[]),
        (list_of(vec![binary_term(b"a"), atom_term(b"undefined"), binary_term(b"b")]), &[]),
        (list_of(vec![binary_term(b"a"), integer_term(1)]), &[]),
        (list_of(vec![list_of(vec![integer_term(1)])]), &[]),
        (list_of(vec![tuple_term(vec![integer_term(1), binary_term(b"x")])]), &[]),
        (improper, &[]),
        ([&[107, 0, 2][..], b"ab"].concat(), &[IntegerList]),
        (map_term(vec![]), &[]),
        (map_term(vec![(integer_term(1), integer_term(2))]), &[]),
    ];
    unfit(random, candidates, ty)
}

/// Returns a text of JSON that does not fit attributes of type `ty`.
fn unfit_json(random: &mut Random, ty: Type) -> std::string::String {
    use Type::*;
    const LISTS: &[Type] = &[IntegerList, StringList, Segments, FrequencyCaps, ObjectList];
    let candidates: [(&str, &'static [Type]); 18] = [
        ("5", &[Integer, IntegerEnum, DateTime, Float]),
        ("99999999999999999999", &[Float]),
        ("1e999", &[]),
        ("0.5", &[Float]),
        ("true", &[Boolean]),
        ("\"\"", &[String]),
        ("\"x\\u00e9\"", &[String]),
        ("\"2026-13-01\"", &[String]),
        ("[]", LISTS),
        ("[1]", &[IntegerList]),
        ("[null]", &[]),
        ("[1, null]", &[]),
        ("[\"a\", null, \"b\"]", &[]),
        ("[\"a\", 1]", &[]),
        ("[[1, 2, 3]]", &[]),
        ("{}", &[]),
        ("{\"a\": [1, {}]}", &[]),
        ("[{\"a\": 1}, 7]", &[]),
    ];
    let candidates = candidates.map(|(text, types)| (text.as_bytes().to_vec(), types)).into();
    std::string::String::from_utf8(unfit(random, candidates, ty)).expect("JSON is UTF-8")
}

fn unfit(random: &mut Random, candidates: Vec<Candidate>, ty: Type) -> Vec<u8> {
    let unfit: Vec<_> = candidates.into_iter().filter(|(_, types)| !types.contains(&ty)).collect();
    random.pick(&unfit).0
}

/// LIST_EXT or NIL_EXT
fn list_of(elements: Vec<Vec<u8>>) -> Vec<u8> {
    if elements.is_empty() {
        return vec![106];
    }
    [&[108], &(elements.len() as u32).to_be_bytes()[..], &elements.concat(), &[106]].concat()
}

/// The value of an attribute, or undefined.
fn attribute_term(random: &mut Random, schema: &Schema, attribute: &Attribute, value: Option<&NaiveValue>) -> Vec<u8> {
    if let Some(NaiveValue::Unfit(_)) = value {
        return unfit_term(random, attribute.ty);
    }
    let Some(NaiveValue::Objects(objects)) = value else { return optional_term(random, value, value_term) };
    let inner = schema.objects(schema.find(attribute.name.as_bytes()).expect("it is in the schema"));
    let objects = objects.iter().map(|object| named_term(random, inner, object)).collect();
    list_term(random, objects)
}

fn members_term(random: &mut Random, mut members: Members) -> Vec<u8> {
    if random.chance(30) {
        let value = list_term(random, vec![float_term(0.5), atom_term(b"x")]);
        members.push(("no attribute".into(), Member::Value(value)));
    }
    random.shuffle(&mut members);
    let mut pairs = Vec::new();
    let mut later = Vec::new();
    let as_map = random.chance(60);
    for (name, member) in members {
        let value = match member {
            Member::Value(value) => value,
            Member::Map(inner) => {
                // The first map of a name counts. In a map a name may come as an atom and as a binary.
                if !as_map && random.chance(20) {
                    pairs.push((name_term(random, name.as_bytes()), atom_term(b"nil")));
                }
                if !as_map && random.chance(20) {
                    later.push((name_term(random, name.as_bytes()), integer_term(7)));
                }
                members_term(random, inner)
            }
        };
        pairs.push((name_term(random, name.as_bytes()), value));
    }
    pairs.extend(later);
    match as_map {
        true => map_term(pairs),
        false => {
            let pairs = pairs.into_iter().map(|(name, value)| tuple_term(vec![name, value])).collect();
            list_term(random, pairs)
        }
    }
}

/// The event as an Erlang external term: a list or a tuple of values in the order of the schema (format 2).
pub fn term_by_position(random: &mut Random, schema: &Schema, event: &NaiveEvent) -> Vec<u8> {
    assert_eq!(schema.len(), event.len());
    let values = schema.attributes().iter().zip(event).map(|(attribute, value)| match value {
        Some(NaiveValue::Boolean(value)) if random.chance(30) => integer_term(i64::from(*value)),
        value => attribute_term(random, schema, attribute, value.as_ref()),
    });
    let values = values.collect();
    versioned(match random.chance(50) {
        true => list_term(random, values),
        false => tuple_term(values),
    })
}

/// The event as a JSON object (format 1).
pub fn json(random: &mut Random, schema: &Schema, event: &NaiveEvent) -> String {
    let object = named_json(random, schema, event);
    format!("{0}{object}{0}", space(random))
}

fn named_json(random: &mut Random, schema: &Schema, event: &NaiveEvent) -> String {
    let mut members = Vec::new();
    for (attribute, value) in schema.attributes().iter().zip(event) {
        let path = fields(&attribute.name).expect("a name is a path");
        let value = match value {
            Some(NaiveValue::Unfit(Some(len))) => {
                let value = random.pick(&["7", "\"text\"", "[]", "[{}]", "true"]);
                add_once(&mut members, &path[..*len], value.into());
                continue;
            }
            Some(NaiveValue::Unfit(None)) => unfit_json(random, attribute.ty),
            Some(NaiveValue::Objects(objects)) => {
                let inner = schema.objects(schema.find(attribute.name.as_bytes()).expect("it is in the schema"));
                let objects = objects.iter().map(|object| named_json(random, inner, object)).collect();
                json_array(random, objects)
            }
            Some(value) => json_value(random, value),
            None if random.chance(50) => "null".into(),
            None => continue,
        };
        add(&mut members, &path, value.into_bytes());
    }
    let decoys = |random: &mut Random, name: &str| decoy(random, schema, name);
    members_json(random, members, &decoys)
}

/// Another object for the field `name` of the event, with values for some of the attributes in it. It comes before the
/// event's own, which replaces it.
fn decoy(random: &mut Random, schema: &Schema, name: &str) -> String {
    let mut members = Vec::new();
    for attribute in schema.attributes() {
        let path = fields(&attribute.name).expect("a name is a path");
        if path[0] == name && random.chance(70) {
            let value = generate::value(random, attribute.ty, 10);
            add(&mut members, &path[1..], json_value(random, &value).into_bytes());
        }
    }
    members_json(random, members, &|_, _| "null".into())
}

fn members_json(random: &mut Random, members: Members, decoys: &dyn Fn(&mut Random, &str) -> String) -> String {
    let mut texts = Vec::new();
    for (name, member) in members {
        let value = match member {
            Member::Value(value) => {
                let value = String::from_utf8(value).expect("JSON is UTF-8");
                // An earlier value of the name does not count, whether it fits or not.
                if random.chance(10) {
                    let earlier =
                        random.pick(&["true", "\"\"", "{\"a\": [1]}", "[null, 2]", "1e999", "[{}, 3]", "null"]);
                    texts.push(vec![(name.clone(), earlier.into()), (name, value)]);
                    continue;
                }
                value
            }
            Member::Map(inner) => {
                // In the objects of an object nothing but `null` comes before.
                let object = members_json(random, inner, &|_, _| "null".into());
                if random.chance(30) {
                    let decoy = decoys(random, &name);
                    texts.push(vec![(name.clone(), decoy), (name, object)]);
                    continue;
                }
                object
            }
        };
        texts.push(vec![(name, value)]);
    }
    if random.chance(30) {
        let value = r#"{"a": [1, -2.5e+3, {}, []], "\u0041\"": null}"#;
        texts.push(vec![("no attribute".into(), value.into())]);
    }
    random.shuffle(&mut texts);
    let texts = texts.into_iter().flatten();
    let texts: Vec<String> =
        texts.map(|(name, value)| format!("{}{}:{value}", json_string(random, &name), space(random))).collect();
    let inner = texts.join(&format!("{},{}", space(random), space(random)));
    format!("{{{0}{inner}{0}}}", space(random))
}

fn versioned(term: Vec<u8>) -> Vec<u8> {
    [&[131], &term[..]].concat()
}

fn optional_term<T>(random: &mut Random, value: Option<T>, term: impl FnOnce(&mut Random, T) -> Vec<u8>) -> Vec<u8> {
    match value {
        Some(value) => term(random, value),
        None => atom_term(random.pick(&[&b"nil"[..], b"undefined"])),
    }
}

fn value_term(random: &mut Random, value: &NaiveValue) -> Vec<u8> {
    match value {
        NaiveValue::Boolean(value) => atom_term(if *value { b"true" } else { b"false" }),
        NaiveValue::Integer(value) => integer_term(*value),
        NaiveValue::Float(value) if is_short_integer(*value) && random.chance(50) => integer_term(*value as i64),
        NaiveValue::Float(value) => float_term(*value),
        NaiveValue::String(value) => string_term(random, value),
        NaiveValue::Integers(values) => integers_term(random, values),
        NaiveValue::Strings(values) => {
            let terms = values.iter().map(|value| string_term(random, value)).collect();
            list_term(random, terms)
        }
        NaiveValue::Segments(segments) => {
            let pair = |&(id, micros): &(i64, i64)| tuple_term(vec![integer_term(id), integer_term(micros)]);
            list_term(random, segments.iter().map(pair).collect())
        }
        NaiveValue::Caps(caps) => {
            let terms = caps.iter().map(|cap| cap_term(random, cap)).collect();
            list_term(random, terms)
        }
        NaiveValue::Objects(_) => panic!("objects have names, which a schema tells"),
        NaiveValue::Unfit(_) => panic!("what does not fit depends on the attribute"),
        NaiveValue::Address(bytes) if random.chance(50) => string_term(random, address_text(bytes).as_bytes()),
        // As `:inet` has it: a tuple of 4 bytes, or of 8 pairs of bytes.
        NaiveValue::Address(bytes) if bytes.len() == 4 => {
            tuple_term(bytes.iter().map(|&byte| integer_term(byte.into())).collect())
        }
        NaiveValue::Address(bytes) => {
            let pair = |pair: &[u8]| integer_term(i64::from(pair[0]) << 8 | i64::from(pair[1]));
            tuple_term(bytes.chunks(2).map(pair).collect())
        }
    }
}

fn address_text(bytes: &[u8]) -> String {
    match <[u8; 4]>::try_from(bytes) {
        Ok(v4) => std::net::Ipv4Addr::from(v4).to_string(),
        Err(_) => {
            std::net::Ipv6Addr::from(<[u8; 16]>::try_from(bytes).expect("an address has 4 or 16 bytes")).to_string()
        }
    }
}

fn cap_term(random: &mut Random, cap: &NaiveCap) -> Vec<u8> {
    let kind = string_term(random, cap.cap.name().as_bytes());
    let key = tuple_term(vec![kind, integer_term(cap.id), string_term(random, &cap.namespace)]);
    let micros = optional_term(random, cap.micros, |_, micros| integer_term(micros));
    tuple_term(vec![key, integer_term(cap.value), micros])
}

/// A binary, or where no reader would take it for something else, an atom.
fn string_term(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let special = [&b"nil"[..], b"undefined", b"true", b"false"].contains(&bytes);
    match !special && bytes.len() < 256 && random.chance(20) {
        true => atom_term(bytes),
        false => binary_term(bytes),
    }
}

fn name_term(random: &mut Random, name: &[u8]) -> Vec<u8> {
    match random.chance(50) {
        true => binary_term(name),
        false => atom_term(name),
    }
}

/// BINARY_EXT
fn binary_term(bytes: &[u8]) -> Vec<u8> {
    [&[109], &(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// SMALL_ATOM_UTF8_EXT
fn atom_term(name: &[u8]) -> Vec<u8> {
    [&[119, u8::try_from(name.len()).unwrap()], name].concat()
}

/// NEW_FLOAT_EXT
fn float_term(value: f64) -> Vec<u8> {
    [&[70], &value.to_be_bytes()[..]].concat()
}

/// SMALL_INTEGER_EXT, INTEGER_EXT or SMALL_BIG_EXT, whichever Erlang chooses
fn integer_term(value: i64) -> Vec<u8> {
    if let Ok(small) = u8::try_from(value) {
        return vec![97, small];
    }
    if let Ok(medium) = i32::try_from(value) {
        return [&[98], &medium.to_be_bytes()[..]].concat();
    }
    let mut magnitude = value.unsigned_abs().to_le_bytes().to_vec();
    while magnitude.last() == Some(&0) {
        magnitude.pop();
    }
    [&[110, magnitude.len() as u8, u8::from(value < 0)], &magnitude[..]].concat()
}

/// STRING_EXT where all are bytes, as Erlang does, else LIST_EXT
fn integers_term(random: &mut Random, values: &[i64]) -> Vec<u8> {
    let bytes: Result<Vec<u8>, _> = values.iter().map(|value| u8::try_from(*value)).collect();
    match bytes {
        Ok(bytes) if !bytes.is_empty() && random.chance(80) => {
            [&[107], &(bytes.len() as u16).to_be_bytes()[..], &bytes].concat()
        }
        _ => list_term(random, values.iter().map(|value| integer_term(*value)).collect()),
    }
}

/// LIST_EXT, or NIL_EXT where there is no element
fn list_term(random: &mut Random, elements: Vec<Vec<u8>>) -> Vec<u8> {
    const NIL: u8 = 106;
    if elements.is_empty() && random.chance(90) {
        return vec![NIL];
    }
    [&[108], &(elements.len() as u32).to_be_bytes()[..], &elements.concat(), &[NIL]].concat()
}

/// SMALL_TUPLE_EXT or LARGE_TUPLE_EXT
fn tuple_term(elements: Vec<Vec<u8>>) -> Vec<u8> {
    let head = match u8::try_from(elements.len()) {
        Ok(arity) => vec![104, arity],
        Err(_) => [&[105], &(elements.len() as u32).to_be_bytes()[..]].concat(),
    };
    [head, elements.concat()].concat()
}

/// MAP_EXT
fn map_term(pairs: Vec<(Vec<u8>, Vec<u8>)>) -> Vec<u8> {
    let arity = pairs.len() as u32;
    let members: Vec<u8> = pairs.into_iter().flat_map(|(name, value)| [name, value].concat()).collect();
    [&[116], &arity.to_be_bytes()[..], &members].concat()
}

fn json_value(random: &mut Random, value: &NaiveValue) -> String {
    match value {
        NaiveValue::Boolean(value) => value.to_string(),
        NaiveValue::Integer(value) => value.to_string(),
        NaiveValue::Float(value) => random.pick(&[format!("{value}"), format!("{value:?}"), format!("{value:E}")]),
        NaiveValue::String(value) => json_bytes(random, value),
        NaiveValue::Integers(values) => {
            let items = values.iter().map(i64::to_string).collect();
            json_array(random, items)
        }
        NaiveValue::Strings(values) => {
            let items = values.iter().map(|value| json_bytes(random, value)).collect();
            json_array(random, items)
        }
        NaiveValue::Segments(segments) => {
            let items = segments.iter().map(|(id, micros)| format!("[{id},{micros}]")).collect();
            json_array(random, items)
        }
        NaiveValue::Caps(caps) => {
            let items = caps.iter().map(|cap| json_cap(random, cap)).collect();
            json_array(random, items)
        }
        // Of decoys only.
        NaiveValue::Objects(objects) => {
            assert!(objects.is_empty());
            "[]".into()
        }
        NaiveValue::Address(bytes) => json_bytes(random, address_text(bytes).as_bytes()),
        NaiveValue::Unfit(_) => panic!("what does not fit depends on the attribute"),
    }
}

fn json_cap(random: &mut Random, cap: &NaiveCap) -> String {
    let kind = json_string(random, &cap.cap.name());
    let namespace = json_bytes(random, &cap.namespace);
    let key = json_array(random, vec![kind, cap.id.to_string(), namespace]);
    let micros = cap.micros.map_or("null".into(), |micros| micros.to_string());
    json_array(random, vec![key, cap.value.to_string(), micros])
}

fn json_array(random: &mut Random, items: Vec<String>) -> String {
    format!("[{}{}{}]", space(random), items.join(random.pick(&[",", ", ", " ,\n"])), space(random))
}

fn json_bytes(random: &mut Random, bytes: &[u8]) -> String {
    json_string(random, std::str::from_utf8(bytes).expect("JSON holds UTF-8 only"))
}

fn json_string(random: &mut Random, text: &str) -> String {
    let mut json = String::from('"');
    for character in text.chars() {
        let short = match character {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            '\r' => Some("\\r"),
            '\t' => Some("\\t"),
            _ => None,
        };
        match short {
            Some(escape) if random.chance(80) => json.push_str(escape),
            _ if short.is_some() || character < ' ' || random.chance(10) => {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    json.push_str(&format!("\\u{unit:04x}"));
                }
            }
            _ => json.push(character),
        }
    }
    json.push('"');
    json
}

fn space(random: &mut Random) -> &'static str {
    random.pick(&["", "", " ", "\n\t", "\r\n  "])
}

fn is_short_integer(value: f64) -> bool {
    value.fract() == 0.0 && value.abs() < 1e15
}
