//! Statistics of attributes: the number of their values, from which the selectivity of a predicate follows.

#[cfg(test)]
mod tests;

use crate::cost;
use crate::event::key::of_float;
use crate::model::schema::{Attribute, AttributeId, Bounds, Schema, Type};
use crate::support::footprint::of_table;
use crate::support::number::{greater, lesser};

/// The statistics of one attribute.
#[derive(Clone, Copy, Debug)]
struct AttributeStatistics {
    /// The assumed share of events that define it.
    defined: f32,
    /// The number of expressions that ask for it.
    asked: u32,
    /// The number of the last of these expressions.
    asked_last: u32,
    /// The expected number of elements: 1 for a scalar.
    elements: f32,
    /// The number of values, if the schema gives it.
    values: Option<f32>,
    /// The least and the greatest key: declared, or else seen in expressions.
    range: Option<(i64, i64)>,
    declared: bool,
    optional: bool,
}

/// A copy of the statistics of some attributes.
#[derive(Debug)]
pub(crate) struct Saved {
    attributes: Vec<(AttributeId, AttributeStatistics)>,
    expressions: u32,
}

/// Estimates for the attributes of a schema. They decide where expressions are placed, and never whether they match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    attributes: Vec<AttributeStatistics>,
    /// The number of expressions so far.
    expressions: u32,
}

impl Saved {
    /// Returns the attributes in the order in which they were passed.
    pub fn attributes(&self) -> impl Iterator<Item = AttributeId> + '_ {
        self.attributes.iter().map(|(attribute, _)| *attribute)
    }
}

impl Statistics {
    pub fn new(schema: &Schema) -> Self {
        Statistics { attributes: schema.all_attributes().iter().map(initial).collect(), expressions: 0 }
    }

    /// Returns the bytes that the statistics take of the heap.
    pub fn heap_bytes(&self) -> usize {
        of_table(&self.attributes)
    }

    /// Returns a copy of the statistics of some attributes, to roll back the effect of an expression.
    pub fn saved(&self, attributes: impl Iterator<Item = AttributeId>) -> Saved {
        let saved = attributes.map(|attribute| (attribute, self.attributes[attribute.index()]));
        Saved { attributes: saved.collect(), expressions: self.expressions }
    }

    /// Restores the statistics of a copy.
    pub fn restore(&mut self, saved: Saved) {
        saved.attributes.into_iter().for_each(|(attribute, known)| self.attributes[attribute.index()] = known);
        self.expressions = saved.expressions;
    }

    /// Updates the range of an attribute with an interval of an expression.
    pub fn observe(&mut self, attribute: AttributeId, low: i64, high: i64) {
        let statistics = &mut self.attributes[attribute.index()];
        if statistics.declared {
            return;
        }
        let finite = |key: i64| (key != i64::MIN && key != i64::MAX).then_some(key);
        for key in [finite(low), finite(high)].into_iter().flatten() {
            let (least, greatest) = statistics.range.unwrap_or((key, key));
            statistics.range = Some((least.min(key), greatest.max(key)));
        }
    }

    /// Counts the attributes of an expression, each once even if it is passed several times. The more expressions ask for an
    /// attribute, the more events are assumed to define it.
    pub fn ask(&mut self, attributes: impl Iterator<Item = AttributeId>) {
        self.expressions = self.expressions.saturating_add(1);
        for attribute in attributes {
            let statistics = &mut self.attributes[attribute.index()];
            if statistics.asked_last == self.expressions {
                continue;
            }
            statistics.asked_last = self.expressions;
            statistics.asked += 1;
            if statistics.optional {
                let asked = (statistics.asked as f32 + cost::HALF_DEFINED_DEMAND * cost::PRIOR_EXPRESSIONS)
                    / (self.expressions as f32 + cost::PRIOR_EXPRESSIONS);
                statistics.defined = defined_where(asked);
            }
        }
    }

    /// Returns whether an expression has ever asked for `attribute`.
    pub fn is_asked(&self, attribute: AttributeId) -> bool {
        self.attributes[attribute.index()].asked > 0
    }

    /// Sets the number of values of `attribute`. A number up to [`cost::UNKNOWN_CARDINALITY`] counts as unknown.
    pub fn set_values(&mut self, attribute: AttributeId, values: usize) {
        let values = values as f32;
        self.attributes[attribute.index()].values = (values > cost::UNKNOWN_CARDINALITY).then_some(values);
    }

    /// Returns the assumed share of events that define `attribute`.
    pub fn defined(&self, attribute: AttributeId) -> f32 {
        self.attributes[attribute.index()].defined
    }

    /// Returns the share of events in which `attribute` has one of `count` values.
    pub fn points(&self, attribute: AttributeId, count: usize) -> f32 {
        let statistics = self.attributes[attribute.index()];
        let values = greater(statistics.values.unwrap_or(cost::UNKNOWN_CARDINALITY), 1.0);
        lesser(count as f32 * statistics.elements / values, 1.0) * statistics.defined
    }

    /// Returns the share of events in which the key of `attribute` is from `low` to `high`.
    pub fn interval(&self, attribute: AttributeId, low: i64, high: i64) -> f32 {
        let statistics = self.attributes[attribute.index()];
        let share = match statistics.range {
            Some((least, greatest)) if greatest > least => {
                (keys(low.max(least), high.min(greatest)) / keys(least, greatest)) as f32
            }
            _ => cost::UNKNOWN_RANGE_SELECTIVITY,
        };
        // Bounded, because a few constants do not justify certainty.
        share.clamp(cost::MIN_RANGE_SELECTIVITY, 1.0) * statistics.defined
    }
}

/// Returns the number of keys from `low` to `high`, both included.
fn keys(low: i64, high: i64) -> f64 {
    greater(high as f64 - low as f64 + 1.0, 0.0)
}

/// Returns the assumed share of events that define an attribute, from the share of expressions that ask for it.
fn defined_where(asked: f32) -> f32 {
    asked / (asked + cost::HALF_DEFINED_DEMAND)
}

fn initial(attribute: &Attribute) -> AttributeStatistics {
    let (values, range) = match attribute.bounds {
        Bounds::Unbounded if attribute.ty == Type::Boolean => (Some(2.0), None),
        Bounds::Unbounded => (None, None),
        Bounds::Integer { min, max } => (Some(max as f32 - min as f32 + 1.0), Some((min, max))),
        Bounds::Float { min, max } => (None, Some((of_float(min), of_float(max)))),
        Bounds::Count(count) => (Some(count as f32), None),
    };
    let is_list = matches!(
        attribute.ty,
        Type::IntegerList | Type::StringList | Type::Segments | Type::FrequencyCaps | Type::ObjectList
    );
    AttributeStatistics {
        defined: if attribute.optional { defined_where(cost::HALF_DEFINED_DEMAND) } else { 1.0 },
        asked: 0,
        asked_last: 0,
        elements: if is_list { cost::LIST_LENGTH } else { 1.0 },
        values,
        range,
        declared: range.is_some(),
        optional: attribute.optional,
    }
}
