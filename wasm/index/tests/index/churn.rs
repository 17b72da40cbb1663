//! Memory after churn: deletions and replacements return the memory that insertions took.

// Left out in the sandbox, because it takes minutes there and counts the same allocations.
#![cfg(not(target_arch = "wasm32"))]

use crate::heap::{held, uncounted};
use crate::support::make::{attribute, insertion};
use crate::support::random::Random;
use be_tree_index::index::Index;
use be_tree_index::model::schema::{Schema, Type};

const COUNT: u64 = 1000;

fn schema() -> Schema {
    let mut attributes = vec![
        attribute("s", Type::String),
        attribute("i", Type::Integer),
        attribute("f", Type::Float),
        attribute("il", Type::IntegerList),
        attribute("c", Type::String),
    ];
    attributes.extend((0..60).map(|number| attribute(format!("b{number}"), Type::Boolean)));
    Schema::new(attributes).unwrap()
}

/// Returns an expression of about `length` predicates of the given kind.
fn text(kind: u64, length: u64, salt: u64) -> String {
    let many = |count: u64, by: &str, each: &dyn Fn(u64) -> String| (0..count).map(each).collect::<Vec<_>>().join(by);
    match kind % 6 {
        0 => many(length, " and ", &|n| format!("i <> {}", 1000 + n + salt)) + &format!(" and s = 'x{}'", salt % 300),
        1 => many(length, " or ", &|n| format!("(b{} and not b{})", (n + salt) % 60, (n * 7 + salt + 1) % 60)),
        2 => format!(
            "s in ({}) and i > {}",
            many(length, ", ", &|n| format!("'a string {} {n}'", salt % 900)),
            salt % 100
        ),
        3 => format!("il one of ({}) and f > {}.5", many(4 * length, ", ", &|n| (salt + 3 * n).to_string()), salt % 50),
        4 => {
            format!("i > {} and i <= {} and (", salt % 500, salt % 500 + length)
                + &many(length, " or ", &|n| format!("c = 'country {}'", (n + salt) % 70))
                + ")"
        }
        _ => many(length, " and ", &|n| format!("(f < {}.25 or b{})", salt % 90 + n, (n + salt) % 60)),
    }
}

struct Churned {
    index: Index,
    texts: Vec<Option<String>>,
}

impl Churned {
    fn new(texts: impl Iterator<Item = String>) -> Self {
        let mut churned = Churned { index: Index::new(schema()), texts: vec![None; COUNT as usize] };
        (0..).zip(texts).for_each(|(id, text)| churned.put(id, text));
        churned
    }

    fn put(&mut self, id: u64, text: String) {
        self.delete(id);
        self.index.insert(&insertion(id, &text)).unwrap();
        // The test holds the text, not the index.
        uncounted(|| self.texts[id as usize] = Some(text));
    }

    fn delete(&mut self, id: u64) {
        if self.texts[id as usize].take().is_some() {
            self.index.delete(id).unwrap();
        }
    }
}

fn ratio(pattern: &str, churn: impl FnOnce() -> Churned) {
    let (texts, took) = {
        let churned = churn();
        let texts: Vec<(u64, String)> =
            (0..).zip(&churned.texts).filter_map(|(id, t)| Some((id, t.clone()?))).collect();
        churned.index.validate().unwrap();
        let Churned { index, texts: old } = churned;
        let ((), left) = held(|| drop(index));
        let took = -left;
        std::mem::forget(old);
        (texts, took)
    };
    let (index, fresh) = held(|| {
        let mut index = Index::new(schema());
        texts.iter().for_each(|(id, text)| index.insert(&insertion(*id, text)).unwrap());
        index
    });
    drop(index);
    // A quarter more, and the free rest of a few blocks.
    assert!(took <= fresh + fresh / 4 + 8 * 1024, "{pattern}: {took} bytes, {fresh} of a fresh index");
}

fn shuffled(random: &mut Random) -> Vec<u64> {
    let mut ids: Vec<u64> = (0..COUNT).collect();
    random.shuffle(&mut ids);
    ids
}

/// The kinds of [`text`], and all of them at once.
fn kinds() -> impl Iterator<Item = (u64, impl Fn(u64, u64, u64) -> String)> {
    (0..7).map(|kind| (kind, move |id, length, salt| text(if kind == 6 { id } else { kind }, length, salt)))
}

#[test]
fn replacing_by_longer_expressions_leaks_no_memory() {
    for (kind, of) in kinds() {
        ratio(&format!("kind {kind}"), || {
            let mut churned = Churned::new((0..COUNT).map(|id| of(id, 1, id)));
            for length in (6..=41).step_by(5) {
                (0..COUNT).for_each(|id| churned.put(id, of(id, length, id)));
            }
            churned
        });
    }
}

#[test]
fn replacing_by_shorter_expressions_leaks_no_memory() {
    for (kind, of) in kinds() {
        ratio(&format!("kind {kind}"), || {
            let mut churned = Churned::new((0..COUNT).map(|id| of(id, 41, id)));
            for length in [21, 6, 3] {
                (0..COUNT).for_each(|id| churned.put(id, of(id, length, id)));
            }
            churned
        });
    }
}

#[test]
fn replacing_by_expressions_of_any_length_leaks_no_memory() {
    for (kind, of) in kinds() {
        ratio(&format!("kind {kind}"), || {
            let mut random = Random::new(3);
            let mut churned = Churned::new((0..COUNT).map(|id| of(id, 1 + id % 41, id)));
            for round in 0..5 {
                for id in shuffled(&mut random) {
                    let length = 1 + random.below(41) as u64;
                    churned.put(id, of(id, length, id + round));
                }
            }
            churned
        });
    }
}

#[test]
fn deleting_most_expressions_and_inserting_them_again_leaks_no_memory() {
    for (kind, of) in kinds() {
        ratio(&format!("kind {kind}"), || {
            let mut random = Random::new(6);
            let mut churned = Churned::new((0..COUNT).map(|id| of(id, 9, id)));
            for round in 0..4 {
                let ids = shuffled(&mut random);
                ids[..COUNT as usize * 9 / 10].iter().for_each(|&id| churned.delete(id));
                ids[..COUNT as usize * 9 / 10].iter().for_each(|&id| churned.put(id, of(id, 9, id + round)));
            }
            churned
        });
    }
}
