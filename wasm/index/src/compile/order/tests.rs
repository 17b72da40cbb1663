use std::cell::Cell;

use proptest::prelude::*;

use super::*;
use crate::compile::normal::tests::{forms, value};
use crate::compile::normal::{normalise, Normalised};
use crate::compile::Step;

/// The greatest number of literals. Tests try all their values.
const MAX_OPERANDS: usize = 7;

/// Returns random estimates for each literal.
fn estimates() -> impl Strategy<Value = Vec<Estimate>> {
    let probability = prop_oneof![1 => Just(0.0_f32), 1 => Just(1.0), 8 => 0.01_f32..0.99];
    let estimate = (probability, 0.5_f32..12.0).prop_map(|(probability, cost)| Estimate { probability, cost });
    prop::collection::vec(estimate, MAX_OPERANDS)
}

fn ordered(normal: &Normal, estimates: &[Estimate]) -> Vec<Test> {
    order(normal, |_, literal| estimates[literal.predicate as usize])
}

/// Runs `tests` by their definition. `is_true` has the value of each predicate, before its negation.
fn run(tests: &[Test], mut is_true: impl FnMut(Literal) -> bool) -> bool {
    let mut next = 0;
    while let Some(test) = tests.get(next) {
        next += 1;
        if (is_true(test.literal) != test.literal.negated) == test.on {
            match test.target {
                Target::Test(target) => {
                    assert!(target as usize >= next, "a jump leads back");
                    next = target as usize;
                }
                Target::Done(value) => return value,
            }
        }
    }
    false
}

/// Returns the mean cost of running `tests`. Literals are true with their probabilities, independently.
fn mean_cost(tests: &[Test], estimates: &[Estimate]) -> f64 {
    let case = |values: u32| {
        let is_true = |literal: Literal| values >> literal.predicate & 1 == 1;
        let chance = tests.iter().map(|test| {
            let probability = f64::from(estimates[test.literal.predicate as usize].probability);
            if is_true(test.literal) {
                probability
            } else {
                1.0 - probability
            }
        });
        let cost = Cell::new(0.0);
        run(tests, |literal| {
            cost.set(cost.get() + f64::from(estimates[literal.predicate as usize].cost));
            is_true(literal) != literal.negated
        });
        chance.product::<f64>() * cost.get()
    };
    (0..1 << tests.len()).map(case).sum()
}

/// Returns the least mean cost of evaluating the node at `index`, over all orders of the children of each node, and the
/// probability that the node is true.
fn cheapest(normal: &Normal, index: NodeIndex, estimates: &[Estimate]) -> (f64, f64) {
    if let Some(literal) = normal.literal(index) {
        let Estimate { probability, cost } = estimates[literal.predicate as usize];
        return (cost.into(), probability.into());
    }
    let is_and = normal.node(index) == NormalNode::And;
    let children: Vec<(f64, f64)> = normal.children(index).map(|child| cheapest(normal, child, estimates)).collect();
    // The probability that evaluation continues after a child.
    let continues = |(_, probability): (f64, f64)| if is_and { probability } else { 1.0 - probability };
    let cost = |order: &[(f64, f64)]| {
        let goes_on = |reached: &mut f64, child: &(f64, f64)| {
            let cost = *reached * child.0;
            *reached *= continues(*child);
            Some(cost)
        };
        order.iter().scan(1.0, goes_on).sum::<f64>()
    };
    let least = permutations(&children).iter().map(|order| cost(order)).fold(f64::INFINITY, f64::min);
    let all: f64 = children.iter().map(|child| continues(*child)).product();
    (least, if is_and { all } else { 1.0 - all })
}

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let first = |position: usize| {
        let mut others = items.to_vec();
        let first = others.remove(position);
        permutations(&others).into_iter().map(move |order| [vec![first.clone()], order].concat())
    };
    (0..items.len()).flat_map(first).collect()
}

/// Returns the literals below `index` in the order of evaluation.
fn literals(normal: &Normal, order: &Order, index: NodeIndex) -> Vec<Literal> {
    match normal.literal(index) {
        Some(literal) => vec![literal],
        None => order.children(index).iter().flat_map(|&child| literals(normal, order, child)).collect(),
    }
}

proptest! {
    #[test]
    fn an_order_never_changes_the_value(normal in forms(5, MAX_OPERANDS), estimates in estimates()) {
        let tests = ordered(&normal, &estimates);
        for values in 0..1_u32 << tests.len() {
            let predicate = |literal: Literal| values >> literal.predicate & 1 == 1;
            let expected = value(&normal, normal.root(), &|literal| predicate(literal) != literal.negated);
            prop_assert_eq!(run(&tests, predicate), expected);
        }
    }

    #[test]
    fn no_other_order_of_children_costs_less(normal in forms(5, MAX_OPERANDS), estimates in estimates()) {
        let cost = mean_cost(&ordered(&normal, &estimates), &estimates);
        let (least, _) = cheapest(&normal, normal.root(), &estimates);
        prop_assert!((cost - least).abs() <= 1e-4 * least, "{} instead of {}", cost, least);
    }

    #[test]
    fn each_literal_is_tested_once_and_jumps_lead_ahead(normal in forms(6, 64)) {
        let estimate = |index: NodeIndex, _| {
            Estimate { probability: (index % 7) as f32 / 7.0, cost: 1.0 + (index % 5) as f32 }
        };
        let tests = order(&normal, estimate);
        let expected = literals(&normal, &Order::new(&normal, estimate), normal.root());
        prop_assert!(tests.iter().map(|test| test.literal).eq(expected));
        let mut tested: Vec<u32> = tests.iter().map(|test| test.literal.predicate).collect();
        tested.sort_unstable();
        prop_assert!(tested.into_iter().eq(0..tests.len() as u32));
        for (position, test) in tests.iter().enumerate() {
            if let Target::Test(target) = test.target {
                prop_assert!(position < target as usize && (target as usize) < tests.len());
            }
        }
    }
}

#[test]
fn the_cheap_and_decisive_test_comes_first() {
    // `a and b and c`, which are false in 1, 5 and 9 of ten events.
    let [a, b, c] = [0, 1, 2].map(Step::Predicate);
    let Normalised::Tree(normal) = normalise(&[a, b, Step::And, c, Step::And]) else {
        panic!("three predicates are no constant")
    };
    let order = |costs: [f32; 3]| {
        let estimates = [0.9, 0.5, 0.1].into_iter().zip(costs);
        let estimates: Vec<_> = estimates.map(|(probability, cost)| Estimate { probability, cost }).collect();
        ordered(&normal, &estimates).iter().map(|test| test.literal.predicate).collect::<Vec<_>>()
    };
    assert_eq!(order([1.0, 1.0, 1.0]), [2, 1, 0]);
    // The ratios of cost to decisiveness are 1.0 / 0.1, 5.5 / 0.5 and 9.5 / 0.9.
    assert_eq!(order([1.0, 5.5, 9.5]), [0, 2, 1]);
}
