//! The index: subscriptions in, subscriptions out.

use crate::boolean::windows::Dense;
use crate::catalog::sizes::Sizes;
use crate::catalog::subscriptions::{Length, Placement, Subscription, Subscriptions};
use crate::catalog::vocabulary::Vocabulary;
use crate::catalog::{analysis_bytes, Catalog};
use crate::compile::normal::{normalise, NodeIndex, Normal, Normalised};
use crate::compile::order::{order, Estimate};
use crate::compile::program::{self, Program};
use crate::compile::{booleans, Expression, Literal};
use crate::error::{Error, Kind};
use crate::handles::NodeId;
use crate::handles::Slot;
use crate::language;
use crate::model::predicate::{self, Borrowed, Predicate, Step};
use crate::model::schema::{Attribute, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::{Access, Analysis};
use crate::plan::demands::Demands;
use crate::plan::filter::{self, Coverage};
use crate::reasons::Reasons;
use crate::room::{Extent, Searches};
use crate::support::hash::{hash_bytes, out_of_memory};
use crate::support::headroom::{ensure, Reserve};
use crate::tree::Tree;

/// Memory that any insertion wants free, on top of what its tables grow by.
const HEADROOM: usize = 64 * 1024;
/// Memory that an insertion wants free for each byte of its text. What reading it allocates for each step is asked for as
/// it goes; this is for the rest, such as a list in order, and for the strings that are kept.
const HEADROOM_PER_BYTE: usize = 16;
/// Memory that it wants free, once it is read, for each step and each constant.
const HEADROOM_PER_STEP: usize = 200;

/// A subscription to be inserted: its id, the text of its expression, and the constants given with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Insertion<'a> {
    /// The subscription's id.
    pub id: u64,
    /// The text of the expression.
    pub text: &'a [u8],
    /// Constants by name, such as `flight_id`.
    pub constants: Vec<(&'a [u8], i64)>,
}

/// Counts and sizes of an [`Index`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// Subscriptions.
    pub expressions: usize,
    /// Predicates, each as often as the expressions have it.
    pub predicates: usize,
    /// Distinct strings.
    pub strings: usize,
    /// Nodes of the tree.
    pub nodes: usize,
    /// Entries of all leaf lists.
    pub entries: usize,
    /// Subscriptions that every search passes or looks at.
    pub unindexed: usize,
    /// The greatest number of value levels above a node.
    pub depth: usize,
    /// Bytes of programs, and of the steps kept with them.
    pub code_bytes: usize,
}

/// Boolean expressions over the attributes of one schema, each under an id.
///
/// It changes only by [`Index::insert`], [`Index::insert_all`] and [`Index::delete`], each of which either succeeds or
/// leaves it as it was. A [`crate::search::Search`] reads it.
#[derive(Clone, Debug, Default)]
pub struct Index {
    catalog: Catalog,
    strings: Interner,
    vocabulary: Vocabulary,
    subscriptions: Subscriptions,
    tree: Tree,
    dense: Dense,
    /// What is wanted to tell why expressions are false, where that was asked for.
    reasons: Option<Reasons>,
    predicates: usize,
    code_bytes: usize,
    /// Memory for the deletion of any subscription, and how much each takes.
    reserve: Reserve,
    deletions: Sizes,
}

impl Index {
    /// An empty index.
    pub fn new(schema: Schema) -> Self {
        Index {
            vocabulary: Vocabulary::new(&schema),
            dense: Dense::new(&schema),
            catalog: Catalog::new(schema),
            ..Index::default()
        }
    }

    /// The attributes that expressions read.
    pub fn schema(&self) -> &Schema {
        &self.catalog.schema
    }

    /// The strings that expressions mention.
    pub fn strings(&self) -> &Interner {
        &self.strings
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// The dense expressions.
    pub(crate) fn dense(&self) -> &Dense {
        &self.dense
    }

    /// Whether all expressions are dense, but for those that are false whatever the event.
    pub(crate) fn is_dense(&self) -> bool {
        self.tree.entries() == 0 && self.tree.likely().is_empty() && self.tree.unindexed().is_empty()
    }

    pub(crate) fn reasons(&self) -> Option<&Reasons> {
        self.reasons.as_ref()
    }

    /// Keeps from now on what [`crate::search::Search::open_reasons`] needs of each subscription: 8 bytes for each
    /// predicate of its text, or less. Errors: [`Kind::OutOfMemory`].
    pub fn keep_reasons(&mut self) -> Result<(), Error> {
        ensure(HEADROOM + Reasons::bytes(self.len(), self.code_bytes))?;
        let mut reasons = Reasons::default();
        self.subscriptions.iter().for_each(|(slot, subscription)| reasons.insert(slot, subscription, &self.catalog));
        self.reasons = Some(reasons);
        Ok(())
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    /// How many subscriptions there are.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Counts and sizes.
    pub fn info(&self) -> Info {
        Info {
            expressions: self.len(),
            predicates: self.predicates,
            strings: self.strings.len(),
            nodes: self.tree.nodes(),
            entries: self.tree.entries(),
            unindexed: self.tree.unindexed().len() + self.tree.likely().len() + self.dense.len(),
            depth: self.tree.depth(),
            code_bytes: self.code_bytes,
        }
    }

    /// Takes note of the share of recent events that define each attribute.
    pub(crate) fn learn(&mut self, shares: impl Iterator<Item = f32>) {
        self.catalog.statistics.learn(shares);
    }

    /// Inserts one subscription.
    ///
    /// Errors: [`Kind::DuplicateId`]; [`Kind::Syntax`], [`Kind::UnknownAttribute`], [`Kind::Type`],
    /// [`Kind::OutOfBounds`] and [`Kind::MissingAttribute`] of the expression; [`Kind::OutOfMemory`].
    pub fn insert(&mut self, insertion: &Insertion) -> Result<(), Error> {
        self.insert_for(&mut (), insertion)
    }

    /// [`Index::insert`] for searches that had room for the index, and have it again.
    fn insert_for(&mut self, searches: &mut impl Searches, insertion: &Insertion) -> Result<(), Error> {
        if self.subscriptions.has(insertion.id) {
            let message = format!("a subscription with the id {} exists; delete it first", insertion.id);
            return Err(Error::new(Kind::DuplicateId, message));
        }
        let (postfix, bytes) = self.read(insertion)?;
        let (steps, constants) = (postfix.len(), constants(&postfix));
        let deletion = analysis_bytes(steps, constants + program::most_words(steps, constants));
        self.reserve.hold(self.deletions.most().max(deletion))?;
        let extent = self.extent_with(insertion.id, predicates(&postfix).count());
        searches.make_room(&extent)?;
        // Both may have been taken from what was found free.
        ensure(bytes)?;
        let expression = self.intern(postfix)?;
        let mut room = |nodes| searches.make_room(&Extent { nodes, ..extent });
        let (slot, long) = match self.subscribe(insertion.id, &expression, bytes, &mut room) {
            Ok(subscribed) => subscribed,
            Err(error) => {
                self.release(&expression.predicates);
                return Err(error);
            }
        };
        self.predicates += expression.predicates.len();
        drop(expression);
        self.deletions.add(self.catalog.analysis_bytes(self.subscriptions.get(slot)));
        self.complete(slot);
        // Last, as it may be refused memory and leave undone what it is refused for.
        self.tree.split_all(long, &self.catalog, &self.subscriptions, &mut room);
        Ok(())
    }

    /// How large the index is.
    pub fn extent(&self) -> Extent {
        Extent {
            attributes: self.schema().len(),
            nodes: self.tree.capacity(),
            slots: self.subscriptions.capacity(),
            predicates: self.catalog.predicates.capacity(),
            dense: self.dense.len(),
            greatest: self.subscriptions.greatest(),
            has_reasons: self.reasons.is_some(),
        }
    }

    /// The most that it may be with one more subscription, of so many predicates, but for the nodes of the tree.
    fn extent_with(&self, id: u64, predicates: usize) -> Extent {
        let extent = self.extent();
        Extent {
            slots: extent.slots.max(self.subscriptions.next() as usize + 1),
            predicates: extent.predicates + predicates,
            dense: extent.dense + 1,
            greatest: extent
                .greatest
                .filter(|_| self.subscriptions.stays_ascending(id))
                .map(|greatest| greatest.max(id)),
            ..extent
        }
    }

    /// What is left to be done for a subscription that the tree holds.
    fn complete(&mut self, slot: Slot) {
        let Index { subscriptions, catalog, dense, reasons, .. } = self;
        if let Placement::Dense(position) = subscriptions.get(slot).placement() {
            dense.settle(position);
        }
        if let Some(reasons) = reasons {
            reasons.insert(slot, subscriptions.get(slot), catalog);
        }
    }

    /// Reads an expression as erl-be-tree does, and inserts nothing: an id that is there already is no error.
    ///
    /// Errors: those of [`Index::insert`], and [`Kind::Type`] for what only erl-be-tree refuses: asking whether an attribute
    /// that is required is null, or whether segments or caps are empty, and membership of an enum.
    pub fn check(&mut self, insertion: &Insertion) -> Result<(), Error> {
        let (postfix, bytes) = self.read(insertion)?;
        ensure(bytes)?;
        for predicate in predicates(&postfix) {
            let Attribute { name, ty, optional, .. } = self.schema().attribute(predicate.attribute);
            let refusal = match (&predicate.test, ty) {
                (predicate::Test::Null | predicate::Test::NotNull, _) if !optional => "is required and never null",
                (predicate::Test::OneOf(_) | predicate::Test::NoneOf(_), Type::IntegerEnum) => {
                    "is an enum, which is compared by `=` and `<>`"
                }
                (predicate::Test::Empty, Type::Segments | Type::FrequencyCaps) => "is no list of integers or strings",
                _ => continue,
            };
            return Err(Error::new(Kind::Type, format!("`{name}` {refusal}")).about(name));
        }
        let expression = self.intern(postfix)?;
        self.release(&expression.predicates);
        Ok(())
    }

    /// Inserts all subscriptions and returns their ids; or none, and names the position of the first that is refused.
    pub fn insert_all<'a>(
        &mut self,
        insertions: impl IntoIterator<Item = Result<Insertion<'a>, Error>>,
    ) -> Result<Vec<u64>, (usize, Error)> {
        self.insert_all_for(&mut (), insertions)
    }

    /// [`Index::insert_all`] for searches that had room for the index, and have it again whether it is refused or not.
    pub fn insert_all_for<'a>(
        &mut self,
        searches: &mut impl Searches,
        insertions: impl IntoIterator<Item = Result<Insertion<'a>, Error>>,
    ) -> Result<Vec<u64>, (usize, Error)> {
        let mut inserted = Vec::new();
        for (position, insertion) in insertions.into_iter().enumerate() {
            // Room for its id first: what is inserted is not to be forgotten.
            let room = inserted.try_reserve(1).map_err(out_of_memory);
            let insertion = room.and(insertion);
            match insertion.and_then(|insertion| self.insert_for(searches, &insertion).map(|()| insertion.id)) {
                Ok(id) => inserted.push(id),
                Err(error) => {
                    for &id in inserted.iter().rev() {
                        self.delete(id).expect("what this call inserted is there");
                    }
                    return Err((position, error));
                }
            }
        }
        Ok(inserted)
    }

    /// Deletes one subscription. It is never refused for want of memory: insertions hold as much as a deletion takes.
    ///
    /// Errors: [`Kind::NotFound`].
    pub fn delete(&mut self, id: u64) -> Result<(), Error> {
        let Some(slot) = self.subscriptions.find(id) else {
            return Err(Error::new(Kind::NotFound, format!("no subscription has the id {id}")));
        };
        let subscription = self.subscriptions.get(slot);
        let words = self.catalog.words(subscription);
        let bytes = self.catalog.analysis_bytes(subscription);
        self.deletions.remove(bytes);
        let is_short = ensure(2 * bytes).is_err();
        if is_short {
            self.reserve.release();
        }
        let subscription = self.subscriptions.remove(slot);
        if let Some(reasons) = &mut self.reasons {
            reasons.remove(slot);
        }
        if !is_short {
            self.take_down(slot, &subscription, is_short);
        }
        let Expression { predicates, .. } = self.catalog.expression(&subscription);
        self.release(&predicates);
        self.predicates -= predicates.len();
        drop(predicates);
        let Catalog { predicates, programs, .. } = &mut self.catalog;
        let (held, code) = subscription.length.of(programs.get(subscription.program));
        program::shared(&held[..code]).for_each(|predicate| predicates.release(predicate));
        self.code_bytes -= words * size_of::<u32>();
        programs.remove(subscription.program, words);
        if is_short {
            // Behind all that the reserve is for: merging buckets may use what is left of it.
            self.take_down(slot, &subscription, is_short);
        }
        if self.is_empty() {
            self.clear();
        } else {
            // Refused, it is held again by the next change that finds as much. What this one gave back is enough for the next
            // deletion, as it ended with as much free as it began with.
            let _ = self.reserve.hold_about(self.deletions.most());
        }
        Ok(())
    }

    /// Gives back what is left of tables once the last subscription is deleted. Allocates nothing.
    fn clear(&mut self) {
        let Index { catalog, strings, vocabulary, tree, dense, reasons, deletions, reserve, .. } = self;
        catalog.programs.clear();
        strings.clear();
        vocabulary.clear();
        tree.clear();
        dense.clear();
        if let Some(reasons) = reasons {
            *reasons = Reasons::default();
        }
        *deletions = Sizes::default();
        reserve.release();
    }

    /// Takes a subscription out of wherever its home is.
    fn take_down(&mut self, slot: Slot, removed: &Subscription, is_short: bool) {
        let Index { catalog, subscriptions, tree, dense, .. } = self;
        match removed.placement() {
            Placement::Nowhere => {}
            Placement::Unindexed(position) => {
                if let Some(moved) = tree.remove_unindexed(position) {
                    subscriptions.get_mut(catalog.slot(moved)).set_placement(Placement::Unindexed(position));
                }
            }
            Placement::Likely(position) => {
                if let Some(moved) = tree.remove_likely(position) {
                    subscriptions.get_mut(moved).set_placement(Placement::Likely(position));
                }
            }
            Placement::Dense(position) => {
                if let Some(moved) = dense.remove(position) {
                    subscriptions.get_mut(moved).set_placement(Placement::Dense(position));
                }
            }
            Placement::Indexed => {
                let analysis = (!is_short).then(|| Analysis::of(removed, catalog));
                tree.remove(slot, removed.program, analysis.as_ref(), catalog, subscriptions);
            }
        }
    }

    /// Checks everything that must hold between the parts of the index; for tests. Costs a pass over all of it.
    pub fn validate(&self) -> Result<(), String> {
        let mut references = vec![0; self.catalog.predicates.capacity()];
        for (_, subscription) in self.subscriptions.iter() {
            program::shared(self.catalog.code(subscription)).for_each(|predicate| references[predicate as usize] += 1);
        }
        self.catalog.predicates.validate(&references)?;
        self.strings.validate()?;
        let dense = self.subscriptions.iter().filter_map(|(slot, subscription)| match subscription.placement() {
            Placement::Dense(position) => Some((slot, position)),
            _ => None,
        });
        self.dense.validate(&dense.collect::<Vec<_>>())?;
        if let Some(reasons) = &self.reasons {
            reasons.validate(self.subscriptions.iter().map(|(slot, _)| slot))?;
        }
        self.tree.validate(&self.catalog, &self.subscriptions)
    }

    /// Reads an expression, and tells how many bytes taking it in requests at the most, but for its places in the tree.
    fn read<'a>(&self, insertion: &Insertion<'a>) -> Result<(Vec<Step<Borrowed<'a>>>, usize), Error> {
        let text = HEADROOM_PER_BYTE * insertion.text.len();
        ensure(HEADROOM + text)?;
        let postfix = language::read_borrowed(insertion.text, &self.catalog.schema, &insertion.constants)?;
        let constants = constants(&postfix);
        let words = program::most_words(postfix.len(), constants);
        let tables = self.catalog.predicates.growth(predicates(&postfix).count())
            + self.catalog.programs.growth(words)
            + self.strings.growth(constants)
            + self.vocabulary.growth(predicates(&postfix), self.schema(), self.strings.capacity() + constants)
            + self.subscriptions.growth(1)
            + self.tree.growth()
            + self.dense.growth()
            + self.reasons.as_ref().map_or(0, |reasons| reasons.growth(insertion.text.len(), words));
        let bytes = HEADROOM + text + HEADROOM_PER_STEP * (postfix.len() + constants) + tables;
        Ok((postfix, bytes))
    }

    /// Takes in the strings and constants of an expression.
    fn intern(&mut self, postfix: Vec<Step<Borrowed>>) -> Result<Expression, Error> {
        let Index { strings, vocabulary, catalog: Catalog { schema, .. }, .. } = self;
        let mut refused = None;
        let strings_at_most = constants(&postfix);
        let mut hashes = Vec::with_capacity(strings_at_most);
        for predicate in predicates(&postfix) {
            predicate.test.each_string(|text| hashes.push(hash_bytes(text)));
        }
        if strings.is_far() {
            strings.prefetch(hashes.iter().copied());
        }
        let mut hashes = hashes.into_iter();
        let expression = Expression::new(postfix, |predicate| {
            let predicate = predicate.map(|text| {
                let Some(hash) = hashes.next() else { unreachable!("each string was hashed") };
                strings.take_in(hash, &text)
            });
            // Of a list that has a string twice it is one reference.
            predicate.test.each_string(|&string| strings.count(string));
            vocabulary.retain(&predicate, schema);
            if let Err(error) = vocabulary.check(predicate.attribute, schema) {
                refused.get_or_insert(error);
            }
            predicate
        });
        match refused {
            None => Ok(expression),
            Some(error) => {
                self.release(&expression.predicates);
                Err(error)
            }
        }
    }

    /// Gives back what [`Index::intern`] took in.
    fn release(&mut self, predicates: &[Predicate<StringId>]) {
        for predicate in predicates {
            self.vocabulary.release(predicate, &self.catalog.schema);
            predicate.test.each_string(|&string| self.strings.release(string));
        }
    }

    /// Holds an expression, which requests up to so many `bytes` besides its places in the tree, and has searches make `room`
    /// for the nodes that there will be. Errors: out of memory, and
    /// nothing is changed. Besides its slot the answer is which leaf lists are long then.
    fn subscribe(
        &mut self,
        id: u64,
        expression: &Expression,
        bytes: usize,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(Slot, Vec<NodeId>), Error> {
        match normalise(&expression.steps) {
            Normalised::Constant(value) => {
                let slot = self.hold(id, |slot, catalog| program::constant(slot, value, expression, catalog.shared()));
                if value {
                    self.hang_unindexed(slot);
                }
                Ok((slot, Vec::new()))
            }
            Normalised::Tree(normal) => self.subscribe_tree(id, expression, normal, bytes, room),
        }
    }

    fn subscribe_tree(
        &mut self,
        id: u64,
        expression: &Expression,
        normal: Normal,
        bytes: usize,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(Slot, Vec<NodeId>), Error> {
        let analysis = Analysis::new(normal, &expression.predicates, &self.catalog);
        let attributes = expression.predicates.iter().map(|predicate| predicate.attribute);
        let before = self.catalog.statistics.saved(attributes);
        self.observe(expression, &analysis);
        let access = analysis.access(&expression.predicates, &self.catalog);
        let plan = match &access {
            Access::Demands(literals) => match self.tree.prepare(literals, &analysis, bytes, room) {
                Ok(plan) => Some(plan),
                Err(error) => {
                    self.catalog.statistics.restore(before);
                    return Err(error);
                }
            },
            Access::Filter(_) | Access::Nothing => None,
        };
        let expected = self.expected(&access, &analysis);
        let tests = order(&analysis.normal, |index, literal| {
            let predicate = &expression.predicates[literal.predicate as usize];
            let probability = self.probability(index, literal, &analysis, &expected);
            Estimate { probability, cost: cost(&predicate.test) }
        });
        let slot = self.hold(id, |slot, catalog| program::assemble(slot, &tests, expression, catalog.shared()));
        match (access, plan) {
            (_, Some(plan)) => {
                self.subscriptions.get_mut(slot).set_placement(Placement::Indexed);
                let long = self.tree.insert(slot, plan, &analysis, &self.catalog, &self.subscriptions);
                return Ok((slot, long));
            }
            (Access::Filter(filter), _) => {
                self.subscriptions.get_mut(slot).set_placement(self.tree.insert_likely(slot, filter));
            }
            _ if booleans::is_boolean(self.catalog.code(self.subscriptions.get(slot))) => {
                self.hang_dense(slot, &analysis, &expression.predicates);
            }
            _ => self.hang_unindexed(slot),
        }
        Ok((slot, Vec::new()))
    }

    /// Its program is run where its windows leave it open, and for many events at once.
    fn hang_dense(&mut self, slot: Slot, analysis: &Analysis, predicates: &[Predicate<StringId>]) {
        let chance = |index, literal| self.probability(index, literal, analysis, &[]);
        let windows = self.dense.windows(&analysis.normal, predicates, chance);
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(Placement::Dense(self.dense.insert(slot, subscription.program, &windows)));
    }

    /// Takes in a subscription, with the program that `assemble` makes for its slot; the tree does not hold it yet.
    fn hold(&mut self, id: u64, assemble: impl FnOnce(Slot, &mut Catalog) -> Program) -> Slot {
        let Index { subscriptions, catalog, code_bytes, .. } = self;
        subscriptions.insert(id, |slot| {
            let Program { mut words, code } = assemble(slot, catalog);
            let length = Length::noted(&mut words, code);
            *code_bytes += words.len() * size_of::<u32>();
            Subscription::new(catalog.programs.insert(&words), length)
        })
    }

    fn hang_unindexed(&mut self, slot: Slot) {
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(self.tree.insert_unindexed(subscription.program));
    }

    /// Takes note of what an expression asks for.
    fn observe(&mut self, expression: &Expression, analysis: &Analysis) {
        self.catalog.statistics.ask(expression.predicates.iter().map(|predicate| predicate.attribute));
        for index in analysis.normal.top_down() {
            if let Some(access_predicate) = analysis.access_predicate(index) {
                if let ValueSet::Interval(low, high) = access_predicate.values {
                    self.catalog.statistics.observe(access_predicate.attribute, low, high);
                }
            }
        }
    }

    /// The literals that are likely to hold wherever the expression is looked at: of one that is found by a single
    /// literal this one, and the one that its entries are filtered by.
    fn expected(&self, access: &Access, analysis: &Analysis) -> [Option<NodeIndex>; 2] {
        let literal = match access {
            Access::Demands(literals) if literals.len() == 1 => literals[0],
            _ => return [None; 2],
        };
        let demands = Demands::of(literal, analysis);
        let led = |access_predicate: &AccessPredicate| match demands
            .own()
            .is_some_and(|own| own.attribute == access_predicate.attribute)
        {
            true if access_predicate.is_met_where_it_leads() => Coverage::Wholly,
            true => Coverage::Partly,
            false => Coverage::Nothing,
        };
        let filter = filter::choose(&demands, led, &self.catalog);
        [Some(literal), filter.map(|demanded| demanded.literal)]
    }

    /// How likely a literal is to hold when its expression is evaluated.
    fn probability(
        &self,
        index: NodeIndex,
        literal: Literal,
        analysis: &Analysis,
        expected: &[Option<NodeIndex>],
    ) -> f32 {
        match analysis.access_predicate(index) {
            _ if expected.contains(&Some(index)) => 0.99,
            Some(_) => analysis.share(index),
            None if literal.negated => 0.7,
            None => 0.5,
        }
    }
}

/// How many constants all predicates of an expression have.
fn constants<S>(postfix: &[Step<S>]) -> usize {
    predicates(postfix).map(|predicate| predicate.test.constants()).sum()
}

/// The predicates of an expression, each as often as its text has it.
fn predicates<S>(postfix: &[Step<S>]) -> impl Iterator<Item = &Predicate<S>> {
    postfix.iter().filter_map(|step| match step {
        Step::Predicate(predicate) => Some(predicate),
        _ => None,
    })
}

/// The cost of a test beside that of a comparison.
fn cost(test: &predicate::Test<StringId>) -> f32 {
    use predicate::Test;
    match test {
        Test::True | Test::Integer(..) | Test::Float(..) | Test::StringEqual(_) | Test::StringNotEqual(_) => 1.0,
        Test::Null | Test::NotNull | Test::Empty => 1.0,
        Test::OneOf(_) | Test::NoneOf(_) | Test::SegmentWithin { .. } | Test::SegmentBefore { .. } => 3.0,
        Test::AllOf(_) | Test::StartsWith(_) | Test::EndsWith(_) | Test::WithinFrequencyCap { .. } => 4.0,
        Test::Contains(_) | Test::GeoWithinRadius { .. } => 10.0,
    }
}
