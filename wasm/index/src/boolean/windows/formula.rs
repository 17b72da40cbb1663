//! A formula is an expression's tree, from which leaves are removed to make windows, the least decisive first.
//!
//! Without some leaves, the tree has two values: the lower, with all removed leaves false, and the upper, with all of them
//! true. Only leaves are negated, so the value of the expression lies between the two. If they are equal, the remaining
//! leaves decide the expression.

use crate::boolean::windows::Leaf;
use crate::compile::normal::{NodeIndex, Normal, NormalNode};

/// The position of a node in its [`Formula`].
pub(super) type Place = u32;

const NOWHERE: Place = Place::MAX;

/// The positions of the lower and the upper value in pairs.
pub(super) const LOWER: usize = 0;
pub(super) const UPPER: usize = 1;

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
    /// The lower value can be true. It cannot be if a part of an `And` is removed.
    pub provable: bool,
    /// The upper value can be false. It cannot be if a part of an `Or` is removed.
    pub refutable: bool,
}

impl Node {
    /// Returns whether the value on that side is constant.
    pub fn is_fixed(&self, side: usize) -> bool {
        !if side == LOWER { self.provable } else { self.refutable }
    }
}

/// A formula is empty, or a tree of alternating `And` and `Or` with at least two parts each. Parents precede their children.
#[derive(Clone, Debug)]
pub(super) struct Formula {
    nodes: Vec<Node>,
    /// The number of remaining leaves. `literals` is the number of literals of the expression.
    leaves: usize,
    literals: usize,
}

impl Formula {
    /// Makes the formula of `normal`. `leaf` returns the leaf of a literal, or `None` to remove it.
    pub fn new(normal: &Normal, leaf: impl Fn(NodeIndex) -> Option<Leaf>) -> Self {
        let mut places = vec![NOWHERE; normal.capacity()];
        let mut nodes = Vec::with_capacity(normal.capacity());
        let mut gone = Vec::new();
        for index in normal.top_down() {
            let place = nodes.len() as Place;
            places[index as usize] = place;
            let kind = match normal.node(index) {
                NormalNode::Literal(_) => Kind::Leaf(leaf(index).unwrap_or_else(|| {
                    gone.push(place);
                    Leaf::default()
                })),
                NormalNode::And => Kind::And,
                NormalNode::Or => Kind::Or,
            };
            let parent = normal.parent(index).map_or(NOWHERE, |parent| places[parent as usize]);
            nodes.push(Node { kind, parent, provable: true, refutable: true });
        }
        let literals = nodes.iter().filter(|node| matches!(node.kind, Kind::Leaf(_))).count();
        let mut formula = Formula { nodes, leaves: 0, literals };
        formula.take_away(&gone);
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
        some(self.nodes[place as usize].parent)
    }

    /// Returns whether no leaf was removed, so that both values are that of the expression.
    pub fn is_whole(&self) -> bool {
        self.leaves == self.literals
    }

    /// Removes the `count` least decisive leaves.
    pub fn shrink(&mut self, count: usize) {
        let mut losses = self.losses();
        let order = |a: &(f32, Place), b: &(f32, Place)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if count < losses.len() {
            losses.select_nth_unstable_by(count, order);
        }
        let least: Vec<Place> = losses.iter().take(count).map(|&(_, place)| place).collect();
        self.take_away(&least);
    }

    /// Returns for each leaf the increase of the probability that the two values differ, if it is removed.
    fn losses(&self) -> Vec<(f32, Place)> {
        let lower = self.slopes(LOWER);
        let upper = self.slopes(UPPER);
        let loss = |place: usize| match self.nodes[place].kind {
            Kind::Leaf(Leaf { probability, .. }) => {
                Some((lower[place] * probability + upper[place] * (1.0 - probability), place as Place))
            }
            Kind::And | Kind::Or => None,
        };
        (0..self.nodes.len()).filter_map(loss).collect()
    }

    /// Returns for each node the derivative of the probability of the whole, on one side, by that of the node.
    fn slopes(&self, side: usize) -> Vec<f32> {
        let nodes = &self.nodes;
        // For each node, the probability that none of its children seen so far decides it.
        let mut undecided = vec![1.0; nodes.len()];
        // For each child, the probability that it does not decide its parent. `slopes` has that of its later siblings.
        let mut passes = vec![1.0; nodes.len()];
        let mut slopes = vec![1.0; nodes.len()];
        for (i, node) in nodes.iter().enumerate().skip(1).rev() {
            let chance = match node.kind {
                _ if node.is_fixed(side) => side as f32,
                Kind::Leaf(leaf) => leaf.probability,
                Kind::And => undecided[i],
                Kind::Or => 1.0 - undecided[i],
            };
            let parent = node.parent as usize;
            passes[i] = if nodes[parent].kind == Kind::And { chance } else { 1.0 - chance };
            slopes[i] = undecided[parent];
            undecided[parent] *= passes[i];
        }
        undecided.fill(1.0);
        for (i, node) in nodes.iter().enumerate() {
            if i > 0 {
                let parent = node.parent as usize;
                slopes[i] *= slopes[parent] * undecided[parent];
                undecided[parent] *= passes[i];
            }
            if node.is_fixed(side) {
                slopes[i] = 0.0;
            }
        }
        slopes
    }

    /// Removes leaves, the nodes that are then undecidable on both sides, and the nodes that are then useless.
    fn take_away(&mut self, leaves: &[Place]) {
        let mut gone = vec![false; self.nodes.len()];
        leaves.iter().for_each(|&leaf| gone[leaf as usize] = true);
        let children = self.settle(&mut gone);
        self.close_up(&gone, &children);
    }

    /// Computes from the leaves up which values each node can still take. Returns the number of its remaining children.
    fn settle(&mut self, gone: &mut [bool]) -> Vec<u32> {
        let mut children = vec![0; self.nodes.len()];
        // Over the children seen so far: whether any can decide the node, and whether all can.
        let mut any = vec![false; self.nodes.len()];
        let mut all = vec![true; self.nodes.len()];
        for i in (0..self.nodes.len()).rev() {
            let Node { kind, parent, provable, refutable } = self.nodes[i];
            let (can_prove, can_refute) = match kind {
                Kind::Leaf(_) => (!gone[i], !gone[i]),
                Kind::And => (all[i], any[i]),
                Kind::Or => (any[i], all[i]),
            };
            let (provable, refutable) = (provable && can_prove, refutable && can_refute);
            self.nodes[i] = Node { provable, refutable, ..self.nodes[i] };
            gone[i] = !provable && !refutable;
            if let Some(parent) = some(parent) {
                let parent = parent as usize;
                children[parent] += u32::from(!gone[i]);
                let (one_decides, all_decide) = match self.nodes[parent].kind {
                    Kind::And => (refutable, provable),
                    _ => (provable, refutable),
                };
                any[parent] |= one_decides;
                all[parent] &= all_decide;
            }
        }
        children
    }

    /// Removes nodes from the root down. It also dissolves nodes with a single child, and nodes below one of their own kind.
    /// The children of a dissolved node can take no values that the node could not.
    fn close_up(&mut self, gone: &[bool], children: &[u32]) {
        let mut kept: Vec<Node> = Vec::with_capacity(self.nodes.len());
        // For each node, the new parent of its children, and the values that they can take there.
        let mut below: Vec<Option<(Place, bool, bool)>> = vec![None; self.nodes.len()];
        self.leaves = 0;
        for (i, node) in self.nodes.iter().enumerate() {
            let above = match some(node.parent) {
                None => Some((NOWHERE, true, true)),
                Some(parent) => below[parent as usize],
            };
            let Some((parent, provable, refutable)) = above else { continue };
            if gone[i] {
                continue;
            }
            let (provable, refutable) = (provable && node.provable, refutable && node.refutable);
            let is_under_its_kind = some(parent).is_some_and(|parent| kept[parent as usize].kind == node.kind);
            let is_leaf = matches!(node.kind, Kind::Leaf(_));
            if !is_leaf && (children[i] == 1 || is_under_its_kind) {
                below[i] = Some((parent, provable, refutable));
                continue;
            }
            below[i] = Some((kept.len() as Place, true, true));
            self.leaves += usize::from(is_leaf);
            kept.push(Node { kind: node.kind, parent, provable, refutable });
        }
        self.nodes = kept;
    }
}

fn some(place: Place) -> Option<Place> {
    (place != NOWHERE).then_some(place)
}
