//! Exports for the sandbox. They take and return numbers. The caller writes a graph to the module's memory.

use std::hint::black_box;

use crate::{minimum_tree, path, NO_EDGE};

/// Maximum terminals. The table of all subsets of more would not fit a 32-bit memory.
const MAX_TERMINALS: u32 = 24;

/// Allocates a graph without edges and returns the address of its weights: a row of `nodes` words for each node, in which
/// `u32::MAX` means no edge. The memory is never freed.
#[no_mangle]
pub extern "C" fn graph(nodes: usize) -> *mut u32 {
    let cells = nodes.checked_mul(nodes).expect("more nodes than memory");
    Box::leak(vec![NO_EDGE; cells].into_boxed_slice()).as_mut_ptr()
}

/// Returns the cost of a minimum tree that joins the nodes whose bits are set in `terminals`, or -1 if there is none.
///
/// # Safety
///
/// `weights` was returned by `graph` for the same number of nodes.
#[no_mangle]
pub unsafe extern "C" fn steiner(weights: *const u32, nodes: usize, terminals: u64) -> i64 {
    assert!(terminals.count_ones() <= MAX_TERMINALS, "more than {MAX_TERMINALS} terminals");
    // SAFETY: the caller's promise. If it is broken, the module reads its own memory or traps.
    let weights = unsafe { std::slice::from_raw_parts(weights, nodes * nodes) };
    let terminals: Vec<usize> = (0..64).filter(|bit| terminals >> bit & 1 == 1).collect();
    cost(minimum_tree(weights, nodes, &terminals))
}

/// Returns the cost of a minimum tree that joins all nodes of a path with edges of weight 1: `nodes - 1`.
#[no_mangle]
pub extern "C" fn steiner_path(nodes: u32) -> i64 {
    assert!(nodes <= MAX_TERMINALS, "more than {MAX_TERMINALS} terminals");
    let nodes = nodes as usize;
    let terminals: Vec<usize> = (0..nodes).collect();
    cost(minimum_tree(&path(nodes), nodes, &terminals))
}

/// Computes `steiner_path` `times` times, as work of any length. Returns the sum of the costs.
#[no_mangle]
pub extern "C" fn steiner_paths(nodes: u32, times: u32) -> i64 {
    (0..times).map(|_| steiner_path(black_box(nodes))).sum()
}

fn cost(cost: Option<u64>) -> i64 {
    cost.map_or(-1, |cost| cost as i64)
}
