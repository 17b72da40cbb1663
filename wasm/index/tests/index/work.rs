//! Predicates whose cost grows with the event: results are right, and no step of a search evaluates too many of them.

use std::collections::BTreeSet;

use crate::support::make::{attribute, insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::search::Search;

fn index(texts: &[String]) -> Index {
    let attributes = vec![
        attribute("s", Type::String),
        attribute("t", Type::StringList),
        attribute("l", Type::IntegerList),
        attribute("now", Type::Integer),
        attribute("segments_with_timestamp", Type::Segments),
    ];
    let mut index = Index::new(Schema::new(attributes).unwrap());
    for (id, text) in (0..).zip(texts) {
        index.insert(&insertion(id, text)).unwrap();
    }
    index
}

/// Returns the matching ids and the number of steps.
fn search(index: &Index, event: &str) -> (Vec<u64>, usize) {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    search.reserve_event(index).unwrap();
    search.open(index, Format::Json, event.as_bytes(), ALL_IDS).unwrap();
    let mut steps = 1;
    while !search.step(index) {
        steps += 1;
    }
    (search.found().ids().to_vec(), steps)
}

fn quoted(strings: impl IntoIterator<Item = usize>, quote: char) -> String {
    strings.into_iter().map(|number| format!("{quote}x{number}{quote}")).collect::<Vec<_>>().join(", ")
}

#[test]
fn parts_of_strings_are_found_at_any_position() {
    let haystacks = ["", "a", "ab", "aab", "aaaaaaaaab", &"ab".repeat(40), &format!("{}b", "a".repeat(3000))];
    let mut parts: BTreeSet<String> = haystacks.iter().map(|haystack| haystack.to_string()).collect();
    parts.extend((0..70).map(|len| "a".repeat(len) + "b"));
    parts.extend((0..70).map(|len| "ab".repeat(len) + "a"));
    parts.extend((0..9).map(|len| "a".repeat(1 << len)));
    let parts: Vec<String> = parts.into_iter().collect();
    let index = index(&parts.iter().map(|part| format!("contains(s, '{part}')")).collect::<Vec<_>>());
    for haystack in haystacks {
        let expected: Vec<u64> =
            (0..).zip(&parts).filter(|(_, part)| haystack.contains(*part)).map(|(id, _)| id).collect();
        assert_eq!(search(&index, &format!(r#"{{"s": "{haystack}"}}"#)).0, expected, "{haystack}");
    }
}

#[test]
fn long_lists_of_strings_are_searched_like_short_ones() {
    let lists: Vec<Vec<usize>> = [0, 1, 2, 8, 9, 15, 16, 17, 18, 40, 300, 301, 2000]
        .into_iter()
        .flat_map(|len| [1, 3].map(|step| (0..len).map(|place| place * step % 2048).collect()))
        .collect();
    let mut texts = Vec::new();
    for list in &lists {
        for relation in ["one of", "none of", "all of"] {
            texts.push(format!("t {relation} ({})", quoted(list.iter().copied(), '\'')));
        }
    }
    let index = index(&texts);
    for values in &lists {
        // Unsorted, some twice, some in no expression.
        let given =
            values.iter().rev().chain(values.first()).copied().chain([90_001, 90_000].repeat(values.len() % 11));
        let given: Vec<usize> = given.collect();
        let has: BTreeSet<usize> = given.iter().copied().collect();
        let mut expected = Vec::new();
        for (constants, id) in lists.iter().zip((0..).step_by(3)) {
            let held = constants.iter().filter(|constant| has.contains(constant)).count();
            let all = constants.iter().all(|constant| has.contains(constant));
            let holds = [held > 0, held == 0, all];
            expected.extend((id..).zip(holds).filter(|(_, holds)| *holds).map(|(id, _)| id));
        }
        let event = format!(r#"{{"t": [{}]}}"#, quoted(given, '"'));
        assert_eq!(search(&index, &event).0, expected, "{} values", values.len());
    }
}

#[test]
fn a_step_evaluates_few_expensive_predicates() {
    const EXPRESSIONS: usize = 200;
    let part = |id: usize| format!("{}{id}b", "a".repeat(500));
    let contains: Vec<String> = (0..EXPRESSIONS).map(|id| format!("contains(s, '{}')", part(id))).collect();
    let event = format!(r#"{{"s": "{}{}"}}"#, "a".repeat(100_000), part(7));
    // Three layouts: many small programs, one that fits a chunk, and one too large for a chunk.
    let short = contains[..150].join(" or ");
    let long = format!("{short} or {}", (0..1500).map(|i| format!("now = {i}")).collect::<Vec<_>>().join(" or "));
    for texts in [contains.clone(), vec![short], vec![long]] {
        let predicates = if texts.len() == 1 { 8 } else { EXPRESSIONS };
        let (ids, steps) = search(&index(&texts), &event);
        assert_eq!(ids, [if texts.len() == 1 { 0 } else { 7 }]);
        assert!(steps >= predicates / 2, "{steps} steps of {} expressions", texts.len());
    }
    // A short value takes few steps.
    let (_, steps) = search(&index(&contains), r#"{"s": "aaab"}"#);
    assert!(steps < 10, "{steps}");
}

#[test]
fn a_step_searches_few_long_lists() {
    const EXPRESSIONS: i64 = 300;
    let texts: Vec<String> = (0..EXPRESSIONS).map(|id| format!("not segment_before({}, 20)", 100_000 + id)).collect();
    let segments: Vec<String> = (0..20_000).map(|id| format!("[{id}, 0]")).collect();
    let event = format!(r#"{{"now": 100, "segments_with_timestamp": [{}]}}"#, segments.join(", "));
    let (ids, steps) = search(&index(&texts), &event);
    assert_eq!(ids, (0..EXPRESSIONS as u64).collect::<Vec<_>>());
    assert!(steps >= EXPRESSIONS as usize / 2, "{steps}");
}
