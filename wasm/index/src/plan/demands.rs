//! What an event must meet for one literal to make an expression true, and how many events are expected to.

use crate::compile::normal::NodeIndex;
use crate::plan::access_predicate::AccessPredicate;
use crate::plan::analysis::Analysis;

/// All that is demanded by the context of a literal, what the fewest events meet first. Whoever places an expression asks
/// for that at every node that it passes.
#[derive(Clone, Debug)]
pub(crate) struct Demands<'a> {
    pub analysis: &'a Analysis,
    pub literal: NodeIndex,
    sorted: Vec<Demanded<'a>>,
}

/// One of these demands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demanded<'a> {
    /// The literal that demands it.
    pub literal: NodeIndex,
    pub access_predicate: &'a AccessPredicate,
    /// The share of events that are expected to meet it.
    pub share: f32,
}

impl<'a> Demands<'a> {
    /// What is demanded for the `literal` of what `analysis` is about.
    pub fn of(literal: NodeIndex, analysis: &'a Analysis) -> Self {
        Self::again(literal, analysis, Vec::new())
    }

    /// The same, in the memory of earlier demands.
    pub fn again(literal: NodeIndex, analysis: &'a Analysis, mut sorted: Vec<Demanded<'a>>) -> Self {
        sorted.clear();
        sorted.reserve_exact(analysis.most_demands());
        let demanded =
            |(literal, access_predicate)| Demanded { literal, access_predicate, share: analysis.share(literal) };
        sorted.extend(analysis.context(literal).map(demanded));
        sorted.sort_by(|a, b| a.share.total_cmp(&b.share));
        Demands { analysis, literal, sorted }
    }

    /// What is not needed any more, so that its memory can be used again.
    pub fn into_memory(self) -> Vec<Demanded<'a>> {
        self.sorted
    }

    /// The access_predicate of the literal itself.
    pub fn own(&self) -> Option<&'a AccessPredicate> {
        self.analysis.access_predicate(self.literal)
    }

    /// What the fewest events meet first.
    pub fn iter(&self) -> impl Iterator<Item = &Demanded<'a>> {
        self.sorted.iter()
    }
}
