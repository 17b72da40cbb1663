//! Expressions over booleans alone, of all sizes and over few attributes and many, against the oracle.

use crate::support::naive::{NaiveEvent, NaiveValue};
use crate::support::random::Random;
use crate::support::twin::Twin;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

fn schema(random: &mut Random, booleans: usize) -> Schema {
    let mut attribute =
        |name: String, ty| Attribute { name, ty, optional: random.chance(50), bounds: Bounds::Unbounded };
    let mut attributes = Vec::new();
    for number in 0..booleans {
        attributes.push(attribute(format!("b{number}"), Type::Boolean));
        if number % 7 == 3 {
            attributes.push(attribute(format!("i{number}"), Type::Integer));
        }
    }
    Schema::new(attributes).unwrap()
}

/// Returns an expression of `leaves` leaves, mostly over booleans.
fn expression(random: &mut Random, schema: &Schema, leaves: usize) -> String {
    let text = if leaves == 1 {
        let attribute = random.pick(schema.attributes());
        match attribute.ty {
            Type::Boolean if random.chance(1) => format!("{} is null", attribute.name),
            Type::Boolean => attribute.name,
            _ if random.chance(2) => format!("{} > 3", attribute.name),
            _ => return expression(random, schema, 1),
        }
    } else {
        // Balanced and degenerate trees.
        let left = if random.chance(50) { leaves / 2 } else { 1 + random.below(leaves - 1) };
        let (left, right) = (expression(random, schema, left), expression(random, schema, leaves - left));
        format!("({left} {} {right})", random.pick(&["and", "or"]))
    };
    if random.chance(12) {
        format!("(not {text})")
    } else {
        text
    }
}

fn event(random: &mut Random, schema: &Schema) -> NaiveEvent {
    let truth = random.pick(&[10, 50, 50, 90]);
    let value = |attribute: &Attribute| {
        let defined = !attribute.optional || random.chance(80);
        defined.then(|| match attribute.ty {
            Type::Boolean => NaiveValue::Boolean(random.chance(truth)),
            _ => NaiveValue::Integer(random.below(6) as i64),
        })
    };
    schema.attributes().iter().map(value).collect()
}

#[test]
fn dense_expressions_are_found_like_any_others() {
    // Up to one page of an event, up to four, up to all that windows read, and more than that.
    for (seed, booleans) in (0..).zip([1, 5, 20, 128, 129, 500, 2000, 3000]) {
        let mut random = Random::new(seed);
        let mut twin = Twin::new(schema(&mut random, booleans));
        let schema = twin.index.schema().clone();
        for round in 0..4 {
            for _ in 0..200 {
                let id = random.next() % 300;
                if random.chance(30) {
                    twin.delete(id);
                    continue;
                }
                let most = random.pick(&[3, 20, 80, 200]);
                let leaves = 1 + random.below(most);
                twin.insert(id, &expression(&mut random, &schema, leaves));
            }
            let long = expression(&mut random, &schema, 2000);
            twin.insert(1000 + round, &long);
            twin.index.validate().unwrap();
            assert!(twin.index.info().unindexed > 10);
            for _ in 0..4 {
                let event = event(&mut random, &schema);
                twin.check(&mut random, &event);
            }
        }
        let ids: Vec<u64> = twin.oracle.keys().copied().collect();
        ids.into_iter().for_each(|id| twin.delete(id));
        twin.index.validate().unwrap();
        assert_eq!(twin.index.info().unindexed, 0);
    }
}
