//! Random schemas, expressions and events, over small domains so that predicates often hold.

use be_tree_index::index::Insertion;
use be_tree_index::language::read;
use be_tree_index::model::predicate::{CapType, Entity};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

use super::naive::{NaiveCap, NaiveEvent, NaiveValue};
use super::random::Random;

/// The maps that attributes are in: mostly none.
const MAPS: [&str; 8] = ["", "", "", "", "user.", "user.address.", "user.`is in`.", "`a.b`."];

/// The constants that go with every expression.
pub const CONSTANTS: [(&[u8], i64); 5] =
    [(b"flight_id", 10), (b"advertiser_id", 20), (b"campaign_id", 30), (b"campaign_group_id", 40), (b"product_id", 10)];

const STRINGS: [&str; 13] =
    ["", "a", "b", "ab", "ba", "abc", "it's", "é\u{1f333}", "\"\\", "x\n\ty\r", "A", "aB*", "É\u{130}Σ"];
const V4: [std::net::Ipv4Addr; 5] = {
    use std::net::Ipv4Addr;
    [
        Ipv4Addr::new(10, 0, 0, 1),
        Ipv4Addr::new(10, 1, 2, 3),
        Ipv4Addr::new(10, 1, 2, 2),
        Ipv4Addr::new(0, 0, 0, 0),
        Ipv4Addr::new(255, 255, 255, 255),
    ]
};
const V6: [std::net::Ipv6Addr; 4] = {
    use std::net::Ipv6Addr;
    [
        Ipv6Addr::UNSPECIFIED,
        Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0xdb8, 0, 2, 0, 0, 0, 1),
        Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9),
    ]
};
const FLOATS: [f64; 10] = [-1.5, -0.5, 0.0, 0.3, 0.1 + 0.2, 1.0, 1.0 + f64::EPSILON, 2.0, 2.5, 1e-20];
const LATITUDES: [f64; 6] = [-90.0, 0.0, 45.5, 45.6, 46.8, 90.0];
const LONGITUDES: [f64; 6] = [-180.0, -73.6, -73.5, -71.2, 0.0, 180.0];
const RADII: [f64; 7] = [-1.0, 0.0, 1.0, 15.0, 300.0, 6000.0, 21_000.0];
const NAMESPACES: [&str; 3] = ["", "a", "a\\"];
const SECONDS: [i64; 8] = [-10, 0, 1, 5, 10, 3600, i64::MAX, i64::MIN];

/// The attributes that functions read unasked.
const IMPLIED: [(&str, Type); 5] = [
    ("now", Type::Integer),
    ("latitude", Type::Float),
    ("longitude", Type::Float),
    ("segments_with_timestamp", Type::Segments),
    ("frequency_caps", Type::FrequencyCaps),
];

/// A schema of up to three attributes of each type, and most of those that functions read, in any order.
/// Counts in its bounds are never exceeded by [`expression`]s.
pub fn schema(random: &mut Random) -> Schema {
    let mut attributes = Vec::new();
    for (name, ty) in Type::NAMES {
        for number in 0..random.below(4) {
            let separator = random.pick(&["", "_", "-"]);
            let name = format!("{}{name}{separator}{number}", random.pick(&["", "_", "X"]));
            let name = format!(
                "{}{}",
                random.pick(&MAPS),
                random.pick(&[name.clone(), name.clone(), format!("`{name} ``é`")])
            );
            if ty == Type::ObjectList {
                of_objects(random, &name, &mut attributes);
            }
            attributes.push(Attribute { name, ty, optional: random.chance(70), bounds: bounds(random, ty) });
        }
    }
    for (name, ty) in IMPLIED {
        if random.chance(85) {
            let optional = random.chance(70);
            attributes.push(Attribute { name: name.into(), ty, optional, bounds: Bounds::Unbounded });
        }
    }
    random.shuffle(&mut attributes);
    Schema::new(attributes).expect("generated schemas are sound")
}

/// Adds attributes of the objects in the list called `list`: of each type at most one, sometimes in a map, and sometimes those
/// that functions read.
fn of_objects(random: &mut Random, list: &str, attributes: &mut Vec<Attribute>) {
    for (name, ty) in Type::NAMES {
        let is_inner = !matches!(ty, Type::ObjectList | Type::Segments | Type::FrequencyCaps);
        if is_inner && random.chance(60) {
            let name = format!("{list}.{}{name}", random.pick(&["", "", "in.", "`é`.in."]));
            attributes.push(Attribute { name, ty, optional: random.chance(70), bounds: bounds(random, ty) });
        }
    }
    if random.chance(30) {
        for name in ["latitude", "longitude"] {
            let (name, ty, optional) = (format!("{list}.{name}"), Type::Float, random.chance(50));
            attributes.push(Attribute { name, ty, optional, bounds: Bounds::Unbounded });
        }
    }
}

fn bounds(random: &mut Random, ty: Type) -> Bounds {
    if random.chance(50) {
        return Bounds::Unbounded;
    }
    match ty {
        Type::Integer | Type::IntegerList => {
            let (min, max) = random.pick(&[(0, 5), (-2, 2), (3, 3), (i64::MIN, 4), (1, i64::MAX)]);
            Bounds::Integer { min, max }
        }
        Type::Float => {
            let (min, max) = random.pick(&[(0.0, 2.0), (-1.5, 1.0), (f64::MIN, 1.0)]);
            Bounds::Float { min, max }
        }
        Type::String | Type::StringList | Type::IntegerEnum => Bounds::Count(100),
        Type::Boolean | Type::Segments | Type::FrequencyCaps | Type::Ip | Type::DateTime | Type::ObjectList => {
            Bounds::Unbounded
        }
    }
}

/// The text of an expression over `schema` that nests up to `depth` deep, in every spelling that the language has.
pub fn expression(random: &mut Random, schema: &Schema, depth: usize) -> String {
    expression_over(random, schema, true, depth)
}

/// The same, or a condition for objects, which have no lower case.
fn expression_over(random: &mut Random, schema: &Schema, is_of_event: bool, depth: usize) -> String {
    if depth == 0 || random.chance(25) {
        return operand(random, schema, is_of_event);
    }
    let operand_of = |random: &mut Random| operand_of(random, schema, is_of_event, depth);
    match random.below(10) {
        0..=3 => {
            let word = random.pick(&[" and ", "&&", "\n and\t"]);
            format!("{}{word}{}", operand_of(random), operand_of(random))
        }
        4..=7 => {
            let word = random.pick(&[" or ", "||", " or\r\n"]);
            format!("{}{word}{}", operand_of(random), operand_of(random))
        }
        8 => format!("not {}", operand_of(random)),
        _ => format!("({})", expression_over(random, schema, is_of_event, depth - 1)),
    }
}

/// An operand, mostly in parentheses, else wherever precedence puts it.
fn operand_of(random: &mut Random, schema: &Schema, is_of_event: bool, depth: usize) -> String {
    let operand = expression_over(random, schema, is_of_event, depth - 1);
    match random.chance(60) {
        true => format!("({operand})"),
        false => format!(" {operand} "),
    }
}

fn operand(random: &mut Random, schema: &Schema, is_of_event: bool) -> String {
    if schema.is_empty() || random.chance(3) {
        return random.pick(&["true", "false"]).into();
    }
    let attribute = &schema.attributes()[random.below(schema.len())];
    if random.chance(8) {
        return format!("{} is {}", attribute.name, random.pick(&["null", "not null"]));
    }
    if random.chance(8) {
        if let Some(call) = implied_call(random, schema) {
            return call;
        }
    }
    predicate(random, schema, attribute, is_of_event)
}

/// A predicate of `attribute` other than a test for null.
fn predicate(random: &mut Random, schema: &Schema, attribute: &Attribute, is_of_event: bool) -> String {
    let name = &attribute.name;
    if random.chance(8) {
        if let Some(comparison) = computed(random, schema) {
            return comparison;
        }
    }
    match attribute.ty {
        Type::Boolean => name.clone(),
        Type::Integer if random.chance(20) => {
            let (low, high) = (integer_text(random, attribute), integer_text(random, attribute));
            format!("{name} {} {low} and {high}", random.pick(&["between", "not between"]))
        }
        Type::DateTime => match random.chance(30) {
            true => {
                let word = random.pick(&["between", "not between"]);
                format!("{name} {word} {} and {}", time_text(random), time_text(random))
            }
            false => compared(random, name, &["<", "<=", ">", ">=", "=", "<>"], time_text),
        },
        Type::Integer => match random.chance(60) {
            true => {
                compared(random, name, &["<", "<=", ">", ">=", "=", "<>"], |random| integer_text(random, attribute))
            }
            false => among(random, name, |random| integer_text(random, attribute)),
        },
        Type::IntegerEnum => match random.chance(50) {
            true => compared(random, name, &["=", "<>"], |random| integer_text(random, attribute)),
            false => among(random, name, |random| integer_text(random, attribute)),
        },
        Type::Float => {
            compared(random, name, &["<", "<=", ">", ">=", "=", "<>"], |random| float_text(random, attribute))
        }
        Type::String => {
            let subject = match is_of_event && random.chance(30) {
                true => format!("lower{}({name} )", random.pick(&["", " "])),
                false => name.clone(),
            };
            if random.chance(15) {
                let (pattern, _) = random.pick(&super::naive::REGEXES);
                let pattern = quoted(random, pattern);
                return format!("{name} {} {pattern}", random.pick(&["matches", "not matches"]));
            }
            match random.below(4) {
                // A function stands on the left only.
                0 if subject != *name => {
                    format!("{subject} {} {}", random.pick(&["=", "<>"]), string_text(random))
                }
                0 => compared(random, name, &["=", "<>"], string_text),
                1 => among(random, &subject, string_text),
                2 => {
                    let function = random.pick(&["contains", "starts_with", "ends_with"]);
                    format!("{function}({subject},{})", string_text(random))
                }
                _ => format!("{subject} {} {}", random.pick(&["like", "not like"]), pattern_text(random)),
            }
        }
        Type::Ip => match random.below(3) {
            0 => {
                let address = quoted_address(random);
                format!("{name} {} {address}", random.pick(&["=", "<>"]))
            }
            _ => among(random, name, network_text),
        },
        Type::IntegerList => list_test(random, name, |random| integer_text(random, attribute)),
        Type::StringList => list_test(random, name, string_text),
        Type::Segments if schema.find(b"now").is_some() && random.chance(90) => {
            let function = random.pick(&["segment_within", "segment_before"]);
            format!("{function}({name}, {}, {})", segment_id(random), random.pick(&SECONDS))
        }
        Type::ObjectList if random.chance(95) => {
            let list = schema.find(name.as_bytes()).expect("the attribute is in the schema");
            let depth = random.below(4);
            let condition = expression_over(random, schema.objects(list), false, depth);
            let space = random.pick(&["", " "]);
            format!("{} {name}{space}({space}{condition})", random.pick(&["any", "any", "all", "none"]))
        }
        Type::Segments | Type::FrequencyCaps | Type::ObjectList => format!("{name} is empty"),
    }
}

/// A comparison of two strings, or of computed numbers, if the schema has attributes for it.
fn computed(random: &mut Random, schema: &Schema) -> Option<String> {
    let of = |types: &[Type]| {
        let attributes = schema.attributes().iter().filter(|attribute| types.contains(&attribute.ty));
        attributes.map(|attribute| attribute.name.clone()).collect::<Vec<_>>()
    };
    let strings = of(&[Type::String]);
    if !strings.is_empty() && random.chance(25) {
        let relation = random.pick(&["=", "<>"]);
        return Some(format!("{} {relation} {}", random.pick(&strings), random.pick(&strings)));
    }
    let mut operands = of(&[Type::Integer, Type::Float, Type::DateTime]);
    operands.extend(strings.iter().map(|name| format!("length({name})")));
    let lists = of(&[Type::IntegerList, Type::StringList, Type::Segments, Type::FrequencyCaps, Type::ObjectList]);
    operands.extend(lists.iter().map(|name| format!("size ( {name} )")));
    if operands.is_empty() {
        return None;
    }
    let first = random.pick(&operands);
    let relation = random.pick(&["<", "<=", ">", ">=", "=", "<>"]);
    let (left, right) = (sum(random, &operands, 3), sum(random, &operands, 2));
    // One side begins with an attribute, and neither is a constant alone beside one.
    Some(match random.below(3) {
        0 => format!("{first} - {left} {relation} {right}"),
        1 => format!("({first} + {left}) {relation} {right}"),
        _ => format!("1 {relation} {left} - {first}"),
    })
}

fn sum(random: &mut Random, operands: &[String], depth: usize) -> String {
    if depth == 0 || random.chance(30) {
        return match random.below(4) {
            0 => integer(random).to_string(),
            1 => format!("{:?}", random.pick(&FLOATS)),
            _ => random.pick(operands),
        };
    }
    let (left, right) = (sum(random, operands, depth - 1), sum(random, operands, depth - 1));
    let operator = random.pick(&["+", "-", "*", "/"]);
    match random.chance(50) {
        true => format!("({left} {operator} {right})"),
        false => format!("{left} {operator} {right}"),
    }
}

fn time_text(random: &mut Random) -> String {
    match random.below(3) {
        0 => time(random).to_string(),
        _ => {
            let texts = ["1970-01-01", "2020-09-13T12:26:40.000001Z", "2020-09-13 14:26:40+02:00", "0000-01-01"];
            let text = random.pick(&texts);
            quoted(random, text)
        }
    }
}

fn time(random: &mut Random) -> i64 {
    let times = [0, 1, -1, 1_600_000_000_000_000, 1_600_000_000_000_001, 1_600_000_000_000_002, i64::MIN, i64::MAX];
    random.pick(&[&times[..], &[-62_167_219_200_000_000, 1 << 31, 1 << 32]].concat())
}

/// A call of a function that reads attributes which it does not name, if the schema has them.
fn implied_call(random: &mut Random, schema: &Schema) -> Option<String> {
    let has = |names: &[&str]| names.iter().all(|name| schema.find(name.as_bytes()).is_some());
    match random.below(3) {
        0 if has(&["latitude", "longitude"]) => {
            let (latitude, longitude) = (random.pick(&LATITUDES), random.pick(&LONGITUDES));
            Some(format!("geo_within_radius({latitude}, {longitude:?}, {})", random.pick(&RADII)))
        }
        1 if has(&["now", "segments_with_timestamp"]) => {
            let function = random.pick(&["segment_within", "segment_before"]);
            Some(format!("{function}({}, {})", segment_id(random), random.pick(&SECONDS)))
        }
        2 if has(&["now", "frequency_caps"]) => {
            let (cap, namespace) = (cap_type(random).name(), random.pick(&NAMESPACES));
            let namespace = quoted(random, namespace);
            let (value, seconds) = (random.below(5), random.pick(&SECONDS));
            Some(format!("within_frequency_cap(\"{cap}\", {namespace}, {value}, {seconds})"))
        }
        _ => None,
    }
}

fn compared(random: &mut Random, name: &str, relations: &[&str], constant: impl Fn(&mut Random) -> String) -> String {
    let (relation, constant, space) = (random.pick(relations), constant(random), random.pick(&["", " "]));
    match random.chance(80) {
        true => format!("{name}{space}{relation}{space}{constant}"),
        false => format!("{constant}{space}{relation}{space}{name}"),
    }
}

fn among(random: &mut Random, name: &str, constant: impl Fn(&mut Random) -> String) -> String {
    format!("{name} {} {}", random.pick(&["in", "not in"]), list(random, constant))
}

fn list_test(random: &mut Random, name: &str, constant: impl Fn(&mut Random) -> String) -> String {
    match random.below(10) {
        0 => format!("{name} is empty"),
        1 | 2 => format!("{} {} {name}", constant(random), random.pick(&["in", "not in"])),
        _ => format!("{name} {} of {}", random.pick(&["one", "none", "all"]), list(random, constant)),
    }
}

fn list(random: &mut Random, constant: impl Fn(&mut Random) -> String) -> String {
    format!("({})", random.several(4, constant).join(random.pick(&[",", ", "])))
}

fn integer_text(random: &mut Random, attribute: &Attribute) -> String {
    let (min, max) = match attribute.bounds {
        Bounds::Integer { min, max } => (min, max),
        _ => (i64::MIN, i64::MAX),
    };
    integer(random).clamp(min, max).to_string()
}

fn float_text(random: &mut Random, attribute: &Attribute) -> String {
    let (min, max) = match attribute.bounds {
        Bounds::Float { min, max } => (min, max),
        _ => (f64::MIN, f64::MAX),
    };
    let float = random.pick(&FLOATS).clamp(min, max);
    match random.chance(50) {
        // Without a fraction where there is none, so that integers stand for floats.
        true => format!("{float}"),
        false => format!("{float:e}"),
    }
}

fn string_text(random: &mut Random) -> String {
    let string = random.pick(&STRINGS);
    quoted(random, string)
}

/// A pattern of `like` over the same letters as the strings.
fn pattern_text(random: &mut Random) -> String {
    let parts = random.several(5, |random| random.pick(&["*", "*", "?", "a", "b", "A", "ab", "é", "É", "\\*", "\\\\"]));
    quoted(random, &parts.concat())
}

fn quoted_address(random: &mut Random) -> String {
    let text = match random.chance(50) {
        true => random.pick(&V4).to_string(),
        false => random.pick(&V6).to_string(),
    };
    quoted(random, &text)
}

fn network_text(random: &mut Random) -> String {
    if random.chance(40) {
        return quoted_address(random);
    }
    let networks = ["0.0.0.0/0", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.2/31", "::ffff:10.0.0.0/104"];
    let more = ["::/0", "2001:db8::/32", "2001:db8:0:1::/64", "fe80::/10"];
    let network = random.pick(&[&networks[..], &more].concat());
    quoted(random, network)
}

/// The string as a constant, in either quotes, with the escapes that it needs and others.
fn quoted(random: &mut Random, string: &str) -> String {
    let quote = random.pick(&['\'', '"']);
    let mut text = String::from(quote);
    for character in string.chars() {
        match character {
            '\n' if random.chance(50) => text.push_str("\\n"),
            '\t' if random.chance(50) => text.push_str("\\t"),
            '\r' => text.push_str("\\r"),
            '\\' => text.push_str("\\\\"),
            '\'' | '"' => text.extend(['\\', character]),
            other => text.push(other),
        }
    }
    text.push(quote);
    text
}

/// Returns `count` expressions of up to `depth` levels that the index accepts.
pub fn expressions(random: &mut Random, schema: &Schema, count: usize, depth: usize) -> Vec<String> {
    let drawn = std::iter::repeat_with(|| {
        let depth = random.below(depth + 1);
        expression(random, schema, depth)
    });
    // Some are refused, such as a bound's odd value.
    drawn.filter(|text| read(text.as_bytes(), schema, &CONSTANTS).is_ok()).take(count).collect()
}

/// Returns insertions of `texts` under consecutive ids, with the constants of the generated expressions.
pub fn insertions(from: u64, texts: &[String]) -> impl Iterator<Item = Insertion<'_>> {
    (from..).zip(texts).map(|(id, text)| Insertion { id, text: text.as_bytes(), constants: CONSTANTS.to_vec() })
}

/// An event that has a value for every required attribute of `schema`, and for most others.
pub fn event(random: &mut Random, schema: &Schema) -> NaiveEvent {
    let now = random.pick(&[0, 10, 10, 1_600_000_000, 1_600_000_000, i64::MAX]);
    values(random, schema, now)
}

/// The values of an event, or of an object.
fn values(random: &mut Random, schema: &Schema, now: i64) -> NaiveEvent {
    let value_of = |id: usize| {
        let attribute = &schema.attributes()[id];
        let defined = !attribute.optional || random.chance(80);
        defined.then(|| match attribute.name.as_str() {
            "now" => NaiveValue::Integer(now),
            "latitude" => NaiveValue::Float(random.pick(&LATITUDES)),
            "longitude" => NaiveValue::Float(random.pick(&LONGITUDES)),
            _ if attribute.ty == Type::ObjectList => {
                let objects = schema.objects(schema.find(attribute.name.as_bytes()).expect("it is in the schema"));
                NaiveValue::Objects(random.several(4, |random| values(random, objects, now)))
            }
            _ => value(random, attribute.ty, now),
        })
    };
    (0..schema.len()).map(value_of).collect()
}

/// A value of the type.
pub fn value(random: &mut Random, ty: Type, now: i64) -> NaiveValue {
    match ty {
        Type::Boolean => NaiveValue::Boolean(random.chance(50)),
        Type::Integer | Type::IntegerEnum => NaiveValue::Integer(integer(random)),
        Type::Float => NaiveValue::Float(random.pick(&FLOATS)),
        Type::String => NaiveValue::String(string(random)),
        Type::IntegerList => NaiveValue::Integers(random.several(5, integer)),
        Type::StringList => NaiveValue::Strings(random.several(5, string)),
        Type::Segments => NaiveValue::Segments(random.several(4, |random| (segment_id(random), micros(random, now)))),
        Type::FrequencyCaps => NaiveValue::Caps(random.several(8, |random| cap(random, now))),
        Type::DateTime => NaiveValue::Integer(time(random)),
        Type::ObjectList => NaiveValue::Objects(Vec::new()),
        Type::Ip => NaiveValue::Address(match random.chance(50) {
            true => random.pick(&V4).octets().into(),
            false => random.pick(&V6).octets().into(),
        }),
    }
}

/// A counter, mostly with the id of [`CONSTANTS`].
fn cap(random: &mut Random, now: i64) -> NaiveCap {
    let cap = cap_type(random);
    let place = Entity::NAMES.iter().position(|(_, _, entity)| *entity == cap.entity).expect("every entity is listed");
    NaiveCap {
        cap,
        id: if random.chance(85) { CONSTANTS[place].1 } else { 7 },
        namespace: random.pick(&NAMESPACES).into(),
        value: random.below(5) as i64,
        micros: random.chance(80).then(|| micros(random, now)),
    }
}

fn integer(random: &mut Random) -> i64 {
    match random.chance(95) {
        true => random.below(9) as i64 - 3,
        false => random.pick(&[i64::MIN, i64::MAX, 255, 256, -1 << 31, 1 << 31, 1 << 53]),
    }
}

/// A string that expressions may mention, or one that none does.
fn string(random: &mut Random) -> Vec<u8> {
    match random.chance(85) {
        true => random.pick(&STRINGS).into(),
        false => random.pick(&["c", "abcd", "\u{0}"]).into(),
    }
}

fn segment_id(random: &mut Random) -> i64 {
    random.below(4) as i64
}

/// A time around `now` seconds, in microseconds.
fn micros(random: &mut Random, now: i64) -> i64 {
    let seconds = random.pick(&[-3600, -10, -5, -1, 0, 1, 10]);
    now.saturating_add(seconds).saturating_mul(1_000_000).saturating_add(random.pick(&[-1, 0, 1]))
}

fn cap_type(random: &mut Random) -> CapType {
    let (_, _, entity) = random.pick(&Entity::NAMES);
    CapType { entity, by_ip: random.chance(20) }
}
