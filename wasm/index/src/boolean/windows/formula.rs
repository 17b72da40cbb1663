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
    tables: Tables,
}

/// Tables of a removal, each with an element for each node. Windows take some fifteen removals of an expression, which share this
/// memory.
#[derive(Clone, Debug, Default)]
struct Tables {
    /// The slopes of the lower and the upper value, which [`Formula::slopes`] computes.
    slopes: [Vec<f32>; 2],
    /// For each node, the probability that none of its children seen so far decides it.
    undecided: Vec<f32>,
    /// For each child, the probability that it does not decide its parent.
    passes: Vec<f32>,
    losses: Vec<(f32, Place)>,
    settled: Vec<Settled>,
    /// For each node, the new parent of its children, and the values that they can take there.
    below: Vec<Option<(Place, bool, bool)>>,
    kept: Vec<Node>,
}

/// A node in [`Formula::settle`].
#[derive(Clone, Copy, Debug)]
struct Settled {
    is_gone: bool,
    /// Over the children seen so far: whether any can decide the node, whether all can, and how many remain.
    any: bool,
    all: bool,
    children: u32,
}

impl Settled {
    const UNSEEN: Settled = Settled { is_gone: false, any: false, all: true, children: 0 };
}

impl Formula {
    /// Makes the formula of `normal`. `leaf` returns the leaf of a literal, or `None` to remove it.
    pub fn new(normal: &Normal, leaf: impl Fn(NodeIndex) -> Option<Leaf>) -> Self {
        let mut places = vec![NOWHERE; normal.capacity()];
        let mut nodes = Vec::with_capacity(normal.capacity());
        let mut tables = Tables { settled: Vec::with_capacity(normal.capacity()), ..Tables::default() };
        for index in normal.top_down() {
            places[index as usize] = nodes.len() as Place;
            let (kind, is_gone) = match normal.node(index) {
                NormalNode::Literal(_) => {
                    let leaf = leaf(index);
                    (Kind::Leaf(leaf.unwrap_or_default()), leaf.is_none())
                }
                NormalNode::And => (Kind::And, false),
                NormalNode::Or => (Kind::Or, false),
            };
            let parent = normal.parent(index).map_or(NOWHERE, |parent| places[parent as usize]);
            nodes.push(Node { kind, parent, provable: true, refutable: true });
            tables.settled.push(Settled { is_gone, ..Settled::UNSEEN });
        }
        let literals = nodes.iter().filter(|node| matches!(node.kind, Kind::Leaf(_))).count();
        let mut formula = Formula { nodes, leaves: 0, literals, tables };
        formula.take_away();
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
        self.slopes(LOWER);
        self.slopes(UPPER);
        let Formula { nodes, tables: Tables { slopes: [lower, upper], losses, settled, .. }, .. } = self;
        // For each leaf the increase of the probability that the two values differ, if it is removed.
        losses.clear();
        losses.extend((0..).zip(nodes.iter()).filter_map(|(place, node)| {
            let Kind::Leaf(Leaf { probability, .. }) = node.kind else { return None };
            let (lower, upper) = (lower[place as usize], upper[place as usize]);
            Some((lower * probability + upper * (1.0 - probability), place))
        }));
        if count < losses.len() {
            losses.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        }
        refill(settled, nodes.len(), Settled::UNSEEN);
        losses.iter().take(count).for_each(|&(_, place)| settled[place as usize].is_gone = true);
        self.take_away();
    }

    /// Computes for each node the derivative of the probability of the whole, on one side, by that of the node.
    fn slopes(&mut self, side: usize) {
        let Formula { nodes, tables: Tables { slopes, undecided, passes, .. }, .. } = self;
        let slopes = &mut slopes[side];
        for table in [&mut *slopes, undecided, passes] {
            refill(table, nodes.len(), 1.0);
        }
        for (i, node) in nodes.iter().enumerate().skip(1).rev() {
            let chance = match node.kind {
                _ if node.is_fixed(side) => side as f32,
                Kind::Leaf(leaf) => leaf.probability,
                Kind::And => undecided[i],
                Kind::Or => 1.0 - undecided[i],
            };
            let parent = node.parent as usize;
            passes[i] = if nodes[parent].kind == Kind::And { chance } else { 1.0 - chance };
            // At first the chance that no later sibling decides the parent.
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
    }

    /// Removes the leaves that are gone according to the table `settled`, the nodes that are then undecidable on both sides, and the
    /// nodes that are then useless.
    fn take_away(&mut self) {
        self.settle();
        self.close_up();
    }

    /// Computes from the leaves up which values each node can still take, and the number of its remaining children.
    fn settle(&mut self) {
        let Formula { nodes, tables: Tables { settled, .. }, .. } = self;
        for i in (0..nodes.len()).rev() {
            let Node { kind, parent, provable, refutable } = nodes[i];
            let Settled { is_gone, any, all, .. } = settled[i];
            let (can_prove, can_refute) = match kind {
                Kind::Leaf(_) => (!is_gone, !is_gone),
                Kind::And => (all, any),
                Kind::Or => (any, all),
            };
            let (provable, refutable) = (provable && can_prove, refutable && can_refute);
            nodes[i] = Node { provable, refutable, ..nodes[i] };
            settled[i].is_gone = !provable && !refutable;
            if let Some(parent) = some(parent) {
                let is_kept = provable || refutable;
                let (one_decides, all_decide) = match nodes[parent as usize].kind {
                    Kind::And => (refutable, provable),
                    _ => (provable, refutable),
                };
                let parent = &mut settled[parent as usize];
                parent.children += u32::from(is_kept);
                parent.any |= one_decides;
                parent.all &= all_decide;
            }
        }
    }

    /// Removes nodes from the root down. It also dissolves nodes with a single child, and nodes below one of their own kind.
    /// The children of a dissolved node can take no values that the node could not.
    fn close_up(&mut self) {
        let Formula { nodes, leaves, tables: Tables { settled, below, kept, .. }, .. } = self;
        kept.clear();
        refill(below, nodes.len(), None);
        *leaves = 0;
        for (i, node) in nodes.iter().enumerate() {
            let above = match some(node.parent) {
                None => Some((NOWHERE, true, true)),
                Some(parent) => below[parent as usize],
            };
            let Some((parent, provable, refutable)) = above else { continue };
            if settled[i].is_gone {
                continue;
            }
            let (provable, refutable) = (provable && node.provable, refutable && node.refutable);
            let is_under_its_kind = some(parent).is_some_and(|parent| kept[parent as usize].kind == node.kind);
            let is_leaf = matches!(node.kind, Kind::Leaf(_));
            if !is_leaf && (settled[i].children == 1 || is_under_its_kind) {
                below[i] = Some((parent, provable, refutable));
                continue;
            }
            below[i] = Some((kept.len() as Place, true, true));
            *leaves += usize::from(is_leaf);
            kept.push(Node { kind: node.kind, parent, provable, refutable });
        }
        std::mem::swap(nodes, kept);
    }
}

/// Sets the table to `len` elements that are all `value`.
fn refill<T: Clone>(table: &mut Vec<T>, len: usize, value: T) {
    table.clear();
    table.resize(len, value);
}

fn some(place: Place) -> Option<Place> {
    (place != NOWHERE).then_some(place)
}
