//! Draws the tree in Graphviz's language: nodes with the ids of their leaf lists, value levels by attribute, and edges with
//! the values that lead from a level to a node.

use std::fmt::Write;

use super::label;
use crate::catalog::subscriptions::Placement;
use crate::handles::NodeId;
use crate::index::Index;
use crate::support::heap_sort::sort;
use crate::tree::level::Level;
use crate::tree::Branch;

/// The number of ids that a leaf list shows. A longer list shows their count instead.
const MAX_SHOWN_IDS: usize = 12;

/// Appends the picture of `index` to `out`.
///
/// ```
/// use be_tree_index::diagnostics::draw::draw;
/// use be_tree_index::index::Index;
/// # use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};
/// # let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
/// # let schema = Schema::new(vec![attribute("age", Type::Integer), attribute("city", Type::String)])?;
///
/// let mut picture = Vec::new();
/// draw(&Index::new(schema), &mut picture);
/// assert!(picture.starts_with(b"digraph betree {"));
/// # Ok::<(), be_tree_index::error::Error>(())
/// ```
pub fn draw(index: &Index, out: &mut Vec<u8>) {
    let mut picture = Picture { index, text: String::from("digraph betree {\n  node [fontname=\"monospace\"];\n") };
    picture.tree();
    picture.text.push_str("}\n");
    out.extend(picture.text.into_bytes());
}

struct Picture<'a> {
    index: &'a Index,
    text: String,
}

impl Picture<'_> {
    fn tree(&mut self) {
        let tree = self.index.tree();
        let dense = |placement: Placement| {
            matches!(placement, Placement::Dense(_) | Placement::Unindexed(_) | Placement::Scanned(_))
        };
        let subscriptions = self.index.subscriptions();
        let every =
            subscriptions.iter().filter(|(_, held)| dense(held.placement())).map(|(slot, _)| subscriptions.id(slot));
        let every: Vec<u64> = every.collect();
        if !every.is_empty() {
            self.line(format_args!("every [shape=box, label=\"every event\\n{}\"]", Ids(every)));
        }
        let mut nodes = vec![NodeId::ROOT];
        while let Some(id) = nodes.pop() {
            let node = tree.node(id);
            let entries = node.entries().iter().filter(|entry| !entry.is_joined());
            let slots = entries.map(|entry| entry.slot(self.index.catalog()));
            let ids: Vec<u64> = slots.map(|slot| subscriptions.id(slot)).collect();
            self.line(format_args!("node{id} [shape=box, label=\"{}\"]", Ids(ids)));
            for &Branch { attribute, level } in node.branches() {
                let name = &self.index.schema().attribute(attribute).name;
                self.line(format_args!("level{level} [shape=ellipse, label=\"{}\"]", Escaped(name)));
                self.line(format_args!("node{id} -> level{level}"));
                for (label, below) in self.edges(tree.level(level)) {
                    self.line(format_args!("level{level} -> node{below} [label=\"{}\"]", Escaped(&label)));
                    nodes.push(below);
                }
            }
        }
    }

    /// Returns the edges below `level`, in the order of the values.
    fn edges(&self, level: &Level) -> Vec<(String, NodeId)> {
        let attribute = level.attribute;
        let mut points: Vec<(i64, NodeId)> = level.points.iter().collect();
        sort(&mut points, |a, b| a < b);
        let points = points.into_iter().map(|(key, node)| (label::point(self.index, attribute, key), node));
        let buckets = (0..level.buckets.len()).filter_map(|position| {
            let label = label::bucket(self.index, attribute, level.buckets.range(position));
            Some((label, level.buckets.node(position)?))
        });
        let defined = level.defined.map(|node| (label::DEFINED.to_owned(), node));
        points.chain(buckets).chain(defined).collect()
    }

    fn line(&mut self, line: std::fmt::Arguments) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "  {line};");
    }
}

/// The ids of a list, ascending.
struct Ids(Vec<u64>);

impl std::fmt::Display for Ids {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        let mut ids = self.0.clone();
        ids.sort_unstable();
        ids.dedup();
        for (i, id) in ids.iter().take(MAX_SHOWN_IDS).enumerate() {
            write!(formatter, "{}{id}", if i == 0 { "" } else { ", " })?;
        }
        match ids.len().saturating_sub(MAX_SHOWN_IDS) {
            0 => Ok(()),
            more => write!(formatter, " and {more} more"),
        }
    }
}

/// A text, escaped for a quoted label.
struct Escaped<'a>(&'a str);

impl std::fmt::Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        for character in self.0.chars() {
            match character {
                '"' | '\\' => write!(formatter, "\\{character}")?,
                control if control.is_control() => write!(formatter, "\\\\u{:04x}", control as u32)?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Insertion;
    use crate::model::schema::{Attribute, Bounds, Schema, Type};

    #[test]
    fn a_picture_shows_lists_levels_and_values() {
        let attribute = |name: &str, ty| Attribute { name: name.into(), ty, optional: true, bounds: Bounds::Unbounded };
        let attributes = vec![attribute("a", Type::Integer), attribute("s", Type::String), attribute("f", Type::Float)];
        let mut index = Index::new(Schema::new(attributes).unwrap());
        let mut id = 0;
        let mut insert = |text: &str| {
            index.insert(&Insertion { id, text: text.as_bytes(), constants: vec![] }).unwrap();
            id += 1;
        };
        insert("not (a = 3)");
        (0..200).for_each(|i| insert(&format!("a = {i}")));
        (0..200).for_each(|i| insert(&format!("s = 'quo\"te\\\\{i}'")));
        (0..200).for_each(|i| insert(&format!("f > {i}.25 and f < {i}.75")));
        let mut out = Vec::new();
        draw(&index, &mut out);
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("digraph betree {\n") && text.ends_with("}\n"), "{text}");
        for part in [
            "every [shape=box, label=\"every event\\n0\"];",
            "[shape=ellipse, label=\"a\"];",
            "[label=\"3\"];",
            "[label=\"quo\\\"te\\\\7\"];",
            "[shape=ellipse, label=\"f\"];",
            "[label=\"to ",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
    }

    #[test]
    fn long_lists_are_cut_short() {
        assert_eq!(Ids((0..20).collect()).to_string(), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 8 more");
        assert_eq!(Escaped("a\n").to_string(), "a\\\\u000a");
    }
}
