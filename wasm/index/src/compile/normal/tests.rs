use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::compile::PredicateIndex;

/// The attributes of an event.
const ATTRIBUTES: usize = 3;
/// The predicates over them: an attribute is true, is null, or is not null.
const PREDICATES: u32 = 3 * ATTRIBUTES as u32;

/// A boolean or undefined value for each attribute.
type Event = [Option<bool>; ATTRIBUTES];

fn events() -> impl Iterator<Item = Event> {
    let value = |digit: usize| [None, Some(false), Some(true)][digit % 3];
    (0..27).map(move |event| [event, event / 3, event / 9].map(value))
}

fn holds(predicate: PredicateIndex, event: &Event) -> bool {
    let value = event[predicate as usize % ATTRIBUTES];
    match predicate as usize / ATTRIBUTES {
        0 => value == Some(true),
        1 => value.is_none(),
        _ => value.is_some(),
    }
}

/// Returns random steps, nested up to `depth` deep, over `predicates`.
pub(crate) fn steps(depth: u32, predicates: u32, with_constants: bool) -> impl Strategy<Value = Vec<Step>> {
    let constants = u32::from(with_constants);
    let leaf = prop_oneof![
        8 => (0..predicates).prop_map(|predicate| vec![Step::Predicate(predicate)]),
        constants => any::<bool>().prop_map(|value| vec![Step::Constant(value)]),
    ];
    leaf.prop_recursive(depth, 1 << depth, 2, |operand| {
        prop_oneof![
            1 => operand.clone().prop_map(|steps| [steps, vec![Step::Not]].concat()),
            2 => (operand.clone(), operand.clone()).prop_map(|(a, b)| [a, b, vec![Step::And]].concat()),
            2 => (operand.clone(), operand).prop_map(|(a, b)| [a, b, vec![Step::Or]].concat()),
        ]
    })
}

/// Returns random normal forms of up to `most` literals, each with a distinct predicate.
pub(crate) fn forms(depth: u32, most: usize) -> impl Strategy<Value = Normal> {
    let few = move |steps: &Vec<Step>| leaves(steps) <= most;
    steps(depth, 1, false).prop_filter("few literals", few).prop_map(|mut steps| {
        let predicates = steps.iter_mut().filter_map(|step| match step {
            Step::Predicate(predicate) => Some(predicate),
            _ => None,
        });
        predicates.zip(0..).for_each(|(predicate, number)| *predicate = number);
        tree(&steps)
    })
}

fn leaves(steps: &[Step]) -> usize {
    steps.iter().filter(|step| matches!(step, Step::Predicate(_))).count()
}

fn tree(steps: &[Step]) -> Normal {
    match normalise(steps) {
        Normalised::Tree(normal) => normal,
        Normalised::Constant(_) => panic!("steps without constants are no constant"),
    }
}

/// Returns the value of `steps` by the definition of postfix.
fn value_of_steps(steps: &[Step], holds: impl Fn(PredicateIndex) -> bool) -> bool {
    let mut stack: Vec<bool> = Vec::new();
    for step in steps {
        let value = match step {
            Step::Constant(value) => *value,
            Step::Predicate(predicate) => holds(*predicate),
            Step::Not => !stack.pop().unwrap(),
            Step::And | Step::Or => {
                let (right, left) = (stack.pop().unwrap(), stack.pop().unwrap());
                if *step == Step::And {
                    left && right
                } else {
                    left || right
                }
            }
        };
        stack.push(value);
    }
    assert_eq!(stack.len(), 1);
    stack[0]
}

/// Returns the value of the node at `index`. `is_true` has the value of each literal.
pub(crate) fn value(normal: &Normal, index: NodeIndex, is_true: &impl Fn(Literal) -> bool) -> bool {
    let mut children = normal.children(index).map(|child| value(normal, child, is_true));
    match normal.node(index) {
        NormalNode::Literal(literal) => is_true(literal),
        NormalNode::And => children.all(|value| value),
        NormalNode::Or => children.any(|value| value),
    }
}

/// Returns the subtree at `index`, parents before children.
fn below(normal: &Normal, index: NodeIndex) -> Vec<NodeIndex> {
    let children = normal.children(index).flat_map(|child| below(normal, child));
    std::iter::once(index).chain(children).collect()
}

proptest! {
    #[test]
    fn every_event_gives_the_normal_form_the_value_of_the_steps(steps in steps(6, PREDICATES, true)) {
        let normalised = normalise(&steps);
        for event in events() {
            let found = match &normalised {
                Normalised::Constant(value) => *value,
                Normalised::Tree(normal) => {
                    let is_true = |literal: Literal| holds(literal.predicate, &event) != literal.negated;
                    value(normal, normal.root(), &is_true)
                }
            };
            prop_assert_eq!(found, value_of_steps(&steps, |predicate| holds(predicate, &event)), "{:?}", event);
        }
    }

    #[test]
    fn operators_alternate_over_the_predicates_in_the_order_of_the_text(steps in steps(6, PREDICATES, false)) {
        let normal = tree(&steps);
        let text = steps.iter().filter_map(|step| match step {
            Step::Predicate(predicate) => Some(*predicate),
            _ => None,
        });
        let literals = normal.top_down().filter_map(|index| Some(normal.literal(index)?.predicate));
        prop_assert!(literals.eq(text));
        for index in normal.top_down() {
            let children: Vec<NodeIndex> = normal.children(index).collect();
            match normal.node(index) {
                NormalNode::Literal(_) => prop_assert!(children.is_empty()),
                kind => {
                    prop_assert!(children.len() >= 2);
                    prop_assert!(children.iter().all(|&child| normal.node(child) != kind));
                }
            }
            prop_assert!(children.iter().all(|&child| normal.parent(child) == Some(index)));
        }
    }

    #[test]
    fn both_orders_have_each_node_once_and_parents_on_one_side(normal in forms(5, 32)) {
        let down: Vec<NodeIndex> = normal.top_down().collect();
        prop_assert_eq!(&down, &below(&normal, normal.root()));
        prop_assert!(normal.bottom_up().eq(down.iter().rev().copied()));
        prop_assert_eq!(normal.parent(normal.root()), None);
        prop_assert_eq!(down.iter().collect::<BTreeSet<_>>().len(), down.len());
        prop_assert!(down.iter().all(|index| (*index as usize) < normal.capacity()));
    }

    /// A literal decides if the expression is true, and false without it. Exactly the literals of its context must then be
    /// true.
    #[test]
    fn the_context_is_the_literals_that_are_true_whenever_one_decides(normal in forms(5, 9)) {
        let literals: Vec<NodeIndex> = normal.top_down().filter(|index| normal.literal(*index).is_some()).collect();
        let is_true = |of: Literal, values: u32| values >> of.predicate & 1 == 1;
        let holds = |index: NodeIndex, values: u32| value(&normal, index, &|of| is_true(of, values));
        for &literal in &literals {
            let own = 1 << normal.literal(literal).unwrap().predicate;
            let decides = |values: &u32| holds(normal.root(), *values) && !holds(normal.root(), *values & !own);
            let deciding: Vec<u32> = (0..1 << literals.len()).filter(decides).collect();
            let is_always_true = |index: &NodeIndex| deciding.iter().all(|&values| holds(*index, values));

            let context: Vec<NodeIndex> = normal.context(literal).collect();
            prop_assert_eq!(context[0], literal);
            let expected: BTreeSet<NodeIndex> = literals.iter().copied().filter(is_always_true).collect();
            prop_assert_eq!(context.len(), expected.len());
            prop_assert_eq!(context.into_iter().collect::<BTreeSet<_>>(), expected);

            let joined: Vec<NodeIndex> = normal.joined(literal).collect();
            prop_assert!(joined.iter().all(is_always_true));
            prop_assert!(joined.iter().all(|index| !below(&normal, *index).contains(&literal)));
        }
    }
}

#[test]
fn a_constant_takes_its_operator_away() {
    let [p, yes, no] = [Step::Predicate(0), Step::Constant(true), Step::Constant(false)];
    let constant = |steps: &[Step]| match normalise(steps) {
        Normalised::Constant(value) => Some(value),
        Normalised::Tree(normal) => {
            assert_eq!(normal.top_down().count(), 1);
            None
        }
    };
    for [a, b] in [[p, yes], [yes, p]] {
        assert_eq!(constant(&[a, b, Step::And]), None);
        assert_eq!(constant(&[a, b, Step::Or]), Some(true));
        assert_eq!(constant(&[a, b, Step::Or, Step::Not]), Some(false));
    }
    for [a, b] in [[p, no], [no, p]] {
        assert_eq!(constant(&[a, b, Step::And]), Some(false));
        assert_eq!(constant(&[a, b, Step::Or]), None);
        assert_eq!(constant(&[a, b, Step::And, Step::Not]), Some(true));
    }
}

#[test]
fn no_nesting_overflows_the_stack() {
    const DEPTH: u32 = 200_000;
    let mut negated = vec![Step::Predicate(0)];
    negated.extend(vec![Step::Not; DEPTH as usize + 1]);
    let normal = tree(&negated);
    assert_eq!(normal.literal(normal.root()), Some(Literal { predicate: 0, negated: true }));

    // Chains that nest to the left or to the right become one node.
    let mut left = vec![Step::Predicate(0)];
    left.extend((1..DEPTH).flat_map(|predicate| [Step::Predicate(predicate), Step::And]));
    let mut right: Vec<Step> = (0..DEPTH).map(Step::Predicate).collect();
    right.extend(vec![Step::And; DEPTH as usize - 1]);
    for steps in [left, right] {
        let normal = tree(&steps);
        assert_eq!(normal.children(normal.root()).count(), DEPTH as usize);
    }

    // Alternating operators nest.
    let mut nested = vec![Step::Predicate(0)];
    nested.extend(
        (1..DEPTH).flat_map(|predicate| [Step::Predicate(predicate), [Step::And, Step::Or][predicate as usize % 2]]),
    );
    let normal = tree(&nested);
    assert_eq!(normal.top_down().count(), 2 * DEPTH as usize - 1);
    let deepest = normal.top_down().find(|index| normal.literal(*index).is_some_and(|of| of.predicate == 0)).unwrap();
    assert_eq!(std::iter::successors(Some(deepest), |index| normal.parent(*index)).count(), DEPTH as usize);
}
