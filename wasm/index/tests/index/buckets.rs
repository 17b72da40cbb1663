//! The path proves an interval that fills its bucket, as long as insertions and deletions of others leave the bucket no wider.

use crate::support::make::{insertion, ALL_IDS};
use crate::support::random::Random;
use be_tree_index::event::Format;
use be_tree_index::index::{Index, Insertion};
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
use be_tree_index::search::Search;

/// The width of all intervals, and of the gaps between them.
const WIDTH: u64 = 100;

/// `i` lies in the interval with one number, `j` in that with the other, if there is one, and `b` is true.
type Expression = (u64, Option<u64>);

fn text((i, j): Expression) -> String {
    let within = |name: &str, number: u64| {
        format!("{name} >= {} and {name} <= {} and ", number * WIDTH, number * WIDTH + WIDTH - 1)
    };
    format!("{}{}b", within("i", i), j.map_or(String::new(), |j| within("j", j)))
}

fn index() -> Index {
    let attribute = |name: &str, ty, bounds| Attribute { name: name.into(), ty, optional: true, bounds };
    let number = |name| attribute(name, Type::Integer, Bounds::Integer { min: 0, max: 100_000 });
    let boolean = |name| attribute(name, Type::Boolean, Bounds::Unbounded);
    Index::new(Schema::new(vec![number("i"), number("j"), boolean("b"), boolean("c")]).unwrap())
}

fn insert(index: &mut Index, id: u64, expression: Expression) {
    let text = text(expression);
    index.insert(&insertion(id, &text)).unwrap();
}

/// Checks the index against `held` for events from each pair of intervals.
fn check(index: &Index, held: &[Option<Expression>], intervals: u64) {
    index.validate().unwrap();
    let mut search = Search::default();
    search.reserve(index).unwrap();
    for i in 0..intervals {
        for j in (i % 3..intervals).step_by(3) {
            let [i, j] = [i * WIDTH + j % WIDTH, j * WIDTH + i % WIDTH];
            let json = format!(r#"{{"i": {i}, "j": {j}, "b": true}}"#);
            search.open(index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
            let holds = |(of_i, of_j): &Expression| *of_i == i / WIDTH && of_j.is_none_or(|of_j| of_j == j / WIDTH);
            let ids = (0..).zip(held).filter(|(_, held)| held.as_ref().is_some_and(holds)).map(|(id, _)| id);
            assert_eq!(search.run(index).ids(), ids.collect::<Vec<u64>>(), "{json}");
        }
    }
}

#[test]
fn an_interval_that_fills_its_bucket_is_proven_by_the_path() {
    const INTERVALS: u64 = 12;
    const EACH: u64 = 30;
    for kept in 0..INTERVALS {
        let mut index = index();
        let mut held: Vec<_> = (0..INTERVALS * EACH).map(|id| Some((id / EACH, None))).collect();
        (0..).zip(held.iter().flatten()).for_each(|(id, expression)| insert(&mut index, id, *expression));
        check(&index, &held, INTERVALS);
        for id in (0..INTERVALS * EACH).filter(|id| id / EACH != kept) {
            index.delete(id).unwrap();
            held[id as usize] = None;
        }
        check(&index, &held, INTERVALS);
    }
}

#[test]
fn buckets_that_come_and_go_at_two_levels_prove_only_their_intervals() {
    const INTERVALS: u64 = 6;
    let mut random = Random::new(7);
    let mut index = index();
    let mut held: Vec<Option<Expression>> = vec![None; 2000];
    for round in 0..24 {
        // Intervals fill and become empty by turns.
        let share = |number: u64| if (number + round).is_multiple_of(3) { 90 } else { 4 };
        for (id, held) in (0..).zip(&mut held) {
            let expression = (random.next() % INTERVALS, random.chance(70).then(|| random.next() % INTERVALS));
            match *held {
                None if random.chance(share(expression.0)) => {
                    insert(&mut index, id, expression);
                    *held = Some(expression);
                }
                Some((i, _)) if !random.chance(share(i)) => {
                    index.delete(id).unwrap();
                    *held = None;
                }
                _ => {}
            }
        }
        check(&index, &held, INTERVALS);
    }
}

#[test]
fn an_interval_that_fills_its_bucket_is_proven_by_its_other_demand() {
    let mut index = index();
    for id in 0..360 {
        let text = text((id / 30, None)).replace(" and b", " and not b");
        index.insert(&insertion(id, &text)).unwrap();
    }
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    for i in 0..12 * WIDTH {
        let json = format!(r#"{{"i": {i}}}"#);
        search.open(&index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
        let found = search.run(&index);
        let first = i / WIDTH * 30;
        assert_eq!((found.ids(), found.evaluated()), (&(first..first + 30).collect::<Vec<_>>()[..], 0), "{json}");
    }
}

#[test]
fn an_expression_stands_only_on_the_sides_of_a_cut_that_its_events_reach() {
    let mut index = index();
    for id in 0..60 {
        // Two disjoint intervals lead to the second alternative.
        let text = "i >= 50 and i < 60 and (b or c and i < 40)";
        index.insert(&insertion(id, text)).unwrap();
        index.validate().unwrap();
    }
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    for (json, found) in
        [(r#"{"i": 55, "b": true}"#, 60), (r#"{"i": 55, "c": true}"#, 0), (r#"{"i": 30, "c": true}"#, 0)]
    {
        search.open(&index, Format::Json, json.as_bytes(), ALL_IDS).unwrap();
        assert_eq!(search.run(&index).ids().len(), found, "{json}");
    }
    (0..60).for_each(|id| index.delete(id).unwrap());
    index.validate().unwrap();
    assert_eq!(index.info().nodes, 1);
}

/// `f = 1.5` leads to an interval with a margin, in which it is false. Here a bucket is no wider than that.
#[test]
fn a_bucket_within_the_margin_of_a_float_proves_nothing() {
    let (below, above) = (1.5 - 2.0 * f64::EPSILON, 1.5 + 2.0 * f64::EPSILON);
    let texts = [
        format!("f > 0.5 and f < {below:?}"),
        format!("f < 2.5 and f > {above:?}"),
        "f > 1.0 and f = 1.5".into(),
        "f = 1.5 and f > 1.0".into(),
    ];
    let attribute = Attribute {
        name: "f".into(),
        ty: Type::Float,
        optional: false,
        bounds: Bounds::Float { min: 0.0, max: 1000.0 },
    };
    let mut index = Index::new(Schema::new(vec![attribute]).unwrap());
    for id in 0..400 {
        index.insert(&Insertion { id, text: texts[id as usize % 4].as_bytes(), constants: vec![] }).unwrap();
    }
    index.validate().unwrap();
    assert!(index.info().depth > 0);
    let mut search = Search::default();
    search.reserve(&index).unwrap();
    for ulps in -4_i64..=4 {
        let f = f64::from_bits((1.5_f64.to_bits() as i64 + ulps) as u64);
        search.open(&index, Format::Json, format!(r#"{{"f": {f:?}}}"#).as_bytes(), ALL_IDS).unwrap();
        let is_true = |id: &u64| match id % 4 {
            0 => f < below,
            1 => f > above,
            _ => (f - 1.5).abs() < f64::EPSILON,
        };
        assert_eq!(search.run(&index).ids(), (0..400).filter(is_true).collect::<Vec<u64>>(), "{f:?}");
    }
}
