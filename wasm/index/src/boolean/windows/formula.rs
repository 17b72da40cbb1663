//! A formula is an expression's tree, from which leaves are removed to make windows, the least decisive first.
//!
//! Without some leaves, the tree has two values: the lower, with all removed leaves false, and the upper, with all of them
//! true. Only leaves are negated, so the value of the expression lies between the two. If they are equal, the remaining
//! leaves decide the expression.

use std::array::from_fn;

use crate::boolean::windows::Leaf;
use crate::compile::normal::{NodeIndex, Normal, NormalNode};

/// The position of a node in its [`Formula`].
pub(super) type Place = u32;

const NOWHERE: Place = Place::MAX;

/// The positions of the lower and the upper value in pairs, and of their bits in [`Sides`].
pub(super) const LOWER: usize = 0;
pub(super) const UPPER: usize = 1;

/// A set of the lower and the upper value.
type Sides = u8;

const NEITHER: Sides = 0;
const LOWER_ONLY: Sides = 1 << LOWER;
const UPPER_ONLY: Sides = 1 << UPPER;
const BOTH: Sides = LOWER_ONLY | UPPER_ONLY;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Leaf(Leaf),
    And,
    Or,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub kind: Kind,
    parent: Place,
    /// The sides on which the node's value depends on the remaining leaves. On the others it is constant: the lower value is
    /// false once a part of an `And` is removed, and the upper value is true once a part of an `Or` is removed.
    varying: Sides,
}

impl Node {
    /// Returns whether the value on that side is constant.
    pub fn is_fixed(&self, side: usize) -> bool {
        self.varying >> side & 1 == 0
    }

    pub fn is_leaf(&self) -> bool {
        matches!(self.kind, Kind::Leaf(_))
    }

    fn is_and(&self) -> bool {
        matches!(self.kind, Kind::And)
    }
}

/// A formula is empty, or a tree of alternating `And` and `Or` with at least two parts each. Parents precede their children.
#[derive(Clone, Debug)]
pub(super) struct Formula {
    nodes: Vec<Node>,
    /// The number of remaining leaves. `literals` is the number of literals of the expression.
    leaves: usize,
    literals: usize,
    tables: Tables,
}

/// Tables of a removal. Windows take some fifteen removals of an expression, which share this memory.
#[derive(Clone, Debug, Default)]
struct Tables {
    /// For each node and side, the probability that none of its children seen so far decides it.
    undecided: Vec<[f32; 2]>,
    parts: Vec<Part>,
    /// The losses of the leaves: see [`Formula::weigh`].
    losses: Vec<u64>,
    children: Vec<Children>,
    /// For each inner node, the new parent of its children, and the sides on which they can vary there.
    below: Vec<(Place, Sides)>,
}

/// A node as a part of its parent, with a number for each side.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// The probability that the part does not decide its parent.
    passes: [f32; 2],
    /// The derivative of the probability of the whole by that of the part.
    slopes: [f32; 2],
}

/// The children of a node in [`Formula::settle`], as far as they were seen.
#[derive(Clone, Copy, Debug, Default)]
struct Children {
    /// The sides on which any of them varies, and those on which any of them is fixed.
    varying: Sides,
    fixed: Sides,
    /// The number of children that remain.
    kept: u32,
}

impl Children {
    /// Marks a leaf as removed.
    const REMOVED: Children = Children { varying: NEITHER, fixed: BOTH, kept: 0 };
}

impl Formula {
    /// Makes the formula of `normal`. `leaf` returns the leaf of a literal, or `None` to remove it.
    pub fn new(normal: &Normal, leaf: impl Fn(NodeIndex) -> Option<Leaf>) -> Self {
        let mut places = vec![NOWHERE; normal.capacity()];
        let mut nodes = Vec::with_capacity(normal.capacity());
        let mut children = Vec::with_capacity(normal.capacity());
        let (mut leaves, mut literals) = (0, 0);
        for index in normal.top_down() {
            places[index as usize] = nodes.len() as Place;
            let (kind, is_removed) = match normal.node(index) {
                NormalNode::Literal(_) => {
                    let leaf = leaf(index);
                    literals += 1;
                    leaves += usize::from(leaf.is_some());
                    (Kind::Leaf(leaf.unwrap_or_default()), leaf.is_none())
                }
                NormalNode::And => (Kind::And, false),
                NormalNode::Or => (Kind::Or, false),
            };
            let parent = normal.parent(index).map_or(NOWHERE, |parent| places[parent as usize]);
            nodes.push(Node { kind, parent, varying: BOTH });
            children.push(if is_removed { Children::REMOVED } else { Children::default() });
        }
        let tables = Tables {
            undecided: Vec::with_capacity(nodes.len()),
            parts: vec![Part::default(); nodes.len()],
            losses: Vec::with_capacity(leaves),
            children,
            below: vec![(NOWHERE, NEITHER); nodes.len()],
        };
        let mut formula = Formula { nodes, leaves, literals, tables };
        if !formula.is_whole() {
            formula.take_away();
        }
        formula
    }

    /// Returns the number of remaining leaves.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// Returns the number of nodes. The first one is the root.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, place: Place) -> &Node {
        &self.nodes[place as usize]
    }

    pub fn parent(&self, place: Place) -> Option<Place> {
        let parent = self.nodes[place as usize].parent;
        (parent != NOWHERE).then_some(parent)
    }

    /// Returns whether no leaf was removed, so that both values are that of the expression.
    pub fn is_whole(&self) -> bool {
        self.leaves == self.literals
    }

    /// Removes the `count` least decisive of at least two leaves.
    pub fn shrink(&mut self, count: usize) {
        self.count_undecided();
        self.weigh();
        let Formula { nodes, tables: Tables { losses, children, .. }, .. } = self;
        losses.select_nth_unstable(count - 1);
        refill(children, nodes.len(), Children::default());
        losses[..count].iter().for_each(|&loss| children[loss as Place as usize] = Children::REMOVED);
        self.take_away();
    }

    /// Computes from the leaves up the probability that each part does not decide its parent.
    fn count_undecided(&mut self) {
        let Formula { nodes, tables: Tables { undecided, parts, .. }, .. } = self;
        refill(undecided, nodes.len(), [1.0; 2]);
        for (place, node) in nodes.iter().enumerate().skip(1).rev() {
            let parent = node.parent as usize;
            let passes = match node.kind {
                Kind::Leaf(Leaf { probability, .. }) if nodes[parent].is_and() => [probability; 2],
                Kind::Leaf(Leaf { probability, .. }) => [1.0 - probability; 2],
                // A node that its parts decide decides its parent, which is of the other kind.
                Kind::And | Kind::Or => undecided[place].map(|undecided| 1.0 - undecided),
            };
            // A constant part either does not decide its parent, or the parent is constant too.
            let passes = from_fn(|side| if node.is_fixed(side) { 1.0 } else { passes[side] });
            // For now the slopes are the probability that no later sibling decides the parent.
            parts[place] = Part { passes, slopes: undecided[parent] };
            undecided[parent] = times(undecided[parent], passes);
        }
    }

    /// Computes from the root down the slopes of all nodes, and for each leaf its loss: the increase of the probability that
    /// the two values differ, if it is removed. A loss is not negative, so its bits are ordered as it is. The place of the
    /// leaf follows them.
    fn weigh(&mut self) {
        let Formula { nodes, tables: Tables { undecided, parts, losses, .. }, .. } = self;
        undecided.fill([1.0; 2]);
        losses.clear();
        parts[0].slopes = from_fn(|side| if nodes[0].is_fixed(side) { 0.0 } else { 1.0 });
        for (place, node) in nodes.iter().enumerate().skip(1) {
            let parent = node.parent as usize;
            let Part { passes, slopes } = parts[place];
            let slopes = times(slopes, times(parts[parent].slopes, undecided[parent]));
            let slopes: [f32; 2] = from_fn(|side| if node.is_fixed(side) { 0.0 } else { slopes[side] });
            undecided[parent] = times(undecided[parent], passes);
            match node.kind {
                Kind::Leaf(Leaf { probability, .. }) => {
                    let loss = slopes[LOWER] * probability + slopes[UPPER] * (1.0 - probability);
                    losses.push(u64::from(loss.to_bits()) << 32 | place as u64);
                }
                Kind::And | Kind::Or => parts[place].slopes = slopes,
            }
        }
    }

    /// Removes the leaves that the table `children` marks, the nodes that are then constant on both sides, and the nodes that are
    /// then useless.
    fn take_away(&mut self) {
        self.settle();
        self.close_up();
    }

    /// Computes from the leaves up on which sides each node still varies, and the number of its remaining children.
    fn settle(&mut self) {
        let Formula { nodes, tables: Tables { children, .. }, .. } = self;
        for place in (0..nodes.len()).rev() {
            let Children { varying, fixed, .. } = children[place];
            // The lower value of an `And` varies if that of all its children does, and the upper value if that of any does.
            let by_children = match nodes[place].kind {
                Kind::Leaf(_) => !fixed,
                Kind::And => !fixed & LOWER_ONLY | varying & UPPER_ONLY,
                Kind::Or => !fixed & UPPER_ONLY | varying & LOWER_ONLY,
            };
            let node = &mut nodes[place];
            node.varying &= by_children;
            if let Some(siblings) = children.get_mut(node.parent as usize) {
                siblings.varying |= node.varying;
                siblings.fixed |= !node.varying;
                siblings.kept += u32::from(node.varying != NEITHER);
            }
        }
    }

    /// Removes nodes from the root down. It also dissolves nodes with a single child, and nodes below one of their own kind.
    /// The children of a dissolved node vary on no side on which the node does not.
    fn close_up(&mut self) {
        let Formula { nodes, leaves, tables: Tables { children, below, .. }, .. } = self;
        let mut kept = 0;
        *leaves = 0;
        for place in 0..nodes.len() {
            let node = nodes[place];
            let &(parent, varying) = below.get(node.parent as usize).unwrap_or(&(NOWHERE, BOTH));
            let varying = node.varying & varying;
            let is_of_its_kind = |parent: &Node| parent.is_and() == node.is_and();
            let is_useless = !node.is_leaf()
                && (children[place].kept == 1 || nodes.get(parent as usize).is_some_and(is_of_its_kind));
            if varying == NEITHER || is_useless {
                below[place] = (parent, varying);
                continue;
            }
            below[place] = (kept as Place, BOTH);
            *leaves += usize::from(node.is_leaf());
            nodes[kept] = Node { kind: node.kind, parent, varying };
            kept += 1;
        }
        nodes.truncate(kept);
    }
}

/// Returns the products of both sides.
fn times(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    from_fn(|side| a[side] * b[side])
}

/// Sets the table to `len` elements that are all `value`.
fn refill<T: Clone>(table: &mut Vec<T>, len: usize, value: T) {
    table.clear();
    table.resize(len, value);
}
