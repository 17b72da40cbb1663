//! Long leaf lists are split by new value levels or cut buckets. Empty nodes are freed, and short buckets merged.

#[cfg(test)]
mod tests;

use crate::catalog::statistics::Statistics;
use crate::catalog::subscriptions::Subscriptions;
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::cost;
use crate::error::Error;
use crate::handles::{LevelId, NodeId, Slot};
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::ValueSet;
use crate::plan::demands::Demands;
use crate::plan::filter::Filter;
use crate::support::hash::out_of_memory;
use crate::support::headroom::{ensure, push};
use crate::tree::level::{Level, Place};
use crate::tree::plan::{list_bytes, Plan};
use crate::tree::readings::{Reading, Readings};
use crate::tree::{Branch, Entry, Position, Tree};

/// The facts about one entry's expression that a split needs.
struct Read {
    slot: Slot,
    /// The access predicate of the entry.
    literal: NodeIndex,
    reading: Reading,
    /// The most selective attribute without a level above, and the share of events that meet its demand.
    best: Option<(AttributeId, f32)>,
    /// The interval of the bucket's attribute, for an entry in a bucket.
    interval: Option<(i64, i64)>,
}

/// The state of an ongoing series of splits.
struct Splitting<'a, R> {
    /// The nodes whose lists are long.
    long: Vec<NodeId>,
    readings: Readings<'a>,
    /// Enlarges the tables of searches for a given number of nodes.
    room: &'a mut R,
}

/// A bucket, by its level and its position there, and the key at which to cut it in two.
#[derive(Clone, Copy)]
struct Cut {
    level: LevelId,
    position: usize,
    at: i64,
}

impl Tree {
    /// Splits the leaf lists of `long` nodes, and lists that become long by that. Before the tree gets more nodes, `room`
    /// enlarges the tables of searches. If memory is refused, a list stays as it is until its next entry.
    pub fn split_all(
        &mut self,
        long: Vec<NodeId>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) {
        let mut splitting = Splitting { long, readings: Readings::new(catalog, subscriptions), room };
        while let Some(node) = splitting.long.pop() {
            if self.nodes[node.index()].is_split_due() {
                // After a refusal the list is long but valid.
                let _ = self.split(node, &mut splitting);
            }
        }
    }

    /// Splits the leaf list of `node` if that is worthwhile, and otherwise postpones it until the list has doubled. Adds
    /// lists that become long to `splitting`. Errors: out of memory; the tree stays valid.
    fn split(
        &mut self,
        node: NodeId,
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
    ) -> Result<(), Error> {
        let (catalog, _) = splitting.readings.sources();
        let bytes = list_bytes(self.nodes[node.index()].entries().len(), catalog.schema.all_attributes().len());
        ensure(bytes)?;
        if splitting.readings.is_exhausted() {
            self.nodes[node.index()].split_later();
            return Ok(());
        }
        let to_read = self.promising(node, catalog);
        if !to_read.contains(&true) {
            self.nodes[node.index()].split_later();
            return Ok(());
        }
        let entries = self.read(node, &to_read, &mut splitting.readings)?;
        ensure(bytes)?;
        let Some(cut) = self.worthwhile_cut(node, &entries) else {
            return self.partition(node, &to_read, &entries, splitting);
        };
        let new = self.cut_bucket(node, cut, &entries, splitting)?;
        // An expression with many intervals can make a list so long that each side is worth another cut.
        for side in [node, new] {
            if self.nodes[side.index()].entries().len() > 2 * cost::LEAF_CAPACITY {
                push(&mut splitting.long, side)?;
            }
        }
        Ok(())
    }

    /// Returns for each expression in the leaf list of `node` whether to read it. An expression is read only if the attribute of
    /// its filter may be worth a level. The others stay, because their most selective attribute gets no level yet.
    fn promising(&self, node: NodeId, catalog: &Catalog) -> Vec<bool> {
        let entries = self.nodes[node.index()].entries();
        // Any bucket may be cut, and the position of the cut depends on all entries.
        if let Position::Under(_, Place::Bucket) = self.position(node) {
            return vec![true; entries.len()];
        }
        // No filter means that no demand is left to test, except in schemas with too many attributes, where a filter cannot name
        // its attribute. All such attributes count as one.
        let hidden = if Filter::has_room_for(&catalog.schema) { 0.0 } else { 1.0 };
        let mut unfiltered = 0.0;
        let mut scores = vec![0.0; catalog.schema.all_attributes().len()];
        for entry in entries {
            match entry.filter.attribute() {
                // The share of events that a demand for one value excludes. It is small if the attribute has few values.
                Some(attribute) => scores[attribute.index()] += 1.0 - catalog.statistics.points(attribute, 1),
                None => unfiltered += hidden,
            }
        }
        let is_promising = |entry: &Entry| match entry.filter.attribute() {
            Some(attribute) => scores[attribute.index()] > level_cost(attribute, &catalog.statistics),
            None => unfiltered > cost::VALUE_LOOKUP,
        };
        of_each(entries).map(|held| held.iter().any(is_promising)).collect()
    }

    /// Adds a level to `node` for each worthwhile attribute, and moves the `entries` that were read down there. Errors: out
    /// of memory.
    fn partition(
        &mut self,
        node: NodeId,
        to_read: &[bool],
        entries: &[Read],
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
    ) -> Result<(), Error> {
        let (catalog, _) = splitting.readings.sources();
        let attributes = self.worthwhile(node, entries, catalog);
        let branches = self.nodes[node.index()].branches().len() + attributes.len();
        let list = self.nodes[node.index()].entries().len();
        let bytes = list_bytes(list, 0) + self.levels_growth(attributes.len()) + 4 * branches * size_of::<Branch>();
        ensure(bytes)?;
        for attribute in attributes {
            self.new_level(node, attribute);
        }
        // The list has room for all entries, so an entry that cannot move stays without an allocation.
        let list = self.nodes[node.index()].replace_entries(Vec::with_capacity(list));
        self.entries -= list.len();
        let (read, unread): (Vec<_>, Vec<_>) = of_each(&list).zip(to_read).partition(|(_, is_read)| **is_read);
        unread.into_iter().flat_map(|(held, _)| held).for_each(|&entry| self.keep(node, entry));
        let mut plan = Plan::default();
        for ((held, _), entry) in read.into_iter().zip(entries) {
            match self.move_down(node, entry, &mut plan, splitting) {
                Ok(true) => plan.long().for_each(|node| {
                    // After a refusal the list is split when its next entry comes.
                    let _ = push(&mut splitting.long, node);
                }),
                // After a refusal the entry stays here, where every search finds it as well.
                Ok(false) | Err(_) => held.iter().for_each(|&entry| self.keep(node, entry)),
            }
        }
        self.nodes[node.index()].shrink_entries();
        self.drop_empty_levels(node);
        self.nodes[node.index()].split_later();
        Ok(())
    }

    /// Moves an entry of `node` to a level below, if one fits. Returns whether the entry moved. An entry whose best attribute
    /// is not worth a level may move by another one. Errors: out of memory; nothing is moved.
    fn move_down(
        &mut self,
        node: NodeId,
        entry: &Read,
        plan: &mut Plan,
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
    ) -> Result<bool, Error> {
        plan.clear();
        let Splitting { readings, room, .. } = splitting;
        let (catalog, subscriptions) = readings.sources();
        readings.with(entry.slot, entry.literal, &entry.reading, |analysis| {
            let demands = Demands::of(entry.literal, analysis);
            let Some((level, access_predicate)) = self.choose(node, &demands, false) else {
                return Ok(false);
            };
            self.plan_below(level, &access_predicate.values, &demands, plan)?;
            room(self.capacity_after(plan))?;
            ensure(self.bytes(plan)?)?;
            self.follow(plan, entry.slot, analysis, catalog, subscriptions);
            Ok(true)
        })
    }

    /// Returns the facts about the expressions in the leaf list of `node` that are `to_read`. Errors: out of memory.
    fn read(&self, node: NodeId, to_read: &[bool], readings: &mut Readings) -> Result<Vec<Read>, Error> {
        let (catalog, subscriptions) = readings.sources();
        let each = of_each(self.nodes[node.index()].entries()).zip(to_read).filter(|(_, is_read)| **is_read);
        let entries = each.filter_map(|(held, _)| held.last());
        // These two passes prefetch. The slots stand at the start of each program; reading them all first overlaps the cache
        // misses, as no read depends on another. The second pass reads the ends of the programs.
        let mut held: Vec<(Slot, NodeIndex)> = Vec::with_capacity(to_read.len());
        held.extend(entries.map(|entry| (entry.slot(catalog), entry.literal())));
        let ends = held.iter().map(|(slot, _)| catalog.written_last(subscriptions.get(*slot)));
        std::hint::black_box(ends.fold(0, |sum, word| sum ^ word));
        let mut read = Vec::with_capacity(held.len());
        let mut kept = 0;
        let above = match self.position(node) {
            Position::Under(level, Place::Bucket) => Some(self.level(level).attribute),
            _ => None,
        };
        for (slot, literal) in held {
            let reading = readings.read(slot, literal)?;
            let (best, interval) = readings.with(slot, literal, &reading, |analysis| {
                let demands = Demands::of(literal, analysis);
                let best = demands.iter().find(|demanded| self.may_lead(node, &demands, demanded));
                let best = best.map(|demanded| (demanded.access_predicate.attribute, demanded.share));
                Ok((best, above.map(|attribute| interval(&demands, attribute))))
            })?;
            read.push(Read { slot, literal, reading: reading.within(&mut kept), best, interval });
        }
        Ok(read)
    }

    /// Returns the attributes with a positive score: their levels save an event more than they cost.
    fn worthwhile(&self, node: NodeId, entries: &[Read], catalog: &Catalog) -> Vec<AttributeId> {
        let mut scores = vec![0.0; catalog.schema.all_attributes().len()];
        for (attribute, share) in entries.iter().filter_map(|entry| entry.best) {
            scores[attribute.index()] += 1.0 - share;
        }
        let is_new = |attribute: &AttributeId| self.nodes[node.index()].level_of(*attribute).is_none();
        let is_worth_it = |a: &AttributeId| scores[a.index()] > level_cost(*a, &catalog.statistics);
        catalog.schema.all_ids().filter(is_worth_it).filter(is_new).collect()
    }

    /// Returns the cut of `node`'s bucket at the median of its entries' ends, if that shortens both lists enough.
    fn worthwhile_cut(&self, node: NodeId, entries: &[Read]) -> Option<Cut> {
        let Position::Under(level, Place::Bucket) = self.position(node) else {
            return None;
        };
        let Level { buckets, .. } = &self.levels[level.index()];
        if !self.nodes[node.index()].branches().is_empty() || buckets.len() >= cost::MAX_BUCKETS {
            return None;
        }
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        let (low, high) = buckets.range(position);
        let mut intervals = Vec::with_capacity(entries.len());
        intervals.extend(entries.iter().filter_map(|entry| entry.interval));
        let at = median_end(&intervals, low, high)?;
        let left = intervals.iter().filter(|(from, _)| *from < at).count();
        let right = intervals.iter().filter(|(_, to)| *to >= at).count();
        // If an entry demands two disjoint intervals, their intersection is empty and may be on neither side.
        let some = 1..intervals.len();
        let divides = some.contains(&left) && some.contains(&right);
        let is_worthwhile = divides && (left + right) as f32 <= cost::MAX_CUT_COPIES * intervals.len() as f32;
        is_worthwhile.then_some(Cut { level, position, at })
    }

    /// Cuts the bucket of `node` in two. Returns the node of the new one. Errors: out of memory; the bucket is unchanged.
    fn cut_bucket(
        &mut self,
        node: NodeId,
        cut: Cut,
        entries: &[Read],
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
    ) -> Result<NodeId, Error> {
        (splitting.room)(self.capacity() + 1)?;
        let tables = self.nodes.growth(1) + self.levels[cut.level.index()].buckets.growth();
        ensure(tables + list_bytes(entries.len(), 0))?;
        let new = self.new_bucket(cut.level);
        self.levels[cut.level.index()].buckets.cut(cut.position, cut.at, new);
        // The proofs of entries depend on the bounds of their bucket, so all entries are made anew.
        let (mut left, mut right) = (Vec::with_capacity(2 * entries.len()), Vec::with_capacity(2 * entries.len()));
        for entry in entries {
            let Some((from, to)) = entry.interval else { unreachable!("entries of a bucket demand an interval") };
            let sides = [(from < cut.at, node, &mut left), (to >= cut.at, new, &mut right)];
            let sides = sides.into_iter().filter(|(is_there, ..)| *is_there);
            let lists = sides.map(|(_, node, list)| (node, list));
            if let Err(error) = self.remake(entry, lists, &mut splitting.readings) {
                self.levels[cut.level.index()].buckets.join(cut.position, node);
                self.free(new);
                return Err(error);
            }
        }
        self.put_list(node, left);
        self.put_list(new, right);
        Ok(new)
    }

    /// Appends the new entries of an expression to the list of each given node. Errors: out of memory.
    fn remake<'l>(
        &self,
        entry: &Read,
        lists: impl Iterator<Item = (NodeId, &'l mut Vec<Entry>)>,
        readings: &mut Readings,
    ) -> Result<(), Error> {
        let (catalog, subscriptions) = readings.sources();
        readings.with(entry.slot, entry.literal, &entry.reading, |analysis| {
            let demands = Demands::of(entry.literal, analysis);
            for (node, list) in lists {
                list.extend(self.entries_of(node, entry.slot, &demands, catalog, subscriptions));
            }
            Ok(())
        })
    }

    /// Replaces the leaf list of `node`.
    fn put_list(&mut self, node: NodeId, list: Vec<Entry>) {
        self.entries += list.len();
        self.entries -= self.nodes[node.index()].replace_entries(list).len();
        self.nodes[node.index()].shrink_entries();
    }

    /// Puts an entry back into the list it was taken from.
    fn keep(&mut self, node: NodeId, entry: Entry) {
        self.nodes[node.index()].push(entry);
        self.entries += 1;
    }

    /// Removes the levels of `node` without nodes. Such a level arises from demands for a value that does not exist.
    fn drop_empty_levels(&mut self, node: NodeId) {
        let Tree { nodes, levels, free_levels, .. } = self;
        nodes[node.index()].retain_branches(|level| {
            let is_used = !levels[level.index()].is_empty();
            if !is_used {
                levels[level.index()] = Level::none();
                free_levels.push(level);
            }
            is_used
        });
    }

    /// Frees empty nodes and levels from `node` upwards, and merges its bucket with a neighbor if that saves memory.
    pub(super) fn prune(&mut self, node: NodeId, readings: &mut Readings) {
        let mut node = node;
        loop {
            let Position::Under(level, place) = self.position(node) else {
                return;
            };
            if !self.nodes[node.index()].is_empty() {
                if place == Place::Bucket {
                    self.merge_bucket(node, readings);
                }
                return;
            }
            self.detach(node, place, level);
            if !self.levels[level.index()].is_empty() {
                return;
            }
            let owner = self.levels[level.index()].owner;
            self.nodes[owner.index()].retain_branches(|held| held != level);
            // The placeholder frees the spare capacity of the level's tables.
            self.levels[level.index()] = Level::none();
            self.free_levels.push(level);
            node = owner;
        }
    }

    fn detach(&mut self, node: NodeId, place: Place, level: LevelId) {
        let level = &mut self.levels[level.index()];
        match place {
            Place::Point(key) => level.points.remove(key),
            Place::Bucket => {
                if let Some(position) = level.buckets.position(node) {
                    level.buckets.vacate(position);
                }
            }
            Place::Defined => level.defined = None,
        }
        self.free(node);
    }

    /// Frees a node. Allocates nothing, because the free nodes are a linked list.
    fn free(&mut self, node: NodeId) {
        debug_assert!(node > NodeId::SCANNED && !self.nodes[node.index()].is_free(), "node {node} is used");
        self.nodes[node.index()] = super::Node::new(Position::Free(self.free_node));
        self.free_node = node;
        self.free_nodes += 1;
    }

    /// Merges a bucket with its neighbor if that is worthwhile: both are short, share most entries, or the neighbor has no
    /// node. The caller has removed an expression from the list of `node`.
    fn merge_bucket(&mut self, node: NodeId, readings: &mut Readings) {
        let Position::Under(level, _) = self.position(node) else {
            return;
        };
        let is_comparison_due = self.nodes[node.index()].count_removal();
        let buckets = &self.levels[level.index()].buckets;
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        if buckets.len() == 1 {
            return;
        }
        // The neighbor is the previous bucket, or the second one for the first.
        let first = position.saturating_sub(1);
        let mut found = [node; 2];
        let mut count = 0;
        for held in [first, first + 1].into_iter().filter_map(|place| buckets.node(place)) {
            found[count] = held;
            count += 1;
        }
        let merged = &found[..count];
        let is_leaf = |node: &NodeId| self.nodes[node.index()].branches().is_empty();
        if !merged.iter().all(is_leaf) {
            return;
        }
        let length: usize = merged.iter().map(|node| self.nodes[node.index()].entries().len()).sum();
        let (catalog, _) = readings.sources();
        if length <= cost::LEAF_CAPACITY / 2 || is_comparison_due && self.is_cut_in_vain(merged, catalog) {
            // After a refusal the buckets are valid as they are.
            let _ = self.join_buckets(level, first, merged, readings);
        }
    }

    /// Returns whether the buckets of these nodes should be one, because they share many expressions. That happens if
    /// intervals have become wider since the cut.
    fn is_cut_in_vain(&self, nodes: &[NodeId], catalog: &Catalog) -> bool {
        let lists =
            || nodes.iter().flat_map(|node| of_each(self.nodes[node.index()].entries())).filter_map(<[_]>::last);
        let length = lists().count();
        let mut distinct: Vec<(Slot, NodeIndex)> = Vec::new();
        if distinct.try_reserve_exact(length).is_err() {
            return false;
        }
        distinct.extend(lists().map(|entry| (entry.slot(catalog), entry.literal())));
        distinct.sort_unstable();
        distinct.dedup();
        length as f32 > cost::MIN_MERGE_COPIES * distinct.len() as f32
    }

    /// Joins the bucket at the position `first` of `level` and the next one, whose nodes are `merged`. Errors: out of
    /// memory; the buckets are unchanged.
    fn join_buckets(
        &mut self,
        level: LevelId,
        first: usize,
        merged: &[NodeId],
        readings: &mut Readings,
    ) -> Result<(), Error> {
        let mut entries = self.read_all(merged, readings)?;
        // An expression with entries in both buckets gets one.
        entries.sort_unstable_by_key(|entry| (entry.slot, entry.literal));
        entries.dedup_by_key(|entry| (entry.slot, entry.literal));
        ensure(list_bytes(entries.len(), 0))?;
        let into = merged[0];
        let joined = self.levels[level.index()].buckets.join(first, into);
        // The proofs of entries depend on the bounds of their bucket, so all entries are made anew.
        let mut list = Vec::with_capacity(2 * entries.len());
        for entry in &entries {
            if let Err(error) = self.remake(entry, [(into, &mut list)].into_iter(), readings) {
                self.levels[level.index()].buckets.part(first, joined);
                return Err(error);
            }
        }
        self.put_list(into, list);
        // The joined bucket may share most entries with its next neighbor too.
        self.nodes[into.index()].compare_soon();
        self.nodes[into.index()].split_later();
        for &from in &merged[1..] {
            self.entries -= self.nodes[from.index()].entries().len();
            self.free(from);
        }
        Ok(())
    }

    /// Returns the facts about all entries of several nodes. Errors: out of memory.
    fn read_all(&self, nodes: &[NodeId], readings: &mut Readings) -> Result<Vec<Read>, Error> {
        let mut all: Vec<Read> = Vec::new();
        for &node in nodes {
            let list = self.nodes[node.index()].entries().len();
            all.try_reserve_exact(list).map_err(out_of_memory)?;
            ensure(list_bytes(list, 0))?;
            all.extend(self.read(node, &vec![true; list], readings)?);
        }
        Ok(all)
    }
}

/// Returns the expected cost of a value level for `attribute` to an event that reaches it, in entries.
fn level_cost(attribute: AttributeId, statistics: &Statistics) -> f32 {
    cost::LEVEL_VISIT + cost::VALUE_LOOKUP * statistics.defined(attribute)
}

/// Returns the entries of each expression as one slice. A joined entry precedes the expression's own.
fn of_each(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    entries.chunk_by(|entry, _| entry.is_joined())
}

/// Returns the interval of `attribute` that an entry of a bucket demands. Several intervals are intersected, because an event
/// has to be in all of them.
fn interval(demands: &Demands, attribute: AttributeId) -> (i64, i64) {
    let demands = demands.iter().filter(|demanded| demanded.access_predicate.attribute == attribute);
    let intervals = demands.filter_map(|demanded| match demanded.access_predicate.values {
        ValueSet::Interval(low, high) => Some((low, high)),
        _ => None,
    });
    let narrowest = intervals.reduce(|(low, high), (other_low, other_high)| (low.max(other_low), high.min(other_high)));
    let Some(interval) = narrowest else { unreachable!("entries of a bucket demand an interval") };
    interval
}

/// Returns the median of the interval ends that can cut the keys from `low` to `high` in two.
fn median_end(intervals: &[(i64, i64)], low: i64, high: i64) -> Option<i64> {
    let starts = intervals.iter().map(|(from, _)| *from);
    let ends = intervals.iter().filter_map(|(_, to)| to.checked_add(1));
    let mut cuts: Vec<i64> = starts.chain(ends).filter(|&cut| low < cut && cut <= high).collect();
    if cuts.is_empty() {
        return None;
    }
    let middle = cuts.len() / 2;
    Some(*cuts.select_nth_unstable(middle).1)
}
