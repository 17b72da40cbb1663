//! Deletion, in memory that insertions have reserved.

use crate::catalog::subscriptions::{Placement, Subscription};
use crate::catalog::Catalog;
use crate::compile::{program, Expression};
use crate::error::{Error, Kind};
use crate::handles::Slot;
use crate::index::Index;
use crate::plan::analysis::Analysis;
use crate::reasons::Reasons;
use crate::support::headroom::ensure;

impl Index {
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
            self.deletions.release();
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
            let _ = self.deletions.hold_about();
        }
        Ok(())
    }

    /// Frees the tables after the last subscription is deleted. Allocates nothing.
    fn clear(&mut self) {
        let Index { catalog, strings, vocabulary, tree, dense, reasons, deletions, .. } = self;
        catalog.programs.clear();
        strings.clear();
        vocabulary.clear();
        tree.clear();
        dense.clear();
        if let Some(reasons) = reasons {
            *reasons = Reasons::default();
        }
        deletions.clear();
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
}
