//! Demands are the conditions that an event must meet for one literal to make an expression true.
//!
//! In `a = 1 and (b = 2 or c > 3)` the literal `b = 2` has the demands `b = 2` and `a = 1`: conjunctions join them. The tree
//! finds the expression by one demand, its access predicate, and [`choose`] takes another one as the entry's filter. The fewer
//! events pass both, the fewer programs run.

use crate::catalog::Catalog;
use crate::compile::normal::NodeIndex;
use crate::cost;
use crate::plan::access_predicate::{AccessPredicate, ValueSet};
use crate::plan::analysis::Analysis;
use crate::plan::filter;
use crate::support::number::lesser;

/// The demands of a literal's context, the most selective first. The tree needs the order at every node that an insertion
/// passes.
#[derive(Clone, Debug)]
pub(crate) struct Demands<'a> {
    pub analysis: &'a Analysis,
    pub literal: NodeIndex,
    /// Their shares and literals: the first `len` elements. They are in place, because a change makes them for each entry.
    sorted: [(f32, NodeIndex); cost::MAX_CONTEXT],
    len: usize,
}

/// One demand of a context.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demanded<'a> {
    /// The literal with this demand.
    pub literal: NodeIndex,
    pub access_predicate: &'a AccessPredicate,
    /// The expected share of events that meet the demand.
    pub share: f32,
}

impl<'a> Demands<'a> {
    /// Returns the demands of `literal` in the expression of `analysis`.
    pub fn of(literal: NodeIndex, analysis: &'a Analysis) -> Self {
        // Filled in place, so that the array is not copied.
        let mut demands = Demands { analysis, literal, sorted: [(0.0, literal); cost::MAX_CONTEXT], len: 0 };
        for literal in analysis.normal.context(literal).take(cost::MAX_CONTEXT) {
            if analysis.access_predicate(literal).is_some() {
                demands.sorted[demands.len] = (analysis.share(literal), literal);
                demands.len += 1;
            }
        }
        demands.sorted[..demands.len].sort_by(|(a, _), (b, _)| a.total_cmp(b));
        demands
    }

    /// Returns the access predicate of the literal itself.
    pub fn access_predicate(&self) -> Option<&'a AccessPredicate> {
        self.analysis.access_predicate(self.literal)
    }

    /// Returns the demands, the most selective first.
    pub fn iter(&self) -> impl Iterator<Item = Demanded<'a>> + '_ {
        self.sorted[..self.len].iter().filter_map(|&(share, literal)| {
            Some(Demanded { literal, access_predicate: self.analysis.access_predicate(literal)?, share })
        })
    }
}

/// The part of a demand that the path to an entry has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coverage {
    Nothing,
    /// The path has a level of the same attribute.
    Partly,
    Wholly,
}

/// Returns the demand whose filter the fewest events pass, and their expected share.
///
/// `led` returns the part of a demand that the path to the entry has met. A demand that is met wholly needs no filter, and one
/// that is met partly counts as weakly selective. Returns `None` if no demand is left.
pub(crate) fn choose<'a>(
    demands: &Demands<'a>,
    led: impl Fn(&AccessPredicate) -> Coverage,
    catalog: &Catalog,
) -> Option<Demanded<'a>> {
    let mut least = 1.0;
    let mut chosen = None;
    for demanded in demands.iter() {
        let access_predicate = demanded.access_predicate;
        // At least as many events pass a filter as meet its demand.
        let fewest = lesser(cost::WEAK_SELECTIVITY, demanded.share);
        if fewest >= least {
            break;
        }
        let share = match (led(access_predicate), &access_predicate.values) {
            (Coverage::Wholly, _) => continue,
            (Coverage::Partly, _) => cost::WEAK_SELECTIVITY,
            // Nearly every event passes, but this demand may be the only one left to prove.
            (Coverage::Nothing, ValueSet::Except(_)) => fewest,
            (Coverage::Nothing, _) => filter::passing(access_predicate, &catalog.schema, &catalog.statistics),
        };
        if share < least {
            least = share;
            chosen = Some(Demanded { share, ..demanded });
        }
    }
    chosen
}
