//! What is known of the expressions besides where they hang: what the tree reads when it places them.

use crate::expression::program::Written;
use crate::expression::store::{ProgramId, Programs};
use crate::expression::Expression;
use crate::predicates::Predicates;
use crate::schema::Schema;
use crate::statistics::Statistics;
use crate::subscriptions::{Slot, Subscription};

/// The attributes, the programs over them, and the predicates that these share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Library {
    pub schema: Schema,
    pub predicates: Predicates,
    pub statistics: Statistics,
    pub programs: Programs,
}

impl Library {
    pub fn new(schema: Schema) -> Self {
        let statistics = Statistics::new(&schema);
        Library { schema, statistics, ..Library::default() }
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
        self.written(subscription).expression(self)
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
