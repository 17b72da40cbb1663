//! What is expected of values: how many an attribute takes, and so how selective a predicate is.

use crate::event::key::of_float;
use crate::model::schema::{Attribute, AttributeId, Bounds, Schema, Type};
use crate::support::number::{greater, lesser};

/// The share of expressions that ask for an optional attribute which half of the events are taken to define, as long as
/// none were seen.
const ASKED: f32 = 0.2;
/// So many expressions count as if they had asked for each attribute in that share, so that the first ones do not decide.
const UNSEEN: f32 = 20.0;
/// The least share that is ever expected.
const SELDOM: f32 = 0.002;
/// The number of values that an attribute is taken to have where nothing tells.
const UNKNOWN_VALUES: f32 = 100.0;
/// The number of elements that a list of an event is taken to have.
const LIST_ELEMENTS: f32 = 4.0;

/// What is known of one attribute.
#[derive(Clone, Copy, Debug)]
struct AttributeStatistics {
    /// The share of events that define it.
    defined: f32,
    /// Whether that was learned from events.
    learned: bool,
    /// How many expressions ask for it, and the number of the last of these.
    asked: u32,
    asked_last: u32,
    /// The expected number of elements: 1 for a scalar.
    elements: f32,
    /// The number of values where the schema tells.
    values: Option<f32>,
    /// The least and the greatest key: declared, or else seen in expressions.
    range: Option<(i64, i64)>,
    declared: bool,
    optional: bool,
}

/// What was known of some attributes.
#[derive(Debug)]
pub(crate) struct Saved {
    attributes: Vec<(AttributeId, AttributeStatistics)>,
    expressions: u32,
}

/// Estimates for the attributes of a schema. They steer where expressions are placed, never whether they match.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    attributes: Vec<AttributeStatistics>,
    /// How many expressions there were.
    expressions: u32,
}

impl Statistics {
    pub fn new(schema: &Schema) -> Self {
        Statistics { attributes: schema.attributes().iter().map(initial).collect(), expressions: 0 }
    }

    /// What is known of some attributes, so that what an expression adds to it can be taken back.
    pub fn saved(&self, attributes: impl Iterator<Item = AttributeId>) -> Saved {
        let saved = attributes.map(|attribute| (attribute, self.attributes[attribute as usize]));
        Saved { attributes: saved.collect(), expressions: self.expressions }
    }

    /// Takes back what was noted since.
    pub fn restore(&mut self, saved: Saved) {
        saved.attributes.into_iter().for_each(|(attribute, known)| self.attributes[attribute as usize] = known);
        self.expressions = saved.expressions;
    }

    /// Takes note of an interval that an expression asks for.
    pub fn observe(&mut self, attribute: AttributeId, low: i64, high: i64) {
        let statistics = &mut self.attributes[attribute as usize];
        if statistics.declared {
            return;
        }
        let finite = |key: i64| (key != i64::MIN && key != i64::MAX).then_some(key);
        for key in [finite(low), finite(high)].into_iter().flatten() {
            let (least, greatest) = statistics.range.unwrap_or((key, key));
            statistics.range = Some((least.min(key), greatest.max(key)));
        }
    }

    /// Takes note of the attributes that an expression asks for, each as often as it does. What expressions ask for,
    /// events define: the more of them ask for an attribute, the more events are taken to define it.
    pub fn ask(&mut self, attributes: impl Iterator<Item = AttributeId>) {
        self.expressions = self.expressions.saturating_add(1);
        for attribute in attributes {
            let statistics = &mut self.attributes[attribute as usize];
            if statistics.asked_last == self.expressions {
                continue;
            }
            statistics.asked_last = self.expressions;
            statistics.asked += 1;
            if statistics.optional && !statistics.learned {
                let asked = (statistics.asked as f32 + ASKED * UNSEEN) / (self.expressions as f32 + UNSEEN);
                statistics.defined = defined_where(asked);
            }
        }
    }

    /// Takes note of the share of recent events that define each attribute: it counts as much as all that was known before.
    pub fn learn(&mut self, shares: impl Iterator<Item = f32>) {
        for (attribute, share) in self.attributes.iter_mut().zip(shares).filter(|(attribute, _)| attribute.optional) {
            attribute.defined = greater((attribute.defined + share) / 2.0, SELDOM);
            attribute.learned = true;
        }
    }

    /// The share of events that define `attribute`.
    pub fn defined(&self, attribute: AttributeId) -> f32 {
        self.attributes[attribute as usize].defined
    }

    /// The share of events in which `attribute` has one of `count` values.
    pub fn points(&self, attribute: AttributeId, count: usize) -> f32 {
        let statistics = self.attributes[attribute as usize];
        let values = greater(statistics.values.unwrap_or(UNKNOWN_VALUES), 1.0);
        lesser(count as f32 * statistics.elements / values, 1.0) * statistics.defined
    }

    /// The share of events in which the key of `attribute` is from `low` to `high`.
    pub fn interval(&self, attribute: AttributeId, low: i64, high: i64) -> f32 {
        let statistics = self.attributes[attribute as usize];
        let share = match statistics.range {
            Some((least, greatest)) if greatest > least => {
                let inside = high.min(greatest) as f64 - low.max(least) as f64;
                // Keys that differ may be one float, so even a range of two keys may have no width.
                (greater(inside, 0.0) / greater(greatest as f64 - least as f64, 1.0)) as f32
            }
            _ => 0.5,
        };
        // An estimate from a few constants is no ground for certainty.
        share.clamp(0.001, 1.0) * statistics.defined
    }
}

/// The share of events that are taken to define an attribute for which this share of expressions ask.
fn defined_where(asked: f32) -> f32 {
    asked / (asked + ASKED)
}

fn initial(attribute: &Attribute) -> AttributeStatistics {
    let (values, range) = match attribute.bounds {
        Bounds::Unbounded if attribute.ty == Type::Boolean => (Some(2.0), None),
        Bounds::Unbounded => (None, None),
        Bounds::Integer { min, max } => (Some(max as f32 - min as f32 + 1.0), Some((min, max))),
        Bounds::Float { min, max } => (None, Some((of_float(min), of_float(max)))),
        Bounds::Count(count) => (Some(count as f32), None),
    };
    let is_list = matches!(attribute.ty, Type::IntegerList | Type::StringList | Type::Segments | Type::FrequencyCaps);
    AttributeStatistics {
        defined: if attribute.optional { defined_where(ASKED) } else { 1.0 },
        learned: false,
        asked: 0,
        asked_last: 0,
        elements: if is_list { LIST_ELEMENTS } else { 1.0 },
        values,
        range,
        declared: range.is_some(),
        optional: attribute.optional,
    }
}
