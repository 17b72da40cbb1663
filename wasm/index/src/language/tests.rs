use crate::language::*;
use crate::model::predicate::{CapType, Constants, Entity, Float, Predicate, Relation, Step, Test, Text};
use crate::model::schema::{Attribute, AttributeId, Bounds, Type};

const CONSTANTS: [(&[u8], i64); 2] = [(b"flight_id", 10), (b"campaign_group_id", 40)];

/// Returns a schema with an attribute of each type. Their ids are their positions.
fn schema() -> Schema {
    schema_of(&[
        ("b", Type::Boolean, Bounds::Unbounded),
        ("i", Type::Integer, Bounds::Integer { min: -9, max: 99 }),
        ("f", Type::Float, Bounds::Float { min: -1.5, max: 99.5 }),
        ("country", Type::String, Bounds::Count(2)),
        ("ie", Type::IntegerEnum, Bounds::Count(2)),
        ("il", Type::IntegerList, Bounds::Integer { min: 0, max: 9 }),
        ("sl", Type::StringList, Bounds::Unbounded),
        ("seg", Type::Segments, Bounds::Unbounded),
        ("frequency_caps", Type::FrequencyCaps, Bounds::Unbounded),
        ("segments_with_timestamp", Type::Segments, Bounds::Unbounded),
        ("latitude", Type::Float, Bounds::Unbounded),
        ("longitude", Type::Float, Bounds::Unbounded),
        ("now", Type::Integer, Bounds::Unbounded),
        ("wide", Type::Integer, Bounds::Unbounded),
        ("free", Type::Float, Bounds::Unbounded),
        ("of", Type::Boolean, Bounds::Unbounded),
        ("a-1", Type::Boolean, Bounds::Unbounded),
        ("contains", Type::Boolean, Bounds::Unbounded),
        ("is", Type::IntegerList, Bounds::Unbounded),
    ])
}

fn schema_of(attributes: &[(&str, Type, Bounds)]) -> Schema {
    let declared =
        attributes.iter().map(|&(name, ty, bounds)| Attribute { name: name.into(), ty, optional: true, bounds });
    Schema::new(declared.collect()).unwrap()
}

fn id(name: &str) -> AttributeId {
    schema().find(name.as_bytes()).unwrap()
}

fn steps(text: &str) -> Postfix {
    read(text.as_bytes(), &schema(), &CONSTANTS).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Checks that `text` means exactly this test of `attribute`.
#[track_caller]
fn means(text: &str, attribute: &str, test: Test<Text>) {
    assert_eq!(steps(text), [Step::Predicate(Predicate { attribute: id(attribute), test })], "{text}");
}

/// Checks that reading `text` fails with this error, and that the message contains `saying`.
#[track_caller]
fn fails(text: &str, kind: Kind, column: usize, attribute: Option<&str>, saying: &str) {
    fails_in(&schema(), text, kind, column, attribute, saying);
}

#[track_caller]
fn fails_in(schema: &Schema, text: &str, kind: Kind, column: usize, attribute: Option<&str>, saying: &str) {
    let error = read(text.as_bytes(), schema, &CONSTANTS).expect_err(text);
    let found = (error.kind, error.column, error.attribute.as_deref());
    assert_eq!(found, (kind, Some(column), attribute), "{text}: {error}");
    assert!(error.message.contains(saying), "{text}: {error}");
}

fn text(bytes: &str) -> Text {
    bytes.as_bytes().into()
}

fn integers(constants: &[i64]) -> Constants<Text> {
    Constants::Integers(constants.into())
}

fn strings(constants: &[&str]) -> Constants<Text> {
    Constants::Strings(constants.iter().map(|s| text(s)).collect())
}

/// Returns the canonical text of `expression`.
fn printed(expression: &str) -> String {
    expression_text(&steps(expression), &schema(), |text| text)
}

#[test]
fn comparisons() {
    for (symbol, mirrored, relation) in [
        ("<", ">", Relation::Less),
        ("<=", ">=", Relation::LessOrEqual),
        (">", "<", Relation::Greater),
        (">=", "<=", Relation::GreaterOrEqual),
        ("=", "=", Relation::Equal),
        ("<>", "<>", Relation::NotEqual),
    ] {
        means(&format!("i {symbol} 3"), "i", Test::Integer(relation, 3));
        means(&format!("3 {mirrored} i"), "i", Test::Integer(relation, 3));
        means(&format!("i{symbol}-3"), "i", Test::Integer(relation, -3));
        means(&format!("f {symbol} 3.25"), "f", Test::Float(relation, Float::new(3.25)));
        means(&format!("3.25{mirrored}f"), "f", Test::Float(relation, Float::new(3.25)));
    }
    means("ie = 3", "ie", Test::Integer(Relation::Equal, 3));
    means("3 <> ie", "ie", Test::Integer(Relation::NotEqual, 3));
    means("country = 'CA'", "country", Test::StringEqual(text("CA")));
    means("\"CA\" <> country", "country", Test::StringNotEqual(text("CA")));
    means("b", "b", Test::True);
}

#[test]
fn numbers() {
    for (number, float) in [
        ("3", 3.0),
        ("-0", 0.0),
        ("-0.0", 0.0),
        ("1.", 1.0),
        ("1e3", 1e3),
        ("1E+3", 1e3),
        ("2.5e-3", 2.5e-3),
        ("-1.5", -1.5),
        ("9223372036854775808", 9223372036854775808.0),
        ("1e-999", 0.0),
    ] {
        means(&format!("free = {number}"), "free", Test::Float(Relation::Equal, Float::new(float)));
    }
    means("wide > -9223372036854775808", "wide", Test::Integer(Relation::Greater, i64::MIN));
    means("wide > 9223372036854775807", "wide", Test::Integer(Relation::Greater, i64::MAX));
    means("wide = 007", "wide", Test::Integer(Relation::Equal, 7));
    fails("wide > 9223372036854775808", Kind::OutOfBounds, 8, Some("wide"), "does not fit 64 bits");
    fails("1e999 < free", Kind::OutOfBounds, 1, Some("free"), "does not fit a 64-bit float");
    fails("wide = 3.0", Kind::Type, 8, Some("wide"), "takes an integer, found the float `3.0`; write it without");
    fails("wide = - 3", Kind::Syntax, 8, None, "right before the digits");
    fails("wide = .5", Kind::Syntax, 8, None, "`0.5`");
    fails("wide = +5", Kind::Syntax, 8, None, "without `+`");
    fails("3in il", Kind::Syntax, 1, None, "`3in` is neither a number nor a name");
    fails("free = 1.2.3", Kind::Syntax, 8, None, "`1.2.3`");
    fails("free = 1e", Kind::Syntax, 8, None, "`1e`");
    fails("free = 1e+", Kind::Syntax, 8, None, "`1e`");
}

#[test]
fn strings_and_escapes() {
    means(r#"country = "it's""#, "country", Test::StringEqual(text("it's")));
    means(r#"country = '\\\'\"\n\r\t'"#, "country", Test::StringEqual(text("\\'\"\n\r\t")));
    means(r"country = 'a\\\\n\\b'", "country", Test::StringEqual(text(r"a\\n\b")));
    means("country = ''", "country", Test::StringEqual(text("")));
    means("country = 'é\n(and'", "country", Test::StringEqual(text("é\n(and")));
    fails("b and country = 'CA", Kind::Syntax, 17, None, "never ends");
    fails(r"country = 'CA\'", Kind::Syntax, 11, None, "never ends");
    fails(r"country = 'CA\", Kind::Syntax, 11, None, "never ends");
    fails(r"country = 'é\d'", Kind::Syntax, 13, None, r"write `\\`");
    fails("country = CA", Kind::Syntax, 11, None, "strings are in quotes");
    fails("country = 3", Kind::Type, 11, Some("country"), "takes a string, found the integer `3`; put it in quotes");
    fails("country in (CA)", Kind::Syntax, 13, Some("country"), "put it in quotes");
}

#[test]
fn strings_end_and_have_escapes_at_every_position() {
    for len in 0..40 {
        let plain = "x\"é".chars().cycle().take(len).collect::<String>();
        means(&format!("country = '{plain}'"), "country", Test::StringEqual(text(&plain)));
        means(&format!("country = '{plain}' "), "country", Test::StringEqual(text(&plain)));
        fails(&format!("country = '{plain}"), Kind::Syntax, 11, None, "never ends");
        let (before, behind) = plain.split_at(plain.floor_char_boundary(len / 2));
        let escaped = format!("{before}'\\{behind}");
        means(&format!(r"country = '{before}\'\\{behind}'"), "country", Test::StringEqual(text(&escaped)));
    }
}

#[test]
fn membership() {
    means("i in (3, 1, 3, 2)", "i", Test::OneOf(integers(&[1, 2, 3])));
    means("i not in (3)", "i", Test::NoneOf(integers(&[3])));
    means("ie in (3,1)", "ie", Test::OneOf(integers(&[1, 3])));
    means("country in ('US', \"CA\", 'US')", "country", Test::OneOf(strings(&["CA", "US"])));
    means("country not in ()", "country", Test::NoneOf(strings(&[])));
    means("3 in il", "il", Test::OneOf(integers(&[3])));
    means("3 not in il", "il", Test::NoneOf(integers(&[3])));
    means("'a' in sl", "sl", Test::OneOf(strings(&["a"])));
    means("'a' not in sl", "sl", Test::NoneOf(strings(&["a"])));
    means("il one of (2, 1)", "il", Test::OneOf(integers(&[1, 2])));
    means("il none of ()", "il", Test::NoneOf(integers(&[])));
    means("sl all of ('b', 'a')", "sl", Test::AllOf(strings(&["a", "b"])));
    fails("il in (1)", Kind::Type, 1, Some("il"), "use `one of`");
    fails("i one of (1)", Kind::Type, 1, Some("i"), "`i in (1, 2)`");
    fails("3 in i", Kind::Type, 6, Some("i"), "is of type integer");
    fails("f in (1.0)", Kind::Type, 1, Some("f"), "`f > 1.5`");
    fails("i in (1, 'a')", Kind::Type, 10, Some("i"), "takes an integer, found the string `'a'`");
    fails("sl one of ('a', 2)", Kind::Type, 17, Some("sl"), "put it in quotes");
    fails("i in (1, 100)", Kind::OutOfBounds, 10, Some("i"), "-9 to 99");
    fails("10 in il", Kind::OutOfBounds, 1, Some("il"), "0 to 9");
    fails("i in (1 2)", Kind::Syntax, 9, None, "expected `,` or `)`, found the integer `2`");
    fails("i in (1,)", Kind::Syntax, 9, None, "expected a constant, found `)`");
    fails("i in (1", Kind::Syntax, 8, None, "found the end of the text");
    fails("i in 1", Kind::Syntax, 6, None, "a list of constants in parentheses");
    fails("i in [1]", Kind::Syntax, 6, None, "lists are in parentheses");
    fails("i not (1)", Kind::Syntax, 7, None, "expected `in`, `like`, `matches` or `between` after `not`");
    fails("3 in (1, 2)", Kind::Syntax, 6, None, "expected a list attribute");
    fails("il one (1)", Kind::Syntax, 8, None, "expected `of`");
    fails("il one in (1)", Kind::Syntax, 8, None, "expected `of`, found `in`");
}

#[test]
fn constants_in_parentheses_are_plain_constants() {
    means("i > (5)", "i", Test::Integer(Relation::Greater, 5));
    means("((i <= ((5))))", "i", Test::Integer(Relation::LessOrEqual, 5));
    means("5 < (i)", "i", Test::Integer(Relation::Greater, 5));
    means("f = (2)", "f", Test::Float(Relation::Equal, Float::new(2.0)));
    fails("i > (2.5)", Kind::Type, 6, Some("i"), "takes an integer");
    fails("i > (100)", Kind::OutOfBounds, 6, Some("i"), "-9 to 99");
    assert_eq!(printed("i > (2 + 3)"), "i > 2 + 3");
}

#[test]
fn null_and_empty() {
    for name in ["b", "i", "f", "country", "ie", "il", "sl", "seg", "frequency_caps"] {
        means(&format!("{name} is null"), name, Test::Null);
        means(&format!("{name} is not null"), name, Test::NotNull);
    }
    for name in ["il", "sl", "seg", "frequency_caps"] {
        means(&format!("{name} is empty"), name, Test::Empty);
    }
    fails("i is empty", Kind::Type, 1, Some("i"), "cannot be used so");
    fails("country starts_with 'a'", Kind::Type, 1, Some("country"), "`starts_with(s, 'x')`");
    fails("i is", Kind::Syntax, 5, None, "`null`, `not null` or `empty`");
    fails("i is not empty", Kind::Syntax, 10, None, "expected `null` after `is not`, found `empty`");
}

#[test]
fn substrings() {
    means("contains(country, 'a')", "country", Test::Contains(text("a")));
    means("starts_with ( country , '' )", "country", Test::StartsWith(text("")));
    means("ends_with(country,\"é\")", "country", Test::EndsWith(text("é")));
    fails("contains(i, 'a')", Kind::Type, 10, Some("i"), "reads an attribute of type string");
    fails("contains('a', country)", Kind::Syntax, 10, None, "expected the name of an attribute");
    fails("contains(country, 3)", Kind::Type, 19, None, "the second argument of `contains` takes a string");
    fails("contains(country)", Kind::Syntax, 1, None, "takes (attribute, string), found 1 argument");
    fails("b and contain(country, 'a')", Kind::Syntax, 7, None, "the functions are");
    fails("b(1)", Kind::Syntax, 1, None, "an attribute has no `(`");
    fails("NOT (b)", Kind::Syntax, 1, None, "write `not`");
}

#[test]
fn geo() {
    let test = |latitude, longitude, radius| Test::GeoWithinRadius {
        longitude_attribute: id("longitude"),
        latitude: Float::new(latitude),
        longitude: Float::new(longitude),
        radius: Float::new(radius),
    };
    means("geo_within_radius(45, -73.5, 1e1)", "latitude", test(45.0, -73.5, 10.0));
    fails("geo_within_radius(45, 'a', 1)", Kind::Type, 23, None, "the longitude of `geo_within_radius` takes a number");
    fails("geo_within_radius(45, 1)", Kind::Syntax, 1, None, "found 2 arguments");
    let bare = schema_of(&[("latitude", Type::Float, Bounds::Unbounded)]);
    fails_in(
        &bare,
        "geo_within_radius(1, 2, 3)",
        Kind::UnknownAttribute,
        1,
        Some("longitude"),
        "declare `longitude` as float",
    );
    let wrong = schema_of(&[("latitude", Type::Integer, Bounds::Unbounded)]);
    fails_in(&wrong, "not geo_within_radius(1, 2, 3)", Kind::Type, 5, Some("latitude"), "declare it as float");
}

#[test]
fn segments() {
    let now = id("now");
    means("segment_within(seg, 1, 20)", "seg", Test::SegmentWithin { now, id: 1, seconds: 20 });
    means("segment_before(seg, -1, -20)", "seg", Test::SegmentBefore { now, id: -1, seconds: -20 });
    means("segment_within(1, 20)", "segments_with_timestamp", Test::SegmentWithin { now, id: 1, seconds: 20 });
    means("segment_before(1, 20)", "segments_with_timestamp", Test::SegmentBefore { now, id: 1, seconds: 20 });
    fails("segment_within(il, 1, 20)", Kind::Type, 16, Some("il"), "type segments");
    fails("segment_within(seg, 1)", Kind::Syntax, 16, None, "the segment's id of `segment_within` takes an integer");
    fails("segment_within(1)", Kind::Syntax, 1, None, "found 1 argument");
    fails("segment_within(seg, 1.5, 2)", Kind::Type, 21, None, "takes an integer, found the float");
    let bare = schema_of(&[("seg", Type::Segments, Bounds::Unbounded)]);
    fails_in(&bare, "segment_within(seg, 1, 20)", Kind::UnknownAttribute, 1, Some("now"), "declare `now` as integer");
    fails_in(&bare, "segment_before(1, 20)", Kind::UnknownAttribute, 1, Some("segments_with_timestamp"), "as segments");
}

#[test]
fn frequency_caps() {
    let test = |entity, by_ip, id_| Test::WithinFrequencyCap {
        now: id("now"),
        cap: CapType { entity, by_ip },
        id: id_,
        namespace: text("ns"),
        value: 100,
        seconds: 0,
    };
    means("within_frequency_cap('flight', \"ns\", 100, 0)", "frequency_caps", test(Entity::Flight, false, 10));
    means(
        "within_frequency_cap('campaign_group:ip', 'ns', 100, 0)",
        "frequency_caps",
        test(Entity::CampaignGroup, true, 40),
    );
    fails(
        "b and within_frequency_cap('product', 'ns', 100, 0)",
        Kind::MissingAttribute,
        7,
        Some("product_id"),
        "constants: [product_id: 1]",
    );
    fails("within_frequency_cap('plane', 'ns', 1, 0)", Kind::Type, 22, None, "found the string `'plane'`");
    fails("within_frequency_cap(flight, 'ns', 1, 0)", Kind::Syntax, 22, None, "put it in quotes");
    fails("within_frequency_cap('flight', 'ns', 1)", Kind::Syntax, 1, None, "found 3 arguments");
    let bare = schema_of(&[("now", Type::Integer, Bounds::Unbounded)]);
    let cap = "within_frequency_cap('flight', 'ns', 1, 2)";
    fails_in(&bare, cap, Kind::UnknownAttribute, 1, Some("frequency_caps"), "as frequency_caps");
    let given: [(&[u8], i64); 2] = [(b"flight_id", 1), (b"flight_id", 2)];
    let Step::Predicate(predicate) = &read(cap.as_bytes(), &schema(), &given).unwrap()[0] else { panic!() };
    assert!(matches!(predicate.test, Test::WithinFrequencyCap { id: 1, .. }), "the first of two counts");
}

#[test]
fn connectives_by_precedence() {
    for (written, canonical) in [
        ("true", "true"),
        ("((false))", "false"),
        ("b || of && a-1", "b or of and a-1"),
        ("(b or of) and a-1", "(b or of) and a-1"),
        ("b and (of and a-1)", "b and (of and a-1)"),
        ("(b and of) and a-1", "b and of and a-1"),
        ("b or (of or a-1) or b", "b or (of or a-1) or b"),
        ("not b and not (of)", "not b and not of"),
        ("not(b and of)", "not (b and of)"),
        ("not not not b", "not not not b"),
        ("not i>-3", "not i > -3"),
        ("not (3 in il or b)", "not (il one of (3) or b)"),
        ("i=3&&b||'x'<>country", "i = 3 and b or country <> 'x'"),
        ("is one of (1) and is is null", "is one of (1) and is is null"),
        ("contains and of", "contains and of"),
    ] {
        assert_eq!(printed(written), canonical, "{written}");
        assert_eq!(steps(written), steps(canonical), "{written}");
    }
    let [b, of] = ["b", "of"].map(|name| Step::Predicate(Predicate { attribute: id(name), test: Test::True }));
    let expected = [b.clone(), of.clone(), Step::Not, Step::And, b, Step::Constant(true), Step::And, Step::Or];
    assert_eq!(steps("b and not of or b and true"), expected);
}

#[test]
fn canonical_predicates() {
    for (written, canonical) in [
        ("21 <= i", "i >= 21"),
        ("free = 3", "free = 3.0"),
        ("free < 1e300", "free < 1e300"),
        ("free < 0.1", "free < 0.1"),
        ("i in (2,1)", "i in (1, 2)"),
        ("i not in ()", "i not in ()"),
        ("country in (\"it's\", 'a\\n')", r"country in ('a\n', 'it\'s')"),
        ("country = 'C:\\\\'", r"country = 'C:\\'"),
        ("'x' not in sl", "sl none of ('x')"),
        ("il all of (1)", "il all of (1)"),
        ("il is empty", "il is empty"),
        ("il is not null", "il is not null"),
        ("starts_with(country, 'a')", "starts_with(country, 'a')"),
        ("ends_with(country, 'a')", "ends_with(country, 'a')"),
        ("geo_within_radius(1, 2.5, 3)", "geo_within_radius(1.0, 2.5, 3.0)"),
        ("segment_within(1, 2)", "segment_within(segments_with_timestamp, 1, 2)"),
        ("segment_before(seg, 1, 2)", "segment_before(seg, 1, 2)"),
        ("within_frequency_cap(\"flight:ip\", 'n', 1, 2)", "within_frequency_cap('flight:ip', 'n', 1, 2)"),
    ] {
        assert_eq!(printed(written), canonical);
        assert_eq!(steps(written), steps(canonical));
        let Step::Predicate(predicate) = &steps(written)[0] else { panic!("{written}") };
        assert_eq!(predicate_text(predicate, &schema(), |text| text), canonical);
    }
}

#[test]
fn broken_grammar() {
    fails("", Kind::Syntax, 1, None, "found the end of the text");
    fails(" \n", Kind::Syntax, 3, None, "found the end of the text");
    fails("b and", Kind::Syntax, 6, None, "expected an attribute");
    fails("b and and b", Kind::Syntax, 7, None, "found `and`");
    fails("b of", Kind::Syntax, 3, None, "expected `and`, `or` or the end of the expression, found `of`");
    fails("b AND of", Kind::Syntax, 3, None, "keywords are lower case: write `and`");
    fails("not", Kind::Syntax, 4, None, "expected an attribute");
    fails("i IN (1)", Kind::Syntax, 3, None, "keywords are lower case: write `in`");
    fails("1 In il", Kind::Syntax, 3, None, "keywords are lower case: write `in`");
    fails("country NOT in ('CA')", Kind::Syntax, 9, None, "keywords are lower case: write `not`");
    fails("Not b", Kind::UnknownAttribute, 1, Some("Not"), "keywords are lower case: write `not`");
    fails("b and NOT (b)", Kind::Syntax, 7, None, "keywords are lower case: write `not`");
    fails("il ONE OF (1)", Kind::Syntax, 4, None, "keywords are lower case: write `one`");
    fails("i Between 1 and 2", Kind::Syntax, 3, None, "keywords are lower case: write `between`");
    fails("country Like 'a'", Kind::Syntax, 9, None, "keywords are lower case: write `like`");
    fails("i IS null", Kind::Syntax, 3, None, "keywords are lower case: write `is`");
    fails("country == 'CA'", Kind::Syntax, 9, None, "`==` is no operator; write `=`");
    fails("()", Kind::Syntax, 2, None, "found `)`");
    fails("b and ((of) or b", Kind::Syntax, 17, None, "expected `)` for the `(` at column 7");
    fails("b)", Kind::Syntax, 2, None, "no `(` is open");
    fails("i == 3", Kind::Syntax, 3, None, "write `=`");
    fails("i != 3", Kind::Syntax, 3, None, "write `<>`");
    fails("!b", Kind::Syntax, 1, None, "write `not`");
    fails("b & of", Kind::Syntax, 3, None, "write `and` or `&&`");
    fails("b | of", Kind::Syntax, 3, None, "write `or` or `||`");
    fails("3 < 4", Kind::Type, 1, None, "neither side names an attribute");
    fails("'a' = 4", Kind::Syntax, 7, None, "expected an attribute to compare the constant with");
    fails("3 < i < 5", Kind::Syntax, 7, None, "found `<`");
    fails("3", Kind::Syntax, 2, None, "expected a comparison or `in` after the constant");
    fails("i >", Kind::Syntax, 4, None, "expected a constant");
    fails("i > wid", Kind::UnknownAttribute, 5, Some("wid"), "did you mean `wide`?");
    fails("i > country", Kind::Type, 5, Some("country"), "one computes with numbers");
    fails("country > contains", Kind::Type, 1, Some("country"), "one computes with numbers");
    fails("i + 1", Kind::Syntax, 6, None, "expected a comparison after the computed number");
    fails("i + > 1", Kind::Syntax, 5, None, "expected a number, an attribute or `(`");
    fails("i * (2 + 1 > 1", Kind::Syntax, 12, None, "`)` for the `(` at column 5");
    fails("size(country) > 1", Kind::Type, 6, Some("country"), "`size` takes a list");
    fails("length(il) > 1", Kind::Type, 8, Some("il"), "`length` takes a string");
    fails("i between 1 or 2", Kind::Syntax, 13, None, "`and` and the upper bound");
    fails("i between 1 and 200", Kind::OutOfBounds, 17, Some("i"), "outside the bounds");
    fails("country between 'a' and 'b'", Kind::Type, 9, Some("country"), "compare it with `=`");
    let long = format!("i > {}1", "i + ".repeat(200));
    fails(&long, Kind::OutOfBounds, 5, None, "more than 256");
    let deep = format!("i > {}1{}", "(i + ".repeat(20), ")".repeat(20));
    fails(&deep, Kind::OutOfBounds, 6, None, "more than 16 numbers at a time");
    fails("b # c", Kind::Syntax, 3, None, "`#` starts nothing here");
    fails("country = 'é' ü", Kind::Syntax, 15, None, "`ü` starts nothing here");
    fails("b\0", Kind::Syntax, 2, None, r"`\0` starts nothing here");
}

#[test]
fn types_and_names() {
    fails("i", Kind::Type, 1, Some("i"), "attribute `i` is of type integer");
    fails("b and country", Kind::Type, 7, Some("country"), "`starts_with(s, 'x')`");
    fails("b = true", Kind::Type, 3, Some("b"), "its bare name");
    fails("true = b", Kind::Type, 6, None, "write `b` or `not b`");
    fails("i = true", Kind::Type, 5, Some("i"), "takes an integer, found `true`");
    fails("country > 'a'", Kind::Type, 9, Some("country"), "compare it with `=`");
    fails("ie > 3", Kind::Type, 4, Some("ie"), "no order");
    fails("il = 3", Kind::Type, 4, Some("il"), "`1 in l`");
    fails("sl = 'a'", Kind::Type, 4, Some("sl"), "`'a' in l`");
    fails("seg = 3", Kind::Type, 5, Some("seg"), "`segment_within`");
    fails("frequency_caps = 3", Kind::Type, 16, Some("frequency_caps"), "`within_frequency_cap`");
    fails("i > 'a'", Kind::Type, 5, Some("i"), "found the string `'a'`; write a number");
    fails("b and contry = 'CA'", Kind::UnknownAttribute, 7, Some("contry"), "did you mean `country`?");
    fails("COUNTRY = 'CA'", Kind::UnknownAttribute, 1, Some("COUNTRY"), "did you mean `country`?");
    fails("nation = 'CA'", Kind::UnknownAttribute, 1, Some("nation"), "declare it there");
    fails("b and TRUE", Kind::UnknownAttribute, 7, Some("TRUE"), "write `true`");
    fails("a-3", Kind::UnknownAttribute, 1, Some("a-3"), "did you mean `a-1`?");
    fails("i > 100", Kind::OutOfBounds, 5, Some("i"), "from -9 to 99");
    fails("-10 < i", Kind::OutOfBounds, 1, Some("i"), "from -9 to 99");
    fails("f > 99.75", Kind::OutOfBounds, 5, Some("f"), "from -1.5 to 99.5");
    fails("f > -2", Kind::OutOfBounds, 5, Some("f"), "from -1.5 to 99.5");
    means("f = 99.5", "f", Test::Float(Relation::Equal, Float::new(99.5)));
    means("i = -9", "i", Test::Integer(Relation::Equal, -9));
}

#[test]
fn text_that_is_not_utf8() {
    let error = read(b"country = '\xc3\xa9\xff'", &schema(), &[]).unwrap_err();
    assert_eq!((error.kind, error.column), (Kind::Syntax, Some(13)));
}

#[test]
fn messages_are_short_however_long_the_text_is() {
    let long = "x".repeat(1 << 20);
    for text in [long.clone(), format!("i = '{long}'"), format!("3{long}"), format!("wide = {}", "9".repeat(1 << 20))] {
        let error = read(text.as_bytes(), &schema(), &[]).unwrap_err();
        assert!(error.message.len() < 300, "{}", error.message.len());
    }
}

#[test]
fn deep_and_long_texts() {
    for depth in [10_000, 1_000_000] {
        let parentheses = format!("{}b{}", "(".repeat(depth), ")".repeat(depth));
        assert_eq!(printed(&parentheses), "b");
        let negations = format!("{}b", "not ".repeat(depth));
        assert_eq!(steps(&negations).len(), depth + 1);
        assert_eq!(printed(&negations), negations);
        let nested = format!("{}b{}", "not (b or ".repeat(depth), ")".repeat(depth));
        assert_eq!(printed(&nested), nested);
        let flat = format!("b{}", " and b".repeat(depth));
        assert_eq!(printed(&flat), flat);
        let unclosed = "(".repeat(depth);
        fails(&unclosed, Kind::Syntax, depth + 1, None, "expected an attribute");
        fails(&parentheses[..parentheses.len() - 1], Kind::Syntax, 2 * depth + 1, None, "at column 1");
        fails(&format!("{parentheses})"), Kind::Syntax, 2 * depth + 2, None, "no `(` is open");
    }
    let constants: Vec<String> = (0..300_000).rev().map(|n| n.to_string()).collect();
    let list = format!("wide in ({})", constants.join(","));
    means(&list, "wide", Test::OneOf(Constants::Integers((0..300_000).collect())));
}

#[test]
fn paths_name_fields() {
    let schema = schema_of(&[
        ("user.address.city", Type::String, Bounds::Unbounded),
        ("user.`first name`", Type::String, Bounds::Unbounded),
        ("`and`", Type::Boolean, Bounds::Unbounded),
    ]);
    for (text, printed) in [
        ("user.address.city = 'x'", "user.address.city = 'x'"),
        ("user.`address`.city = 'x'", "user.address.city = 'x'"),
        ("`user`.`first name` in ('x') and `and`", "user.`first name` in ('x') and `and`"),
        ("'x' = user.`first name`", "user.`first name` = 'x'"),
        ("not contains(user.address.city, 'x')", "not contains(user.address.city, 'x')"),
    ] {
        let steps = read(text.as_bytes(), &schema, &[]).unwrap();
        assert_eq!(expression_text(&steps, &schema, |string: &Text| string), printed);
    }
    for (text, column, message) in [
        ("user.city = 'x'", 1, "the schema has no attribute `user.city`; declare it there, or put quotes around a string"),
        ("city = 'x'", 1, "the schema has no attribute `city`; did you mean `user.address.city`?"),
        ("user.adress.city = 'x'", 1, "the schema has no attribute `user.adress.city`; did you mean `user.address.city`?"),
        ("user = 'x'", 1, "the schema has no attribute `user`; `user` is a map: name a field of it, such as `user.address.city`"),
        (
            "user.1 = 'x'",
            6,
            "the name of a field begins with a letter or `_`; put any other name between backticks",
        ),
        ("true or user.`first = 'x'", 14, "the name that starts here never ends; close its backtick"),
        (
            "user .address = 'x'",
            6,
            "`.` starts nothing here; a number has a digit before the point, as in `0.5`, and a path has no blanks, as \
             in `user.city`",
        ),
    ] {
        let error = read(text.as_bytes(), &schema, &[]).unwrap_err();
        assert_eq!((error.message.as_str(), error.column), (message, Some(column)), "{text}");
    }
}

#[test]
fn a_schema_has_only_names_that_expressions_can_spell() {
    let declare = |names: &[&str]| {
        let attribute = |name: &&str| Attribute {
            name: (*name).into(),
            ty: Type::Integer,
            optional: true,
            bounds: Bounds::Unbounded,
        };
        Schema::new(names.iter().map(attribute).collect())
    };
    for name in ["", "first name", "a.", "a..b", "and", "true", "1", "`", "```", "é", "a`b`"] {
        let error = declare(&[name]).unwrap_err();
        assert_eq!((error.kind, error.attribute.as_deref()), (Kind::Type, Some(name)));
        assert!(error.message.contains("no expression can spell"), "{}", error.message);
    }
    let names = ["`a`.b", "`c d`", "and.or", "`not`"];
    let schema = declare(&names).unwrap();
    let canonical: Vec<&str> = schema.attributes().iter().map(|attribute| attribute.name.as_str()).collect();
    assert_eq!(canonical, ["a.b", "`c d`", "and.or", "`not`"]);
    assert!(declare(&["a.b", "a.`b`"]).unwrap_err().message.contains("declared twice"));
    for names in [["a", "a.b"], ["a.b", "a"], ["x.a.b.c", "x.a"]] {
        let error = declare(&names).unwrap_err();
        assert!(error.message.contains("cannot be a field of it"), "{}", error.message);
    }
}
