//! How leaf lists that grow long are split, and what empties is merged.

use crate::catalog::statistics::Statistics;
use crate::catalog::subscriptions::Subscriptions;
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::error::Error;
use crate::handles::LevelId;
use crate::handles::NodeId;
use crate::handles::Slot;
use crate::model::schema::AttributeId;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::Analysis;
use crate::plan::demands::Demands;
use crate::plan::filter::Filter;
use crate::support::hash::out_of_memory;
use crate::support::headroom::{ensure, push};
use crate::tree::level::{Level, Place};
use crate::tree::plan::{list_bytes, Plan};
use crate::tree::{Branch, Entry, Position, Tree, DEMANDS, LEAF_CAPACITY, ROOT};

/// What it costs an event to be asked whether it defines an attribute, in entries passed.
const ASK_COST: f32 = 2.0;
/// What it costs to look up its value, most of which is waiting for memory.
const LOOKUP_COST: f32 = 24.0;

/// A level has no more buckets than this.
const MAX_BUCKETS: usize = 4096;
/// A cut may make so many entries of one: 2.0 would be entries that lie on both sides and gain nothing.
const MAX_COPIES: f32 = 1.5;
/// Buckets side by side are made one where they have so many entries for one of an expression that is in both or in either. It
/// is less than a cut may make, as a list that was made of two is not cut again before it has doubled.
const COPIES_IN_VAIN: f32 = 1.4;

/// Bytes of analyses that are kept from when the entries of a list are read until they are placed. What takes more is read
/// twice.
const KEPT: usize = 256 * 1024;

/// What an entry's expression demands.
struct Read {
    slot: Slot,
    /// The literal that it waits for.
    literal: NodeIndex,
    /// Bytes that its analysis takes at the most.
    bytes: usize,
    /// Its expression, as far as an entry is about it; nothing where that takes too much memory to keep it.
    analysis: Option<Analysis>,
    /// The attribute that holds most events back from it, of those that no level above is about, and the share that meets
    /// the demand.
    best: Option<(AttributeId, f32)>,
    /// In a bucket, what it demands of the bucket's attribute.
    interval: Option<(i64, i64)>,
}

/// What goes on while lists are split.
struct Splitting<'a, R> {
    /// The nodes whose lists are long.
    long: Vec<NodeId>,
    /// Has searches make room for so many nodes.
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
    /// Shortens the leaf lists of `long` nodes, and those that this makes long; before there are more nodes, searches make
    /// `room` for as many. A list for which memory is refused is left as it is until the next entry comes.
    pub fn split_all(
        &mut self,
        long: Vec<NodeId>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) {
        let mut splitting = Splitting { long, room };
        while let Some(node) = splitting.long.pop() {
            if self.nodes[node as usize].is_to_be_split() {
                // Refused: the list is sound as it is, only long.
                let _ = self.split(node, &mut splitting, catalog, subscriptions);
            }
        }
    }

    /// Shortens the leaf list of `node` where that is worth it; otherwise leaves it until it has doubled. Notes which lists
    /// are long then. Errors: out of memory, and the tree is sound all the same.
    fn split(
        &mut self,
        node: NodeId,
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<(), Error> {
        let bytes = list_bytes(self.nodes[node as usize].entries().len(), catalog.schema.len());
        ensure(bytes)?;
        let to_read = self.promising(node, catalog);
        if !to_read.contains(&true) {
            self.nodes[node as usize].split_later();
            return Ok(());
        }
        let entries = self.read(node, &to_read, catalog, subscriptions)?;
        ensure(bytes)?;
        match self.worthwhile_cut(node, &entries) {
            Some(cut) => self.cut_bucket(node, cut, &entries, catalog, subscriptions, splitting.room),
            None => self.partition(node, &to_read, &entries, splitting, catalog, subscriptions),
        }
    }

    /// For each expression in the leaf list of `node` whether to read it: those that are filtered by an attribute which may be
    /// worth a level. All others stay where they are, as what they demand most is not worth one yet.
    fn promising(&self, node: NodeId, catalog: &Catalog) -> Vec<bool> {
        let entries = self.nodes[node as usize].entries();
        // A bucket may always be cut, and where is told by all of its entries.
        if let Position::Under(_, Place::Bucket) = self.position(node) {
            return vec![true; entries.len()];
        }
        // An entry without a filter demands nothing more, unless it is of an attribute that no filter has room for: all of
        // these count as if they were of one.
        let hidden = if Filter::has_room_for(&catalog.schema) { 0.0 } else { 1.0 };
        let mut unfiltered = 0.0;
        let mut scores = vec![0.0; catalog.schema.len()];
        for entry in entries {
            match entry.filter.attribute() {
                // What one value of the attribute holds back: of few values that is less than all.
                Some(attribute) => scores[attribute as usize] += 1.0 - catalog.statistics.points(attribute, 1),
                None => unfiltered += hidden,
            }
        }
        let is_promising = |entry: &Entry| match entry.filter.attribute() {
            Some(attribute) => scores[attribute as usize] > level_cost(attribute, &catalog.statistics),
            None => unfiltered > LOOKUP_COST,
        };
        of_each(entries).map(|held| held.iter().any(is_promising)).collect()
    }

    /// Gives `node` a level for each attribute that is worth one, and to these the `entries` that were read. Errors: out of
    /// memory.
    fn partition(
        &mut self,
        node: NodeId,
        to_read: &[bool],
        entries: &[Read],
        splitting: &mut Splitting<impl FnMut(usize) -> Result<(), Error>>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<(), Error> {
        let attributes = self.worthwhile(node, entries, catalog);
        let branches = self.nodes[node as usize].branches().len() + attributes.len();
        let list = self.nodes[node as usize].entries().len();
        let bytes = list_bytes(list, 0) + self.levels_growth(attributes.len()) + 4 * branches * size_of::<Branch>();
        ensure(bytes)?;
        for attribute in attributes {
            self.new_level(node, attribute);
        }
        // Has room for all, so that whatever cannot be placed elsewhere stays without a request.
        let list = self.nodes[node as usize].replace_entries(Vec::with_capacity(list));
        self.entries -= list.len();
        let (read, unread): (Vec<_>, Vec<_>) = of_each(&list).zip(to_read).partition(|(_, is_read)| **is_read);
        unread.into_iter().flat_map(|(held, _)| held).for_each(|&entry| self.keep(node, entry));
        let mut plan = Plan::default();
        for ((held, _), entry) in read.into_iter().zip(entries) {
            match self.move_down(node, entry, &mut plan, catalog, subscriptions, splitting.room) {
                Ok(true) => plan.long().for_each(|node| {
                    // Refused: it is split when the next entry comes.
                    let _ = push(&mut splitting.long, node);
                }),
                // Refused, it stays where it is found as well.
                Ok(false) | Err(_) => held.iter().for_each(|&entry| self.keep(node, entry)),
            }
        }
        self.nodes[node as usize].shrink_entries();
        self.drop_empty_levels(node);
        self.nodes[node as usize].split_later();
        Ok(())
    }

    /// Places an entry of `node` below, if there is a level for it. What was read and is worth no level now need not wait for
    /// one. Errors: out of memory, and nothing is placed.
    fn move_down(
        &mut self,
        node: NodeId,
        entry: &Read,
        plan: &mut Plan,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        plan.clear();
        let read_again;
        let analysis = match &entry.analysis {
            Some(analysis) => analysis,
            None => {
                read_again = again(entry, catalog, subscriptions)?;
                &read_again
            }
        };
        ensure(DEMANDS)?;
        let demands = Demands::of(entry.literal, analysis);
        let Some((level, access_predicate)) = self.choose(node, &demands, false) else {
            return Ok(false);
        };
        self.plan_below(level, &access_predicate.values, &demands, plan)?;
        room(self.capacity_after(plan))?;
        ensure(self.bytes(plan)? + DEMANDS)?;
        self.follow(plan, entry.slot, analysis, catalog, subscriptions);
        Ok(true)
    }

    /// What the expressions in the leaf list of `node` demand that are `to_read`. Errors: out of memory.
    fn read(
        &self,
        node: NodeId,
        to_read: &[bool],
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<Vec<Read>, Error> {
        let each = of_each(self.nodes[node as usize].entries()).zip(to_read).filter(|(_, is_read)| **is_read);
        let entries = each.filter_map(|(held, _)| held.last());
        // All slots first: they are read from where the programs begin, and reads that do not wait for one another are
        // fetched many at a time. Then where the programs end.
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
            let subscription = subscriptions.get(slot);
            let bytes = catalog.analysis_bytes(subscription);
            ensure(bytes)?;
            let analysis = Analysis::of_entry(literal, subscription, catalog);
            let demands = Demands::of(literal, &analysis);
            let is_new = |access_predicate: &AccessPredicate| {
                self.path(node).all(|attribute| attribute != access_predicate.attribute)
            };
            let best = demands.iter().find(|demanded| is_new(demanded.access_predicate));
            let best = best.map(|demanded| (demanded.access_predicate.attribute, demanded.share));
            let interval = above.map(|attribute| interval(&demands, attribute));
            drop(demands);
            kept += bytes;
            let analysis = (kept <= KEPT).then_some(analysis);
            read.push(Read { slot, literal, bytes, analysis, best, interval });
        }
        Ok(read)
    }

    /// The attributes with a positive score: those whose level would spare an event more than it costs.
    fn worthwhile(&self, node: NodeId, entries: &[Read], catalog: &Catalog) -> Vec<AttributeId> {
        let mut scores = vec![0.0; catalog.schema.len()];
        for (attribute, share) in entries.iter().filter_map(|entry| entry.best) {
            scores[attribute as usize] += 1.0 - share;
        }
        let is_new = |attribute: &AttributeId| self.nodes[node as usize].level_of(*attribute).is_none();
        let attributes = 0..scores.len() as AttributeId;
        let is_worth_it = |a: &AttributeId| scores[*a as usize] > level_cost(*a, &catalog.statistics);
        attributes.filter(is_worth_it).filter(is_new).collect()
    }

    /// Where to cut the bucket of `node` in two so that both lists are shorter: at the median of its entries' ends.
    fn worthwhile_cut(&self, node: NodeId, entries: &[Read]) -> Option<Cut> {
        let Position::Under(level, Place::Bucket) = self.position(node) else {
            return None;
        };
        let Level { buckets, .. } = &self.levels[level as usize];
        if !self.nodes[node as usize].branches().is_empty() || buckets.len() >= MAX_BUCKETS {
            return None;
        }
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        let (low, high) = buckets.range(position);
        let mut intervals = Vec::with_capacity(entries.len());
        intervals.extend(entries.iter().filter_map(|entry| entry.interval));
        let at = median_end(&intervals, low, high)?;
        let left = intervals.iter().filter(|(from, _)| *from < at).count();
        let right = intervals.iter().filter(|(_, to)| *to >= at).count();
        // Where an entry demands two intervals that have nothing in common, what is left of both may be on neither side.
        let some = 1..intervals.len();
        let divides = some.contains(&left) && some.contains(&right);
        let is_worthwhile = divides && (left + right) as f32 <= MAX_COPIES * intervals.len() as f32;
        is_worthwhile.then_some(Cut { level, position, at })
    }

    /// Cuts the bucket of `node` in two. Errors: out of memory, and it is as it was.
    fn cut_bucket(
        &mut self,
        node: NodeId,
        cut: Cut,
        entries: &[Read],
        catalog: &Catalog,
        subscriptions: &Subscriptions,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(), Error> {
        room(self.capacity() + 1)?;
        let tables = self.nodes.growth(1) + self.levels[cut.level as usize].buckets.growth();
        ensure(tables + list_bytes(entries.len(), 0))?;
        let new = self.new_bucket(cut.level);
        self.levels[cut.level as usize].buckets.cut(cut.position, cut.at, new);
        // What a bucket proves of its entries depends on its bounds, so all are made anew.
        let (mut left, mut right) = (Vec::with_capacity(2 * entries.len()), Vec::with_capacity(2 * entries.len()));
        for entry in entries {
            let Some((from, to)) = entry.interval else { unreachable!("entries of a bucket values an interval") };
            let sides = [(from < cut.at, node, &mut left), (to >= cut.at, new, &mut right)];
            let sides = sides.into_iter().filter(|(is_there, ..)| *is_there);
            if let Err(error) = self.remake(entry, sides.map(|(_, node, list)| (node, list)), catalog, subscriptions) {
                self.levels[cut.level as usize].buckets.join(cut.position, node);
                self.free(new);
                return Err(error);
            }
        }
        self.put_list(node, left);
        self.put_list(new, right);
        Ok(())
    }

    /// Appends to each list the entry that there is of an expression in a node of these. Errors: out of memory.
    fn remake<'l>(
        &self,
        entry: &Read,
        lists: impl Iterator<Item = (NodeId, &'l mut Vec<Entry>)>,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<(), Error> {
        let read_again;
        let analysis = match &entry.analysis {
            Some(analysis) => analysis,
            None => {
                read_again = again(entry, catalog, subscriptions)?;
                &read_again
            }
        };
        ensure(DEMANDS)?;
        let demands = Demands::of(entry.literal, analysis);
        for (node, list) in lists {
            list.extend(self.entries_of(node, entry.slot, &demands, catalog, subscriptions));
        }
        Ok(())
    }

    /// Puts a list in place of the leaf list of `node`.
    fn put_list(&mut self, node: NodeId, list: Vec<Entry>) {
        self.entries += list.len();
        self.entries -= self.nodes[node as usize].replace_entries(list).len();
        self.nodes[node as usize].shrink_entries();
    }

    /// Puts an entry back into a list that was taken out.
    fn keep(&mut self, node: NodeId, entry: Entry) {
        self.nodes[node as usize].push(entry);
        self.entries += 1;
    }

    /// Drops the levels of `node` under which nothing came to hang: their demands were met by no value.
    fn drop_empty_levels(&mut self, node: NodeId) {
        let Tree { nodes, levels, free_levels, .. } = self;
        nodes[node as usize].retain_branches(|level| {
            let is_used = !levels[level as usize].is_empty();
            if !is_used {
                levels[level as usize] = Level::new(ROOT, 0);
                free_levels.push(level);
            }
            is_used
        });
    }

    /// Gives back what is empty from `node` upwards, and merges its bucket with a neighbour's where that takes less memory.
    pub(super) fn prune(&mut self, node: NodeId, catalog: &Catalog, subscriptions: &Subscriptions) {
        let mut node = node;
        loop {
            let Position::Under(level, place) = self.position(node) else {
                return;
            };
            if !self.nodes[node as usize].is_empty() {
                if place == Place::Bucket {
                    self.merge_bucket(node, catalog, subscriptions);
                }
                return;
            }
            self.unhang(node, place, level);
            if !self.levels[level as usize].is_empty() {
                return;
            }
            let owner = self.levels[level as usize].owner;
            self.nodes[owner as usize].retain_branches(|held| held != level);
            // Tables may have room left.
            self.levels[level as usize] = Level::new(ROOT, 0);
            self.free_levels.push(level);
            node = owner;
        }
    }

    fn unhang(&mut self, node: NodeId, place: Place, level: LevelId) {
        let level = &mut self.levels[level as usize];
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

    /// Gives back a node. Allocates nothing: the nodes that are free refer to one another.
    fn free(&mut self, node: NodeId) {
        self.nodes[node as usize] = super::Node::new(Position::Free(self.free_node));
        self.free_node = node;
        self.free_nodes += 1;
    }

    /// Makes one of a bucket and its neighbour where both are short, where most of what is in them is in both, or where the
    /// neighbour has nothing. An expression was taken out of the list of `node`.
    fn merge_bucket(&mut self, node: NodeId, catalog: &Catalog, subscriptions: &Subscriptions) {
        let Position::Under(level, _) = self.position(node) else {
            return;
        };
        let is_to_be_compared = self.nodes[node as usize].is_to_be_compared();
        let buckets = &self.levels[level as usize].buckets;
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        if buckets.len() == 1 {
            return;
        }
        // With the bucket before it; the first one with the second.
        let first = position.saturating_sub(1);
        let mut found = [node; 2];
        let mut count = 0;
        for held in [first, first + 1].into_iter().filter_map(|place| buckets.node(place)) {
            found[count] = held;
            count += 1;
        }
        let merged = &found[..count];
        let is_leaf = |node: &NodeId| self.nodes[*node as usize].branches().is_empty();
        if !merged.iter().all(is_leaf) {
            return;
        }
        let length: usize = merged.iter().map(|node| self.nodes[*node as usize].entries().len()).sum();
        if length <= LEAF_CAPACITY / 2 || is_to_be_compared && self.is_cut_in_vain(merged, catalog) {
            // Refused: the buckets are sound as they are.
            let _ = self.join_buckets(level, first, merged, catalog, subscriptions);
        }
    }

    /// Whether so many expressions are in more than one of these nodes that their buckets had better be one. So they are where
    /// intervals became wider after a cut.
    fn is_cut_in_vain(&self, nodes: &[NodeId], catalog: &Catalog) -> bool {
        let lists =
            || nodes.iter().flat_map(|node| of_each(self.nodes[*node as usize].entries())).filter_map(<[_]>::last);
        let length = lists().count();
        let mut distinct: Vec<(Slot, NodeIndex)> = Vec::new();
        if distinct.try_reserve_exact(length).is_err() {
            return false;
        }
        distinct.extend(lists().map(|entry| (entry.slot(catalog), entry.literal())));
        distinct.sort_unstable();
        distinct.dedup();
        length as f32 > COPIES_IN_VAIN * distinct.len() as f32
    }

    /// Makes one of the bucket at the position `first` of `level` and the one behind it, whose nodes are `merged`. Errors: out
    /// of memory, and they are as they were.
    fn join_buckets(
        &mut self,
        level: LevelId,
        first: usize,
        merged: &[NodeId],
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<(), Error> {
        let mut entries = self.read_all(merged, catalog, subscriptions)?;
        // Those of both are made one.
        entries.sort_unstable_by_key(|entry| (entry.slot, entry.literal));
        entries.dedup_by_key(|entry| (entry.slot, entry.literal));
        ensure(list_bytes(entries.len(), 0))?;
        let into = merged[0];
        let joined = self.levels[level as usize].buckets.join(first, into);
        // What a bucket proves of its entries depends on its bounds, so all are made anew.
        let mut list = Vec::with_capacity(2 * entries.len());
        for entry in &entries {
            if let Err(error) = self.remake(entry, [(into, &mut list)].into_iter(), catalog, subscriptions) {
                self.levels[level as usize].buckets.part(first, joined);
                return Err(error);
            }
        }
        self.put_list(into, list);
        // The next neighbour may be much the same, too.
        self.nodes[into as usize].compare_soon();
        self.nodes[into as usize].split_later();
        for &from in &merged[1..] {
            self.entries -= self.nodes[from as usize].entries().len();
            self.free(from);
        }
        Ok(())
    }

    /// The entries of several nodes. Errors: out of memory.
    fn read_all(&self, nodes: &[NodeId], catalog: &Catalog, subscriptions: &Subscriptions) -> Result<Vec<Read>, Error> {
        let mut all: Vec<Read> = Vec::new();
        for &node in nodes {
            let list = self.nodes[node as usize].entries().len();
            all.try_reserve_exact(list).map_err(out_of_memory)?;
            ensure(list_bytes(list, 0))?;
            all.extend(self.read(node, &vec![true; list], catalog, subscriptions)?);
        }
        Ok(all)
    }
}

/// The analysis of what was too large to be kept. Errors: out of memory.
fn again(entry: &Read, catalog: &Catalog, subscriptions: &Subscriptions) -> Result<Analysis, Error> {
    ensure(entry.bytes)?;
    Ok(Analysis::of_entry(entry.literal, subscriptions.get(entry.slot), catalog))
}

/// What a value level for `attribute` is expected to cost an event that comes upon it, in entries passed.
fn level_cost(attribute: AttributeId, statistics: &Statistics) -> f32 {
    ASK_COST + LOOKUP_COST * statistics.defined(attribute)
}

/// The entries of each expression by themselves: its own, and in front of it the one that is joined to it.
fn of_each(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    entries.chunk_by(|entry, _| entry.is_joined())
}

/// What an entry of a bucket demands of `attribute`: where several intervals do, the narrowest, as an event has to meet all
/// of them.
fn interval(demands: &Demands, attribute: AttributeId) -> (i64, i64) {
    let demands = demands.iter().filter(|demanded| demanded.access_predicate.attribute == attribute);
    let intervals = demands.filter_map(|demanded| match demanded.access_predicate.values {
        ValueSet::Interval(low, high) => Some((low, high)),
        _ => None,
    });
    let narrowest = intervals.reduce(|(low, high), (other_low, other_high)| (low.max(other_low), high.min(other_high)));
    let Some(interval) = narrowest else { unreachable!("entries of a bucket values an interval") };
    interval
}

/// The median of the ends of `intervals` at which the keys from `low` to `high` can be cut.
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
