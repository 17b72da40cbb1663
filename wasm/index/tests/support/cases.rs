//! Expressions, events and what comes of them, worked out by hand. Whatever evaluates runs all of them.

use be_tree_index::model::predicate::CapType;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

use super::naive::{NaiveCap, NaiveEvent, NaiveValue};

/// One expression over [`schema`] and an event, read with the constants of [`super::generate::CONSTANTS`].
pub struct Case {
    pub expression: &'static str,
    pub event: NaiveEvent,
    pub matches: bool,
}

/// An optional attribute of each type under a short name, and those that functions read.
pub fn schema() -> Schema {
    let attributes = [
        ("b", Type::Boolean),
        ("i", Type::Integer),
        ("f", Type::Float),
        ("s", Type::String),
        ("ie", Type::IntegerEnum),
        ("il", Type::IntegerList),
        ("sl", Type::StringList),
        ("seg", Type::Segments),
        ("segments_with_timestamp", Type::Segments),
        ("frequency_caps", Type::FrequencyCaps),
        ("latitude", Type::Float),
        ("longitude", Type::Float),
        ("now", Type::Integer),
        ("ip", Type::Ip),
        ("at", Type::DateTime),
        ("t", Type::String),
        ("j", Type::Integer),
    ];
    let declared =
        attributes.map(|(name, ty)| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded });
    Schema::new(declared.into()).expect("the schema is sound")
}

/// The defined values of an event, the expressions that it makes true, and those that it does not.
type Group<'a> = (&'a [(&'a str, NaiveValue)], &'a [&'static str], &'a [&'static str]);

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let groups: [Group; 33] = [
        (&[], &["true", "not false", "true or false"], &["false", "not true", "true and false"]),
        // Of an undefined attribute everything is false but that it is null.
        (
            &[],
            &[
                "i is null",
                "il is null",
                "not b",
                "not (i > 3)",
                "not (i <> 3)",
                "not (s not in ('a'))",
                "not (il none of (1))",
                "not (il is empty)",
                "not contains(s, '')",
                "not geo_within_radius(0, 0, 99999)",
                "not segment_within(seg, 1, 2)",
                "not segment_before(seg, 1, 2)",
                "not within_frequency_cap('flight', 'ns', 1, 0)",
                "i > 3 or i is null",
            ],
            &[
                "b",
                "i is not null",
                "i <= 3",
                "i <> 3",
                "i not in (3)",
                "i not in ()",
                "f <> 1",
                "s <> 'a'",
                "s not in ('a')",
                "ie <> 1",
                "il none of (1)",
                "il none of ()",
                "il all of ()",
                "sl none of ('a')",
                "3 not in il",
                "il is empty",
                "contains(s, '')",
                "geo_within_radius(0, 0, 99999)",
                "segment_before(seg, 1, 2)",
                "within_frequency_cap('flight', 'ns', 1, 0)",
            ],
        ),
        (&[("b", NaiveValue::Boolean(true))], &["b", "b is not null", "b and not not b"], &["not b", "b is null"]),
        (&[("b", NaiveValue::Boolean(false))], &["not b", "b is not null"], &["b"]),
        (
            &[("i", NaiveValue::Integer(3))],
            &[
                "i = 3",
                "i <> 4",
                "i <= 3",
                "i >= 3",
                "i < 4",
                "i > 2",
                "2 < i",
                "4 > i",
                "i in (1, 3)",
                "i not in (1, 2)",
                "i not in ()",
                "i > -9223372036854775808",
            ],
            &["i = 4", "i <> 3", "i < 3", "i > 3", "3 < i", "i in ()", "i in (4)", "i not in (3)"],
        ),
        (&[("i", NaiveValue::Integer(i64::MIN))], &["i < 0", "i <= -9223372036854775808"], &["i > -1"]),
        (
            &[("f", NaiveValue::Float(0.3))],
            &["f = 0.3", "f = 0.30000000000000004", "f < 0.30000000000000004", "f > 0", "1 > f", "f <> 0.3001"],
            &["f <> 0.3", "f <> 0.30000000000000004", "f >= 0.30000000000000004", "f = 0"],
        ),
        // One epsilon apart is not equal, as `fabs(a - b) < DBL_EPSILON` has it.
        (&[("f", NaiveValue::Float(1.0))], &["f = 1", "f <> 1.0000000000000002"], &["f = 1.0000000000000002"]),
        (
            &[("s", string("abc"))],
            &[
                "s = 'abc'",
                "s <> 'ab'",
                "s in ('x', 'abc')",
                "s not in ('ab', 'bc')",
                "contains(s, '')",
                "contains(s, 'b')",
                "contains(s, 'abc')",
                "starts_with(s, 'ab')",
                "starts_with(s, '')",
                "ends_with(s, 'bc')",
                "ends_with(s, 'abc')",
            ],
            &[
                "s = 'ABC'",
                "s <> 'abc'",
                "s in ()",
                "s not in ('abc')",
                "contains(s, 'ac')",
                "contains(s, 'abcd')",
                "starts_with(s, 'b')",
                "ends_with(s, 'ab')",
                "ends_with(s, 'aabc')",
            ],
        ),
        (
            &[("s", string("a*\u{e9}\u{c9}\\"))],
            &[
                "s like 'a*'",
                "s like 'a??\u{c9}?'",
                "s like 'a\\\\*\u{e9}*\\\\\\\\'",
                "s like '*?\u{c9}*'",
                "lower(s) like '*\u{c9}\u{c9}?'",
                "contains(lower(s), '\u{e9}\u{e9}')",
                "starts_with(lower(s), 'A')",
                "lower(s) not in ('a', 'b')",
                "s not like '?'",
            ],
            &["s like 'a?'", r"s like '\\**'", "lower(s) = 'a'", "s not like '*'", "ends_with(lower(s), '\u{c9}')"],
        ),
        (
            &[("s", string("\u{130}\u{3a3}"))],
            &[
                "lower(s) = 'i\u{307}\u{3c3}'",
                "lower(s) in ('x', '\u{130}\u{3c3}')",
                "s like '??'",
                "lower(s) like '???'",
            ],
            &["lower(s) <> '\u{130}\u{3c3}'", "lower(s) = 'i\u{3c3}'", "s like '???'"],
        ),
        (
            &[],
            &["not s like '*'", "not (s not like 'a')", "not (lower(s) <> 'a')", "not (ip not in ())", "ip is null"],
            &["s like '*'", "s not like '*a?'", "lower(s) <> 'a'", "lower(s) not in ()", "ip not in ()", "ip <> '::1'"],
        ),
        (
            &[("ip", NaiveValue::Address(vec![10, 1, 2, 3]))],
            &[
                "ip = '10.1.2.3'",
                "ip = '::ffff:10.1.2.3'",
                "ip in ('10.0.0.0/8', '2001:db8::/32')",
                "ip in ('10.1.2.2/31', '10.1.2.2/32')",
                "ip in ('0.0.0.0/0')",
                "ip not in ('::/0')",
                "ip <> '10.1.2.4'",
                "ip not in ()",
            ],
            &["ip = '::1'", "ip in ()", "ip in ('10.1.2.0/31', '11.0.0.0/8')", "ip in ('::/0')", "ip <> '10.1.2.3'"],
        ),
        (
            &[("ip", NaiveValue::Address([&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[9]].concat()))],
            &["ip = '2001:DB8::9'", "ip in ('10.0.0.0/8', '2001:db8::/32')", "ip in ('::/0')", "ip is not null"],
            &["ip in ('0.0.0.0/0')", "ip in ('2001:db9::/32')", "ip not in ('2000::/3')"],
        ),
        (
            &[("i", NaiveValue::Integer(7)), ("j", NaiveValue::Integer(-3)), ("f", NaiveValue::Float(0.5))],
            &[
                "i between 7 and 9",
                "f between 0 and 0.5",
                "i not between 8 and 9",
                "not i between 1 and 6",
                "i > j",
                "j<i",
                "i + j = 4",
                "i +j = 4",
                "i -3 = 4",
                "i - -3 = 10",
                "10 = i - j",
                "(i + j) * 2 = 8",
                "((i - j) > 9)",
                "(((i + j)) * (2 - f)) / 2 = 3",
                "2 * (i - j) / 4 = 5",
                "i - j - 1 - 1 = 8",
                "i - (j - 1) = 11",
                "i / 2 = 3.5",
                "i * f < i",
                "0.1 + f * 2 = 1.1",
                "2 + 2 < i",
                "not (i / (j + 3) > 0) and not i / (j + 3) <= 0",
                "i > 1 and (i + j) > 1 or b",
                "9223372036854775807 - i > 0",
            ],
            &[
                "i between 8 and 9",
                "i between 9 and 7",
                "i not between 7 and 7",
                "i < j",
                "i + 9223372036854775807 > 0",
                "i * 9223372036854775807 <> 0",
                "i / (j + 3) > 0",
                "(i + j) > 4",
                "f * 1.7e308 * 9 > 0",
            ],
        ),
        (
            &[("s", string("\u{e9}a")), ("t", string("b")), ("il", NaiveValue::Integers(vec![3, 3, 1]))],
            &[
                "length(s) = 2",
                "length( s ) + size(il) = 4",
                "3 > length(t)",
                "size(il) = 2 or b",
                "s <> t",
                "not s = t",
                "length(s) >= size (il)",
            ],
            &["length(s) > 2", "s = t", "size(sl) = 0", "size(seg) < 1"],
        ),
        (
            &[("s", string("b")), ("t", string("b")), ("sl", NaiveValue::Strings(vec![b"a".into(), b"a".into()]))],
            &["s = t", "size(sl) = 2", "s = s"],
            &["s <> t", "size(frequency_caps) >= 0"],
        ),
        (
            &[],
            &["not s = t", "not (i > j)", "not i between 1 and 2", "not i not between 1 and 2", "not length(s) >= 0"],
            &["s <> t", "i <> j", "i not between 1 and 2", "size(il) >= 0", "i - i = 0", "at < '2100-01-01'"],
        ),
        (
            &[("at", NaiveValue::Integer(1_767_225_600_000_001))],
            &[
                "at > '2026-01-01'",
                "at = '2026-01-01T00:00:00.000001Z'",
                "at <= '2026-01-01T01:00:00.000001+01:00'",
                "at between '2025-12-31' and '2026-01-02'",
                "at <> '2026-01-01T00:00:00Z'",
                "at = 1767225600000001",
                "'2026-01-01' < at",
                "at - 1767225600000000 = 1",
                "at > 5 and at > -5",
            ],
            &["at < '2026-01-01'", "at = '2026-01-01'", "at not between '2025-12-31' and '2026-01-02'", "at <= 7"],
        ),
        (&[("s", string(""))], &["s = ''", "contains(s, '')", "s is not null"], &["contains(s, 'a')", "s <> ''"]),
        (&[("ie", NaiveValue::Integer(7))], &["ie = 7", "ie <> 8", "ie in (7)"], &["ie = 8", "ie not in (7)"]),
        (
            &[("il", NaiveValue::Integers(vec![3, 1, 3]))],
            &[
                "3 in il",
                "2 not in il",
                "il one of (2, 3)",
                "il none of (2, 4)",
                "il none of ()",
                "il all of (1, 3)",
                "il all of (3)",
                "il all of ()",
                "not (il is empty)",
            ],
            &["2 in il", "3 not in il", "il one of ()", "il none of (1, 2)", "il all of (1, 2)", "il is empty"],
        ),
        (
            &[("il", NaiveValue::Integers(vec![]))],
            &["il is empty", "il none of (1)", "il all of ()", "1 not in il", "il is not null"],
            &["il one of (1)", "il all of (1)", "1 in il", "il is null"],
        ),
        (
            &[("sl", NaiveValue::Strings(vec![b"b".to_vec(), b"a".to_vec()]))],
            &["'a' in sl", "sl one of ('a', 'z')", "sl none of ('', 'ab')", "sl all of ('b', 'a')"],
            &["'' in sl", "sl none of ('a')", "sl all of ('a', 'b', 'c')", "sl is empty"],
        ),
        // Montréal to Québec is about 233 km.
        (
            &[("latitude", NaiveValue::Float(45.5017)), ("longitude", NaiveValue::Float(-73.5673))],
            &["geo_within_radius(46.8139, -71.2080, 240)", "geo_within_radius(45.5017, -73.5673, 0)", "latitude > 45"],
            &["geo_within_radius(46.8139, -71.2080, 226)", "geo_within_radius(45.5017, -73.5673, -1)"],
        ),
        (&[("latitude", NaiveValue::Float(0.0))], &["not geo_within_radius(0, 0, 1)"], &["geo_within_radius(0, 0, 1)"]),
        (
            &[
                ("now", NaiveValue::Integer(40)),
                ("seg", NaiveValue::Segments(vec![(1, 20_000_000), (2, 19_999_999), (1, 40_000_000)])),
            ],
            &[
                "segment_within(seg, 1, 20)",
                "segment_before(seg, 1, 19)",
                "segment_before(seg, 2, 20)",
                "segment_within(seg, 2, 21)",
            ],
            &[
                "segment_before(seg, 1, 20)",
                "segment_within(seg, 1, 19)",
                "segment_within(seg, 2, 20)",
                "segment_within(seg, 3, 100)",
                "segment_before(seg, 3, 0)",
                "segment_within(1, 20)",
                "seg is empty",
            ],
        ),
        (
            &[("segments_with_timestamp", NaiveValue::Segments(vec![(1, 0)]))],
            &["not (segments_with_timestamp is empty)"],
            &["segment_within(1, 20)", "segment_before(1, 20)"],
        ),
        (
            &[
                ("now", NaiveValue::Integer(i64::MAX)),
                ("segments_with_timestamp", NaiveValue::Segments(vec![(1, i64::MIN)])),
            ],
            &["segment_before(1, 9223372036854775807)", "segment_before(1, -9223372036854775808)"],
            &["segment_within(1, 9223372036854775807)", "segment_within(1, -9223372036854775808)"],
        ),
        (
            &[
                ("now", NaiveValue::Integer(40)),
                (
                    "frequency_caps",
                    NaiveValue::Caps(vec![
                        cap("flight", 10, "ns", 5, Some(20_000_000)),
                        cap("flight", 10, "ns", 0, None),
                        cap("flight:ip", 10, "ns", 9, None),
                        cap("campaign", 30, "ns", 9, None),
                    ]),
                ),
            ],
            &[
                "within_frequency_cap('flight', 'ns', 6, 0)",
                "within_frequency_cap('flight', 'ns', 6, 100)",
                "within_frequency_cap('flight', 'ns', 5, 19)",
                "within_frequency_cap('flight', 'other', 0, 0)",
                "within_frequency_cap('advertiser', 'ns', 0, 0)",
                "within_frequency_cap('campaign:ip', 'ns', 0, 0)",
                "within_frequency_cap('campaign', 'ns', 0, 1)",
                "within_frequency_cap('flight:ip', 'ns', 10, -5)",
            ],
            &[
                "within_frequency_cap('flight', 'ns', 5, 0)",
                "within_frequency_cap('flight', 'ns', 5, 20)",
                "within_frequency_cap('flight', 'ns', 5, -1)",
                "within_frequency_cap('campaign', 'ns', 9, 0)",
                "within_frequency_cap('flight:ip', 'ns', 9, 0)",
            ],
        ),
        (
            &[("now", NaiveValue::Integer(40)), ("frequency_caps", NaiveValue::Caps(vec![]))],
            &["within_frequency_cap('product', 'ns', 0, 0)", "frequency_caps is empty"],
            &["frequency_caps is null"],
        ),
        (
            &[("frequency_caps", NaiveValue::Caps(vec![]))],
            &["not within_frequency_cap('product', 'ns', 1, 0)"],
            &["within_frequency_cap('product', 'ns', 1, 0)"],
        ),
        (
            &[("i", NaiveValue::Integer(3)), ("b", NaiveValue::Boolean(false))],
            &["b and b or i = 3", "i = 3 or b and b", "not b and i = 3", "not (b and i = 3)", "b or (b or i = 3)"],
            &["b and (b or i = 3)", "not b and i = 4", "not (b or i = 3)"],
        ),
    ];
    let schema = schema();
    for (values, true_ones, false_ones) in groups {
        let mut event = vec![None; schema.len()];
        for (name, value) in values {
            event[(schema.find(name.as_bytes()).expect("the attribute exists")).index()] = Some(value.clone());
        }
        for (expressions, matches) in [(true_ones, true), (false_ones, false)] {
            cases.extend(expressions.iter().map(|expression| Case { expression, event: event.clone(), matches }));
        }
    }
    cases
}

fn string(text: &str) -> NaiveValue {
    NaiveValue::String(text.into())
}

fn cap(kind: &str, id: i64, namespace: &str, value: i64, micros: Option<i64>) -> NaiveCap {
    let cap = CapType::parse(kind.as_bytes()).expect("the type exists");
    NaiveCap { cap, id, namespace: namespace.into(), value, micros }
}
