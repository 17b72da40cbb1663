//! Demands are the conditions that an event must meet for one literal to make an expression true.

use crate::compile::normal::NodeIndex;
use crate::plan::access_predicate::AccessPredicate;
use crate::plan::analysis::Analysis;

/// The demands of a literal's context, the most selective first. The tree needs the order at every node that an insertion
/// passes.
#[derive(Clone, Debug)]
pub(crate) struct Demands<'a> {
    pub analysis: &'a Analysis,
    pub literal: NodeIndex,
    sorted: Vec<Demanded<'a>>,
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
        Self::again(literal, analysis, Vec::new())
    }

    /// Like [`Demands::of`], but reuses the memory of earlier demands.
    pub fn again(literal: NodeIndex, analysis: &'a Analysis, mut sorted: Vec<Demanded<'a>>) -> Self {
        sorted.clear();
        sorted.reserve_exact(analysis.most_demands());
        let demanded =
            |(literal, access_predicate)| Demanded { literal, access_predicate, share: analysis.share(literal) };
        sorted.extend(analysis.context(literal).map(demanded));
        sorted.sort_by(|a, b| a.share.total_cmp(&b.share));
        Demands { analysis, literal, sorted }
    }

    /// Returns the memory for reuse.
    pub fn into_memory(self) -> Vec<Demanded<'a>> {
        self.sorted
    }

    /// Returns the access predicate of the literal itself.
    pub fn own(&self) -> Option<&'a AccessPredicate> {
        self.analysis.access_predicate(self.literal)
    }

    /// Returns the demands, the most selective first.
    pub fn iter(&self) -> impl Iterator<Item = &Demanded<'a>> {
        self.sorted.iter()
    }
}
