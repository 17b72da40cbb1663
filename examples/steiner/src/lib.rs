//! Minimum Steiner trees: the cheapest edges of a graph that join some of its nodes, the terminals.
//!
//! This is ordinary code: it reads no clock, saves no progress and never yields. The sandbox suspends it at any instruction
//! and resumes it later.

#![warn(missing_docs)]

mod exports;

/// The weight that stands for no edge.
pub const NO_EDGE: u32 = u32::MAX;

/// The distance of unconnected nodes. It exceeds the length of any path, and the sum of two fits a `u64`.
const APART: u64 = 1 << 62;

/// Returns the cost of a minimum Steiner tree, or `None` if the terminals are not connected.
///
/// `weights` is a square matrix, row by row. An edge has its weight in one of its two cells, or in both, and then the smaller
/// one counts. `terminals` are nodes.
///
/// The algorithm is that of S. E. Dreyfus and R. A. Wagner, "The Steiner problem in graphs", Networks 1 (1971). For `n` nodes
/// and `k` terminals it takes O(3^k n + 2^k n^2 + n^3) time and O(2^k n) memory.
pub fn minimum_tree(weights: &[u32], nodes: usize, terminals: &[usize]) -> Option<u64> {
    let Some((&root, others)) = terminals.split_last() else { return Some(0) };
    let distances = distances(weights, nodes);
    let all = (1_usize << others.len()) - 1;
    if all == 0 {
        return Some(0);
    }

    // `costs[set][node]` is the cost of a minimum tree that joins the terminals of `set` and `node`.
    let cells = nodes.checked_mul(all + 1).expect("more sets than memory");
    let mut trees = vec![APART; cells];
    let mut merged = vec![APART; nodes];
    for set in 1..=all {
        if set & (set - 1) == 0 {
            let terminal = others[set.trailing_zeros() as usize];
            trees[row(set, nodes)].copy_from_slice(&distances[row(terminal, nodes)]);
            continue;
        }
        merge_parts(&trees, nodes, set, &mut merged);
        for (node, cost) in trees[row(set, nodes)].iter_mut().enumerate() {
            let ways = distances[row(node, nodes)].iter().zip(&merged).map(|(way, tree)| way + tree);
            *cost = ways.min().unwrap_or(APART).min(APART);
        }
    }
    Some(trees[all * nodes + root]).filter(|cost| *cost < APART)
}

/// Computes for each node the minimum cost of two trees that meet there and divide the terminals of `set`.
fn merge_parts(trees: &[u64], nodes: usize, set: usize, merged: &mut [u64]) {
    merged.fill(APART);
    // Each division occurs once: the first part has the lowest terminal.
    let lowest = set & set.wrapping_neg();
    let rest = set ^ lowest;
    let mut second = rest;
    while second != 0 {
        let first = set ^ second;
        let parts = trees[row(first, nodes)].iter().zip(&trees[row(second, nodes)]);
        for (cost, (first, second)) in merged.iter_mut().zip(parts) {
            *cost = (*cost).min(first + second);
        }
        second = (second - 1) & rest;
    }
}

/// Returns the length of a shortest path between any two nodes, by the algorithm of Floyd and Warshall.
fn distances(weights: &[u32], nodes: usize) -> Vec<u64> {
    let edge = |weight: u32| if weight == NO_EDGE { APART } else { weight.into() };
    let mut distances = vec![APART; nodes * nodes];
    for from in 0..nodes {
        for to in 0..nodes {
            distances[from * nodes + to] = edge(weights[from * nodes + to].min(weights[to * nodes + from]));
        }
        distances[from * nodes + from] = 0;
    }
    for via in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                let detour = distances[from * nodes + via] + distances[via * nodes + to];
                let direct = &mut distances[from * nodes + to];
                *direct = (*direct).min(detour);
            }
        }
    }
    distances
}

fn row(index: usize, nodes: usize) -> std::ops::Range<usize> {
    index * nodes..(index + 1) * nodes
}

/// Returns the weights of a path, which has an edge of weight 1 between each node and the next.
pub fn path(nodes: usize) -> Vec<u32> {
    let mut weights = vec![NO_EDGE; nodes * nodes];
    for node in 1..nodes {
        weights[(node - 1) * nodes + node] = 1;
    }
    weights
}
