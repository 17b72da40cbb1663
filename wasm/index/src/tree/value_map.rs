//! A value map finds nodes by the single values that lead to them.
//!
//! A search looks up one key in each of dozens of such tables, scattered in memory. So a table consists of lines of 64 bytes,
//! one cache line each. A key is in the line of its hash or, if that was full, in the next line with room. A look-up within a
//! line takes no branch. Most look-ups take one line. A table grows by a quarter instead of doubling.

use std::hash::Hasher;

use hashbrown::HashMap;

use crate::handles::NodeId;
use crate::support::footprint::{of_block, of_hash_map, of_table};
use crate::support::hash::{State, Words};
use crate::support::headroom::{ensure, AROUND};

/// The number of keys in a line.
const PLACES: usize = 8;

/// The mark of a place without a node: the root, to which no value leads.
const NOTHING: NodeId = NodeId::ROOT;

/// A map from keys to nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueMap {
    /// The keys that fit into 32 bits, which nearly all do.
    narrow: Table,
    wide: Option<Box<Wide>>,
}

/// A map for keys that need 64 bits.
#[derive(Clone, Debug, Default)]
struct Wide {
    nodes: HashMap<i64, NodeId, State>,
    /// The keys by node, because a node has no room for a wide key.
    keys: HashMap<NodeId, i64, State>,
}

/// A hash table of lines. The hash of a key selects its line. An overflowed line stays full, so a look-up ends at a line with room.
#[derive(Clone, Debug, Default)]
struct Table {
    lines: Vec<Line>,
    len: usize,
}

/// Some keys with their nodes. Used places come first.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    keys: [i32; PLACES],
    nodes: [NodeId; PLACES],
}

impl ValueMap {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of keys.
    pub fn len(&self) -> usize {
        self.narrow.len + self.wide().map_or(0, |wide| wide.nodes.len())
    }

    /// Returns the node of `key`. It is inlined because a call saves, restores and checks the fuel, and a search looks up
    /// some sixty keys.
    #[inline(always)]
    pub fn get(&self, key: i64) -> Option<NodeId> {
        match i32::try_from(key) {
            Ok(key) => self.narrow.get(key),
            Err(_) => self.wide()?.nodes.get(&key).copied(),
        }
    }

    /// Adds a new key.
    pub fn insert(&mut self, key: i64, node: NodeId) {
        debug_assert!(node != NOTHING && self.get(key).is_none(), "a new key leads to a node");
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

    /// Returns the key of `node`, which does not fit into 32 bits.
    pub fn wide_key(&self, node: NodeId) -> i64 {
        let Some(key) = self.wide().and_then(|wide| wide.keys.get(&node)) else { unreachable!("it has a wide key") };
        *key
    }

    /// Replaces the number of each node by the number that `number` returns for it. Allocates nothing.
    pub fn renumber(&mut self, number: impl Fn(NodeId) -> NodeId) {
        let nodes = self.narrow.lines.iter_mut().flat_map(|line| &mut line.nodes);
        nodes.filter(|node| **node != NOTHING).for_each(|node| *node = number(*node));
        if let Some(wide) = &mut self.wide {
            wide.nodes.values_mut().for_each(|node| *node = number(*node));
            // The cleared table keeps its capacity.
            wide.keys.clear();
            wide.keys.extend(wide.nodes.iter().map(|(&key, &node)| (node, key)));
        }
    }

    /// Returns every key with its node, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (i64, NodeId)> + '_ {
        let narrow = self.narrow.lines.iter().flat_map(Line::held).map(|(key, node)| (i64::from(key), node));
        narrow.chain(self.wide().into_iter().flat_map(|wide| wide.nodes.iter().map(|(&key, &node)| (key, node))))
    }

    /// Returns the heap bytes of the map.
    pub fn heap_bytes(&self) -> usize {
        let of_wide = |wide: &Wide| of_block(size_of::<Wide>()) + of_hash_map(&wide.nodes) + of_hash_map(&wide.keys);
        of_table(&self.narrow.lines) + self.wide().map_or(0, of_wide)
    }

    /// Returns an upper bound of the bytes that adding keys requests, one growth after the other.
    pub fn growth(&self, narrow: usize, wide: usize) -> usize {
        let mut bytes = 0;
        let mut lines = self.narrow.lines.len();
        while narrow > 0 && self.narrow.len + narrow > lines * (PLACES - 1) {
            lines = enlarged(lines);
            bytes += lines * size_of::<Line>() + AROUND;
        }
        if wide > 0 {
            // Each of the two tables has a power of two of buckets with a control byte each, and doubles when seven eighths
            // are full. All earlier sizes together take as much again.
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
    /// Returns the position of the line of `key`. In an empty table there is no line at that position.
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
        // A load of seven eighths keeps most keys in their own lines.
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
        // The table is less than half full. It shrinks to a third more than it needs. After a refusal it stays.
        let lines = (self.len + self.len / 3).div_ceil(PLACES - 1);
        if lines <= self.lines.len() / 2 && ensure(lines * size_of::<Line>()).is_ok() {
            self.resize(lines);
        }
    }

    /// Removes the key at `place` of the line `hole`.
    fn take(&mut self, mut hole: usize, place: usize) {
        self.len -= 1;
        let mut was_full = self.lines[hole].is_full();
        self.lines[hole].take(place);
        // Keys after a full line may have overflowed from it, or from a line before it.
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

    /// Returns whether the probe path of `key`, which is in the line `at`, passes the line `hole`.
    fn passed(&self, key: i32, at: usize, hole: usize) -> bool {
        let before = |line: usize| (at + self.lines.len() - line) % self.lines.len();
        before(hole) <= before(self.placement(key))
    }
}

impl Line {
    /// Returns the node of `key`, or [`NOTHING`].
    #[inline(always)]
    fn find(&self, key: i32) -> NodeId {
        let word = |(held, node): (i32, NodeId)| if held == key { node.word() } else { NOTHING.word() };
        let words = self.keys.into_iter().zip(self.nodes).map(word);
        NodeId::from_word(words.fold(NOTHING.word(), |found, word| found | word))
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

    /// Removes the key at `place`. The last one takes its place.
    fn take(&mut self, place: usize) -> (i32, NodeId) {
        let taken = (self.keys[place], self.nodes[place]);
        let last = self.held().count() - 1;
        (self.keys[place], self.nodes[place]) = (self.keys[last], self.nodes[last]);
        (self.keys[last], self.nodes[last]) = (0, NOTHING);
        taken
    }
}

/// Returns the next size of a table of `lines` lines.
fn enlarged(lines: usize) -> usize {
    lines + 1 + lines / 4
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A source of numbers that are the same in every run.
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
                // The table fills and empties in waves.
                let grows = step % 4_000 < 2_500;
                match plain.contains_key(&key) {
                    false if grows && plain.len() < most => {
                        let node = NodeId::from_index(1 + number(1 << 20) as usize);
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
