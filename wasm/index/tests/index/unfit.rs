//! Events with values that do not fit: undefined where the schema or the call forgives them, and otherwise refused by name.

use crate::support::make::{insertion, ALL_IDS};
use crate::support::naive::{NaiveEvent, NaiveValue};
use crate::support::random::Random;
use crate::support::{encode, generate};
use be_tree_index::error::{Error, Kind};
use be_tree_index::event::{Encoding, Format};
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::path::{canonical, fields};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::model::time::{parse, Unit};
use be_tree_index::search::{Batch, Form, Request, Search};

fn attribute(name: &str, ty: Type, optional: bool) -> Attribute {
    Attribute { name: name.into(), ty, optional, bounds: Bounds::Unbounded }
}

fn forgiving(format: Format) -> Encoding {
    Encoding { format, forgiving: true }
}

/// Returns the event in prepared form, and the number of its values that count as undefined.
fn prepared(index: &Index, encoding: impl Into<Encoding>, bytes: &[u8]) -> Result<(Vec<u8>, u64), Error> {
    let mut search = Search::default();
    search.reserve(index)?;
    let mut prepared = Vec::new();
    search.prepare(index, encoding, bytes, &mut prepared)?;
    search.open_for(index, Format::Prepared, &prepared, ALL_IDS, Form::CountedIds)?;
    let mismatches = search.run(index).packed()[2];
    if mismatches > 0 {
        // The head and the number of the values that count as undefined.
        prepared.truncate(prepared.len() - 12);
    }
    Ok((prepared, mismatches))
}

/// The attributes of a schema and of the objects in its lists, by name.
fn names(schema: &Schema) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    for attribute in schema.attributes() {
        names.push((attribute.name.clone(), attribute.optional));
        if attribute.ty == Type::ObjectList {
            let inner = schema.objects(schema.find(attribute.name.as_bytes()).unwrap());
            names.extend(inner.attributes().iter().map(|a| (format!("{}.{}", attribute.name, a.name), a.optional)));
        }
    }
    names
}

/// Spoils values of an event or an object, and returns their number. `event` gets values that do not fit, and `plain` gets no value in
/// their place. `is_forgiven` takes the name of an attribute.
fn spoil(
    random: &mut Random,
    schema: &Schema,
    around: &str,
    is_forgiven: &dyn Fn(&str) -> bool,
    event: &mut NaiveEvent,
    plain: &mut NaiveEvent,
) -> u64 {
    let mut count = 0;
    let attributes = schema.attributes();
    let is_forgiven_here = |attribute: &Attribute| is_forgiven(&format!("{around}{}", attribute.name));
    for (id, attribute) in attributes.iter().enumerate() {
        if let (Some(NaiveValue::Objects(objects)), Some(NaiveValue::Objects(plains))) =
            (&mut event[id], &mut plain[id])
        {
            let inner = schema.objects(schema.find(attribute.name.as_bytes()).unwrap());
            let around = format!("{around}{}.", attribute.name);
            for (object, plain) in objects.iter_mut().zip(plains) {
                count += spoil(random, inner, &around, is_forgiven, object, plain);
            }
        }
    }
    for (id, attribute) in attributes.iter().enumerate() {
        // The objects of a spoilt list do not count, so an empty list is spoilt.
        let is_full = |value: &Option<NaiveValue>| matches!(value, Some(NaiveValue::Objects(list)) if !list.is_empty());
        if is_forgiven_here(attribute) && !is_full(&event[id]) && random.chance(25) {
            (event[id], plain[id]) = (Some(NaiveValue::Unfit(None)), None);
            count += 1;
        }
    }
    let paths: Vec<_> = attributes.iter().map(|attribute| fields(&attribute.name).unwrap()).collect();
    for len in [2, 1] {
        for path in paths.iter().filter(|path| path.len() > len) {
            let below: Vec<_> =
                (0..paths.len()).filter(|&id| paths[id].len() > len && paths[id][..len] == path[..len]).collect();
            let objects = below.iter().any(|&id| matches!(event[id], Some(NaiveValue::Objects(_))));
            if objects || !below.iter().all(|&id| is_forgiven_here(&attributes[id])) || !random.chance(10) {
                continue;
            }
            // Spoilt values below it do not count.
            let mut spoilt: Vec<_> = below
                .iter()
                .filter_map(|&id| match &event[id] {
                    Some(NaiveValue::Unfit(of)) => {
                        Some(of.map_or(vec![id], |len| vec![usize::MAX, len, path_number(&paths, id, len)]))
                    }
                    _ => None,
                })
                .collect();
            spoilt.sort();
            spoilt.dedup();
            count = count - spoilt.len() as u64 + 1;
            for &id in &below {
                (event[id], plain[id]) = (Some(NaiveValue::Unfit(Some(len))), None);
            }
        }
    }
    count
}

/// The first attribute in the map that the first `len` names of a path lead to.
fn path_number(paths: &[Vec<std::borrow::Cow<str>>], id: usize, len: usize) -> usize {
    paths.iter().position(|path| path.len() > len && path[..len] == paths[id][..len]).unwrap()
}

#[test]
fn values_that_do_not_fit_count_as_undefined() {
    let mut counts = [0; 3];
    for seed in 0..3000 {
        let random = &mut Random::new(seed);
        let mut schema = generate::schema(random);
        let names = names(&schema);
        // Forgiven by the call, or by the attribute.
        let by_call = random.chance(50);
        let forgiven: Vec<&String> = names
            .iter()
            .filter(|(_, optional)| *optional && (by_call || random.chance(60)))
            .map(|(name, _)| name)
            .collect();
        if !by_call {
            forgiven.iter().for_each(|name| schema.forgive(name).unwrap());
        }
        let index = Index::new(schema.clone());
        let plain = generate::event(random, &schema);
        let (mut event, mut plain) = (plain.clone(), plain);
        let is_forgiven = |name: &str| {
            let path = fields(name).unwrap();
            forgiven.iter().any(|known| fields(known).unwrap() == path)
        };
        let spoilt = spoil(random, &schema, "", &is_forgiven, &mut event, &mut plain);
        let encoding = |format| if by_call { forgiving(format) } else { format.into() };
        let expected = prepared(&index, Format::Json, encode::json(random, &schema, &plain).as_bytes()).unwrap().0;

        let json = encode::json(random, &schema, &event);
        let found = prepared(&index, encoding(Format::Json), json.as_bytes());
        assert_eq!(found.as_ref(), Ok(&(expected.clone(), spoilt)), "seed {seed}: {json}");

        let term = encode::term_by_name(random, &schema, &event);
        let found = prepared(&index, encoding(Format::Term), &term);
        assert_eq!(found.as_ref(), Ok(&(expected.clone(), spoilt)), "seed {seed}");

        // Records have no maps.
        let record = encode::term_by_position(random, &schema, &event);
        let (found, _) = prepared(&index, encoding(Format::Record), &record).unwrap();
        assert_eq!(found, expected, "seed {seed}");

        counts[0] += 1;
        counts[1] += usize::from(spoilt > 0);
        counts[2] += usize::from(event.iter().any(|value| matches!(value, Some(NaiveValue::Unfit(Some(_))))));

        // An attribute that no expression reads is refused too.
        if by_call && spoilt > 0 {
            for (format, bytes) in [(Format::Json, json.as_bytes()), (Format::Record, &record[..])] {
                let error = prepared(&index, format, bytes).unwrap_err();
                assert!(matches!(error.kind, Kind::Type | Kind::OutOfBounds), "seed {seed}: {error}");
                let name = error.attribute.unwrap();
                let known = names.iter().any(|(known, _)| {
                    let (path, error) = (fields(known).unwrap(), fields(&name).unwrap());
                    path.starts_with(&error)
                });
                assert!(known, "seed {seed}: {name}");
            }
        }
    }
    assert!(counts[1] > 2000 && counts[2] > 100, "{counts:?}");
}

#[test]
fn an_attribute_that_is_not_forgiven_refuses_the_event() {
    let mut schema = Schema::new(vec![
        attribute("i", Type::Integer, true),
        attribute("j", Type::Integer, true),
        attribute("r", Type::String, false),
        attribute("u.a", Type::String, true),
        attribute("u.b", Type::String, true),
        attribute("l", Type::ObjectList, true),
        attribute("l.a", Type::Integer, true),
        attribute("l.b", Type::Integer, false),
    ])
    .unwrap();
    for name in ["i", "u.a", "l.a"] {
        schema.forgive(name).unwrap();
    }
    let index = Index::new(schema);
    let read = |encoding: Encoding, json: &str| prepared(&index, encoding, json.as_bytes()).map(|(_, count)| count);
    let strict = |json: &str| read(Format::Json.into(), json);
    assert_eq!(strict(r#"{"r": "", "i": "x", "u": {"a": 1}}"#), Ok(2));
    for (json, name, column) in [
        (r#"{"r": "", "é": "x", "i": "x", "j": "x"}"#, "j", 36),
        // A required attribute then has no value, even if the call forgives it.
        (r#"{"r": 1}"#, "r", 7),
        // One of its fields is not forgiven.
        (r#"{"r": "", "u": 1}"#, "u", 16),
        (r#"{"r": "", "u": {"b": 1}}"#, "u.b", 22),
        (r#"{"r": "", "l": [{"b": 2, "a": ""}, {"b": 1, "a": null}, {"b": "", "a": ""}]}"#, "l.b", 63),
        (r#"{"r": "", "l": [null]}"#, "l", 17),
        (r#"{"r": "", "l": 7}"#, "l", 16),
    ] {
        let error = strict(json).unwrap_err();
        assert_eq!(
            (error.kind, error.attribute.as_deref(), error.column),
            (Kind::Type, Some(name), Some(column)),
            "{json}"
        );
        if name != "r" {
            assert_eq!(read(forgiving(Format::Json), json).map(|count| count > 0), Ok(true), "{json}");
        }
    }
    let error = read(forgiving(Format::Json), r#"{"r": 1}"#).unwrap_err();
    assert_eq!(error.message, "attribute `r` of type string: expected a string, given an integer");
    // An object without a required attribute is invalid, and so is its list.
    assert_eq!(strict(r#"{"r": "", "l": [{"a": ""}]}"#).unwrap_err().kind, Kind::MissingAttribute);
    assert_eq!(read(forgiving(Format::Json), r#"{"r": "", "l": [{"a": ""}, {"a": ""}]}"#), Ok(1));
    // Invalid bytes remain errors.
    for json in [r#"{"r": "", "i": "x}"#, r#"{"r": "", "i": [1, }"#, r#"{"r": "", "l": [{"a": "x" 1}]}"#, "[]", "7"] {
        assert!(read(forgiving(Format::Json), json).is_err(), "{json}");
    }
}

#[test]
fn only_the_last_value_of_a_repeated_json_name_must_fit() {
    let index = Index::new(
        Schema::new(vec![
            attribute("i", Type::Integer, false),
            attribute("l", Type::StringList, true),
            attribute("u.v.a", Type::Integer, true),
            attribute("u.b", Type::String, true),
            attribute("o", Type::ObjectList, true),
            attribute("o.a", Type::Integer, true),
        ])
        .unwrap(),
    );
    let read = |json: &str| prepared(&index, Format::Json, json.as_bytes());
    for (twice, once) in [
        (r#"{"i": "x", "i": 1}"#, r#"{"i": 1}"#),
        (r#"{"i": 1e400, "i": 99999999999999999999, "i": 1}"#, r#"{"i": 1}"#),
        (r#"{"i": 1, "l": "a", "l": ["b"]}"#, r#"{"i": 1, "l": ["b"]}"#),
        (r#"{"i": 1, "l": [null], "l": null}"#, r#"{"i": 1}"#),
        (r#"{"i": 1, "u": 7, "u": {"b": "x"}}"#, r#"{"i": 1, "u": {"b": "x"}}"#),
        (r#"{"i": 1, "u": {"v": 7, "b": 1}, "u": {"b": "x"}}"#, r#"{"i": 1, "u": {"b": "x"}}"#),
        (r#"{"i": 1, "u": {"v": {"a": ""}, "v": {"a": 3}}}"#, r#"{"i": 1, "u": {"v": {"a": 3}}}"#),
        (r#"{"i": 1, "u": {"v": 7}, "u": null}"#, r#"{"i": 1}"#),
        (r#"{"i": 1, "o": [{"a": ""}], "o": [{"a": "", "a": 2}]}"#, r#"{"i": 1, "o": [{"a": 2}]}"#),
    ] {
        assert_eq!(read(twice), read(once), "{twice}");
        assert!(read(twice).is_ok(), "{twice}");
    }
    for (json, name, column) in [
        (r#"{"i": 1, "i": "x"}"#, "i", 15),
        (r#"{"i": "x", "i": 1, "i": "x", "l": 1}"#, "i", 25),
        (r#"{"i": 1, "u": {"b": "x"}, "u": 7}"#, "u", 32),
        (r#"{"i": 1, "u": {"v": 7}, "u": {"v": {}, "v": 7}}"#, "u.v", 45),
        (r#"{"i": 1, "o": [{"a": 1, "a": ""}]}"#, "o.a", 30),
    ] {
        let error = read(json).unwrap_err();
        assert_eq!(
            (error.kind, error.attribute.as_deref(), error.column),
            (Kind::Type, Some(name), Some(column)),
            "{json}"
        );
    }
}

#[test]
fn unknown_names_are_refused_beside_values_that_do_not_fit() {
    let schema = Schema::new(vec![
        attribute("u.a", Type::String, true),
        attribute("l", Type::ObjectList, true),
        attribute("l.a", Type::Integer, true),
    ]);
    let index = Index::new(schema.unwrap());
    let strict = forgiving(Format::StrictJson);
    for json in [r#"{"u": [1], "l": {"a": 2}}"#, r#"{"u": {"a": 1}, "l": [1]}"#] {
        assert_eq!(prepared(&index, strict, json.as_bytes()).unwrap().1, 2, "{json}");
    }
    let error = prepared(&index, strict, br#"{"u": [1], "l": [{"b": 1}]}"#).unwrap_err();
    assert_eq!((error.kind, error.attribute.as_deref()), (Kind::UnknownAttribute, Some("l.b")));
    // `[u: [1], l: [[{1, 2}] | 3], v: 1]` without the last pair, and with it.
    let list =
        |elements: &[&[u8]], end: &[u8]| [&[108, 0, 0, 0, elements.len() as u8][..], &elements.concat(), end].concat();
    let pair = |name: u8, value: &[u8]| [&[104, 2, 119, 1, name][..], value].concat();
    let improper = list(&[&list(&[&[104, 2, 97, 1, 97, 2]], &[106])], &[97, 3]);
    let event = [pair(b'u', &[107, 0, 1, 1]), pair(b'l', &improper), pair(b'v', &[97, 1])];
    let term = |count: usize| {
        let pairs: Vec<&[u8]> = event[..count].iter().map(|pair| &pair[..]).collect();
        [&[131], &list(&pairs, &[106])[..]].concat()
    };
    assert_eq!(prepared(&index, forgiving(Format::StrictTerm), &term(2)).unwrap().1, 2);
    let error = prepared(&index, forgiving(Format::StrictTerm), &term(3)).unwrap_err();
    assert_eq!((error.kind, error.attribute.as_deref()), (Kind::UnknownAttribute, Some("v")));
}

#[test]
fn only_an_optional_attribute_is_forgiven() {
    let mut schema =
        Schema::new(vec![attribute("a", Type::Integer, false), attribute("l", Type::ObjectList, true)]).unwrap();
    let error = schema.forgive("a").unwrap_err();
    assert_eq!(
        (error.kind, &*error.message),
        (Kind::Type, "`a` is required, so a value that does not fit cannot count as undefined; make it optional")
    );
    assert_eq!(schema.forgive("b").unwrap_err().kind, Kind::UnknownAttribute);
    assert_eq!(schema.set_unit("a", Unit::Second).unwrap_err().kind, Kind::Type);
    schema.forgive("l").unwrap();
    schema.forgive("l").unwrap();
    let index = Index::new(schema);
    assert_eq!(prepared(&index, Format::Json, br#"{"a": 1, "l": 7}"#).unwrap().1, 1);
}

#[test]
fn a_converted_value_that_does_not_fit_counts_as_undefined() {
    let types = [Type::Boolean, Type::Integer, Type::Float, Type::String, Type::IntegerList, Type::StringList];
    let attributes = types.map(|ty| attribute(ty.name(), ty, true));
    let mut schema = Schema::new(attributes.into()).unwrap();
    for ty in types {
        schema.convert(ty.name()).unwrap();
    }
    let index = Index::new(schema);
    let json = r#"{"boolean": "yes", "integer": "4.5", "float": "", "string": 0.5, "integer_list": ["1", "x"], "string_list": [[]]}"#;
    let plain = prepared(&index, Format::Json, b"{}").unwrap().0;
    assert_eq!(prepared(&index, forgiving(Format::Json), json.as_bytes()), Ok((plain, 6)));
    assert_eq!(prepared(&index, Format::Json, json.as_bytes()).unwrap_err().attribute.as_deref(), Some("boolean"));
}

#[test]
fn numbers_are_times_in_their_unit() {
    let mut schema = Schema::new(vec![
        attribute("s", Type::DateTime, true),
        attribute("ms", Type::DateTime, true),
        attribute("us", Type::DateTime, true),
        attribute("l", Type::ObjectList, true),
        attribute("l.s", Type::DateTime, true),
    ])
    .unwrap();
    for (name, unit) in
        [("s", Unit::Second), ("ms", Unit::Millisecond), ("us", Unit::Microsecond), ("l.s", Unit::Second)]
    {
        schema.set_unit(name, unit).unwrap();
    }
    let index = Index::new(schema);
    let read = |json: &str| prepared(&index, Format::Json, json.as_bytes()).map(|(prepared, _)| prepared);
    let iso =
        read(r#"{"s": "2019-05-15T15:19:25Z", "ms": "2019-05-15T15:19:25.25Z", "us": "2019-05-15T15:19:25.000001Z"}"#);
    assert_eq!(read(r#"{"s": 1557933565, "ms": 1557933565250, "us": 1557933565000001}"#), iso);
    assert_eq!(read(r#"{"s": 1557933565.0, "ms": 1557933565.25e3, "us": 1557933565000001}"#), iso);
    assert_eq!(read(r#"{"l": [{"s": 1557933565}]}"#), read(r#"{"l": [{"s": "2019-05-15T15:19:25Z"}]}"#));
    for (json, name, kind) in [
        (r#"{"us": 1.5}"#, "us", Kind::Type),
        (r#"{"s": 1e300}"#, "s", Kind::OutOfBounds),
        (r#"{"s": 9223372036854775807}"#, "s", Kind::OutOfBounds),
        (r#"{"ms": -9223372036854775808}"#, "ms", Kind::OutOfBounds),
    ] {
        let error = read(json).unwrap_err();
        assert_eq!((error.kind, error.attribute.as_deref()), (kind, Some(name)), "{json}");
        assert_eq!(prepared(&index, forgiving(Format::Json), json.as_bytes()).unwrap().1, 1, "{json}");
    }
    // Constants are in the unit of their attribute too.
    let mut index = index;
    for (id, text) in
        [(1, "s > 1557933564"), (2, "s > 1557933565"), (3, "ms = 1557933565250"), (4, "any l (s = 1557933565)")]
    {
        index.insert(&insertion(id, text)).unwrap();
    }
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    let event = br#"{"s": 1557933565, "ms": "2019-05-15T15:19:25.25Z", "l": [{"s": 1557933565}]}"#;
    search.open(&index, Format::Json, event, ALL_IDS).unwrap();
    assert_eq!(search.run(&index).ids(), [1, 3, 4]);
    let too_large = Insertion { id: 5, text: b"s > 9223372036854775807", constants: vec![] };
    assert_eq!(index.insert(&too_large).unwrap_err().kind, Kind::OutOfBounds);
    assert_eq!(parse(b"2019-05-15T15:19:25Z"), Some(1_557_933_565_000_000));
}

/// The results of a batch, event by event.
fn batch(index: &Index, events: &[&str], form: Form) -> Vec<Vec<u64>> {
    let (mut search, mut batch) = (Search::default(), Batch::default());
    search.reserve(index).unwrap();
    batch.reserve(index).unwrap();
    // Forgiving JSON.
    const FORMAT: u32 = 17;
    let mut message = Vec::new();
    for event in events {
        message.extend(FORMAT.to_le_bytes());
        message.extend((event.len() as u32).to_le_bytes());
        message.extend(event.bytes());
    }
    batch.open(Request { events: events.len() as u32, bytes: message.len(), only: None, form });
    let mut results = Vec::new();
    while !batch.is_done() {
        batch.next_part();
        let mut part = batch.run(index, &mut search, &message, || ()).unwrap();
        while let Some((&length, rest)) = part.split_first() {
            let (words, rest) = rest.split_at(length as usize);
            results.push(words.to_vec());
            part = rest;
        }
    }
    results
}

#[test]
fn a_counted_result_begins_with_the_number_of_values_that_do_not_fit() {
    let attributes: Vec<_> = (0..4).map(|i| attribute(&format!("b{i}"), Type::Boolean, true)).collect();
    let events = [r#"{"b0": true, "b1": 1, "b2": ""}"#, r#"{"b0": true}"#, r#"{"b0": "x"}"#];
    // Few expressions are searched one by one, and many dense ones for all events at once.
    for (expressions, is_dense) in [(3, true), (200, true), (200, false)] {
        let mut attributes = attributes.clone();
        attributes.push(attribute("i", Type::Integer, true));
        let mut index = Index::new(Schema::new(attributes).unwrap());
        for id in 0..expressions {
            let text = format!("b0 or b1 or b2 and b{}", id % 4);
            index.insert(&insertion(id, &text)).unwrap();
        }
        if !is_dense {
            index.insert(&Insertion { id: 1000, text: b"i = 1", constants: vec![] }).unwrap();
        }
        let mut search = Search::default();
        search.reserve(&index).unwrap();
        for many in [1, 90] {
            let events = events.repeat(many);
            for (plain, counted) in [(Form::Ids, Form::CountedIds), (Form::Bitmap, Form::CountedBitmap)] {
                let expected = batch(&index, &events, plain);
                for (i, words) in batch(&index, &events, counted).iter().enumerate() {
                    assert_eq!(
                        (words[0], &words[1..]),
                        ([2, 0, 1][i % 3], &expected[i][..]),
                        "{expressions} {many} {i}"
                    );
                }
                for (i, event) in events[..3].iter().enumerate() {
                    search.open_for(&index, forgiving(Format::Json), event.as_bytes(), ALL_IDS, counted).unwrap();
                    let found = search.run(&index);
                    assert_eq!((found.packed()[2], found.ids()), ([2, 0, 1][i], &expected[i][..]));
                    assert_eq!(found.packed().len(), 3 + expected[i].len());
                }
            }
        }
    }
}

#[test]
fn the_name_of_a_map_is_that_of_its_path() {
    let index = Index::new(Schema::new(vec![attribute("a.`b c`.d", Type::Integer, true)]).unwrap());
    let error = prepared(&index, Format::Json, br#"{"a": {"b c": 1}}"#).unwrap_err();
    assert_eq!(error.attribute, Some(canonical(&["a".into(), "b c".into()])));
}
