//! Deletions and insertions that succeed together, or change nothing.
//!
//! A deleted subscription cannot be put back, because the index has no text of it. So all insertions come first: they find every
//! error, and allocate all memory. A subscription that replaces another one is meanwhile a trial, under an unused id. From then on
//! nothing fails: the old subscriptions are deleted, and the trials take over their ids.

use std::iter::Rev;
use std::ops::RangeInclusive;

use hashbrown::HashTable;

use crate::error::{Error, Kind};
use crate::index::{Index, Insertion};
use crate::room::{Extent, Searches};
use crate::support::hash::{hash_of, out_of_memory};
use crate::support::headroom::ensure;

/// What a transaction has inserted so far.
struct Transaction<'a> {
    /// The ids under which the insertions stand.
    inserted: Vec<u64>,
    trials: Vec<Trial<'a>>,
    /// The ids of the insertions, and those of the trials.
    ids: Ids,
    trial_ids: Ids,
    /// Ids for trials, from the greatest down.
    unused: Rev<RangeInclusive<u64>>,
}

/// An insertion that stands under an unused id.
struct Trial<'a> {
    insertion: Insertion<'a>,
    id: u64,
    /// The size of the memory block that was sufficient for it.
    bytes: usize,
    /// Whether the index had a subscription with the insertion's own id before the transaction.
    replaces: bool,
}

impl Default for Transaction<'_> {
    fn default() -> Self {
        Transaction {
            inserted: Vec::new(),
            trials: Vec::new(),
            ids: Ids::default(),
            trial_ids: Ids::default(),
            unused: (0..=u64::MAX).rev(),
        }
    }
}

impl Index {
    /// Deletes the subscriptions with the ids `deleted`, then inserts those of `puts` or replaces the ones with their ids. Makes room
    /// in `searches` before each change, as [`Index::insert_all_for`] does.
    ///
    /// Errors: the first error, with the position of its insertion unless a deletion is at fault. Nothing is changed then. [`Kind::NotFound`] for a deleted id that no subscription has or that comes
    /// twice, [`Kind::DuplicateId`] for an inserted id that comes twice, and those of [`Index::put_for`].
    pub fn change_for<'a>(
        &mut self,
        searches: &mut impl Searches,
        deleted: &[u64],
        puts: impl IntoIterator<Item = Result<Insertion<'a>, Error>>,
    ) -> Result<(), (Option<usize>, Error)> {
        self.check_deleted(deleted).map_err(|error| (None, error))?;
        let mut transaction = Transaction::default();
        for (position, insertion) in puts.into_iter().enumerate() {
            self.arrange(searches);
            if let Err(error) = insertion.and_then(|insertion| self.put_in(searches, &mut transaction, insertion)) {
                self.roll_back(&transaction);
                return Err((Some(position), error));
            }
        }
        // A trial may be renamed, and then ids do not ascend with slots.
        let unsorted = Extent { greatest: None, ..self.extent() };
        if let (false, Err(error)) = (transaction.trials.is_empty(), searches.make_room(&unsorted)) {
            self.roll_back(&transaction);
            return Err((None, error));
        }
        searches.commit();
        deleted.iter().for_each(|&id| self.delete(id).expect("it was checked"));
        transaction.trials.iter().for_each(|trial| self.take_over(searches, trial));
        self.arrange(searches);
        Ok(())
    }

    fn check_deleted(&self, deleted: &[u64]) -> Result<(), Error> {
        let mut ids = Ids::default();
        for &id in deleted {
            if !self.subscriptions.has(id) || !ids.insert(id)? {
                return Err(Error::new(Kind::NotFound, format!("no subscription has the id {id}")));
            }
        }
        Ok(())
    }

    /// Inserts a subscription, as a trial if its id is taken.
    fn put_in<'a>(
        &mut self,
        searches: &mut impl Searches,
        transaction: &mut Transaction<'a>,
        insertion: Insertion<'a>,
    ) -> Result<(), Error> {
        let Transaction { inserted, trials, ids, trial_ids, unused } = transaction;
        if !ids.insert(insertion.id)? {
            let message = format!("the id {} is twice in the list; leave one of the two out", insertion.id);
            return Err(Error::new(Kind::DuplicateId, message));
        }
        // Room first: an inserted subscription that is not listed would not be deleted after an error.
        inserted.try_reserve(1).map_err(out_of_memory)?;
        if !self.subscriptions.has(insertion.id) {
            self.insert_for(searches, &insertion)?;
            inserted.push(insertion.id);
            return Ok(());
        }
        trials.try_reserve(1).map_err(out_of_memory)?;
        let replaces = !trial_ids.has(insertion.id);
        let id = self.unused_id(unused);
        trial_ids.insert(id)?;
        let trial = Insertion { id, text: insertion.text, constants: insertion.constants.clone() };
        let bytes = self.insert_for(searches, &trial)?;
        inserted.push(id);
        trials.push(Trial { insertion, id, bytes, replaces });
        Ok(())
    }

    /// Returns an unused id: the one after the greatest if ids ascend, or one of the greatest.
    fn unused_id(&self, unused: &mut Rev<RangeInclusive<u64>>) -> u64 {
        let next = self.subscriptions.order().greatest().and_then(|greatest| greatest.checked_add(1));
        let mut ids = next.into_iter().chain(unused);
        ids.find(|&id| !self.subscriptions.has(id)).expect("there are fewer subscriptions than ids")
    }

    /// Deletes all that the transaction inserted.
    fn roll_back(&mut self, transaction: &Transaction) {
        for &id in transaction.inserted.iter().rev() {
            self.delete(id).expect("the transaction inserted it");
        }
    }

    /// Gives a trial its own id. The subscription is inserted anew in the slot of the one that it replaces, so that ids ascend with
    /// slots as before. Without memory for that the trial is renamed, and searches have more ids to sort.
    fn take_over(&mut self, searches: &mut impl Searches, trial: &Trial) {
        // The transaction may have deleted it already.
        if trial.replaces && self.subscriptions.has(trial.insertion.id) {
            self.delete(trial.insertion.id).expect("it is there");
        }
        if ensure(trial.bytes).is_ok() && self.insert_for(searches, &trial.insertion).is_ok() {
            self.delete(trial.id).expect("the trial is there");
        } else {
            self.subscriptions.rename(trial.id, trial.insertion.id);
        }
    }
}

/// A set of ids.
#[derive(Default)]
struct Ids(HashTable<u64>);

impl Ids {
    fn has(&self, id: u64) -> bool {
        self.0.find(hash_of(&id), |&other| other == id).is_some()
    }

    /// Adds an id. Returns whether it is new.
    fn insert(&mut self, id: u64) -> Result<bool, Error> {
        if self.has(id) {
            return Ok(false);
        }
        self.0.try_reserve(1, hash_of).map_err(out_of_memory)?;
        self.0.insert_unique(hash_of(&id), id, hash_of);
        Ok(true)
    }
}
