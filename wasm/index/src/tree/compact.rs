//! Compaction frees unused numbers of nodes and levels: the greatest used numbers move down, and both tables shrink. It runs
//! if many numbers are free, so its amortized cost is low.

use crate::error::Error;
use crate::handles::{LevelId, NodeId};
use crate::support::hash::out_of_memory;
use crate::support::headroom::trim;
use crate::tree::{Node, Position, Tree};

/// A free list of at most this number of nodes or levels is never compacted.
const MAX_FREE: usize = 16;

impl Tree {
    /// Shrinks the tables of nodes and levels if many are free.
    pub(super) fn compact(&mut self) {
        if is_sparse(self.free_nodes, self.nodes.len()) {
            // After a refusal, the next deletion tries again.
            let _ = self.compact_nodes();
        }
        if is_sparse(self.free_levels.len(), self.levels.len()) {
            self.compact_levels();
        }
    }

    /// Shrinks the table of nodes. Errors: out of memory; nothing changes.
    fn compact_nodes(&mut self) -> Result<(), Error> {
        let used = self.nodes.len() - self.free_nodes;
        // The new number of each node beyond the new end.
        let mut moved: Vec<NodeId> = Vec::new();
        moved.try_reserve_exact(self.free_nodes).map_err(out_of_memory)?;
        let mut hole = 0;
        for from in used..self.nodes.len() {
            if self.nodes[from].is_free() {
                moved.push(NodeId::NONE);
                continue;
            }
            while !self.nodes[hole].is_free() {
                hole += 1;
            }
            self.nodes[hole] = std::mem::replace(&mut self.nodes[from], Node::new(Position::Free(NodeId::ROOT)));
            moved.push(NodeId::from_index(hole));
        }
        self.nodes.truncate(used);
        debug_assert!(self.nodes.iter().all(|node| !node.is_free()), "all nodes that are left are used");
        self.free_node = NodeId::ROOT;
        self.free_nodes = 0;
        let number = |node: NodeId| moved.get(node.index().wrapping_sub(used)).copied().unwrap_or(node);
        self.levels.iter_mut().for_each(|level| level.renumber(number));
        Ok(())
    }

    /// Shrinks the table of levels. Each level moves at most once, because it may lead to many nodes. Allocates nothing.
    fn compact_levels(&mut self) {
        let Tree { nodes, levels, free_levels, .. } = self;
        let used = levels.len() - free_levels.len();
        free_levels.sort_unstable();
        let (holes, behind) = free_levels.split_at(free_levels.partition_point(|free| free.index() < used));
        let is_used = |from: &usize| behind.binary_search(&LevelId::from_index(*from)).is_err();
        for (from, &hole) in (used..levels.len()).filter(is_used).zip(holes) {
            levels.swap(from, hole.index());
            let moved = &levels[hole.index()];
            nodes[moved.owner.index()].renumber_branch(LevelId::from_index(from), hole);
            moved.nodes().for_each(|node| nodes[node.index()].set_level_above(hole));
        }
        levels.truncate(used);
        free_levels.clear();
        trim(levels);
        free_levels.shrink_to(levels.capacity());
    }
}

/// Returns whether more than a quarter of a table is free.
fn is_sparse(free: usize, len: usize) -> bool {
    free > len / 4 + MAX_FREE
}
