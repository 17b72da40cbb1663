//! Finds the places of an expression in the tree, to remove it.

use hashbrown::HashSet;

use super::Tree;
use crate::compile::normal::{NodeIndex, Normal, NormalNode};
use crate::cost;
use crate::error::Error;
use crate::handles::{LevelId, NodeId, ProgramId, Slot};
use crate::plan::access_predicate::AccessPredicate;
use crate::plan::analysis::Analysis;
use crate::support::hash::{out_of_memory, State};
use crate::support::headroom::push;

/// An expression that is found by one literal of a conjunction.
struct Sought<'a> {
    slot: Slot,
    program: ProgramId,
    analysis: &'a Analysis,
    /// The demands of the conjunction, the most selective first, by their shares and literals.
    demands: &'a [(f32, NodeIndex)],
}

impl Tree {
    /// Returns the nodes that have entries of an expression. Errors: out of memory.
    pub(super) fn nodes_of(&self, slot: Slot, program: ProgramId, analysis: &Analysis) -> Result<Vec<NodeId>, Error> {
        match self.nodes_of_conjunction(slot, program, analysis)? {
            Some(nodes) => {
                debug_assert!(self.agrees(&nodes, slot, program, analysis), "the nodes of slot {slot}: {nodes:?}");
                Ok(nodes)
            }
            None => self.all_nodes_of(slot, program, analysis),
        }
    }

    /// Returns the nodes of an expression that is found by one literal, or `None` if another one may be found by several. An
    /// entry of one literal is in the list of a node, or below exactly one of its levels, under all values of one demand.
    fn nodes_of_conjunction(
        &self,
        slot: Slot,
        program: ProgramId,
        analysis: &Analysis,
    ) -> Result<Option<Vec<NodeId>>, Error> {
        let normal = &analysis.normal;
        let root = normal.root();
        let first = match normal.node(root) {
            NormalNode::Literal(_) => Some(root),
            NormalNode::And => normal.children(root).find(|child| normal.literal(*child).is_some()),
            NormalNode::Or => None,
        };
        let Some(first) = first else { return Ok(None) };
        let (mut sorted, mut count) = ([(0.0, root); cost::MAX_CONTEXT], 0);
        for (position, literal) in normal.context(first).enumerate() {
            // The literals of a longer conjunction have different contexts.
            if position == cost::MAX_CONTEXT {
                return Ok(None);
            }
            if analysis.access_predicate(literal).is_some() {
                sorted[count] = (analysis.share(literal), literal);
                count += 1;
            }
        }
        let demands = &mut sorted[..count];
        demands.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        let mut nodes = Vec::new();
        self.find(NodeId::ROOT, &Sought { slot, program, analysis, demands }, &mut nodes)?;
        let literal = nodes.first().and_then(|&node| self.literal_in(node, slot, program));
        if !literal.is_some_and(|literal| is_alone(literal, normal)) {
            return Ok(None);
        }
        // Two demands of an attribute may lead to the same node.
        nodes.sort_unstable();
        nodes.dedup();
        Ok(Some(nodes))
    }

    /// Appends the nodes at and below `node` that have entries of an expression. Each level is for another attribute, so the
    /// depth is at most the number of demands. Errors: out of memory.
    fn find(&self, node: NodeId, sought: &Sought, found: &mut Vec<NodeId>) -> Result<(), Error> {
        if self.literal_in(node, sought.slot, sought.program).is_some() {
            return push(found, node);
        }
        let held = self.node(node);
        if held.branches().is_empty() {
            return Ok(());
        }
        let before = found.len();
        let demands = || sought.demands.iter().filter_map(|(_, literal)| sought.analysis.access_predicate(*literal));
        for demanded in demands() {
            let Some(level) = held.level_of(demanded.attribute) else { continue };
            for access_predicate in demands().filter(|other| other.attribute == demanded.attribute) {
                self.find_below(level, access_predicate, sought, found)?;
            }
            if found.len() > before {
                break;
            }
        }
        Ok(())
    }

    /// Like [`Tree::find`], for the nodes below `level` to which `access_predicate` leads. All of them have entries, or none.
    fn find_below(
        &self,
        level: LevelId,
        access_predicate: &AccessPredicate,
        sought: &Sought,
        found: &mut Vec<NodeId>,
    ) -> Result<(), Error> {
        let before = found.len();
        let (mut is_first, mut outcome) = (true, Ok(()));
        self.level(level).children(&access_predicate.values, |child| {
            if outcome.is_ok() && (is_first || found.len() > before) {
                outcome = self.find(child, sought, found);
                is_first = false;
            }
        });
        outcome
    }

    /// Returns the literal of the entry of an expression in the list of `node`.
    fn literal_in(&self, node: NodeId, slot: Slot, program: ProgramId) -> Option<NodeIndex> {
        let entries = self.node(node).entries();
        entries.iter().find(|entry| entry.is_of(slot, program)).map(|entry| entry.literal())
    }

    /// Returns the nodes that have entries of an expression. An entry goes down only by demands of its own expression, so
    /// the levels of these demands lead to all of them. Errors: out of memory.
    fn all_nodes_of(&self, slot: Slot, program: ProgramId, analysis: &Analysis) -> Result<Vec<NodeId>, Error> {
        let mut holding = Vec::new();
        let mut reached = HashSet::with_hasher(State::default());
        let mut pending = Vec::new();
        push(&mut pending, NodeId::ROOT)?;
        while let Some(node) = pending.pop() {
            reached.try_reserve(1).map_err(out_of_memory)?;
            if !reached.insert(node) {
                continue;
            }
            let held = self.node(node);
            if self.literal_in(node, slot, program).is_some() {
                push(&mut holding, node)?;
            }
            for level in held.branches().iter().map(|branch| self.level(branch.level)) {
                let mut refused = Ok(());
                let access_predicates = analysis
                    .access_predicates()
                    .filter(|access_predicate| access_predicate.attribute == level.attribute);
                access_predicates.for_each(|access_predicate| {
                    level.children(&access_predicate.values, |child| {
                        if refused.is_ok() {
                            refused = push(&mut pending, child);
                        }
                    });
                });
                refused?;
            }
        }
        Ok(holding)
    }

    /// Returns whether `nodes`, which are sorted, are all nodes of the expression.
    fn agrees(&self, nodes: &[NodeId], slot: Slot, program: ProgramId, analysis: &Analysis) -> bool {
        self.all_nodes_of(slot, program, analysis).map_or(true, |mut all| {
            all.sort_unstable();
            all == nodes
        })
    }
}

/// Returns whether an expression with an entry under `literal` has entries under no other one: no disjunction is above it.
fn is_alone(literal: NodeIndex, normal: &Normal) -> bool {
    let mut above = normal.parent(literal);
    while let Some(node) = above {
        if normal.node(node) != NormalNode::And {
            return false;
        }
        above = normal.parent(node);
    }
    true
}
