//! The first half of an insertion: it finds every error, and plans what [`Index::commit`] will do.
//!
//! Planning needs numbers for the strings and patterns of the expression, and statistics that count it. So a [`Prepared`] insertion
//! has a reference to each of them. A commit keeps these references, and an error releases them; nothing else changes here. The
//! memory that the commit requests is ensured last.

use crate::catalog::{self, asked, Catalog};
use crate::compile::normal::{normalise, Normalised};
use crate::compile::order::Test;
use crate::compile::{program, Expression};
use crate::error::{quoted, Error, Kind};
use crate::handles::PredicateId;
use crate::index::{Index, Insertion};
use crate::language;
use crate::model::predicate::{self, Borrowed, Predicate, Step};
use crate::model::schema::{Attribute, Type};
use crate::model::strings::{Lookup, StringId};
use crate::patterns::{is_lowered, is_pattern};
use crate::plan::analysis::{Access, Analysis};
use crate::plan::estimates;
use crate::plan::filter::Filter;
use crate::room::{Extent, Searches};
use crate::support::headroom::ensure;
use crate::tree;

/// Free memory that any insertion requires, besides the growth of its tables.
pub(super) const HEADROOM: usize = 64 * 1024;
/// Free memory that an insertion requires for each byte of its text. The reader requests the memory of its steps one by one.
/// This covers the rest, such as sorted lists and interned strings.
const HEADROOM_PER_BYTE: usize = 16;
/// Free memory that an insertion requires for each step and each constant, once its text is read.
const HEADROOM_PER_STEP: usize = 200;

/// The numbers of an expression's parts, on which the memory of its insertion depends.
#[derive(Clone, Copy, Default)]
struct Counts {
    steps: usize,
    /// The predicates, with repetitions.
    predicates: usize,
    /// An upper bound of the constants in all predicates.
    constants: usize,
    patterns: usize,
    /// Whether a predicate reads the lower case of a string.
    has_lowered: bool,
}

/// An insertion without errors.
pub(super) struct Prepared {
    pub id: u64,
    pub expression: Expression,
    pub form: Form,
    /// An upper bound of the bytes that the insertion requests, except for nodes of the tree.
    pub bytes: usize,
    /// An upper bound of the bytes that the deletion of the subscription will request.
    pub deletion: usize,
    /// An upper bound of the extent of the index after the insertion, except for nodes of the tree.
    pub extent: Extent,
}

/// The form of an expression in the index.
pub(super) enum Form {
    /// It has this value for every event.
    Constant(bool),
    Tests(Planned),
}

/// The plan of an expression whose value depends on the event.
pub(super) struct Planned {
    pub analysis: Analysis,
    /// The tests of its program, in the order of evaluation.
    pub tests: Vec<Test>,
    /// References to its patterns, which give them numbers until the program has references of its own.
    pub patterns: Vec<PredicateId>,
    pub route: Route,
}

/// The way in which searches find an expression.
pub(super) enum Route {
    Tree(tree::Plan),
    /// By a filter that every event passes.
    Scanned(Filter),
    /// Every search evaluates the expression.
    Unindexed,
}

impl Index {
    /// Plans an insertion, and makes room in `searches` for it.
    ///
    /// Errors: those of [`Index::insert`]. Only the reserve and `searches` may have grown then.
    pub(super) fn prepare(&mut self, searches: &mut impl Searches, insertion: &Insertion) -> Result<Prepared, Error> {
        let id = insertion.id;
        if self.subscriptions.has(id) {
            let message = format!("a subscription with the id {id} exists; delete it first");
            return Err(Error::new(Kind::DuplicateId, message));
        }
        let (postfix, counts, bytes) = self.read(insertion)?;
        let Counts { steps, constants, .. } = counts;
        let deletion = catalog::Extent { steps, constants, code: program::max_words(steps, constants) };
        let deletion = deletion.reading_bytes();
        self.deletions.hold(deletion)?;
        let extent = self.extent_with(id, &counts);
        searches.make_room(&extent)?;
        // Asks for `bytes` again: the reserve and the searches may have taken the free memory.
        ensure(bytes)?;
        let expression = self.intern(postfix, constants)?;
        match self.plan(&expression, bytes, |nodes| searches.make_room(&Extent { nodes, ..extent })) {
            Ok(form) => Ok(Prepared { id, expression, form, bytes, deletion, extent }),
            Err(error) => {
                self.release(&expression.predicates);
                Err(error)
            }
        }
    }

    /// Chooses the form and the places of an expression. It ensures `bytes` bytes besides those of its nodes, and calls `room` with
    /// the number of nodes that the tree will have.
    ///
    /// Errors: [`Kind::OutOfMemory`], and those of `room`.
    fn plan(
        &mut self,
        expression: &Expression,
        bytes: usize,
        room: impl FnOnce(usize) -> Result<(), Error>,
    ) -> Result<Form, Error> {
        let normal = match normalise(&expression.steps) {
            Normalised::Constant(value) => return Ok(Form::Constant(value)),
            Normalised::Tree(normal) => normal,
        };
        let Index { catalog, tree, .. } = self;
        let predicates = &expression.predicates;
        let patterns = catalog.hold_patterns(predicates);
        let analysis = Analysis::new(normal, predicates, catalog);
        let before = catalog.statistics.saved(asked(predicates, &catalog.schema));
        catalog.statistics.ask(before.attributes());
        analysis.observe(&mut catalog.statistics);
        let access = analysis.access(predicates, catalog);
        let route = match &access {
            Access::Demands(literals) => tree.prepare(literals, &analysis, bytes, room).map(Route::Tree),
            Access::Filter(filter) => Ok(Route::Scanned(*filter)),
            Access::Nothing => Ok(Route::Unindexed),
        };
        match route {
            Ok(route) => {
                let tests = estimates::tests(&analysis, &access, predicates, catalog);
                Ok(Form::Tests(Planned { analysis, tests, patterns, route }))
            }
            Err(error) => {
                catalog.statistics.restore(before);
                catalog.release_patterns(&patterns);
                Err(error)
            }
        }
    }

    /// Returns an upper bound of the extent with one more subscription. The number of nodes stays as it is.
    fn extent_with(&self, id: u64, counts: &Counts) -> Extent {
        let extent = self.extent();
        let ids = extent.greatest.filter(|_| self.subscriptions.stays_ascending(id));
        Extent {
            slots: extent.slots.max(self.subscriptions.next(id).index() + 1),
            predicates: extent.predicates + counts.predicates,
            dense: extent.dense + 1,
            patterns: extent.patterns + counts.patterns,
            has_lowered: extent.has_lowered || counts.has_lowered,
            greatest: ids.map(|greatest| greatest.max(id)),
            ..extent
        }
    }

    /// Checks an expression as [`Index::insert`] does, and inserts nothing. An id that exists is no error.
    ///
    /// Errors: those of [`Index::insert`].
    pub fn check(&mut self, insertion: &Insertion) -> Result<(), Error> {
        let (postfix, counts, bytes) = self.read(insertion)?;
        ensure(bytes)?;
        let expression = self.intern(postfix, counts.constants)?;
        self.release(&expression.predicates);
        Ok(())
    }

    /// Checks an expression as erl-be-tree does, and inserts nothing. An id that exists is no error.
    ///
    /// Errors: those of [`Index::check`], and [`Kind::Type`] for predicates that only erl-be-tree refuses: whether a
    /// required attribute is null, whether segments or caps are empty, and membership of an enum.
    pub fn check_as_erl(&mut self, insertion: &Insertion) -> Result<(), Error> {
        let (postfix, ..) = self.read(insertion)?;
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

    /// Reads an expression. Also returns its counts, and an upper bound of the bytes that its insertion requests, except for
    /// nodes of the tree.
    fn read<'a>(&self, insertion: &Insertion<'a>) -> Result<(Vec<Step<Borrowed<'a>>>, Counts, usize), Error> {
        let text = HEADROOM_PER_BYTE * insertion.text.len();
        ensure(HEADROOM + text)?;
        let postfix = language::read_borrowed(insertion.text, &self.catalog.schema, &insertion.constants)?;
        let counts = Counts::of(&postfix);
        let Counts { steps, constants, .. } = counts;
        let words = program::max_words(steps, constants);
        // Most expressions have no pattern, and are not searched for patterns.
        let patterns = predicates(&postfix).take(if counts.patterns > 0 { counts.predicates } else { 0 });
        let tables = self.catalog.predicates.growth(counts.predicates, patterns)
            + self.catalog.programs.growth(words)
            + self.strings.growth(constants)
            + self.vocabulary.growth(predicates(&postfix), self.schema(), self.strings.capacity() + constants)
            + self.subscriptions.growth()
            + self.tree.growth()
            + self.dense.growth()
            + self.reasons.as_ref().map_or(0, |reasons| reasons.growth(insertion.text.len(), words));
        let bytes = HEADROOM + text + HEADROOM_PER_STEP * (steps + constants) + tables;
        Ok((postfix, counts, bytes))
    }

    /// Interns the strings of an expression with this number of constants, and counts its constants.
    fn intern(&mut self, postfix: Vec<Step<Borrowed>>, constants: usize) -> Result<Expression, Error> {
        let Index { strings, vocabulary, catalog: Catalog { schema, .. }, .. } = self;
        let mut refused = None;
        let mut lookups = Vec::with_capacity(constants);
        for predicate in predicates(&postfix) {
            predicate.test.each_string(|text| lookups.push(Lookup::new(text)));
        }
        strings.look_up(&mut lookups);
        let mut lookups = lookups.into_iter();
        let expression = Expression::new(postfix, |predicate| {
            let predicate = predicate.map(|text| {
                let Some(lookup) = lookups.next() else { unreachable!("each string was looked up") };
                strings.take_in(lookup, &text)
            });
            // A string that is in a list twice counts as one reference.
            predicate.test.each_string(|&string| strings.count(string));
            if vocabulary.retain(&predicate, schema) {
                if let Err(error) = vocabulary.check(&predicate, schema) {
                    refused.get_or_insert(error);
                }
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
    pub(super) fn release(&mut self, predicates: &[Predicate<StringId>]) {
        for predicate in predicates {
            self.vocabulary.release(predicate, &self.catalog.schema);
            predicate.test.each_string(|&string| self.strings.release(string));
        }
    }
}

impl Counts {
    fn of<S>(postfix: &[Step<S>]) -> Self {
        let mut counts = Counts { steps: postfix.len(), ..Counts::default() };
        for Predicate { test, .. } in predicates(postfix) {
            counts.predicates += 1;
            counts.constants += test.constants();
            counts.patterns += usize::from(is_pattern(test));
            counts.has_lowered |= is_lowered(test);
        }
        counts
    }
}

/// Returns the predicates of an expression, with repetitions.
fn predicates<S>(postfix: &[Step<S>]) -> impl Iterator<Item = &Predicate<S>> + Clone {
    postfix.iter().filter_map(|step| match step {
        Step::Predicate(predicate) => Some(predicate),
        _ => None,
    })
}
