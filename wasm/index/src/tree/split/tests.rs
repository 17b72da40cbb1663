use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::catalog::subscriptions::{Length, Placement, Subscription};
use crate::compile::normal::{normalise, Normalised};
use crate::compile::order::{order, Estimate};
use crate::compile::program::{assemble, Program};
use crate::compile::Expression;
use crate::error::Kind;
use crate::language::read_borrowed;
use crate::model::schema::{Attribute, Bounds, Schema, Type};
use crate::model::strings::Interner;
use crate::oracle::random::Random;
use crate::plan::access_predicate::AccessPredicate;
use crate::plan::analysis::Access;
use crate::plan::analysis::Analysis;

/// The number of attributes with single values; one with intervals follows them.
const POINTS: usize = 4;
/// The number of values of each of them.
const VALUES: usize = 10;
/// The greatest value of the attribute with intervals.
const MAX_KEY: i64 = 999;

/// A tree that splits lists only when a test asks for it.
struct Grove {
    catalog: Catalog,
    subscriptions: Subscriptions,
    strings: Interner,
    tree: Tree,
    /// The nodes whose lists are long.
    long: Vec<NodeId>,
}

/// The key of each attribute that an event defines.
type Keys = Vec<Option<i64>>;

impl Grove {
    fn new() -> Self {
        let attribute = |name: String, bounds, optional| Attribute { name, ty: Type::Integer, optional, bounds };
        let bounded = |max| Bounds::Integer { min: 0, max };
        let points = (0..POINTS).map(|i| attribute(format!("a{i}"), bounded(VALUES as i64 - 1), i % 2 == 1));
        let schema = Schema::new(points.chain([attribute("n".into(), bounded(MAX_KEY), false)]).collect()).unwrap();
        Grove {
            catalog: Catalog::new(schema.into()),
            subscriptions: Subscriptions::default(),
            strings: Interner::default(),
            tree: Tree::default(),
            long: Vec::new(),
        }
    }

    /// Returns a tree whose root has all these expressions in its list.
    fn of(texts: impl IntoIterator<Item = String>) -> Self {
        let mut grove = Grove::new();
        texts.into_iter().for_each(|text| grove.insert(&text));
        grove
    }

    fn insert(&mut self, text: &str) {
        let Grove { catalog, subscriptions, strings, tree, long } = self;
        let postfix = read_borrowed(text.as_bytes(), &catalog.schema, &[]).unwrap();
        let expression = Expression::new(postfix, |predicate| predicate.map(|text| strings.retain(&text)));
        let Normalised::Tree(normal) = normalise(&expression.steps) else { panic!("{text} is constant") };
        let analysis = Analysis::new(normal, &expression.predicates, catalog);
        let Access::Demands(access) = analysis.access(&expression.predicates, catalog) else {
            panic!("{text} is not found by demands")
        };
        let plan = tree.prepare(&access, &analysis, 0, |_| Ok(())).unwrap();
        let tests = order(&analysis.normal, |_, _| Estimate { probability: 0.5, cost: 1.0 });
        let slot = subscriptions.insert(subscriptions.len() as u64, |slot| {
            let Program { mut words, code, .. } = assemble(slot, &tests, &expression, catalog.shared());
            let length = Length::noted(&mut words, code);
            Subscription::new(catalog.programs.insert(&words), length)
        });
        subscriptions.get_mut(slot).set_placement(Placement::Indexed);
        *long = tree.insert(slot, plan, &analysis, catalog, subscriptions);
    }

    /// Splits long lists, with room for at most `nodes` nodes in the tables of searches.
    fn split(&mut self, nodes: usize) {
        let long = std::mem::take(&mut self.long);
        let mut room = |wanted| match wanted <= nodes {
            true => Ok(()),
            false => Err(Error::new(Kind::OutOfMemory, "there is room for no more nodes")),
        };
        self.tree.split_all(long, &self.catalog, &self.subscriptions, &mut room);
    }

    /// Removes an expression, as the index does. Without memory, no analysis of it is made.
    fn remove(&mut self, slot: Slot, has_memory: bool) {
        let removed = self.subscriptions.remove(slot);
        let analysis = has_memory.then(|| Analysis::of(&removed, &self.catalog));
        self.tree.remove(slot, removed.program, analysis.as_ref(), &self.catalog, &self.subscriptions);
    }

    /// Returns the expressions in the list of `node`, each with the literal of its entry.
    fn list(&self, node: NodeId) -> Vec<(Slot, NodeIndex)> {
        let entries = of_each(self.tree.node(node).entries()).map(|held| held[held.len() - 1]);
        entries.map(|entry| (entry.slot(&self.catalog), entry.literal())).collect()
    }

    fn children(&self, node: NodeId) -> Vec<NodeId> {
        let levels = self.tree.node(node).branches().iter().map(|branch| self.tree.level(branch.level));
        levels.flat_map(|level| level.nodes().collect::<Vec<_>>()).collect()
    }

    /// Returns the nodes from `node` down.
    fn below(&self, node: NodeId) -> Vec<NodeId> {
        let children = self.children(node).into_iter().flat_map(|child| self.below(child));
        std::iter::once(node).chain(children).collect()
    }

    /// Returns all entries of the tree.
    fn all(&self) -> Vec<(Slot, NodeIndex)> {
        self.below(NodeId::ROOT).into_iter().flat_map(|node| self.list(node)).collect()
    }

    /// Returns the entries that an event reaches, by the definition of a level.
    fn reached(&self, node: NodeId, event: &Keys) -> Vec<(Slot, NodeIndex)> {
        let mut reached = self.list(node);
        for branch in self.tree.node(node).branches() {
            let Some(key) = event[branch.attribute.index()] else { continue };
            let level = self.tree.level(branch.level);
            let points = level.points.iter().filter(|(point, _)| *point == key).map(|(_, node)| node);
            let buckets = (0..level.buckets.len()).filter(|position| {
                let (low, high) = level.buckets.range(*position);
                low <= key && key <= high
            });
            let buckets = buckets.filter_map(|position| level.buckets.node(position));
            let children: Vec<NodeId> = points.chain(buckets).chain(level.defined).collect();
            children.into_iter().for_each(|child| reached.extend(self.reached(child, event)));
        }
        reached
    }

    /// Checks that `event` reaches each entry at most once, and each whose demands it meets.
    fn check_reached(&self, event: &Keys) {
        let reached = self.reached(NodeId::ROOT, event);
        let distinct: BTreeSet<_> = reached.iter().copied().collect();
        assert_eq!(distinct.len(), reached.len(), "{event:?} reaches an entry twice");
        for entry @ (slot, literal) in self.all() {
            let analysis = Analysis::of(self.subscriptions.get(slot), &self.catalog);
            let is_met = |access_predicate: &AccessPredicate| {
                let key = event[access_predicate.attribute.index()];
                key.is_some_and(|key| match &access_predicate.values {
                    ValueSet::Except(keys) => !keys.contains(&key),
                    _ => access_predicate.admits(key),
                })
            };
            let is_met = analysis.context(literal).all(|(_, access_predicate)| is_met(access_predicate));
            assert!(!is_met || distinct.contains(&entry), "{event:?} does not reach {entry:?}");
        }
    }

    fn check(&self, random: &mut Random) {
        self.tree.validate(&self.catalog, &self.subscriptions).unwrap();
        let lists = self.below(NodeId::ROOT).into_iter().map(|node| self.tree.node(node).entries().len());
        assert_eq!(lists.sum::<usize>(), self.tree.entries());
        for _ in 0..20 {
            self.check_reached(&event(random));
        }
    }

    /// Returns the expected cost of a search below `node`, in entries: the expressions that it visits, and the levels.
    fn cost(&self, node: NodeId) -> f32 {
        let statistics = &self.catalog.statistics;
        let of_level = |branch: &Branch| {
            let (attribute, level) = (branch.attribute, self.tree.level(branch.level));
            let points = level.points.iter().map(|(_, child)| statistics.points(attribute, 1) * self.cost(child));
            let defined = level.defined.map(|child| statistics.defined(attribute) * self.cost(child));
            level_cost(attribute, statistics) + points.chain(defined).sum::<f32>()
        };
        assert!(self.tree.node(node).branches().iter().all(|branch| self.tree.level(branch.level).buckets.is_empty()));
        self.list(node).len() as f32 + self.tree.node(node).branches().iter().map(of_level).sum::<f32>()
    }
}

fn event(random: &mut Random) -> Keys {
    let mut event: Keys =
        (0..POINTS).map(|i| Some(value(random)).filter(|_| i % 2 == 0 || random.chance(70))).collect();
    event.push(Some(random.below(MAX_KEY as usize + 1) as i64));
    event
}

/// Returns a random value, biased to small ones.
fn value(random: &mut Random) -> i64 {
    let most = 1 + random.below(VALUES);
    random.below(most) as i64
}

/// Returns a predicate of an attribute with single values. Attributes with small numbers are more common.
fn point(random: &mut Random) -> String {
    let attribute = random.below(POINTS).min(random.below(POINTS));
    let (one, other) = (value(random), value(random));
    match random.below(10) {
        0 => format!("a{attribute} in ({one}, {other}, 0)"),
        1 => format!("a{attribute} <> {one}"),
        _ => format!("a{attribute} = {one}"),
    }
}

fn interval(random: &mut Random) -> String {
    let low = random.below(MAX_KEY as usize);
    let high = (low + random.pick(&[0, 5, 40, 400])).min(MAX_KEY as usize);
    format!("n >= {low} and n <= {high}")
}

/// Returns expressions that have a selective demand, and others of any kind.
fn texts(random: &mut Random, count: usize, with_intervals: bool) -> Vec<String> {
    let mut text = |_| {
        let mut parts = vec![format!("a{} = {}", random.below(POINTS), value(random))];
        parts.extend(random.several(2, point));
        if with_intervals && random.chance(60) {
            parts[0] = interval(random);
        }
        if random.chance(20) {
            let alternative = format!("({} or a0 = {})", parts[0], value(random));
            parts[0] = alternative.replace(" and ", " and true and ");
        }
        parts.join(" and ")
    };
    (0..count).map(&mut text).collect()
}

#[test]
fn a_split_moves_entries_and_neither_loses_nor_adds_one() {
    let mut deepest = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let count = 25 + random.below(800);
        let mut grove = Grove::of(texts(random, count, seed % 2 == 0));
        let before: BTreeSet<_> = grove.list(NodeId::ROOT).into_iter().collect();
        assert_eq!(grove.below(NodeId::ROOT), [NodeId::ROOT]);
        grove.check(random);
        grove.split(usize::MAX);
        grove.check(random);
        assert_eq!(grove.all().into_iter().collect::<BTreeSet<_>>(), before);
        // Only the parts of a cut bucket may stay long, until their next entry.
        let is_bucket = |node: NodeId| matches!(grove.tree.position(node), Position::Under(_, Place::Bucket));
        let long = |node: &NodeId| grove.tree.node(*node).is_split_due() && !is_bucket(*node);
        assert!(!grove.below(NodeId::ROOT).iter().any(long));
        deepest = deepest.max(grove.tree.depth());
    }
    assert!(deepest >= 2, "{deepest}");
}

#[test]
fn a_split_costs_events_no_more_than_the_list_did() {
    let mut split = 0;
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        // Lists at the break-even of a level, and longer ones.
        let count = 25 + random.below([60, 800][seed as usize % 2]);
        let mut grove = Grove::of(texts(random, count, false));
        let before = grove.cost(NodeId::ROOT);
        assert_eq!(before, grove.list(NodeId::ROOT).len() as f32);
        grove.split(usize::MAX);
        let after = grove.cost(NodeId::ROOT);
        assert!(after <= before * 1.0001, "{seed}: {after} instead of {before}");
        split += usize::from(after < before / 2.0);
    }
    assert!(split > 10, "{split}");
}

#[test]
fn a_list_stays_if_no_level_pays() {
    // A level spares an event the entries with other values, and costs a look-up.
    let few = |count: usize| (0..count).map(|i| format!("a0 in (1, 2, {}) and n <> {i}", 3 + i % (VALUES - 3)));
    let cost = level_cost(AttributeId::from_index(0), &Grove::new().catalog.statistics);
    let held_back = 1.0 - 3.0 / VALUES as f32;
    let pays = (cost / held_back) as usize + 1;
    assert!(pays > cost::LEAF_CAPACITY);
    for (count, is_split) in [(pays - 1, false), (pays, true)] {
        let mut grove = Grove::of(few(count));
        grove.split(usize::MAX);
        assert_eq!(!grove.tree.node(NodeId::ROOT).branches().is_empty(), is_split, "{count}");
    }
}

#[test]
fn a_split_that_is_refused_leaves_every_entry_reachable() {
    let mut partial = 0;
    for seed in 0..30 {
        let random = &mut Random::new(seed);
        let mut grove = Grove::of(texts(random, 80, seed % 2 == 0));
        let before: BTreeSet<_> = grove.list(NodeId::ROOT).into_iter().collect();
        // The second node has the list that every search scans.
        let nodes = random.pick(&[2, 3, 5, 10, 20]);
        grove.split(nodes);
        grove.check(random);
        assert_eq!(grove.all().into_iter().collect::<BTreeSet<_>>(), before);
        assert!(grove.tree.capacity() <= nodes);
        partial += usize::from(grove.tree.capacity() > 2);
        for text in texts(random, 400, seed % 2 == 0) {
            grove.insert(&text);
            grove.split(usize::MAX);
        }
        grove.check(random);
        assert!(grove.tree.capacity() > 20);
    }
    assert!(partial > 10, "{partial}");
}

#[test]
fn removals_take_their_own_entries_alone_and_in_the_end_all_nodes() {
    for seed in 0..30 {
        let random = &mut Random::new(seed);
        let mut grove = Grove::new();
        for text in texts(random, 300, seed % 3 > 0) {
            grove.insert(&text);
            grove.split(usize::MAX);
        }
        let mut left: Vec<Slot> = grove.subscriptions.iter().map(|(slot, _)| slot).collect();
        random.shuffle(&mut left);
        let mut entries: BTreeMap<Slot, BTreeSet<NodeIndex>> = BTreeMap::new();
        for (slot, literal) in grove.all() {
            entries.entry(slot).or_default().insert(literal);
        }
        while let Some(slot) = left.pop() {
            grove.remove(slot, random.chance(80));
            entries.remove(&slot);
            if left.len().is_multiple_of(20) {
                grove.check(random);
                let held: BTreeSet<_> = grove.all().into_iter().collect();
                let expected =
                    entries.iter().flat_map(|(slot, literals)| literals.iter().map(|literal| (*slot, *literal)));
                assert!(held.into_iter().eq(expected), "{seed}");
            }
        }
        assert_eq!((grove.tree.nodes(), grove.tree.entries(), grove.tree.depth()), (1, 0, 0));
    }
}

/// Returns a tree whose root has a level with one long bucket.
fn bucket(random: &mut Random, widths: &[usize]) -> (Grove, NodeId) {
    let mut grove = Grove::new();
    grove.tree.new_level(NodeId::ROOT, AttributeId::from_index(POINTS));
    for _ in 0..100 {
        let low = random.below(MAX_KEY as usize);
        let high = (low + random.pick(widths)).min(MAX_KEY as usize);
        grove.insert(&format!("n >= {low} and n <= {high}"));
    }
    let children = grove.children(NodeId::ROOT);
    assert_eq!((children.len(), grove.list(NodeId::ROOT).len()), (1, 0));
    (grove, children[0])
}

#[test]
fn a_cut_shortens_both_lists_and_leaves_each_interval_on_its_sides() {
    for seed in 0..40 {
        let random = &mut Random::new(seed);
        let (mut grove, node) = bucket(random, &[0, 10, 100]);
        let count = grove.list(node).len();
        let mut readings = Readings::new(&grove.catalog, &grove.subscriptions);
        let read = grove.tree.read(node, &vec![true; count], &mut readings).unwrap();
        let cut = grove.tree.worthwhile_cut(node, &read).expect("most of these intervals are narrow");
        let intervals: Vec<(i64, i64)> = read.iter().map(|entry| entry.interval.unwrap()).collect();
        let room = &mut |_| Ok(());
        grove.tree.cut_bucket(node, cut, &read, &mut Splitting { long: Vec::new(), readings, room }).unwrap();
        let sides = grove.children(NodeId::ROOT).into_iter().map(|side| grove.list(side));
        let sides: Vec<BTreeSet<Slot>> = sides.map(|side| side.into_iter().map(|(slot, _)| slot).collect()).collect();
        let [left, right] = &sides[..] else { panic!("a cut makes two buckets of one") };
        for (entry, (low, high)) in read.iter().zip(intervals) {
            assert_eq!((left.contains(&entry.slot), right.contains(&entry.slot)), (low < cut.at, high >= cut.at));
        }
        assert!(left.len() < count && right.len() < count);
        assert!((left.len() + right.len()) as f32 <= cost::MAX_CUT_COPIES * count as f32);
        grove.check(random);
    }
}

#[test]
fn a_bucket_of_wide_intervals_is_not_cut() {
    for seed in 0..10 {
        let (mut grove, node) = bucket(&mut Random::new(seed), &[MAX_KEY as usize]);
        let count = grove.list(node).len();
        let mut readings = Readings::new(&grove.catalog, &grove.subscriptions);
        let read = grove.tree.read(node, &vec![true; count], &mut readings).unwrap();
        // All intervals reach the greatest value, so every cut has all of them on its right side.
        assert!(grove.tree.worthwhile_cut(node, &read).is_none());
        grove.long = vec![node];
        grove.split(usize::MAX);
        assert_eq!(grove.children(NodeId::ROOT), [node]);
    }
}

proptest! {
    #[test]
    fn a_cut_is_the_median_of_the_ends_inside(
        intervals in prop::collection::vec((-50_i64..50, -50_i64..50), 0..30),
        low in -60_i64..60,
        width in 0_i64..60,
    ) {
        let high = low + width;
        // A bucket from `low` can be cut at the first key of an interval, or behind its last key.
        let ends = intervals.iter().flat_map(|(from, to)| [*from, to + 1]);
        let mut inside: Vec<i64> = ends.filter(|end| low < *end && *end <= high).collect();
        inside.sort_unstable();
        let expected = inside.get(inside.len() / 2).copied();
        prop_assert_eq!(median_end(&intervals, low, high), expected);
    }
}
