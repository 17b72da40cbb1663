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
const BOTH: Sides = 1 << LOWER | 1 << UPPER;

/// For each set of sides a pair with 1 for those in it. A product with it takes fewer instructions than a choice.
const LIVE: [Pair; 4] = [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]];

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

    /// Returns 1 for each side on which the node varies, and 0 for the others.
    fn live(&self) -> Pair {
        LIVE[usize::from(self.varying)]
    }

    /// Returns `passes`, with 1 on the sides on which the node is constant.
    fn passes(&self, passes: Pair) -> Pair {
        let live = self.live();
        from_fn(|side| passes[side] * live[side] + (1.0 - live[side]))
    }
}

/// A formula is empty, or a tree of alternating `And` and `Or` with at least two parts each. Parents precede their children.
#[derive(Clone, Debug)]
pub(super) struct Formula {
    nodes: Vec<Node>,
    /// For each node numbers that removals need. Windows take some twenty removals of an expression.
    states: Vec<State>,
    /// The number of remaining leaves. `literals` is the number of literals of the expression.
    leaves: usize,
    literals: usize,
    /// The number of inner nodes, without the first one among the children of each node: see [`Formula::joints`].
    joints: usize,
    /// The losses of the leaves: see [`Formula::weigh`].
    losses: Vec<u64>,
    /// For each former inner node, where its children belong: see [`Formula::close_up`].
    homes: Vec<Home>,
}

/// The numbers of a node. Pairs are for the lower and the upper value.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The probability that the node does not decide its parent. It is 1 on a side on which the node is constant: there
    /// the node does not decide its parent, or the parent is constant too.
    passes: Pair,
    /// The probability that none of the node's children seen so far decides it.
    undecided: Pair,
    /// The derivative of the probability of the whole by that of the node.
    slopes: Pair,
    children: u32,
    /// The number of children that vary on the side on which one varying child suffices for the node to vary: the upper side
    /// of an `And`, the lower side of an `Or`.
    sufficient: u32,
    /// One of the node's children seen so far is an inner node.
    has_inner: bool,
}

type Pair = [f32; 2];

/// The new parent of the children of a node that was removed or moved.
#[derive(Clone, Copy, Debug)]
struct Home {
    /// The parent, and whether it is an `And`.
    parent: Place,
    is_and: bool,
    /// The sides on which the children can vary there.
    varying: Sides,
}

impl Home {
    /// The place above the root.
    const NONE: Home = Home { parent: NOWHERE, is_and: false, varying: BOTH };
}

impl Formula {
    /// Makes the formula of `normal`. `leaf` returns the leaf of a literal, or `None` to remove it.
    pub fn new(normal: &Normal, leaf: impl Fn(NodeIndex) -> Option<Leaf>) -> Self {
        let mut homes = vec![Home::NONE; normal.capacity()];
        let mut nodes = Vec::with_capacity(normal.capacity());
        let mut states = Vec::with_capacity(normal.capacity());
        let mut unread = Vec::new();
        let (mut literals, mut joints) = (0, 0);
        for index in normal.top_down() {
            let place = nodes.len() as Place;
            let kind = match normal.node(index) {
                NormalNode::Literal(_) => {
                    let leaf = leaf(index);
                    literals += 1;
                    if leaf.is_none() {
                        unread.push(place);
                    }
                    Kind::Leaf(leaf.unwrap_or_default())
                }
                NormalNode::And => Kind::And,
                NormalNode::Or => Kind::Or,
            };
            let home = normal.parent(index).map_or(Home::NONE, |parent| homes[parent as usize]);
            let node = Node { kind, parent: home.parent, varying: BOTH };
            homes[index as usize] = Home { parent: place, is_and: node.is_and(), varying: BOTH };
            nodes.push(node);
            states.push(State::of(&node, home.is_and));
            count(&mut states, &node, home.is_and);
            joints += usize::from(!node.is_leaf() && note_inner(&mut states, home.parent));
        }
        let losses = vec![0; literals];
        let mut formula = Formula { nodes, states, leaves: literals, literals, joints, losses, homes };
        if !unread.is_empty() {
            unread.iter().for_each(|&place| formula.remove(place));
            formula.close_up();
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

    /// Returns the number of joints: the bits of a window, without the topmost, that receive the result of a chain. A node's chain
    /// continues the chain of one child, an inner node if there is one. Each further inner child has its own chain and a joint.
    pub fn joints(&self) -> usize {
        self.joints
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
        self.decide();
        self.weigh();
        self.losses.select_nth_unstable(count - 1);
        for nth in 0..count {
            self.remove(self.losses[nth] as Place);
        }
        self.close_up();
    }

    /// Computes from the leaves up the probability that each node does not decide its parent.
    fn decide(&mut self) {
        let mut states = &mut self.states[..];
        for node in self.nodes.iter().rev() {
            let Some((state, above)) = states.split_last_mut() else { unreachable!("each node has a state") };
            if !node.is_leaf() {
                // The parent is of the other kind, so the node decides it unless a child decides the node.
                state.passes = node.passes(state.undecided.map(|undecided| 1.0 - undecided));
                state.undecided = [1.0; 2];
            }
            if let Some(parent) = above.get_mut(node.parent as usize) {
                // For now the slopes are the probability that no later sibling decides the parent.
                state.slopes = parent.undecided;
                parent.undecided = times(parent.undecided, state.passes);
            }
            states = above;
        }
    }

    /// Computes from the root down the slopes of all nodes, and for each leaf its loss: the increase of the probability that
    /// the two values differ, if the leaf is removed. A loss is not negative, so its bits, read as an integer, sort as losses do.
    /// The lower half of an entry is the leaf's place.
    fn weigh(&mut self) {
        self.losses.truncate(self.leaves);
        let (nodes, states) = (&self.nodes[..], &mut self.states[..self.nodes.len()]);
        let mut losses = self.losses.iter_mut();
        states[0].slopes = nodes[0].live();
        for (place, node) in nodes.iter().enumerate().skip(1) {
            let (above, states) = states.split_at_mut(place);
            let (parent, state) = (&mut above[node.parent as usize], &mut states[0]);
            let slopes = times(times(state.slopes, times(parent.slopes, parent.undecided)), node.live());
            parent.undecided = times(parent.undecided, state.passes);
            match node.kind {
                Kind::Leaf(Leaf { probability, .. }) => {
                    let loss = slopes[LOWER] * probability + slopes[UPPER] * (1.0 - probability);
                    let Some(entry) = losses.next() else { unreachable!("each leaf has a loss") };
                    *entry = u64::from(loss.to_bits()) << 32 | place as u64;
                }
                Kind::And | Kind::Or => state.slopes = slopes,
            }
        }
    }

    /// Removes a leaf: it becomes constant on both sides, as do the nodes above it on the sides on which they then do not vary.
    fn remove(&mut self, leaf: Place) {
        let Formula { nodes, states, .. } = self;
        let mut node = &mut nodes[leaf as usize];
        let mut lost = std::mem::replace(&mut node.varying, NEITHER);
        while lost != NEITHER {
            let is_gone = node.varying == NEITHER;
            let parent = node.parent as usize;
            let Some(above) = nodes.get_mut(parent) else { return };
            let state = &mut states[parent];
            state.children -= u32::from(is_gone);
            let sufficient = sufficient(above.is_and());
            state.sufficient -= u32::from(lost >> sufficient & 1);
            if state.sufficient > 0 {
                lost &= !(1 << sufficient);
            }
            lost &= above.varying;
            above.varying &= !lost;
            node = above;
        }
    }

    /// Removes the nodes that are constant on both sides. It also dissolves nodes with a single child, and nodes below one of
    /// their own kind. The children of a dissolved node vary on no side on which the node does not.
    fn close_up(&mut self) {
        let len = self.nodes.len();
        // The compiler keeps slices in registers, but not tables.
        let (nodes, states, homes) = (&mut self.nodes[..], &mut self.states[..len], &mut self.homes[..len]);
        let (mut kept, mut leaves, mut joints) = (0, 0, 0);
        for place in 0..len {
            let Node { kind, parent, varying } = nodes[place];
            let home = *homes.get(parent as usize).unwrap_or(&Home::NONE);
            let node = Node { kind, parent: home.parent, varying: varying & home.varying };
            if node.is_leaf() {
                if node.varying == NEITHER {
                    continue;
                }
                leaves += 1;
            } else {
                let is_under_its_kind = home.parent != NOWHERE && home.is_and == node.is_and();
                if node.varying == NEITHER || states[place].children == 1 || is_under_its_kind {
                    homes[place] = Home { varying: node.varying, ..home };
                    continue;
                }
                homes[place] = Home { parent: kept as Place, is_and: node.is_and(), varying: BOTH };
                joints += usize::from(note_inner(states, home.parent));
            }
            nodes[kept] = node;
            states[kept] = State::of(&node, home.is_and);
            count(states, &node, home.is_and);
            kept += 1;
        }
        (self.leaves, self.joints) = (leaves, joints);
        self.nodes.truncate(kept);
        self.states.truncate(kept);
    }
}

impl State {
    /// Returns the state of a node without children.
    #[inline(always)]
    fn of(node: &Node, is_under_and: bool) -> Self {
        let passes = match node.kind {
            Kind::Leaf(Leaf { probability, .. }) => {
                node.passes([if is_under_and { probability } else { 1.0 - probability }; 2])
            }
            // They are not yet known.
            Kind::And | Kind::Or => [1.0; 2],
        };
        State { passes, undecided: [1.0; 2], ..State::default() }
    }
}

/// Counts a node as a child of its parent.
#[inline(always)]
fn count(states: &mut [State], node: &Node, is_under_and: bool) {
    if let Some(parent) = states.get_mut(node.parent as usize) {
        parent.children += 1;
        parent.sufficient += u32::from(node.varying >> sufficient(is_under_and) & 1);
    }
}

/// Notes an inner node below `parent`. Returns whether there was one before.
#[inline(always)]
fn note_inner(states: &mut [State], parent: Place) -> bool {
    states.get_mut(parent as usize).is_some_and(|parent| std::mem::replace(&mut parent.has_inner, true))
}

/// Returns the side on which a node varies if any of its children does. On the other side it varies if all do.
fn sufficient(is_and: bool) -> usize {
    if is_and {
        UPPER
    } else {
        LOWER
    }
}

/// Returns the products of both sides.
fn times(a: Pair, b: Pair) -> Pair {
    from_fn(|side| a[side] * b[side])
}
