//! How leaf lists that grow long are split, and what empties is merged.

use super::analysis::Analysis;
use super::demands::{Demanded, Demands};
use super::filter::Filter;
use super::gate::Demand;
use super::level::{Level, Place};
use super::{Entry, LevelId, NodeId, Position, Tree, LEAF_CAPACITY};
use crate::expression::normal::NodeIndex;
use crate::library::Library;
use crate::schema::AttributeId;
use crate::statistics::Statistics;
use crate::subscriptions::{Slot, Subscriptions};

/// What it costs an event to be asked whether it defines an attribute, in entries passed.
const ASK_COST: f32 = 2.0;
/// What it costs to look up its value, most of which is waiting for memory.
const LOOKUP_COST: f32 = 24.0;

/// A level has no more buckets than this.
const MAX_BUCKETS: usize = 4096;
/// A cut may make so many entries of one: 2.0 would be entries that lie on both sides and gain nothing.
const MAX_COPIES: f32 = 1.5;

/// An entry's subscription, the literal that it waits for, and its expression.
type Analysed = (Slot, NodeIndex, Analysis);
/// An entry's subscription, and what is demanded for the literal that it waits for.
type Waiting<'a> = (Slot, Demands<'a>);

/// A bucket, by its level and its position there, and the key at which to cut it in two.
#[derive(Clone, Copy)]
struct Cut {
    level: LevelId,
    position: usize,
    at: i64,
}

impl Tree {
    /// Shortens the leaf list of `node` where that is worth it; otherwise leaves it until it has doubled.
    pub(super) fn split(&mut self, node: NodeId, library: &Library, subscriptions: &Subscriptions) {
        let to_read = self.promising(node, library);
        if !to_read.contains(&true) {
            self.nodes[node as usize].split_later();
            return;
        }
        let analysed = self.analyse(node, &to_read, library, subscriptions);
        let entries = waiting(&analysed);
        match self.worthwhile_cut(node, &entries) {
            Some(cut) => self.cut_bucket(node, cut, &entries, library, subscriptions),
            None => self.partition(node, &to_read, &entries, library, subscriptions),
        }
    }

    /// For each expression in the leaf list of `node` whether to read it: those that are filtered by an attribute which may be
    /// worth a level. All others stay where they are, as what they demand most is not worth one yet.
    fn promising(&self, node: NodeId, library: &Library) -> Vec<bool> {
        let entries = self.nodes[node as usize].entries();
        // A bucket may always be cut, and where is told by all of its entries.
        if let Position::Under(_, Place::Bucket) = self.position(node) {
            return vec![true; entries.len()];
        }
        // An entry without a filter demands nothing more, unless it is of an attribute that no filter has room for: all of
        // these count as if they were of one.
        let hidden = if Filter::has_room_for(&library.schema) { 0.0 } else { 1.0 };
        let mut unfiltered = 0.0;
        let mut scores = vec![0.0; library.schema.len()];
        for entry in entries {
            match entry.filter.attribute() {
                // What one value of the attribute holds back: of few values that is less than all.
                Some(attribute) => scores[attribute as usize] += 1.0 - library.statistics.points(attribute, 1),
                None => unfiltered += hidden,
            }
        }
        let is_promising = |entry: &Entry| match entry.filter.attribute() {
            Some(attribute) => scores[attribute as usize] > level_cost(attribute, &library.statistics),
            None => unfiltered > LOOKUP_COST,
        };
        of_each(entries).map(|held| held.iter().any(is_promising)).collect()
    }

    /// Gives `node` a level for each attribute that is worth one, and to these the `entries` that were read.
    fn partition(
        &mut self,
        node: NodeId,
        to_read: &[bool],
        entries: &[Waiting],
        library: &Library,
        subscriptions: &Subscriptions,
    ) {
        for attribute in self.worthwhile(node, entries, library) {
            self.new_level(node, attribute);
        }
        let list = self.take_list(node);
        let mut children = Vec::new();
        let (read, unread): (Vec<_>, Vec<_>) = of_each(&list).zip(to_read).partition(|(_, is_read)| **is_read);
        unread.into_iter().flat_map(|(held, _)| held).for_each(|&entry| self.keep(node, entry));
        for ((held, _), (slot, demands)) in read.into_iter().zip(entries) {
            // What was read and is worth no level now need not wait for one.
            match self.choose(node, demands, false) {
                Some((level, gate)) => {
                    children.clear();
                    self.children(level, &gate.demand, |child| children.push(child));
                    for &child in &children {
                        self.place(child, *slot, demands, library, subscriptions);
                    }
                }
                None => held.iter().for_each(|&entry| self.keep(node, entry)),
            }
        }
        self.drop_empty_levels(node);
        self.nodes[node as usize].split_later();
    }

    /// What the expressions in the leaf list of `node` demand that are `to_read`.
    fn analyse(
        &self,
        node: NodeId,
        to_read: &[bool],
        library: &Library,
        subscriptions: &Subscriptions,
    ) -> Vec<Analysed> {
        let each = of_each(self.nodes[node as usize].entries()).zip(to_read).filter(|(_, is_read)| **is_read);
        let entries = each.filter_map(|(held, _)| held.last());
        // All slots first: they are read from where the programs begin, and reads that do not wait for one another are
        // fetched many at a time. Then where the programs end.
        let held: Vec<(Slot, NodeIndex)> = entries.map(|entry| (entry.slot(library), entry.literal())).collect();
        let ends = held.iter().map(|(slot, _)| library.written_last(subscriptions.get(*slot)));
        std::hint::black_box(ends.fold(0, |sum, word| sum ^ word));
        let analysed = held
            .into_iter()
            .map(|(slot, literal)| (slot, literal, Analysis::of_entry(literal, subscriptions.get(slot), library)));
        analysed.collect()
    }

    /// The attributes with a positive score: those whose level would spare an event more than it costs.
    fn worthwhile(&self, node: NodeId, entries: &[Waiting], library: &Library) -> Vec<AttributeId> {
        let used: Vec<AttributeId> = self.path(node).collect();
        let mut scores = vec![0.0; library.schema.len()];
        for (_, demands) in entries {
            let best = demands.iter().find(|demanded| !used.contains(&demanded.gate.attribute));
            if let Some(Demanded { gate, share, .. }) = best {
                scores[gate.attribute as usize] += 1.0 - share;
            }
        }
        let is_new = |attribute: &AttributeId| self.nodes[node as usize].level_of(*attribute).is_none();
        let attributes = 0..scores.len() as AttributeId;
        let is_worth_it = |a: &AttributeId| scores[*a as usize] > level_cost(*a, &library.statistics);
        attributes.filter(is_worth_it).filter(is_new).collect()
    }

    /// Where to cut the bucket of `node` in two so that both lists are shorter: at the median of its entries' ends.
    fn worthwhile_cut(&self, node: NodeId, entries: &[Waiting]) -> Option<Cut> {
        let Position::Under(level, Place::Bucket) = self.position(node) else {
            return None;
        };
        let Level { attribute, buckets, .. } = &self.levels[level as usize];
        if !self.nodes[node as usize].branches().is_empty() || buckets.len() >= MAX_BUCKETS {
            return None;
        }
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        let (low, high) = buckets.range(position);
        let intervals: Vec<_> = entries.iter().map(|(_, demands)| interval(demands, *attribute)).collect();
        let at = median_end(&intervals, low, high)?;
        let left = intervals.iter().filter(|(from, _)| *from < at).count();
        let right = intervals.iter().filter(|(_, to)| *to >= at).count();
        // Where an entry demands two intervals that have nothing in common, what is left of both may be on neither side.
        let some = 1..intervals.len();
        let divides = some.contains(&left) && some.contains(&right);
        let is_worthwhile = divides && (left + right) as f32 <= MAX_COPIES * intervals.len() as f32;
        is_worthwhile.then_some(Cut { level, position, at })
    }

    fn cut_bucket(
        &mut self,
        node: NodeId,
        cut: Cut,
        entries: &[Waiting],
        library: &Library,
        subscriptions: &Subscriptions,
    ) {
        let new = self.new_node(Position::Under(cut.level, Place::Bucket));
        let Level { attribute, buckets, .. } = &mut self.levels[cut.level as usize];
        buckets.cut(cut.position, cut.at, new);
        let attribute = *attribute;
        self.take_list(node);
        // What a bucket proves of its entries depends on its bounds, so all are made anew.
        for (slot, demands) in entries {
            let (from, to) = interval(demands, attribute);
            if from < cut.at {
                self.add_entry(node, *slot, demands, library, subscriptions);
            }
            if to >= cut.at {
                self.add_entry(new, *slot, demands, library, subscriptions);
            }
        }
    }

    /// Empties the leaf list of `node`.
    fn take_list(&mut self, node: NodeId) -> Vec<Entry> {
        let entries = self.nodes[node as usize].take_entries();
        self.entries -= entries.len();
        entries
    }

    /// Puts an entry back that [`Tree::take_list`] took.
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
                free_levels.push(level);
            }
            is_used
        });
    }

    /// Gives back what is empty from `node` upwards, and merges its bucket with a neighbour's where both are short.
    pub(super) fn prune(&mut self, node: NodeId, library: &Library, subscriptions: &Subscriptions) {
        let mut node = node;
        loop {
            let Position::Under(level, place) = self.position(node) else {
                return;
            };
            if !self.nodes[node as usize].is_empty() {
                if place == Place::Bucket {
                    self.merge_bucket(node, library, subscriptions);
                }
                return;
            }
            self.unhang(node, place, level);
            if !self.levels[level as usize].is_empty() {
                return;
            }
            let owner = self.levels[level as usize].owner;
            self.nodes[owner as usize].retain_branches(|held| held != level);
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

    fn free(&mut self, node: NodeId) {
        self.nodes[node as usize] = super::Node::new(Position::Free);
        self.free_nodes.push(node);
    }

    /// Makes one of a short bucket and a short neighbour, or one that has nothing.
    fn merge_bucket(&mut self, node: NodeId, library: &Library, subscriptions: &Subscriptions) {
        let Position::Under(level, _) = self.position(node) else {
            return;
        };
        let buckets = &self.levels[level as usize].buckets;
        let Some(position) = buckets.position(node) else { unreachable!("a node in a bucket is found there") };
        if buckets.len() == 1 {
            return;
        }
        // With the bucket before it; the first one with the second.
        let first = position.saturating_sub(1);
        let merged: Vec<NodeId> = [first, first + 1].into_iter().filter_map(|place| buckets.node(place)).collect();
        let is_leaf = |node: &NodeId| self.nodes[*node as usize].branches().is_empty();
        let length: usize = merged.iter().map(|node| self.nodes[*node as usize].entries().len()).sum();
        if length > LEAF_CAPACITY / 2 || !merged.iter().all(is_leaf) {
            return;
        }
        let mut entries = Vec::new();
        for &node in &merged {
            let all = vec![true; self.nodes[node as usize].entries().len()];
            let held = self.analyse(node, &all, library, subscriptions);
            self.take_list(node);
            entries.extend(held);
        }
        let into = merged[0];
        self.levels[level as usize].buckets.join(first, into);
        merged[1..].iter().for_each(|&from| self.free(from));
        // What a bucket proves of its entries depends on its bounds, so all are made anew; those of both are made one.
        entries.sort_by_key(|(slot, literal, _)| (*slot, *literal));
        entries.dedup_by_key(|(slot, literal, _)| (*slot, *literal));
        for (slot, demands) in waiting(&entries) {
            self.add_entry(into, slot, &demands, library, subscriptions);
        }
    }
}

/// What a value level for `attribute` is expected to cost an event that comes upon it, in entries passed.
fn level_cost(attribute: AttributeId, statistics: &Statistics) -> f32 {
    ASK_COST + LOOKUP_COST * statistics.defined(attribute)
}

/// The entries of each expression by themselves: its own, and in front of it the one that is joined to it.
fn of_each(entries: &[Entry]) -> impl Iterator<Item = &[Entry]> {
    entries.chunk_by(|entry, _| entry.is_joined())
}

/// What is demanded for the literals that entries wait for.
fn waiting(entries: &[Analysed]) -> Vec<Waiting<'_>> {
    entries.iter().map(|(slot, literal, analysis)| (*slot, Demands::of(*literal, analysis))).collect()
}

/// What an entry of a bucket demands of `attribute`: where several intervals do, the narrowest, as an event has to meet all
/// of them.
fn interval(demands: &Demands, attribute: AttributeId) -> (i64, i64) {
    let demands = demands.iter().filter(|demanded| demanded.gate.attribute == attribute);
    let intervals = demands.filter_map(|demanded| match demanded.gate.demand {
        Demand::Interval(low, high) => Some((low, high)),
        _ => None,
    });
    let narrowest = intervals.reduce(|(low, high), (other_low, other_high)| (low.max(other_low), high.min(other_high)));
    let Some(interval) = narrowest else { unreachable!("entries of a bucket demand an interval") };
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
