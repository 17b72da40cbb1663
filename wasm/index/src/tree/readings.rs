//! Analyses of the expressions whose entries a change moves.
//!
//! An entry has one literal of its expression, and moving the entry takes an analysis of the expression around that literal. A
//! long expression may have thousands of entries, in one list or in thousands of lists. So the analysis of a long expression is
//! kept from its second reading on, for all its literals, until the change ends.

use hashbrown::HashMap;

use crate::catalog::subscriptions::Subscriptions;
use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::error::{Error, Kind};
use crate::handles::Slot;
use crate::plan::analysis::Analysis;
use crate::support::hash::{out_of_memory, State};
use crate::support::headroom::{ensure, growth};

/// An upper bound of the bytes of analyses that are kept for one list. Other expressions are analyzed twice.
const MAX_KEPT_ANALYSES_BYTES: usize = 256 * 1024;
/// An analysis of at most this number of bytes is made again for each entry of its expression, and not kept.
const MAX_REPEATED_BYTES: usize = 16 * 1024;
/// The bytes of long analyses that one change keeps. Further lists stay as they are.
const MAX_KEPT_BYTES: usize = 4 * 1024 * 1024;
/// The bytes of long analyses that one change makes again.
const MAX_TOTAL_REPEATED_BYTES: usize = 16 * 1024 * 1024;

/// The analyses of one change.
pub(super) struct Readings<'a> {
    catalog: &'a Catalog,
    subscriptions: &'a Subscriptions,
    /// The position among `kept` of each long expression that was read, or [`ONCE`] after its first reading.
    long: HashMap<Slot, u32, State>,
    kept: Vec<Analysis>,
    kept_bytes: usize,
    repeated_bytes: usize,
}

/// No position: the expression was read once.
const ONCE: u32 = u32::MAX;

/// An analysis that was read for an entry.
#[derive(Debug)]
pub(super) enum Reading {
    /// The analysis of the expression around the entry's literal, and an upper bound of its bytes.
    Own(Analysis, usize),
    /// The analysis of all literals, at this position among the kept ones.
    Kept(u32),
    /// The analysis was dropped, because those of its list take too much memory. It has at most this number of bytes.
    Again(usize),
}

impl Reading {
    /// Drops the analysis if the analyses of its list exceed [`MAX_KEPT_ANALYSES_BYTES`]. `kept` is the sum of their bytes.
    pub fn within(self, kept: &mut usize) -> Reading {
        match self {
            Reading::Own(_, bytes) => {
                *kept += bytes;
                if *kept <= MAX_KEPT_ANALYSES_BYTES {
                    self
                } else {
                    Reading::Again(bytes)
                }
            }
            other => other,
        }
    }
}

impl<'a> Readings<'a> {
    pub fn new(catalog: &'a Catalog, subscriptions: &'a Subscriptions) -> Self {
        Readings {
            catalog,
            subscriptions,
            long: HashMap::default(),
            kept: Vec::new(),
            kept_bytes: 0,
            repeated_bytes: 0,
        }
    }

    /// Returns the data that expressions are read from.
    pub fn sources(&self) -> (&'a Catalog, &'a Subscriptions) {
        (self.catalog, self.subscriptions)
    }

    /// Returns whether the change has used its budget for reading. Further lists then stay unsplit.
    pub fn is_exhausted(&self) -> bool {
        self.repeated_bytes > MAX_TOTAL_REPEATED_BYTES
    }

    /// Reads the expression of an entry of `literal`. Errors: out of memory, or the readings are exhausted.
    pub fn read(&mut self, slot: Slot, literal: NodeIndex) -> Result<Reading, Error> {
        let known = if self.long.is_empty() { None } else { self.long.get(&slot).copied() };
        if let Some(position) = known.filter(|position| *position != ONCE) {
            return Ok(Reading::Kept(position));
        }
        let subscription = self.subscriptions.get(slot);
        let bytes = self.catalog.extent(subscription).analysis_bytes();
        match known {
            Some(_) if self.kept_bytes + bytes <= MAX_KEPT_BYTES => {
                ensure(bytes + growth(&self.kept, 1))?;
                let position = self.kept.len() as u32;
                self.kept.push(Analysis::of(subscription, self.catalog));
                self.kept_bytes += bytes;
                self.long.insert(slot, position);
                return Ok(Reading::Kept(position));
            }
            Some(_) => self.repeat(bytes)?,
            None if bytes > MAX_REPEATED_BYTES => {
                self.long.try_reserve(1).map_err(out_of_memory)?;
                self.long.insert(slot, ONCE);
            }
            None => {}
        }
        ensure(bytes)?;
        Ok(Reading::Own(Analysis::of_entry(literal, subscription, self.catalog), bytes))
    }

    /// Calls `use_it` with the analysis of an entry of `literal` that was read before. Errors: those of [`Readings::read`], and
    /// of `use_it`.
    #[inline(always)]
    pub fn with<T>(
        &mut self,
        slot: Slot,
        literal: NodeIndex,
        reading: &Reading,
        use_it: impl FnOnce(&Analysis) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match *reading {
            Reading::Own(ref analysis, _) => use_it(analysis),
            Reading::Kept(position) => use_it(&self.kept[position as usize]),
            Reading::Again(bytes) => {
                ensure(bytes)?;
                if bytes > MAX_REPEATED_BYTES {
                    self.repeat(bytes)?;
                }
                use_it(&Analysis::of_entry(literal, self.subscriptions.get(slot), self.catalog))
            }
        }
    }

    /// Counts the bytes of an analysis that is made again. Errors: too many.
    fn repeat(&mut self, bytes: usize) -> Result<(), Error> {
        self.repeated_bytes += bytes;
        match self.is_exhausted() {
            false => Ok(()),
            // No caller of the index sees this: the list that is being split or joined stays as it is.
            true => Err(Error::new(Kind::OutOfMemory, "the change has read too many long expressions again")),
        }
    }
}
