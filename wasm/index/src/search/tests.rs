//! Tests that a search survives lost commits of its steps, and enlarges no table that outlives it.

use super::*;
use crate::event::Format;
use crate::index::Insertion;
use crate::model::schema::{Attribute, Bounds, Schema, Type};

fn index() -> Index {
    let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    let attributes = vec![
        attribute("a", Type::Integer),
        attribute("b", Type::Boolean),
        attribute("c", Type::Boolean),
        attribute("l", Type::IntegerList),
        attribute("s", Type::String),
    ];
    let mut index = Index::new(Schema::new(attributes).unwrap());
    // Ids out of order, so that matches are sorted; indexed, unindexed and long expressions; dense ones, some of which are
    // too long for windows.
    for i in 0..4000_u64 {
        let text = match i % 7 {
            0 => format!("a = {} and s <> 'x'", i % 50),
            1 => format!("a >= {} and a < {} and not b", i % 90, i % 90 + 20),
            2 => format!("l one of ({}, {}) and contains(s, 'ell')", i % 700, i % 300),
            3 => format!("not b or a <> {}", i % 10),
            4 => ["b or c", "not b and not c"][i as usize / 7 % 2].into(),
            5 => vec!["(b or not c)"; 1 + 5 * (i as usize % 90)].join(" and "),
            _ => (0..300).map(|j| format!("a <> {}", 1000 + j * i)).collect::<Vec<_>>().join(" and "),
        };
        let id = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
    }
    index
}

const EVENT_BYTES: &[u8] = br#"{"a": 33, "b": false, "l": [1, 2, 3, 33, 299, 650], "s": "hello"}"#;

fn open(search: &mut Search, index: &Index) {
    search.open(index, Format::Json, EVENT_BYTES, None::<std::iter::Empty<u64>>).unwrap();
}

/// Returns the result of a search that `open` starts. Checks that the result is the same if some steps lose their commits.
pub(super) fn found_though_commits_are_lost(index: &Index, open: impl Fn(&mut Search)) -> Vec<u64> {
    let mut search = Search::default();
    search.reserve(index).unwrap();
    open(&mut search);
    let expected = search.run(index).packed().to_vec();
    for lost in 1..4 {
        open(&mut search);
        let mut steps = 0;
        loop {
            let committed = search.checkpoint;
            let done = search.step(index);
            steps += 1;
            if steps % (lost + 1) != 0 {
                // Simulates a trap between the last write of the step and its commit.
                search.checkpoint = committed;
            } else if done {
                break;
            }
        }
        assert!(steps > 20);
        assert_eq!(search.run(index).packed(), expected);
    }
    expected
}

#[test]
fn a_step_whose_commit_was_lost_is_done_again() {
    let index = index();
    assert!(found_though_commits_are_lost(&index, |search| open(search, &index)).len() > 1500);
}

#[test]
fn a_search_that_meets_few_expressions_is_one_step_that_can_be_done_again() {
    let attribute =
        |name: &str| Attribute { name: name.into(), ty: Type::Integer, optional: true, bounds: Bounds::Unbounded };
    let mut index = Index::new(Schema::new(vec![attribute("a"), attribute("b")]).unwrap());
    for id in 0..60_u64 {
        let text = if id % 3 == 0 { format!("a <> {id}") } else { format!("a = {} and b < {id}", id % 10) };
        index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
    }
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    let event = br#"{"a": 4, "b": 30}"#;
    search.open(&index, Format::Json, event, None::<std::iter::Empty<u64>>).unwrap();
    let committed = search.checkpoint;
    for _ in 0..3 {
        search.checkpoint = committed;
        assert!(search.step(&index));
        let expected = (0..60).filter(|id| if id % 3 == 0 { *id != 4 } else { id % 10 == 4 && 30 < *id });
        assert!(search.found().ids().iter().copied().eq(expected));
    }
}

#[test]
fn a_search_enlarges_nothing_that_outlives_it() {
    let index = index();
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    search.reserve_event(&index).unwrap();
    let room = |search: &mut Search| {
        let lists = [search.nodes.capacity(), search.found_at.capacity(), search.candidates.kept().capacity()];
        let event = search.event.kept();
        let event =
            [event.values.capacity(), event.bytes.capacity(), event.integers.capacity(), event.patterns.capacity()];
        (lists, event, search.ids.capacity(), search.digests.capacity())
    };
    let before = room(&mut search);
    open(&mut search, &index);
    let expected = search.run(&index).ids().to_vec();
    assert_eq!(room(&mut search), before);
    // More elements than there is room for. Only those of the event above are in any expression.
    let unknown: String = (0..EVENT).map(|i| format!("{}, ", 1_000_000 + i)).collect();
    let large = String::from_utf8(EVENT_BYTES.to_vec()).unwrap().replace("[1,", &format!("[{unknown}1,"));
    search.open(&index, Format::Json, large.as_bytes(), None::<std::iter::Empty<u64>>).unwrap();
    assert_eq!(search.run(&index).ids(), expected);
    assert_eq!(room(&mut search), before);
    // More ids than there is room for.
    let ids = expected.iter().copied().cycle().take(3 * STEP as usize).collect::<Vec<_>>();
    search.open(&index, Format::Json, EVENT_BYTES, Some(ids.into_iter())).unwrap();
    assert_eq!(search.run(&index).ids(), expected);
    assert_eq!(room(&mut search), before);
    open(&mut search, &index);
    assert_eq!(search.run(&index).ids(), expected);
}
