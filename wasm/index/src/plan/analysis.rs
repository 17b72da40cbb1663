//! The demands of an expression: its normal form with each literal's access predicate. An analysis chooses the literals that
//! lead to the expression.

#[cfg(test)]
mod tests;

use crate::catalog::statistics::Statistics;
use crate::catalog::subscriptions::Subscription;
use crate::catalog::Catalog;
use crate::compile::normal::{normalise, NodeIndex, Normal, NormalNode, Normalised};
use crate::cost;
use crate::model::predicate::{Predicate, Test};
use crate::model::schema::{AttributeId, Schema};
use crate::model::strings::StringId;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::filter::{self, Filter};
use crate::support::number::lesser;

/// The maximum number of nodes of an indexed expression: an entry notes its literal by the number of the node.
const MAX_INDEXED_NODES: usize = filter::NOTE_COUNT as usize;

/// The residual predicate of an entry: the part of its expression that path and filters do not prove.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Residual<'a> {
    Nothing,
    /// The event must meet this access predicate. It is exact, and so is a filter of it.
    One(&'a AccessPredicate),
    /// The event must meet one alternative of an `Or`. This is the likely one.
    Either(LikelyAlternative),
    More,
}

/// The way in which an expression is found.
#[derive(Clone, Debug)]
pub(crate) enum Access {
    /// By these literals. Every event that makes the expression true makes one of them true.
    Demands(Vec<NodeIndex>),
    /// By a filter that every event passes. It proves the expression for most events that make it true; for the others its
    /// program runs.
    Filter(Filter),
    /// Unindexed, because evaluating it for every event costs no more.
    Nothing,
}

/// A negated literal that many events make true.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LikelyAlternative {
    /// A filter that every event passes. Events that may fail the literal run the program.
    pub filter: Filter,
    /// The expected share of events that need not run the program.
    pub share: f32,
}

/// The normal form of an expression, its access predicates, and the expected share of events that meet each of them.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    pub normal: Normal,
    access_predicates: Vec<Option<AccessPredicate>>,
    shares: Vec<f32>,
}

impl Analysis {
    /// Analyzes the expression of `subscription`, which is not constant.
    pub fn of(subscription: &Subscription, catalog: &Catalog) -> Self {
        let expression = catalog.expression(subscription);
        match normalise(&expression.steps) {
            Normalised::Tree(normal) => Self::new(normal, &expression.predicates, catalog),
            Normalised::Constant(_) => unreachable!("a constant expression has no entries"),
        }
    }

    /// Like [`Analysis::of`], but only for an entry of `literal`: it has only the access predicates of the literal's
    /// context.
    pub fn of_entry(literal: NodeIndex, subscription: &Subscription, catalog: &Catalog) -> Self {
        let written = catalog.written(subscription);
        let Normalised::Tree(normal) = normalise(&written.steps) else {
            unreachable!("a constant expression has no entries")
        };
        let mut access_predicates = vec![None; normal.capacity()];
        let alternatives = normal.joined(literal).flat_map(|joined| negated(&normal, joined));
        for index in normal.context(literal).chain(alternatives) {
            access_predicates[index as usize] = normal.literal(index).and_then(|literal| {
                let predicate = written.predicate(literal.predicate, &catalog.schema, &catalog.predicates);
                AccessPredicate::of(literal, &predicate, catalog)
            });
        }
        Self::narrowed(normal, access_predicates, &catalog.statistics)
    }

    /// Analyzes an expression with these `predicates` and the normal form `normal`.
    pub fn new(normal: Normal, predicates: &[Predicate<StringId>], catalog: &Catalog) -> Self {
        let mut access_predicates = vec![None; normal.capacity()];
        for index in normal.top_down() {
            if let Some(literal) = normal.literal(index) {
                access_predicates[index as usize] =
                    AccessPredicate::of(literal, &predicates[literal.predicate as usize], catalog);
            }
        }
        Self::narrowed(normal, access_predicates, &catalog.statistics)
    }

    fn narrowed(normal: Normal, mut access_predicates: Vec<Option<AccessPredicate>>, statistics: &Statistics) -> Self {
        for index in normal.top_down() {
            if normal.node(index) == NormalNode::And {
                narrow_siblings(&mut access_predicates, normal.children(index));
            }
        }
        let share = |access_predicate: &Option<AccessPredicate>| match access_predicate {
            Some(access_predicate) if !access_predicate.is_lax => access_predicate.selectivity(statistics),
            _ => f32::INFINITY,
        };
        let shares = access_predicates.iter().map(share).collect();
        Analysis { normal, access_predicates, shares }
    }

    /// Returns the access predicate of the literal at `index`, if one can lead to an entry.
    pub fn access_predicate(&self, index: NodeIndex) -> Option<&AccessPredicate> {
        self.access_predicates[index as usize].as_ref().filter(|access_predicate| !access_predicate.is_lax)
    }

    /// Returns the expected share of events that meet the access predicate of the literal at `index`. Without an access
    /// predicate that can lead to an entry, the share is infinite.
    pub fn share(&self, index: NodeIndex) -> f32 {
        self.shares[index as usize]
    }

    /// Returns the access predicates of all literals that can lead to an entry.
    pub fn access_predicates(&self) -> impl Iterator<Item = &AccessPredicate> {
        self.access_predicates.iter().flatten().filter(|access_predicate| !access_predicate.is_lax)
    }

    /// Updates `statistics` with the intervals of all literals.
    pub fn observe(&self, statistics: &mut Statistics) {
        for access_predicate in self.normal.top_down().filter_map(|index| self.access_predicate(index)) {
            if let ValueSet::Interval(low, high) = access_predicate.values {
                statistics.observe(access_predicate.attribute, low, high);
            }
        }
    }

    /// Returns the access predicates of the context of the literal at `index`: an event must meet all of them to make the
    /// expression true by this literal. Its own is the first.
    pub fn context(&self, index: NodeIndex) -> impl Iterator<Item = (NodeIndex, &AccessPredicate)> {
        self.normal
            .context(index)
            .take(cost::MAX_CONTEXT)
            .filter_map(|index| Some((index, self.access_predicate(index)?)))
    }

    /// Returns the residual predicate of an entry under the literal at `index`, for events that meet every demand that
    /// `is_known`.
    pub fn residual(
        &self,
        index: NodeIndex,
        catalog: &Catalog,
        is_known: impl Fn(&AccessPredicate) -> bool,
    ) -> Residual<'_> {
        let access_predicate = |index: NodeIndex| self.access_predicates[index as usize].as_ref();
        let is_open = |index: &NodeIndex| !access_predicate(*index).is_some_and(&is_known);
        let mut open = Some(index).filter(is_open);
        let mut below = index;
        let mut conjunctions = 0;
        while let Some(above) = self.normal.parent(below) {
            if self.normal.node(above) == NormalNode::And {
                conjunctions += 1;
                // The context has no literals from more conjunctions.
                if conjunctions > cost::MAX_CONTEXT {
                    return Residual::More;
                }
                // A path and two filters do not prove a long conjunction, so it is not worth inspecting.
                if self.normal.children(above).nth(cost::MAX_PROVEN_CONJUNCTION).is_some() {
                    return Residual::More;
                }
                for child in self.normal.children(above).filter(|child| *child != below).filter(is_open) {
                    if open.replace(child).is_some() {
                        return Residual::More;
                    }
                }
            }
            below = above;
        }
        match open {
            None => Residual::Nothing,
            Some(index) if self.normal.node(index) == NormalNode::Or => {
                self.likely_alternative(index, catalog).map_or(Residual::More, Residual::Either)
            }
            Some(index) => self.provable(index, &catalog.schema).map_or(Residual::More, Residual::One),
        }
    }

    /// Returns the negated alternative of the `Or` at `index` that most events make true.
    fn likely_alternative(&self, index: NodeIndex, catalog: &Catalog) -> Option<LikelyAlternative> {
        let Catalog { schema, statistics, .. } = catalog;
        let likely = negated(&self.normal, index).filter_map(|literal| {
            let access_predicate = self.access_predicates[literal as usize].as_ref()?;
            Some(LikelyAlternative {
                filter: Filter::exception(access_predicate, schema)?,
                share: filter::proven(access_predicate, statistics),
            })
        });
        likely.max_by(|a, b| a.share.total_cmp(&b.share))
    }

    /// Chooses the access with the least expected cost for an event. `predicates` are those of the expression.
    pub fn access(&self, predicates: &[Predicate<StringId>], catalog: &Catalog) -> Access {
        let mut literals = self.normal.top_down().filter_map(|index| self.normal.literal(index));
        let is_boolean = literals.all(|literal| matches!(predicates[literal.predicate as usize].test, Test::True));
        let worthwhile = if is_boolean { cost::MAX_INDEXED_BOOLEAN } else { cost::MAX_INDEXED };
        let costs = self.costs(catalog);
        let cost = costs[self.normal.root() as usize];
        match self.deciding_filter(catalog) {
            Some((filter, passed)) if passed < lesser(cost, worthwhile) => Access::Filter(filter),
            _ if cost < worthwhile && self.normal.capacity() <= MAX_INDEXED_NODES => {
                Access::Demands(self.cheapest(&costs))
            }
            _ => Access::Nothing,
        }
    }

    /// Returns a filter that decides the whole expression for most events, and its cost for an event. Returns `None` if
    /// there is no such filter, or if it costs as much as evaluating the expression.
    fn deciding_filter(&self, catalog: &Catalog) -> Option<(Filter, f32)> {
        let root = self.normal.root();
        let (filter, share) = match self.normal.node(root) {
            NormalNode::Literal(_) => (Filter::proof(self.provable(root, &catalog.schema)?, &catalog.schema), 1.0),
            NormalNode::Or => self.likely_alternative(root, catalog).map(|likely| (likely.filter, likely.share))?,
            NormalNode::And => return None,
        };
        let cost = 1.0 + cost::MATCH + (1.0 - share) * cost::EVALUATION;
        (cost < cost::EVALUATION).then_some((filter, cost))
    }

    /// Returns the access predicate of the literal at `index` if it is exact and has an exact filter.
    fn provable(&self, index: NodeIndex, schema: &Schema) -> Option<&AccessPredicate> {
        self.access_predicates[index as usize]
            .as_ref()
            .filter(|access_predicate| access_predicate.is_exact && Filter::is_exact_for(access_predicate, schema))
    }

    /// Returns the literals that lead to the expression at the least cost for an event.
    fn cheapest(&self, costs: &[f32]) -> Vec<NodeIndex> {
        let mut access = Vec::new();
        let mut pending = Vec::new();
        let mut next = Some(self.normal.root());
        while let Some(index) = next {
            match self.normal.node(index) {
                NormalNode::Literal(_) => access.push(index),
                NormalNode::Or => pending.extend(self.normal.children(index)),
                NormalNode::And => {
                    let cost = |child: &NodeIndex| costs[*child as usize];
                    next = self.normal.children(index).min_by(|a, b| cost(a).total_cmp(&cost(b)));
                    continue;
                }
            }
            next = pending.pop();
        }
        access
    }

    /// Returns for each node the cost of finding the expression by it.
    fn costs(&self, catalog: &Catalog) -> Vec<f32> {
        let mut costs = vec![f32::INFINITY; self.normal.capacity()];
        if self.normal.literal(self.normal.root()).is_some() {
            costs[self.normal.root() as usize] = self.cost(self.normal.root(), catalog);
        }
        for index in self.normal.bottom_up() {
            let children = || self.normal.children(index);
            let literals = children().filter(|&child| self.normal.literal(child).is_some());
            match self.normal.node(index) {
                NormalNode::Literal(_) => {}
                NormalNode::And => {
                    // All literals of a conjunction have the same context, so only the least likely is considered.
                    let least = literals.min_by(|a, b| self.share(*a).total_cmp(&self.share(*b)));
                    least.into_iter().for_each(|literal| costs[literal as usize] = self.cost(literal, catalog));
                    costs[index as usize] = children().map(|child| costs[child as usize]).fold(f32::INFINITY, lesser);
                }
                NormalNode::Or => {
                    literals.for_each(|literal| costs[literal as usize] = self.cost(literal, catalog));
                    costs[index as usize] = children().map(|child| costs[child as usize]).sum();
                }
            }
        }
        costs
    }

    /// Returns the cost of an entry under the literal at `index`. The estimate assumes that the most selective access
    /// predicate of the context leads to the entry, and that the next one on another attribute filters it.
    fn cost(&self, index: NodeIndex, catalog: &Catalog) -> f32 {
        let Some(mut leading) = self.access_predicate(index) else {
            return f32::INFINITY;
        };
        let mut led = self.share(index);
        let (mut filtering, mut filtered) = (None, 1.0);
        for index in self.normal.context(index).take(cost::MAX_CONTEXT) {
            let share = self.share(index);
            // An infinite share is that of a literal without an access predicate.
            if share >= led && share >= filtered {
                continue;
            }
            let Some(access_predicate) = self.access_predicate(index) else { continue };
            let is_other = access_predicate.attribute != leading.attribute;
            if share < led {
                (filtering, filtered) = if is_other { (Some(leading), led) } else { (filtering, filtered) };
                (leading, led) = (access_predicate, share);
            } else if is_other && share < filtered {
                (filtering, filtered) = (Some(access_predicate), share);
            }
        }
        let is_known = |access_predicate: &AccessPredicate| {
            let leads = std::ptr::eq(access_predicate, leading);
            let filters = filtering.map_or(leads, |filtering| std::ptr::eq(access_predicate, filtering));
            access_predicate.is_exact
                && (leads && access_predicate.is_met_where_it_leads()
                    || filters && Filter::is_exact_for(access_predicate, &catalog.schema))
        };
        let (entries, passed) = match self.residual(index, catalog, is_known) {
            Residual::Nothing => (1.0, cost::MATCH),
            Residual::One(_) if filter::is_worth_joining(filtered) => (2.0, cost::MATCH),
            Residual::Either(likely) if filter::is_worth_joining(filtered * likely.share) => {
                (2.0, cost::MATCH + (1.0 - likely.share) * cost::EVALUATION)
            }
            Residual::One(_) | Residual::Either(_) | Residual::More => (1.0, cost::EVALUATION),
        };
        entries * leading.places() as f32 * cost::ENTRY_MEMORY + led * (entries + filtered * passed)
    }
}

/// Returns the negated literals among the first [`cost::MAX_CONTEXT`] children of the node at `index`.
fn negated(normal: &Normal, index: NodeIndex) -> impl Iterator<Item = NodeIndex> + '_ {
    let children = normal.children(index).take(cost::MAX_CONTEXT);
    children.filter(|child| normal.literal(*child).is_some_and(|literal| literal.negated))
}

/// Narrows intervals of the same attribute that siblings under an `And` demand to their intersection.
fn narrow_siblings(access_predicates: &mut [Option<AccessPredicate>], siblings: impl Iterator<Item = NodeIndex>) {
    let mut intervals: Vec<(AttributeId, NodeIndex)> = siblings
        .filter_map(|index| match &access_predicates[index as usize] {
            Some(AccessPredicate { attribute, values: ValueSet::Interval(..), is_lax: false, .. }) => {
                Some((*attribute, index))
            }
            _ => None,
        })
        .collect();
    intervals.sort_unstable();
    for group in intervals.chunk_by(|(a, _), (b, _)| a == b) {
        let (&(_, first), others) = group.split_first().expect("a group has one");
        let (Some(mut common), false) = (access_predicates[first as usize].clone(), others.is_empty()) else {
            continue;
        };
        for &(_, index) in others {
            if let Some(access_predicate) = &access_predicates[index as usize] {
                common.narrow(access_predicate);
            }
        }
        for &(_, index) in group {
            if let Some(access_predicate) = &mut access_predicates[index as usize] {
                // Exactness does not change: the common interval is a part of each literal's own.
                access_predicate.values = common.values.clone();
            }
        }
    }
}
