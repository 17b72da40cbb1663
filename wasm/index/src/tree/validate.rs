//! Validation checks the invariants of the tree in tests.

use crate::catalog::subscriptions::{Placement, Subscriptions};
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::handles::{LevelId, NodeId, Slot};
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::Analysis;
use crate::tree::level::Place;
use crate::tree::{Branch, Position, Tree};

impl Tree {
    /// Checks every link between nodes, levels and subscriptions, and that every entry is in a permitted place.
    pub fn validate(&self, catalog: &Catalog, subscriptions: &Subscriptions) -> Result<(), String> {
        let mut reached = 0;
        let mut entries = 0;
        let mut pending = vec![NodeId::ROOT];
        while let Some(node) = pending.pop() {
            reached += 1;
            let held = self.node(node);
            entries += held.entries().len();
            for (place, entry) in held.entries().iter().enumerate() {
                let behind = held.entries().get(place + 1);
                if entry.is_joined()
                    && !behind.is_some_and(|behind| behind.subject == entry.subject && !behind.is_joined())
                {
                    return Err(format!("entry {place} of node {node} is joined to none of its subscription"));
                }
                self.validate_entry(node, entry.slot(catalog), entry.literal(), catalog, subscriptions)?;
            }
            for &Branch { attribute, level } in held.branches() {
                let below = self.level(level);
                if below.owner != node || below.attribute != attribute || below.is_empty() {
                    return Err(format!("level {level} of node {node} is empty or another's"));
                }
                for child in self.level(level).nodes() {
                    let Position::Under(parent, place) = self.position(child) else {
                        return Err(format!("node {child} under level {level} is not placed there"));
                    };
                    if parent != level || !self.is_at(child, level, place) || self.node(child).is_empty() {
                        return Err(format!("node {child} is empty, or misplaced under level {level} at {place:?}"));
                    }
                    pending.push(child);
                }
            }
        }
        if reached != self.nodes() || entries != self.entries {
            return Err(format!("{reached} of {} nodes, {entries} of {} entries reached", self.nodes(), self.entries));
        }
        self.validate_homes(catalog, subscriptions)
    }

    fn validate_entry(
        &self,
        node: NodeId,
        slot: Slot,
        literal: NodeIndex,
        catalog: &Catalog,
        subscriptions: &Subscriptions,
    ) -> Result<(), String> {
        let subscription = subscriptions.get(slot);
        let analysis = Analysis::of(subscription, catalog);
        if analysis.access_predicate(literal).is_none() {
            return Err(format!("slot {slot} waits in node {node} for a literal without an access predicate"));
        }
        let Position::Under(level, place) = self.position(node) else {
            return Ok(());
        };
        let level = self.level(level);
        let fits = |access_predicate: &AccessPredicate| match (place, &access_predicate.values) {
            _ if access_predicate.attribute != level.attribute => false,
            (Place::Point(key), _) => access_predicate.admits(key),
            (Place::Defined, values) => matches!(values, ValueSet::Defined | ValueSet::Except(_)),
            (Place::Bucket, ValueSet::Interval(low, high)) => level.buckets.position(node).is_some_and(|position| {
                let (least, greatest) = level.buckets.range(position);
                *low <= greatest && least <= *high
            }),
            (Place::Bucket, _) => false,
        };
        if analysis.context(literal).any(|(_, access_predicate)| fits(access_predicate)) {
            Ok(())
        } else {
            Err(format!("slot {slot} demands nothing that leads to node {node} at {place:?}"))
        }
    }

    fn is_at(&self, child: NodeId, level: LevelId, place: Place) -> bool {
        let level = self.level(level);
        match place {
            Place::Point(key) => level.point(key) == Some(child),
            Place::Bucket => level.buckets.position(child).is_some(),
            Place::Defined => level.defined == Some(child),
        }
    }

    fn validate_homes(&self, catalog: &Catalog, subscriptions: &Subscriptions) -> Result<(), String> {
        let (mut unindexed, mut scanned) = (0, 0);
        let mut entries = 0;
        for (slot, subscription) in subscriptions.iter() {
            match subscription.placement() {
                Placement::Nowhere | Placement::Dense(_) => {}
                Placement::Unindexed(position) => {
                    unindexed += 1;
                    if self.unindexed.get(position as usize) != Some(&subscription.program) {
                        return Err(format!("slot {slot} is not at {position} of the unindexed list"));
                    }
                }
                Placement::Scanned(position) => {
                    scanned += 1;
                    let entry = self.scanned().get(position as usize);
                    if !entry.is_some_and(|entry| entry.is_of(slot, subscription.program)) {
                        return Err(format!("slot {slot} is not at {position} of the list that every search scans"));
                    }
                }
                Placement::Indexed => {
                    let analysis = Analysis::of(subscription, catalog);
                    let nodes = self.nodes_of(slot, subscription.program, &analysis).map_err(|error| error.message)?;
                    let lists = nodes.iter().map(|&node| self.node(node).entries());
                    entries += lists.flatten().filter(|entry| entry.is_of(slot, subscription.program)).count();
                }
            }
        }
        if (unindexed, scanned) != (self.unindexed.len(), self.scanned().len()) || entries != self.entries {
            return Err(format!(
                "{unindexed} unindexed, {scanned} scanned and {entries} entries are found from subscriptions"
            ));
        }
        Ok(())
    }
}
