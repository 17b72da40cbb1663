//! The order of evaluation: an expression as a list of tests. A test falls through to the next one or jumps ahead.
//!
//! Every test belongs to one literal. If the literal's value decides an enclosing node, the test jumps over the tests that
//! no longer matter, or to the end. Children of a node are ordered by cost over decisiveness (Smith's rule), which minimizes
//! the expected cost.

#[cfg(test)]
mod tests;

use crate::compile::normal::{NodeIndex, Normal, NormalNode};
use crate::compile::Literal;
use crate::support::number::greater;

/// The estimates for a literal: the probability that it is true, and its cost relative to a comparison of integers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Estimate {
    pub probability: f32,
    pub cost: f32,
}

/// One test. If its literal's value is `on`, evaluation continues at `target`, and otherwise at the next test. After the
/// last test the expression is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    pub literal: Literal,
    pub on: bool,
    pub target: Target,
}

impl Test {
    /// Returns the value of the predicate, before negation, on which the test jumps.
    pub fn jumps_on(&self) -> bool {
        self.on != self.literal.negated
    }
}

/// The target of a test's jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The test at this position.
    Test(u32),
    /// The end: the expression has this value.
    Done(bool),
}

/// Returns the tests of `normal`. `estimate` gives the estimates of each literal at its node.
pub(crate) fn order(normal: &Normal, estimate: impl Fn(NodeIndex, Literal) -> Estimate) -> Vec<Test> {
    lay_out(normal, measure(normal, estimate))
}

/// The order in which the children of each node are evaluated.
pub(crate) struct Order(Measured);

impl Order {
    /// Returns the order that follows from the estimates of each literal.
    pub fn new(normal: &Normal, estimate: impl Fn(NodeIndex, Literal) -> Estimate) -> Self {
        Order(measure(normal, estimate))
    }

    /// Returns the children of `index` in the order of evaluation.
    pub fn children(&self, index: NodeIndex) -> &[NodeIndex] {
        let (from, to) = self.0.nodes[index as usize].children;
        &self.0.children[from as usize..to as usize]
    }
}

/// The estimates of each node, and the positions of its tests.
struct Measured {
    nodes: Vec<Expected>,
    /// The children of each inner node in the order of evaluation, node after node.
    children: Vec<NodeIndex>,
}

/// The estimates of a node and its tests.
#[derive(Clone, Copy)]
struct Expected {
    estimate: Estimate,
    /// The number of literals below the node, or 1 for a literal.
    literals: u32,
    /// The cost over the probability of deciding the parent.
    ratio: f32,
    /// The range of its children in [`Measured::children`].
    children: (u32, u32),
    place: Place,
}

fn measure(normal: &Normal, estimate: impl Fn(NodeIndex, Literal) -> Estimate) -> Measured {
    let estimate_of_none = Estimate { probability: 0.0, cost: 0.0 };
    let nothing = Expected { estimate: estimate_of_none, literals: 1, ratio: 0.0, children: (0, 0), place: WHOLE };
    let capacity = normal.capacity();
    let mut measured = Measured { nodes: vec![nothing; capacity], children: Vec::with_capacity(capacity) };
    for index in normal.bottom_up() {
        match normal.node(index) {
            NormalNode::Literal(literal) => measured.nodes[index as usize].estimate = estimate(index, literal),
            kind @ (NormalNode::And | NormalNode::Or) => measured.inner(normal, index, kind),
        }
    }
    measured
}

impl Measured {
    fn inner(&mut self, normal: &Normal, index: NodeIndex, kind: NormalNode) {
        let start = self.children.len();
        // The probability that a child decides the node: that it is false under `And`, or true under `Or`.
        let decides = |of: &Estimate| match kind {
            NormalNode::And => 1.0 - of.probability,
            _ => of.probability,
        };
        for child in normal.children(index) {
            let Expected { estimate, ratio, .. } = &mut self.nodes[child as usize];
            *ratio = estimate.cost / greater(decides(estimate), 1e-6);
            self.children.push(child);
        }
        let nodes = &self.nodes;
        let ratio = |child: NodeIndex| nodes[child as usize].ratio;
        let children = &mut self.children[start..];
        children.sort_by(|&a, &b| ratio(a).total_cmp(&ratio(b)));
        let (mut reached, mut cost, mut literals) = (1.0, 0.0, 0);
        for &child in &*children {
            let of_child = &nodes[child as usize];
            cost += reached * of_child.estimate.cost;
            reached *= 1.0 - decides(&of_child.estimate);
            literals += of_child.literals;
        }
        let probability = if kind == NormalNode::And { reached } else { 1.0 - reached };
        let node = &mut self.nodes[index as usize];
        node.estimate = Estimate { probability, cost };
        node.literals = literals;
        node.children = (start as u32, self.children.len() as u32);
    }
}

/// The position of a node's first test, and the targets if the node is true or false.
#[derive(Clone, Copy)]
struct Place {
    start: u32,
    on_true: Target,
    on_false: Target,
}

/// The place of the whole expression.
const WHOLE: Place = Place { start: 0, on_true: Target::Done(true), on_false: Target::Done(false) };

fn lay_out(normal: &Normal, mut measured: Measured) -> Vec<Test> {
    let root = normal.root();
    if let Some(literal) = normal.literal(root) {
        return vec![test(literal, WHOLE)];
    }
    let unset = Test { literal: Literal { predicate: 0, negated: false }, on: false, target: Target::Done(false) };
    let mut tests = vec![unset; measured.nodes[root as usize].literals as usize];
    for index in normal.top_down() {
        let Expected { place, children: (from, to), .. } = measured.nodes[index as usize];
        let is_and = normal.node(index) == NormalNode::And;
        let mut start = place.start;
        for position in from..to {
            let child = measured.children[position as usize];
            let below = &mut measured.nodes[child as usize];
            let after = start + below.literals;
            let is_last = position + 1 == to;
            let place = match is_and {
                _ if is_last => Place { start, ..place },
                true => Place { start, on_true: Target::Test(after), ..place },
                false => Place { start, on_false: Target::Test(after), ..place },
            };
            match normal.literal(child) {
                Some(literal) => tests[start as usize] = test(literal, place),
                None => below.place = place,
            }
            start = after;
        }
    }
    let leads_ahead = |(position, test): (usize, &Test)| match test.target {
        Target::Test(target) => (position + 1..tests.len()).contains(&(target as usize)),
        Target::Done(_) => true,
    };
    debug_assert!(tests.iter().enumerate().all(leads_ahead), "a jump leads to a later test");
    tests
}

/// Returns the test of a literal. One of its two successors is the next test or, after the last test, the end.
fn test(literal: Literal, place: Place) -> Test {
    if place.on_true == Target::Test(place.start + 1) {
        Test { literal, on: false, target: place.on_false }
    } else {
        Test { literal, on: true, target: place.on_true }
    }
}
