//! The second half of an insertion: it applies the plan of [`Index::prepare`], and cannot fail.

use crate::catalog::subscriptions::{Length, Placement, Subscription};
use crate::catalog::{self, Catalog};
use crate::compile::program::{self, Program};
use crate::compile::{booleans, Expression};
use crate::handles::{NodeId, Slot};
use crate::index::prepare::{Form, Planned, Prepared, Route};
use crate::index::Index;
use crate::model::predicate::Predicate;
use crate::model::strings::StringId;
use crate::plan::analysis::Analysis;
use crate::plan::estimates;
use crate::room::{Extent, Searches};

/// A reserve for a deletion of more than this number of bytes is shortened once the program is known.
const LONG_DELETION: usize = 16 * 1024;

impl Index {
    /// Inserts a subscription as it was prepared.
    pub(super) fn commit(&mut self, searches: &mut impl Searches, prepared: Prepared) {
        let Prepared { id, expression, form, deletion, extent, .. } = prepared;
        let (slot, long) = match form {
            Form::Constant(value) => (self.add_constant(id, value, &expression), Vec::new()),
            Form::Tests(planned) => self.add_planned(id, &expression, planned),
        };
        self.predicates += expression.predicates.len();
        drop(expression);
        let Index { subscriptions, catalog, tree, dense, reasons, deletions, .. } = self;
        let subscription = subscriptions.get(slot);
        if let Placement::Dense(position) = subscription.placement() {
            dense.settle(position);
        }
        if let Some(reasons) = reasons {
            reasons.insert(slot, subscription, catalog);
        }
        // This comes last, because a split may be refused memory. It is then postponed.
        let mut room = |nodes| searches.make_room(&Extent { nodes, ..extent });
        tree.split_all(long, catalog, subscriptions, &mut room);
        if deletion > LONG_DELETION {
            // The program is shorter than its bound. The block held now is longer than needed, so this is not refused.
            let _ = deletions.hold_about();
        }
    }

    fn add_constant(&mut self, id: u64, value: bool, expression: &Expression) -> Slot {
        let slot =
            self.add(id, expression, |slot, catalog| program::constant(slot, value, expression, catalog.shared()));
        if value {
            self.insert_unindexed(slot);
        }
        slot
    }

    /// Returns the slot, and the leaves that exceed their capacity.
    fn add_planned(&mut self, id: u64, expression: &Expression, planned: Planned) -> (Slot, Vec<NodeId>) {
        let Planned { analysis, tests, patterns, route } = planned;
        let slot =
            self.add(id, expression, |slot, catalog| program::assemble(slot, &tests, expression, catalog.shared()));
        let mut long = Vec::new();
        match route {
            Route::Tree(plan) => {
                self.subscriptions.get_mut(slot).set_placement(Placement::Indexed);
                long = self.tree.insert(slot, plan, &analysis, &self.catalog, &self.subscriptions);
            }
            Route::Scanned(filter) => {
                self.subscriptions.get_mut(slot).set_placement(self.tree.insert_scanned(slot, filter));
            }
            Route::Unindexed if booleans::is_boolean(self.catalog.code(self.subscriptions.get(slot))) => {
                self.insert_dense(slot, &analysis, &expression.predicates);
            }
            Route::Unindexed => self.insert_unindexed(slot),
        }
        self.catalog.release_patterns(&patterns);
        (slot, long)
    }

    /// Adds a subscription without a placement, and its deletion. `assemble` returns the program for its slot.
    fn add(&mut self, id: u64, expression: &Expression, assemble: impl FnOnce(Slot, &mut Catalog) -> Program) -> Slot {
        let Index { subscriptions, catalog, code_bytes, deletions, .. } = self;
        subscriptions.insert(id, |slot| {
            let Program { mut words, code, constants } = assemble(slot, catalog);
            let length = Length::noted(&mut words, code);
            *code_bytes += words.len() * size_of::<u32>();
            let subscription = Subscription::new(catalog.programs.insert(&words), length);
            let extent = catalog::Extent { steps: expression.steps.len(), constants, code };
            debug_assert_eq!(extent, catalog.extent(&subscription), "a deletion finds the same extent");
            deletions.add(extent.reading_bytes());
            subscription
        })
    }

    fn insert_unindexed(&mut self, slot: Slot) {
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(self.tree.insert_unindexed(subscription.program));
    }

    /// Inserts a dense expression. Its program runs if its windows leave it open, and in batches of events.
    fn insert_dense(&mut self, slot: Slot, analysis: &Analysis, predicates: &[Predicate<StringId>]) {
        let chance = |index, literal| estimates::probability(analysis, index, literal);
        let windows = self.dense.windows(&analysis.normal, predicates, chance);
        let subscription = self.subscriptions.get_mut(slot);
        subscription.set_placement(Placement::Dense(self.dense.insert(slot, subscription.program, &windows)));
    }
}
