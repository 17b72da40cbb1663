//! An access predicate is the demand of a literal on its attribute. It leads a search to the expression.
//!
//! An access predicate may be wider than its literal but never narrower: every event that makes the literal true meets it.

use std::ops::Deref;

use crate::catalog::statistics::Statistics;
use crate::catalog::{columns, Catalog};
use crate::compile::Literal;
use crate::cost;
use crate::event::key;
use crate::model::predicate::{Constants, Predicate, Relation, Test};
use crate::model::schema::{AttributeId, Type};
use crate::model::strings::StringId;
use crate::patterns::{self, is_pattern};

/// The values of an attribute for which a literal can be true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ValueSet {
    /// The key, or the key of some element of a list, is one of these.
    Points(Keys),
    /// The key is from the first to the second, both included.
    Interval(i64, i64),
    /// The attribute has any value.
    Defined,
    /// The value is not one of these, or is a list without any of them.
    Except(Keys),
}

/// Ascending keys. A single key, the most common case, needs no allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    One(i64),
    Many(Box<[i64]>),
}

impl FromIterator<i64> for Keys {
    fn from_iter<T: IntoIterator<Item = i64>>(keys: T) -> Self {
        let mut keys = keys.into_iter();
        match (keys.next(), keys.next()) {
            (Some(key), None) => Keys::One(key),
            (first, second) => {
                let keys: Box<[i64]> = first.into_iter().chain(second).chain(keys).collect();
                debug_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "keys ascend");
                Keys::Many(keys)
            }
        }
    }
}

impl Deref for Keys {
    type Target = [i64];

    fn deref(&self) -> &[i64] {
        match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Many(keys) => keys,
        }
    }
}

/// A demand on an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AccessPredicate {
    pub attribute: AttributeId,
    pub values: ValueSet,
    /// The literal is true for every event that meets the demand.
    pub is_exact: bool,
    /// The literal is also true if the attribute is undefined. Such a predicate cannot lead to an entry; it can only be the
    /// last one tested.
    pub is_lax: bool,
}

impl AccessPredicate {
    /// Returns the access predicate of `literal`, whose predicate is `predicate`.
    pub fn of(literal: Literal, predicate: &Predicate<StringId>, catalog: &Catalog) -> Option<AccessPredicate> {
        let Catalog { schema, predicates, .. } = catalog;
        if !literal.negated && is_pattern(&predicate.test) {
            let Some(id) = predicates.find(predicate) else { unreachable!("the patterns of an expression are held") };
            return Some(AccessPredicate {
                attribute: schema.patterns(),
                values: ValueSet::Points(Keys::One(key::of_predicate(id))),
                is_exact: patterns::is_exact(&predicate.test),
                is_lax: false,
            });
        }
        if let Some(demand) = columns::demand(predicate, schema).filter(|_| !literal.negated) {
            return Some(AccessPredicate {
                attribute: demand.column,
                values: ValueSet::Points(demand.keys.into_iter().collect()),
                is_exact: demand.is_exact,
                is_lax: false,
            });
        }
        let attribute = predicate.attribute;
        let declared = schema.attribute(attribute);
        let is_lax = literal.negated && declared.optional && !matches!(predicate.test, Test::Null);
        let values = match literal.negated {
            false => positive(&predicate.test)?,
            true if is_lax => exception(&predicate.test)?,
            true => negative(&predicate.test)?,
        };
        let is_exact = is_exact(literal.negated, &predicate.test);
        let access_predicate = AccessPredicate { attribute, values, is_exact, is_lax };
        // Every event defines a required attribute, so this demand excludes none.
        (declared.optional || access_predicate.values != ValueSet::Defined).then_some(access_predicate)
    }

    /// Returns the expected share of events that meet the demand.
    pub fn selectivity(&self, statistics: &Statistics) -> f32 {
        match &self.values {
            ValueSet::Points(keys) => statistics.points(self.attribute, keys.len()),
            ValueSet::Interval(low, high) => statistics.interval(self.attribute, *low, *high),
            ValueSet::Defined | ValueSet::Except(_) => statistics.defined(self.attribute),
        }
    }

    /// Returns the number of places that an entry takes under this predicate: one for each key.
    pub fn places(&self) -> usize {
        match &self.values {
            ValueSet::Points(keys) => keys.len(),
            ValueSet::Interval(..) | ValueSet::Defined | ValueSet::Except(_) => 1,
        }
    }

    /// Returns whether an event that reaches an entry by this demand always meets it.
    pub fn is_met_where_it_leads(&self) -> bool {
        // A bucket may be wider than an interval.
        matches!(self.values, ValueSet::Points(_) | ValueSet::Defined)
    }

    /// Returns whether `key`, as the attribute's value or in its list, proves that an event meets the demand.
    pub fn admits(&self, key: i64) -> bool {
        match &self.values {
            ValueSet::Points(keys) => keys.binary_search(&key).is_ok(),
            ValueSet::Interval(low, high) => (*low..=*high).contains(&key),
            ValueSet::Defined => true,
            // Another element of the same list may be an excepted one.
            ValueSet::Except(_) => false,
        }
    }

    /// Returns whether every event that meets this demand also meets `other`. It returns false for two different demands
    /// with long lists of keys, because each entry of an expression may compare them.
    pub fn implies(&self, other: &AccessPredicate) -> bool {
        let is_short = |keys: &Keys| keys.len() <= cost::MAX_COMPARED_KEYS;
        self.attribute == other.attribute
            && (!self.is_lax || other.is_lax)
            && match (&self.values, &other.values) {
                _ if std::ptr::eq(self, other) => true,
                (_, ValueSet::Defined) => true,
                (ValueSet::Points(keys), _) => is_short(keys) && keys.iter().all(|&key| other.admits(key)),
                (ValueSet::Interval(low, high), ValueSet::Interval(other_low, other_high)) => {
                    other_low <= low && high <= other_high
                }
                (ValueSet::Except(keys), ValueSet::Except(others)) => {
                    is_short(others) && others.iter().all(|key| keys.binary_search(key).is_ok())
                }
                _ => false,
            }
    }

    /// Intersects this interval with that of another predicate on the same attribute. Other value sets stay as they are.
    pub fn narrow(&mut self, other: &AccessPredicate) {
        if let (ValueSet::Interval(low, high), ValueSet::Interval(other_low, other_high)) =
            (&mut self.values, &other.values)
        {
            if self.attribute == other.attribute {
                *low = (*low).max(*other_low);
                *high = (*high).min(*other_high);
            }
        }
    }
}

pub(crate) fn is_list(ty: Type) -> bool {
    matches!(ty, Type::IntegerList | Type::StringList | Type::Segments | Type::FrequencyCaps | Type::ObjectList)
}

fn positive(test: &Test<StringId>) -> Option<ValueSet> {
    Some(match test {
        Test::Null => return None,
        Test::True => ValueSet::Points(Keys::One(1)),
        Test::Integer(relation, constant) => integers(*relation, *constant),
        Test::Float(relation, constant) => floats(*relation, constant.get()),
        Test::StringEqual(id) => ValueSet::Points(Keys::One(key::of_string(*id))),
        Test::OneOf(constants) => ValueSet::Points(keys(constants)),
        Test::AllOf(constants) => match first(constants) {
            Some(key) => ValueSet::Points(Keys::One(key)),
            None => ValueSet::Defined,
        },
        Test::SegmentWithin { id, .. } | Test::SegmentBefore { id, .. } => ValueSet::Points(Keys::One(*id)),
        Test::StringNotEqual(id) => ValueSet::Except(Keys::One(key::of_string(*id))),
        Test::NoneOf(constants) => ValueSet::Except(keys(constants)),
        Test::NotNull
        | Test::Empty
        | Test::Contains(_)
        | Test::StartsWith(_)
        | Test::EndsWith(_)
        | Test::Like(_)
        | Test::Matches(_)
        | Test::Lowered(_)
        | Test::InNetworks(_)
        | Test::Compared(_)
        | Test::SameString { .. }
        | Test::Objects(_)
        | Test::GeoWithinRadius { .. }
        | Test::WithinFrequencyCap { .. } => ValueSet::Defined,
    })
}

/// Returns the demand of a negated test of a required attribute, or `None` if every value may meet it.
fn negative(test: &Test<StringId>) -> Option<ValueSet> {
    match test {
        Test::Null => Some(ValueSet::Defined),
        Test::True => Some(ValueSet::Points(Keys::One(0))),
        Test::Integer(relation, constant) => Some(integers(complement(*relation), *constant)),
        Test::Float(relation, constant) => Some(floats(complement(*relation), constant.get())),
        Test::StringNotEqual(id) => Some(ValueSet::Points(Keys::One(key::of_string(*id)))),
        Test::NoneOf(constants) => Some(ValueSet::Points(keys(constants))),
        Test::StringEqual(_) | Test::OneOf(_) => exception(test),
        _ => None,
    }
}

/// Returns the demand of a negated test on defined values: all values but some, or all on one side.
fn exception(test: &Test<StringId>) -> Option<ValueSet> {
    Some(match test {
        Test::True => ValueSet::Except(Keys::One(1)),
        Test::Integer(Relation::NotEqual, _) => return None,
        Test::Integer(relation, constant) => integers(complement(*relation), *constant),
        Test::Float(Relation::Equal | Relation::NotEqual, _) => return None,
        Test::Float(relation, constant) => floats(complement(*relation), constant.get()),
        Test::StringEqual(id) => ValueSet::Except(Keys::One(key::of_string(*id))),
        Test::OneOf(constants) => ValueSet::Except(keys(constants)),
        _ => return None,
    })
}

/// Returns whether the demand of a test, or of its negation, contains only values that make it true.
fn is_exact(negated: bool, test: &Test<StringId>) -> bool {
    match test {
        Test::True | Test::StringEqual(_) | Test::OneOf(_) => true,
        Test::Integer(relation, constant) => {
            let relation = if negated { complement(*relation) } else { *relation };
            match relation {
                // At the extreme integer the demand saturates and contains that integer, for which the test is false.
                Relation::Less => *constant > i64::MIN,
                Relation::Greater => *constant < i64::MAX,
                Relation::Equal | Relation::NotEqual | Relation::LessOrEqual | Relation::GreaterOrEqual => true,
            }
        }
        Test::Float(relation, _) => !matches!(relation, Relation::Equal | Relation::NotEqual),
        Test::NotNull => !negated,
        Test::AllOf(constants) => !negated && constants.len() == 1,
        Test::StringNotEqual(_) | Test::NoneOf(_) => true,
        Test::Null => negated,
        _ => false,
    }
}

fn complement(relation: Relation) -> Relation {
    match relation {
        Relation::Less => Relation::GreaterOrEqual,
        Relation::LessOrEqual => Relation::Greater,
        Relation::Greater => Relation::LessOrEqual,
        Relation::GreaterOrEqual => Relation::Less,
        Relation::Equal => Relation::NotEqual,
        Relation::NotEqual => Relation::Equal,
    }
}

fn integers(relation: Relation, constant: i64) -> ValueSet {
    match relation {
        Relation::Equal => ValueSet::Points(Keys::One(constant)),
        Relation::NotEqual => ValueSet::Except(Keys::One(constant)),
        Relation::Less => ValueSet::Interval(i64::MIN, constant.saturating_sub(1)),
        Relation::LessOrEqual => ValueSet::Interval(i64::MIN, constant),
        Relation::Greater => ValueSet::Interval(constant.saturating_add(1), i64::MAX),
        Relation::GreaterOrEqual => ValueSet::Interval(constant, i64::MAX),
    }
}

fn floats(relation: Relation, constant: f64) -> ValueSet {
    let at = key::of_float(constant);
    match relation {
        // Equality is within an epsilon. The margin is generous, as an access predicate may be wider than its literal.
        Relation::Equal => {
            let margin = 2.0 * f64::EPSILON;
            ValueSet::Interval(key::of_float(constant - margin), key::of_float(constant + margin))
        }
        Relation::NotEqual => ValueSet::Defined,
        // No key of a finite float is the least or the greatest integer.
        Relation::Less => ValueSet::Interval(i64::MIN, at - 1),
        Relation::LessOrEqual => ValueSet::Interval(i64::MIN, at),
        Relation::Greater => ValueSet::Interval(at + 1, i64::MAX),
        Relation::GreaterOrEqual => ValueSet::Interval(at, i64::MAX),
    }
}

fn keys(constants: &Constants<StringId>) -> Keys {
    match (first(constants), constants) {
        (Some(key), constants) if constants.len() == 1 => Keys::One(key),
        (_, Constants::Integers(integers)) => Keys::Many(integers.clone()),
        (_, Constants::Strings(ids)) => Keys::Many(ids.iter().map(|id| key::of_string(*id)).collect()),
    }
}

/// Returns the first of [`keys`].
fn first(constants: &Constants<StringId>) -> Option<i64> {
    match constants {
        Constants::Integers(integers) => integers.first().copied(),
        Constants::Strings(ids) => ids.first().map(|id| key::of_string(*id)),
    }
}
