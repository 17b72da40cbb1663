//! The BE-Tree: where expressions wait for the events that can make them true.
//!
//! A node (p-node) has a leaf list of entries, and a directory (p-directory) from attributes to value levels. A value
//! level (c-directory) leads in one step from a value to the nodes below it: by hash for single values, by bucket for
//! intervals. An expression has an entry under each value that one of its access literals can hold for; that such a set
//! of literals is hit by every event that makes the expression true is what no match is lost by (see [`crate::plan::analysis`]).
//! Entries carry a filter, a second demand in 16 bytes, so that most are passed over without a look at the expression. Where
//! one more demand is all that is left to be met, it has a filter too: an entry more, joined to the one behind it. So has an
//! `Or` of demands of which nearly every event meets one; where it is all of an expression, every search passes its entry.
//!
//! Leaf lists grow to a capacity. Then an attribute is worth a value level of its own where its score is positive:
//! what it spares (the entries that an event need no longer pass, by the selectivity of their demands) less what it
//! costs (one more lookup for each event that defines the attribute). An entry whose most selective attribute has no level
//! waits for one in the leaf list: what is sent down by another one does not come back. A bucket is cut in two where that
//! shortens the lists on both sides. Nodes, buckets and value levels that empty are merged or given back.

mod compact;
pub(crate) mod level;
mod node;
mod plan;
pub(crate) mod scan;
mod split;
mod validate;
mod value_map;

use hashbrown::HashSet;

use level::{Level, Place};
use node::Position;
pub(crate) use node::{Branch, Node};
use plan::Plan;

use crate::catalog::subscriptions::{Placement, Subscriptions};
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::error::Error;
use crate::handles::LevelId;
use crate::handles::NodeId;
use crate::handles::ProgramId;
use crate::handles::Slot;
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::{Analysis, Missing};
use crate::plan::demands::{self, Demands};
use crate::plan::filter::{self, Coverage, Filter};
use crate::support::chunks::Chunks;
use crate::support::hash::{out_of_memory, State};
use crate::support::headroom::growth;
use crate::support::headroom::{ensure, push, trim, AROUND};

/// The node where every search starts.
pub(crate) const ROOT: NodeId = 0;
/// The node of which every search passes the list as well: the expressions whose filter tells of most events whether they are
/// true. No level leads there.
pub(crate) const LIKELY: NodeId = 1;

/// Bytes that the demands of one literal take at the most.
const DEMANDS: usize = 64 * size_of::<demands::Demanded>() + 64;

/// How many entries a leaf list holds before it is worth a look at splitting it.
const LEAF_CAPACITY: usize = 24;

/// An expression in a leaf list, and what an event must meet besides what led here: in one entry, or in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Entry {
    /// Its program; of an expression that is true of every event that comes here and passes the filters, its slot.
    pub subject: u32,
    pub filter: Filter,
}

/// The tree.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Chunks<Node>,
    /// The first of the nodes that are free, or the root; and how many there are.
    free_node: NodeId,
    free_nodes: usize,
    levels: Vec<Level>,
    free_levels: Vec<LevelId>,
    /// The expressions that no access_predicate holds back.
    unindexed: Vec<ProgramId>,
    entries: usize,
}

/// What an expression is filtered by where it waits.
struct Filters {
    /// What the entry in front of its own demands, if it has one.
    front: Option<Filter>,
    own: Filter,
    /// Whether every event that is led there and passes makes the expression true.
    prove: bool,
}

impl Default for Tree {
    fn default() -> Self {
        let mut nodes = Chunks::default();
        nodes.push(Node::new(Position::Root));
        nodes.push(Node::new(Position::Root));
        Tree {
            nodes,
            free_node: ROOT,
            free_nodes: 0,
            levels: Vec::new(),
            free_levels: Vec::new(),
            unindexed: Vec::new(),
            entries: 0,
        }
    }
}

impl Entry {
    /// Whether it is in front of another entry of the same subscription, and what passes has to pass both.
    pub fn is_joined(self) -> bool {
        self.filter.is_joined()
    }

    /// Its words, in the order in which they lie in memory.
    #[cfg(target_arch = "wasm32")]
    #[inline(always)]
    fn words(self) -> [u32; 4] {
        let [digest, low, span] = self.filter.words();
        [self.subject, digest, low, span]
    }

    /// The literal, in its expression's normal form, that it waits for.
    fn literal(self) -> NodeIndex {
        self.filter.noted()
    }

    /// The slot of the subscription.
    pub fn slot(self, catalog: &Catalog) -> Slot {
        match self.filter.is_sufficient() {
            true => self.subject,
            false => catalog.slot(self.subject),
        }
    }

    /// Whether this is an entry of the subscription in `slot`, whose program is `program`.
    fn is_of(self, slot: Slot, program: ProgramId) -> bool {
        self.subject == if self.filter.is_sufficient() { slot } else { program }
    }
}

impl Tree {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    /// Where `node` hangs.
    fn position(&self, node: NodeId) -> Position {
        self.nodes[node as usize].position(|level| self.level(level).points.wide_key(node))
    }

    pub fn level(&self, id: LevelId) -> &Level {
        &self.levels[id as usize]
    }

    /// The expressions that every search passes, as a filter tells of most events whether they are true.
    pub fn likely(&self) -> &[Entry] {
        self.node(LIKELY).entries()
    }

    /// The expressions that every search looks at.
    pub fn unindexed(&self) -> &[ProgramId] {
        &self.unindexed
    }

    /// One more than the greatest node given so far.
    pub fn capacity(&self) -> usize {
        self.nodes.len()
    }

    /// How many nodes are in use, from the root on.
    pub fn nodes(&self) -> usize {
        self.nodes.len() - self.free_nodes - 1
    }

    /// How many entries all leaf lists hold.
    pub fn entries(&self) -> usize {
        self.entries
    }

    /// How many value levels lie above the deepest node.
    pub fn depth(&self) -> usize {
        (0..self.nodes.len() as NodeId).map(|node| self.path(node).count()).max().unwrap_or(0)
    }

    /// Holds `program` where every search looks at it.
    pub fn insert_unindexed(&mut self, program: ProgramId) -> Placement {
        self.unindexed.push(program);
        Placement::Unindexed(self.unindexed.len() as u32 - 1)
    }

    /// Holds `slot` where every search passes it, with a filter that proves it or leaves it in doubt.
    pub fn insert_likely(&mut self, slot: Slot, filter: Filter) -> Placement {
        let node = &mut self.nodes[LIKELY as usize];
        node.push(Entry { subject: slot, filter: filter.as_sufficient() });
        Placement::Likely(node.entries().len() as u32 - 1)
    }

    /// Finds the places of an expression that waits for the literals in `access`, and makes sure of the memory that it takes
    /// to hold it there, and of `more` bytes; has searches make `room` for so many nodes. Errors: out of memory.
    pub fn prepare(
        &self,
        access: &[NodeIndex],
        analysis: &Analysis,
        more: usize,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::default();
        let mut memory = Vec::new();
        for &literal in access {
            let demands = Demands::again(literal, analysis, memory);
            self.plan(ROOT, &demands, &mut plan)?;
            memory = demands.into_memory();
        }
        room(self.capacity_after(&plan))?;
        ensure(self.bytes(&plan)? + DEMANDS + more)?;
        Ok(plan)
    }

    /// Holds `slot` at the places that were found for it. The answer is which leaf lists are long then, for
    /// [`Tree::split_all`].
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

    /// Takes out the expression at `position` of those that every search looks at, and tells which one is there now.
    pub fn remove_unindexed(&mut self, position: u32) -> Option<ProgramId> {
        self.unindexed.swap_remove(position as usize);
        trim(&mut self.unindexed);
        self.unindexed.get(position as usize).copied()
    }

    /// Takes out the expression at `position` of those that every search passes, and tells which one is there now.
    pub fn remove_likely(&mut self, position: u32) -> Option<Slot> {
        let node = &mut self.nodes[LIKELY as usize];
        node.swap_remove_entry(position as usize);
        node.entries().get(position as usize).map(|entry| entry.subject)
    }

    /// Gives back what is left of tables where there are no entries any more. Allocates nothing.
    pub fn clear(&mut self) {
        self.nodes.truncate(2);
        for node in [ROOT, LIKELY] {
            self.nodes[node as usize] = Node::new(Position::Root);
        }
        self.free_node = ROOT;
        self.free_nodes = 0;
        self.levels = Vec::new();
        self.free_levels = Vec::new();
        self.unindexed = Vec::new();
    }

    /// Takes out every entry of `slot`, whose program is `program` and whose expression was read to `analysis`. Without one
    /// every node is looked at, which takes long and no memory.
    pub fn remove(
        &mut self,
        slot: Slot,
        program: ProgramId,
        analysis: Option<&Analysis>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) {
        match analysis.and_then(|analysis| self.nodes_of(slot, program, analysis).ok()) {
            Some(nodes) => {
                nodes.iter().for_each(|&node| self.drop_entries(node, slot, program));
                nodes.iter().for_each(|&node| self.prune(node, catalog, subscriptions));
            }
            None => {
                let all = 0..self.nodes.len() as NodeId;
                all.clone().for_each(|node| self.drop_entries(node, slot, program));
                // No other node is empty.
                for node in all {
                    if self.node(node).is_empty() {
                        self.prune(node, catalog, subscriptions);
                    }
                }
            }
        }
        self.compact();
    }

    /// Takes the entries of an expression out of the list of `node`.
    fn drop_entries(&mut self, node: NodeId, slot: Slot, program: ProgramId) {
        // No way leads to this list, and who is in it has an entry there alone.
        if node == LIKELY || !self.node(node).entries().iter().any(|entry| entry.is_of(slot, program)) {
            return;
        }
        let node = &mut self.nodes[node as usize];
        let before = node.entries().len();
        node.retain_entries(|entry| !entry.is_of(slot, program));
        self.entries -= before - node.entries().len();
    }

    /// The nodes that have entries of an expression. An entry goes down by demands of its expression only, so they are
    /// among those that its demands lead to. Errors: out of memory.
    fn nodes_of(&self, slot: Slot, program: ProgramId, analysis: &Analysis) -> Result<Vec<NodeId>, Error> {
        let mut holding = Vec::new();
        let mut reached = HashSet::with_hasher(State::default());
        let mut pending = Vec::new();
        push(&mut pending, ROOT)?;
        while let Some(node) = pending.pop() {
            reached.try_reserve(1).map_err(out_of_memory)?;
            if !reached.insert(node) {
                continue;
            }
            let held = &self.nodes[node as usize];
            if held.entries().iter().any(|entry| entry.is_of(slot, program)) {
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

    /// The level of `node` that holds most events back from an entry with these `demands`, and the access_predicate to go there by.
    /// None where the leaf list is the place: there is no such level, or the entry `waits` for a better one.
    fn choose<'a>(&self, node: NodeId, demands: &Demands<'a>, waits: bool) -> Option<(LevelId, &'a AccessPredicate)> {
        let held = &self.nodes[node as usize];
        if held.branches().is_empty() {
            return None;
        }
        let is_new = |access_predicate: &AccessPredicate| {
            self.path(node).all(|attribute| attribute != access_predicate.attribute)
        };
        let mut new = demands.iter().filter(|demanded| is_new(demanded.access_predicate)).peekable();
        let least = if waits { new.peek()?.share } else { 1.0 };
        new.take_while(|demanded| demanded.share <= least && demanded.share < 1.0)
            .find_map(|demanded| Some((held.level_of(demanded.access_predicate.attribute)?, demanded.access_predicate)))
    }

    /// The attributes of the levels above `node`, the nearest first.
    fn path(&self, node: NodeId) -> impl Iterator<Item = AttributeId> + '_ {
        let mut node = node;
        std::iter::from_fn(move || {
            let level = &self.levels[self.nodes[node as usize].level()? as usize];
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
            self.nodes[node as usize].push(entry);
            self.entries += 1;
        }
    }

    /// The entries in `node` of an expression with these `demands`.
    fn entries_of(
        &self,
        node: NodeId,
        slot: Slot,
        demands: &Demands,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> impl Iterator<Item = Entry> {
        let Filters { front, own, prove } = self.filters(node, demands, catalog);
        let (literal, program) = (demands.literal, subscriptions.get(slot).program);
        front.map(Filter::joined).into_iter().chain([own]).map(move |filter| {
            let filter = filter.noting(literal);
            match prove {
                true => Entry { subject: slot, filter: filter.as_sufficient() },
                false => Entry { subject: program, filter },
            }
        })
    }

    /// What an expression with these `demands` is filtered by that waits in `node`.
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
        let chosen = filter::choose(demands, led, catalog);
        let filtered = chosen.filter(|chosen| Filter::is_exact_for(chosen.access_predicate, schema));
        let is_known = |access_predicate: &AccessPredicate| {
            let is_filtered = filtered.is_some_and(|filtered| filtered.access_predicate.implies(access_predicate));
            access_predicate.is_exact && (is_filtered || self.is_met_on_the_way(node, access_predicate))
        };
        let proof = || filtered.map(|filtered| Filter::proof(filtered.access_predicate, schema));
        let passed = || filtered.map_or(1.0, |filtered| filtered.share);
        match demands.analysis.missing(demands.literal, catalog, is_known) {
            Missing::Nothing => Filters { front: None, own: proof().unwrap_or(Filter::NONE), prove: true },
            Missing::One(missing) if filter::is_worth_joining(passed()) => {
                Filters { front: proof(), own: Filter::proof(missing, schema), prove: true }
            }
            Missing::Either(likely) if filter::is_worth_joining(passed() * likely.share) => {
                Filters { front: proof(), own: likely.filter, prove: true }
            }
            Missing::One(_) | Missing::Either(_) | Missing::More => {
                let is_useless = |access_predicate: &AccessPredicate| {
                    matches!(access_predicate.values, ValueSet::Except(_)) && led(access_predicate) != Coverage::Nothing
                };
                let useful = chosen.filter(|chosen| !is_useless(chosen.access_predicate));
                let own = useful.map_or(Filter::NONE, |chosen| Filter::of(chosen.access_predicate, schema));
                Filters { front: None, own, prove: false }
            }
        }
    }

    /// Whether every event that is led to `node` meets `access_predicate`.
    fn is_met_on_the_way(&self, node: NodeId, access_predicate: &AccessPredicate) -> bool {
        let mut below = node;
        while let Position::Under(level, place) = self.position(below) {
            let level = &self.levels[level as usize];
            let is_met = level.attribute == access_predicate.attribute
                && match (place, &access_predicate.values) {
                    (_, ValueSet::Defined) => true,
                    (Place::Point(key), _) => access_predicate.admits(key),
                    (Place::Bucket, ValueSet::Interval(low, high)) => {
                        let bucket = level.buckets.position(below).map(|position| level.buckets.range(position));
                        bucket.is_some_and(|(least, greatest)| *low <= least && greatest <= *high)
                    }
                    _ => false,
                };
            if is_met {
                return true;
            }
            below = level.owner;
        }
        false
    }

    fn add_node(&mut self, position: Position) -> NodeId {
        self.nodes.push(Node::new(position));
        self.nodes.len() as NodeId - 1
    }

    /// Bytes that so many levels more request at the most.
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
                self.levels[id as usize] = level;
                id
            }
            None => {
                self.levels.push(level);
                // So giving back a level takes no memory.
                self.free_levels.reserve(self.levels.len());
                self.levels.len() as LevelId - 1
            }
        };
        self.nodes[owner as usize].add_branch(Branch { attribute, level: id });
        id
    }

    /// Bytes that one more expression takes at the most in the lists of what every search looks at or passes.
    pub fn growth(&self) -> usize {
        growth(&self.unindexed, 1) + self.node(LIKELY).growth(1)
    }
}
