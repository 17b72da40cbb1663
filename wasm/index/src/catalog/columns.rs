//! A condition over a list of objects demands that a column (the objects' values of one attribute) has one of certain keys.

use crate::event::key;
use crate::model::objects::{Quantified, Quantifier};
use crate::model::predicate::{Constants, Predicate, Relation, Step, Test};
use crate::model::schema::{AttributeId, Bounds, Schema, Type};
use crate::model::strings::StringId;

/// The assumed cardinality of an attribute without a declared one. It only ranks the columns of one condition.
const UNKNOWN: u64 = 1 << 32;

/// A demand on a column: it has at least one of these keys.
pub(crate) struct Demand {
    pub column: AttributeId,
    /// Ascending, without duplicates.
    pub keys: Vec<i64>,
    /// Every event whose column has one of the keys makes the predicate true.
    pub is_exact: bool,
}

/// Keys of one attribute. Every object that meets this part of the condition has one of them.
struct Wanted {
    attribute: AttributeId,
    keys: Vec<i64>,
}

/// Returns the demand of an `any` predicate over a list of objects. It depends only on the predicate and the schema, so
/// insertions, moves and deletions compute the same demand.
// Inlined, because most predicates test no list of objects.
#[inline]
pub(crate) fn demand(predicate: &Predicate<StringId>, schema: &Schema) -> Option<Demand> {
    match &predicate.test {
        Test::Objects(quantified) if quantified.quantifier == Quantifier::Any => {
            of_condition(quantified, predicate.attribute, schema)
        }
        _ => None,
    }
}

/// Returns the demand of the condition that some object of `list` meets.
fn of_condition(quantified: &Quantified<StringId>, list: AttributeId, schema: &Schema) -> Option<Demand> {
    let wanted = wanted(quantified, schema.objects(list))?;
    let column = schema.column(list, wanted.attribute);
    Some(Demand { column, keys: wanted.keys, is_exact: is_alone(quantified) })
}

/// Returns whether the condition is one test that its keys decide.
fn is_alone(quantified: &Quantified<StringId>) -> bool {
    match quantified.steps() {
        [Step::Predicate(Predicate { test: Test::AllOf(constants), .. })] => keys(constants).len() == 1,
        steps => steps.len() == 1,
    }
}

fn wanted(quantified: &Quantified<StringId>, objects: &Schema) -> Option<Wanted> {
    let mut stack = Vec::with_capacity(quantified.steps().len());
    for step in quantified.steps() {
        let wanted = match step {
            Step::Constant(_) => None,
            Step::Predicate(predicate) => {
                of_test(&predicate.test).map(|keys| Wanted { attribute: predicate.attribute, keys })
            }
            Step::Not => {
                stack.pop();
                None
            }
            Step::And | Step::Or => {
                let (right, left) = (stack.pop().flatten(), stack.pop().flatten());
                match (left, right) {
                    (Some(left), Some(right)) if *step == Step::And => Some(narrower(left, right, objects)),
                    (left, right) if *step == Step::And => left.or(right),
                    (Some(left), Some(right)) => either(left, right),
                    _ => None,
                }
            }
        };
        stack.push(wanted);
    }
    stack.pop().flatten()
}

/// Returns the keys of the values for which a test can be true, if they are few enough to list.
fn of_test(test: &Test<StringId>) -> Option<Vec<i64>> {
    Some(match test {
        Test::True => vec![1],
        Test::Integer(Relation::Equal, constant) => vec![*constant],
        Test::StringEqual(id) => vec![key::of_string(*id)],
        Test::OneOf(constants) => keys(constants),
        Test::AllOf(constants) => vec![*keys(constants).first()?],
        _ => return None,
    })
}

fn keys(constants: &Constants<StringId>) -> Vec<i64> {
    match constants {
        Constants::Integers(integers) => integers.to_vec(),
        Constants::Strings(ids) => ids.iter().map(|id| key::of_string(*id)).collect(),
    }
}

/// Returns the more selective of two demands, or the first if they are equal.
fn narrower(left: Wanted, right: Wanted, objects: &Schema) -> Wanted {
    // Compares the shares `keys / values` without a division.
    let share = |of: &Wanted, other: &Wanted| of.keys.len() as u64 * values(other.attribute, objects);
    if share(&right, &left) < share(&left, &right) {
        right
    } else {
        left
    }
}

/// Returns the declared number of values of an attribute, or [`UNKNOWN`].
fn values(attribute: AttributeId, objects: &Schema) -> u64 {
    let attribute = objects.attribute(attribute);
    match attribute.bounds {
        Bounds::Count(count) => count.into(),
        Bounds::Integer { min, max } => max.abs_diff(min).min(UNKNOWN - 1) + 1,
        _ if attribute.ty == Type::Boolean => 2,
        _ => UNKNOWN,
    }
}

/// Returns the union of two demands on the same attribute, or `None` for two attributes.
fn either(left: Wanted, right: Wanted) -> Option<Wanted> {
    if left.attribute != right.attribute {
        return None;
    }
    let mut keys = Vec::with_capacity(left.keys.len() + right.keys.len());
    let (mut lefts, mut rights) = (left.keys.into_iter().peekable(), right.keys.into_iter().peekable());
    loop {
        let key = match (lefts.peek(), rights.peek()) {
            (Some(left), Some(right)) if left <= right => lefts.next(),
            (_, Some(_)) => rights.next(),
            (Some(_), None) => lefts.next(),
            (None, None) => break,
        };
        if key != keys.last().copied() {
            keys.extend(key);
        }
    }
    Some(Wanted { attribute: left.attribute, keys })
}
