use crate::boolean::bit_sliced::*;
use crate::index::{Index, Insertion};
use crate::model::schema::{Attribute, Bounds, Schema, Type};
use crate::oracle::random::Random;
use crate::support::simd::Portable;

const ATTRIBUTES: usize = 9;

/// A boolean expression: its text and its value for an event.
type Expression = (String, Box<dyn Fn(usize) -> bool>);

fn expression(random: &mut Random, leaves: usize) -> Expression {
    if leaves == 1 {
        let (attribute, negated) = (random.below(ATTRIBUTES), random.chance(30));
        let text = format!("{}b{attribute}", if negated { "not " } else { "" });
        return (text, Box::new(move |event| (event >> attribute & 1 == 1) != negated));
    }
    let left = 1 + random.below(leaves - 1);
    let (a, holds_a) = expression(random, left);
    let (b, holds_b) = expression(random, leaves - left);
    match random.chance(50) {
        true => (format!("({a} and {b})"), Box::new(move |event| holds_a(event) && holds_b(event))),
        false => (format!("({a} or {b})"), Box::new(move |event| holds_a(event) || holds_b(event))),
    }
}

/// Returns an index of `expressions` over `attributes` attributes.
fn index(expressions: &[Expression], attributes: usize) -> Index {
    let attribute = |name| Attribute { name, ty: Type::Boolean, optional: true, bounds: Bounds::Unbounded };
    let schema = Schema::new((0..attributes).map(|i| attribute(format!("b{i}"))).collect());
    let mut index = Index::new(schema.unwrap());
    for (id, (text, _)) in (0..).zip(expressions) {
        index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
    }
    index
}

/// Checks the results of every dense expression for the first `events` events. Returns the number of these expressions.
fn check<V: Vector>(index: &Index, expressions: &[Expression], events: usize) -> usize {
    let (subscriptions, attributes) = (index.subscriptions(), index.schema().len());
    let mut sliced = Sliced::<V>::default();
    sliced.reserve(attributes, subscriptions.capacity()).unwrap();
    sliced.begin(events);
    for event in 0..events {
        let values: Vec<Value> =
            (0..attributes).map(|bit| Value::Boolean(bit < ATTRIBUTES && event >> bit & 1 == 1)).collect();
        sliced.add(event, &values);
    }
    let mut slot = Some(Slot::default());
    while let Some(next) = slot {
        slot = sliced.step(next, subscriptions, index.catalog());
    }
    let mut dense = 0;
    for (slot, (text, holds)) in expressions.iter().enumerate() {
        if let Some(Placement::Dense(_)) = subscriptions.placement(Slot::from_index(slot)) {
            dense += 1;
            for event in 0..events {
                let held = sliced.word(event, slot / 32) >> (slot % 32) & 1 == 1;
                assert_eq!(held, holds(event), "{text} of {event}");
            }
        }
    }
    dense
}

#[test]
fn expressions_hold_for_the_events_that_make_them_true() {
    let mut random = Random::new(1);
    let expressions: Vec<_> = (0..400).map(|i| expression(&mut random, 1 + [i % 8, i % 90][i % 2])).collect();
    // Few attributes, whose tests are packed, and many.
    for attributes in [ATTRIBUTES, 200] {
        let index = index(&expressions, attributes);
        for events in [1, 100, EVENTS] {
            assert!(check::<Portable>(&index, &expressions, events) > 200);
            assert!(check::<Fastest>(&index, &expressions, events) > 200);
        }
    }
}
