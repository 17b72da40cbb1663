//! The index of subscriptions: insertion, replacement and deletion. A search reads it.

use crate::boolean::windows::Dense;
use crate::catalog::sizes::Sizes;
use crate::catalog::subscriptions::{Length, Placement, Subscription, Subscriptions};
use crate::catalog::vocabulary::Vocabulary;
use crate::catalog::{self, asked, Catalog};
use crate::compile::normal::{normalise, NodeIndex, Normal, Normalised};
use crate::compile::order::{order, Estimate};
use crate::compile::program::{self, Program};
use crate::compile::{booleans, Expression, Literal};
use crate::cost;
use crate::error::{quoted, Error, Kind};
use crate::handles::{NodeId, Slot};
use crate::language;
use crate::model::predicate::{self, Borrowed, Predicate, Step};
use crate::model::schema::{Attribute, Schema, Type};
use crate::model::strings::{Interner, StringId};
use crate::patterns::{is_lowered, is_pattern};
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::{Access, Analysis};
use crate::plan::demands::{self, Coverage, Demands};
use crate::reasons::Reasons;
use crate::room::{Extent, Searches};
use crate::support::hash::{hash_bytes, out_of_memory};
use crate::support::headroom::{ensure, Reserve};
use crate::tree::Tree;

/// Free memory that any insertion requires, besides the growth of its tables.
const HEADROOM: usize = 64 * 1024;
/// Free memory that an insertion requires for each byte of its text. The reader requests the memory of its steps one by one.
/// This covers the rest, such as sorted lists and interned strings.
const HEADROOM_PER_BYTE: usize = 16;
/// Free memory that an insertion requires for each step and each constant, once its text is read.
const HEADROOM_PER_STEP: usize = 200;

/// A reserve for a deletion of more than this number of bytes is shortened once the program is known.
const LONG_DELETION: usize = 16 * 1024;

/// A subscription to insert.
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
    /// Predicates, with repetitions.
    pub predicates: usize,
    /// Distinct strings.
    pub strings: usize,
    /// Nodes of the tree.
    pub nodes: usize,
    /// Entries of all leaf lists.
    pub entries: usize,
    /// Subscriptions that every search visits.
    pub unindexed: usize,
    /// The greatest number of value levels above a node.
    pub depth: usize,
    /// Bytes of all programs and of the steps after them.
    pub code_bytes: usize,
}

/// Boolean expressions over the attributes of one schema, each under an id.
///
/// Each insertion, replacement and deletion succeeds or changes nothing. A [`crate::search::Search`] reads the index.
///
/// ```
/// use be_tree_index::error::Kind;
/// use be_tree_index::index::{Index, Insertion};
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut index = Index::new(schema);
/// let insertion = |id, text| Insertion { id, text, constants: vec![] };
/// index.insert(&insertion(7, b"age > 30"))?;
/// assert_eq!(index.insert(&insertion(7, b"age > 40")).unwrap_err().kind, Kind::DuplicateId);
///
/// // All or none: the second text ends too early.
/// let texts: [(u64, &[u8]); 2] = [(8, b"city = 'Rome'"), (9, b"age >")];
/// let (position, error) = index.insert_all(texts.map(|(id, text)| Ok(insertion(id, text)))).unwrap_err();
/// assert_eq!((position, error.kind, index.len()), (1, Kind::Syntax, 1));
///
/// index.delete(7)?;
/// assert_eq!(index.delete(7).unwrap_err().kind, Kind::NotFound);
/// assert!(index.is_empty());
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Index {
    catalog: Catalog,
    strings: Interner,
    vocabulary: Vocabulary,
    subscriptions: Subscriptions,
    tree: Tree,
    dense: Dense,
    /// Why expressions are false. `Some` after [`Index::keep_reasons`].
    reasons: Option<Reasons>,
    predicates: usize,
    code_bytes: usize,
    /// Memory for the deletion of any one subscription.
    reserve: Reserve,
    /// A histogram of the least memory that each deletion takes: that of reading back its expression.
    deletions: Sizes,
}

impl Index {
    /// Returns an empty index.
    pub fn new(schema: Schema) -> Self {
        Index {
            vocabulary: Vocabulary::new(&schema),
            dense: Dense::new(&schema),
            catalog: Catalog::new(schema),
            ..Index::default()
        }
    }

    /// Returns the attributes that expressions read.
    pub fn schema(&self) -> &Schema {
        &self.catalog.schema
    }

    /// Returns the strings that expressions contain.
    pub fn strings(&self) -> &Interner {
        &self.strings
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }

    /// Returns the dense expressions.
    pub(crate) fn dense(&self) -> &Dense {
        &self.dense
    }

    /// Returns whether every expression that some event makes true is dense.
    pub(crate) fn is_dense(&self) -> bool {
        self.tree.entries() == 0 && self.tree.scanned().is_empty() && self.tree.unindexed().is_empty()
    }

    pub(crate) fn reasons(&self) -> Option<&Reasons> {
        self.reasons.as_ref()
    }

    /// Keeps the data that [`crate::search::Search::open_reasons`] needs: at most 8 bytes for each predicate of a text.
    /// Later insertions keep it too.
    ///
    /// ```
    /// use be_tree_index::event::Format;
    /// use be_tree_index::index::{Index, Insertion};
    /// use be_tree_index::search::Search;
    /// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    /// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    /// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
    ///
    /// let mut index = Index::new(schema);
    /// index.insert(&Insertion { id: 1, text: b"age > 30 and city = 'Rome'", constants: vec![] })?;
    /// index.keep_reasons()?;
    /// let mut search = Search::default();
    /// search.reserve_for_reasons(&index)?;
    /// let event = br#"{"age": 40, "city": "Oslo"}"#;
    /// search.open_reasons(&index, Format::Json, event, None::<std::iter::Empty<u64>>)?;
    /// let found = search.run(&index);
    /// assert!(found.ids().is_empty());
    /// // The id that does not match, and then a count for each reason. The reason is the second attribute, `city`.
    /// assert_eq!(found.reasons()[..3], [1, 0, 1]);
    /// # Ok::<(), be_tree_index::error::Error>(())
    /// ```
    ///
    /// Errors: [`Kind::OutOfMemory`].
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

    /// Returns the number of subscriptions.
    pub fn len(&self) -> usize {
        self.subscriptions.len()
    }

    /// Returns whether there is no subscription.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns counts and sizes.
    pub fn info(&self) -> Info {
        Info {
            expressions: self.len(),
            predicates: self.predicates,
            strings: self.strings.len(),
            nodes: self.tree.nodes(),
            entries: self.tree.entries(),
            unindexed: self.tree.unindexed().len() + self.tree.scanned().len() + self.dense.len(),
            depth: self.tree.depth(),
            code_bytes: self.code_bytes,
        }
    }

    /// Inserts one subscription.
    ///
    /// Errors: [`Kind::DuplicateId`]; [`Kind::Syntax`], [`Kind::UnknownAttribute`], [`Kind::Type`],
    /// [`Kind::OutOfBounds`] and [`Kind::MissingAttribute`] of the expression; [`Kind::OutOfMemory`].
    pub fn insert(&mut self, insertion: &Insertion) -> Result<(), Error> {
        self.insert_for(&mut (), insertion)?;
        self.arrange(&mut ());
        Ok(())
    }

    /// Inserts like [`Index::insert`], and makes room in `searches` before each change. Returns the size of the memory block that
    /// was sufficient.
    fn insert_for(&mut self, searches: &mut impl Searches, insertion: &Insertion) -> Result<usize, Error> {
        if self.subscriptions.has(insertion.id) {
            let message = format!("a subscription with the id {} exists; delete it first", insertion.id);
            return Err(Error::new(Kind::DuplicateId, message));
        }
        let (postfix, bytes) = self.read(insertion)?;
        let (steps, constants) = (postfix.len(), constants(&postfix));
        let deletion = catalog::Extent { steps, constants, code: program::most_words(steps, constants) };
        let deletion = deletion.reading_bytes();
        self.reserve.hold(self.deletions.most().max(deletion))?;
        let mut extent = self.extent_with(insertion.id, predicates(&postfix).count(), patterns(&postfix).count());
        extent.has_lowered |= predicates(&postfix).any(|predicate| is_lowered(&predicate.test));
        searches.make_room(&extent)?;
        // Asks for `bytes` again: the reserve and the searches may have taken the free memory.
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
        self.deletions.add(self.catalog.extent(self.subscriptions.get(slot)).reading_bytes());
        self.complete(slot);
        // This comes last, because a split may be refused memory. It is then postponed.
        self.tree.split_all(long, &self.catalog, &self.subscriptions, &mut room);
        if deletion > LONG_DELETION {
            // The program is shorter than its bound. The block held now is longer than needed, so this is not refused.
            let _ = self.reserve.hold_about(self.deletions.most());
        }
        Ok(bytes)
    }

    /// Arranges the subscriptions if that is due, so that searches sort less. Without memory for that, nothing changes.
    fn arrange(&mut self, searches: &mut impl Searches) {
        if self.subscriptions.is_due() && self.try_to_arrange(searches).is_err() {
            self.subscriptions.postpone();
        }
    }

    /// Gives all subscriptions new slots, in the order of their ids. Errors: [`Kind::OutOfMemory`]; nothing is changed then.
    fn try_to_arrange(&mut self, searches: &mut impl Searches) -> Result<(), Error> {
        searches.make_room(&Extent { slots: self.len(), ..self.extent() })?;
        let Index { catalog, subscriptions, tree, dense, reasons, .. } = self;
        let arrangement = subscriptions.arrangement()?;
        let slot = |former: Slot| arrangement.slot(former);
        if let Some(reasons) = reasons {
            reasons.arrange(subscriptions.len(), slot)?;
        }
        for (former, subscription) in subscriptions.iter() {
            catalog.programs.set_slot(subscription.program, slot(former));
        }
        tree.arrange(slot);
        dense.arrange(slot);
        subscriptions.arrange(arrangement);
        Ok(())
    }

    /// Returns the sizes on which the tables of a search depend.
    pub fn extent(&self) -> Extent {
        let order = self.subscriptions.order();
        Extent {
            attributes: self.schema().all_attributes().len().saturating_sub(1),
            nodes: self.tree.capacity(),
            slots: self.subscriptions.capacity(),
            predicates: self.catalog.predicates.capacity(),
            dense: self.dense.len(),
            patterns: self.catalog.predicates.patterns().len(),
            has_lowered: self.catalog.predicates.patterns().lowered().next().is_some(),
            greatest: order.greatest(),
            has_reasons: self.reasons.is_some(),
        }
    }

    /// Returns an upper bound of the extent with one more subscription of `predicates` predicates, `patterns` of them
    /// patterns. The number of nodes stays as it is.
    fn extent_with(&self, id: u64, predicates: usize, patterns: usize) -> Extent {
        let extent = self.extent();
        Extent {
            slots: extent.slots.max(self.subscriptions.next(id).index() + 1),
            predicates: extent.predicates + predicates,
            dense: extent.dense + 1,
            patterns: extent.patterns + patterns,
            greatest: extent
                .greatest
                .filter(|_| self.subscriptions.stays_ascending(id))
                .map(|greatest| greatest.max(id)),
            ..extent
        }
    }

    /// Completes the insertion of a subscription that has its placement.
    fn complete(&mut self, slot: Slot) {
        let Index { subscriptions, catalog, dense, reasons, .. } = self;
        if let Placement::Dense(position) = subscriptions.get(slot).placement() {
            dense.settle(position);
        }
        if let Some(reasons) = reasons {
            reasons.insert(slot, subscriptions.get(slot), catalog);
        }
    }

    /// Checks an expression as [`Index::insert`] does, and inserts nothing. An id that exists is no error.
    ///
    /// Errors: those of [`Index::insert`].
    pub fn check(&mut self, insertion: &Insertion) -> Result<(), Error> {
        let (postfix, bytes) = self.read(insertion)?;
        ensure(bytes)?;
        let expression = self.intern(postfix)?;
        self.release(&expression.predicates);
        Ok(())
    }

    /// Checks an expression as erl-be-tree does, and inserts nothing. An id that exists is no error.
    ///
    /// Errors: those of [`Index::check`], and [`Kind::Type`] for predicates that only erl-be-tree refuses: whether a
    /// required attribute is null, whether segments or caps are empty, and membership of an enum.
    pub fn check_as_erl(&mut self, insertion: &Insertion) -> Result<(), Error> {
        let (postfix, _bytes) = self.read(insertion)?;
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
            return Err(Error::new(Kind::Type, format!("{} {refusal}", quoted(name))).about(name));
        }
        drop(postfix);
        self.check(insertion)
    }

    /// Inserts all subscriptions and returns their ids.
    ///
    /// Errors: the first error, with the position of its subscription. Nothing is inserted then.
    pub fn insert_all<'a>(
        &mut self,
        insertions: impl IntoIterator<Item = Result<Insertion<'a>, Error>>,
    ) -> Result<Vec<u64>, (usize, Error)> {
        self.insert_all_for(&mut (), insertions)
    }

    /// Inserts like [`Index::insert_all`], and makes room in `searches` before each change. The searches keep that room even
    /// after an error.
    pub fn insert_all_for<'a>(
        &mut self,
        searches: &mut impl Searches,
        insertions: impl IntoIterator<Item = Result<Insertion<'a>, Error>>,
    ) -> Result<Vec<u64>, (usize, Error)> {
        let mut inserted = Vec::new();
        for (position, insertion) in insertions.into_iter().enumerate() {
            self.arrange(searches);
            // Make room for the id first: an inserted id that is not in the list would not be deleted after an error.
            let room = inserted.try_reserve(1).map_err(out_of_memory);
            let insertion = room.and(insertion);
            match insertion.and_then(|insertion| self.insert_for(searches, &insertion).map(|_bytes| insertion.id)) {
                Ok(id) => inserted.push(id),
                Err(error) => {
                    for &id in inserted.iter().rev() {
                        self.delete(id).expect("what this call inserted is there");
                    }
                    return Err((position, error));
                }
            }
        }
        self.arrange(searches);
        Ok(inserted)
    }

    /// Inserts a subscription, or replaces the one with its id, and makes room in `searches` before each change.
    ///
    /// Errors: those of [`Index::insert`] except [`Kind::DuplicateId`]. The old subscription then remains.
    pub fn put_for(&mut self, searches: &mut impl Searches, insertion: &Insertion) -> Result<(), Error> {
        if self.subscriptions.has(insertion.id) {
            self.replace(searches, insertion)?;
        } else {
            self.insert_for(searches, insertion)?;
        }
        self.arrange(searches);
        Ok(())
    }

    /// Replaces the subscription with the id of `insertion`. Errors: those of [`Index::put_for`].
    fn replace(&mut self, searches: &mut impl Searches, insertion: &Insertion) -> Result<(), Error> {
        // Inserting the trial finds every error and allocates all memory, before anything is deleted. While the trial exists, no
        // table that the new subscription needs is freed.
        let trial = Insertion { id: self.free_id(), text: insertion.text, constants: insertion.constants.clone() };
        let bytes = self.insert_for(searches, &trial)?;
        let has_room_for_another = ensure(bytes).is_ok();
        if !has_room_for_another {
            let unsorted = Extent { greatest: None, ..self.extent() };
            if let Err(error) = searches.make_room(&unsorted) {
                self.delete(trial.id).expect("the trial is there");
                return Err(error);
            }
        }
        searches.commit();
        self.delete(insertion.id).expect("the old subscription is there");
        // The new subscription takes the slot of the old one, so ids ascend with slots as before. Without memory for that, the
        // trial becomes the new subscription, and searches have more ids to sort.
        if has_room_for_another && self.insert_for(searches, insertion).is_ok() {
            self.delete(trial.id).expect("the trial is there");
        } else {
            self.subscriptions.rename(trial.id, insertion.id);
        }
        Ok(())
    }

    /// Returns an unused id: the last one before the tail if it is free, the next one, or one of the greatest.
    fn free_id(&self) -> u64 {
        let last = self.subscriptions.order().last();
        let mut ids = (last..=last.saturating_add(1)).chain((0..=u64::MAX).rev());
        ids.find(|&id| !self.subscriptions.has(id)).expect("there are fewer subscriptions than ids")
    }

    /// Deletes one subscription. Memory cannot run out, because insertions reserve as much as a deletion takes.
    ///
    /// Errors: [`Kind::NotFound`].
    pub fn delete(&mut self, id: u64) -> Result<(), Error> {
        let Some(slot) = self.subscriptions.find(id) else {
            return Err(Error::new(Kind::NotFound, format!("no subscription has the id {id}")));
        };
        let subscription = self.subscriptions.get(slot);
        let words = self.catalog.words(subscription);
        let extent = self.catalog.extent(subscription);
        self.deletions.remove(extent.reading_bytes());
        let is_short = ensure(2 * extent.analysis_bytes()).is_err();
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
        programs.remove(subscription.program, words);
        self.catalog.count_patterns();
        self.code_bytes -= words * size_of::<u32>();
        if is_short {
            // After all steps that need the reserve, because merging buckets may use the rest of it.
            self.take_down(slot, &subscription, is_short);
        }
        if self.is_empty() {
            self.clear();
        } else {
            // If this is refused, the next change with enough memory holds the reserve again. Until then the next deletion has
            // enough memory, because this one ended with as much free memory as it began with.
            let _ = self.reserve.hold_about(self.deletions.most());
        }
        Ok(())
    }

    /// Frees the tables after the last subscription is deleted. Allocates nothing.
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

    /// Removes a subscription from the tree or the list that its placement names.
    fn take_down(&mut self, slot: Slot, removed: &Subscription, is_short: bool) {
        let Index { catalog, subscriptions, tree, dense, .. } = self;
        match removed.placement() {
            Placement::Nowhere => {}
            Placement::Unindexed(position) => {
                if let Some(moved) = tree.remove_unindexed(position) {
                    subscriptions.get_mut(catalog.slot(moved)).set_placement(Placement::Unindexed(position));
                }
            }
            Placement::Scanned(position) => {
                if let Some(moved) = tree.remove_scanned(position) {
                    subscriptions.get_mut(moved).set_placement(Placement::Scanned(position));
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

    /// Checks all invariants between the parts of the index. For tests: it reads the whole index.
    pub fn validate(&self) -> Result<(), String> {
        let mut references = vec![0; self.catalog.predicates.capacity()];
        for (_, subscription) in self.subscriptions.iter() {
            program::shared(self.catalog.code(subscription)).for_each(|predicate| references[predicate.index()] += 1);
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
        self.subscriptions.validate()?;
        self.tree.validate(&self.catalog, &self.subscriptions)
    }

    /// Reads an expression. Also returns an upper bound of the bytes that its insertion requests, except for nodes of the
    /// tree.
    fn read<'a>(&self, insertion: &Insertion<'a>) -> Result<(Vec<Step<Borrowed<'a>>>, usize), Error> {
        let text = HEADROOM_PER_BYTE * insertion.text.len();
        ensure(HEADROOM + text)?;
        let postfix = language::read_borrowed(insertion.text, &self.catalog.schema, &insertion.constants)?;
        let constants = constants(&postfix);
        let words = program::most_words(postfix.len(), constants);
        let tables = self.catalog.predicates.growth(predicates(&postfix))
            + self.catalog.programs.growth(words)
            + self.strings.growth(constants)
            + self.vocabulary.growth(predicates(&postfix), self.schema(), self.strings.capacity() + constants)
            + self.subscriptions.growth()
            + self.tree.growth()
            + self.dense.growth()
            + self.reasons.as_ref().map_or(0, |reasons| reasons.growth(insertion.text.len(), words));
        let bytes = HEADROOM + text + HEADROOM_PER_STEP * (postfix.len() + constants) + tables;
        Ok((postfix, bytes))
    }

    /// Interns the strings of an expression and counts its constants.
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
            // A string that is in a list twice counts as one reference.
            predicate.test.each_string(|&string| strings.count(string));
            vocabulary.retain(&predicate, schema);
            if let Err(error) = vocabulary.check(&predicate, schema) {
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

    /// Releases the strings and constants that [`Index::intern`] took.
    fn release(&mut self, predicates: &[Predicate<StringId>]) {
        for predicate in predicates {
            self.vocabulary.release(predicate, &self.catalog.schema);
            predicate.test.each_string(|&string| self.strings.release(string));
        }
    }

    /// Inserts an expression. It requests up to `bytes` bytes besides its nodes, and calls `room` with the number of nodes
    /// that the tree will have. Returns its slot, and the leaves that exceed their capacity.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing is changed then.
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
                    self.insert_unindexed(slot);
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
        let patterns = self.catalog.hold_patterns(&expression.predicates);
        let subscribed = self.subscribe_held(id, expression, normal, bytes, room);
        self.catalog.release_patterns(&patterns);
        subscribed
    }

    /// Inserts an expression whose patterns are retained, so that they have numbers.
    fn subscribe_held(
        &mut self,
        id: u64,
        expression: &Expression,
        normal: Normal,
        bytes: usize,
        room: &mut impl FnMut(usize) -> Result<(), Error>,
    ) -> Result<(Slot, Vec<NodeId>), Error> {
        let analysis = Analysis::new(normal, &expression.predicates, &self.catalog);
        let before = self.catalog.statistics.saved(asked(&expression.predicates, self.schema()));
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
            Estimate { probability, cost: cost_of(&predicate.test) }
        });
        let slot = self.hold(id, |slot, catalog| program::assemble(slot, &tests, expression, catalog.shared()));
        match (access, plan) {
            (_, Some(plan)) => {
                self.subscriptions.get_mut(slot).set_placement(Placement::Indexed);
                let long = self.tree.insert(slot, plan, &analysis, &self.catalog, &self.subscriptions);
                return Ok((slot, long));
            }
            (Access::Filter(filter), _) => {
                self.subscriptions.get_mut(slot).set_placement(self.tree.insert_scanned(slot, filter));
            }
            _ if booleans::is_boolean(self.catalog.code(self.subscriptions.get(slot))) => {
                self.insert_dense(slot, &analysis, &expression.predicates);
            }
            _ => self.insert_unindexed(slot),
        }
        Ok((slot, Vec::new()))
    }

    /// Inserts a dense expression. Its program runs if its windows leave it open, and in batches of events.
    fn insert_dense(&mut self, slot: Slot, analysis: &Analysis, predicates: &[Predicate<StringId>]) {
        let chance = |index, literal| self.probability(index, literal, analysis, &[]);
        let windows = self.dense.windows(&analysis.normal, predicates, chance);
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(Placement::Dense(self.dense.insert(slot, subscription.program, &windows)));
    }

    /// Inserts a subscription without a placement. `assemble` returns the program for its slot.
    fn hold(&mut self, id: u64, assemble: impl FnOnce(Slot, &mut Catalog) -> Program) -> Slot {
        let Index { subscriptions, catalog, code_bytes, .. } = self;
        subscriptions.insert(id, |slot| {
            let Program { mut words, code } = assemble(slot, catalog);
            let length = Length::noted(&mut words, code);
            *code_bytes += words.len() * size_of::<u32>();
            Subscription::new(catalog.programs.insert(&words), length)
        })
    }

    fn insert_unindexed(&mut self, slot: Slot) {
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(self.tree.insert_unindexed(subscription.program));
    }

    /// Updates the statistics with the predicates of an expression.
    fn observe(&mut self, expression: &Expression, analysis: &Analysis) {
        let Catalog { statistics, schema, .. } = &mut self.catalog;
        statistics.ask(asked(&expression.predicates, schema));
        for index in analysis.normal.top_down() {
            if let Some(access_predicate) = analysis.access_predicate(index) {
                if let ValueSet::Interval(low, high) = access_predicate.values {
                    self.catalog.statistics.observe(access_predicate.attribute, low, high);
                }
            }
        }
    }

    /// Returns the literals that are probably true whenever the expression is evaluated. For an expression with a single
    /// access predicate these are that literal and the literal of its entries' filter.
    fn expected(&self, access: &Access, analysis: &Analysis) -> [Option<NodeIndex>; 2] {
        let literal = match access {
            Access::Demands(literals) if literals.len() == 1 => literals[0],
            _ => return [None; 2],
        };
        let demands = Demands::of(literal, analysis);
        let led = |access_predicate: &AccessPredicate| match demands
            .access_predicate()
            .is_some_and(|own| own.attribute == access_predicate.attribute)
        {
            true if access_predicate.is_met_where_it_leads() => Coverage::Wholly,
            true => Coverage::Partly,
            false => Coverage::Nothing,
        };
        let filter = demands::choose(&demands, led, &self.catalog);
        [Some(literal), filter.map(|demanded| demanded.literal)]
    }

    /// Returns the probability that a literal is true when its expression is evaluated.
    fn probability(
        &self,
        index: NodeIndex,
        literal: Literal,
        analysis: &Analysis,
        expected: &[Option<NodeIndex>],
    ) -> f32 {
        match analysis.access_predicate(index) {
            _ if expected.contains(&Some(index)) => cost::ACCESS_PROBABILITY,
            Some(_) => analysis.share(index),
            None if literal.negated => cost::NEGATED_PROBABILITY,
            None => cost::UNKNOWN_PROBABILITY,
        }
    }
}

/// Returns the number of constants in all predicates of an expression.
fn constants<S>(postfix: &[Step<S>]) -> usize {
    predicates(postfix).map(|predicate| predicate.test.constants()).sum()
}

/// Returns the predicates of an expression, with repetitions.
fn predicates<S>(postfix: &[Step<S>]) -> impl Iterator<Item = &Predicate<S>> + Clone {
    postfix.iter().filter_map(|step| match step {
        Step::Predicate(predicate) => Some(predicate),
        _ => None,
    })
}

/// Returns the predicates of an expression that are patterns, with repetitions.
fn patterns<S>(postfix: &[Step<S>]) -> impl Iterator<Item = &Predicate<S>> {
    predicates(postfix).filter(|predicate| is_pattern(&predicate.test))
}

/// Returns the cost of a test. A comparison costs 1.
fn cost_of(test: &predicate::Test<StringId>) -> f32 {
    use predicate::{Lowered, Test};
    match test {
        Test::True | Test::Integer(..) | Test::Float(..) | Test::StringEqual(_) | Test::StringNotEqual(_) => {
            cost::COMPARISON
        }
        Test::Null | Test::NotNull | Test::Empty => cost::COMPARISON,
        Test::OneOf(_) | Test::NoneOf(_) | Test::SegmentWithin { .. } | Test::SegmentBefore { .. } => cost::LIST_TEST,
        Test::AllOf(_) | Test::StartsWith(_) | Test::EndsWith(_) | Test::WithinFrequencyCap { .. } => cost::AFFIX_TEST,
        Test::Compared(_) | Test::SameString { .. } => cost::LIST_TEST,
        Test::InNetworks(_) | Test::Lowered(Lowered::OneOf(_) | Lowered::StartsWith(_) | Lowered::EndsWith(_)) => {
            cost::AFFIX_TEST
        }
        Test::Contains(_) | Test::GeoWithinRadius { .. } => cost::SUBSTRING_TEST,
        Test::Like(_) | Test::Lowered(Lowered::Contains(_) | Lowered::Like(_)) => cost::SUBSTRING_TEST,
        Test::Matches(_) | Test::Objects(_) => cost::AUTOMATON_TEST,
    }
}
