//! The normal form: negations are pushed to the predicates, constants folded, and chains of one operator made one node.
//!
//! A predicate over an undefined attribute is false, and its negation is true. So a negated predicate stays a negated
//! predicate. De Morgan's rules still hold, because every predicate has one of two values. The normal form depends only on
//! the steps, so it can be recomputed later.

#[cfg(test)]
pub(crate) mod tests;

use crate::compile::{Literal, Step};
use crate::cost;

/// The position of a node in its [`Normal`].
pub(crate) type NodeIndex = u32;

const NONE: NodeIndex = NodeIndex::MAX;

/// A node of a normal form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NormalNode {
    Literal(Literal),
    /// Two or more children, none of them an `And`.
    And,
    /// Two or more children, none of them an `Or`.
    Or,
}

/// The normal form of an expression.
#[derive(Clone, Debug)]
pub(crate) enum Normalised {
    /// The expression has this value for every event.
    Constant(bool),
    /// The value depends on the event.
    Tree(Normal),
}

/// An expression in normal form.
#[derive(Clone, Debug)]
pub(crate) struct Normal {
    nodes: Vec<Linked>,
    /// Every reachable node, parents before their children, children in the order of the text.
    preorder: Vec<NodeIndex>,
}

#[derive(Clone, Copy, Debug)]
struct Linked {
    node: NormalNode,
    parent: NodeIndex,
    first: NodeIndex,
    /// While building: the last child. After [`Builder::finish`]: the first literal child of an `And`, or the next literal
    /// under the same `And` for a literal.
    last: NodeIndex,
    next: NodeIndex,
}

impl Normal {
    pub fn root(&self) -> NodeIndex {
        self.preorder[0]
    }

    pub fn node(&self, index: NodeIndex) -> NormalNode {
        self.nodes[index as usize].node
    }

    /// Returns the literal at `index`, or `None` for another node.
    pub fn literal(&self, index: NodeIndex) -> Option<Literal> {
        match self.node(index) {
            NormalNode::Literal(literal) => Some(literal),
            _ => None,
        }
    }

    pub fn parent(&self, index: NodeIndex) -> Option<NodeIndex> {
        some(self.nodes[index as usize].parent)
    }

    pub fn children(&self, index: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        let mut next = self.nodes[index as usize].first;
        std::iter::from_fn(move || {
            let child = some(next)?;
            next = self.nodes[child as usize].next;
            Some(child)
        })
    }

    /// Returns all nodes, parents before children.
    pub fn top_down(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.preorder.iter().copied()
    }

    /// Returns all nodes, children before parents.
    pub fn bottom_up(&self) -> impl Iterator<Item = NodeIndex> + '_ {
        self.preorder.iter().rev().copied()
    }

    /// Returns the size of a table with an element for each node.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the literal at `index`, then the literal children of each `And` above it. All of them are true whenever this
    /// literal makes the expression true. Only the nearest [`cost::MAX_CONTEXT`] `And`s count. The time is constant for each
    /// literal, because other children of an `And` are skipped.
    pub fn context(&self, index: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        let (mut above, mut next, mut conjunctions) = (index, NONE, 0);
        let literals = std::iter::from_fn(move || loop {
            match some(next) {
                Some(literal) => {
                    next = self.nodes[literal as usize].last;
                    if literal != index {
                        return Some(literal);
                    }
                }
                None => {
                    above = self.parent(above)?;
                    if self.node(above) == NormalNode::And {
                        conjunctions += 1;
                        if conjunctions > cost::MAX_CONTEXT {
                            return None;
                        }
                        next = self.nodes[above as usize].last;
                    }
                }
            }
        });
        std::iter::once(index).chain(literals)
    }

    /// Returns the conjuncts of the node at `index`: the other children of each `And` above it.
    pub fn joined(&self, index: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
        let (mut below, mut above, mut next) = (index, index, NONE);
        std::iter::from_fn(move || loop {
            match some(next) {
                Some(child) => {
                    next = self.nodes[child as usize].next;
                    if child != below {
                        return Some(child);
                    }
                }
                None => {
                    below = above;
                    above = self.parent(below)?;
                    if self.node(above) == NormalNode::And {
                        next = self.nodes[above as usize].first;
                    }
                }
            }
        })
    }
}

fn some(index: NodeIndex) -> Option<NodeIndex> {
    (index != NONE).then_some(index)
}

/// Returns the normal form of `steps`, in time linear in their number and without recursion.
pub(crate) fn normalise(steps: &[Step]) -> Normalised {
    let negated = negations(steps);
    let mut builder = Builder { nodes: Vec::with_capacity(steps.len()) };
    let mut stack: Vec<Operand> = Vec::with_capacity(steps.len());
    for (position, &step) in steps.iter().enumerate() {
        let negated = negated.get(position).is_some_and(|&negated| negated);
        let operand = match step {
            Step::Constant(value) => Operand::Constant(value != negated),
            Step::Predicate(predicate) => {
                Operand::Node(builder.push(NormalNode::Literal(Literal { predicate, negated })))
            }
            Step::Not => continue,
            Step::And | Step::Or => {
                let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else {
                    unreachable!("a kept expression has two operands for each operator")
                };
                let kind = if (step == Step::And) != negated { NormalNode::And } else { NormalNode::Or };
                builder.join(kind, left, right)
            }
        };
        stack.push(operand);
    }
    match stack.pop() {
        Some(Operand::Node(root)) => Normalised::Tree(builder.finish(root)),
        Some(Operand::Constant(value)) => Normalised::Constant(value),
        None => unreachable!("a kept expression has a value"),
    }
}

/// Returns for each step whether the number of negations above it is odd. Empty if there is no negation.
fn negations(steps: &[Step]) -> Vec<bool> {
    if !steps.contains(&Step::Not) {
        return Vec::new();
    }
    let mut negated = vec![false; steps.len()];
    // Steps are read from the last to the first. The stack holds the polarity of each operand that is still to come.
    let mut pending = Vec::with_capacity(steps.len());
    pending.push(false);
    for (i, step) in steps.iter().enumerate().rev() {
        let Some(polarity) = pending.pop() else { unreachable!("a kept expression is one expression") };
        negated[i] = polarity;
        match step {
            Step::Not => pending.push(!polarity),
            Step::And | Step::Or => pending.extend([polarity, polarity]),
            Step::Constant(_) | Step::Predicate(_) => {}
        }
    }
    negated
}

#[derive(Clone, Copy)]
enum Operand {
    Constant(bool),
    Node(NodeIndex),
}

struct Builder {
    nodes: Vec<Linked>,
}

impl Builder {
    fn push(&mut self, node: NormalNode) -> NodeIndex {
        self.nodes.push(Linked { node, parent: NONE, first: NONE, last: NONE, next: NONE });
        self.nodes.len() as NodeIndex - 1
    }

    fn join(&mut self, kind: NormalNode, left: Operand, right: Operand) -> Operand {
        // The operand that short-circuits the operator: false for `And`, true for `Or`.
        let decisive = kind == NormalNode::Or;
        match (left, right) {
            (Operand::Constant(value), _) | (_, Operand::Constant(value)) if value == decisive => {
                Operand::Constant(decisive)
            }
            (Operand::Constant(_), other) | (other, Operand::Constant(_)) => other,
            (Operand::Node(left), Operand::Node(right)) => {
                let node = if self.nodes[left as usize].node == kind {
                    left
                } else {
                    let node = self.push(kind);
                    self.adopt(node, left, left);
                    node
                };
                if self.nodes[right as usize].node == kind {
                    let Linked { first, last, .. } = self.nodes[right as usize];
                    self.adopt(node, first, last);
                } else {
                    self.adopt(node, right, right);
                }
                Operand::Node(node)
            }
        }
    }

    /// Appends the chain of siblings from `first` to `last` to the children of `node`.
    fn adopt(&mut self, node: NodeIndex, first: NodeIndex, last: NodeIndex) {
        let before = self.nodes[node as usize].last;
        match some(before) {
            Some(before) => self.nodes[before as usize].next = first,
            None => self.nodes[node as usize].first = first,
        }
        self.nodes[node as usize].last = last;
    }

    fn finish(mut self, root: NodeIndex) -> Normal {
        let mut preorder = Vec::with_capacity(self.nodes.len());
        let mut next = root;
        while let Some(index) = some(next) {
            preorder.push(index);
            let first = self.nodes[index as usize].first;
            let is_and = self.nodes[index as usize].node == NormalNode::And;
            // The node whose `last` names the next literal.
            let mut before = index;
            let mut child = first;
            while let Some(below) = some(child) {
                self.nodes[below as usize].parent = index;
                child = self.nodes[below as usize].next;
                if is_and && matches!(self.nodes[below as usize].node, NormalNode::Literal(_)) {
                    self.nodes[before as usize].last = below;
                    before = below;
                }
            }
            if is_and {
                self.nodes[before as usize].last = NONE;
            }
            next = if first == NONE { self.behind(index) } else { first };
        }
        Normal { nodes: self.nodes, preorder }
    }

    /// Returns the next sibling of `index`, or of its nearest ancestor that has one.
    fn behind(&self, mut index: NodeIndex) -> NodeIndex {
        while index != NONE && self.nodes[index as usize].next == NONE {
            index = self.nodes[index as usize].parent;
        }
        some(index).map_or(NONE, |index| self.nodes[index as usize].next)
    }
}
