//! The index of subscriptions: insertion, replacement and deletion. A search reads it.
//!
//! An insertion has two halves. `prepare` reads the expression and plans its places: it finds every error, and ensures the memory of
//! the plan. `commit` applies the plan, and cannot fail.

mod commit;
mod deletion;
mod deletions;
mod prepare;
mod transaction;

use std::sync::Arc;

use crate::boolean::windows::Dense;
use crate::catalog::subscriptions::{Placement, Subscriptions};
use crate::catalog::vocabulary::Vocabulary;
use crate::catalog::Catalog;
use crate::compile::program;
use crate::error::Error;
use crate::handles::Slot;
use crate::index::deletions::Deletions;
use crate::index::prepare::HEADROOM;
use crate::model::schema::Schema;
use crate::model::strings::Interner;
use crate::reasons::Reasons;
use crate::room::{Extent, Searches};
use crate::support::hash::out_of_memory;
use crate::support::headroom::ensure;
use crate::tree::Tree;

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
    deletions: Deletions,
}

impl Index {
    /// Returns an empty index. Many indexes may share a schema: see [`Index::sibling`].
    pub fn new(schema: impl Into<Arc<Schema>>) -> Self {
        Index::with(schema.into(), Deletions::default())
    }

    fn with(schema: Arc<Schema>, deletions: Deletions) -> Self {
        Index {
            strings: Interner::default(),
            vocabulary: Vocabulary::new(&schema),
            dense: Dense::new(&schema),
            catalog: Catalog::new(schema),
            subscriptions: Subscriptions::default(),
            tree: Tree::default(),
            reasons: None,
            predicates: 0,
            code_bytes: 0,
            deletions,
        }
    }

    /// Returns an empty index over the same schema. Both share the schema, and the memory that is reserved for deletions. Their
    /// subscriptions have nothing in common.
    ///
    /// ```
    /// use be_tree_index::index::{Index, Insertion};
    /// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    /// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    /// # let schema = Schema::new(vec![attribute("age", Type::Integer)])?;
    ///
    /// let mut index = Index::new(schema);
    /// let mut sibling = index.sibling();
    /// index.insert(&Insertion { id: 1, text: b"age > 30", constants: vec![] })?;
    /// sibling.insert(&Insertion { id: 1, text: b"age > 40", constants: vec![] })?;
    /// assert_eq!((index.len(), sibling.len()), (1, 1));
    /// # Ok::<(), be_tree_index::error::Error>(())
    /// ```
    pub fn sibling(&self) -> Index {
        Index::with(Arc::clone(&self.catalog.schema), self.deletions.sibling())
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

    /// Returns whether a subscription has this id.
    pub fn has(&self, id: u64) -> bool {
        self.subscriptions.has(id)
    }

    /// Returns the ids of all subscriptions, in any order.
    pub fn ids(&self) -> impl Iterator<Item = u64> + '_ {
        self.subscriptions.iter().map(|(slot, _)| self.subscriptions.id(slot))
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

    /// Returns the heap bytes of the index, with the allocator's own, and without what it
    /// shares with siblings. The time is linear in
    /// the size of the index: some microseconds for a hundred subscriptions.
    ///
    /// ```
    /// use be_tree_index::index::{Index, Insertion};
    /// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
    /// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
    /// # let schema = Schema::new(vec![attribute("age", Type::Integer)])?;
    ///
    /// let mut index = Index::new(schema);
    /// let empty = index.bytes();
    /// index.insert(&Insertion { id: 1, text: b"age > 30", constants: vec![] })?;
    /// assert!(index.bytes() > empty);
    /// # Ok::<(), be_tree_index::error::Error>(())
    /// ```
    pub fn bytes(&self) -> usize {
        let Index { catalog, strings, vocabulary, subscriptions, tree, dense, reasons, deletions, .. } = self;
        let expressions =
            catalog.heap_bytes() + strings.heap_bytes() + vocabulary.heap_bytes() + deletions.heap_bytes();
        let placed = subscriptions.heap_bytes() + tree.heap_bytes() + dense.heap_bytes();
        expressions + placed + reasons.as_ref().map_or(0, Reasons::heap_bytes)
    }

    /// Copies the index to memory of its own length, in one place. Call it after many changes, such as a load: their temporary memory
    /// leaves tables with spare room, scattered over the heap. The subscriptions stay as they are.
    ///
    /// Errors: [`Kind::OutOfMemory`]; nothing is changed then.
    pub fn pack(&mut self) -> Result<(), Error> {
        // No table of the copy has more room than before.
        ensure(self.bytes())?;
        let Index { catalog, strings, vocabulary, subscriptions, tree, dense, reasons, .. } = self;
        // All copies exist before the first table is freed, so that they take adjacent memory.
        let copies = (tree.packed(), catalog.clone(), subscriptions.clone(), strings.clone(), vocabulary.clone());
        let others = (dense.clone(), reasons.clone());
        (*tree, *catalog, *subscriptions, *strings, *vocabulary) = copies;
        (*dense, *reasons) = others;
        Ok(())
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
        let prepared = self.prepare(searches, insertion)?;
        let bytes = prepared.bytes;
        self.commit(searches, prepared);
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
}
