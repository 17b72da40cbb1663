use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::event::{decode, Format};
use crate::model::schema::{Attribute, Bounds, Schema, Type};
use crate::model::strings::Interner;
use crate::oracle::random::Random;
use crate::term::{Reader, Writer};

/// A statistic in a declaration: its name, kind, attribute and parameter.
type Declared = (&'static str, &'static str, &'static str, Option<u64>);

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

#[test]
fn declarations_that_cannot_be_counted_are_refused() {
    let refused: [(&[Declared], Kind, &str); 10] = [
        (&[("a", "uniques", "user", None), ("a", "sum", "user", None)], Kind::Type, "`a` is declared twice"),
        (&[("", "uniques", "user", None)], Kind::OutOfBounds, "1 to 255 bytes"),
        (&[("a", "median", "user", None)], Kind::Type, "the kinds are uniques, sum, top, quantiles, members"),
        (&[("a", "uniques", "nobody", None)], Kind::UnknownAttribute, "`nobody`, which is no attribute"),
        (&[("a", "sum", "city", None)], Kind::Type, "cannot count values of `city`, which is of type string"),
        (&[("a", "top", "price", Some(3))], Kind::Type, "which is of type float"),
        (&[("a", "uniques", "caps", None)], Kind::Type, "which is of type frequency_caps"),
        (&[("a", "top", "city", None)], Kind::OutOfBounds, "give `top` 1 to 100"),
        (&[("a", "members", "city", Some(1001))], Kind::OutOfBounds, "`members` 1 to 1000"),
        (&[("a", "sum", "user", Some(2))], Kind::OutOfBounds, "other kinds none"),
    ];
    for (stats, kind, message) in refused {
        let error = declared(stats).unwrap_err();
        assert!(error.kind == kind && error.message.contains(message), "{stats:?}: {error}");
    }
    let names: Vec<String> = (0..17).map(|number| number.to_string()).collect();
    let stats: Vec<_> = names.iter().map(|name| (name.as_str(), "uniques", "user", None)).collect();
    assert_eq!(declared(&stats).unwrap_err().kind, Kind::OutOfBounds);
    assert_eq!(declaration(&stats[..16]).stats.len(), 16);
}

#[test]
fn strings_that_are_too_long_are_cut_for_lists_of_values_and_not_for_uniques() {
    let mut statistics = Statistics::new(1);
    let stats = [("users", "uniques", "city", None), ("cities", "members", "city", Some(10))];
    statistics.declare(declaration(&stats)).unwrap();
    let long = "é".repeat(100);
    for end in ["a", "b", "a"] {
        count(&mut statistics, 1, &[1], &event(&format!(r#"{{"city": "{long}{end}"}}"#)));
    }
    let report = report_of(&sections(&[&[]]), &[(0, &blob(&statistics))]);
    assert_eq!(value(&report, "users"), StatValue::Uniques { count: 2, exact: true });
    let kept = format!("{}…", "é".repeat(64)).into_bytes();
    assert_eq!(value(&report, "cities"), StatValue::Members { values: vec![Value::Text(kept)], more: false });
}

#[test]
fn a_figure_that_is_no_longer_declared_stays_in_reports() {
    let mut statistics = Statistics::new(1);
    statistics.declare(declaration(&[("users", "uniques", "user", None)])).unwrap();
    count(&mut statistics, 1, &[1], &event(r#"{"user": 1}"#));
    statistics.declare_for(1, Some(declaration(&[("cities", "uniques", "city", None)]))).unwrap();
    count(&mut statistics, 1, &[1], &event(r#"{"user": 2, "city": "Rome"}"#));
    statistics.remove(1);
    statistics.declare_for(1, None).unwrap();
    count(&mut statistics, 1, &[1], &event(r#"{"user": 3, "city": "Oslo"}"#));
    let query = sections(&[&[Dimension::Id]]);
    let first = report_of(&query, &[(0, &blob(&statistics))]);
    assert_eq!(value(&first, "users"), StatValue::Uniques { count: 2, exact: true });
    assert_eq!(value(&first, "cities"), StatValue::Uniques { count: 1, exact: true });
    assert_eq!(first.sections[0].entries[0].matches, 3);
    let mut restored = Statistics::new(1);
    restored.restore(&blob(&statistics)).unwrap();
    assert_eq!(report_of(&query, &[(0, &blob(&restored))]), first);
}

#[test]
fn a_blob_of_another_day_seals_or_joins_a_sealed_day() {
    let of_day = |day| {
        let mut statistics = Statistics::new(day);
        count(&mut statistics, day, &[day as u64], &event("{}"));
        blob(&statistics)
    };
    let mut statistics = Statistics::new(5);
    [3, 5, 4, 3, 8].iter().for_each(|&day| statistics.restore(&of_day(day)).unwrap());
    assert_eq!((statistics.day(), statistics.sealed_days()), (8, 3));
    for (day, matches) in [(3, 2), (4, 1), (5, 1)] {
        assert_eq!(statistics.sealed(), Some(day));
        let mut sealed = Vec::new();
        statistics.encode_sealed(day, &mut sealed).unwrap();
        let report = report_of(&sections(&[&[Dimension::Day]]), &[(0, &sealed)]);
        let [entry] = &report.sections[0].entries[..] else { panic!("{report:?}") };
        assert_eq!((entry.key.day, entry.matches), (day, matches));
        statistics.release(day);
    }
    assert_eq!(statistics.sealed(), None);
}

#[test]
fn only_blobs_of_one_day_merge() {
    let blobs = [1, 2].map(|day| blob(&Statistics::new(day)));
    let mut out = Vec::new();
    let error = merge(blobs.iter().map(|blob| &**blob), &mut out).unwrap_err();
    assert_eq!((error.kind, out.len()), (Kind::Type, 0));
    assert_eq!(merge(std::iter::empty(), &mut out).unwrap_err().kind, Kind::Type);
}

/// A statistic of each kind, and a few events.
fn varied() -> Statistics {
    let mut statistics = Statistics::new(20_000);
    let stats = declaration(&[
        ("users", "uniques", "user", None),
        ("sum", "sum", "price", None),
        ("cities", "top", "city", Some(2)),
        ("prices", "quantiles", "price", None),
        ("tags", "members", "tags", Some(2)),
    ]);
    statistics.declare(stats).unwrap();
    for number in 0..20 {
        let json = format!(r#"{{"user": {number}, "city": "c{}", "price": {number}.5, "tags": ["t"]}}"#, number % 4);
        count(&mut statistics, 20_000, &[number % 3, 70], &event(&json));
    }
    statistics
}

#[test]
fn a_malformed_blob_is_refused_and_changes_nothing() {
    let bytes = blob(&varied());
    let mut statistics = varied();
    for length in 0..bytes.len() {
        let error = statistics.restore(&bytes[..length]).unwrap_err();
        assert_eq!(error.kind, Kind::Syntax, "{length} bytes: {error}");
        assert!(error.message.contains("malformed at byte"), "{error}");
    }
    assert!(statistics.restore(&[&bytes[..], &[0]].concat()).is_err());
    assert_eq!(blob(&statistics), bytes);
    let query = sections(&[&[], &[Dimension::Day, Dimension::Id, Dimension::Tenant]]);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            // Numbers may change without notice, because the store of the blobs has digests. Nothing else may happen.
            if let Ok(report) = report(&query, std::iter::once((0, &changed[..]))) {
                write_report(&report, &mut Vec::new()).unwrap();
                varied().restore(&changed).unwrap();
            }
        }
    }
}

#[test]
fn a_query_in_a_term_is_answered_in_a_term() {
    let blobs = [blob(&varied()), blob(&Statistics::new(3))];
    let mut term = Vec::new();
    let mut writer = Writer::new(&mut term);
    writer.tuple(5);
    writer.tuple(2);
    [19_000, 20_000].into_iter().for_each(|day| writer.integer(day));
    writer.list(1);
    writer.unsigned(1);
    writer.end_list();
    writer.list(2);
    for section in [&[][..], &["id", "tenant"]] {
        writer.list(section.len());
        section.iter().for_each(|dimension| writer.atom(dimension));
        writer.end_list();
    }
    writer.end_list();
    writer.list(1);
    writer.float(0.5);
    writer.end_list();
    writer.list(blobs.len());
    for blob in &blobs {
        writer.tuple(2);
        writer.unsigned(9);
        writer.binary(blob);
    }
    writer.end_list();
    let mut out = Vec::new();
    answer(&term, &mut out).unwrap();

    let reader = &mut Reader::new(&out).unwrap();
    let mut lists = reader.list().unwrap();
    assert_eq!(lists.left(), 2);
    for (key, totals) in [(vec![], Some((20, 20))), (vec![1, 9], None)] {
        assert!(reader.next(&mut lists).unwrap());
        let mut entries = reader.list().unwrap();
        assert!(reader.next(&mut entries).unwrap());
        assert_eq!(reader.tuple().unwrap(), 5);
        let mut dimensions = reader.list().unwrap();
        let mut found = Vec::new();
        while reader.next(&mut dimensions).unwrap() {
            found.push(reader.integer().unwrap());
        }
        assert_eq!(found, key);
        match totals {
            Some((events, matched)) => assert_eq!([(); 2].map(|()| reader.unsigned().unwrap()), [events, matched]),
            None => assert_eq!([(); 2].map(|()| reader.atom().unwrap()), [&b"nil"[..]; 2]),
        }
        assert_eq!(reader.unsigned().unwrap(), 7);
        let mut stats = reader.list().unwrap();
        let mut names = Vec::new();
        while reader.next(&mut stats).unwrap() {
            assert_eq!(reader.tuple().unwrap(), 4);
            names.push((reader.binary().unwrap(), reader.atom().unwrap().into_owned()));
            assert!(!reader.binary().unwrap().is_empty());
            reader.skip().unwrap();
        }
        let names: Vec<_> = names.iter().map(|(name, kind)| (*name, &kind[..])).collect();
        let expected: [(&[u8], &[u8]); 5] = [
            (b"cities", b"top"),
            (b"prices", b"quantiles"),
            (b"sum", b"sum"),
            (b"tags", b"members"),
            (b"users", b"uniques"),
        ];
        assert_eq!(names, expected);
        assert!(!reader.next(&mut entries).unwrap());
    }
    assert!(!reader.next(&mut lists).unwrap());
    reader.finish().unwrap();
}

#[test]
fn a_malformed_query_is_refused() {
    let mut term = Vec::new();
    let mut writer = Writer::new(&mut term);
    writer.tuple(5);
    writer.atom("some");
    assert_eq!(read_query(&term).unwrap_err().kind, Kind::Type);
    term.truncate(1);
    assert_eq!(read_query(&term).unwrap_err().kind, Kind::Syntax);
    assert_eq!(read_blobs(&term).unwrap_err().kind, Kind::Syntax);
}

/// Operations on statistics and on plain lists of everything that was counted.
#[derive(Default)]
struct Model {
    statistics: Statistics,
    stored: Vec<Vec<u8>>,
    default: usize,
    own: BTreeMap<u64, usize>,
    matches: BTreeMap<(i32, u64), u64>,
    /// The values of each statistic of an expression and day.
    values: BTreeMap<(i32, u64, String), Vec<i64>>,
}

/// Declarations whose statistics differ in name, kind, attribute or parameter.
fn variants() -> [Vec<Declared>; 5] {
    [
        vec![],
        vec![("a", "uniques", "user", None)],
        vec![("a", "uniques", "user", None), ("b", "sum", "user", None)],
        vec![("b", "sum", "user", None), ("a", "members", "user", Some(900)), ("c", "members", "user", Some(901))],
        vec![("a", "members", "user", Some(1000)), ("c", "quantiles", "user", None)],
    ]
}

impl Model {
    fn declare(&mut self, id: Option<u64>, variant: usize) {
        let declaration = declaration(&variants()[variant]);
        match id {
            None => {
                self.statistics.declare(declaration).unwrap();
                self.default = variant;
            }
            Some(id) => {
                self.statistics.declare_for(id, Some(declaration)).unwrap();
                self.own.insert(id, variant);
            }
        }
    }

    fn count(&mut self, day: i32, ids: &[u64], user: i64) {
        count(&mut self.statistics, day, ids, &event(&format!(r#"{{"user": {user}}}"#)));
        let day = self.statistics.day();
        for &id in ids {
            *self.matches.entry((day, id)).or_default() += 1;
            let variant = *self.own.get(&id).unwrap_or(&self.default);
            for (name, kind, ..) in &variants()[variant] {
                self.values.entry((day, id, format!("{name} {kind}"))).or_default().push(user);
            }
        }
    }

    /// Stores all sealed days, and possibly replaces the statistics by empty ones with the same declarations.
    fn store(&mut self, restart: bool) {
        while let Some(day) = self.statistics.sealed() {
            let mut sealed = Vec::new();
            self.statistics.encode_sealed(day, &mut sealed).unwrap();
            self.stored.push(sealed);
            self.statistics.release(day);
        }
        if restart {
            let today = blob(&self.statistics);
            self.statistics = Statistics::new(self.statistics.day());
            self.statistics.declare(declaration(&variants()[self.default])).unwrap();
            for (&id, &variant) in &self.own {
                self.statistics.declare_for(id, Some(declaration(&variants()[variant]))).unwrap();
            }
            self.statistics.restore(&today).unwrap();
        }
    }

    fn check(mut self) {
        self.store(false);
        self.stored.push(blob(&self.statistics));
        let blobs: Vec<_> = self.stored.iter().map(|blob| (0, &blob[..])).collect();
        let report = report_of(&sections(&[&[Dimension::Day, Dimension::Id]]), &blobs);
        let mut values = BTreeMap::new();
        let mut matches = BTreeMap::new();
        for Entry { key, matches: count, stats, .. } in &report.sections[0].entries {
            matches.insert((key.day, key.id), *count);
            for StatResult { header, value } in stats {
                let name = format!("{} {}", String::from_utf8_lossy(&header.name), header.kind.name());
                assert!(values.insert((key.day, key.id, name), value.clone()).is_none(), "{header:?} twice");
            }
        }
        assert_eq!(matches, self.matches);
        assert!(values.keys().eq(self.values.keys()), "{values:?} for {:?}", self.values);
        for (value, users) in values.values().zip(self.values.values()) {
            let distinct: BTreeSet<i64> = users.iter().copied().collect();
            let (min, max) = (*distinct.first().unwrap(), *distinct.last().unwrap());
            match value {
                StatValue::Quantiles { count, min: least, max: greatest, .. } => {
                    assert_eq!((*count, *least, *greatest), (users.len() as u64, min as f64, max as f64));
                }
                StatValue::Uniques { count, exact } => assert_eq!((*count, *exact), (distinct.len() as u64, true)),
                StatValue::Integers { count, sum, min: least, max: greatest } => {
                    let expected: i64 = users.iter().sum();
                    assert_eq!((*count, *sum, *least, *greatest), (users.len() as u64, expected.into(), min, max));
                }
                StatValue::Members { values, more: false } => {
                    assert!(values.iter().cloned().eq(distinct.into_iter().map(Value::Integer)));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn reports_of_any_operations_are_those_of_plain_lists() {
    for seed in 0..300 {
        let random = &mut Random::new(seed);
        let mut model = Model::default();
        let mut day = 0;
        for _ in 0..random.below(200) {
            let id = random.pick(&[0, 1, 2, 3, 1 << 40, u64::MAX]);
            match random.below(12) {
                0 => model.declare(None, random.below(5)),
                1 => model.declare(Some(id), random.below(5)),
                2 => {
                    model.statistics.remove(id);
                    model.statistics.declare_for(id, None).unwrap();
                    model.own.remove(&id);
                }
                3 => day += random.pick(&[-1, 0, 1, 3]),
                4 => model.store(random.chance(50)),
                _ => {
                    let mut ids = vec![id];
                    ids.extend(random.several(30, |random| 10 + random.below(60) as u64));
                    ids.sort_unstable();
                    ids.dedup();
                    model.count(day, &ids, random.below(40) as i64 - 20);
                }
            }
        }
        model.check();
    }
}
