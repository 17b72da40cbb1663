//! What is known of the expressions besides where they hang: what the tree reads when it places them.

use crate::expression::store::{ProgramId, Programs};
use crate::interner::StringId;
use crate::predicate::Predicate;
use crate::predicates::{PredicateId, Predicates};
use crate::schema::Schema;
use crate::statistics::Statistics;
use crate::subscriptions::Slot;

/// The attributes, the predicates over them, and the programs made of these.
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

    /// The predicate `id`, which is held.
    pub fn predicate(&self, id: PredicateId) -> Predicate<StringId> {
        self.predicates.get(id, &self.programs)
    }

    /// The slot of the subscription whose program this is.
    pub fn slot(&self, program: ProgramId) -> Slot {
        self.programs.get(program)[0]
    }
}
