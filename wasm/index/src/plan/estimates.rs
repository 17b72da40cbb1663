//! Estimates for the literals of an expression, from which the order of its tests follows.

use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::compile::order::{order, Estimate, Test};
use crate::compile::Literal;
use crate::cost;
use crate::model::predicate::{self, Predicate};
use crate::model::strings::StringId;
use crate::plan::access_predicate::AccessPredicate;
use crate::plan::analysis::{Access, Analysis};
use crate::plan::demands::{self, Coverage, Demands};

/// Returns the tests of an expression that is found by `access`, in the order of evaluation.
pub(crate) fn tests(
    analysis: &Analysis,
    access: &Access,
    predicates: &[Predicate<StringId>],
    catalog: &Catalog,
) -> Vec<Test> {
    let expected = expected(analysis, access, catalog);
    order(&analysis.normal, |index, literal| {
        let is_expected = expected.contains(&Some(index));
        let probability = if is_expected { cost::ACCESS_PROBABILITY } else { probability(analysis, index, literal) };
        Estimate { probability, cost: cost_of(&predicates[literal.predicate as usize].test) }
    })
}

/// Returns the literals that are probably true whenever the expression is evaluated. For an expression with a single access
/// predicate these are that literal and the literal of its entries' filter.
fn expected(analysis: &Analysis, access: &Access, catalog: &Catalog) -> [Option<NodeIndex>; 2] {
    let Access::Demands(literals) = access else { return [None; 2] };
    let &[literal] = &literals[..] else { return [None; 2] };
    let demands = Demands::of(literal, analysis);
    let leading = demands.access_predicate().map(|leading| leading.attribute);
    let led = |access_predicate: &AccessPredicate| match leading == Some(access_predicate.attribute) {
        true if access_predicate.is_met_where_it_leads() => Coverage::Wholly,
        true => Coverage::Partly,
        false => Coverage::Nothing,
    };
    let filter = demands::choose(&demands, led, catalog);
    [Some(literal), filter.map(|demanded| demanded.literal)]
}

/// Returns the probability that the literal at `index` is true for an event.
pub(crate) fn probability(analysis: &Analysis, index: NodeIndex, literal: Literal) -> f32 {
    match analysis.access_predicate(index) {
        Some(_) => analysis.share(index),
        None if literal.negated => cost::NEGATED_PROBABILITY,
        None => cost::UNKNOWN_PROBABILITY,
    }
}

/// Returns the cost of a test. A comparison costs 1.
fn cost_of(test: &predicate::Test<StringId>) -> f32 {
    use predicate::{Lowered, Test};
    match test {
        Test::True | Test::Integer(..) | Test::Float(..) | Test::StringEqual(_) | Test::StringNotEqual(_) => {
            cost::COMPARISON
        }
        Test::Null | Test::NotNull | Test::Empty => cost::COMPARISON,
        Test::OneOf(_) | Test::NoneOf(_) | Test::SegmentWithin { .. } | Test::SegmentBefore { .. } => cost::LIST_TEST,
        Test::AllOf(_) | Test::StartsWith(_) | Test::EndsWith(_) | Test::WithinFrequencyCap { .. } => cost::AFFIX_TEST,
        Test::Compared(_) | Test::SameString { .. } => cost::LIST_TEST,
        Test::InNetworks(_) | Test::Lowered(Lowered::OneOf(_) | Lowered::StartsWith(_) | Lowered::EndsWith(_)) => {
            cost::AFFIX_TEST
        }
        Test::Contains(_) | Test::GeoWithinRadius { .. } => cost::SUBSTRING_TEST,
        Test::Like(_) | Test::Lowered(Lowered::Contains(_) | Lowered::Like(_)) => cost::SUBSTRING_TEST,
        Test::Matches(_) | Test::Objects(_) => cost::AUTOMATON_TEST,
    }
}
