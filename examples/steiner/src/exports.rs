//! What the sandbox calls. Numbers go in and come out; a graph is written into the module's memory.

use std::hint::black_box;

use crate::{minimum_tree, path, NO_EDGE};

/// Terminals are the bits of a word, and of the table over their sets a 32-bit memory holds no more than this.
const MOST_TERMINALS: u32 = 24;

/// Makes room for a graph without edges, and answers the address of its weights: a row of `nodes` words for each node,
/// in which `u32::MAX` stands for no edge. It is kept until the instance is gone.
#[no_mangle]
pub extern "C" fn graph(nodes: usize) -> *mut u32 {
    let cells = nodes.checked_mul(nodes).expect("more nodes than memory");
    Box::leak(vec![NO_EDGE; cells].into_boxed_slice()).as_mut_ptr()
}

/// The cost of a minimum tree that joins the nodes whose bits are set in `terminals`, or -1 where no tree does.
///
/// # Safety
///
/// `weights` is what `graph` answered for the same number of nodes.
#[no_mangle]
pub unsafe extern "C" fn steiner(weights: *const u32, nodes: usize, terminals: u64) -> i64 {
    assert!(terminals.count_ones() <= MOST_TERMINALS, "more than {MOST_TERMINALS} terminals");
    // SAFETY: the caller's promise. One that breaks it has the module read its own memory or trap.
    let weights = unsafe { std::slice::from_raw_parts(weights, nodes * nodes) };
    let terminals: Vec<usize> = (0..64).filter(|bit| terminals >> bit & 1 == 1).collect();
    cost(minimum_tree(weights, nodes, &terminals))
}

/// The cost of a minimum tree that joins all nodes of a path, each edge of weight 1: one less than there are nodes.
#[no_mangle]
pub extern "C" fn steiner_path(nodes: u32) -> i64 {
    assert!(nodes <= MOST_TERMINALS, "more than {MOST_TERMINALS} terminals");
    let nodes = nodes as usize;
    let terminals: Vec<usize> = (0..nodes).collect();
    cost(minimum_tree(&path(nodes), nodes, &terminals))
}

/// `steiner_path`, computed anew so many `times`: work for as long as one likes. Answers the sum of the costs.
#[no_mangle]
pub extern "C" fn steiner_paths(nodes: u32, times: u32) -> i64 {
    (0..times).map(|_| steiner_path(black_box(nodes))).sum()
}

fn cost(cost: Option<u64>) -> i64 {
    cost.map_or(-1, |cost| cost as i64)
}
