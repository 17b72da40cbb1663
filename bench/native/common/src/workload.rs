//! A workload, read from its folder.

use std::collections::HashMap;

use be_tree_index::event::Format;
use be_tree_index::model::predicate::Postfix;
use be_tree_index::model::schema::{Attribute, Bounds, Schema, Type};

/// The events in one format, encoded for the index.
pub struct Events {
    pub format: Format,
    pub code: i32,
    pub bytes: Vec<Vec<u8>>,
}

impl Events {
    /// Writes the events of `range` as a batch: each after its format and length.
    pub fn write_frames(&self, range: std::ops::Range<usize>, out: &mut Vec<u8>) {
        out.clear();
        for event in &self.bytes[range] {
            out.extend_from_slice(&self.code.to_le_bytes());
            out.extend_from_slice(&(event.len() as u32).to_le_bytes());
            out.extend_from_slice(event);
        }
    }
}

pub struct Workload {
    pub attributes: Vec<Attribute>,
    pub schema: Schema,
    /// The texts of the expressions. Their ids count from 1.
    pub expressions: Vec<String>,
    events: HashMap<String, Events>,
}

impl Workload {
    /// Reads `domains` and `expressions`, in be-tree's lines, and the existing files among `events.term`, `events.json` and
    /// `events.record`. Each event follows its length in 4 little-endian bytes.
    pub fn read(folder: &str) -> Result<Workload, String> {
        let attributes = read_text(folder, "domains")?.lines().map(attribute).collect::<Result<Vec<_>, _>>()?;
        let schema = Schema::new(attributes.clone()).map_err(|error| error.message)?;
        let expressions = read_text(folder, "expressions")?.lines().map(str::to_owned).collect();
        let mut events = HashMap::new();
        for (name, format, code) in
            [("term", Format::Term, 0), ("json", Format::Json, 1), ("record", Format::Record, 2)]
        {
            let path = format!("{folder}/events.{name}");
            if let Ok(file) = std::fs::read(&path) {
                let bytes = frames(&file).ok_or_else(|| format!("{path} ends within an event"))?;
                events.insert(name.to_owned(), Events { format, code, bytes });
            }
        }
        Ok(Workload { attributes, schema, expressions, events })
    }

    /// Returns the events in the format `name`.
    pub fn events_in(&self, name: &str) -> Result<&Events, String> {
        self.events.get(name).ok_or_else(|| format!("there are no events in the format {name}"))
    }

    /// Returns the number of events, which is the same in every format.
    pub fn events(&self) -> usize {
        self.events.values().map(|events| events.bytes.len()).max().unwrap_or(0)
    }

    /// Returns the length of the longest event in any format.
    pub fn longest_event(&self) -> usize {
        self.events.values().flat_map(|events| &events.bytes).map(Vec::len).max().unwrap_or(0)
    }

    /// Returns each expression with its id, in postfix order.
    pub fn parsed(&self) -> impl Iterator<Item = Result<(u64, Postfix), String>> + '_ {
        (1..).zip(&self.expressions).map(|(id, text)| {
            let postfix = be_tree_index::language::read(text.as_bytes(), &self.schema, &[]);
            Ok((id, postfix.map_err(|error| format!("expression {id}: {}", error.message))?))
        })
    }
}

fn read_text(folder: &str, name: &str) -> Result<String, String> {
    let path = format!("{folder}/{name}");
    std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
}

/// Reads `name|type|optional`, then `|min|max` or `|count`.
fn attribute(line: &str) -> Result<Attribute, String> {
    parse_attribute(line).ok_or_else(|| format!("this is not a declaration: {line}"))
}

fn parse_attribute(line: &str) -> Option<Attribute> {
    let mut fields = line.split('|');
    let name = fields.next()?.to_owned();
    let type_name = fields.next()?.replace(' ', "_");
    let (_, ty) = *Type::NAMES.iter().find(|(name, _)| *name == type_name)?;
    let optional = fields.next()?.parse().ok()?;
    let bounds = match (fields.next(), fields.next()) {
        (None, _) => Bounds::Unbounded,
        (Some(count), None) => Bounds::Count(count.parse().ok()?),
        (Some(min), Some(max)) if ty == Type::Float => Bounds::Float { min: min.parse().ok()?, max: max.parse().ok()? },
        (Some(min), Some(max)) => Bounds::Integer { min: min.parse().ok()?, max: max.parse().ok()? },
    };
    Some(Attribute { name, ty, optional, bounds })
}

fn frames(mut file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut frames = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_first_chunk::<4>()?;
        let (frame, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        frames.push(frame.to_vec());
        file = rest;
    }
    Some(frames)
}
