//! What windows are cut from: an expression's tree, from which leaves are taken away, the least decisive first.
//!
//! With a leaf gone, the tree has two values: the lower, where all that is gone is false, and the upper, where it is
//! true. Negations stand at the leaves only, so what the whole comes to lies between them; where they agree, the
//! leaves that are left decide it.

use crate::boolean::windows::Leaf;
use crate::compile::normal::{NodeIndex, Normal, NormalNode};

/// The position of a node in its [`Formula`].
pub(super) type Place = u32;

const NOWHERE: Place = Place::MAX;

/// The lower and the upper value, as positions in pairs of what is kept for both.
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
    /// Whether the lower value can be true. It cannot where a part of an `And` is gone.
    pub provable: bool,
    /// Whether the upper value can be false. It cannot where a part of an `Or` is gone.
    pub refutable: bool,
}

impl Node {
    /// Whether it has a constant value on that side.
    pub fn is_fixed(&self, side: usize) -> bool {
        !if side == LOWER { self.provable } else { self.refutable }
    }
}

/// A tree of `And` and `Or` in turns, each with two parts or more, or nothing at all: parents before their children.
#[derive(Clone, Debug)]
pub(super) struct Formula {
    nodes: Vec<Node>,
    /// How many leaves are left, and how many literals the expression has.
    leaves: usize,
    literals: usize,
}

impl Formula {
    /// The formula of `normal` with what `leaf` makes of its literals; those that it makes nothing of are gone.
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

    /// How many leaves are left.
    pub fn leaves(&self) -> usize {
        self.leaves
    }

    /// How many nodes there are; the first is the root.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn node(&self, place: Place) -> &Node {
        &self.nodes[place as usize]
    }

    pub fn parent(&self, place: Place) -> Option<Place> {
        some(self.nodes[place as usize].parent)
    }

    /// Whether nothing was taken away, so that both values are that of the expression.
    pub fn is_whole(&self) -> bool {
        self.leaves == self.literals
    }

    /// Takes away the `count` leaves that decide the least.
    pub fn shrink(&mut self, count: usize) {
        let mut losses = self.losses();
        let order = |a: &(f32, Place), b: &(f32, Place)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if count < losses.len() {
            losses.select_nth_unstable_by(count, order);
        }
        let least: Vec<Place> = losses.iter().take(count).map(|&(_, place)| place).collect();
        self.take_away(&least);
    }

    /// For each leaf by how much the chance that the two values differ grows when it goes.
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

    /// For each node how much the chance that the whole is true, on one side, changes with the chance that the node is.
    fn slopes(&self, side: usize) -> Vec<f32> {
        let nodes = &self.nodes;
        // Of each node the chance that none of its children seen so far decides it.
        let mut undecided = vec![1.0; nodes.len()];
        // Of each child the chance that it does not decide its parent, and that no later sibling does.
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

    /// Takes away leaves, and with them what can no longer be decided either way; what then is of no use goes too.
    fn take_away(&mut self, leaves: &[Place]) {
        let mut gone = vec![false; self.nodes.len()];
        leaves.iter().for_each(|&leaf| gone[leaf as usize] = true);
        let children = self.settle(&mut gone);
        self.close_up(&gone, &children);
    }

    /// From the leaves up: what each node can still come to, and how many children it has left.
    fn settle(&mut self, gone: &mut [bool]) -> Vec<u32> {
        let mut children = vec![0; self.nodes.len()];
        // Of the children seen so far, what decides the node where one can, and where all can.
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

    /// From the root down: leaves out what is gone, and dissolves nodes that have one child left, or that have come
    /// to lie under one of their own kind. The children of such a node are no more than it was.
    fn close_up(&mut self, gone: &[bool], children: &[u32]) {
        let mut kept: Vec<Node> = Vec::with_capacity(self.nodes.len());
        // Where the children of each node now belong, and what they may come to there.
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
