//! Changes at every limit of memory: each succeeds, or is refused and changes nothing, and deletions always succeed.

// Left out in the sandbox, because the limited heap takes a GiB, and all of it would be written there.
#![cfg(not(target_arch = "wasm32"))]

use crate::heap::{alone, begin_anew, limited, taken, FREELY, PAGE};
use crate::support::make::{insertion, ALL_IDS};
use crate::support::random::Random;
use be_tree_index::error::Kind;
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

fn schema() -> Schema {
    let attribute = |name: String, ty, optional| Attribute { name, ty, optional, bounds: Bounds::Unbounded };
    let mut attributes = vec![
        attribute("s".into(), Type::String, true),
        attribute("i".into(), Type::Integer, true),
        attribute("f".into(), Type::Float, true),
        attribute("il".into(), Type::IntegerList, true),
    ];
    attributes.extend((0..40).map(|number| attribute(format!("b{number}"), Type::Boolean, number % 2 == 0)));
    attributes.extend((0..10).map(|number| attribute(format!("t{number}"), Type::String, true)));
    Schema::new(attributes).unwrap()
}

fn many(count: usize, by: &str, each: impl Fn(usize) -> String) -> String {
    (0..count).map(each).collect::<Vec<_>>().join(by)
}

/// Returns expressions that stress different tables, with memory proportional to `size`.
fn adversaries(size: usize) -> Vec<String> {
    let list = |from: usize, count: usize| many(count, ", ", |number| (from + number).to_string());
    vec![
        many(20 * size, " or ", |number| format!("s = 'a string of more than twenty-six bytes {number}'")),
        many(20 * size, " or ", |number| format!("s = 'x{number}'")),
        many(8 * size, " and ", |number| format!("t{} <> 'y{number}'", number % 10)),
        many(8 * size, " or ", |number| {
            format!("(i = {number} and b{} and t{} = 'z{number}')", number % 40, number % 10)
        }),
        format!("i in ({}) and s in ({})", list(0, 10 * size), many(3 * size, ", ", |n| format!("'x{n}'"))),
        format!("il all of ({})", list(0, 30 * size)),
        format!("il one of ({})", list(1 << 40, 20 * size)),
        format!("{}b0{}", "not (".repeat(20 * size), ")".repeat(20 * size)),
        format!("{}i > 3{}", "(b1 and (i < 9 or ".repeat(4 * size), "))".repeat(4 * size)),
        many(10 * size, " or ", |number| format!("(b{} and not b{})", number % 40, (number * 7 + 1) % 40)),
        many(8 * size, " or ", |number| format!("(i > {number} and i < {} and f > {number}.5)", 2 * number + 9)),
    ]
}

fn small(random: &mut Random, number: usize) -> String {
    let value = random.below(60);
    match random.below(7) {
        0 => format!("s = 'x{value}' and i > {value}"),
        1 => format!("i > {value} and i <= {} and b{}", value + 5, value % 40),
        2 => format!("t{} in ('a{value}', 'b{number}') or f < {value}.25", value % 10),
        3 => format!("b{} and (b{} or not b{})", value % 40, (value + 3) % 40, (value + 17) % 40),
        4 => format!("il one of ({value}, {number}) and t1 = 'a{value}'"),
        5 => format!("s <> 'x{value}' and t{} = 'c{value}'", value % 10),
        _ => format!("f > {value}.5 and f < {}.5 and t2 = 'a{}'", value + 3, value % 3),
    }
}

/// Returns the counts of an index and its matches of some events.
fn digest(index: &Index) -> Vec<u64> {
    index.validate().unwrap();
    let mut search = Search::default();
    search.reserve(index).unwrap();
    let mut digest = vec![index.len() as u64, index.info().predicates as u64, index.info().strings as u64];
    for event in 0..6 {
        let booleans = (0..40).map(|number| format!(r#""b{number}": {}"#, (number * 5 + event) % 3 == 0));
        let rest = format!(
            r#""s": "x{event}", "i": {}, "f": {event}.75, "il": [{event}, 9], "t1": "a{event}", "t2": "a1""#,
            event * 7
        );
        let json = format!("{{{}, {rest}}}", booleans.collect::<Vec<_>>().join(", "));
        search.open(index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
        digest.extend(search.run(index).ids());
        digest.push(u64::MAX);
    }
    digest
}

/// Inserts `text` at rising limits of memory until it succeeds, and deletes it at that limit. Returns the number of refusals.
fn insert_at_every_limit(index: &mut Index, id: u64, text: &str, by_requests: bool) -> usize {
    let before = digest(index);
    let held = taken();
    let mut refusals = 0;
    for step in 0.. {
        // The limit counts granted requests for pages, or pages.
        let (limit, granted) = if by_requests { (FREELY, step) } else { (held + step * PAGE, FREELY) };
        let inserted = limited(limit, granted, || index.insert(&insertion(id, text)));
        match inserted {
            Ok(()) => break,
            Err(error) => assert_eq!(error.kind, Kind::OutOfMemory, "{}", error.message),
        }
        assert_eq!(digest(index), before, "{step} {}", &text[..text.len().min(60)]);
        refusals += 1;
    }
    index.validate().unwrap();
    // Deletions need no further memory.
    let limit = taken();
    limited(limit, FREELY, || index.delete(id)).unwrap();
    assert_eq!(digest(index), before);
    refusals
}

#[test]
fn changes_succeed_or_are_refused_and_change_nothing() {
    let _alone = alone();
    let random = &mut Random::new(26);
    let mut refusals = 0;
    for texts in [0, 60] {
        for (number, adversary) in adversaries(60).iter().enumerate() {
            begin_anew();
            let mut index = limited(FREELY, FREELY, || Index::new(schema()));
            for id in 0..texts {
                let text = small(random, id as usize);
                limited(FREELY, FREELY, || index.insert(&insertion(id, &text))).unwrap();
            }
            refusals += insert_at_every_limit(&mut index, 1 << 40 | number as u64, adversary, number % 2 == 1);
            // Inserts up to the limit, then deletes all.
            let limit = taken();
            let mut held: Vec<u64> = (0..texts).collect();
            for id in texts..texts + 150 {
                let text = if id % 25 == 0 { adversaries(5)[number].clone() } else { small(random, id as usize) };
                match limited(limit, FREELY, || index.insert(&insertion(id, &text))) {
                    Ok(()) => held.push(id),
                    Err(error) => assert_eq!(error.kind, Kind::OutOfMemory),
                }
            }
            index.validate().unwrap();
            random.shuffle(&mut held);
            for (count, &id) in held.iter().enumerate() {
                limited(limit, FREELY, || index.delete(id)).unwrap();
                if count % 100 == 0 {
                    index.validate().unwrap();
                }
            }
            assert!(index.is_empty());
            index.validate().unwrap();
            limited(limit, FREELY, || drop(index));
        }
    }
    assert!(refusals > 100, "{refusals}");
}

/// Replaces the subscription `id` by `text` at rising limits of memory until it succeeds. Returns the number of refusals.
fn put_at_every_limit(others: &[String], old: &str, text: &str, by_requests: bool) -> usize {
    let id = others.len() as u64 / 2;
    let build = |id_text: &str| {
        let mut index = Index::new(schema());
        for (number, other) in (0..).zip(others) {
            let text = if number == id { id_text } else { other };
            index.insert(&insertion(number, text)).unwrap();
        }
        if others.is_empty() {
            index.insert(&insertion(id, id_text)).unwrap();
        }
        index
    };
    let after = digest(&build(text));
    for step in 0.. {
        begin_anew();
        let (mut index, mut search) = limited(FREELY, FREELY, || {
            let (index, mut search) = (build(old), Search::default());
            search.reserve(&index).unwrap();
            (index, search)
        });
        let before = digest(&index);
        let (limit, granted) = if by_requests { (FREELY, step) } else { (taken() + step * PAGE, FREELY) };
        let put = limited(limit, granted, || index.put_for(&mut search, &insertion(id, text)));
        if let Err(error) = &put {
            assert_eq!(error.kind, Kind::OutOfMemory, "{}", error.message);
        }
        let start = &text[..text.len().min(60)];
        assert_eq!(digest(&index), if put.is_ok() { &after[..] } else { &before[..] }, "{step} {start}");
        // Deletions need no further memory.
        let limit = taken();
        for id in 0..index.len() as u64 {
            let deleted = limited(limit, FREELY, || index.delete(id));
            deleted.unwrap();
        }
        assert!(index.is_empty());
        index.validate().unwrap();
        limited(FREELY, FREELY, || drop((index, search)));
        if put.is_ok() {
            return step;
        }
    }
    unreachable!("there is a limit at which the index has enough")
}

#[test]
fn a_replacement_succeeds_or_keeps_the_old_subscription_at_every_limit() {
    let _alone = alone();
    let random = &mut Random::new(27);
    let mut refusals = 0;
    for count in [0, 1, 40] {
        let others: Vec<String> = (0..count).map(|number| small(random, number)).collect();
        for (number, adversary) in adversaries(15).iter().enumerate() {
            for (old, new) in [("b0", adversary.as_str()), (adversary, "b0 or i > 3"), (adversary, adversary)] {
                refusals += put_at_every_limit(&others, old, new, false);
                refusals += put_at_every_limit(&others, old, new, number % 2 == 1);
            }
        }
    }
    assert!(refusals > 100, "{refusals}");
}
