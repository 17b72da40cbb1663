//! The values that each type accepts from each format, and the values that it refuses.

use crate::error::{Error, Kind};
use crate::event::*;
use crate::model::schema::{Attribute, Bounds, Schema, Type};
use crate::model::strings::Interner;
use crate::term::Writer;

/// Returns a schema with an optional attribute of each type, named by its type.
fn schema() -> Schema {
    let attribute =
        |(name, ty): (&str, _)| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    Schema::new(Type::NAMES.map(attribute).into()).unwrap()
}

fn decoded(format: Format, bytes: &[u8], schema: &Schema) -> Result<Event, Error> {
    decoded_with(format, bytes, schema, &Interner::default())
}

fn decoded_with(format: Format, bytes: &[u8], schema: &Schema, strings: &Interner) -> Result<Event, Error> {
    let mut event = Event::default();
    decode(format, bytes, schema, strings, &mut event).map(|()| event)
}

/// Returns the event that is a map from `name` to the encoded `value`.
fn map(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    writer.map(1);
    writer.atom(name);
    bytes.extend(value);
    bytes
}

/// Returns an encoded value without its version byte.
fn term(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut Writer::new(&mut bytes));
    bytes.split_off(1)
}

fn atom(name: &str) -> Vec<u8> {
    term(|writer| writer.atom(name))
}

fn integer(value: i64) -> Vec<u8> {
    term(|writer| writer.integer(value))
}

fn float(value: f64) -> Vec<u8> {
    term(|writer| writer.float(value))
}

fn binary(bytes: &[u8]) -> Vec<u8> {
    term(|writer| writer.binary(bytes))
}

fn tuple(fields: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = term(|writer| writer.tuple(fields.len()));
    bytes.extend(fields.concat());
    bytes
}

fn list(elements: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = term(|writer| writer.list(elements.len()));
    bytes.extend(elements.concat());
    bytes.extend(term(|writer| writer.end_list()));
    bytes
}

/// Returns the value of the attribute `name` in `event` as text.
fn shown(event: &Event, name: &str) -> String {
    let text = |text: &Text| String::from_utf8_lossy(event.text(*text)).into_owned();
    match event.values[(schema().find(name.as_bytes()).unwrap()).index()] {
        Value::Undefined | Value::Patterns | Value::Unfit(_) => "undefined".into(),
        Value::Boolean(boolean) => format!("{boolean}"),
        Value::Integer(integer) => format!("{integer}"),
        Value::Float(float) => format!("{float:?}"),
        Value::String(string) => format!("{:?}", text(&string)),
        Value::Integers(span) => format!("{:?}", span.of(&event.integers)),
        Value::Strings(span) => format!("{:?}", span.of(&event.strings).iter().map(text).collect::<Vec<_>>()),
        Value::Segments(span) => {
            format!("{:?}", span.of(&event.segments).iter().map(|s| (s.id, s.micros)).collect::<Vec<_>>())
        }
        Value::Caps(span) => {
            let cap = |c: &Cap| format!("{} {} {} {} {:?}", c.cap.name(), c.id, text(&c.namespace), c.value, c.micros);
            span.of(&event.caps).iter().map(cap).collect::<Vec<_>>().join(", ")
        }
        Value::Objects(span) => span.of(&event.objects).iter().map(|object| format!("{:b} ", object.defined)).collect(),
        Value::Address(position) => event.addresses[position as usize].to_string(),
    }
}

/// Checks the value that `name` accepts from the JSON and from the term.
#[track_caller]
fn takes(name: &str, json: &str, term: Vec<u8>, expected: &str) {
    if !json.is_empty() {
        let event = decoded(Format::Json, format!("{{\"{name}\": {json}}}").as_bytes(), &schema()).unwrap();
        assert_eq!(shown(&event, name), expected);
    }
    let event = decoded(Format::Term, &map(name, &term), &schema()).unwrap();
    assert_eq!(shown(&event, name), expected);
    let record: Vec<_> = Type::NAMES.iter().map(|(n, _)| if *n == name { term.clone() } else { atom("nil") }).collect();
    for values in [list(&record), tuple(&record)] {
        let event = decoded(Format::Record, &[&[131], &values[..]].concat(), &schema()).unwrap();
        assert_eq!(shown(&event, name), expected);
    }
}

/// Checks that `name` refuses the JSON with `message` at `column` of the value.
#[track_caller]
fn refuses_json(name: &str, json: &str, kind: Kind, column: usize, message: &str) {
    let error = decoded(Format::Json, format!("{{\"{name}\":{json}}}").as_bytes(), &schema()).unwrap_err();
    let message = format!("attribute `{name}` of type {name}: {message}");
    let column = Some(name.len() + 4 + column);
    assert_eq!(error, Error { kind, message, attribute: Some(name.into()), column });
}

/// Checks that `name` refuses the term with `message`.
#[track_caller]
fn refuses_term(name: &str, term: Vec<u8>, kind: Kind, message: &str) {
    let error = decoded(Format::Term, &map(name, &term), &schema()).unwrap_err();
    let message = format!("attribute `{name}` of type {name}: {message}");
    assert_eq!(error, Error { kind, message, attribute: Some(name.into()), column: None });
}

#[test]
fn booleans() {
    takes("boolean", "true", atom("true"), "true");
    takes("boolean", " false ", atom("false"), "false");
    refuses_json("boolean", "1", Kind::Type, 1, "expected true or false, given an integer");
    refuses_json("boolean", " \"true\"", Kind::Type, 2, "expected true or false, given a string");
    refuses_term("boolean", integer(1), Kind::Type, "expected true or false, given an integer");
    refuses_term("boolean", binary(b"true"), Kind::Type, "expected true or false, given a binary");
}

#[test]
fn integers() {
    for name in ["integer", "integer_enum"] {
        takes(name, "9223372036854775807", integer(i64::MAX), "9223372036854775807");
        takes(name, "-9223372036854775808", integer(i64::MIN), "-9223372036854775808");
        takes(name, "-0", integer(0), "0");
        let json = "9223372036854775808";
        let message = "the integer does not fit signed 64 bits";
        refuses_json(name, json, Kind::OutOfBounds, 1, message);
        let message = "the integer does not fit signed 64 bits";
        refuses_term(name, term(|writer| writer.unsigned(u64::MAX)), Kind::OutOfBounds, message);
        // Only an integer token is an integer, in JSON as in terms, where 1 and 1.0 differ.
        refuses_json(name, "1.0", Kind::Type, 1, "expected an integer, given a float");
        refuses_json(name, "1e3", Kind::Type, 1, "expected an integer, given a float");
        refuses_term(name, float(1.0), Kind::Type, "expected an integer, given a float");
        refuses_json(name, "\"1\"", Kind::Type, 1, "expected an integer, given a string");
        refuses_term(name, binary(b"1"), Kind::Type, "expected an integer, given a binary");
        refuses_term(name, map("a", &integer(1)).split_off(1), Kind::Type, "expected an integer, given a map of 1");
    }
}

#[test]
fn floats() {
    takes("float", "0.1", float(0.1), "0.1");
    takes("float", "-12", integer(-12), "-12.0");
    takes("float", "1e22", float(1e22), "1e22");
    takes("float", "9007199254740993", integer(9007199254740993), "9007199254740992.0");
    takes("float", "-0.0", float(-0.0), "0.0");
    takes("float", "18446744073709551615", term(|writer| writer.unsigned(u64::MAX)), "1.8446744073709552e19");
    refuses_json("float", "1e999", Kind::OutOfBounds, 1, "the number does not fit a 64-bit float");
    refuses_term("float", float(f64::NAN), Kind::OutOfBounds, "the float is not finite");
    refuses_json("float", "\"1\"", Kind::Type, 1, "expected a float or an integer, given a string");
    refuses_term("float", atom("one"), Kind::Type, "expected a float or an integer, given an atom");
}

#[test]
fn strings() {
    takes("string", "\"CA\"", binary(b"CA"), "\"CA\"");
    takes("string", "\"CA\"", atom("CA"), "\"CA\"");
    takes("string", "\"\\u00e9\"", vec![100, 0, 1, 233], "\"é\"");
    takes("string", "\"\"", binary(b""), "\"\"");
    refuses_json("string", "3", Kind::Type, 1, "expected a string, given an integer");
    refuses_term("string", list(&[integer(67)]), Kind::Type, "expected a string, given a list of 1");
    // These atoms are values of other types.
    refuses_json("string", "true", Kind::Type, 1, "expected a string, given a boolean");
    refuses_term("string", atom("true"), Kind::Type, "expected a string, given an atom");
    refuses_term("string", atom("false"), Kind::Type, "expected a string, given an atom");
}

#[test]
fn strings_get_the_ids_of_the_interner() {
    let mut strings = Interner::default();
    strings.retain(b"US");
    let known = strings.retain(b"CA");
    let mut event = Event::default();
    decode(Format::Json, br#"{"string_list":["CA","FR"]}"#, &schema(), &strings, &mut event).unwrap();
    assert_eq!(event.strings.iter().map(|text| text.id).collect::<Vec<_>>(), [known, StringId::UNKNOWN]);
}

#[test]
fn strings_get_their_ids_however_many_are_known_and_given() {
    let ids = |count: u32| {
        let mut strings = Interner::default();
        for i in 0..count {
            strings.retain(format!("string {i}").as_bytes());
        }
        let texts: Vec<String> = (0..300).map(|i| format!("\"string {}\"", i * 7)).collect();
        let list = format!("[{}, \"\\u0073tring 7\", \"\", \"x\"]", texts.join(", "));
        let key = r#"["flight", 10, "string 9"]"#;
        let json = format!(
            r#"{{"string": "string 3", "string_list": {list}, "string": "string 5", "frequency_caps": [[{key}, 1, null]]}}"#
        );
        let event = decoded_with(Format::Json, json.as_bytes(), &schema(), &strings).unwrap();
        let Value::String(string) = event.values[(schema().find(b"string").unwrap()).index()] else { panic!() };
        let texts = event.strings.iter().copied().chain([string, event.caps[0].namespace]).collect::<Vec<_>>();
        assert_eq!(texts.len(), 305);
        for text in &texts {
            assert_eq!(text.id, strings.find(event.text(*text)).unwrap_or(StringId::UNKNOWN));
        }
        let json = br#"{"string": "string 3", "string_list": ["string 3"], "string": null, "string_list": null}"#;
        let event = decoded_with(Format::Json, json, &schema(), &strings).unwrap();
        assert_eq!(event.values, vec![Value::Undefined; event.values.len()]);
        texts.iter().filter(|text| text.id != StringId::UNKNOWN).count()
    };
    // Known strings: those below the count, every seventh of the list, and "string 7" again, 5 and 9.
    assert_eq!([0, 10, 2_000, 10_000].map(ids), [0, 5, 289, 303]);
}

#[test]
fn lists_of_integers_are_sorted_sets() {
    takes("integer_list", "[]", list(&[]), "[]");
    takes("integer_list", "[3]", list(&[integer(3)]), "[3]");
    let unsorted = [5, -1, 5, 300, -1].map(integer);
    takes("integer_list", "[5, -1 ,5,300,-1]", list(&unsorted), "[-1, 5, 300]");
    let string_term = vec![107, 0, 3, 200, 7, 200];
    takes("integer_list", "[200,7,200]", string_term, "[7, 200]");
    let message = "expected an integer in the list, given";
    refuses_json("integer_list", "[1,2.5]", Kind::Type, 4, &format!("{message} a float"));
    refuses_json("integer_list", "[1,null]", Kind::Type, 4, &format!("{message} null"));
    refuses_term("integer_list", list(&[integer(1), atom("nil")]), Kind::Type, &format!("{message} an atom"));
    refuses_json("integer_list", "7", Kind::Type, 1, "expected a list of integers, given an integer");
    refuses_term("integer_list", integer(7), Kind::Type, "expected a list of integers, given an integer");
    let improper = vec![108, 0, 0, 0, 1, 97, 1, 97, 2];
    let message = "expected the end of a proper list, given an integer";
    refuses_term("integer_list", improper, Kind::Type, message);
}

#[test]
fn lists_of_strings_keep_their_order() {
    takes("string_list", "[]", list(&[]), "[]");
    let elements = [binary(b"b"), atom("a"), binary(b"b")];
    takes("string_list", r#"["b","a","b"]"#, list(&elements), r#"["b", "a", "b"]"#);
    let message = "expected a string in the list, given";
    refuses_json("string_list", "[\"a\", 1]", Kind::Type, 7, &format!("{message} an integer"));
    refuses_term("string_list", vec![107, 0, 1, 9], Kind::Type, &format!("{message} an integer"));
    refuses_term("string_list", list(&[atom("undefined")]), Kind::Type, &format!("{message} an atom"));
}

#[test]
fn segments_are_pairs() {
    let segment = |id, micros| tuple(&[integer(id), integer(micros)]);
    takes("segments", "[]", list(&[]), "[]");
    takes("segments", "[[2, 20],[-1,10]]", list(&[segment(2, 20), segment(-1, 10)]), "[(2, 20), (-1, 10)]");
    let message = "expected a segment as a pair of its id and microseconds, given";
    refuses_json("segments", "[[1,2],[1]]", Kind::Type, 8, &format!("{message} a list"));
    refuses_json("segments", "[[1,2,3]]", Kind::Type, 2, &format!("{message} a list"));
    refuses_json("segments", "[1,2]", Kind::Type, 2, &format!("{message} an integer"));
    refuses_term("segments", list(&[tuple(&[integer(1)])]), Kind::Type, &format!("{message} a tuple of 1"));
    let triple = tuple(&[1, 2, 3].map(integer));
    refuses_term("segments", list(&[triple]), Kind::Type, &format!("{message} a tuple of 3"));
    refuses_term("segments", list(&[list(&[1, 2].map(integer))]), Kind::Type, &format!("{message} a list of 2"));
    let message = "expected an integer as a segment's microseconds, given null";
    refuses_json("segments", "[[1,null]]", Kind::Type, 5, message);
}

#[test]
fn times_are_strings_integers_or_structs() {
    takes("datetime", r#""1970-01-01T00:00:01Z""#, integer(1_000_000), "1000000");
    takes("datetime", "-7", integer(-7), "-7");
    let pairs = |structure: &str, utc: i64| {
        let mut bytes = vec![116];
        let parts = [("year", 1970), ("month", 1), ("day", 1), ("hour", 1), ("minute", 0), ("second", 2)];
        let offsets = [("utc_offset", utc), ("std_offset", 0)];
        bytes.extend(12_u32.to_be_bytes());
        for (name, part) in parts.into_iter().chain(offsets) {
            bytes.extend(atom(name));
            bytes.extend(integer(part));
        }
        for (name, value) in [
            ("__struct__", atom(structure)),
            ("calendar", atom("Elixir.Calendar.ISO")),
            ("microsecond", tuple(&[integer(3), integer(6)])),
            ("time_zone", atom("any")),
        ] {
            bytes.extend(atom(name));
            bytes.extend(value);
        }
        bytes
    };
    takes("datetime", "", pairs("Elixir.DateTime", 3600), "2000003");
    takes("datetime", "", pairs("Elixir.NaiveDateTime", 0), "3602000003");
    let expected =
        "expected a time as a DateTime or NaiveDateTime, a string by ISO 8601, or an integer of microseconds";
    refuses_term("datetime", pairs("Elixir.Date", 0), Kind::Type, &format!("{expected}, given a map of 12"));
    refuses_term("datetime", atom("now"), Kind::Type, &format!("{expected}, given an atom"));
    let expected = "expected a time as a string by ISO 8601, or as an integer of microseconds, given";
    refuses_json("datetime", r#""1970-02-30""#, Kind::Type, 1, &format!("{expected} a string"));
    refuses_json("datetime", "1.5", Kind::Type, 1, &format!("{expected} a float"));
}

#[test]
fn addresses_are_strings_or_tuples_of_integers() {
    let numbers = |numbers: &[i64]| tuple(&numbers.iter().map(|number| integer(*number)).collect::<Vec<_>>());
    takes("ip", r#""10.0.0.1""#, numbers(&[10, 0, 0, 1]), "10.0.0.1");
    takes("ip", r#""\u0031::ffff""#, numbers(&[1, 0, 0, 0, 0, 0, 0, 0xffff]), "1::ffff");
    takes("ip", r#""::ffff:1.2.3.4""#, numbers(&[0, 0, 0, 0, 0, 0xffff, 0x102, 0x304]), "1.2.3.4");
    let message = "expected an address as a string, or as a tuple of 4 or 8 integers as of `:inet`, given";
    for (given, kind) in [
        (r#""10.0.0""#, "a string"),
        (r#""10.0.0.0/8""#, "a string"),
        ("[1,2,3]", "a list"),
        ("[1,2,3,256]", "a list"),
        ("[0,0,0,0,0,0,0,65536]", "a list"),
        ("7", "an integer"),
    ] {
        refuses_json("ip", given, Kind::Type, 1, &format!("{message} {kind}"));
    }
    // The last of two values counts, and reuses the place of the first.
    let event = decoded(Format::Json, br#"{"ip": "1.2.3.4", "ip": "::2"}"#, &schema()).unwrap();
    assert_eq!(shown(&event, "ip"), "::2");
}

#[test]
fn frequency_caps_are_keyed_triples() {
    let key = |ty: &str| tuple(&[binary(ty.as_bytes()), integer(10), binary(b"ns")]);
    let cap = |ty: &str, micros| list(&[tuple(&[key(ty), integer(3), micros])]);
    let shown = "flight:ip 10 ns 3 Some(7)";
    takes("frequency_caps", r#"[[["flight:ip", 10, "ns"], 3, 7]]"#, cap("flight:ip", integer(7)), shown);
    takes("frequency_caps", r#"[[["product",10,"ns"],3,null]]"#, cap("product", atom("nil")), "product 10 ns 3 None");
    takes("frequency_caps", "", cap("product", atom("undefined")), "product 10 ns 3 None");
    let names = "flight, advertiser, campaign, campaign_group, product";
    let message = format!("expected a frequency cap's type, one of {names}, each also with `:ip`, given");
    refuses_json("frequency_caps", r#"[[["fly",1,"n"],3,7]]"#, Kind::Type, 4, &format!("{message} a string"));
    let unknown = cap("flight:IP", integer(7));
    refuses_term("frequency_caps", unknown, Kind::Type, &format!("{message} a binary"));
    let message = "expected a frequency cap's key as a triple of its type, id and namespace, given";
    refuses_json("frequency_caps", r#"[[["flight",1],3,7]]"#, Kind::Type, 3, &format!("{message} a list"));
    let message = "expected a frequency cap as a triple of its key, value and microseconds, given";
    let json = r#"[[["flight",1,"n"],3]]"#;
    refuses_json("frequency_caps", json, Kind::Type, 2, &format!("{message} a list"));
    refuses_term(
        "frequency_caps",
        list(&[key("flight")]),
        Kind::Type,
        "expected a frequency cap's key as a triple of its type, id and namespace, given a binary",
    );
}

#[test]
fn undefined_has_three_names() {
    for (name, _) in Type::NAMES {
        takes(name, "null", atom("nil"), "undefined");
        takes(name, "null", atom("undefined"), "undefined");
    }
}

#[test]
fn names_that_the_schema_lacks_are_passed_over() {
    let json = br#"{"x":[{"integer":1}],"integer":2,"integers":{},"":null,"\u0069nteger_enum":3}"#;
    let event = decoded(Format::Json, json, &schema()).unwrap();
    assert_eq!((shown(&event, "integer"), shown(&event, "integer_enum")), ("2".into(), "3".into()));
    let pairs = [
        tuple(&[atom("__struct__"), atom("Elixir.Event")]),
        tuple(&[binary(b"integer"), integer(2)]),
        tuple(&[atom("bits"), vec![77, 0, 0, 0, 1, 3, 160]]),
    ];
    let event = decoded(Format::Term, &[&[131], &list(&pairs)[..]].concat(), &schema()).unwrap();
    assert_eq!(shown(&event, "integer"), "2");
}

#[test]
fn of_a_name_given_twice_json_takes_the_last_and_terms_the_first() {
    let json = br#"{"integer_list":[1,2],"integer":1,"integer":2,"integer_list":null}"#;
    let event = decoded(Format::Json, json, &schema()).unwrap();
    assert_eq!((shown(&event, "integer"), shown(&event, "integer_list")), ("2".into(), "undefined".into()));
    let pairs = ["nil", "1", "2"].map(|value| {
        let value = value.parse().map_or_else(|_| atom(value), integer);
        tuple(&[atom("integer"), value])
    });
    let event = decoded(Format::Term, &[&[131], &list(&pairs)[..]].concat(), &schema()).unwrap();
    assert_eq!(shown(&event, "integer"), "1");
}

#[test]
fn bounds_are_for_expressions_alone() {
    let bounds = Bounds::Integer { min: 0, max: 9 };
    let attribute = Attribute { name: "integer".into(), ty: Type::Integer, optional: false, bounds };
    let event = decoded(Format::Json, br#"{"integer":10}"#, &Schema::new(vec![attribute]).unwrap()).unwrap();
    assert_eq!(event.values, [Value::Integer(10)]);
}

#[test]
fn a_required_attribute_must_be_defined() {
    let attribute =
        |name: &str, optional| Attribute { name: name.into(), ty: Type::Integer, optional, bounds: Bounds::Unbounded };
    let schema = Schema::new(vec![attribute("a", true), attribute("b", false)]).unwrap();
    let event = decoded(Format::Json, br#"{"b":1}"#, &schema).unwrap();
    assert_eq!(event.values, [Value::Undefined, Value::Integer(1)]);
    let record = [&[131], &tuple(&[integer(1), atom("nil")])[..]].concat();
    for (format, bytes) in [
        (Format::Json, &b"{}"[..]),
        (Format::Json, br#"{"b":null}"#),
        (Format::Term, &[131, 106]),
        (Format::Term, &map("b", &atom("undefined"))),
        (Format::Record, &record),
    ] {
        let error = decoded(format, bytes, &schema).unwrap_err();
        let message = "the event lacks attribute `b`; give it a value or declare it optional".into();
        assert_eq!(error, Error { kind: Kind::MissingAttribute, message, attribute: Some("b".into()), column: None });
    }
}

#[test]
fn records_may_write_booleans_as_bits() {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
    let schema = Schema::new(["a", "b", "c"].map(attribute).into()).unwrap();
    let expected = [true, false, true].map(Value::Boolean);
    let mixed = [&[131], &tuple(&[integer(1), atom("false"), integer(1)])[..]].concat();
    // Erlang writes a list of small integers as a string term. Other programs may write small integers as wide ones.
    let wide = [131, 104, 3, 98, 0, 0, 0, 1, 97, 0, 98, 0, 0, 0, 1];
    for bytes in [&mixed[..], &[131, 107, 0, 3, 1, 0, 1], &wide] {
        assert_eq!(decoded(Format::Record, bytes, &schema).unwrap().values, expected);
    }
    // 2, 256 and -1 where a boolean is expected.
    for bytes in [
        &[131, 107, 0, 3, 1, 2, 1][..],
        &[131, 104, 3, 97, 1, 98, 0, 0, 1, 0, 97, 1],
        &[131, 104, 3, 97, 1, 98, 255, 255, 255, 255, 97, 1],
    ] {
        let error = decoded(Format::Record, bytes, &schema).unwrap_err();
        assert_eq!(error.message, "attribute `b` of type boolean: expected true or false, given an integer");
        assert_eq!((error.kind, error.attribute), (Kind::Type, Some("b".into())));
    }
}

#[test]
fn records_have_one_value_for_each_attribute() {
    for count in [0, 8, 11, 13, 300] {
        let values = vec![atom("nil"); count];
        for record in [list(&values), tuple(&values)] {
            let error = decoded(Format::Record, &[&[131], &record[..]].concat(), &schema()).unwrap_err();
            let message = format!("the event has {count} values for 12 attributes; give one for each");
            assert_eq!(error, Error::new(Kind::Type, message));
        }
    }
}

#[test]
fn what_is_no_event_is_refused() {
    let message = "expected an event that is a JSON object, given a list";
    assert_eq!(decoded(Format::Json, b"[]", &schema()), Err(Error::new(Kind::Type, message).at(b"[]", 0)));
    let message = "expected an event that is a map or a list of pairs, given an integer";
    assert_eq!(decoded(Format::Term, &[131, 97, 3], &schema()), Err(Error::new(Kind::Type, message)));
    let message = "expected a pair of a name and a value in an event that is a list, given an integer";
    assert_eq!(decoded(Format::Term, &[131, 107, 0, 1, 3], &schema()), Err(Error::new(Kind::Type, message)));
    let message = "expected an atom or a binary as the name of an attribute, given a list of 1";
    let charlist = [131, 116, 0, 0, 0, 1, 107, 0, 1, 97, 97, 1];
    assert_eq!(decoded(Format::Term, &charlist, &schema()), Err(Error::new(Kind::Type, message)));
    let message = "expected an event that is a list or a tuple of values, given an atom";
    let nil = [&[131], &atom("nil")[..]].concat();
    assert_eq!(decoded(Format::Record, &nil, &schema()), Err(Error::new(Kind::Type, message)));
    for (format, bytes) in [
        (Format::Json, &b""[..]),
        (Format::Json, b"{} {}"),
        (Format::Term, b""),
        (Format::Term, &[131]),
        (Format::Term, &[131, 106, 0]),
        (Format::Record, &[131, 107, 0, 3]),
    ] {
        assert_eq!(decoded(format, bytes, &schema()).unwrap_err().kind, Kind::Syntax);
    }
}

#[test]
fn a_message_names_the_kind_of_a_value() {
    for (json, kind) in [
        ("\"x\"", "a string"),
        ("[1]", "a list"),
        ("{\"a\": 1}", "an object"),
        ("true", "a boolean"),
        ("-1.5", "a float"),
    ] {
        refuses_json("integer", json, Kind::Type, 1, &format!("expected an integer, given {kind}"));
    }
    refuses_json("boolean", "-12", Kind::Type, 1, "expected true or false, given an integer");
}

#[test]
fn an_event_is_filled_again_and_again() {
    let (schema, strings, mut event) = (schema(), Interner::default(), Event::default());
    for _ in 0..2 {
        let bytes = br#"{"string":"a","integer_list":[1],"string_list":["\u0061"]}"#;
        decode(Format::Json, bytes, &schema, &strings, &mut event).unwrap();
        let expected = [&bytes[..], b"a"].concat();
        assert_eq!((event.bytes.as_slice(), event.integers.as_slice()), (&expected[..], &[1][..]));
        decode(Format::Json, b"{", &schema, &strings, &mut event).unwrap_err();
    }
}

#[test]
fn records_of_erlang_give_every_value_as_what_it_is() {
    let records = |records: &[Vec<u8>]| [&[131], &list(records)[..]].concat();
    let record = |values: &[Vec<u8>]| tuple(&[&[atom("event")], values].concat());
    let schema = schema();
    let position = |name: &str| (schema.find(name.as_bytes()).unwrap()).index();
    let event = |values: &[Vec<u8>]| decoded(Format::Records, &records(&[record(values)]), &schema);
    let with = |name: &str, value: Vec<u8>| {
        let mut values = vec![atom("undefined"); schema.len()];
        values[position(name)] = value;
        event(&values)
    };

    // One record or several, with trailing values left out.
    let none = vec![Value::Undefined; schema.len()];
    assert_eq!(decoded(Format::Records, &records(&[]), &schema).unwrap().values, none);
    assert_eq!(event(&[]).unwrap().values, none);
    let [first, second] = [[atom("true")], [integer(7)]].map(|values| record(&values));
    let expected = [vec![Value::Boolean(true), Value::Integer(7)], none[2..].to_vec()].concat();
    for order in [&[first.clone(), second.clone()][..], &[first, record(&[]), second]] {
        assert_eq!(decoded(Format::Records, &records(order), &schema).unwrap().values, expected);
    }

    for (name, value) in
        [("boolean", atom("false")), ("integer", integer(-1)), ("float", float(0.5)), ("string", binary(b"a"))]
    {
        assert_ne!(with(name, value).unwrap().values[position(name)], Value::Undefined);
    }
    let wrong = [
        ("boolean", integer(1)),
        ("boolean", atom("nil")),
        ("integer", float(1.0)),
        ("float", integer(1)),
        ("string", atom("a")),
        ("string_list", list(&[atom("a")])),
        ("integer_list", list(&[atom("undefined")])),
        (
            "frequency_caps",
            list(&[tuple(&[tuple(&[atom("flight"), integer(1), binary(b"ns")]), integer(1), atom("undefined")])]),
        ),
    ];
    for (name, value) in wrong {
        assert_eq!(with(name, value).unwrap_err().kind, Kind::Type, "{name}");
    }
    let mut too_many = vec![atom("undefined"); schema.len() + 1];
    assert_eq!(event(&too_many).unwrap().values, none);
    too_many[schema.len()] = atom("true");
    assert_eq!(event(&too_many).unwrap_err().kind, Kind::Type);
    for malformed in [atom("event"), list(&[atom("event")]), list(&[tuple(&[])])] {
        let error = decoded(Format::Records, &[&[131], &malformed[..]].concat(), &schema).unwrap_err();
        assert_eq!(error.kind, Kind::Type);
    }
}

/// Returns a schema of optional attributes.
fn schema_of(attributes: &[(&str, Type)]) -> Schema {
    let attribute =
        |&(name, ty): &(&str, _)| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    Schema::new(attributes.iter().map(attribute).collect()).unwrap()
}

#[test]
fn fields_of_maps_are_attributes() {
    let (integer, undefined) = (Value::Integer, Value::Undefined);
    let schema = schema_of(&[("u.a", Type::Integer), ("u.v.b", Type::Integer), ("`u.a`", Type::Integer)]);
    for (json, expected) in [
        (r#"{"u":{"a":1,"v":{"b":2}}}"#, [integer(1), integer(2), undefined]),
        // Only a map has fields; a point in a name is part of the name.
        (r#"{"u.a":3}"#, [undefined, undefined, integer(3)]),
        (r#"{"u":{"v":{"b":2,"v":{"b":9}},"b":7,"u":{"a":5}},"a":8,"v":{"b":7}}"#, [undefined, integer(2), undefined]),
        (r#"{}"#, [undefined, undefined, undefined]),
        (r#"{"u":null}"#, [undefined, undefined, undefined]),
        (r#"{"u":{"v":null,"a":1}}"#, [integer(1), undefined, undefined]),
        // The last object of a name replaces the earlier ones, nested values included.
        (r#"{"u":{"a":1,"v":{"b":2}},"u":{"v":{}}}"#, [undefined, undefined, undefined]),
        (r#"{"u":{"v":{"b":2},"v":{},"a":1}}"#, [integer(1), undefined, undefined]),
        (r#"{"u":{"v":{"b":2},"v":null,"a":1}}"#, [integer(1), undefined, undefined]),
        (r#"{"u":{"v":{"b":2}},"u":{"a":4},"u":{"v":{"b":3}}}"#, [undefined, integer(3), undefined]),
        (r#"{"u":{"a":1},"u":null}"#, [undefined, undefined, undefined]),
        (r#"{"u":{"a":1,"a":null}}"#, [undefined, undefined, undefined]),
    ] {
        let event = decoded(Format::Json, json.as_bytes(), &schema).unwrap();
        assert_eq!(event.values, expected, "{json}");
    }
}

#[test]
fn of_repeated_maps_in_terms_the_first_counts() {
    let schema = schema_of(&[("u.a", Type::Integer), ("u.b", Type::Integer)]);
    let pair = |name: &str, value: &[u8]| tuple(&[binary(name.as_bytes()), value.to_vec()]);
    let u = |fields: &[Vec<u8>]| pair("u", &list(fields));
    let events = [
        vec![u(&[pair("a", &integer(1))]), u(&[pair("a", &integer(2)), pair("b", &integer(3))])],
        vec![pair("u", &atom("nil")), u(&[pair("a", &integer(1))]), pair("u", &integer(9))],
        vec![u(&[pair("a", &atom("nil")), pair("a", &integer(1)), pair("a", &integer(2))])],
    ];
    for event in events {
        let bytes = [&[131], &list(&event)[..]].concat();
        let event = decoded(Format::Term, &bytes, &schema).unwrap();
        assert_eq!(event.values, [Value::Integer(1), Value::Undefined]);
    }
}

#[test]
fn errors_name_the_path() {
    let schema = schema_of(&[("u.v.a", Type::Integer)]);
    for (json, message, attribute) in [
        (r#"{"u":3}"#, "`u` has fields that are attributes: expected a JSON object, given an integer", "u"),
        (r#"{"u":{"v":[]}}"#, "`u.v` has fields that are attributes: expected a JSON object, given a list", "u.v"),
        (r#"{"u":{"v":{"a":"x"}}}"#, "attribute `u.v.a` of type integer: expected an integer, given a string", "u.v.a"),
    ] {
        let error = decoded(Format::Json, json.as_bytes(), &schema).unwrap_err();
        assert_eq!((error.kind, error.attribute.as_deref()), (Kind::Type, Some(attribute)), "{json}");
        assert_eq!(error.message, message);
        assert!(error.column.is_some());
    }
    let error = decoded(Format::Json, br#"{"u":{"v":"#, &schema).unwrap_err();
    assert_eq!(error.kind, Kind::Syntax);
}

#[test]
fn any_nesting_of_known_maps_is_read() {
    let names = vec!["m"; 20_000].join(".");
    let schema = schema_of(&[(&names, Type::Integer)]);
    let json = [&br#"{"m":"#.repeat(20_000)[..], b"5", &b"}".repeat(20_000)].concat();
    assert_eq!(decoded(Format::Json, &json, &schema).unwrap().values, [Value::Integer(5)]);
}

#[test]
fn values_are_converted_if_the_attribute_asks() {
    let mut schema = schema();
    let plain = schema.clone();
    for attribute in &plain.attributes()[..7] {
        schema.convert(&attribute.name).unwrap();
    }
    let segments = &plain.attributes()[7].name;
    assert!(schema.convert(segments).is_err());
    let text = |json: &str, name: &str| {
        let id = schema.find(name.as_bytes()).unwrap();
        let event = decoded(Format::Json, json.as_bytes(), &schema)?;
        Ok::<_, Error>(match event.values[id.index()] {
            Value::String(text) => format!("{:?}", String::from_utf8_lossy(event.text(text))),
            Value::Integers(span) => format!("{:?}", span.of(&event.integers)),
            Value::Strings(span) => {
                let strings = span.of(&event.strings).iter().map(|text| String::from_utf8_lossy(event.text(*text)));
                format!("{:?}", strings.collect::<Vec<_>>())
            }
            value => format!("{value:?}"),
        })
    };
    for (name, json, expected) in [
        ("boolean", "true", "Boolean(true)"),
        ("boolean", "\"false\"", "Boolean(false)"),
        ("integer", "7", "Integer(7)"),
        ("integer", "\"-42\"", "Integer(-42)"),
        ("integer", "4.2e1", "Integer(42)"),
        ("integer_enum", "\"3\"", "Integer(3)"),
        ("float", "\"2.5e-1\"", "Float(0.25)"),
        ("float", "3", "Float(3.0)"),
        ("string", "-12", "\"-12\""),
        ("string", "true", "\"true\""),
        ("string", "\"a\"", "\"a\""),
        ("integer_list", "[\"3\", 1.0, 2]", "[1, 2, 3]"),
        ("integer_list", "\"3\"", "[3]"),
        ("string_list", "[\"a\", 1, false]", "[\"a\", \"1\", \"false\"]"),
        ("string_list", "\"a\"", "[\"a\"]"),
        ("string_list", "null", "Undefined"),
    ] {
        let json = format!("{{\"{name}\": {json}}}");
        assert_eq!(text(&json, name).unwrap(), expected, "{json}");
    }
    for (name, value) in [
        ("boolean", "1"),
        ("boolean", "\"yes\""),
        ("integer", "4.5"),
        ("integer", "\"4.0\""),
        ("integer", "\" 4\""),
        ("integer", "true"),
        ("integer", "1e300"),
        ("float", "\"\""),
        ("float", "\"1e999\""),
        ("string", "1.5"),
        ("string", "[1]"),
        ("integer_list", "[\"x\"]"),
        ("integer_list", "[null]"),
        ("string_list", "[[]]"),
        ("string_list", "{}"),
    ] {
        let json = format!("{{\"{name}\": {value}}}");
        let (error, strict) =
            (text(&json, name).unwrap_err(), decoded(Format::Json, json.as_bytes(), &plain).unwrap_err());
        assert_eq!((error.kind, error.attribute.as_deref()), (Kind::Type, Some(name)), "{json}");
        assert_eq!(strict.kind, Kind::Type);
    }
    let error = text(r#"{"integer": "9223372036854775808"}"#, "integer").unwrap_err();
    assert_eq!(error.message, "attribute `integer` of type integer: expected an integer, given a string");
    // A term's atoms and floats too.
    for (value, expected) in [(float(42.0), 42), (binary(b"42"), 42), (atom("42"), 42), (integer(42), 42)] {
        let event = decoded(Format::Term, &map("integer", &value), &schema).unwrap();
        assert_eq!(event.values[1], Value::Integer(expected));
    }
}

#[test]
fn strict_formats_refuse_names_that_the_schema_lacks() {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
    let schema = Schema::new(["age", "user.age", "user.address.zip", "`a b`"].map(attribute).into()).unwrap();
    let check = |json: &str| match decoded(Format::StrictJson, json.as_bytes(), &schema) {
        Ok(event) => {
            assert_eq!(event.values, decoded(Format::Json, json.as_bytes(), &schema).unwrap().values);
            None
        }
        Err(error) => Some((error.kind, error.attribute.unwrap_or_default(), error.message)),
    };
    assert_eq!(check(r#"{"age": 1, "user": {"age": 2, "address": {"zip": 3}}, "a b": 4, "age": 5}"#), None);
    assert_eq!(check(r#"{"user": null, "age": null}"#), None);
    for (json, attribute, mend) in [
        (r#"{"age": 1, "agee": 2}"#, "agee", "did you mean `age`?"),
        (r#"{"user": {"adress": {"zip": 3}}}"#, "user.adress", "the schema has no attribute `user.adress`"),
        (r#"{"user": {"address": {"zap": 3}}}"#, "user.address.zap", "did you mean `user.address.zip`?"),
        (r#"{"zip": 3}"#, "zip", "did you mean `user.address.zip`?"),
        (r#"{"a c": 3}"#, "`a c`", "did you mean `a b`?"),
        (r#"{"completely": [{"other": 1}]}"#, "completely", "or search without `strict`"),
    ] {
        let (kind, about, message) = check(json).expect(json);
        assert_eq!((kind, &*about), (Kind::UnknownAttribute, attribute), "{json}: {message}");
        assert!(message.contains(mend), "{json}: {message}");
    }
    // The strict format reports other faults as the lenient one does.
    for json in [r#"{"user": 3}"#, r#"{"age": "x"}"#, r#"{"age": 1"#, "[]", r#"{"user": {"age": }}"#] {
        let [strict, other] =
            [Format::StrictJson, Format::Json].map(|format| decoded(format, json.as_bytes(), &schema).unwrap_err());
        assert_eq!((strict.kind, strict.column, strict.message), (other.kind, other.column, other.message), "{json}");
    }
    let known = map("age", &integer(7));
    assert_eq!(decoded(Format::StrictTerm, &known, &schema).unwrap().values[0], Value::Integer(7));
    let unknown = decoded(Format::StrictTerm, &map("aeg", &integer(7)), &schema).unwrap_err();
    assert_eq!((unknown.kind, unknown.attribute.as_deref()), (Kind::UnknownAttribute, Some("aeg")));
    let long = format!("{{\"{}\": 1}}", "x".repeat(100_000));
    let error = decoded(Format::StrictJson, long.as_bytes(), &schema).unwrap_err();
    assert!(error.message.len() < 500 && error.attribute.unwrap().len() < 500);
}
