//! Nodes by the single values that lead to them.
//!
//! A search asks dozens of tables of this kind for a key each, and what it asks lies anywhere in memory. So a table is made
//! of lines of 64 bytes: a key is in its own line or, where that was full, in the next that was not, and within a line it is
//! found without a branch. Most answers take one line, and a table grows by a quarter, not to double its size.

use std::hash::Hasher;

use hashbrown::HashMap;

use crate::handles::NodeId;
use crate::support::hash::{State, Words};
use crate::support::headroom::{ensure, AROUND};

/// Keys of a line.
const PLACES: usize = 8;

/// Stands for no node: the root, to which no value leads.
const NOTHING: NodeId = super::ROOT;

/// Nodes by their keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueMap {
    /// Those whose keys fit 32 bits: nearly all.
    narrow: Table,
    wide: Option<Box<Wide>>,
}

/// Nodes whose keys need 64 bits.
#[derive(Clone, Debug, Default)]
struct Wide {
    nodes: HashMap<i64, NodeId, State>,
    /// The keys of these nodes, which have no room for them.
    keys: HashMap<NodeId, i64, State>,
}

/// Lines, of which each key has one by its hash. A line that a key was too many for has stayed full since.
#[derive(Clone, Debug, Default)]
struct Table {
    lines: Vec<Line>,
    len: usize,
}

/// Some keys with their nodes, those first that there are.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    keys: [i32; PLACES],
    nodes: [NodeId; PLACES],
}

impl ValueMap {
    pub fn is_empty(&self) -> bool {
        self.narrow.len == 0 && self.wide().is_none_or(|wide| wide.nodes.is_empty())
    }

    /// The node of `key`. Not by a call, which would save, restore and check the fuel: searches ask for some sixty keys.
    #[inline(always)]
    pub fn get(&self, key: i64) -> Option<NodeId> {
        match i32::try_from(key) {
            Ok(key) => self.narrow.get(key),
            Err(_) => self.wide()?.nodes.get(&key).copied(),
        }
    }

    /// Adds a key that is not here.
    pub fn insert(&mut self, key: i64, node: NodeId) {
        match i32::try_from(key) {
            Ok(key) => self.narrow.insert(key, node),
            Err(_) => {
                let wide = self.wide.get_or_insert_default();
                wide.nodes.insert(key, node);
                wide.keys.insert(node, key);
            }
        }
    }

    pub fn remove(&mut self, key: i64) {
        match (i32::try_from(key), &mut self.wide) {
            (Ok(key), _) => self.narrow.remove(key),
            (Err(_), Some(wide)) => {
                let node = wide.nodes.remove(&key);
                node.and_then(|node| wide.keys.remove(&node));
            }
            (Err(_), None) => {}
        }
    }

    /// The key of `node`, which is here by one that does not fit 32 bits.
    pub fn wide_key(&self, node: NodeId) -> i64 {
        let Some(key) = self.wide().and_then(|wide| wide.keys.get(&node)) else { unreachable!("it has a wide key") };
        *key
    }

    /// Gives each node the number that `number` returns for the one it has. Allocates nothing.
    pub fn renumber(&mut self, number: impl Fn(NodeId) -> NodeId) {
        let nodes = self.narrow.lines.iter_mut().flat_map(|line| &mut line.nodes);
        nodes.filter(|node| **node != NOTHING).for_each(|node| *node = number(*node));
        if let Some(wide) = &mut self.wide {
            wide.nodes.values_mut().for_each(|node| *node = number(*node));
            // Emptied, it has room for as many as before.
            wide.keys.clear();
            wide.keys.extend(wide.nodes.iter().map(|(&key, &node)| (node, key)));
        }
    }

    /// Every key with its node, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, NodeId)> + '_ {
        let narrow = self.narrow.lines.iter().flat_map(Line::held).map(|(key, node)| (i64::from(key), node));
        narrow.chain(self.wide().into_iter().flat_map(|wide| wide.nodes.iter().map(|(&key, &node)| (key, node))))
    }

    /// Bytes that `more` keys may take, each time that they enlarge a table.
    pub fn growth(&self, narrow: usize, wide: usize) -> usize {
        let mut bytes = 0;
        let mut lines = self.narrow.lines.len();
        while narrow > 0 && self.narrow.len + narrow > lines * (PLACES - 1) {
            lines = enlarged(lines);
            bytes += lines * size_of::<Line>() + AROUND;
        }
        if wide > 0 {
            // Each of the two tables has a power of two of places, of which it fills seven eighths, each with a byte of
            // control, and doubles: all that it has had until then comes to as much again.
            let (len, capacity) = self.wide().map_or((0, 0), |wide| (wide.nodes.len(), wide.nodes.capacity()));
            bytes += size_of::<Wide>() + AROUND;
            if len + wide > capacity.min(self.wide().map_or(0, |wide| wide.keys.capacity())) {
                let places = (8 * (len + wide)).div_ceil(7).next_power_of_two().max(4);
                bytes += 4 * (2 * places * (size_of::<(i64, NodeId)>() + 1) + 8 * AROUND);
            }
        }
        bytes
    }

    fn wide(&self) -> Option<&Wide> {
        self.wide.as_deref()
    }
}

impl Table {
    /// The line of `key`; of a table without lines none.
    #[inline(always)]
    fn placement(&self, key: i32) -> usize {
        let hash = Words::default().add(key as u64).finish() >> 32;
        ((hash * self.lines.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, line: usize) -> usize {
        if line + 1 < self.lines.len() {
            line + 1
        } else {
            0
        }
    }

    #[inline(always)]
    fn get(&self, key: i32) -> Option<NodeId> {
        let mut at = self.placement(key);
        loop {
            let line = self.lines.get(at)?;
            let node = line.find(key);
            if node != NOTHING || !line.is_full() {
                return (node != NOTHING).then_some(node);
            }
            at = self.next(at);
        }
    }

    fn insert(&mut self, key: i32, node: NodeId) {
        // Seven eighths of all places, so that few keys are not in their own lines.
        if self.len >= self.lines.len() * (PLACES - 1) {
            self.resize(enlarged(self.lines.len()));
        }
        self.put(key, node);
        self.len += 1;
    }

    fn put(&mut self, key: i32, node: NodeId) {
        let mut at = self.placement(key);
        while self.lines[at].is_full() {
            at = self.next(at);
        }
        self.lines[at].push(key, node);
    }

    fn resize(&mut self, lines: usize) {
        let before = std::mem::replace(&mut self.lines, vec![Line::default(); lines]);
        before.iter().flat_map(Line::held).for_each(|(key, node)| self.put(key, node));
    }

    fn remove(&mut self, key: i32) {
        let mut hole = self.placement(key);
        let place = loop {
            match self.lines.get(hole).map(|line| (line.place(key), line.is_full())) {
                Some((Some(place), _)) => break place,
                Some((None, true)) => hole = self.next(hole),
                Some((None, false)) | None => return,
            }
        };
        self.take(hole, place);
        // More than half of it is empty: it gets as many lines as have room for a third more. Refused, it stays.
        let lines = (self.len + self.len / 3).div_ceil(PLACES - 1);
        if lines <= self.lines.len() / 2 && ensure(lines * size_of::<Line>()).is_ok() {
            self.resize(lines);
        }
    }

    /// Takes the key out that is at `place` of the line `hole`.
    fn take(&mut self, mut hole: usize, place: usize) {
        self.len -= 1;
        let mut was_full = self.lines[hole].is_full();
        self.lines[hole].take(place);
        // Keys behind a line that was full may have been too many for it, or for one before it.
        let mut at = hole;
        while was_full {
            at = self.next(at);
            was_full = self.lines[at].is_full();
            let displaced = self.lines[at].held().position(|(key, _)| self.passed(key, at, hole));
            if let Some(place) = displaced {
                let (key, node) = self.lines[at].take(place);
                self.lines[hole].push(key, node);
                hole = at;
            }
        }
    }

    /// Whether the way of `key`, which is in the line `at`, led past the line `hole`.
    fn passed(&self, key: i32, at: usize, hole: usize) -> bool {
        let before = |line: usize| (at + self.lines.len() - line) % self.lines.len();
        before(hole) <= before(self.placement(key))
    }
}

impl Line {
    /// The node of `key`.
    #[inline(always)]
    fn find(&self, key: i32) -> NodeId {
        let node = |(held, node): (i32, NodeId)| if held == key { node } else { NOTHING };
        self.keys.into_iter().zip(self.nodes).map(node).fold(NOTHING, |found, node| found | node)
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.nodes[PLACES - 1] != NOTHING
    }

    fn held(&self) -> impl Iterator<Item = (i32, NodeId)> + '_ {
        self.keys.into_iter().zip(self.nodes).take_while(|(_, node)| *node != NOTHING)
    }

    fn place(&self, key: i32) -> Option<usize> {
        self.held().position(|(held, _)| held == key)
    }

    fn push(&mut self, key: i32, node: NodeId) {
        let place = self.held().count();
        (self.keys[place], self.nodes[place]) = (key, node);
    }

    /// Takes out what is at `place`, where the last one is then.
    fn take(&mut self, place: usize) -> (i32, NodeId) {
        let taken = (self.keys[place], self.nodes[place]);
        let last = self.held().count() - 1;
        (self.keys[place], self.nodes[place]) = (self.keys[last], self.nodes[last]);
        (self.keys[last], self.nodes[last]) = (0, NOTHING);
        taken
    }
}

/// How many lines a table of `lines` has next.
fn enlarged(lines: usize) -> usize {
    lines + 1 + lines / 4
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// IdTable that are the same in every run.
    fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
        let mut state = seed;
        move |below| {
            state = Words::default().add(state + 1).finish();
            (state >> 32) % below
        }
    }

    #[test]
    fn points_are_what_a_plain_map_is() {
        for (seed, span, most) in [(1, 40, 30), (2, 3_000, 1_000), (3, 1_000_000_000_000, 500)] {
            let mut number = numbers(seed);
            let (mut points, mut plain) = (ValueMap::default(), BTreeMap::new());
            for step in 0..20_000 {
                let key = number(span) as i64 * 97 - span as i64;
                // Waves, in which the table fills and empties.
                let grows = step % 4_000 < 2_500;
                match plain.contains_key(&key) {
                    false if grows && plain.len() < most => {
                        let node = 1 + number(1 << 20) as NodeId;
                        points.insert(key, node);
                        plain.insert(key, node);
                    }
                    true if !grows => {
                        points.remove(key);
                        plain.remove(&key);
                    }
                    _ => points.remove(key + 1),
                }
                assert_eq!(points.get(key), plain.get(&key).copied());
                assert_eq!(points.is_empty(), plain.is_empty());
                if step % 50 == 0 {
                    let mut held: Vec<_> = points.iter().collect();
                    held.sort_unstable();
                    assert_eq!(held, plain.clone().into_iter().collect::<Vec<_>>());
                    assert!(plain.iter().all(|(key, node)| points.get(*key) == Some(*node)));
                }
            }
        }
    }
}
