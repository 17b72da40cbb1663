//! What is known of the expressions besides where they hang: what the tree reads when it places them.

pub(crate) mod ids;
pub(crate) mod sizes;
pub(crate) mod statistics;
pub(crate) mod subscriptions;
pub(crate) mod vocabulary;

use crate::catalog::statistics::Statistics;
use crate::catalog::subscriptions::Subscription;
use crate::compile::predicates::Predicates;
use crate::compile::program::{self, Shared, Written};
use crate::compile::store::Programs;
use crate::compile::Expression;
use crate::handles::ProgramId;
use crate::handles::Slot;
use crate::model::schema::Schema;

/// The attributes, the programs over them, and the predicates that these share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Catalog {
    pub schema: Schema,
    pub predicates: Predicates,
    pub statistics: Statistics,
    pub programs: Programs,
}

impl Catalog {
    pub fn new(schema: Schema) -> Self {
        let statistics = Statistics::new(&schema);
        Catalog { schema, statistics, ..Catalog::default() }
    }

    /// What a program is made with.
    pub fn shared(&mut self) -> Shared<'_> {
        Shared { schema: &self.schema, predicates: &mut self.predicates }
    }

    /// The operations of a subscription's program.
    pub fn code(&self, subscription: &Subscription) -> &[u32] {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        &words[..code]
    }

    /// The expression of a subscription, as its program has it.
    pub fn written(&self, subscription: &Subscription) -> Written<'_> {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        Written::new(words, code)
    }

    /// The last word of a subscription's program.
    pub fn written_last(&self, subscription: &Subscription) -> u32 {
        let (words, _) = subscription.length.of(self.programs.get(subscription.program));
        words[words.len() - 1]
    }

    /// The expression of a subscription, read back from its program.
    pub fn expression(&self, subscription: &Subscription) -> Expression {
        self.written(subscription).expression(&self.schema, &self.predicates)
    }

    /// Bytes that reading a subscription's expression back, and analysing it, requests at the most.
    pub fn analysis_bytes(&self, subscription: &Subscription) -> usize {
        let (words, code) = subscription.length.of(self.programs.get(subscription.program));
        let shared = program::shared(&words[..code]).map(|id| self.predicates.get(id).test.constants());
        let constants = code + shared.sum::<usize>();
        analysis_bytes(program::steps(words, code), constants)
    }

    /// How many words are kept of a subscription's program.
    pub fn words(&self, subscription: &Subscription) -> usize {
        subscription.length.kept(self.programs.get(subscription.program))
    }

    /// The slot of the subscription whose program this is.
    pub fn slot(&self, program: ProgramId) -> Slot {
        self.programs.code(program).first()
    }
}

/// Bytes that reading back and analysing an expression requests for each step, and for each constant or word of code.
const PER_STEP: usize = 40 * size_of::<usize>();
const PER_CONSTANT: usize = 6 * size_of::<u64>();
/// Bytes that it requests for the shortest one.
const LEAST: usize = 2048;

/// Bytes that reading back and analysing an expression of so many steps and constants, or words of code, requests.
pub(crate) fn analysis_bytes(steps: usize, constants: usize) -> usize {
    LEAST + PER_STEP * steps + PER_CONSTANT * constants
}
