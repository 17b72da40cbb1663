//! Statistics that are refused memory at random. What is prepared is then counted without a further page, or nothing is.

use be_tree_index::event::{decode, Event, Format};
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::model::strings::Interner;
use be_tree_index::statistics::{report, Declaration, Dimension, Query, Statistics, Total, Work};
use be_tree_index::term::{Reader, Writer};

use crate::heap::{alone, begin_anew, limited, taken, FREELY};
use crate::support::make::attribute;
use crate::support::random::Random;

const STATS: [(&str, &str, &str, u64); 7] = [
    ("users", "uniques", "user", 0),
    ("sum", "sum", "user", 0),
    ("cities", "top", "city", 5),
    ("tags", "top", "tags", 3),
    ("members", "members", "tags", 40),
    ("users by", "quantiles", "user", 0),
    ("all tags", "uniques", "tags", 0),
];

fn schema() -> Schema {
    let types = [("user", Type::Integer), ("city", Type::String), ("tags", Type::StringList)];
    Schema::new(types.map(|(name, ty)| attribute(name, ty)).into()).unwrap()
}

/// Returns a declaration of some of the statistics.
fn declaration(random: &mut Random, schema: &Schema) -> Declaration {
    let stats: Vec<_> = STATS.iter().filter(|_| random.chance(50)).collect();
    let mut term = Vec::new();
    let mut writer = Writer::new(&mut term);
    writer.list(stats.len());
    for (name, kind, attribute, parameter) in stats {
        writer.tuple(4);
        writer.binary(name.as_bytes());
        writer.atom(kind);
        writer.binary(attribute.as_bytes());
        writer.unsigned(*parameter);
    }
    writer.end_list();
    Declaration::read(&mut Reader::new(&term).unwrap(), schema).unwrap().unwrap()
}

fn event(random: &mut Random, schema: &Schema) -> Event {
    let tag = |random: &mut Random| format!("\"{}{}\"", "t".repeat(random.below(140)), random.below(100));
    let tags = random.several(20, tag).join(",");
    let user = random.next() as i64 >> random.below(64);
    let json = format!(r#"{{"user": {user}, "city": "c{}", "tags": [{tags}]}}"#, random.below(1000));
    let mut event = Event::default();
    decode(Format::Json, json.as_bytes(), schema, &Interner::default(), &mut event).unwrap();
    event
}

/// Returns the events and the matches of all days.
fn counts(statistics: &Statistics) -> (u64, u64) {
    let mut blobs = vec![Vec::new()];
    statistics.encode(&mut blobs[0]).unwrap();
    if let Some(day) = statistics.sealed() {
        blobs.push(Vec::new());
        statistics.encode_sealed(day, &mut blobs[1]).unwrap();
    }
    let query = Query { sections: vec![vec![], vec![Dimension::Id]], ..Query::default() };
    let report = report(&query, blobs.iter().map(|blob| (0, &blob[..]))).unwrap();
    let entry = &report.sections[0].entries[0];
    let by_id: u64 = report.sections[1].entries.iter().map(|entry| entry.matches).sum();
    assert_eq!(by_id, entry.matches);
    let Some(Total { events, .. }) = entry.total else { panic!("totals have events") };
    (events, entry.matches)
}

#[test]
fn statistics_count_an_event_wholly_or_refuse_it_when_memory_is_short() {
    let _alone = alone();
    let schema = schema();
    let (mut refused, mut counted) = (0, 0);
    for seed in 0..20 {
        begin_anew();
        let random = &mut Random::new(seed);
        // The heap has a page, in which the message of a refusal finds room.
        limited(FREELY, FREELY, || drop(Vec::<u8>::with_capacity(1024)));
        // All that is in the limited heap is dropped before the heap begins anew.
        let (mut statistics, mut work) = (Statistics::new(1), Work::default());
        let (mut events, mut matches) = (0, 0);
        for _ in 0..150 {
            let granted = if random.chance(50) { 0 } else { FREELY };
            match random.below(20) {
                0 => {
                    let declaration = declaration(random, &schema);
                    refused += usize::from(limited(FREELY, granted, || statistics.declare(declaration)).is_err());
                }
                1 | 2 => {
                    let declaration = declaration(random, &schema);
                    let id = random.below(60) as u64;
                    let result = limited(FREELY, granted, || statistics.declare_for(id, Some(declaration)));
                    refused += usize::from(result.is_err());
                }
                3 => {
                    let mut blob = Vec::new();
                    statistics.encode(&mut blob).unwrap();
                    if limited(FREELY, granted, || statistics.restore(&blob)).is_err() {
                        refused += 1;
                    }
                    // Twice the counts of today are fewer than those of all days if one was sealed.
                    (events, matches) = counts(&statistics);
                }
                _ => {
                    let event = event(random, &schema);
                    let mut ids = random.several(60, |random| random.below(80) as u64);
                    ids.sort_unstable();
                    ids.dedup();
                    let day = if random.chance(2) { 2 } else { 1 };
                    if limited(FREELY, granted, || statistics.prepare(&mut work, day, &ids, &event)).is_ok() {
                        limited(taken(), 0, || statistics.count(&work, &ids, &event));
                        counted += 1;
                        events += 1;
                        matches += ids.len() as u64;
                    } else {
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!(counts(&statistics), (events, matches));
        drop((statistics, work));
    }
    assert!(refused > 40 && counted > 500, "{refused} refused, {counted} counted");
}
