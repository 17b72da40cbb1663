use super::*;
use crate::event::{decode, Format};
use crate::model::schema::{Attribute, Bounds, Schema, Type};
use crate::model::strings::Interner;
use crate::term::{Reader, Writer};

/// A schema with an attribute of each type that statistics count.
fn schema() -> Schema {
    let attributes = [
        ("user", Type::Integer),
        ("city", Type::String),
        ("price", Type::Float),
        ("tags", Type::StringList),
        ("codes", Type::IntegerList),
        ("new", Type::Boolean),
        ("ip", Type::Ip),
        ("caps", Type::FrequencyCaps),
    ];
    let attribute =
        |(name, ty): (&str, Type)| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    Schema::new(attributes.map(attribute).into()).unwrap()
}

fn event(json: &str) -> Event {
    let mut event = Event::default();
    decode(Format::Json, json.as_bytes(), &schema(), &Interner::default(), &mut event).unwrap();
    event
}

/// Returns the term of declarations, each a name, a kind, an attribute and a parameter.
fn declared(stats: &[(&str, &str, &str, Option<u64>)]) -> Result<Declaration, Error> {
    let mut term = Vec::new();
    let mut writer = Writer::new(&mut term);
    writer.list(stats.len());
    for (name, kind, attribute, parameter) in stats {
        writer.tuple(4);
        writer.binary(name.as_bytes());
        writer.atom(kind);
        writer.binary(attribute.as_bytes());
        match parameter {
            Some(parameter) => writer.unsigned(*parameter),
            None => writer.atom("nil"),
        }
    }
    writer.end_list();
    let mut reader = Reader::new(&term)?;
    let declaration = Declaration::read(&mut reader, &schema())?;
    reader.finish()?;
    Ok(declaration.unwrap())
}

fn declaration(stats: &[(&str, &str, &str, Option<u64>)]) -> Declaration {
    declared(stats).unwrap()
}

fn count(statistics: &mut Statistics, day: i32, ids: &[u64], event: &Event) {
    let mut work = Work::default();
    statistics.prepare(&mut work, day, ids, event).unwrap();
    statistics.count(&work, ids, event);
}

fn blob(statistics: &Statistics) -> Vec<u8> {
    let mut out = Vec::new();
    statistics.encode(&mut out).unwrap();
    out
}

fn sections(sections: &[&[Dimension]]) -> Query {
    let sections = sections.iter().map(|section| section.to_vec()).collect();
    Query { sections, quantiles: vec![0.5], ..Query::default() }
}

fn report_of(query: &Query, blobs: &[(u32, &[u8])]) -> Report {
    report(query, blobs.iter().copied()).unwrap()
}

/// Returns the result of the statistic `name` in the only entry of the first section.
fn value(report: &Report, name: &str) -> StatValue {
    let [entry] = &report.sections[0].entries[..] else { panic!("{report:?}") };
    let found = entry.stats.iter().find(|stat| &*stat.header.name == name.as_bytes());
    found.unwrap_or_else(|| panic!("{name} in {report:?}")).value.clone()
}

#[test]
fn an_expression_without_statistics_counts_its_matches() {
    let mut statistics = Statistics::new(7);
    count(&mut statistics, 7, &[3, u64::MAX, 5], &event("{}"));
    count(&mut statistics, 7, &[5], &event("{}"));
    count(&mut statistics, 7, &[], &event("{}"));
    let report = report_of(&sections(&[&[], &[Dimension::Id]]), &[(0, &blob(&statistics))]);
    let [totals, ids] = &report.sections[..] else { panic!("{report:?}") };
    assert_eq!(totals.entries[0].total, Some(Total { events: 3, matched: 2 }));
    assert_eq!(totals.entries[0].matches, 4);
    let matches: Vec<_> = ids.entries.iter().map(|entry| (entry.key.id, entry.matches, entry.total)).collect();
    assert_eq!(matches, [(3, 1, None), (5, 2, None), (u64::MAX, 1, None)]);
}

#[test]
fn a_later_day_seals_the_current_one_and_an_earlier_one_does_not() {
    let mut statistics = Statistics::new(7);
    count(&mut statistics, 7, &[1], &event("{}"));
    count(&mut statistics, 6, &[1], &event("{}"));
    assert_eq!((statistics.day(), statistics.sealed()), (7, None));
    count(&mut statistics, 9, &[1], &event("{}"));
    assert_eq!((statistics.day(), statistics.sealed(), statistics.sealed_days()), (9, Some(7), 1));
    let mut sealed = Vec::new();
    statistics.encode_sealed(7, &mut sealed).unwrap();
    let report = report_of(&sections(&[&[Dimension::Day]]), &[(0, &sealed), (0, &blob(&statistics))]);
    let days: Vec<_> = report.sections[0].entries.iter().map(|entry| (entry.key.day, entry.matches)).collect();
    assert_eq!(days, [(7, 2), (9, 1)]);
    statistics.release(7);
    assert_eq!(statistics.sealed(), None);
    assert_eq!(statistics.encode_sealed(7, &mut sealed).unwrap_err().kind, Kind::NotFound);
}

#[test]
fn every_kind_counts_the_values_of_its_attribute() {
    let mut statistics = Statistics::new(1);
    let stats = declaration(&[
        ("users", "uniques", "user", None),
        ("sum", "sum", "price", None),
        ("codes", "sum", "codes", None),
        ("cities", "top", "city", Some(2)),
        ("prices", "quantiles", "price", None),
        ("tags", "members", "tags", Some(2)),
        ("new", "members", "new", Some(2)),
        ("ips", "members", "ip", Some(5)),
    ]);
    statistics.declare(stats).unwrap();
    let events = [
        r#"{"user": 1, "city": "Rome", "price": 1.5, "tags": ["a", "b"], "codes": [5, -7], "ip": "10.0.0.1"}"#,
        r#"{"user": 2, "city": "Oslo", "price": 2.5, "tags": ["b", "c"], "new": true, "ip": "2001:db8::1"}"#,
        r#"{"user": 1, "city": "Rome", "price": 3.5}"#,
        "{}",
    ];
    events.iter().for_each(|json| count(&mut statistics, 1, &[4], &event(json)));
    let report = report_of(&sections(&[&[Dimension::Id]]), &[(0, &blob(&statistics))]);
    assert_eq!(report.sections[0].entries[0].matches, 4);
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(value(&report, "users"), StatValue::Uniques { count: 2, exact: true });
    assert_eq!(value(&report, "sum"), StatValue::Floats { count: 3, sum: 7.5, min: 1.5, max: 3.5 });
    assert_eq!(value(&report, "codes"), StatValue::Integers { count: 2, sum: -2, min: -7, max: 5 });
    let cities = [("Rome", 2), ("Oslo", 1)].map(|(city, count)| Count { value: text(city), count, error: 0 });
    assert_eq!(value(&report, "cities"), StatValue::Top { total: 3, values: cities.into() });
    let StatValue::Quantiles { count: 3, min, max, values } = value(&report, "prices") else { panic!("{report:?}") };
    assert_eq!((min, max, values[0].0), (1.5, 3.5, 0.5));
    assert!((values[0].1 - 2.5).abs() < 0.025);
    assert_eq!(value(&report, "tags"), StatValue::Members { values: vec![text("a"), text("b")], more: true });
    assert_eq!(value(&report, "new"), StatValue::Members { values: vec![Value::Boolean(true)], more: false });
    let ips = vec![text("10.0.0.1"), text("2001:db8::1")];
    assert_eq!(value(&report, "ips"), StatValue::Members { values: ips, more: false });
}

#[test]
fn a_restored_blob_counts_as_the_events_did() {
    let stats = declaration(&[("users", "uniques", "user", None), ("cities", "top", "city", Some(5))]);
    let mut whole = Statistics::new(1);
    let mut parts = [Statistics::new(1), Statistics::new(1)];
    whole.declare(stats.clone()).unwrap();
    parts[0].declare(stats.clone()).unwrap();
    parts[1].declare(stats).unwrap();
    for user in 0..1000 {
        let event = event(&format!(r#"{{"user": {}, "city": "{}"}}"#, user % 700, user % 3));
        let ids = [user % 5, 100 + user % 7];
        count(&mut whole, 1, &ids, &event);
        count(&mut parts[user as usize % 2], 1, &ids, &event);
    }
    let [mut first, second] = parts;
    let query = sections(&[&[], &[Dimension::Id], &[Dimension::Id, Dimension::Day]]);
    let expected = report_of(&query, &[(0, &blob(&whole))]);
    assert_eq!(report_of(&query, &[(0, &blob(&first)), (1, &blob(&second))]), expected);
    let mut merged = Vec::new();
    merge([&blob(&first)[..], &blob(&second)].into_iter(), &mut merged).unwrap();
    assert_eq!(report_of(&query, &[(0, &merged)]), expected);
    first.restore(&blob(&second)).unwrap();
    assert_eq!(report_of(&query, &[(0, &blob(&first))]), expected);
}
