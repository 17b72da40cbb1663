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
    pub fn context(&self, index: NodeIndex) -> Context<'_> {
        Context { normal: self, literal: index, above: NONE, next: NONE, conjunctions: 0 }
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

/// The literals that [`Normal::context`] returns.
pub(crate) struct Context<'a> {
    normal: &'a Normal,
    /// The literal whose context this is.
    literal: NodeIndex,
    /// The node whose literals are read, or [`NONE`] before the first literal.
    above: NodeIndex,
    /// The next literal under that node.
    next: NodeIndex,
    /// The number of `And`s so far.
    conjunctions: usize,
}

impl Iterator for Context<'_> {
    type Item = NodeIndex;

    // Inlined, because a call takes longer than the work of the loops for one literal.
    #[inline(always)]
    fn next(&mut self) -> Option<NodeIndex> {
        loop {
            if let Some(literal) = some(self.next) {
                self.next = self.normal.nodes[literal as usize].last;
                if literal != self.literal {
                    return Some(literal);
                }
            } else if self.above == NONE {
                self.above = self.literal;
                return Some(self.literal);
            } else {
                self.above = self.normal.parent(self.above)?;
                let Linked { node, last, .. } = self.normal.nodes[self.above as usize];
                if node == NormalNode::And {
                    self.conjunctions += 1;
                    if self.conjunctions > cost::MAX_CONTEXT {
                        return None;
                    }
                    self.next = last;
                }
            }
        }
    }
}

fn some(index: NodeIndex) -> Option<NodeIndex> {
    (index != NONE).then_some(index)
}

/// Returns the normal form of `steps`, in time linear in their number and without recursion.
pub(crate) fn normalise(steps: &[Step]) -> Normalised {
    let negated = negations(steps);
    let mut builder = Builder { nodes: Vec::with_capacity(steps.len()) };
    let mut stack: Vec<NodeIndex> = Vec::with_capacity(steps.len());
    for (position, &step) in steps.iter().enumerate() {
        let negated = negated.get(position).is_some_and(|&negated| negated);
        let operand = match step {
            Step::Constant(value) => constant(value != negated),
            Step::Predicate(predicate) => builder.push(NormalNode::Literal(Literal { predicate, negated })),
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
    let Some(root) = stack.pop() else { unreachable!("a kept expression has a value") };
    match value(root) {
        Some(value) => Normalised::Constant(value),
        // The stack is empty now, so the preorder reuses its memory.
        None => Normalised::Tree(builder.finish(root, stack)),
    }
}

/// Operands that stand for a constant. No node has these indices, because an expression has fewer nodes.
const FALSE: NodeIndex = NodeIndex::MAX - 2;
const TRUE: NodeIndex = NodeIndex::MAX - 1;

fn constant(value: bool) -> NodeIndex {
    if value {
        TRUE
    } else {
        FALSE
    }
}

/// Returns the value of a constant operand, or `None` for a node.
fn value(operand: NodeIndex) -> Option<bool> {
    (operand >= FALSE).then_some(operand == TRUE)
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

struct Builder {
    nodes: Vec<Linked>,
}

impl Builder {
    fn push(&mut self, node: NormalNode) -> NodeIndex {
        self.nodes.push(Linked { node, parent: NONE, first: NONE, last: NONE, next: NONE });
        self.nodes.len() as NodeIndex - 1
    }

    fn join(&mut self, kind: NormalNode, left: NodeIndex, right: NodeIndex) -> NodeIndex {
        // The operand that short-circuits the operator: false for `And`, true for `Or`.
        let decisive = kind == NormalNode::Or;
        match (value(left), value(right)) {
            (Some(value), _) | (_, Some(value)) if value == decisive => constant(decisive),
            (Some(_), _) => right,
            (_, Some(_)) => left,
            (None, None) => {
                let node = if self.nodes[left as usize].node == kind {
                    left
                } else {
                    let node = self.push(kind);
                    self.adopt(node, left, left);
                    node
                };
                let Linked { node: other, first, last, .. } = self.nodes[right as usize];
                if other == kind {
                    self.adopt(node, first, last);
                } else {
                    self.adopt(node, right, right);
                }
                node
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

    /// `preorder` is empty, and has room for all nodes.
    fn finish(mut self, root: NodeIndex, mut preorder: Vec<NodeIndex>) -> Normal {
        let mut next = root;
        while let Some(index) = some(next) {
            preorder.push(index);
            let Linked { node, first, .. } = self.nodes[index as usize];
            if first == NONE {
                next = self.behind(index);
                continue;
            }
            let is_and = node == NormalNode::And;
            // The node whose `last` names the next literal.
            let mut before = index;
            let mut child = first;
            while let Some(below) = some(child) {
                let linked = &mut self.nodes[below as usize];
                linked.parent = index;
                child = linked.next;
                if is_and && matches!(linked.node, NormalNode::Literal(_)) {
                    self.nodes[before as usize].last = below;
                    before = below;
                }
            }
            if is_and {
                self.nodes[before as usize].last = NONE;
            }
            next = first;
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
