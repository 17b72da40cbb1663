//! The memory of small indexes, of which an instance may have thousands.

use crate::heap::held;
use crate::support::make::{attribute, insertion, ALL_IDS};
use be_tree_index::event::Format;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Schema, Type};
use be_tree_index::search::{Batch, Form, Request, Search};
use be_tree_index::support::headroom::PROBE;

fn schema() -> Schema {
    let attributes = [
        ("country", Type::String),
        ("plan", Type::Integer),
        ("age", Type::Integer),
        ("tags", Type::StringList),
        ("price", Type::Float),
    ];
    Schema::new(attributes.map(|(name, ty)| attribute(name, ty)).to_vec()).unwrap()
}

fn text(number: u64) -> String {
    match number % 4 {
        0 => format!("country = 'c{}' and age >= {} and price > {number}.25", number % 20, number * 7 % 60),
        1 => format!("plan = {} and price < {number}.5 and not tags one of ('t{}')", number % 10, number % 15),
        2 => format!("'t{}' in tags and not (country = 'c{}') and age < {}", number % 15, number % 20, number % 90),
        _ => format!("(country in ('c{}', 'd') or plan = {}) and starts_with(country, 'c')", number % 20, number % 10),
    }
}

fn event(number: u64) -> String {
    let (country, plan, age, tag) = (number % 20, number % 10, number * 3 % 70, number % 15);
    format!(r#"{{"country": "c{country}", "plan": {plan}, "age": {age}, "tags": ["t{tag}"], "price": {number}.0}}"#)
}

fn fill(index: &mut Index, ids: std::ops::Range<u64>) {
    ids.for_each(|id| index.insert(&insertion(id, &text(id))).unwrap());
}

/// Returns the ids that each of some events matches, by one search table.
fn found(index: &Index, search: &mut Search) -> Vec<Vec<u64>> {
    let search_one = |number| {
        search.open(index, Format::Json, event(number).as_bytes(), ALL_IDS).unwrap();
        search.run(index).ids().to_vec()
    };
    (0..40).map(search_one).collect()
}

#[test]
fn an_empty_index_and_a_small_one_take_little_memory() {
    let first = Index::new(schema());
    let (empty, held_empty) = held(|| first.sibling());
    assert!(size_of::<Index>() + held_empty as usize <= 2 * 1024, "{} + {held_empty}", size_of::<Index>());
    assert!(empty.bytes() >= held_empty as usize);

    // An earlier sibling has reserved the memory for deletions.
    let mut other = first.sibling();
    fill(&mut other, 0..100);
    let (mut small, held_small) = held(|| {
        let mut small = first.sibling();
        fill(&mut small, 0..100);
        small.pack().unwrap();
        small
    });
    // Pointers are longer natively than in the sandbox.
    let most = if size_of::<usize>() == 4 { 14 * 1024 } else { 16 * 1024 };
    assert!(held_small as usize <= most, "{held_small}");
    let counted = small.bytes();
    assert!((held_small as usize..held_small as usize * 5 / 4).contains(&counted), "{held_small} {counted}");

    (0..100).for_each(|id| small.delete(id).unwrap());
    assert!(small.bytes() <= empty.bytes() + PROBE, "{} {}", small.bytes(), empty.bytes());
}

#[test]
fn a_packed_index_is_the_same_and_changes_as_before() {
    let first = Index::new(schema());
    let (mut index, mut search) = (first.sibling(), Search::default());
    fill(&mut index, 0..1_500);
    search.reserve(&index).unwrap();
    for step in 0..6 {
        let (before, bytes) = (found(&index, &mut search), index.bytes());
        index.pack().unwrap();
        assert!(index.bytes() <= bytes);
        index.validate().unwrap();
        assert_eq!(found(&index, &mut search), before);
        // Every second subscription of a part goes, and others come.
        (step * 200..(step + 1) * 200).step_by(2).for_each(|id| index.delete(id).unwrap());
        fill(&mut index, 2_000 + step * 50..2_000 + (step + 1) * 50);
        search.reserve(&index).unwrap();
        index.validate().unwrap();
    }
    (0..3_000).for_each(|id| drop(index.delete(id)));
    assert!(index.is_empty());
}

#[test]
fn indexes_of_any_size_share_the_tables_of_a_search() {
    let first = Index::new(schema());
    let sizes = [0, 1, 30, 100, 40_000, 7, 2_000];
    let indexes = sizes.map(|size| {
        let mut index = first.sibling();
        fill(&mut index, 0..size);
        index
    });
    let (mut shared, mut batch) = (Search::default(), Batch::default());
    for index in &indexes {
        shared.reserve(index).unwrap();
        batch.reserve(index).unwrap();
    }
    let message: Vec<u8> = (0..40)
        .flat_map(|number| {
            let event = event(number);
            let frame = [(Format::Json as u32).to_le_bytes(), (event.len() as u32).to_le_bytes()];
            [frame.as_flattened(), event.as_bytes()].concat()
        })
        .collect();
    for index in indexes.iter().chain(&indexes) {
        let mut own = Search::default();
        own.reserve(index).unwrap();
        let expected = found(index, &mut own);
        assert_eq!(found(index, &mut shared), expected);
        batch.open(Request { events: 40, bytes: message.len(), only: None, form: Form::Ids });
        let mut words = Vec::new();
        while !batch.is_done() {
            batch.next_part();
            words.extend_from_slice(batch.run(index, &mut shared, &message, || ()).unwrap());
        }
        let in_batch = expected.iter().flat_map(|ids| std::iter::once(ids.len() as u64).chain(ids.iter().copied()));
        assert!(words.iter().copied().eq(in_batch));
    }
}
