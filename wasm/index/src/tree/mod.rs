//! The BE-Tree finds the expressions that an event may make true.
//!
//! A node (p-node) has a leaf list of entries, and a directory (p-directory) from attributes to value levels. A value level
//! (c-directory) leads in one step from a value to the nodes below it: by hash for single values, by bucket for intervals.
//! An expression has an entry under each value for which one of its access predicates can be true. Every event that makes
//! the expression true makes one of its access predicates true, so no match is lost (see [`crate::plan::analysis`]).
//!
//! An entry of 16 bytes carries a filter, a second demand, so that a search rejects most entries without reading the
//! expression. If the path and one filter leave a single demand open, a second entry filters by that demand. It directly
//! follows the first entry, which is joined to it. The open demand may also be an `Or` that nearly every event makes true.
//! An expression that is only such an `Or` has its entry in a list that every search scans.
//!
//! A leaf list grows to a capacity. Then each attribute with a positive score gets a value level. The score is the expected
//! number of entries that the level spares an event (by the selectivity of their demands), less the cost of one more look-up
//! for each event that defines the attribute. An entry whose most selective attribute has no level stays in the leaf list,
//! because a later level for that attribute could not move an entry from below another one. A bucket is cut in two if that
//! shortens the lists on both sides. Empty nodes, buckets and value levels are merged or freed.

mod compact;
pub(crate) mod level;
mod node;
mod places;
mod plan;
mod readings;
pub(crate) mod scan;
mod split;
mod validate;
mod value_map;

use level::{Level, Place};
pub(crate) use node::{Branch, Node, Position};
pub(crate) use plan::Plan;
use readings::Readings;

use crate::catalog::subscriptions::{Placement, Subscriptions};
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::cost;
use crate::error::Error;
use crate::handles::{LevelId, NodeId, ProgramId, Slot};
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::{Analysis, Residual};
use crate::plan::demands::{self, Coverage, Demanded, Demands};
use crate::plan::filter::{self, Filter};
use crate::support::chunks::Chunks;
use crate::support::footprint::of_table;
use crate::support::headroom::growth;
use crate::support::headroom::{ensure, trim, AROUND};

/// An entry holds an expression in a leaf list, with a condition that an event must meet beyond the path. An expression has
/// one entry, or two joined ones, at each of its places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Entry {
    pub subject: Subject,
    pub filter: Filter,
}

/// The subject of an entry in one word: the expression's program, or its slot if the entry is sufficient, so that the path
/// and the filters prove the expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Subject(u32);

impl Subject {
    /// Returns the subject of a sufficient entry.
    pub fn slot(slot: Slot) -> Self {
        Subject(slot.word())
    }

    /// Returns the subject of an entry that is not sufficient.
    pub fn program(program: ProgramId) -> Self {
        Subject(program.word())
    }

    /// Returns the slot. The entry must be sufficient.
    #[inline(always)]
    pub fn as_slot(self) -> Slot {
        Slot::from_word(self.0)
    }

    /// Returns the program. The entry must not be sufficient.
    #[inline(always)]
    pub fn as_program(self) -> ProgramId {
        ProgramId::from_word(self.0)
    }

    /// Returns the subject as a word, for vectors of four.
    #[inline(always)]
    pub fn word(self) -> u32 {
        self.0
    }
}

/// The tree of nodes and value levels, and the lists of expressions outside it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Chunks<Node>,
    /// The head of the free list of nodes, or the root if it is empty. Free nodes are linked (see [`Position::Free`]).
    free_node: NodeId,
    free_nodes: usize,
    levels: Vec<Level>,
    free_levels: Vec<LevelId>,
    /// The expressions without a useful access predicate.
    unindexed: Vec<ProgramId>,
    entries: usize,
}

/// The filters of an expression at one place in the tree.
struct Filters {
    /// The filter of the entry in front, if there are two entries.
    front: Option<Filter>,
    /// The filter of the last entry.
    last: Filter,
    /// Path and filters prove the expression: every event that passes makes it true.
    prove: bool,
}

impl Default for Tree {
    fn default() -> Self {
        let mut nodes = Chunks::default();
        nodes.push(Node::new(Position::Root));
        nodes.push(Node::new(Position::Root));
        Tree {
            nodes,
            free_node: NodeId::ROOT,
            free_nodes: 0,
            levels: Vec::new(),
            free_levels: Vec::new(),
            unindexed: Vec::new(),
            entries: 0,
        }
    }
}

impl Entry {
    /// Returns whether this entry is joined to the next one, of the same subscription. An event must then pass both.
    pub fn is_joined(self) -> bool {
        self.filter.is_joined()
    }

    /// Returns the words of the entry in the order of memory.
    #[inline(always)]
    fn words(self) -> [u32; 4] {
        let [digest, low, span] = self.filter.words();
        [self.subject.word(), digest, low, span]
    }

    /// Returns the access predicate of this entry: a literal in its expression's normal form.
    fn literal(self) -> NodeIndex {
        self.filter.noted()
    }

    /// Returns the slot of the subscription.
    pub fn slot(self, catalog: &Catalog) -> Slot {
        match self.filter.is_sufficient() {
            true => self.subject.as_slot(),
            false => catalog.slot(self.subject.as_program()),
        }
    }

    /// Returns whether this is an entry of the subscription in `slot`, whose program is `program`.
    fn is_of(self, slot: Slot, program: ProgramId) -> bool {
        self.subject == if self.filter.is_sufficient() { Subject::slot(slot) } else { Subject::program(program) }
    }
}

impl Tree {
    /// Gives all subscriptions other slots. `slot` returns the new one.
    pub fn arrange(&mut self, slot: impl Fn(Slot) -> Slot) {
        for entry in self.nodes.iter_mut().flat_map(Node::entries_mut) {
            if entry.filter.is_sufficient() {
                entry.subject = Subject::slot(slot(entry.subject.as_slot()));
            }
        }
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    /// Returns the position of `node` in the tree.
    pub fn position(&self, node: NodeId) -> Position {
        self.nodes[node.index()].position(|level| self.level(level).points.wide_key(node))
    }

    pub fn level(&self, id: LevelId) -> &Level {
        &self.levels[id.index()]
    }

    /// Returns the attribute of the value level that leads to `node`. The root and [`NodeId::SCANNED`] have none.
    pub fn attribute_above(&self, node: NodeId) -> Option<AttributeId> {
        self.node(node).level().map(|level| self.level(level).attribute)
    }

    /// Returns the entries that every search scans, because their filters decide most events.
    pub fn scanned(&self) -> &[Entry] {
        self.node(NodeId::SCANNED).entries()
    }

    /// Returns the unindexed expressions, which every search evaluates.
    pub fn unindexed(&self) -> &[ProgramId] {
        &self.unindexed
    }

    /// Returns an upper bound of all node numbers: one more than the greatest so far.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of nodes in use, the root included.
    pub fn nodes(&self) -> usize {
        self.nodes.len() - self.free_nodes - 1
    }

    /// Returns the number of entries in all leaf lists.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// Returns the number of value levels above the deepest node.
    pub fn depth(&self) -> usize {
        (0..self.nodes.len()).map(NodeId::from_index).map(|node| self.path(node).count()).max().unwrap_or(0)
    }

    /// Returns a copy without spare room.
    pub fn packed(&self) -> Tree {
        let mut packed = self.clone();
        // Freeing a level must not allocate.
        packed.free_levels.reserve_exact(packed.levels.len() - packed.free_levels.len());
        packed
    }

    /// Returns the heap bytes of the tree.
    pub fn heap_bytes(&self) -> usize {
        let Tree { nodes, levels, free_levels, unindexed, .. } = self;
        let of_nodes: usize = nodes.iter().map(Node::heap_bytes).sum();
        let of_levels: usize = levels.iter().map(Level::heap_bytes).sum();
        nodes.heap_bytes() + of_nodes + of_table(levels) + of_levels + of_table(free_levels) + of_table(unindexed)
    }

    /// Adds `program` to the unindexed expressions.
    pub fn insert_unindexed(&mut self, program: ProgramId) -> Placement {
        self.unindexed.push(program);
        Placement::Unindexed(self.unindexed.len() as u32 - 1)
    }

    /// Adds `slot` to the list that every search scans. An event that passes the filter proves the expression, or its program
    /// runs.
    pub fn insert_scanned(&mut self, slot: Slot, filter: Filter) -> Placement {
        let node = &mut self.nodes[NodeId::SCANNED.index()];
        node.push(Entry { subject: Subject::slot(slot), filter: filter.as_sufficient() });
        Placement::Scanned(node.entries().len() as u32 - 1)
    }

    /// Finds the places of an expression with the access predicates in `access`, and ensures the memory for its insertion.
    ///
    /// The ensured memory includes `more` bytes. `room` enlarges the tables of searches for a given number of nodes.
    ///
    /// Errors: out of memory.
    pub fn prepare(
        &self,
        access: &[NodeIndex],
        analysis: &Analysis,
        more: usize,
        room: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        for &literal in access {
            self.plan(NodeId::ROOT, &Demands::of(literal, analysis), &mut plan)?;
        }
        room(self.capacity_after(&plan))?;
        ensure(self.bytes(&plan)? + more)?;
        Ok(plan)
    }

    /// Inserts `slot` at the places of `plan`. Returns the nodes whose leaf lists are now long, for [`Tree::split_all`].
    pub fn insert(
        &mut self,
        slot: Slot,
        mut plan: Plan,
        analysis: &Analysis,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Vec<NodeId> {
        self.follow(&mut plan, slot, analysis, catalog, subscriptions);
        plan.into_long()
    }

    /// Removes the unindexed expression at `position`. Returns the one that took its place.
    pub fn remove_unindexed(&mut self, position: u32) -> Option<ProgramId> {
        self.unindexed.swap_remove(position as usize);
        trim(&mut self.unindexed);
        self.unindexed.get(position as usize).copied()
    }

    /// Removes the expression at `position` from the list that every search scans. Returns the one that took its place.
    pub fn remove_scanned(&mut self, position: u32) -> Option<Slot> {
        let node = &mut self.nodes[NodeId::SCANNED.index()];
        node.swap_remove_entry(position as usize);
        node.entries().get(position as usize).map(|entry| entry.subject.as_slot())
    }

    /// Frees the remaining memory of a tree without entries. Allocates nothing.
    pub fn clear(&mut self) {
        self.nodes.truncate(2);
        for node in [NodeId::ROOT, NodeId::SCANNED] {
            self.nodes[node.index()] = Node::new(Position::Root);
        }
        self.free_node = NodeId::ROOT;
        self.free_nodes = 0;
        self.levels = Vec::new();
        self.free_levels = Vec::new();
        self.unindexed = Vec::new();
    }

    /// Removes every entry of `slot`, whose program is `program` and whose analysis is `analysis`. Without an analysis, the
    /// tree inspects every node, which takes long but no memory.
    pub fn remove(
        &mut self,
        slot: Slot,
        program: ProgramId,
        analysis: Option<&Analysis>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) {
        let mut readings = Readings::new(catalog, subscriptions);
        match analysis.and_then(|analysis| self.nodes_of(slot, program, analysis).ok()) {
            Some(nodes) => {
                nodes.iter().for_each(|&node| self.drop_entries(node, slot, program));
                nodes.iter().for_each(|&node| self.prune(node, &mut readings));
            }
            None => {
                let all = (0..self.nodes.len()).map(NodeId::from_index);
                all.clone().for_each(|node| self.drop_entries(node, slot, program));
                // Only the removal above can have emptied a node.
                for node in all {
                    if self.node(node).is_empty() {
                        self.prune(node, &mut readings);
                    }
                }
            }
        }
        self.compact();
        debug_assert!(self.entries > 0 || self.nodes() == 1, "the last entry takes all nodes with it");
    }

    /// Removes the entries of an expression from the list of `node`.
    fn drop_entries(&mut self, node: NodeId, slot: Slot, program: ProgramId) {
        // No level leads to [`NodeId::SCANNED`], and an expression in its list has no entry elsewhere.
        if node == NodeId::SCANNED || !self.node(node).entries().iter().any(|entry| entry.is_of(slot, program)) {
            return;
        }
        let node = &mut self.nodes[node.index()];
        let before = node.entries().len();
        node.retain_entries(|entry| !entry.is_of(slot, program));
        self.entries -= before - node.entries().len();
    }

    /// Chooses the most selective level of `node` for an entry with these `demands`, and the access predicate that leads
    /// there. Returns `None` if the entry belongs in the leaf list: no level fits, or the entry `waits` for a better one.
    fn choose<'a>(&self, node: NodeId, demands: &Demands<'a>, waits: bool) -> Option<(LevelId, &'a AccessPredicate)> {
        let held = &self.nodes[node.index()];
        if held.branches().is_empty() {
            return None;
        }
        let mut new = demands.iter().filter(|demanded| self.may_lead(node, demands, demanded)).peekable();
        let least = if waits { new.peek()?.share } else { 1.0 };
        new.take_while(|demanded| demanded.share <= least && demanded.share < 1.0)
            .find_map(|demanded| Some((held.level_of(demanded.access_predicate.attribute)?, demanded.access_predicate)))
    }

    /// Returns whether the demand `demanded` may move an entry with these `demands` from `node` to a level below. No level above
    /// may have its attribute. If the path and this demand both have several values, their product is limited.
    fn may_lead(&self, node: NodeId, demands: &Demands, demanded: &Demanded) -> bool {
        let AccessPredicate { attribute, .. } = *demanded.access_predicate;
        if self.path(node).any(|above| above == attribute) {
            return false;
        }
        let places = demanded.access_predicate.places();
        if places == 1 {
            return true;
        }
        let copies = self.path(node).fold(1_usize, |copies, above| {
            let of_level = demands.iter().filter(|demanded| demanded.access_predicate.attribute == above);
            copies.saturating_mul(of_level.map(|demanded| demanded.access_predicate.places()).max().unwrap_or(1))
        });
        copies == 1 || copies.saturating_mul(places) <= cost::MAX_COPIES
    }

    /// Returns the attributes of the levels above `node`, the nearest first.
    fn path(&self, node: NodeId) -> impl Iterator<Item = AttributeId> + '_ {
        let mut node = node;
        std::iter::from_fn(move || {
            let level = &self.levels[self.nodes[node.index()].level()?.index()];
            node = level.owner;
            Some(level.attribute)
        })
    }

    fn add_entry(
        &mut self,
        node: NodeId,
        slot: Slot,
        demands: &Demands,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) {
        for entry in self.entries_of(node, slot, demands, catalog, subscriptions) {
            self.nodes[node.index()].push(entry);
            self.entries += 1;
        }
    }

    /// Returns the entries in `node` of an expression with these `demands`.
    fn entries_of(
        &self,
        node: NodeId,
        slot: Slot,
        demands: &Demands,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> impl Iterator<Item = Entry> {
        let Filters { front, last, prove } = self.filters(node, demands, catalog);
        let (literal, program) = (demands.literal, subscriptions.get(slot).program);
        front.map(Filter::joined).into_iter().chain([last]).map(move |filter| {
            let filter = filter.noting(literal);
            match prove {
                true => Entry { subject: Subject::slot(slot), filter: filter.as_sufficient() },
                false => Entry { subject: Subject::program(program), filter },
            }
        })
    }

    /// Returns the filters in `node` of an expression with these `demands`.
    fn filters(&self, node: NodeId, demands: &Demands, catalog: &Catalog) -> Filters {
        let schema = &catalog.schema;
        let led = |access_predicate: &AccessPredicate| match self
            .path(node)
            .any(|attribute| attribute == access_predicate.attribute)
        {
            true if self.is_met_on_the_way(node, access_predicate) => Coverage::Wholly,
            true => Coverage::Partly,
            false => Coverage::Nothing,
        };
        let chosen = demands::choose(demands, led, catalog);
        let filtered = chosen.filter(|chosen| Filter::is_exact_for(chosen.access_predicate, schema));
        let is_known = |access_predicate: &AccessPredicate| {
            let is_filtered = filtered.is_some_and(|filtered| filtered.access_predicate.implies(access_predicate));
            access_predicate.is_exact && (is_filtered || self.is_met_on_the_way(node, access_predicate))
        };
        let proof = || filtered.map(|filtered| Filter::proof(filtered.access_predicate, schema));
        let passed = || filtered.map_or(1.0, |filtered| filtered.share);
        match demands.analysis.residual(demands.literal, catalog, is_known) {
            Residual::Nothing => Filters { front: None, last: proof().unwrap_or(Filter::NONE), prove: true },
            Residual::One(residual) if filter::is_worth_joining(passed()) => {
                Filters { front: proof(), last: Filter::proof(residual, schema), prove: true }
            }
            Residual::Either(likely) if filter::is_worth_joining(passed() * likely.share) => {
                Filters { front: proof(), last: likely.filter, prove: true }
            }
            Residual::One(_) | Residual::Either(_) | Residual::More => {
                let is_useless = |access_predicate: &AccessPredicate| {
                    matches!(access_predicate.values, ValueSet::Except(_)) && led(access_predicate) != Coverage::Nothing
                };
                let useful = chosen.filter(|chosen| !is_useless(chosen.access_predicate));
                let last = useful.map_or(Filter::NONE, |chosen| Filter::of(chosen.access_predicate, schema));
                Filters { front: None, last, prove: false }
            }
        }
    }

    /// Returns whether every event that reaches `node` makes `access_predicate` true.
    fn is_met_on_the_way(&self, node: NodeId, access_predicate: &AccessPredicate) -> bool {
        let mut below = node;
        while let Some(level) = self.node(below).level() {
            let level = &self.levels[level.index()];
            if level.attribute == access_predicate.attribute && self.is_met_below(level, below, access_predicate) {
                return true;
            }
            below = level.owner;
        }
        false
    }

    /// Returns whether every event that `level` leads to `node` makes `access_predicate` true, which is on the level's attribute.
    fn is_met_below(&self, level: &Level, node: NodeId, access_predicate: &AccessPredicate) -> bool {
        let Position::Under(_, place) = self.position(node) else { return false };
        match (place, &access_predicate.values) {
            (_, ValueSet::Defined) => true,
            (Place::Point(key), _) => access_predicate.admits(key),
            (Place::Bucket, ValueSet::Interval(low, high)) => {
                let bucket = level.buckets.position(node).map(|position| level.buckets.range(position));
                bucket.is_some_and(|(least, greatest)| *low <= least && greatest <= *high)
            }
            _ => false,
        }
    }

    fn add_node(&mut self, position: Position) -> NodeId {
        self.nodes.push(Node::new(position));
        NodeId::from_index(self.nodes.len() - 1)
    }

    /// Returns an upper bound of the bytes that `more` levels request.
    fn levels_growth(&self, more: usize) -> usize {
        growth(&self.levels, more)
            + more * 8 * size_of::<LevelId>()
            + 4 * AROUND
            + self.levels.len() * size_of::<LevelId>()
    }

    fn new_level(&mut self, owner: NodeId, attribute: AttributeId) -> LevelId {
        let level = Level::new(owner, attribute);
        let id = match self.free_levels.pop() {
            Some(id) => {
                debug_assert!(self.levels[id.index()].is_empty(), "level {id} is free");
                self.levels[id.index()] = level;
                id
            }
            None => {
                self.levels.push(level);
                // Freeing a level must not allocate.
                self.free_levels.reserve(self.levels.len());
                LevelId::from_index(self.levels.len() - 1)
            }
        };
        self.nodes[owner.index()].add_branch(Branch { attribute, level: id });
        id
    }

    /// Returns an upper bound of the bytes that one more expression takes in the two lists outside the tree.
    pub fn growth(&self) -> usize {
        growth(&self.unindexed, 1) + self.node(NodeId::SCANNED).growth(1)
    }
}
