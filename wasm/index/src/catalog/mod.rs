//! The catalog of expressions: the data that the tree reads when it places them.

mod by_id;
pub(crate) mod columns;
pub(crate) mod ids;
pub(crate) mod order;
pub(crate) mod sizes;
pub(crate) mod statistics;
pub(crate) mod subscriptions;
pub(crate) mod vocabulary;

use std::sync::Arc;

use crate::catalog::statistics::Statistics;
use crate::catalog::subscriptions::Subscription;
use crate::compile::predicates::Predicates;
use crate::compile::program::{self, Shared, Written};
use crate::compile::store::Programs;
use crate::compile::Expression;
use crate::handles::{PredicateId, ProgramId, Slot};
use crate::model::predicate::Predicate;
use crate::model::schema::{AttributeId, Schema};
use crate::model::strings::StringId;
use crate::patterns::is_pattern;

/// The schema, the programs, and the predicates that programs share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    /// The schema, which indexes may share.
    pub schema: Arc<Schema>,
    pub predicates: Predicates,
    pub statistics: Statistics,
    pub programs: Programs,
}

impl Catalog {
    pub fn new(schema: Arc<Schema>) -> Self {
        let statistics = Statistics::new(&schema);
        Catalog { schema, predicates: Predicates::default(), statistics, programs: Programs::default() }
    }

    /// Returns the heap bytes of the catalog, without the schema.
    pub fn heap_bytes(&self) -> usize {
        self.predicates.heap_bytes() + self.statistics.heap_bytes() + self.programs.heap_bytes()
    }

    /// Returns the parts that the assembly of a program needs.
    pub fn shared(&mut self) -> Shared<'_> {
        Shared { schema: &self.schema, predicates: &mut self.predicates }
    }

    /// Counts a reference to each pattern among `predicates`, so that each has a number. Returns the numbers.
    pub fn hold_patterns(&mut self, predicates: &[Predicate<StringId>]) -> Vec<PredicateId> {
        let patterns = predicates.iter().filter(|predicate| is_pattern(&predicate.test));
        let held = patterns.map(|pattern| self.predicates.retain(pattern)).collect();
        self.count_patterns();
        held
    }

    /// Releases the patterns that [`Catalog::hold_patterns`] retained.
    pub fn release_patterns(&mut self, held: &[PredicateId]) {
        held.iter().for_each(|&pattern| self.predicates.release(pattern));
        self.count_patterns();
    }

    /// Updates the statistics with the number of patterns.
    pub fn count_patterns(&mut self) {
        self.statistics.set_values(self.schema.patterns(), self.predicates.patterns().len());
    }

    /// Returns the operations of a subscription's program.
    pub fn code(&self, subscription: &Subscription) -> &[u32] {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        &words[..code]
    }

    /// Returns the expression of a subscription in the form that its program holds.
    pub fn written(&self, subscription: &Subscription) -> Written<'_> {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        Written::new(words, code)
    }

    /// Returns the last word of a subscription's program.
    pub fn written_last(&self, subscription: &Subscription) -> u32 {
        let (words, _) = subscription.length.of(self.programs.get(subscription.program));
        words[words.len() - 1]
    }

    /// Returns the expression of a subscription, read back from its program.
    pub fn expression(&self, subscription: &Subscription) -> Expression {
        self.written(subscription).expression(&self.schema, &self.predicates)
    }

    /// Returns the length of a subscription's expression.
    pub fn extent(&self, subscription: &Subscription) -> Extent {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        let shared = program::shared(&words[..code]).map(|id| self.predicates.get(id).test.constants());
        Extent { steps: program::steps(words, code), constants: shared.sum(), code }
    }

    /// Returns the number of words that a subscription's program occupies.
    pub fn words(&self, subscription: &Subscription) -> usize {
        subscription.length.kept(self.programs.get(subscription.program))
    }

    /// Returns the slot of the subscription that owns `program`.
    pub fn slot(&self, program: ProgramId) -> Slot {
        self.programs.code(program).slot()
    }
}

/// Returns the attributes that an expression with these predicates asks for.
pub(crate) fn asked<'a>(
    predicates: &'a [Predicate<StringId>],
    schema: &'a Schema,
) -> impl Iterator<Item = AttributeId> + 'a {
    let patterns = predicates.iter().any(|predicate| is_pattern(&predicate.test)).then(|| schema.patterns());
    let columns = predicates.iter().filter_map(|predicate| Some(columns::demand(predicate, schema)?.column));
    predicates.iter().map(|predicate| predicate.attribute).chain(columns).chain(patterns)
}

/// The length of an expression, on which the memory to read it back depends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extent {
    pub steps: usize,
    /// The number of constants of predicates in the shared table.
    pub constants: usize,
    /// The words of the program's operations, inline constants included.
    pub code: usize,
}

/// Bytes that reading back and analysing an expression requests for each step.
const PER_STEP: usize = 40 * size_of::<usize>();
/// Bytes that reading back alone requests for each step. Two steps have at most one predicate.
const READ_PER_STEP: usize = 12 * size_of::<usize>();
/// Bytes for each constant. A text counts as several.
const PER_CONSTANT: usize = 6 * size_of::<u64>();
/// Bytes that reading back alone requests for each word of code, which may be a constant of a list.
const READ_PER_WORD: usize = 2 * size_of::<u64>();
/// The least bytes of reading back and analysing an expression, whatever its length.
const MIN_READ_BYTES: usize = 2048;

impl Extent {
    /// Returns an upper bound of the bytes that reading back and analysing the expression requests.
    pub fn analysis_bytes(self) -> usize {
        MIN_READ_BYTES + PER_STEP * self.steps + PER_CONSTANT * (self.constants + self.code)
    }

    /// Returns an upper bound of the bytes that reading back the expression requests.
    pub fn reading_bytes(self) -> usize {
        MIN_READ_BYTES + READ_PER_STEP * self.steps + PER_CONSTANT * self.constants + READ_PER_WORD * self.code
    }
}
